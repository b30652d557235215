"""A course the way wardarm drives it: planner, independent check and player, joined ahead of time.

The next chunk is asked for a period after the last, once that one plays; it joins the planned motion D ahead, D long
enough for the slowest answer of the course and the load. `pause_at_s`: the permit is taken away there; after the ramp
to rest, a wait and a person's word, it is planned anew from rest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import _native
from wardarm.arm.params import write_planner_params
from wardarm.arm.state import PlayerState
from wardarm.config import Config
from wardarm.eye.planned import quintic
from wardarm.kinematics import Kinematics
from wardarm.policy import contract
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY, PlanStatus
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.lockstep_arm import LockstepArm
from wardarm.sim.seams.course import Answer, Course, Policy
from wardarm.sim.ur_controller import DhParameters

Array = NDArray[np.float64]
LOAD_S = 0.35  # a full trajectory of 160 knots takes 161 cycles to load; the rest is room
TAIL_S = 0.05
LONGEST_S = 30.0


def simulation(course: Course, config: Config) -> Lockstep:
    arm = config.arm
    dh = DhParameters(a=arm.dh_a, d=arm.dh_d, alpha=arm.dh_alpha)
    return Lockstep(dh=dh, tcp=arm.tcp, q=course.start_q_rad.tolist(), seed=course.number)


class Ours:
    """One planner for many courses. `refused` collects what planner, arm or player said no to."""

    def __init__(self, config: Config, folder: Path) -> None:
        self.config, self.kinematics = config, Kinematics(config.arm)
        write_planner_params(config, folder / "planner.params")
        self.planner = _native.Planner(str(folder / "planner.params"))
        self.refused: list[str] = []
        self.joins = 0
        self.profiles = list(config.profiles)

    def run(self, course: Course, policy: Policy, pause_at_s: float | None = None) -> tuple[NDArray[Any], list[float]]:
        """The controller's history and the times of the seams."""
        with simulation(course, self.config) as sim:
            drive = _Drive(self, course, policy, sim)
            sim.load_player()
            sim.forget()
            drive.until_done(pause_at_s)
            return sim.history, drive.seams_s

    def plan(self, answer: Answer, course: Course, state: tuple[Array, Array, Array]) -> Any | None:
        raw = np.zeros((), RAW_CHUNK)
        raw["id"], raw["profile"] = 1, self.profiles.index(course.profile)
        raw["traj"] = contract.normalise(answer.points).astype(np.float16).reshape(-1).view(np.uint16)
        raw["grip"] = answer.grip.astype(np.float16).view(np.uint16)
        out = np.frombuffer(self.planner.plan(raw.tobytes(), *state), TRAJECTORY)[0]
        if PlanStatus(int(out["status"])) is PlanStatus.OK:
            return out
        self.refused.append(f"planner: {bytes(out['reason']).split(bytes(1))[0].decode()}")
        return None


class _Drive:
    """One course under way."""

    def __init__(self, ours: Ours, course: Course, policy: Policy, sim: Lockstep) -> None:
        self.ours, self.course, self.policy, self.sim = ours, course, policy, sim
        self.arm = LockstepArm(sim, ours.config)
        self.seams_s: list[float] = []
        self.number = 0
        self.ahead_s = 1.2 * course.delay_s + LOAD_S
        self.opening = course.opening
        self.pause_at_s: float | None = None

    def until_done(self, pause_at_s: float | None) -> None:
        self.pause_at_s = pause_at_s
        while self._from_rest():
            while self._join():
                pass
            self._rest()

    def _rest(self) -> None:
        self.arm.rest(LONGEST_S)
        self.sim.run(0.2)
        if self.arm.player is PlayerState.HELD:
            self.sim.run(0.5)
            self.arm.discard()
            self.sim.until(lambda _: self.arm.player is PlayerState.READY)

    def _step(self, seconds: float) -> None:
        """Time passes; the permit goes when its time has come."""
        for _ in range(round(seconds / 0.002)):
            if self.pause_at_s is not None and self.arm.player is PlayerState.RUNNING:
                self.pause_at_s -= 0.002
                if self.pause_at_s <= 0:
                    self.pause_at_s = None
                    self.arm.permit(False)
            self.sim.step()

    def _from_rest(self) -> bool:
        """A first chunk from rest; False if nothing is left to do or the course takes too long."""
        q = self.sim.target_q_rad
        zero = np.zeros(6)
        answer = self.policy.ask(self.ours.kinematics.forward(q).six, self.opening)
        if answer.done or self.sim.time_s > LONGEST_S or self.policy.asked > 100:
            return False
        self._step(answer.delay_s)
        plan = self.ours.plan(answer, self.course, (q, zero, zero))
        if plan is None:
            return True
        self.number += 1
        taken = self.arm.offer(plan, id=self.number)
        if not taken.accepted:
            self.ours.refused.append(f"{taken.by}: {taken.reason.name} {taken.detail}")
            return True
        self.arm.permit(True)
        self.sim.until(lambda _: self.arm.player is PlayerState.RUNNING, 1.0)
        return True

    def _join(self) -> bool:
        """One more chunk under way; False if the motion under way is the last."""
        arm = self.arm
        asked_s = self.sim.time_s
        if arm.player is not PlayerState.RUNNING:
            return False
        playing, join_s = arm.playing_id, round(arm.path_s + self.ahead_s, 6)
        knots = arm.sent[playing]
        if join_s > float(knots["t_s"][-1]) - TAIL_S:
            return False
        *state, opening = planned(knots, join_s)
        answer = self.policy.ask(self.ours.kinematics.forward(state[0]).six, opening)
        if answer.done:
            return False
        self._step(answer.delay_s)
        plan = self.ours.plan(answer, self.course, (state[0], state[1], state[2]))
        self.ours.joins += 1
        if plan is not None and arm.player is PlayerState.RUNNING:
            self.number += 1
            taken = arm.offer(plan, id=self.number, join=(playing, join_s))
            if taken.accepted:
                while arm.playing_id == playing and arm.player is PlayerState.RUNNING:
                    self._step(0.002)
                self.seams_s.append(self.sim.time_s)
            elif arm.player is PlayerState.RUNNING:  # one that a pause overtook is none
                self.ours.refused.append(f"{taken.by}: {taken.reason.name} {taken.detail}")
        self._step(max(0.0, self.course.period_s - (self.sim.time_s - asked_s)))
        if arm.playing_id:
            self.opening = float(planned(arm.sent[arm.playing_id], arm.path_s)[3])
        return True


def planned(knots: NDArray[np.void], path_s: float) -> tuple[Array, Array, Array, float]:
    """q, qd, qdd and opening of a trajectory (KNOT records) at a path time."""
    t = knots["t_s"]
    i = min(max(int(np.searchsorted(t, path_s, side="right")) - 1, 0), len(t) - 2)
    ends = [tuple(np.array(knots[n][k]) for n in ("q_rad", "qd_rad_s", "qdd_rad_s2")) for k in (i, i + 1)]
    q, qd, qdd = quintic(float(t[i + 1] - t[i]), path_s - float(t[i]), ends[0], ends[1])  # type: ignore[arg-type]
    return q, qd, qdd, float(knots["grip"][i])
