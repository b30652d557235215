"""Expressions of a program in Python (see `generate`)."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from wardarm.sim.urscript.analyse import (
    COMPARES,
    INTEGER,
    Scope,
    becomes,
    fit,
    is_boolean,
    kept_of,
    kind,
    may_be_list,
    never_integer,
    telling_float,
)
from wardarm.sim.urscript.chains import LONG, chain
from wardarm.sim.urscript.compiled import HOST, LISTS_GROW, Kept, Signature, Variable
from wardarm.sim.urscript.errors import ScriptError, UnknownName
from wardarm.sim.urscript.tree import (
    Binary,
    Call,
    Define,
    Expr,
    Index,
    Items,
    Literal,
    Member,
    Method,
    Name,
    Run,
    Struct,
    Unary,
)
from wardarm.sim.urscript.values import INT_MAX, INT_MIN


class Expressions:
    """What names mean in the function at hand, and expressions of them."""

    def __init__(self, builtins: Mapping[str, Any]) -> None:
        self.builtins = builtins
        self.outside = {name: v.python for name, v in builtins.items() if isinstance(v, Variable)}
        self.kinds: dict[str, str] = {}
        """Of globals, by their first assignment in the text."""
        self.functions: dict[str, Define] = {}
        self.declared: set[str] = set()
        self.global_names = self.declared
        self.texts: dict[str, str] = {}
        self.scope = Scope(True)
        self.floats: tuple[str, ...] | None = None
        """Variables that are floats in the expression at hand; None: no long one is being emitted."""

    # --- kinds: "The fundamental type of a variable is deduced from the first assignment" (script manual)
    def kinds_for(self, name: str) -> dict[str, str]:
        return self.scope.kinds if name in self.scope.locals else self.kinds

    def kind_of_name(self, name: str) -> str:
        return self.kinds_for(name).get(name, "")

    def all_kinds(self) -> dict[str, str]:
        scope = self.scope
        own = scope.parameters | scope.locals
        return {n: k for n, k in self.kinds.items() if n not in own} | scope.kinds

    def stays(self, name: str, value: Expr) -> bool:
        """False if this assignment certainly gives the variable another fundamental type than the first one."""
        if name in self.scope.parameters:
            return True
        now = kind(value, self.all_kinds())
        return becomes(self.kinds_for(name).setdefault(name, now), now)

    def may_resize(self, name: str, value: Expr) -> bool:
        """Whether a list may be assigned to a variable that holds one: a list keeps its capacity."""
        known = self.all_kinds()
        possible = ("", "list")
        return (
            name not in self.scope.parameters and kind(value, known) in possible and self.kind_of_name(name) in possible
        )

    # --- expressions
    def python(self, name: str) -> str:
        """What a name is called in Python."""
        scope = self.scope
        if name in scope.shown:
            return scope.shown[name]
        if name in scope.parameters or name in scope.locals:
            return f"u_{name}"
        return self.outside.get(name, f"u_{name}")

    def is_variable(self, name: str) -> bool:
        return name in self.scope.parameters or name in self.scope.locals or name in self.global_names

    def name(self, name: str, line: int) -> str:
        if self.is_variable(name):
            return self.python(name)
        if name in self.functions or name in self.builtins:
            raise UnknownName(f"{name} is a function: call it with ()", line, name)
        raise UnknownName(f"name {name!r} is not defined", line, name)

    def place(self, target: Name | Index | Member) -> str:
        if not isinstance(target, Name):
            return self.expr(target)
        if target.id in self.functions:
            raise ScriptError(f"{target.id} is a function and cannot be assigned", target.line)
        if isinstance(self.builtins.get(target.id), Kept):
            raise ScriptError(f"{target.id} is a function and cannot be assigned", target.line)
        return self.python(target.id)

    def by_value(self, e: Expr) -> str:
        """An expression whose list, if it is one, must be a copy."""
        text = self.expr(e)
        if isinstance(e, Name):
            return f"({text} if {text}.__class__ in _plain else _copy({text}))"
        if isinstance(e, Index | Member):
            return f"(_v if (_v := {text}).__class__ in _plain else _copy(_v))"
        return text

    def index(self, e: Expr) -> str:
        if isinstance(e, Literal) and isinstance(e.value, int) and e.value >= 0:
            return str(e.value)
        if isinstance(e, Name):
            name = self.expr(e)
            return f"{name} if {name} >= 0 else _below({name})"
        if isinstance(e, Binary) and e.op in INTEGER:  # an index beyond 32 bits is out of range anyway
            text = f"{self.number(e.left, e.op)} {e.op} {self.number(e.right, e.op)}"
        else:
            text = self.expr(e)
        return f"_i if (_i := {text}) >= 0 else _below(_i)"

    def condition(self, e: Expr) -> str:
        text = self.expr(e)
        if isinstance(e, Name):
            return f"({text} if {text}.__class__ is bool else _truth({text}))"
        return text if is_boolean(e) else f"_truth({text})"

    def arguments(self, function: str, args: list[Expr], named: dict[str, Expr], line: int) -> str:
        define = self.functions.get(function)
        kept = self.builtins.get(function) if define is None else kept_of(define)
        if not isinstance(kept, Kept):
            if function in self.global_names or function not in self.builtins:
                raise UnknownName(f"unknown function {function!r}", line, function)
            self.check(function, len(args), named, line)
            texts = [self.expr(a) for a in args] + [f"{n}={self.expr(v)}" for n, v in named.items()]
            return ", ".join(texts)
        fit(function, kept.signature, len(args), named, line)
        texts = [self.by_value(a) for a in args] + [f"u_{n}={self.by_value(v)}" for n, v in named.items()]
        return ", ".join(texts)

    def check(self, function: str, given: int, named: Collection[str], line: int) -> None:
        signature = self.builtins[function]
        if isinstance(signature, Signature):
            fit(function, signature, given, named, line)

    def number(self, e: Expr, op: str) -> str:
        """An operand of an arithmetic operator."""
        if isinstance(e, Literal) and isinstance(e.value, bool | str) and (op != "+" or isinstance(e.value, bool)):
            raise ScriptError(f"{op!r} needs numbers or lists, not {e.value!r}", e.line)
        return self.expr(e)

    def sum_or_product(self, e: Binary) -> str:
        """Long ones are there twice: for a variable that is a float, which spares most checks, and for any.

        Very long ones are flat.
        """
        operands, operators = chain(e)
        if len(operands) >= LONG:
            texts = [self.number(operand, op) for operand, op in zip(operands, [operators[0], *operators], strict=True)]
            return f"_chain({''.join(operators)!r}, {', '.join(texts)})"
        telling = telling_float(e) if self.floats is None else ""
        texts = []
        for floats in ((telling,), ()) if telling else (self.floats,):
            before, self.floats = self.floats, floats
            texts.append(f"{self.number(e.left, e.op)} {e.op} {self.number(e.right, e.op)}")
            texts[-1] = self.within(texts[-1], e.left, e.right)
            self.floats = before
        return f"({texts[0]} if {self.python(telling)}.__class__ is float else {texts[1]})" if telling else texts[0]

    def within(self, text: str, *operands: Expr) -> str:
        """An operation whose result may be an integer: checked for its 32 bits, in place (calls cost most)."""
        if any(never_integer(operand, self.floats or ()) for operand in operands):
            return f"({text})"
        held = f"_c is int and {INT_MIN} <= _r <= {INT_MAX}"
        return f"(_r if (_c := (_r := {text}).__class__) is float or {held} else _int32(_r))"

    def expr(self, e: Expr) -> str:
        match e:
            case Literal(value=str(value)):
                name = hashlib.sha1(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
                return self.texts.setdefault(value, f"_t{name}")  # by content: interpreter mode shares the space
            case Literal(value=value):
                return repr(value)
            case Name(id=name):
                return self.name(name, e.line)
            case Items(items=items, pose=pose):
                if pose and len(items) != 6:
                    raise ScriptError(f"a pose has 6 numbers, this one {len(items)}", e.line)
                kinds = {k for k in (kind(i, {}) for i in items) if k}
                if len(kinds) > 1:
                    raise ScriptError(f"a list holds one type of value, not {' and '.join(sorted(kinds))}", e.line)
                make = "_Pose" if pose else "_Items" if any(may_be_list(i) for i in items) else "_List"
                return f"{make}([{', '.join(self.by_value(i) for i in items)}])"
            case Struct(members=members):
                return f"_Struct({', '.join(f'm_{n}={self.by_value(v)}' for n, v in members.items())})"
            case Member(value=value, name=name):
                return f"{self.expr(value)}.m_{name}"
            case Index(value=Name(id="p"), indices=indices) if not self.is_variable("p"):
                raise ScriptError(f"a pose has 6 numbers, this one {len(indices)}", e.line)
            case Index(value=value, indices=indices):
                return self.expr(value) + "".join(f"[{self.index(i)}]" for i in indices)
            case Call(function=function, args=args, named=named) if function == HOST and function not in self.functions:
                call = f"u_{function}({self.arguments(function, args, named, e.line)})"
                return f"(_enclose({self.scope.shown!r}), {call})[1]"
            case Call(function=function, args=args, named=named):
                return f"u_{function}({self.arguments(function, args, named, e.line)})"
            case Run(function=function, args=args):
                define = self.functions.get(function)
                kept = self.builtins.get(function) if define is None else kept_of(define)
                if not isinstance(kept, Kept) or not kept.thread:
                    raise ScriptError(f"{function!r} is not a thread of this program", e.line)
                texts = self.arguments(function, args, {}, e.line)
                return f"_run(u_{function}{', ' + texts if texts else ''})"
            case Method(value=value, name=name, args=args):
                if LISTS_GROW not in self.builtins:
                    raise ScriptError(f"a list has no method {name}(): methods came with PolyScope 5.15", e.line)
                texts = ", ".join(self.expr(a) for a in args) + ("," if args else "")
                return f"_method({self.expr(value)}, {name!r}, ({texts}))"
            case Unary(op="not", value=value):
                return f"(not {self.condition(value)})"
            case Unary(op="-", value=value) if not isinstance(value, Literal):
                return self.within(f"-{self.number(value, '-')}", value)
            case Unary(op=op, value=value):
                return f"({op}{self.number(value, op)})"
            case Binary(op="xor", left=left, right=right):
                return f"({self.condition(left)} != {self.condition(right)})"
            case Binary(op="and" | "or" as op, left=left, right=right):
                operands, operators = chain(e)
                if set(operators) != {op}:  # `or` and `xor` are of one strength
                    return f"({self.condition(left)} {op} {self.condition(right)})"
                return "(" + f" {op} ".join(map(self.condition, operands)) + ")"
            case Binary(op=op, left=left, right=right) if op in COMPARES:
                return f"({self.expr(left)} {op} {self.expr(right)})"
            case Binary(op="/" | "%" as op, left=left, right=right) if len(chain(e)[0]) < LONG:
                return f"({self.number(left, op)} {op} {self.number(right, op)})"
            case Binary():
                return self.sum_or_product(e)
        raise ScriptError(f"{type(e).__name__} is not understood", e.line)
