"""URScript's values: numbers, booleans and strings are Python's; lists and poses are copied whenever they are assigned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from wardarm.sim.urscript.errors import ScriptError


class UrList(list[Any]):
    """A list of fixed capacity. `+ - * /` work element by element, as URScript's array expressions do."""

    __slots__ = ("capacity",)
    kind = "list"

    def __init__(self, items: Iterable[Any] = (), capacity: int = 0) -> None:
        super().__init__(items)
        self.capacity = max(capacity, len(self))

    def _pairs(self, other: Any, symbol: str) -> Iterable[tuple[Any, Any]]:
        if isinstance(other, list):
            if len(other) != len(self):
                raise ScriptError(f"'{symbol}' between lists of {len(self)} and {len(other)} elements")
            return zip(self, other, strict=True)
        if isinstance(other, int | float) and not isinstance(other, bool):
            return ((a, other) for a in self)
        raise ScriptError(f"'{symbol}' between a {self.kind} and {other!r}")

    def __add__(self, other: Any) -> UrList:
        return type(self)(a + b for a, b in self._pairs(other, "+"))

    def __sub__(self, other: Any) -> UrList:
        return type(self)(a - b for a, b in self._pairs(other, "-"))

    def __mul__(self, other: Any) -> UrList:
        return type(self)(a * b for a, b in self._pairs(other, "*"))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> UrList:
        return type(self)(a / b for a, b in self._pairs(other, "/"))

    def __neg__(self) -> UrList:
        return type(self)(-a for a in self)


class Pose(UrList):
    """`p[x, y, z, rx, ry, rz]`: metres and a rotation vector in radians."""

    __slots__ = ()
    kind = "pose"

    def __init__(self, items: Iterable[Any] = (), capacity: int = 0) -> None:
        super().__init__(items, capacity)
        if len(self) != 6:
            raise ScriptError(f"a pose has 6 numbers, this one {len(self)}")


def copy(value: Any) -> Any:
    """The value that an assignment or an argument takes: lists by value, deep."""
    if isinstance(value, UrList):
        items = [copy(v) for v in value] if value and isinstance(value[0], list) else value
        return type(value)(items, value.capacity)
    return value


def truth(value: Any) -> bool:
    """A condition. Only booleans are conditions in URScript."""
    if value is True or value is False:
        return bool(value)
    raise ScriptError(f"a condition must be True or False, not {to_text(value)}")


def below(index: Any) -> NoReturn:
    raise ScriptError(f"list index {index!r} out of range")


def to_text(value: Any) -> str:
    """As `to_str` and `textmsg` print it."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, UrList):
        return ("p" if isinstance(value, Pose) else "") + "[" + ", ".join(to_text(v) for v in value) + "]"
    return str(value)


def method(value: Any, name: str, args: tuple[Any, ...]) -> Any:
    """`list.length()` and the others that lists have since PolyScope 5.15."""
    if not isinstance(value, UrList):
        raise ScriptError(f"{to_text(value)} has no method {name}()")
    match name, len(args):
        case "length", 0:
            return len(value)
        case "capacity", 0:
            return value.capacity
        case "excess_capacity", 0:
            return value.capacity - len(value)
        case "append", 1:
            if len(value) >= value.capacity:
                raise ScriptError(f"append: the list is full ({value.capacity} elements)")
            value.append(copy(args[0]))
        case "pop", 0:
            if not value:
                raise ScriptError("pop: the list is empty")
            return value.pop()
        case "insert", 2:
            if len(value) >= value.capacity:
                raise ScriptError(f"insert: the list is full ({value.capacity} elements)")
            value.insert(int(args[0]), copy(args[1]))
        case "remove", 1:
            if not 0 <= args[0] < len(value):
                below(args[0])
            del value[args[0]]
        case "clear", 0:
            value.clear()
        case "to_string", 0:
            return to_text(value)
        case _:
            raise ScriptError(f"a {value.kind} has no method {name}() with {len(args)} arguments")
    return None
