"""URScript's values: numbers and booleans are Python's; lists, poses and structs are copied whenever they are assigned.

Lists and matrices compute as the manual's "Matrix and Array Expressions" says: array with array element by element,
scalars with every element, `*` of a matrix with a matrix or an array is the matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import add, mod, mul, sub, truediv
from typing import Any, NoReturn

from wardarm.sim.urscript.errors import ScriptError

TEXT_MAX = 1023
"""Characters of a string that `str_cat` or `to_str` makes (URScript manual)."""
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
PLAIN = frozenset({float, int, bool})
"""Classes whose values an assignment takes as they are."""
"""Of an integer (user manual, "Variable Value Types": 32 bit)."""
LIST_MAX = 1_000_000
"""Elements of a list; ours, so that a program cannot eat the machine. The manual names no limit."""


class Text(str):
    """A string. Of arithmetic it knows `+` with another one (Universal Robots' URScript_Examples, ethernet-ip)."""

    __slots__ = ()
    kind = "string"

    def __repr__(self) -> str:
        return f"'{str.__str__(self)}'"  # as it is: Python would escape bytes of UTF-8

    def _refuse(self, other: object) -> NoReturn:
        raise ScriptError("strings cannot be computed with: str_cat joins them")

    def __add__(self, other: str) -> Text:
        return limited(str.__add__(self, other)) if isinstance(other, str) else self._refuse(other)

    __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse


def int32(value: Any) -> Any:
    """The result of an operator. Beyond 32 bits is an error, ours: what a real controller does is not published."""
    if value.__class__ is int and not INT_MIN <= value <= INT_MAX:
        raise ScriptError(f"an integer beyond 32 bits: only {INT_MIN} to {INT_MAX} can be counted")
    return value


class UrList(list[Any]):
    """A list of fixed capacity, its elements all of one kind; a list of lists is a matrix."""

    __slots__ = ("capacity",)
    kind = "list"

    def __init__(self, items: Iterable[Any] = (), capacity: int = 0) -> None:
        super().__init__(items)
        self.capacity = max(capacity, len(self))

    def __setitem__(self, index: Any, value: Any) -> None:
        if value.__class__ is not list.__getitem__(self, index).__class__:
            one_kind(self, [value])
        list.__setitem__(self, index, value)

    @property
    def is_matrix(self) -> bool:
        return bool(self) and type(self[0]) is UrList

    def _each(self, other: Any, symbol: str, op: Callable[[Any, Any], Any], swapped: bool = False) -> UrList:
        if isinstance(other, list):
            if len(other) != len(self):
                raise ScriptError(f"'{symbol}' between lists of {len(self)} and {len(other)} elements")
            return type(self)(int32(op(a, b)) for a, b in zip(self, other, strict=True))
        if isinstance(other, int | float) and not isinstance(other, bool):
            return type(self)(int32(op(other, a) if swapped else op(a, other)) for a in self)
        raise ScriptError(f"'{symbol}' between a {self.kind} and {to_text(other)}")

    def __add__(self, other: Any) -> UrList:
        return self._each(other, "+", add)

    def __radd__(self, other: Any) -> UrList:
        return self._each(other, "+", add, True)

    def __sub__(self, other: Any) -> UrList:
        return self._each(other, "-", sub)

    def __rsub__(self, other: Any) -> UrList:
        return self._each(other, "-", sub, True)

    def __mul__(self, other: Any) -> UrList:
        if self.is_matrix and isinstance(other, UrList):
            return _matrix_product(self, other)
        return self._each(other, "*", mul)

    def __rmul__(self, other: Any) -> UrList:
        return self._each(other, "*", mul, True)

    def __truediv__(self, other: Any) -> UrList:
        return self._each(other, "/", truediv)

    def __rtruediv__(self, other: Any) -> UrList:
        return self._each(other, "/", truediv, True)

    def __mod__(self, other: Any) -> UrList:
        return self._each(other, "%", mod)

    def __rmod__(self, other: Any) -> UrList:
        return self._each(other, "%", mod, True)

    def __neg__(self) -> UrList:
        return type(self)(int32(-a) for a in self)


class Pose(UrList):
    """`p[x, y, z, rx, ry, rz]`: metres and a rotation vector in radians."""

    __slots__ = ()
    kind = "pose"

    def __init__(self, items: Iterable[Any] = (), capacity: int = 0) -> None:
        super().__init__(items, capacity)
        if len(self) != 6:
            raise ScriptError(f"a pose has 6 numbers, this one {len(self)}")


class Struct:
    """`struct(name = value, ...)`. Its members are fixed when it is made; in Python they are called `m_<name>`."""

    kind = "struct"

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise ScriptError(f"the struct has no member {name[2:]!r}; it has {', '.join(self.names())}")
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> NoReturn:
        raise ScriptError(f"the struct has no member {name[2:]!r}; it has {', '.join(self.names())}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Struct) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def names(self) -> list[str]:
        return [name[2:] for name in self.__dict__]

    def copied(self) -> Struct:
        return Struct(**{name: copy(value) for name, value in self.__dict__.items()})


def _matrix_product(a: UrList, b: UrList) -> UrList:
    columns = len(a[0])
    if columns != len(b):
        raise ScriptError(f"'*' of a matrix with {columns} columns and something with {len(b)} rows")
    if b.is_matrix:
        width = len(b[0])
        return UrList(UrList(int32(sum(row[k] * b[k][j] for k in range(columns))) for j in range(width)) for row in a)
    return UrList(int32(sum(row[k] * b[k] for k in range(columns))) for row in a)


def kind_of(value: Any) -> str:
    """A fundamental type of the language: integers and floats are numbers."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return getattr(value, "kind", "number")


def one_kind(old: list[Any], new: Iterable[Any]) -> None:
    """Raises ScriptError unless new elements of a list are of the kind of its others."""
    kinds = {kind_of(value) for value in new}
    if old:
        kinds.add(kind_of(old[0]))
    if len(kinds) > 1:
        raise ScriptError(f"a list holds one type of value, not {' and '.join(sorted(kinds))}")


def make_items(items: list[Any]) -> UrList:
    """What `[...]` makes: a list, or a matrix if its elements are lists. Rows must be equally long."""
    made, classes = UrList(items), set(map(type, items))
    if len(classes) > 1:
        one_kind([], items)
    elif float in classes:
        return made
    if items and type(items[0]) is UrList:
        width = len(items[0])
        if any(type(row) is not UrList or len(row) != width for row in items):
            raise ScriptError("the rows of a matrix must be lists of the same length")
    return made


def numbers(value: Any, count: int, what: str) -> list[float]:
    """A list or pose of `count` finite numbers. Raises ScriptError; `what` begins its text."""
    if isinstance(value, list) and len(value) == count and not any(isinstance(v, str | list) for v in value):
        made = [float(v) for v in value]
        if math.isfinite(sum(made)):
            return made
    raise ScriptError(f"{what}: {count} finite numbers are needed, not {to_text(value)}")


def copy(value: Any) -> Any:
    """The value that an assignment or an argument takes: lists and structs by value, deep."""
    if isinstance(value, UrList):
        items = [copy(v) for v in value] if value and isinstance(value[0], UrList | Struct) else value
        return type(value)(items, value.capacity)
    if isinstance(value, Struct):
        return value.copied()
    return value


def resized(name: str, old: Any, new: UrList, *, grows: bool) -> UrList:
    """A new list for variable `name`, which holds `old`: it keeps that one's capacity, which must be enough.

    Universal Robots in their forum (thread 30144). `grows` False, before 5.15: length and capacity are one.
    """
    if type(old) is UrList:
        if len(new) > old.capacity or (not grows and len(new) != len(old)):
            room = f"at most {old.capacity}" if grows else str(len(old))
            raise ScriptError(
                f"Resizing of 'List' is not supported: variable {name!r} has {room} elements, the new list {len(new)}"
            )
        new.capacity = old.capacity
    return new


def truth(value: Any) -> bool:
    """A condition: a boolean, or a number that is not 0 (Universal Robots' external-control script has `if has_qnear:`)."""
    if isinstance(value, int | float):
        return value != 0
    raise ScriptError(f"a condition must be True or False, not {to_text(value)}")


def below(index: Any) -> NoReturn:
    raise ScriptError(f"list index {to_text(index)} out of range")


def to_text(value: Any) -> str:
    """As `to_str` and `textmsg` print it: six decimals, trailing zeros removed (URScript manual, to_str)."""
    if value is None:
        return "nothing"  # of a function that returns none
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        text = f"{value:.6f}"
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    if isinstance(value, UrList):
        return ("p" if isinstance(value, Pose) else "") + "[" + ", ".join(to_text(v) for v in value) + "]"
    if isinstance(value, Struct):
        members = zip(value.names(), value.__dict__.values(), strict=True)
        return "struct(" + ", ".join(f"{name}={to_text(v)}" for name, v in members) + ")"
    return str(value)


def script_text(text: str) -> str:
    """Text of people as scripts have it: a string is bytes there, a character each (UTF-8)."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def people_text(text: str) -> str:
    """Text out of a script for people. Bytes that are no UTF-8 are kept as surrogates, so that `wire` gives them back."""
    return text.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def wire(text: str) -> bytes:
    """Text for people as it goes out: UTF-8, and bytes of a script as they were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def limited(text: str) -> Text:
    """A string that a function made. Raises ScriptError beyond 1023 characters."""
    if len(text) > TEXT_MAX:
        raise ScriptError(f"a string of {len(text)} characters: the limit is {TEXT_MAX}")
    return Text(text)


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
            _make_room(value, 1, name)
            one_kind(value, args)
            value.append(copy(args[0]))
        case "extend", 1:
            _make_room(value, len(args[0]), name)
            one_kind(value, args[0])
            value.extend(copy(args[0]))
        case "insert", 2:
            _make_room(value, 1, name)
            if not 0 <= args[0] <= len(value):
                below(args[0])
            one_kind(value, args[1:])
            value.insert(args[0], copy(args[1]))
        case "pop", 0:
            if not value:
                raise ScriptError("pop: the list is empty")
            return value.pop()
        case "remove", 1:
            if not 0 <= args[0] < len(value):
                below(args[0])
            del value[args[0]]
        case "slice", 2:
            begin, end = args
            if not 0 <= begin <= end <= len(value):
                raise ScriptError(f"slice({begin}, {end}) of a list of {len(value)} elements")
            return UrList(copy(v) for v in value[begin:end])
        case "clear", 0:
            value.clear()
        case "to_string", 0:
            return limited(to_text(value))
        case _:
            raise ScriptError(f"a {value.kind} has no method {name}() with {len(args)} arguments")
    return None


def _make_room(value: UrList, count: int, name: str) -> None:
    if len(value) + count > value.capacity:
        raise ScriptError(f"{name}: the list is full ({value.capacity} elements)")
    if isinstance(value, Pose):
        raise ScriptError(f"a pose has no method {name}()")
