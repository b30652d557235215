"""What forbids motion only while something moves: a lost permit, a feed that fell silent, a lost grip."""

from __future__ import annotations

import time

from wardarm.arm.causes import Board
from wardarm.arm.gripper import GripperWatch
from wardarm.arm.holds import Cause
from wardarm.arm.link import Registers
from wardarm.arm.state import PlayerState
from wardarm.shm.layouts import Holding, HoldReason, ProcessId, Source

CLOSED = 0.06  # at or below this commanded opening the fingers are meant to hold something (as in player.script)
# A gate that switches the PWM off says why in its next status, one loop later. The player can be faster: until then
# nobody blames the wire. It has begun its ramp all the same, and no ramp is shorter than 0.2 s.
EXPLAINS_S = 0.06


class UnderWay:
    """Asked once a loop, with what arm has asked for and what the player says."""

    def __init__(self, board: Board, gripper: GripperWatch, chunk_stale_s: float) -> None:
        self._board, self._gripper, self._chunk_stale_s = board, gripper, chunk_stale_s
        self._drop_seq: int | None = None
        self._unasked_s: float | None = None  # since when the player comes to rest although nobody asked it to

    def dropped(self) -> Cause | None:
        """Gate has switched off a request that stood. Call it each loop, at rest too: drops are counted."""
        gate = self._board.gate
        before, self._drop_seq = self._drop_seq, gate.drop_seq
        if before is None or before == gate.drop_seq:
            return None
        return Cause(HoldReason.WATCHDOG, gate.first_missing, f"gate dropped the PWM: {gate.detail}", gate.drop_seq)

    def permit_lost(self, registers: Registers, asked: bool, now_s: float) -> Cause | None:
        """The player lost its permit for a reason that nobody names. `asked`: arm or a hold wants the arm at rest."""
        if asked or registers.state not in (PlayerState.RAMPING, PlayerState.HELD):
            self._unasked_s = None
            return None
        if self._unasked_s is None:
            self._unasked_s = now_s
        if registers.state == PlayerState.RAMPING and now_s - self._unasked_s < EXPLAINS_S:
            return None
        detail = (
            f"the player lost its permit: {registers.ticks} ticks in its window, gate's beat {self._board.gate.beat}"
        )
        return Cause(HoldReason.GATE_FAULT, ProcessId.GATE, detail)

    def causes(
        self, registers: Registers, source: Source | None, progress_s: float, holding: Holding, now_s: float
    ) -> list[Cause]:
        """While the player runs. `source` of what plays; `progress_s`: when a trajectory was last accepted or motion
        began; `holding`: before the fingers last moved."""
        causes = self._board.feed_causes()
        silent_s = now_s - progress_s
        if source is Source.MODEL and progress_s and silent_s > self._chunk_stale_s:
            detail = f"eye: no accepted chunk for {silent_s:.1f} s of motion, limit {self._chunk_stale_s:g} s"
            causes.append(Cause(HoldReason.INFERENCE_STALE, ProcessId.EYE, detail))
        fingers = self._gripper.fingers
        if fingers is None or not fingers.fresh(time.monotonic_ns()):
            causes.append(
                Cause(HoldReason.GRIP_LOST, ProcessId.ARM, f"gripper: {self._gripper.trouble or 'no answer'}")
            )
        elif holding is Holding.YES and fingers.holding is Holding.NO and registers.opening <= CLOSED:
            causes.append(Cause(HoldReason.GRIP_LOST, ProcessId.ARM, "gripper: what it held is gone"))
        return causes
