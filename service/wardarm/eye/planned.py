"""Where the arm will be, by plan, at a path time of a trajectory: what the policy is told as `robot_state`.

Between two knots the jerk of the law is constant, so the quintic through (q, qd, qdd) at both ends is the law that
the player runs. The opening is a step: a knot's value holds from that knot on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.kinematics import Kinematics, TcpPose, pose_from_rotvec
from wardarm.policy import contract
from wardarm.shm.layouts import Holding

Array = NDArray[np.float64]
_LETTING_GO = 0.05  # of the opening: told to open so much wider than they stand, fingers are on their way


@dataclass(frozen=True)
class Planned:
    """`opening` is the commanded one, 0..1. At rest qd and qdd are zero."""

    q_rad: Array
    qd_rad_s: Array
    qdd_rad_s2: Array
    pose: TcpPose
    opening: float

    @property
    def holding(self) -> bool:
        return self.opening <= contract.GRIP_CLOSED

    def robot_state(self) -> NDArray[np.float32]:
        """The model's input: (8,) FP32."""
        return contract.robot_state(self.pose.xyz_m, self.pose.rpy_rad, contract.snap_grip(self.opening), self.holding)


def quintic(
    duration_s: float, t_s: float, start: tuple[Array, Array, Array], end: tuple[Array, Array, Array]
) -> tuple[Array, Array, Array]:
    """Value, first and second derivative at `t_s` of the quintic with (x, xd, xdd) given at 0 and `duration_s`."""
    (p0, v0, a0), (p1, v1, a1) = start, end
    h, u = duration_s, t_s / duration_s
    c0, c1, c2 = p0, v0 * h, a0 * h * h / 2
    d = p1 - (c0 + c1 + c2)
    dv = v1 * h - (c1 + 2 * c2)
    da = a1 * h * h - 2 * c2
    c3 = 10 * d - 4 * dv + da / 2
    c4 = -15 * d + 7 * dv - da
    c5 = 6 * d - 3 * dv + da / 2
    x = c0 + u * (c1 + u * (c2 + u * (c3 + u * (c4 + u * c5))))
    xd = (c1 + u * (2 * c2 + u * (3 * c3 + u * (4 * c4 + u * 5 * c5)))) / h
    xdd = (2 * c2 + u * (6 * c3 + u * (12 * c4 + u * 20 * c5))) / (h * h)
    return x, xd, xdd


class TrajectoryState:
    """Evaluates one Trajectory block (numpy.void of layouts.TRAJECTORY)."""

    def __init__(self, trajectory: Any, kinematics: Kinematics) -> None:
        count = int(trajectory["knot_count"])
        if count < 2:
            raise ValueError(f"trajectory {int(trajectory['id'])}: knot_count is {count}, a motion needs at least 2")
        knots = trajectory["knots"][:count]
        self.id = int(trajectory["id"])
        self.raw_id = int(trajectory["raw_id"])
        self.source = int(trajectory["source"])
        self.duration_s = float(trajectory["duration_s"])
        self._t = np.array(knots["t_s"])
        self._q, self._qd, self._qdd = (np.array(knots[k]) for k in ("q_rad", "qd_rad_s", "qdd_rad_s2"))
        self._grip = np.array(knots["grip"])
        self._kinematics = kinematics

    def at(self, path_s: float) -> Planned:
        """The plan at a path time, clamped to the trajectory (it ends at rest)."""
        s = min(max(path_s, float(self._t[0])), float(self._t[-1]))
        i = min(max(int(np.searchsorted(self._t, s, side="right")) - 1, 0), len(self._t) - 2)
        h = float(self._t[i + 1] - self._t[i])
        q, qd, qdd = quintic(
            h, s - float(self._t[i]), (self._q[i], self._qd[i], self._qdd[i]),
            (self._q[i + 1], self._qd[i + 1], self._qdd[i + 1]),
        )  # fmt: skip
        opening = self._grip[i + 1] if s >= self._t[i + 1] else self._grip[i]
        return Planned(q, qd, qdd, self._kinematics.forward(q), float(opening))

    def begins_closed(self) -> bool:
        return float(self._grip[0]) <= contract.GRIP_CLOSED

    def closed_at(self, until_s: float) -> TcpPose | None:
        """Where the TCP is lowest, knot by knot, while the fingers close for the last time before a path time.

        None if they do not close there, or not all the way.
        """
        closed = self._grip <= contract.GRIP_CLOSED
        ends = np.flatnonzero(closed[1:] & ~closed[:-1] & (self._t[1:] <= until_s)) + 1
        if not len(ends):
            return None
        end = int(ends[-1])
        opened = np.flatnonzero(self._grip[:end] >= contract.GRIP_OPEN)
        begin = int(opened[-1]) + 1 if len(opened) else 0
        poses = [self._kinematics.forward(q) for q in self._q[begin : end + 1]]
        return min(poses, key=lambda pose: float(pose.xyz_m[2]))

    def still_after(self, path_s: float) -> bool:
        """True if neither the arm nor the fingers are to move any more from `path_s` on (tolerance 0.1 mrad)."""
        now = self.at(path_s)
        i = int(np.searchsorted(self._t, path_s, side="right"))
        return bool(
            (np.abs(self._q[i:] - now.q_rad) < 1e-4).all() and (np.abs(self._grip[i:] - now.opening) < 1e-3).all()
        )


def at_rest(status: Any, kinematics: Kinematics) -> Planned:
    """The plan of an arm at rest: where it stands, the fingers as last commanded.

    Fingers that hold something, or may (UNKNOWN), count as closed, whatever opening they stopped at: the policy knows a
    held object by a commanded opening of 0, and a command to stay where they stand would take their force away. Before
    the first command (grip_target -1) empty ones are as the gripper says. Fingers that were told to open wider than they
    are let go, though what they held counts as held until they have arrived: told to close now, they would take it again.
    """
    q = np.array(status["target_q_rad"], np.float64)
    if not np.isfinite(q).all() or not q.any():  # no target before the player's first cycle
        q = np.array(status["q_rad"], np.float64)
    target = float(status["grip_target"])
    letting_go = target > float(status["grip_opening"]) + _LETTING_GO
    held = int(status["holding"]) != Holding.NO and not letting_go
    opening = 0.0 if held else min(target, 1.0) if target >= 0 else float(status["grip_opening"])
    zero = np.zeros(6)
    return Planned(q, zero, zero, kinematics.forward(q), opening)


def measured_pose(status: Any) -> TcpPose:
    """The TCP as the controller reports it."""
    return pose_from_rotvec(np.asarray(status["tcp_pose"], np.float64))
