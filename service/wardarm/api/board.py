"""What the other processes say: one checked copy of each shared-memory block a tick.

Blocks may appear, be remade or go silent at any time; a reading older than its limit counts as absent.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from wardarm.config import Config
from wardarm.gate.words import ARM_FAREWELL, GATE_FAREWELL
from wardarm.processes import enabled, required_words
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

ARM_STALE_S = 0.5  # 60 samples of the 125 Hz status
GATE_STALE_S = 0.5
REOPEN_S = 0.5  # look for a new or remade block this often


@dataclass(frozen=True)
class WordReading:
    """What one process says about itself. `age_s` is infinite if it never spoke."""

    process: ProcessId
    ok: bool
    age_s: float
    reason: HoldReason
    hold_seq: int
    detail: str
    required: bool


@dataclass(frozen=True)
class Picture:
    """Everything read in one tick. `arm`, `gate`, `progress`: payloads (numpy.void), None if absent or too old."""

    taken_ns: int
    arm: Any = None
    arm_age_s: float = float("inf")
    gate: Any = None
    progress: Any = None
    words: dict[ProcessId, WordReading] = field(default_factory=dict)


class _Source:
    """A reader that opens its block once it is there and again when it was remade."""

    def __init__(self, kind: BlockKind, prefix: str, process: ProcessId | None = None) -> None:
        self.kind, self.prefix, self.process = kind, prefix, process
        self.reader: ring.Reader | None = None
        self.looked_s = -1e9

    def latest(self, now_s: float) -> ring.Slot | None:
        if now_s - self.looked_s > REOPEN_S:
            self.looked_s = now_s
            if self.reader is None or self.reader.replaced():
                try:
                    self.reader = ring.Reader(self.kind, self.prefix, self.process)
                except ring.BlockError:
                    self.reader = None
        return self.reader.latest() if self.reader else None


class Board:
    def __init__(self, config: Config) -> None:
        prefix = config.shm.prefix
        self._word_deadline_s = 2e-3 * config.gate.word_deadline_ms  # gate and arm are strict; this one is for display
        self._required = frozenset(required_words(config))
        self._arm = _Source(BlockKind.ARM_STATUS, prefix)
        self._gate = _Source(BlockKind.GATE_STATUS, prefix)
        self._progress = _Source(BlockKind.PROGRESS, prefix)
        self._words = {
            p.id: _Source(BlockKind.WORD, prefix, p.id)
            for p in enabled(config)
            if p.id not in (None, ProcessId.API) and BlockKind.WORD in p.blocks
        }

    def read(self) -> Picture:
        now_s = time.monotonic()
        arm, gate, progress = (s.latest(now_s) for s in (self._arm, self._gate, self._progress))
        arm_age_s = arm.age_s if arm else float("inf")
        return Picture(
            taken_ns=time.monotonic_ns(),
            arm=arm.data if arm and arm_age_s < ARM_STALE_S else None,
            arm_age_s=arm_age_s,
            gate=gate.data if gate and gate.age_s < GATE_STALE_S else None,
            progress=progress.data if progress else None,
            words={p: self._word(p, s.latest(now_s)) for p, s in self._words.items() if p is not None},
        )

    def _word(self, process: ProcessId, slot: ring.Slot | None) -> WordReading:
        required = process in self._required
        if slot is None:
            return WordReading(process, False, float("inf"), HoldReason.STARTING, 0, "has not spoken yet", required)
        data = slot.data
        age_s = (time.monotonic_ns() - int(data["beat_ns"])) * 1e-9
        farewell = not data["ok"] and ring.text(data["detail"]) in (GATE_FAREWELL, ARM_FAREWELL)
        if age_s > self._word_deadline_s and not farewell:
            detail = f"silent for {age_s:.1f} s" if age_s < 1e6 else "has not spoken yet"
            return WordReading(process, False, age_s, HoldReason.WATCHDOG, int(data["hold_seq"]), detail, required)
        return WordReading(
            process, bool(data["ok"]), age_s, reason_of(int(data["reason"])), int(data["hold_seq"]),
            ring.text(data["detail"]), required,
        )  # fmt: skip


def reason_of(number: int) -> HoldReason:
    """The reason with this number; WATCHDOG for one that this version does not know."""
    try:
        return HoldReason(number)
    except ValueError:
        return HoldReason.WATCHDOG
