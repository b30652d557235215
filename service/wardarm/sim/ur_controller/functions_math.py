"""URScript's module urmath: numbers, lists, matrices, poses. Pure, no time, no controller.

Parameters carry the manual's names, because calls may name them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wardarm.sim.ur_controller.kinematics import Frame, from_pose, inverse, product, rotation_vector, to_pose
from wardarm.sim.urscript import Pose, ScriptError, UrList, copy
from wardarm.sim.urscript.values import LIST_MAX, int32

_STILL = (0.0, 0.0, 0.0)


def acos(f: float) -> float:
    return math.acos(f)


def asin(f: float) -> float:
    return math.asin(f)


def atan(f: float) -> float:
    return math.atan(f)


def atan2(x: float, y: float) -> float:
    return math.atan2(x, y)


def cos(f: float) -> float:
    return math.cos(f)


def sin(f: float) -> float:
    return math.sin(f)


def tan(f: float) -> float:
    return math.tan(f)


def sqrt(f: float) -> float:
    return math.sqrt(f)


def ceil(f: float) -> int:
    return int(int32(math.ceil(f)))


def floor(f: float) -> int:
    return int(int32(math.floor(f)))


def d2r(d: float) -> float:
    return math.radians(d)


def r2d(r: float) -> float:
    return math.degrees(r)


def log(b: float, f: float) -> float:
    if b <= 0 or f <= 0 or b == 1:
        raise ScriptError(f"log: base {b} of {f} is not defined")
    return math.log(f, b)


def pow(base: float, exponent: float) -> float:
    """A float, as the manual says; whole results of whole numbers stay whole numbers (ours)."""
    if (base < 0 and exponent != int(exponent)) or (base == 0 and exponent < 0):
        raise ScriptError(f"pow: {base} to the power of {exponent} is not defined")
    value = math.pow(base, exponent)
    whole = isinstance(base, int) and isinstance(exponent, int) and exponent >= 0 and abs(value) < 2**31
    return int(value) if whole else value


def norm(a: Any) -> Any:
    return math.sqrt(sum(v * v for v in a)) if isinstance(a, list) else abs(a)


def normalize(v: Sequence[float]) -> UrList:
    length = math.sqrt(sum(x * x for x in v))
    if length == 0:
        raise ScriptError("normalize: all elements are 0")
    return UrList(x / length for x in v)


def make_list(length: int, initial_value: Any, capacity: int | None = None) -> UrList:
    most = length if capacity is None else capacity
    if not 0 <= length <= most <= LIST_MAX:
        raise ScriptError(f"make_list: length {length} does not fit capacity {most} (at most {LIST_MAX})")
    if isinstance(initial_value, UrList) and not isinstance(initial_value, Pose):
        raise ScriptError("make_list: a list of lists is a matrix, and those are not made here")
    return UrList([copy(initial_value) for _ in range(length)], most)


def get_list_length(v: Sequence[Any]) -> int:
    return len(v)


def length(v: Sequence[Any]) -> int:
    return len(v)


def size(v: Any) -> Any:
    return UrList([len(v), len(v[0])]) if isinstance(v, UrList) and v.is_matrix else len(v)


def binary_list_to_integer(l: Sequence[bool]) -> int:  # noqa: E741  the manual's own name
    if len(l) > 32:
        raise ScriptError(f"binary_list_to_integer: {len(l)} bits, the limit is 32")
    value = sum(1 << i for i, bit in enumerate(l) if bit)
    return value - (1 << 32) if value >= 1 << 31 else value


def integer_to_binary_list(x: int) -> UrList:
    return UrList(bool(x >> i & 1) for i in range(32))


# --- matrices
def transpose(m: UrList) -> UrList:
    if not m.is_matrix:
        return UrList(UrList([v]) for v in m)
    return UrList(UrList(column) for column in zip(*m, strict=True))


def inv(m: UrList) -> UrList:
    """Of a pose or of a square matrix (Gauss-Jordan with the largest pivot)."""
    if isinstance(m, Pose):
        return Pose(to_pose(inverse(from_pose(m))))
    n = len(m)
    if not m.is_matrix or len(m[0]) != n:
        raise ScriptError("inv needs a pose or a square matrix")
    rows = [[float(v) for v in row] + [float(i == j) for j in range(n)] for i, row in enumerate(m)]
    for i in range(n):
        best = max(range(i, n), key=lambda k: abs(rows[k][i]))
        if abs(rows[best][i]) < 1e-12:
            raise ScriptError("inv: the matrix is singular")
        rows[i], rows[best] = rows[best], rows[i]
        pivot = rows[i][i]
        rows[i] = [v / pivot for v in rows[i]]
        for k in range(n):
            if k != i:
                factor = rows[k][i]
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    return UrList(UrList(row[n:]) for row in rows)


# --- poses
def _turn(f: Frame) -> Frame:
    return (*f[:9], *_STILL)


def pose_trans(p_from: Sequence[float], p_from_to: Sequence[float]) -> Pose:
    return Pose(to_pose(product(from_pose(p_from), from_pose(p_from_to))))


def pose_inv(p_from: Sequence[float]) -> Pose:
    return Pose(to_pose(inverse(from_pose(p_from))))


def pose_add(p_1: Sequence[float], p_2: Sequence[float]) -> Pose:
    a, b = from_pose(p_1), from_pose(p_2)
    place = [x + y for x, y in zip(a[9:], b[9:], strict=True)]
    return Pose([*place, *rotation_vector(product(_turn(a), _turn(b)))])


def pose_sub(p_to: Sequence[float], p_from: Sequence[float]) -> Pose:
    a, b = from_pose(p_to), from_pose(p_from)
    place = [x - y for x, y in zip(a[9:], b[9:], strict=True)]
    return Pose([*place, *rotation_vector(product(_turn(a), inverse(_turn(b))))])


def point_dist(p_from: Sequence[float], p_to: Sequence[float]) -> float:
    return math.dist(p_from[:3], p_to[:3])


def pose_dist(p_from: Sequence[float], p_to: Sequence[float]) -> float:
    """The norm of the six differences' pose (ours: position in m, rotation in rad); the manual gives no formula."""
    return math.sqrt(sum(v * v for v in pose_sub(p_to, p_from)))


