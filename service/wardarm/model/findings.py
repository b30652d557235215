"""What a check found: one line a point, with what was seen and what to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Status = Literal["ok", "bad", "note", "skipped"]


@dataclass(frozen=True)
class Finding:
    """`status` bad: the file must not be served. note: worth knowing. skipped: could not be looked at here."""

    name: str
    status: Status
    seen: str
    advice: str = ""


@dataclass
class Findings:
    """Findings in order. `figures`: numbers for `--json`, with units in their names."""

    items: list[Finding] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(f.status != "bad" for f in self.items)

    def add(self, name: str, status: Status, seen: str, advice: str = "") -> None:
        self.items.append(Finding(name, status, seen, advice))

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [asdict(f) for f in self.items], **self.figures}

    def first_bad(self) -> str:
        """One sentence: what is wrong and what to do; '' if nothing is."""
        bad = next((f for f in self.items if f.status == "bad"), None)
        return "" if bad is None else f"{bad.name}: {bad.seen}" + (f"; {bad.advice}" if bad.advice else "")
