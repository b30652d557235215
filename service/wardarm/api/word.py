"""This process's own word: true while no client has anything against motion, renewed by the loop that serves clients."""

from __future__ import annotations

import time
from dataclasses import dataclass

from wardarm.shm import ring
from wardarm.shm.layouts import TEXT, BlockKind, HoldReason, ProcessId

# The word carries one reason; a stop is said before a pause.
_ORDER = (HoldReason.STOP, HoldReason.CLIENT, HoldReason.LEASE_LOST, HoldReason.STARTING, HoldReason.WATCHDOG)


@dataclass(frozen=True)
class Cause:
    reason: HoldReason
    detail: str
    seq: int
    since_ns: int


class OwnWord:
    """`hold()` makes it false at once, `withdraw()` true again. Raises ring.BlockTaken if another api lives."""

    def __init__(self, prefix: str) -> None:
        self._writer = ring.Writer(BlockKind.WORD, prefix, ProcessId.API)
        before = ring.Reader(BlockKind.WORD, prefix, ProcessId.API).latest()
        self.hold_seq = int(before.data["hold_seq"]) if before else 0  # goes on counting after a restart
        self.causes: dict[HoldReason, Cause] = {}
        self._upright: Cause | None = None  # the pause that waits for what is held to stand upright
        self.hold(HoldReason.STARTING, "the API is starting")

    @property
    def ok(self) -> bool:
        return not self.causes

    def leading(self) -> Cause | None:
        """The cause that the word carries."""
        return next((self.causes[r] for r in _ORDER if r in self.causes), None)

    def hold(self, reason: HoldReason, detail: str) -> Cause:
        self.hold_seq += 1
        cause = Cause(reason, detail, self.hold_seq, time.monotonic_ns())
        self.causes[reason] = cause
        self._upright = None
        self.beat()
        return cause

    def pause_upright(self, detail: str) -> Cause:
        """A pause that is said as *go on* until `set_upright`: eye sets upright what leans and stops. Everything else that
        is said meanwhile takes the word at once."""
        self.hold_seq += 1
        self._upright = Cause(HoldReason.CLIENT, detail, self.hold_seq, time.monotonic_ns())
        self.causes[HoldReason.CLIENT] = self._upright
        self.beat()
        return self._upright

    @property
    def waits_upright_s(self) -> float | None:
        """Since when such a pause has been waiting; None if none does."""
        return None if self._upright is None else (time.monotonic_ns() - self._upright.since_ns) * 1e-9

    def set_upright(self) -> None:
        """It stands, or has taken long enough: the pause takes the word."""
        self._upright = None
        self.beat()

    def drop(self, reason: HoldReason) -> None:
        """One cause is gone by itself."""
        self.causes.pop(reason, None)
        self.beat()

    def withdraw(self) -> dict[HoldReason, Cause]:
        """Say ok. Returns what stood against motion, for `restore`."""
        causes, self.causes, self._upright = self.causes, {}, None
        self.beat()
        return causes

    def restore(self, causes: dict[HoldReason, Cause]) -> None:
        """Put causes back, under their own numbers; newer ones stay."""
        self.causes = causes | self.causes
        self.beat()

    def beat(self) -> None:
        word = self._writer.blank()
        cause = self.leading()
        waits = self._upright is not None
        word["beat_ns"] = time.monotonic_ns()
        word["process"] = ProcessId.API
        word["ok"] = cause is None or waits
        # the pause's own number is said when it takes the word: until then nobody may think it was said and taken back
        word["hold_seq"] = self.hold_seq - waits
        if cause is not None:
            word["reason"] = cause.reason
            word["detail"] = ring.encode(cause.detail, TEXT)
        self._writer.publish(word)
