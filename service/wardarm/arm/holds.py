"""Holds: why nothing moves, kept until a person has seen it.

A cause is what is wrong now; a hold is the record that it was wrong. A hold is latched when its cause appears (or
happens again) and stays when the cause goes away. Only `resume` clears, all at once, and only if the person who asks
has seen each of them and no cause is left. The one exception is STARTING: nothing has moved yet, so nothing has to be
seen; it goes when its cause goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wardarm.shm.layouts import MAX_HOLDS, HoldReason, ProcessId


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that forbids motion now. `incident` tells one occurrence from the next (a word's hold_seq)."""

    reason: HoldReason
    writer: ProcessId
    detail: str
    incident: int = 0

    @property
    def key(self) -> tuple[HoldReason, ProcessId]:
        return self.reason, self.writer


@dataclass(frozen=True, slots=True)
class Hold:
    """`seq` counts up over all holds of a boot, restarts included; `since_ns` is CLOCK_MONOTONIC."""

    seq: int
    since_ns: int
    reason: HoldReason
    writer: ProcessId
    detail: str

    @property
    def key(self) -> tuple[HoldReason, ProcessId]:
        return self.reason, self.writer


class HoldLatch:
    """All holds, oldest first, at most MAX_HOLDS: beyond that the newest takes the place of the one before it."""

    def __init__(self, restored: Iterable[Hold] = (), last_seq: int = 0) -> None:
        self.holds: list[Hold] = list(restored)
        self.last_seq = max([last_seq, *(h.seq for h in self.holds)])
        self._live: dict[tuple[HoldReason, ProcessId], int] = {}

    @property
    def blocking(self) -> bool:
        """Whether a person has to end something."""
        return any(h.reason is not HoldReason.STARTING for h in self.holds)

    def add(self, cause: Cause, now_ns: int) -> Hold:
        """Record a hold, in place of an older one of the same reason and writer."""
        self.last_seq += 1
        hold = Hold(self.last_seq, now_ns, cause.reason, cause.writer, cause.detail)
        self.holds = [h for h in self.holds if h.key != hold.key]
        del self.holds[MAX_HOLDS - 1 :]
        self.holds.append(hold)
        return hold

    def see(self, causes: Sequence[Cause], now_ns: int) -> list[Hold]:
        """Latch what is new since the last call. Returns the new holds."""
        new = [self.add(c, now_ns) for c in causes if self._live.get(c.key) != c.incident]
        self._live = {c.key: c.incident for c in causes}
        self.holds = [h for h in self.holds if h.reason is not HoldReason.STARTING or h.key in self._live]
        details = {c.key: c.detail for c in causes}
        self.holds = [replace(h, detail=details.get(h.key, h.detail)) for h in self.holds]
        return new

    def resume(self, seen_seqs: Iterable[int]) -> str:
        """Clear every hold. Returns why not, or an empty text."""
        if self._live:
            names = ", ".join(f"{r.name} ({w.name.lower()})" for r, w in self._live)
            return f"the cause of {names} is still there"
        unseen = {h.seq: h for h in self.holds if h.seq not in set(seen_seqs)}
        if unseen:
            names = ", ".join(f"{seq} ({h.reason.name})" for seq, h in unseen.items())
            return f"hold {names} is new; look at it and resume again"
        self.holds = []
        return ""
