"""A compiled program, and what the compiler must know of names that it does not define itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Signature:
    """What a function of the controller takes. `parameters`: their names; the first `required` have no default."""

    parameters: tuple[str, ...]
    required: int


@dataclass(frozen=True)
class Kept:
    """A function or thread of the running program, for statements of interpreter mode. `own`: the program's own."""

    signature: Signature
    thread: bool
    own: bool


@dataclass(frozen=True)
class Variable:
    """A variable of the running program, for statements of interpreter mode: its global name in Python."""

    python: str


Builtins = Mapping[str, Any] | Collection[str]
"""Names of the controller's functions and constants. Calls of those whose value is a Signature are checked; Kept and
Variable are what the running program has."""

HOST = "interpreter_mode"
"""The function that calls it keeps its locals where statements of interpreter mode find them."""


LISTS_GROW = "make_list"
"""A function that came with lists whose length can change, and with their methods: PolyScope 5.15."""


@dataclass(frozen=True)
class Compiled:
    """A program ready to run. `lines[n - 1]` is the script line of Python line n of `code`."""

    name: str
    secondary: bool
    code: CodeType
    lines: Sequence[int]
    globals: frozenset[str]
    functions: Mapping[str, Kept] = field(default_factory=dict)
