"""What the arm does now and where a new chunk can join it: ArmStatus, and the trajectories that postproc published."""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import Any

from wardarm.eye.planned import Planned, TrajectoryState, at_rest, measured_pose
from wardarm.gate.words import BlockWatch
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.shm.layouts import ArmState, BlockKind, Holding, PlanStatus
from wardarm.shm.ring import Slot

STATUS_STALE_S = 0.5  # 60 samples of the 125 Hz status
_KEEP = 8
_CLOCK_SAMPLES, _CLOCK_STEP_NS, _CLOCK_RATE_MIN = 21, 100_000_000, 0.05
_TAIL_S = 0.05  # nothing joins the last knot interval: the arm is as good as at rest there


@dataclass(frozen=True)
class Join:
    """Where a chunk's point 0 lies. `trajectory_id` 0: from rest."""

    trajectory_id: int
    path_s: float
    planned: Planned
    epoch: int


class Motion:
    """Refreshed once a tick; everything else looks at the same copy."""

    def __init__(self, prefix: str, kinematics: Kinematics) -> None:
        self.kinematics = kinematics
        self._arm = BlockWatch(BlockKind.ARM_STATUS, prefix)
        self._trajectories = BlockWatch(BlockKind.TRAJECTORY, prefix)
        self._known: OrderedDict[int, TrajectoryState] = OrderedDict()
        self.status: Any = None
        self._answers: OrderedDict[int, Slot] = OrderedDict()
        self._generation = self._inode = 0
        self._age_s = float("inf")
        self._clock: deque[tuple[int, float]] = deque(maxlen=_CLOCK_SAMPLES)

    def update(self) -> None:
        arm = self._arm.latest()
        self.status = arm.data if arm is not None else None
        self._age_s = arm.age_s if arm is not None else float("inf")
        self._read_clock()
        self._read_trajectories()

    def _read_clock(self) -> None:
        if self.status is None:
            return
        stamp_ns, controller_s = int(self.status["stamp_ns"]), float(self.status["controller_s"])
        if not math.isfinite(controller_s):
            return
        if self._clock and (stamp_ns < self._clock[-1][0] or controller_s < self._clock[-1][1]):
            self._clock.clear()  # another controller, or the same one started anew
        if not self._clock or stamp_ns - self._clock[-1][0] >= _CLOCK_STEP_NS:
            self._clock.append((stamp_ns, controller_s))

    @property
    def clock_rate(self) -> float:
        """Controller seconds a second here, over the last two seconds: 1, or less where a simulation falls behind."""
        if len(self._clock) < 2:
            return 1.0
        (first_ns, first_s), (last_ns, last_s) = self._clock[0], self._clock[-1]
        rate = (last_s - first_s) / max((last_ns - first_ns) * 1e-9, 1e-3)
        return min(max(rate, _CLOCK_RATE_MIN), 1.0)

    def _read_trajectories(self) -> None:
        """Every one since the last look, not only the newest: two may have come within a tick."""
        reader = self._trajectories.reader()
        if reader is None:
            return
        if reader.inode != self._inode:
            self._inode, self._generation = reader.inode, 0
        newest = reader.latest()
        if newest is None:
            return
        for generation in range(max(self._generation + 1, newest.generation - reader.slots + 1), newest.generation + 1):
            slot = reader.at(generation)
            if slot is not None:
                self._take(slot)
        self._generation = newest.generation

    def _take(self, answer: Slot) -> None:
        trajectory_id = int(answer.data["id"])
        self._answers[int(answer.data["raw_id"])] = answer
        if int(answer.data["status"]) == PlanStatus.OK and int(answer.data["knot_count"]) >= 2:
            self._known[trajectory_id] = TrajectoryState(answer.data, self.kinematics)
        for kept in (self._known, self._answers):
            while len(kept) > _KEEP:
                kept.popitem(last=False)

    def answer_to(self, raw_id: int) -> Slot | None:
        """The Trajectory that answers this chunk, refused ones too; None while there is none."""
        return self._answers.get(raw_id)

    @property
    def fresh(self) -> bool:
        return self.status is not None and self._age_s < STATUS_STALE_S

    @property
    def state(self) -> ArmState:
        """OFFLINE while arm says nothing."""
        if not self.fresh:
            return ArmState.OFFLINE
        try:
            return ArmState(int(self.status["state"]))
        except ValueError:
            return ArmState.FAULT

    @property
    def epoch(self) -> int:
        return int(self.status["plan_epoch"]) if self.fresh else 0

    @property
    def held(self) -> bool:
        """A hold stands, or the arm's state forbids motion until a person acts."""
        return self.fresh and (
            int(self.status["hold_count"]) > 0
            or self.state in (ArmState.HELD, ArmState.SAFEGUARD, ArmState.PROTECTIVE, ArmState.ESTOP, ArmState.FAULT)
        )

    @property
    def ready(self) -> bool:
        """At rest with nothing loaded: a chunk may start from here."""
        return self.state is ArmState.READY and int(self.status["at_rest"]) == 1 and not self.held

    @property
    def holding(self) -> Holding:
        said = int(self.status["holding"]) if self.fresh else int(Holding.UNKNOWN)
        return Holding(said) if said in Holding._value2member_map_ else Holding.UNKNOWN

    @property
    def moving(self) -> bool:
        return self.fresh and bool((abs(self.status["target_qd_rad_s"]) > 1e-4).any())

    def playing(self) -> TrajectoryState | None:
        """The trajectory under way, if this process saw it being published."""
        return self._known.get(int(self.status["playing_id"])) if self.fresh else None

    def taken_at(self) -> TcpPose | None:
        """Where the fingers last closed, by the trajectories that were played; None if none of those known says so."""
        if not self.fresh:
            return None
        playing = int(self.status["playing_id"])
        until_s = self.path_s() if playing else math.inf
        for trajectory_id in sorted(
            (i for i in self._known if i <= (playing or int(self.status["finished_id"]))), reverse=True
        ):
            trajectory = self._known[trajectory_id]
            pose = trajectory.closed_at(until_s)
            if pose is not None or not trajectory.begins_closed():
                return pose
            until_s = math.inf  # one before: what it still had to play when it was replaced is not told apart
        return None

    def path_s(self) -> float:
        """Path time now on the trajectory under way."""
        age_s = (time.monotonic_ns() - int(self.status["stamp_ns"])) * 1e-9
        ahead_s = min(max(age_s, 0.0), 0.1) * self.clock_rate
        return float(self.status["path_s"]) + float(self.status["path_rate"]) * ahead_s

    def now(self) -> Planned | None:
        """The plan at this moment; None while it is not known."""
        if not self.fresh:
            return None
        if self.ready or int(self.status["playing_id"]) == 0:
            return at_rest(self.status, self.kinematics)
        trajectory = self.playing()
        return trajectory.at(self.path_s()) if trajectory is not None else None

    def still(self) -> bool:
        """Nothing more is to move: at rest, or what remains of the trajectory is standing."""
        if self.ready:
            return True
        trajectory = self.playing()
        if trajectory is None or int(self.status["loaded_id"]) != trajectory.id:
            return False
        return trajectory.still_after(self.path_s())

    def measured(self) -> TcpPose:
        return measured_pose(self.status)

    def join(self, delay_s: float) -> Join | None:
        """Where a chunk asked for now can join, `delay_s` ahead.

        None while it cannot: another one waits for its join time, the tail is too short, or the arm is not ready.
        """
        if self.ready:
            return Join(0, 0.0, at_rest(self.status, self.kinematics), self.epoch)
        if self.state is not ArmState.RUNNING or self.held:
            return None
        trajectory = self.playing()
        if trajectory is None or int(self.status["loaded_id"]) != trajectory.id:
            return None
        at_s = round(self.path_s() + delay_s, 6)  # the wire's unit: whole microseconds
        if at_s > trajectory.duration_s - _TAIL_S:
            return None
        return Join(trajectory.id, at_s, trajectory.at(at_s), self.epoch)

    def passed(self, join: Join) -> bool:
        """True if a chunk for this join would come too late."""
        if join.epoch != self.epoch:
            return True
        if join.trajectory_id == 0:
            return not self.ready
        return int(self.status["playing_id"]) != join.trajectory_id or self.path_s() >= join.path_s