def interpolate_pose(p_from: Sequence[float], p_to: Sequence[float], alpha: float) -> Pose:
    a, b = from_pose(p_from), from_pose(p_to)
    turn = rotation_vector(product(inverse(_turn(a)), _turn(b)))
    part = from_pose((*_STILL, *(v * alpha for v in turn)))
    place = [x + (y - x) * alpha for x, y in zip(a[9:], b[9:], strict=True)]
    return Pose([*place, *rotation_vector(product(_turn(a), part))])


def wrench_trans(T_from_to: Sequence[float], w_from: Sequence[float]) -> UrList:
    """A wrench seen from another point: `T_from_to` is where the new frame lies in the old one."""
    f = inverse(from_pose(T_from_to))
    force = [sum(f[3 * i + k] * w_from[k] for k in range(3)) for i in range(3)]
    torque = [sum(f[3 * i + k] * w_from[3 + k] for k in range(3)) for i in range(3)]
    x, y, z = f[9:]
    fx, fy, fz = force
    lever = (y * fz - z * fy, z * fx - x * fz, x * fy - y * fx)
    return UrList([*force, *(t + v for t, v in zip(torque, lever, strict=True))])


def rpy2rotvec(rpy_vector: Sequence[float]) -> UrList:
    """Extrinsic rotations about x, y, z."""
    roll, pitch, yaw = rpy_vector
    about_x, about_y, about_z = (from_pose((*_STILL, *v)) for v in ((roll, 0, 0), (0, pitch, 0), (0, 0, yaw)))
    return UrList(rotation_vector(product(about_z, product(about_y, about_x))))


def rotvec2rpy(rotation_vector: Sequence[float]) -> UrList:
    f = from_pose((*_STILL, *rotation_vector))
    pitch = math.atan2(-f[6], math.hypot(f[0], f[3]))
    if math.hypot(f[0], f[3]) < 1e-9:  # pitch is +-90 degrees: only the sum of the others is determined
        return UrList([math.atan2(-f[5], f[4]), pitch, 0.0])
    return UrList([math.atan2(f[7], f[8]), pitch, math.atan2(f[3], f[0])])


MATH_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (
        acos, asin, atan, atan2, binary_list_to_integer, ceil, cos, d2r, floor, get_list_length, integer_to_binary_list,
        interpolate_pose, inv, length, log, make_list, norm, normalize, point_dist, pose_add, pose_dist, pose_inv,
        pose_sub, pose_trans, pow, r2d, rotvec2rpy, rpy2rotvec, sin, size, sqrt, tan, transpose, wrench_trans,
    )
}  # fmt: skip
