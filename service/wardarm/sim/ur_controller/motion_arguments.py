"""The arguments of script functions that move: numbers that must be there, with what is wrong about them."""

from __future__ import annotations

import math
from typing import Any

from wardarm.sim.urscript import ScriptError, numbers, to_text


def number(function: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScriptError(f"{function}: {name} = {to_text(value)}, a number is needed")
    return float(value)


def positive(function: str, name: str, value: Any) -> float:
    given = number(function, name, value)
    if given <= 0:
        raise ScriptError(f"{function}: {name} = {to_text(value)}, more than 0 is needed")
    return given


def not_negative(function: str, name: str, value: Any) -> float:
    given = number(function, name, value)
    if given < 0:
        raise ScriptError(f"{function}: {name} = {to_text(value)}, a time cannot be negative")
    return given


def effort(function: str, a: Any, v: Any, t: Any = 0) -> tuple[float, float, float]:
    """Acceleration, speed and time of a move. A time beats the two others (script manual): drivers give 0 for them."""
    t = not_negative(function, "t", t)
    check = number if t > 0 else positive
    a, v = check(function, "a", a), check(function, "v", v)
    return (a, v, t) if a > 0 and v > 0 else (1.0, 1.0, t)


def share(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise ScriptError(f"optimove: {name} = {value}, a share of the maximum: more than 0, at most 1")
    return value


def six(values: Any) -> list[float]:
    return numbers(values, 6, "a goal or a speed")
