"""Forward and inverse kinematics of the simulated arm, from its own DH parameters.

A frame is 12 floats: the rotation row by row, then x, y, z in metres. Plain floats, because this runs in the 2 ms cycle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Frame = tuple[float, ...]
IDENTITY: Frame = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


class NoSolution(ValueError):
    """The pose cannot be reached from the given joint positions."""


@dataclass(frozen=True)
class DhParameters:
    """Classic DH: a and d in metres, alpha in radians, six each.

    Defaults: universal-robots.com, "DH parameters for calculations of kinematics and dynamics", UR5e.
    """

    a: Sequence[float] = (0.0, -0.425, -0.3922, 0.0, 0.0, 0.0)
    d: Sequence[float] = (0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996)
    alpha: Sequence[float] = (math.pi / 2, 0.0, 0.0, math.pi / 2, -math.pi / 2, 0.0)


def product(a: Frame, b: Frame) -> Frame:
    a0, a1, a2, a3, a4, a5, a6, a7, a8, ax, ay, az = a
    b0, b1, b2, b3, b4, b5, b6, b7, b8, bx, by, bz = b
    return (
        a0 * b0 + a1 * b3 + a2 * b6, a0 * b1 + a1 * b4 + a2 * b7, a0 * b2 + a1 * b5 + a2 * b8,
        a3 * b0 + a4 * b3 + a5 * b6, a3 * b1 + a4 * b4 + a5 * b7, a3 * b2 + a4 * b5 + a5 * b8,
        a6 * b0 + a7 * b3 + a8 * b6, a6 * b1 + a7 * b4 + a8 * b7, a6 * b2 + a7 * b5 + a8 * b8,
        a0 * bx + a1 * by + a2 * bz + ax, a3 * bx + a4 * by + a5 * bz + ay, a6 * bx + a7 * by + a8 * bz + az,
    )  # fmt: skip


def inverse(f: Frame) -> Frame:
    r0, r1, r2, r3, r4, r5, r6, r7, r8, x, y, z = f
    return (
        r0, r3, r6, r1, r4, r7, r2, r5, r8,
        -(r0 * x + r3 * y + r6 * z), -(r1 * x + r4 * y + r7 * z), -(r2 * x + r5 * y + r8 * z),
    )  # fmt: skip


def rotation_vector(f: Frame) -> tuple[float, float, float]:
    """Axis times angle, rad."""
    x, y, z = f[7] - f[5], f[2] - f[6], f[3] - f[1]
    sine2 = math.sqrt(x * x + y * y + z * z)  # twice the sine of the angle
    angle = math.atan2(sine2, f[0] + f[4] + f[8] - 1.0)
    if sine2 > 1e-6:
        k = angle / sine2
        return x * k, y * k, z * k
    if angle < 1.0:
        return x / 2, y / 2, z / 2
    # near pi: the axis is the largest column of R + I
    columns = [(f[0] + 1, f[3], f[6]), (f[1], f[4] + 1, f[7]), (f[2], f[5], f[8] + 1)]
    axis = max(columns, key=lambda c: c[0] * c[0] + c[1] * c[1] + c[2] * c[2])
    k = angle / math.sqrt(sum(c * c for c in axis))
    return axis[0] * k, axis[1] * k, axis[2] * k


def to_pose(f: Frame) -> list[float]:
    """x, y, z (m) and a rotation vector (rad)."""
    return [f[9], f[10], f[11], *rotation_vector(f)]


def from_pose(pose: Sequence[float]) -> Frame:
    x, y, z, rx, ry, rz = (float(v) for v in pose)
    angle = math.sqrt(rx * rx + ry * ry + rz * rz)
    if angle < 1e-12:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, x, y, z)
    kx, ky, kz = rx / angle, ry / angle, rz / angle
    c, s = math.cos(angle), math.sin(angle)
    v = 1.0 - c
    return (
        c + kx * kx * v, kx * ky * v - kz * s, kx * kz * v + ky * s,
        ky * kx * v + kz * s, c + ky * ky * v, ky * kz * v - kx * s,
        kz * kx * v - ky * s, kz * ky * v + kx * s, c + kz * kz * v, x, y, z,
    )  # fmt: skip


class Kinematics:
    """Of one arm. Joint positions in radians, frames of the flange in the base frame."""

    def __init__(self, dh: DhParameters) -> None:
        self.dh = dh
        self._rows = [
            (float(a), float(d), math.cos(alpha), math.sin(alpha))
            for a, d, alpha in zip(dh.a, dh.d, dh.alpha, strict=True)
        ]

    def flange(self, q: Sequence[float]) -> Frame:
        frame = IDENTITY
        for angle, (a, d, ca, sa) in zip(q, self._rows, strict=True):
            c, s = math.cos(angle), math.sin(angle)
            frame = product(frame, (c, -s * ca, s * sa, s, c * ca, -c * sa, 0.0, sa, ca, a * c, a * s, d))
        return frame

    def jacobian(self, q: Sequence[float], tool: Frame) -> np.ndarray:
        """6x6, linear rows first, of the tool's origin in the base frame."""
        frame, axes = IDENTITY, []
        for angle, (a, d, ca, sa) in zip(q, self._rows, strict=True):
            axes.append((np.array((frame[2], frame[5], frame[8])), np.array(frame[9:])))
            c, s = math.cos(angle), math.sin(angle)
            frame = product(frame, (c, -s * ca, s * sa, s, c * ca, -c * sa, 0.0, sa, ca, a * c, a * s, d))
        tip = np.array(product(frame, tool)[9:])
        return np.array([np.concatenate((np.cross(z, tip - origin), z)) for z, origin in axes]).T

    def joints(self, flange: Frame, near: Sequence[float], rounds: int = 100) -> list[float]:
        """The joint positions close to `near` that bring the flange there (damped least squares). Raises NoSolution."""
        q = np.array(near, float)
        want = np.array(flange[:9]).reshape(3, 3)
        for _ in range(rounds):
            now = self.flange([float(v) for v in q])
            rotation = want @ np.array(now[:9]).reshape(3, 3).T
            turn = rotation_vector((*(float(v) for v in rotation.ravel()), 0.0, 0.0, 0.0))
            error = np.array([flange[9] - now[9], flange[10] - now[10], flange[11] - now[11], *turn])
            if float(np.abs(error).max()) < 1e-9:
                return [float(v) for v in q]
            jacobian = self.jacobian([float(v) for v in q], IDENTITY)
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-8 * np.eye(6), error)
            largest = float(np.abs(step).max())
            q += step * min(1.0, 0.5 / largest)
        if float(np.abs(error).max()) < 1e-6:
            return [float(v) for v in q]
        raise NoSolution(f"no joint positions for {[round(v, 4) for v in to_pose(flange)]}")
