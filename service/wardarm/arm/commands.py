"""A person's word to the arm: Resume, Stop, Recover, PowerOn. Each is carried out or refused once, with a reason.

What the dashboard has to do blocks, so it runs in a thread; its result is published when it is known. Nothing here
starts a motion: after Resume the arm is ready, and what it does next has to be seen, inferred and planned anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wardarm.arm.errand import Errand
from wardarm.arm.gripper import GripperWatch
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.arm.link import UNLOCK_WAIT_S, RobotError, RobotLink
from wardarm.gate.words import BlockWatch
from wardarm.shm import ring
from wardarm.shm.layouts import MAX_HOLDS, ArmState, BlockKind, CommandKind, HoldReason, ProcessId, RefusalReason

DONE = int(RefusalReason.NONE)
REFUSED = int(RefusalReason.NOT_READY)


class Commands:
    """`seq`, `result` and `reason` belong to the last command that was carried out or refused."""

    def __init__(self, prefix: str, last_seq: int) -> None:
        self._block = BlockWatch(BlockKind.COMMAND, prefix)
        self._errand: Errand[None] = Errand()
        self._errand_seq = 0
        self._skip = True  # what lies there when arm starts was said to an earlier arm
        self._taken_seq = last_seq
        self._protective_since_s: float | None = None
        self.seq, self.result, self.reason = last_seq, DONE, ""

    def read(self) -> ring.Slot | None:
        """A command not seen before. Call it before the words are read: a Resume comes after the word it relies on."""
        slot = self._block.latest()
        if slot is None:
            self._skip = False
            return None
        seq = int(slot.data["seq"])
        skip, self._skip = self._skip, False
        if skip:
            self._taken_seq = max(self._taken_seq, seq)
        if seq == self._taken_seq:
            return None
        self._taken_seq = seq
        return slot

    def note_state(self, state: ArmState) -> None:
        """Follow how long a protective stop has lasted."""
        if state is not ArmState.PROTECTIVE:
            self._protective_since_s = None
        elif self._protective_since_s is None:
            self._protective_since_s = time.monotonic()

    def settle(self) -> None:
        """Publish what an errand came to."""
        done = self._errand.take()
        if done is None:
            return
        if done.error is None:
            self._answer(self._errand_seq, DONE, "")
        elif isinstance(done.error, RobotError):
            self._answer(self._errand_seq, REFUSED, str(done.error))
        else:
            raise done.error

    def _answer(self, seq: int, result: int, reason: str) -> None:
        self.seq, self.result, self.reason = seq, result, reason

    def carry_out(
        self, slot: ring.Slot, *, state: ArmState, at_rest: bool, latch: HoldLatch, link: RobotLink | None, gripper: GripperWatch
    ) -> Cause | None:  # fmt: skip
        """Do it, or start doing it. Returns the hold to latch for a Stop."""
        command = slot.data
        seq, kind = int(command["seq"]), int(command["kind"])
        actor = ring.text(command["actor"]) or "somebody"
        if kind == CommandKind.STOP:
            self._answer(seq, DONE, "")
            return Cause(HoldReason.STOP, ProcessId.API, f"stopped by {actor}", seq)
        if kind == CommandKind.RESUME:
            seqs = [int(s) for s in command["hold_seqs"][: min(int(command["hold_count"]), MAX_HOLDS)]]
            reason = latch.resume(seqs) if at_rest else "the arm is not at rest yet; resume again in a second"
            self._answer(seq, REFUSED if reason else DONE, reason)
        elif kind == CommandKind.RECOVER:
            reason = self._may_recover(state, link)
            if not reason and link is not None:
                self._start(seq, "recover", link.dashboard.unlock_protective_stop)
            else:
                self._answer(seq, REFUSED, reason)
        elif kind == CommandKind.POWER_ON:
            reason = self._may_power_on(state, link)
            if not reason and link is not None:
                gripper.activate()
                self._start(seq, "power on", link.dashboard.power_on)
            else:
                self._answer(seq, REFUSED, reason)
        else:
            self._answer(seq, REFUSED, f"command kind {kind} is unknown to this version")
        return None

    def _start(self, seq: int, name: str, do: Callable[[], None]) -> None:
        if self._errand.busy:
            self._answer(seq, REFUSED, "another command to the controller is under way; try again in a second")
            return
        self._errand_seq = seq
        self._errand.start(name, do)

    def _may_recover(self, state: ArmState, link: RobotLink | None) -> str:
        if link is None:
            return "no connection to the controller"
        if state is not ArmState.PROTECTIVE:
            return f"the arm is {state.name}: Recover ends a protective stop only"
        assert self._protective_since_s is not None
        left_s = UNLOCK_WAIT_S - (time.monotonic() - self._protective_since_s)
        if left_s > 0:
            return f"a protective stop can be ended after {UNLOCK_WAIT_S:.0f} s; look at the arm, {left_s:.1f} s more"
        return ""

    def _may_power_on(self, state: ArmState, link: RobotLink | None) -> str:
        if link is None:
            return "no connection to the controller"
        if state in (ArmState.ESTOP, ArmState.PROTECTIVE, ArmState.FAULT, ArmState.SAFEGUARD):
            return f"the arm is {state.name}; end that first (emergency stop: release the button)"
        if state in (ArmState.LOADED, ArmState.RUNNING, ArmState.RAMP_DOWN):
            return "the arm is on and moving"
        return ""
