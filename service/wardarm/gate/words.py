"""Words on the board: who says *go on*, who says *hold*, whose word is late, whose process died.

A word is true for `deadline_s` after its beat. A block that is missing, torn, from another version or written by nobody
yet gives a late word, never an error: nobody waits for a writer. `arm` reads the same board to record why.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wardarm.gate.lives import Life
from wardarm.shm import ring
from wardarm.shm.layouts import TEXT, WORD, BlockKind, HoldReason, ProcessId

# The detail of the last status or word after an orderly end.
GATE_FAREWELL, ARM_FAREWELL = "gate ended", "arm ended"
_REOPEN_S = 0.2  # how often a missing or replaced block is looked for


class BlockWatch:
    """The newest payload of one block, opened when it appears and again when its file was made anew."""

    def __init__(self, kind: BlockKind, prefix: str, process: ProcessId | None = None) -> None:
        self._kind, self._prefix, self._process = kind, prefix, process
        self._reader: ring.Reader | None = None
        self._slot: ring.Slot | None = None
        self._next_look_s = 0.0
        self._life = Life()
        self.replaced_count = 0  # how often another file took this one's place

    def reader(self) -> ring.Reader | None:
        now = time.monotonic()
        if now >= self._next_look_s:
            self._next_look_s = now + _REOPEN_S
            if self._reader is not None and self._reader.replaced():
                self._reader = self._slot = None
                self.replaced_count += 1
            if self._reader is None:
                try:
                    self._reader = ring.Reader(self._kind, self._prefix, self._process)
                except (ring.BlockError, OSError):
                    return None
        return self._reader

    def latest(self) -> ring.Slot | None:
        """The newest payload; the same object until there is a newer one."""
        reader = self.reader()
        if reader is None:
            self._slot = None
        elif self._slot is None or reader.generation != self._slot.generation:
            self._slot = reader.latest()
        return self._slot

    def writer_ended(self) -> bool:
        """The process that wrote it is gone and no other has taken over. False while there is no block or no writer yet."""
        reader = self.reader()
        return reader is not None and self._life.ended(reader.head)

    def beat_age_s(self) -> float:
        """Since its writer last said that it lives (the header's beat); infinite if there is no block or no beat yet."""
        reader = self.reader()
        beat_ns = reader.beat_ns if reader is not None else 0
        return (time.monotonic_ns() - beat_ns) * 1e-9 if beat_ns else float("inf")


@dataclass(frozen=True, slots=True)
class Heard:
    """One word as a reader sees it. `age_s` is infinite if there is none."""

    process: ProcessId
    ok: bool
    age_s: float
    hold_seq: int
    reason: HoldReason
    detail: str
    late: bool
    ended: bool = False  # its process died: late at once

    @property
    def true(self) -> bool:
        """What motion needs: said, said lately, and said yes."""
        return self.ok and not self.late

    @property
    def slow(self) -> bool:
        """It says *go on, but gently*, and `reason` says why."""
        return self.true and self.reason is not HoldReason.NONE

    def why(self) -> str:
        """Plain words for a status line."""
        if self.ended:
            return f"{self.process.name.lower()}: its process ended"
        if self.late:
            return (
                f"{self.process.name.lower()}: no word yet"
                if self.age_s == float("inf")
                else f"{self.process.name.lower()}: last word {self.age_s * 1e3:.0f} ms ago"
            )
        return f"{self.process.name.lower()}: {self.detail or self.reason.name.lower()}"


def _reason(value: int) -> HoldReason:
    try:
        return HoldReason(value)
    except ValueError:
        return HoldReason.WATCHDOG


class WordBoard:
    """Reads the words of `processes`."""

    def __init__(self, processes: Iterable[ProcessId], prefix: str, deadline_s: float) -> None:
        self.processes = tuple(processes)
        self.deadline_s = deadline_s
        self._blocks = {p: BlockWatch(BlockKind.WORD, prefix, p) for p in self.processes}

    def hear(self, process: ProcessId) -> Heard:
        slot = self._blocks[process].latest()
        if slot is None:
            return Heard(process, False, float("inf"), 0, HoldReason.STARTING, "no word yet", True)
        word = slot.data
        age_s = (time.monotonic_ns() - int(word["beat_ns"])) * 1e-9
        ended = self._blocks[process].writer_ended()
        # a beat from the future is no beat, and a dead process's last word is nobody's
        late = ended or not -self.deadline_s <= age_s <= self.deadline_s
        ok = bool(word["ok"]) and int(word["process"]) == process
        reason = _reason(int(word["reason"]))
        detail = "" if ok and not late and reason is HoldReason.NONE else ring.text(word["detail"])
        return Heard(process, ok, age_s, int(word["hold_seq"]), reason, detail, late, ended)

    def hear_all(self) -> list[Heard]:
        return [self.hear(p) for p in self.processes]


class OwnWord:
    """This process's word: written every `beat_s`, and at once when it changes."""

    def __init__(self, process: ProcessId, prefix: str, beat_s: float) -> None:
        self._writer = ring.Writer(BlockKind.WORD, prefix, process)
        self._word = np.zeros((), WORD)
        self._word["process"] = process
        self._beat_ns = int(beat_s * 1e9)
        self._said: tuple[bool, HoldReason, str] | None = None
        last = ring.Reader(BlockKind.WORD, prefix, process).latest()
        self._hold_seq = int(last.data["hold_seq"]) if last is not None else 0  # a restart never re-uses a number
        self._last_ns = 0

    def say(self, ok: bool, reason: HoldReason = HoldReason.NONE, detail: str = "") -> None:
        """Renew the word. A new reason to hold counts `hold_seq` up. True with a reason: go on, but gently."""
        now = time.monotonic_ns()
        said = (ok, reason, "" if ok and reason is HoldReason.NONE else detail)
        if said == self._said and now - self._last_ns < self._beat_ns:
            return
        if said != self._said:
            if not ok and (self._said is None or self._said[:2] != said[:2]):
                self._hold_seq += 1
            self._said = said
            self._word["ok"], self._word["reason"] = ok, said[1]
            self._word["detail"] = ring.encode(said[2], TEXT)
            self._word["hold_seq"] = self._hold_seq
        self._word["beat_ns"] = self._last_ns = now
        self._writer.publish(self._word)
