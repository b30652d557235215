"""Where the TCP is for given joint angles, from the configuration's DH parameters.

Base is DH frame 0 of the arm; lengths are metres, angles radians. Planner and envelope have kinematics of their own
in C++; this one serves what is not on the hot path: the planned state, tools and tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm
from wardarm.policy import contract

Array = NDArray[np.float64]


class Unreachable(ValueError):
    """No joint angles were found for a pose; the text says how close the search came."""


@dataclass(frozen=True)
class TcpPose:
    """Position (m, base) and roll pitch yaw (rad) relative to tool-down."""

    xyz_m: Array
    rpy_rad: Array

    @property
    def six(self) -> Array:
        """x y z roll pitch yaw, shape (6,)."""
        return np.concatenate([self.xyz_m, self.rpy_rad])


def pose_from_rotvec(six: Array) -> TcpPose:
    """x y z (m) and rotation vector (rad), as ArmStatus.tcp_pose has it."""
    return TcpPose(np.array(six[:3], np.float64), contract.rpy_from_rotation(contract.rotation_from_rotvec(six[3:6])))


def rotvec_from_pose(pose: TcpPose) -> Array:
    """x y z (m) and rotation vector (rad), shape (6,), of a pose relative to tool-down."""
    rotation = contract.rotation_from_rpy(pose.rpy_rad)
    return np.concatenate([pose.xyz_m, contract.rotvec_from_rotation(rotation)])


class Kinematics:
    def __init__(self, arm: Arm) -> None:
        self._a, self._d = np.asarray(arm.dh_a), np.asarray(arm.dh_d)
        self._ca, self._sa = np.cos(arm.dh_alpha), np.sin(arm.dh_alpha)
        tcp = np.eye(4)
        tcp[:3, :3] = contract.rotation_from_rotvec(np.asarray(arm.tcp[3:]))
        tcp[:3, 3] = arm.tcp[:3]
        self._tcp = tcp

    def frames(self, q_rad: Array) -> list[Array]:
        """base_T_i for i = 0..6, then base_T_tcp: eight 4x4 matrices."""
        t = np.eye(4)
        out = [t]
        for i in range(6):
            c, s, ca, sa = np.cos(q_rad[i]), np.sin(q_rad[i]), self._ca[i], self._sa[i]
            a = self._a[i]
            t = t @ np.array(
                [[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, self._d[i]], [0, 0, 0, 1]]
            )
            out.append(t)
        out.append(t @ self._tcp)
        return out

    def forward(self, q_rad: Array) -> TcpPose:
        t = self.frames(q_rad)[-1]
        return TcpPose(t[:3, 3].copy(), contract.rpy_from_rotation(t[:3, :3]))

    def jacobian(self, q_rad: Array) -> Array:
        """6x6: TCP velocity (m/s) and angular velocity (rad/s), both in base, per joint speed (rad/s)."""
        frames = self.frames(q_rad)
        tip = frames[-1][:3, 3]
        columns = [np.concatenate([np.cross(f[:3, 2], tip - f[:3, 3]), f[:3, 2]]) for f in frames[:6]]
        return np.stack(columns, 1)

    def solve(self, pose: TcpPose, start_q_rad: Array) -> Array:
        """Joint angles for a pose, on the branch of `start_q_rad` (damped least squares). Raises Unreachable."""
        q = np.array(start_q_rad, np.float64)
        want = contract.rotation_from_rpy(pose.rpy_rad)
        error = np.zeros(6)
        for _ in range(200):
            t = self.frames(q)[-1]
            error = np.concatenate([pose.xyz_m - t[:3, 3], contract.rotvec_from_rotation(want @ t[:3, :3].T)])
            if np.linalg.norm(error) < 1e-10:
                break
            j = self.jacobian(q)
            step = j.T @ np.linalg.solve(j @ j.T + 1e-8 * np.eye(6), error)
            q = q + step * min(1.0, 0.3 / max(1e-12, float(np.abs(step).max())))
        if np.linalg.norm(error[:3]) > 1e-6 or np.linalg.norm(error[3:]) > 1e-6:
            raise Unreachable(
                f"pose {np.round(pose.xyz_m, 4).tolist()} m: off by {np.linalg.norm(error[:3]) * 1e3:.2f} mm and "
                f"{np.degrees(np.linalg.norm(error[3:])):.2f} deg after 200 iterations"
            )
        return q
