"""`out/prove/mutants.json`: what became of each mutant, so that a long run can be continued."""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mutation.equivalent import EQUIVALENT
from mutation.mutants import Mutant

FILE = Path("out/prove/mutants.json")


def digest(files: Iterable[Path]) -> str:
    """What a result depends on: mutated source and tests, but for their white space."""
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(b" ".join(file.read_bytes().split()))
    return whole.hexdigest()[:16]


class Record:
    """The results of one part. `of`: the digest of its files; results of other files are thrown away."""

    def __init__(self, part: str, of: str) -> None:
        self.part = part
        self.results: dict[str, str] = {}
        before = self._all().get(part, {})
        if before.get("of") == of:
            self.results = dict(before["results"])
        self.of = of

    @staticmethod
    def _all() -> dict[str, Any]:
        return json.loads(FILE.read_text()) if FILE.exists() else {}

    def todo(self, mutants: Iterable[Mutant]) -> set[str]:
        return {m.key for m in mutants} - set(self.results)

    def note(self, mutant: Mutant, survived: bool) -> None:
        reason = EQUIVALENT.get((mutant.file, mutant.key))
        self.results[mutant.key] = "killed" if not survived else f"equivalent: {reason}" if reason else "survived"
        self.save()

    def save(self) -> None:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        scratch = FILE.with_suffix(".new")
        part = {"of": self.of, **self.counts(), "results": self.results}
        with FILE.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two parts may run at once
            scratch.write_text(json.dumps(self._all() | {self.part: part}, indent=1, ensure_ascii=False) + "\n")
            scratch.replace(FILE)

    def counts(self) -> dict[str, int]:
        values = [v.split(":")[0] for v in self.results.values()]
        return {name: values.count(name) for name in ("killed", "survived", "equivalent")}

    def killed_all_the_same(self, file: str) -> list[str]:
        """Keys of `EQUIVALENT` that a test tells apart."""
        return [key for name, key in EQUIVALENT if name == file and self.results.get(key) == "killed"]

    @property
    def survivors(self) -> list[str]:
        return [key for key, value in self.results.items() if value == "survived"]
