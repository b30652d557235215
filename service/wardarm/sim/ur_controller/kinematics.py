"""Forward and inverse kinematics of the simulated arm, from its own DH parameters.

A frame is 12 floats: the rotation row by row, then x, y, z in metres. Plain floats, because this runs in the 2 ms cycle.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
    theta: Sequence[float] = (0.0,) * 6
    """What a calibration adds to each joint's angle, rad."""

    def calibrated(self, path: str | Path) -> DhParameters:
        """With the differences of a controller's `calibration.conf`: delta_theta, delta_a, delta_d, delta_alpha.

        Raises ValueError naming what is wrong.
        """
        found: dict[str, list[float]] = {}
        for line in Path(path).read_text("utf-8").splitlines():
            key, equals, value = line.partition("=")
            if not equals or not key.strip().startswith("delta_"):
                continue
            try:
                numbers = [float(v) for v in ast.literal_eval(value.strip())]
            except (ValueError, SyntaxError, TypeError) as e:
                raise ValueError(f"{path}: {key.strip()} = {value.strip()[:60]!r} is no list of numbers") from e
            if len(numbers) != 6:
                raise ValueError(f"{path}: {key.strip()} has {len(numbers)} numbers, expected 6")
            found[key.strip().removeprefix("delta_")] = numbers
        missing = [name for name in ("theta", "a", "d", "alpha") if name not in found]
        if missing:
            raise ValueError(f"{path}: delta_{', delta_'.join(missing)} missing")
        return replace(
            self,
            **{name: tuple(b + x for b, x in zip(getattr(self, name), v, strict=True)) for name, v in found.items()},
        )


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
            (float(a), float(d), math.cos(alpha), math.sin(alpha), float(theta))
            for a, d, alpha, theta in zip(dh.a, dh.d, dh.alpha, dh.theta, strict=True)
        ]
        nominal = all(abs(x - y) < 1e-12 for x, y in zip(dh.alpha, DhParameters().alpha, strict=True))
        zero = (dh.a[0], *dh.a[3:], dh.d[1], dh.d[2], *dh.theta)
        self._exact = nominal and not any(zero)

    def flange(self, q: Sequence[float]) -> Frame:
        frame = IDENTITY
        for angle, (a, d, ca, sa, theta) in zip(q, self._rows, strict=True):
            c, s = math.cos(angle + theta), math.sin(angle + theta)
            frame = product(frame, (c, -s * ca, s * sa, s, c * ca, -c * sa, 0.0, sa, ca, a * c, a * s, d))
        return frame

    def links(self, q: Sequence[float]) -> list[Frame]:
        """The six DH frames, the flange's last."""
        frame, frames = IDENTITY, []
        for angle, (a, d, ca, sa, theta) in zip(q, self._rows, strict=True):
            frame = product(frame, _link(angle + theta, a, d, ca, sa))
            frames.append(frame)
        return frames

    def jacobian(self, q: Sequence[float], tool: Frame) -> np.ndarray:
        """6x6, linear rows first, of the tool's origin in the base frame."""
        frame, axes = IDENTITY, []
        for angle, (a, d, ca, sa, theta) in zip(q, self._rows, strict=True):
            axes.append((frame[2], frame[5], frame[8], *frame[9:]))
            c, s = math.cos(angle + theta), math.sin(angle + theta)
            frame = product(frame, (c, -s * ca, s * sa, s, c * ca, -c * sa, 0.0, sa, ca, a * c, a * s, d))
        x, y, z = product(frame, tool)[9:]
        columns = [
            (ay * (z - oz) - az * (y - oy), az * (x - ox) - ax * (z - oz), ax * (y - oy) - ay * (x - ox), ax, ay, az)
            for ax, ay, az, ox, oy, oz in axes
        ]
        return np.array(columns).T

    # --- inverse
    def joints(self, flange: Frame, near: Sequence[float]) -> list[float]:
        """The joint positions close to `near` that bring the flange there: along a path. Raises NoSolution."""
        if self._exact:
            best = min(self._branches(flange, near), key=lambda q: _distance(q, near), default=None)
            if best is not None and _distance(best, near) < _SAME_BRANCH:
                return best
        return self._descend(flange, near)

    def closest(self, flange: Frame, near: Sequence[float]) -> list[float]:
        """Of all joint positions that bring the flange there, the ones closest to `near`. Raises NoSolution."""
        for start in sorted(self._branches(flange, near), key=lambda q: _distance(q, near)):
            if self._exact:
                return start
            try:
                return self._descend(flange, start)
            except NoSolution:
                continue
        return self._descend(flange, near)

    def _branches(self, flange: Frame, near: Sequence[float]) -> Iterator[list[float]]:
        """Up to eight solutions of an arm without a calibration, each joint's turn as close to `near` as it can be.

        For a calibrated arm they are only near solutions.
        """
        r00, r01, _, r10, r11, _, _, _, _, x, y, _ = flange
        a2, a3 = self.dh.a[1], self.dh.a[2]
        d1, d4, d5, d6 = self.dh.d[0], self.dh.d[3], self.dh.d[4], self.dh.d[5]
        wx, wy = x - d6 * flange[2], y - d6 * flange[5]  # of wrist 3's foot
        reach = math.hypot(wx, wy)
        if reach < abs(d4):
            return
        for shoulder in (1.0, -1.0):
            q1 = math.atan2(wy, wx) + shoulder * math.acos(d4 / reach) + math.pi / 2
            s1, c1 = math.sin(q1), math.cos(q1)
            c5 = (x * s1 - y * c1 - d4) / d6
            if abs(c5) > 1.0 + 1e-9:
                continue
            for wrist in (1.0, -1.0):
                q5 = wrist * math.acos(max(-1.0, min(1.0, c5)))
                s5 = math.sin(q5)
                q6 = near[5]  # at the wrist singularity wrist 3 is free: it stays
                if abs(s5) > 1e-9:
                    q6 = math.atan2((r11 * c1 - r01 * s1) / s5, (r00 * s1 - r10 * c1) / s5)
                for q2, q3, q4 in self._planar(flange, (q1, q5, q6), a2, a3, d1, d4, d5, d6):
                    angles = (q1, q2, q3, q4, q5, q6)
                    yield [_unwound(v, n) for v, n in zip(angles, near, strict=True)]

    def _planar(
        self, flange: Frame, outer: tuple[float, float, float], a2: float, a3: float, d1: float, d4: float, d5: float,
        d6: float,
    ) -> Iterator[tuple[float, float, float]]:  # fmt: skip
        """Shoulder lift, elbow and wrist 1 in the plane of the upper arm."""
        q1, q5, q6 = outer
        f14 = product(inverse(_link(q1, 0.0, d1, 0.0, 1.0)), flange)
        f14 = product(f14, inverse(product(_link(q5, 0.0, d5, 0.0, -1.0), _link(q6, 0.0, d6, 1.0, 0.0))))
        # f14 ends in wrist 1's frame, d4 off the plane along its y axis
        px, py = f14[9] - d4 * f14[1], f14[10] - d4 * f14[4]
        square = px * px + py * py
        c3 = (square - a2 * a2 - a3 * a3) / (2 * a2 * a3)
        if abs(c3) > 1.0 + 1e-9:
            return
        total = math.atan2(f14[3], f14[0])  # the angles of the three add up to wrist 1's direction
        for elbow in (1.0, -1.0):
            q3 = elbow * math.acos(max(-1.0, min(1.0, c3)))
            q2 = math.atan2(py, px) - math.atan2(a3 * math.sin(q3), a2 + a3 * math.cos(q3))
            yield q2, q3, total - q2 - q3

    def _descend(self, flange: Frame, near: Sequence[float], rounds: int = 100) -> list[float]:
        """Damped least squares from `near`."""
        q = np.array(near, float)
        want = np.array(flange[:9]).reshape(3, 3)
        for _ in range(rounds):
            now = self.flange(q.tolist())
            rotation = want @ np.array(now[:9]).reshape(3, 3).T
            turn = rotation_vector((*rotation.ravel().tolist(), 0.0, 0.0, 0.0))
            error = np.array([flange[9] - now[9], flange[10] - now[10], flange[11] - now[11], *turn])
            if float(np.abs(error).max()) < 1e-9:
                return [float(v) for v in q.tolist()]
            jacobian = self.jacobian(q.tolist(), IDENTITY)
            step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-8 * np.eye(6), error)
            largest = float(np.abs(step).max())
            q += step * min(1.0, 0.5 / largest)
        if float(np.abs(error).max()) < 1e-6:
            return [float(v) for v in q.tolist()]
        raise NoSolution(f"no joint positions for {[round(v, 4) for v in to_pose(flange)]}")


_SAME_BRANCH = 0.5  # rad: further apart than this, two solutions are not neighbours on a path


def _link(angle: float, a: float, d: float, ca: float, sa: float) -> Frame:
    c, s = math.cos(angle), math.sin(angle)
    return (c, -s * ca, s * sa, s, c * ca, -c * sa, 0.0, sa, ca, a * c, a * s, d)


def _distance(q: Sequence[float], near: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(q, near, strict=True))


def _unwound(angle: float, near: float) -> float:
    """The same direction, at most half a turn from `near`, but within the joint's +-360 degrees."""
    value = angle + 2 * math.pi * round((near - angle) / (2 * math.pi))
    if value > 2 * math.pi:
        value -= 2 * math.pi
    elif value < -2 * math.pi:
        value += 2 * math.pi
    return value
