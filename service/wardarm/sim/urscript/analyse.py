"""What can be said of a program's tree without running it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wardarm.sim.urscript.compiled import Kept, Signature
from wardarm.sim.urscript.errors import ScriptError
from wardarm.sim.urscript.tree import (
    Assign,
    Binary,
    Call,
    Define,
    Expr,
    If,
    Index,
    Items,
    Literal,
    Name,
    Run,
    Stmt,
    Struct,
    Unary,
    While,
)

COMPARES = frozenset({"==", "!=", "<", ">", "<=", ">="})
LOGIC = frozenset({"and", "or", "xor"})
_WORTH, _NAMES = 3, 8  # checks spared, variables considered
INTEGER = frozenset({"+", "-", "*"})
"""Operators whose result can be an integer."""


@dataclass
class Scope:
    """One function's names. `main`: the program's own body, whose names are module globals in Python."""

    main: bool
    parameters: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)
    kinds: dict[str, str] = field(default_factory=dict)
    """Of locals, by their first assignment in the text."""
    shown: dict[str, str] = field(default_factory=dict)
    """Locals that are globals in Python, so that interpreter mode finds them: name to that."""


def statements(body: list[Stmt]) -> list[Stmt]:
    """All statements of a body, blocks included, functions not entered."""
    found: list[Stmt] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, If):
            for _, block in statement.branches:
                found += statements(block)
            found += statements(statement.otherwise)
        elif isinstance(statement, While):
            found += statements(statement.body)
    return found


def name_of(assign: Assign) -> str:
    assert isinstance(assign.target, Name)
    return assign.target.id


def may_be_list(e: Expr) -> bool:
    return not isinstance(e, Literal | Unary)


def is_boolean(e: Expr) -> bool:
    match e:
        case Literal(value=bool()) | Unary(op="not"):
            return True
        case Binary(op=op):
            return op in COMPARES or op in LOGIC
    return False


def never_integer(e: Expr, floats: Collection[str] = ()) -> bool:
    """`floats`: variables that are known to be one."""
    match e:
        case Literal(value=float()):
            return True
        case Name(id=name):
            return name in floats
        case Unary(op="+" | "-", value=value):
            return never_integer(value, floats)
        case Binary(op="/"):
            return True
        case Binary(op="+" | "-" | "*" | "%", left=left, right=right):
            return never_integer(left, floats) or never_integer(right, floats)
    return False


def _doubtful(e: Expr, floats: Collection[str], names: set[str]) -> tuple[bool, int]:
    """Whether it is never an integer, and how many of its operations may give one. Gathers the names of its operands.

    Raises LookupError for what might change a variable.
    """
    match e:
        case Literal(value=value):
            return isinstance(value, float), 0
        case Name(id=name):
            names.add(name)
            return name in floats, 0
        case Index():
            return False, 0
        case Unary(op="+" | "-", value=value):
            never, count = _doubtful(value, floats, names)
            return never, count + (not never)
        case Binary(op=op, left=left, right=right) if op in INTEGER or op in "/%":
            (one, a), (other, b) = _doubtful(left, floats, names), _doubtful(right, floats, names)
            never = one or other or op == "/"
            return never, a + b + (not never and op in INTEGER)
    raise LookupError


def telling_float(e: Expr) -> str:
    """The variable of an expression that spares most checks for integers if it is a float; "" if none is worth asking."""
    names: set[str] = set()
    try:
        _, count = _doubtful(e, (), names)
        if count < _WORTH or len(names) > _NAMES:
            return ""
        left = {name: _doubtful(e, (name,), set())[1] for name in sorted(names)}
    except LookupError:
        return ""
    best = min(left, key=left.__getitem__, default="")
    return best if best and count - left[best] >= _WORTH else ""


def kind(e: Expr, known: Mapping[str, str]) -> str:
    """What an expression is for certain: a fundamental type, or nothing. `known`: of variables."""
    match e:
        case Literal(value=bool()) | Unary(op="not"):
            return "boolean"
        case Literal(value=str()):
            return "string"
        case Literal() | Run():
            return "number"
        case Items(pose=pose):
            return "pose" if pose else "list"
        case Struct():
            return "struct"
        case Name(id=name):
            return known.get(name, "")
        case Unary(value=value):
            return kind(value, known)
        case Binary(op=op) if op in COMPARES or op in LOGIC:
            return "boolean"
        case Binary(left=left, right=right):
            kinds = {kind(left, known), kind(right, known)}
            return kinds.pop() if len(kinds) == 1 else ""
    return ""


def becomes(was: str, now: str) -> bool:
    """Whether a variable may change so. Universal Robots' own scripts put poses and lists into one variable."""
    return not was or not now or was == now or {was, now} == {"list", "pose"}


def calls(node: Any, function: str) -> bool:
    """Whether a function is called in a statement or expression; definitions within are not entered."""
    if isinstance(node, Call) and node.function == function:
        return True
    if isinstance(node, list | tuple):
        return any(calls(part, function) for part in node)
    if isinstance(node, dict):
        return any(calls(part, function) for part in node.values())
    if isinstance(node, Expr | Stmt) and not isinstance(node, Define):
        return any(calls(getattr(node, f.name), function) for f in fields(node))
    return False


def fit(function: str, signature: Signature, given: int, named: Collection[str], line: int) -> None:
    """Raises ScriptError if a call does not fit."""
    names, required = signature.parameters, signature.required
    if given > len(names):
        raise ScriptError(f"{function} takes {len(names)} arguments, {given + len(named)} given", line)
    for name in named:
        if name not in names:
            raise ScriptError(f"{function} has no parameter {name!r}; it has {', '.join(names)}", line)
        if name in names[:given]:
            raise ScriptError(f"{function}: {name} is given twice", line)
    missing = [name for name in names[given:required] if name not in named]
    if missing:
        raise ScriptError(f"{function} takes {len(names)} arguments: {', '.join(missing)} missing", line)


def kept_of(define: Define) -> Kept:
    """What interpreter mode must know of a definition."""
    required = sum(default is None for _, default in define.parameters)
    return Kept(Signature(tuple(n for n, _ in define.parameters), required), define.thread, True)
