"""URScript's urmath and string functions: pure, no time, no controller."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from wardarm.sim.ur_controller.kinematics import from_pose, inverse, product, rotation_vector, to_pose
from wardarm.sim.urscript import Pose, ScriptError, UrList, to_text


def _pose_trans(p_from: Sequence[float], p_from_to: Sequence[float]) -> Pose:
    return Pose(to_pose(product(from_pose(p_from), from_pose(p_from_to))))


def _pose_add(p_1: Sequence[float], p_2: Sequence[float]) -> Pose:
    a, b = from_pose(p_1), from_pose(p_2)
    turned = product((*a[:9], 0.0, 0.0, 0.0), (*b[:9], 0.0, 0.0, 0.0))
    return Pose([*(x + y for x, y in zip(a[9:], b[9:], strict=True)), *rotation_vector(turned)])


def _pose_sub(p_to: Sequence[float], p_from: Sequence[float]) -> Pose:
    a, b = from_pose(p_to), from_pose(p_from)
    turned = product((*a[:9], 0.0, 0.0, 0.0), inverse((*b[:9], 0.0, 0.0, 0.0)))
    return Pose([*(x - y for x, y in zip(a[9:], b[9:], strict=True)), *rotation_vector(turned)])


def _norm(a: Any) -> float:
    return math.sqrt(sum(v * v for v in a)) if isinstance(a, list) else abs(a)


def _make_list(length: int, initial_value: Any, capacity: int | None = None) -> UrList:
    if length < 0 or (capacity is not None and capacity < length):
        raise ScriptError(f"make_list: length {length} does not fit capacity {capacity}")
    return UrList([initial_value] * length, length if capacity is None else capacity)


def _size(v: Any) -> Any:
    return UrList([len(v), len(v[0])]) if v and isinstance(v[0], list) else len(v)


def _binary_list_to_integer(l: Sequence[bool]) -> int:  # noqa: E741  the manual's own name
    value = sum(1 << i for i, bit in enumerate(l) if bit)
    return value - (1 << 32) if value >= 1 << 31 else value


def _integer_to_binary_list(x: int) -> UrList:
    return UrList(bool(x >> i & 1) for i in range(32))


def _to_num(text: str) -> float | int:
    try:
        return float(text) if any(c in text for c in ".eE") else int(text)
    except ValueError as e:
        raise ScriptError(f"to_num: {text!r} is no number") from e


def _str_at(src: str, index: int) -> str:
    if not 0 <= index < len(src):
        raise ScriptError(f"str_at: index {index} outside of {len(src)} characters")
    return src[index]


def _str_sub(src: str, index: int, len: int = -1) -> str:
    return src[index:] if len < 0 else src[index : index + len]


def _interpolate_pose(p_from: Sequence[float], p_to: Sequence[float], alpha: float) -> Pose:
    a, b = from_pose(p_from), from_pose(p_to)
    turn = rotation_vector(product(inverse((*a[:9], 0.0, 0.0, 0.0)), (*b[:9], 0.0, 0.0, 0.0)))
    part = from_pose((0.0, 0.0, 0.0, *(v * alpha for v in turn)))
    frame = product((*a[:9], 0.0, 0.0, 0.0), part)
    place = [x + (y - x) * alpha for x, y in zip(a[9:], b[9:], strict=True)]
    return Pose([*place, *rotation_vector(frame)])


def _float32(value: float) -> float:
    return float(struct.unpack(">f", struct.pack(">f", value))[0])


MATH_FUNCTIONS: dict[str, Any] = {
    "acos": math.acos,
    "asin": math.asin,
    "atan": math.atan,
    "atan2": math.atan2,
    "binary_list_to_integer": _binary_list_to_integer,
    "ceil": math.ceil,
    "cos": math.cos,
    "d2r": math.radians,
    "floor": math.floor,
    "get_list_length": len,
    "integer_to_binary_list": _integer_to_binary_list,
    "interpolate_pose": _interpolate_pose,
    "inv": lambda m: Pose(to_pose(inverse(from_pose(m)))),
    "length": len,
    "log": lambda b, f: math.log(f, b),
    "make_list": _make_list,
    "norm": _norm,
    "point_dist": lambda p_from, p_to: math.dist(p_from[:3], p_to[:3]),
    "pose_add": _pose_add,
    "pose_dist": lambda p_from, p_to: math.dist(p_from[:3], p_to[:3]),
    "pose_inv": lambda p_from: Pose(to_pose(inverse(from_pose(p_from)))),
    "pose_sub": _pose_sub,
    "pose_trans": _pose_trans,
    "pow": lambda base, exponent: base**exponent,
    "r2d": math.degrees,
    "random": lambda: 0.5,  # a simulation that must repeat itself does not draw
    "sin": math.sin,
    "size": _size,
    "sqrt": math.sqrt,
    "str_at": _str_at,
    "str_cat": lambda op1, op2: to_text(op1) + to_text(op2),
    "str_empty": lambda str: str == "",
    "str_find": lambda src, target, start_from=0: src.find(target, start_from),
    "str_len": len,
    "str_sub": _str_sub,
    "tan": math.tan,
    "to_num": _to_num,
    "to_str": to_text,
}
