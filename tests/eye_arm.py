"""A scripted planner and arm on the real blocks, for tests of eye: answers each RawChunk, plays it, writes ArmStatus.

It stands where postproc, arm, player and robot stand. Its planner is as plain as can be (inverse kinematics of every
second point, finite differences, at the chunk's own pace, at rest at the end), its arm follows exactly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from wardarm.config import Config
from wardarm.eye.planned import TrajectoryState
from wardarm.kinematics import Kinematics, TcpPose, rotvec_from_pose
from wardarm.policy import contract
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, Holding, PlanStatus, RefusalReason, Source

HOME_Q = np.array([2.67854, -2.0576, 1.70011, -1.21331, -1.5708, -2.03385])
RATE = 2.0  # path seconds a second: the tests need not take as long as the motion
STRIDE = 2  # knots 0.1 s apart
STALL_S = 0.05  # more is a machine that stood still: the arm does not jump on for it


@dataclass
class ScriptedArm:
    """`start()` runs it at 125 Hz in a thread. Every public field may be changed by a test while it runs."""

    config: Config
    thing_at: Callable[[np.ndarray], bool] = lambda _xyz: False  # is something between the fingers here?
    refuse_plan: int = 0  # how many plans to refuse
    refuse_arm: int = 0  # how many trajectories to refuse
    permit: bool = True
    held: bool = False
    epoch: int = 1
    chunks: list[Any] = field(default_factory=list)
    trajectories: list[Any] = field(default_factory=list)
    path: list[tuple[float, float, float, float, int]] = field(default_factory=list)  # x y z opening holding

    def __post_init__(self) -> None:
        prefix = self.config.shm.prefix
        self.kinematics = Kinematics(self.config.arm)
        home = self.config.poses.home
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        self.q = self.kinematics.solve(pose, HOME_Q)
        self.qd = np.zeros(6)
        self.opening, self.target, self.holding = 1.0, 1.0, Holding.NO
        self.commanded = False
        ring.create(BlockKind.RAW_CHUNK, prefix)
        self._raw = ring.Reader(BlockKind.RAW_CHUNK, prefix)
        self._traj = ring.Writer(BlockKind.TRAJECTORY, prefix)
        self._status = ring.Writer(BlockKind.ARM_STATUS, prefix)
        self._seen = 0
        self._id = self.late = 0
        self._known: dict[int, TrajectoryState] = {}
        self._playing: TrajectoryState | None = None
        self._loaded: tuple[int, float, TrajectoryState] | None = None  # joins (id, path_s) with this
        self._loaded_id = self._finished_id = self._refused_id = self._refusal = 0
        self._path_s = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.tick(0.0)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def hold(self) -> None:
        """Comes to rest at once; the plan is void."""
        with self._lock:
            self.held = True
            self.epoch += 1
            self._playing = self._loaded = None
            self.qd = np.zeros(6)

    def resume(self) -> None:
        with self._lock:
            self.held = False

    def place(self, xyz_m: np.ndarray) -> None:
        with self._lock:
            self.q = self.kinematics.solve(TcpPose(xyz_m, np.zeros(3)), self.q)

    @property
    def xyz(self) -> np.ndarray:
        return self.kinematics.forward(self.q).xyz_m

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stop.is_set():
            now = time.monotonic()
            with self._lock:
                self.tick(min(now - last, STALL_S) * RATE)
            last = now
            time.sleep(0.008)

    def tick(self, dt_s: float) -> None:
        raw = self._raw.latest()
        if raw is not None and int(raw.data["id"]) != self._seen:
            self._seen = int(raw.data["id"])
            self._answer(raw.data)
        self._play(dt_s)
        self._fingers(dt_s)
        self._publish()

    def _answer(self, raw: Any) -> None:
        self.chunks.append(raw)
        t = self._traj.blank()
        self._id += 1
        t["id"], t["raw_id"], t["step_seq"], t["plan_epoch"] = self._id, raw["id"], raw["step_seq"], raw["plan_epoch"]
        t["join_trajectory_id"], t["join_path_s"] = raw["join_trajectory_id"], raw["join_path_s"]
        t["source"] = raw["source"]
        if self.refuse_plan > 0:
            self.refuse_plan -= 1
            t["status"], t["reason"] = PlanStatus.COLLISION, b"elbow 3 mm into the table"
        elif int(raw["plan_epoch"]) != self.epoch:
            t["status"] = PlanStatus.STALE
        else:
            self._plan(raw, t)
        self._traj.publish(t)
        self.trajectories.append(t)
        if int(t["status"]) == PlanStatus.OK:
            self._admit(t)

    def _plan(self, raw: Any, t: Any) -> None:
        points = contract.denormalise(np.array(raw["traj"]).view(np.float16).reshape(64, 6))
        grip = np.array(raw["grip"]).view(np.float16).astype(float)
        if int(raw["join_trajectory_id"]):
            start = self._known[int(raw["join_trajectory_id"])].at(float(raw["join_path_s"]))
            q, qd = start.q_rad, start.qd_rad_s
        else:
            q, qd = self.q, np.zeros(6)
        off_mm = float(np.linalg.norm(points[0, :3] - self.kinematics.forward(q).xyz_m)) * 1e3
        if off_mm > 30:
            t["status"], t["reason"] = PlanStatus.START_MISMATCH, f"{off_mm:.0f} mm".encode()
            return
        index = np.arange(0, 64, STRIDE)
        angles = [q]
        for k in index[1:]:
            angles.append(self.kinematics.solve(TcpPose(points[k, :3], points[k, 3:]), angles[-1]))
        angles.append(angles[-1])  # an interval to come to rest in
        h = STRIDE / contract.RATE_HZ / float(raw["speed_scale"])
        n = len(angles)
        t["knot_count"], t["duration_s"] = n, (n - 1) * h
        for i in range(n):
            knot = t["knots"][i]
            knot["t_s"], knot["q_rad"] = i * h, angles[i]
            if i == 0:
                knot["qd_rad_s"] = qd
            elif i < n - 1:
                knot["qd_rad_s"] = (angles[i + 1] - angles[i - 1]) / (2 * h)
            knot["grip"] = grip[min(i * STRIDE, 63)]

    def _admit(self, t: Any) -> None:
        state = TrajectoryState(t, self.kinematics)
        join_id, join_s = int(t["join_trajectory_id"]), float(t["join_path_s"])
        playing = self._playing.id if self._playing else 0
        refusal = RefusalReason.NONE
        if self.refuse_arm > 0:
            self.refuse_arm -= 1
            refusal = RefusalReason.ENVELOPE
        elif join_id != playing:
            refusal = RefusalReason.UNKNOWN_JOIN
        elif join_id and join_s <= self._path_s:
            refusal = RefusalReason.LATE
        if refusal:
            self.late += refusal in (RefusalReason.UNKNOWN_JOIN, RefusalReason.LATE)
            self._refused_id, self._refusal = state.id, refusal
            return
        self._known[state.id] = state
        self._loaded_id = state.id
        self._loaded = (join_id, join_s, state)

    def _play(self, dt_s: float) -> None:
        if self._playing is None:
            if self._loaded is not None and self.permit and not self.held:
                self._playing, self._path_s, self._loaded = self._loaded[2], 0.0, None
            return
        self._path_s += dt_s
        if self._loaded is not None and self._path_s >= self._loaded[1]:
            self._path_s -= self._loaded[1]
            self._playing, self._loaded = self._loaded[2], None
        now = self._playing.at(self._path_s)
        self.commanded = True
        self.q, self.qd, self.target = now.q_rad, now.qd_rad_s, now.opening
        if self._path_s >= self._playing.duration_s:
            self._finished_id, self._playing, self.qd = self._playing.id, None, np.zeros(6)

    def _fingers(self, dt_s: float) -> None:
        step = float(np.clip(self.target - self.opening, -2 * dt_s, 2 * dt_s))
        caught = self.holding is Holding.YES or self.thing_at(self.xyz)
        if step < 0 and caught and self.opening + step < 0.4:
            self.opening, self.holding = 0.4, Holding.YES
        else:
            self.opening += step
            if step > 0:
                self.holding = Holding.NO
        x, y, z = self.xyz
        self.path.append((x, y, z, self.opening, int(self.holding)))

    def _publish(self) -> None:
        s = self._status.blank()
        s["stamp_ns"], s["plan_epoch"] = time.monotonic_ns(), self.epoch
        playing = self._playing is not None
        state = ArmState.HELD if self.held else ArmState.RUNNING if playing else ArmState.READY
        if self._loaded is not None and not playing and not self.held:
            state = ArmState.LOADED
        s["state"] = state
        s["q_rad"] = s["target_q_rad"] = self.q
        s["qd_rad_s"] = s["target_qd_rad_s"] = self.qd
        s["tcp_pose"] = rotvec_from_pose(self.kinematics.forward(self.q))
        if self._playing is not None:
            s["playing_id"], s["path_s"], s["path_rate"] = self._playing.id, self._path_s, RATE
            s["path_duration_s"] = self._playing.duration_s
        s["loaded_id"], s["finished_id"] = self._loaded_id, self._finished_id
        s["refused_id"], s["refusal"] = self._refused_id, self._refusal
        s["at_rest"] = not playing
        s["grip_opening"], s["holding"] = self.opening, self.holding
        s["grip_target"] = self.target if self.commanded else -1.0  # the real player knows no target before the first
        moving = abs(self.target - self.opening) > 1e-6 and not (self.holding is Holding.YES and self.opening <= 0.4)
        s["grip_moving"] = moving
        if self.held:
            s["hold_count"] = 1
            s["holds"][0]["seq"], s["holds"][0]["detail"] = 1, b"somebody is at the bed"
        self._status.publish(s)

    def sources(self) -> set[Source]:
        return {Source(int(c["source"])) for c in self.chunks}
