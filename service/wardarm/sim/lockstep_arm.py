"""arm's part beside a `Lockstep`: native plan results go through arm's own admission, rounding and check to the player.

    arm = LockstepArm(Lockstep(...), config)
    answer = arm.offer(planner.plan(...))     # bytes or a TRAJECTORY record
    if answer.accepted:
        arm.permit(True)
        arm.rest()                            # until it stands again

What is left out of process `arm`: shared memory, holds, commands, the RTDE link and their delays. A join is judged with
the path time of the very cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wardarm.arm.admit import ArmNow, Refused
from wardarm.arm.channel import FIRST_LOAD_S_PER_BLOCK, LOAD_DEADLINE_S, LOAD_SLACK_S
from wardarm.arm.check import Check
from wardarm.arm.intake import checked
from wardarm.arm.state import PlayerState, at_rest, player_state
from wardarm.arm.wire import encode_discard, wire_id
from wardarm.config import Config
from wardarm.shm.layouts import ARM_STATUS, TRAJECTORY, ArmState, RefusalReason
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.ur_controller.modes import CYCLE_S

STATE, PLAYING, ACCEPTED, REFUSED, REFUSAL, FINISHED = 12, 13, 14, 15, 16, 17  # output integer registers
PATH, RATE, OPENING = 12, 13, 14  # output double registers
_KEPT = 32  # trajectories whose knots are remembered, as in arm.channel.Loads
_ARM_STATE = {
    PlayerState.READY: ArmState.READY, PlayerState.LOADED: ArmState.LOADED, PlayerState.RUNNING: ArmState.RUNNING,
    PlayerState.RAMPING: ArmState.RAMP_DOWN, PlayerState.HELD: ArmState.HELD, PlayerState.ENDED: ArmState.CONNECTED,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """`reason` NONE: taken. `by`: who refused, "arm" or "player". `load_s`: from the first byte to the answer."""

    id: int
    accepted: bool
    reason: RefusalReason
    detail: str
    by: str
    load_s: float
    knots: npt.NDArray[np.void] | None
    """KNOT records as the player has them, rounded to the wire; None if arm refused."""


class LockstepArm:
    """`plan_epoch` None: any epoch is ours. `load_s_per_block`: what arm reckons with when it judges a join."""

    def __init__(self, sim: Lockstep, config: Config, plan_epoch: int | None = None) -> None:
        self.sim, self.config, self.plan_epoch = sim, config, plan_epoch
        self.check = Check(config)
        self.load_s_per_block = FIRST_LOAD_S_PER_BLOCK
        self.sent: dict[int, Any] = {}
        self._requests = 0

    # --- how it is
    @property
    def player(self) -> PlayerState:
        return player_state(self.sim.int_register(STATE))

    @property
    def state(self) -> ArmState:
        return _ARM_STATE[self.player] if self.sim.playing else ArmState.CONNECTED

    @property
    def path_s(self) -> float:
        return self.sim.double_register(PATH)

    @property
    def playing_id(self) -> int:
        """The trajectory that moves the arm, 0 for none."""
        if self.player not in (PlayerState.RUNNING, PlayerState.RAMPING):
            return 0
        return self._full_id(self.sim.int_register(PLAYING))

    def _full_id(self, number: int) -> int:
        return next((id for id in reversed(self.sent) if wire_id(id) == number), 0)

    def status(self) -> Any:
        """An ARM_STATUS record of now, as `_native.Answerer.answer` takes it (`.tobytes()`); stamps are controller time."""
        record, c = np.zeros((), ARM_STATUS), self.sim.controller
        record["stamp_ns"], record["controller_s"] = self.now_ns, c.time_s
        record["state"], record["plan_epoch"] = self.state, self.plan_epoch or 0
        record["robot_mode"], record["safety_mode"] = c.safety.robot_mode, c.safety.mode
        record["runtime_state"], record["speed_scaling"] = c.slot.runtime, c.scale
        record["q_rad"], record["qd_rad_s"], record["tcp_pose"] = c.state.q, c.state.qd, c.tcp_pose
        record["target_q_rad"], record["target_qd_rad_s"] = c.servo.q, c.servo.qd
        playing = self.playing_id
        record["playing_id"] = playing
        if playing:
            record["path_s"], record["path_rate"] = self.path_s, self.sim.double_register(RATE)
            record["path_duration_s"] = self.sent[playing]["t_s"][-1]
        record["finished_id"] = self._full_id(self.sim.int_register(FINISHED))
        record["at_rest"] = at_rest(c.state.qd) and not playing
        record["grip_target"] = self.sim.double_register(OPENING)
        return record

    @property
    def now_ns(self) -> int:
        """Controller time as a CLOCK_MONOTONIC would count it."""
        return self.sim.controller.clock_ns

    # --- trajectories
    def offer(self, trajectory: Any, *, id: int | None = None, join: tuple[int, float] | None = None) -> Answer:
        """Through admission, wire and check to the player; steps the simulation until the player has answered.

        `trajectory`: a TRAJECTORY record or its bytes (what `_native.Planner.plan` returns). `id`, `join` (id, path
        time in s) replace what stands in it: a bare planner numbers nothing and joins nothing.
        """
        given = np.frombuffer(trajectory, TRAJECTORY)[0] if isinstance(trajectory, bytes) else trajectory
        record = np.array(given, TRAJECTORY)
        if id is not None:
            record["id"] = id
        if join is not None:
            record["join_trajectory_id"], record["join_path_s"] = join
        number = int(record["id"])
        try:
            knots, message = checked(record, self._now(record), self.check)
        except Refused as e:
            return Answer(number, False, e.reason, e.detail, "arm", 0.0, None)
        self.sent[number] = knots
        while len(self.sent) > _KEPT:
            del self.sent[next(iter(self.sent))]
        self.sim.send(message)
        return self._answer(number, knots, from_rest=not int(record["join_trajectory_id"]))

    def _now(self, record: Any) -> ArmNow:
        playing = self.playing_id
        return ArmNow(
            state=self.state, plan_epoch=int(record["plan_epoch"]) if self.plan_epoch is None else self.plan_epoch,
            playing_id=playing, path_s=self.path_s if playing else 0.0,
            load_s=self.load_s_per_block * (int(record["knot_count"]) + 1) + LOAD_SLACK_S, loading=False,
            actual_q=self.sim.q_rad, target_q=self.sim.target_q_rad,
            start_tolerance_rad=self.config.arm.start_tolerance_rad,
            playing_knots=self.sent[playing] if playing else None,
        )  # fmt: skip

    def _answer(self, number: int, knots: npt.NDArray[np.void], from_rest: bool) -> Answer:
        sim, wire = self.sim, wire_id(number)
        began = sim.time_s
        for _ in range(round(LOAD_DEADLINE_S / CYCLE_S)):
            sim.step()
            if sim.int_register(ACCEPTED) == wire:
                if from_rest:
                    self._requests += 1
                    sim.request(self._requests)
                return Answer(number, True, RefusalReason.NONE, "", "", sim.time_s - began, knots)
            if sim.int_register(REFUSED) == wire:
                code = sim.int_register(REFUSAL)
                reason = RefusalReason(code) if code in RefusalReason._value2member_map_ else RefusalReason.NOT_READY
                return Answer(number, False, reason, "the player refused it", "player", sim.time_s - began, knots)
        return Answer(
            number, False, RefusalReason.NOT_READY, "the player did not answer", "player", LOAD_DEADLINE_S, knots
        )

    # --- what else arm and gate do
    def permit(self, on: bool, at_s: float | None = None) -> None:
        """gate's pulses on or off, `at_s` in controller time."""
        self.sim.permit(on, at_s)

    def discard(self) -> None:
        self.sim.send(encode_discard())

    def rest(self, limit_s: float = 30.0) -> float:
        """Step until the player stands (READY, HELD or ENDED) and the joints do; returns the seconds it took."""
        moving = (PlayerState.LOADED, PlayerState.RUNNING, PlayerState.RAMPING)
        return self.sim.until(
            lambda sim: self.player not in moving and at_rest(sim.controller.state.qd), limit_s
        ) * CYCLE_S  # fmt: skip
