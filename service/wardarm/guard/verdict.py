"""What guard's word says, and its text."""

from __future__ import annotations

from dataclasses import dataclass

from wardarm.shm.layouts import TEXT, HoldReason


@dataclass(frozen=True)
class Verdict:
    """`slow`: go on, but gently; `reason` says why."""

    reason: HoldReason
    detail: str
    slow: bool = False

    @property
    def ok(self) -> bool:
        return self.reason is HoldReason.NONE or self.slow


def fitting(parts: list[str]) -> str:
    """The parts joined, as many as the word has room for, never cut in the middle of one: "a; b; 2 more"."""
    limit = TEXT - 1
    for count in range(len(parts), 0, -1):
        more = f"; {len(parts) - count} more" if count < len(parts) else ""
        text = "; ".join(parts[:count]) + more
        if len(text.encode()) <= limit:
            return text
    return (
        _cut(parts[0], limit - len(more.encode()) if parts[1:] else limit) + (more if parts[1:] else "")
        if parts
        else ""
    )


def _cut(text: str, limit: int) -> str:
    """At most `limit` bytes, ended at a word."""
    if len(text.encode()) <= limit:
        return text
    short = text.encode()[: limit - 3].decode("utf-8", "ignore")
    return (short.rpartition(" ")[0] or short) + "..."
