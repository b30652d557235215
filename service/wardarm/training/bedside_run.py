"""Tasks on the real path in lock-step: the product's planner, arm's check, player.script and physics, no wall clock.

What stands for process `eye` here is the same course of a step (follow the policy until it says done twice, then a
script), with a fixed delay from picture to join. Its holds, its Triton connection and the network are left out; a
sample through the running daemon is what they are checked with.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import _native
from wardarm import config as configuration
from wardarm.arm.params import write_planner_params
from wardarm.eye.heights import Heights, free_place
from wardarm.eye.planned import Planned, TrajectoryState
from wardarm.eye.scripted import Fingers, Line, Script, lifted, via_travel
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.policy import contract
from wardarm.policy.view import Pose, intrinsics
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.lockstep_arm import LockstepArm
from wardarm.training.environment import Environment
from wardarm.training.episodes import Policy

PERIOD_S = 0.4
DELAY_S = 0.45
"""From picture to join, as a desk measures it: 40 ms inference, plan, check, load of 64 knots at 2 ms each, margin."""
INFER_S = 0.06
SCRIPT_AHEAD_S, SCRIPT_WINDOW_S = 0.35, 1.2
POLICY_LIMIT_S = 25.0
CLOSED_ON_NOTHING_S = 0.5
POUR_S = 2.0
RIGHT_UP_M = 0.13  # as eye/deliver.py
JOIN_LIMIT_S = 2.0
WARD = 0
_LOOK_S = 0.05


class TaskFailed(RuntimeError):
    """The arm or the planner said no where the task needed a yes; the text says which."""


@dataclass
class Notes:
    """What happened on the way. `end_pose`: the TCP (position m, rotation 3x3) when the policy had said done twice."""

    chunks: int = 0
    refused: int = 0
    retries: int = 0
    reasons: list[str] = field(default_factory=list)
    end_pose: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    grasp: TcpPose | None = None


class BedsideRun:
    """A scene with the arm at home and open fingers. `looks` draws the D455's picture of it with its own light and camera."""

    def __init__(self, scene: Any, looks: Environment, config: configuration.Config | None = None) -> None:
        self.config = config or configuration.load("desk")
        self.sim = Lockstep.bedside(scene, self.config)
        self.arm = LockstepArm(self.sim, self.config)
        self.looks = looks
        self.kinematics = Kinematics(self.config.arm)
        with tempfile.TemporaryDirectory() as folder:
            self.planner = _native.Planner(str(write_planner_params(self.config, Path(folder) / "planner.params")))
        self.opening = 1.0
        self.spot: tuple[float, float] | None = None
        self._id = 0
        self._state: TrajectoryState | None = None
        self.sim.load_player()
        self.arm.permit(True)

    def __enter__(self) -> BedsideRun:
        self.sim.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.sim.__exit__(*exception)

    # -- where it is
    def choose_spot(self) -> bool:
        """As `eye.leaf.choose`, by depth from a camera that stands as it should; False if the leaf has no free place."""
        self.picture()
        poses = self.config.poses
        heights = Heights.measured(self.looks.depth_m(), Pose.trained(), intrinsics())
        self.spot = free_place(heights, poses.leaf, poses.leaf_room, 0.0)
        return self.spot is not None

    def picture(self) -> NDArray[np.uint8]:
        state = self.sim.world.state(0, 1.0, 1.0, 0, 0)
        world = self.looks.world
        world.data.qpos[:] = state["qpos"]
        n = min(len(world.data.mocap_pos), len(state["mocap_pos"]))
        world.data.mocap_pos[:n], world.data.mocap_quat[:n] = state["mocap_pos"][:n], state["mocap_quat"][:n]
        self.looks.refresh()
        return self.looks.draw()

    def _playing(self) -> TrajectoryState | None:
        return self._state if self._state is not None and self.arm.playing_id == self._state.id else None

    def planned(self, ahead_s: float) -> tuple[Planned, tuple[int, float] | None]:
        """The plan that far ahead and where to join it; at rest: where it stands and None."""
        playing = self._playing()
        if playing is None:
            q = np.asarray(self.sim.target_q_rad, float)
            zero = np.zeros(6)
            return Planned(q, zero, zero, self.kinematics.forward(q), self.opening), None
        at_s = self.arm.path_s + ahead_s
        return playing.at(at_s), (playing.id, min(at_s, playing.duration_s))

    # -- one chunk
    def send(
        self, traj: NDArray[np.float16], grip: NDArray[np.float16], plan: Planned, join: tuple[int, float] | None
    ) -> str:
        """Plan, check and load a chunk that joins there. Returns '' or why not."""
        self._id += 1
        raw = np.zeros((), RAW_CHUNK)
        raw["id"], raw["profile"], raw["speed_scale"] = self._id, WARD, 1.0
        raw["traj"] = traj.astype(np.float16).view(np.uint16).reshape(raw["traj"].shape)
        raw["grip"] = grip.astype(np.float16).view(np.uint16)
        data = self.planner.plan(
            raw.tobytes(), plan.q_rad, plan.qd_rad_s, plan.qdd_rad_s2, opening=min(max(plan.opening, 0.0), 1.0)
        )
        record = np.frombuffer(data, TRAJECTORY)[0]
        if int(record["status"]):
            return bytes(record["reason"]).split(b"\0")[0].decode() or f"plan status {int(record['status'])}"
        if join is not None and (self._state is None or self.arm.playing_id != join[0]):
            return "what was to be joined has ended"
        answer = self.arm.offer(record, id=self._id, join=join or (0, 0.0))
        if not answer.accepted:
            return f"{answer.by}: {answer.reason.name} {answer.detail}"
        numbered = np.frombuffer(bytearray(data), TRAJECTORY)[0]
        numbered["id"] = self._id
        self._state = TrajectoryState(numbered, self.kinematics)
        self.sim.until(
            lambda sim: self.arm.playing_id == self._id, JOIN_LIMIT_S
        )  # one chunk waits to be joined at a time
        self.opening = float(self._state.at(self._state.duration_s).opening)
        return ""

    def rest(self) -> None:
        self.arm.rest()

    # -- the policy
    def follow(self, policy: Policy, text: str, notes: Notes) -> bool:
        """Replan until the policy has said done twice (True) or the fingers closed on nothing (False). Raises TaskFailed."""
        done = refusals = 0
        begun_s, closed_s = self.sim.time_s, None
        while self.sim.time_s - begun_s < POLICY_LIMIT_S:
            asked_s = self.sim.time_s
            plan, join = self.planned(DELAY_S)
            opening = contract.snap_grip(plan.opening)
            state = contract.robot_state(plan.pose.xyz_m, plan.pose.rpy_rad, opening, plan.holding)
            chunk = policy.infer(self.picture() if getattr(policy, "looks", True) else _NOTHING, text, state)
            values = contract.normalise(chunk.points)
            self.sim.run(INFER_S)
            notes.chunks += 1
            why = "" if np.abs(values).max() <= 1 else "output_traj leaves [-1, 1]"
            why = why or self.send(values.astype(np.float16), chunk.opening.astype(np.float16), plan, join)
            if why:
                notes.refused += 1
                notes.reasons.append(why)
                refusals += 1
                if refusals > 12:
                    raise TaskFailed(f"12 chunks refused in a row: {why}")
            else:
                refusals = 0
                done = done + 1 if chunk.done > self.config.eye.done_min else 0
            if done >= 2:
                self.rest()
                notes.end_pose = self.sim.world.tcp()
                return True
            left_s = PERIOD_S - (self.sim.time_s - asked_s)
            if left_s > 0:
                self.sim.run(left_s)
            now, _ = self.planned(0.0)
            notes.grasp = self._closing_pose() or notes.grasp
            empty = now.holding and self.sim.world.opening() < 0.06 and not self._held()
            closed_s = (closed_s or self.sim.time_s) if empty else None
            if closed_s is not None and self.sim.time_s - closed_s > CLOSED_ON_NOTHING_S:
                self.rest()
                return False
        raise TaskFailed(f"not done within {POLICY_LIMIT_S:.0f} s")

    def _closing_pose(self) -> TcpPose | None:
        """Where the fingers begin to close, in what plays; None if they do not."""
        playing = self._playing()
        if playing is None or playing.at(0.0).opening < contract.GRIP_OPEN:
            return None
        for at_s in np.arange(0.0, playing.duration_s, _LOOK_S):
            plan = playing.at(float(at_s))
            if plan.opening < contract.GRIP_OPEN:
                return plan.pose
        return None

    def _held(self) -> bool:
        return any(self.sim.judge.piece(n).held for n in self.sim.world.pieces if self.sim.world.present(n))

    # -- scripts
    def script(self, legs: Callable[[Planned], Sequence[Line | Fingers]]) -> None:
        """Along a script from rest to its end. Raises TaskFailed."""
        self.rest()
        plan, _ = self.planned(0.0)
        script = Script(plan.pose, plan.opening, legs(plan))
        if script.duration_s <= 0:
            return
        base_s, join = 0.0, None
        for _ in range(60):
            traj, grip = script.chunk(base_s)
            why = self.send(traj, grip, plan, join)
            if why and join is None:
                raise TaskFailed(f"script: {why}")
            if base_s + contract.CHUNK_S >= script.duration_s and not why:
                break
            if not why:
                self._play_on(SCRIPT_WINDOW_S)
            else:
                self.sim.run(0.05)
            before_s = base_s
            plan, join = self.planned(SCRIPT_AHEAD_S)
            reached_s = before_s + (join[1] if join else contract.CHUNK_S)
            base_s = script.find(plan.pose, plan.opening, before_s, reached_s)
        self.rest()
        self.sim.run(0.3)

    def _play_on(self, seconds: float) -> None:
        """Until so much more of what plays has been played, or it has ended."""
        from_s = self.arm.path_s if self._playing() else 0.0

        def far_enough(_sim: Lockstep) -> bool:
            return self._playing() is None or self.arm.path_s - from_s >= seconds

        self.sim.until(far_enough, 5.0)

    def home(self) -> None:
        goal = self._pose("home")

        def legs(plan: Planned) -> list[Line | Fingers]:
            first: list[Line | Fingers] = (
                [Fingers(1.0)] if plan.opening < contract.GRIP_OPEN and not self._held() else []
            )
            return [*first, *via_travel(plan.pose, goal, self.config.poses.travel_z)]

        self.script(legs)

    def open_and_rise(self) -> None:
        z = self.config.poses.travel_z
        self.script(lambda plan: [Fingers(1.0), Line(lifted(plan.pose, max(z, float(plan.pose.xyz_m[2]))))])

    def set_down(self, x_m: float, y_m: float, z_m: float) -> None:
        """What is held, upright, there: travel, lower, open."""

        def legs(plan: Planned) -> list[Line | Fingers]:
            down = TcpPose(np.array([x_m, y_m, z_m]), np.array([0.0, 0.0, plan.pose.rpy_rad[2]]))
            return [*via_travel(plan.pose, down, self.config.poses.travel_z), Fingers(1.0)]

        self.script(legs)

    def pour_and_right(self, seconds: float = POUR_S) -> None:
        """Stay leaning for a while, then upright again, higher."""

        def legs(plan: Planned) -> list[Line | Fingers]:
            up = TcpPose(plan.pose.xyz_m + np.array([0.0, 0.0, RIGHT_UP_M]), np.array([0.0, 0.0, plan.pose.rpy_rad[2]]))
            return [Fingers(0.0, seconds), Line(up)]

        self.script(legs)

    def _pose(self, name: str) -> TcpPose:
        six = getattr(self.config.poses, name)
        return TcpPose(np.array(six[:3], float), np.radians(six[3:]))


_NOTHING = np.zeros((0, 0, 3), np.uint8)
