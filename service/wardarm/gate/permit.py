"""When the PWM may be on: a pure function of what gate sees and of a small state.

On if, and only if, arm's status is fresh, it requests motion, every required word is true and fresh, gate's own loop
is in time, and this request is *new*: a request is used up by the first switch-off, whatever caused it. So a word
that comes back, a lost and found status or a restarted gate switches nothing on again; only a new request does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from wardarm.shm.layouts import ProcessId


@dataclass(frozen=True, slots=True)
class Look:
    """What one loop of gate sees.

    `missing`: required processes whose word is false or late, in the order they were asked. `late`: gate's own loop
    started later than the word deadline after the one before.
    """

    arm_fresh: bool
    motion_request: bool
    request_seq: int
    missing: tuple[ProcessId, ...] = ()
    late: bool = False

    def first_missing(self) -> ProcessId:
        """Whom to name for a drop."""
        if self.late:
            return ProcessId.GATE
        if not self.arm_fresh:
            return ProcessId.ARM
        return self.missing[0] if self.missing else ProcessId.ARM


@dataclass(frozen=True, slots=True)
class Permit:
    """`spent_seq`: the newest request that may not switch the PWM on (any more); None until a status was seen."""

    on: bool = False
    request_seq: int = 0  # the request that the PWM serves or served last
    spent_seq: int | None = None
    drop_seq: int = 0  # counts switch-offs while motion was still requested
    first_missing: ProcessId = ProcessId.SUPERVISOR  # who made the last drop


def newer(seq: int, than: int) -> bool:
    """Whether 32-bit counter `seq` was reached after `than` (it wraps)."""
    ahead = (seq - than) & 0xFFFFFFFF
    return 0 < ahead < 0x80000000


def step(permit: Permit, look: Look) -> Permit:
    """The permit after one loop. Only a request that was first seen off, or later than any seen before, is new."""
    if permit.spent_seq is None:
        if look.late or not look.arm_fresh:
            return permit
        # The request that runs while gate starts belongs to a gate that is gone: its PWM is off, and stays off.
        return replace(permit, spent_seq=look.request_seq)
    clear = look.arm_fresh and look.motion_request and not look.missing and not look.late
    if permit.on:
        if clear and look.request_seq == permit.request_seq:
            return permit
        taken_back = look.arm_fresh and not look.motion_request and not look.late
        return replace(
            permit,
            on=False,
            spent_seq=permit.request_seq,
            drop_seq=permit.drop_seq + (not taken_back),
            first_missing=permit.first_missing if taken_back else look.first_missing(),
        )
    if clear and newer(look.request_seq, permit.spent_seq):
        return replace(permit, on=True, request_seq=look.request_seq)
    return permit


def forget(permit: Permit) -> Permit:
    """Arm's status block was made anew, its counters with it: as at start, the first request seen is not served."""
    return replace(permit, on=False, spent_seq=None)
