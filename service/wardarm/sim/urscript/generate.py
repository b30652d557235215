"""Tree to Python: compiled once, off the control loop, so that a 500 Hz script costs little.

Names of the script get the prefix `u_`; what the runtime provides starts with `_`. `lines[n]` is the script's line of
Python line n, so that every error names the script's own line.

Scope, as the manual's "Scoping rules" has it: names of the program's own body are global, whatever stands before them;
`global` in a function declares for the whole program, `local` never leaves its function; an unqualified name is the
global one if there is one, else local.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from wardarm.sim.urscript.errors import ScriptError, UnknownName
from wardarm.sim.urscript.parser import parse
from wardarm.sim.urscript.tree import (
    Assign,
    Binary,
    Call,
    Define,
    Do,
    Expr,
    If,
    Index,
    Items,
    Literal,
    Member,
    Method,
    Name,
    OnThread,
    Return,
    Run,
    Script,
    Simple,
    Stmt,
    Struct,
    Unary,
    While,
)

_STRAIGHT = 25  # statements in a row that count like as many loop rounds: they too use up a thread's slice
_COMPARES = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LOGIC = frozenset({"and", "or", "xor"})


@dataclass(frozen=True)
class Signature:
    """What a function of the controller takes. `parameters`: their names; the first `required` have no default."""

    parameters: tuple[str, ...]
    required: int


Builtins = Mapping[str, Any] | Collection[str]
"""Names of the controller's functions and constants. Calls of those whose value is a Signature are checked."""


@dataclass(frozen=True)
class Compiled:
    """A program ready to run. `lines[n - 1]` is the script line of Python line n of `code`."""

    name: str
    secondary: bool
    code: CodeType
    lines: Sequence[int]
    globals: frozenset[str]


def compile_script(source: str, builtins: Builtins) -> Compiled:
    """Compile a program. Raises ScriptError with the line of what cannot be understood."""
    script = parse(source)
    emitter = _Emitter(script, builtins if isinstance(builtins, Mapping) else dict.fromkeys(builtins))
    try:
        text = emitter.program()
    except RecursionError:
        raise ScriptError("nested too deeply", emitter.lines[-1] if emitter.lines else 0) from None
    try:
        code = compile(text, f"<urscript {script.name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as e:
        line = getattr(e, "lineno", 0) or 0
        raise ScriptError(f"cannot be compiled: {e}", emitter.lines[line - 1] if line else 0) from e
    return Compiled(script.name, script.secondary, code, array("i", emitter.lines), frozenset(emitter.global_names))


@dataclass
class _Scope:
    """One function's names. `main`: the program's own body, whose names are module globals in Python."""

    main: bool
    parameters: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)


def _statements(body: list[Stmt]) -> list[Stmt]:
    """All statements of a body, blocks included, functions not entered."""
    found: list[Stmt] = []
    for statement in body:
        found.append(statement)
        if isinstance(statement, If):
            for _, block in statement.branches:
                found += _statements(block)
            found += _statements(statement.otherwise)
        elif isinstance(statement, While):
            found += _statements(statement.body)
    return found


def _name_of(assign: Assign) -> str:
    assert isinstance(assign.target, Name)
    return assign.target.id


def _may_be_list(e: Expr) -> bool:
    return not isinstance(e, Literal | Unary)


def _never_integer(e: Expr) -> bool:
    match e:
        case Literal(value=float()):
            return True
        case Unary(op="+" | "-", value=value):
            return _never_integer(value)
        case Binary(op="/"):
            return True
        case Binary(op="+" | "-" | "*" | "%", left=left, right=right):
            return _never_integer(left) or _never_integer(right)
    return False


def _fit(function: str, signature: Signature, given: int, named: Collection[str], line: int) -> None:
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


class _Emitter:
    def __init__(self, script: Script, builtins: Mapping[str, Any]) -> None:
        self.script, self.builtins = script, builtins
        self.out: list[str] = []
        self.lines: list[int] = []
        self.functions: dict[str, Define] = {}
        self.declared: set[str] = set()
        self._collect(script.body)
        main = [s for s in _statements(script.body) if isinstance(s, Assign) and isinstance(s.target, Name)]
        self.declared |= {_name_of(s) for s in main}
        self.global_names = self.declared
        self.texts: dict[str, str] = {}
        self.scope = _Scope(True)
        self.loops = 0

    def _collect(self, body: list[Stmt]) -> None:
        for statement in _statements(body):
            if isinstance(statement, Define):
                if statement.name in self.functions:
                    raise ScriptError(f"{statement.name} is defined twice", statement.line)
                self.functions[statement.name] = statement
                self._collect(statement.body)
            elif isinstance(statement, Assign) and statement.scope == "global":
                if not isinstance(statement.target, Name):
                    raise ScriptError("global needs a name", statement.line)
                self.declared.add(statement.target.id)

    def emit(self, depth: int, text: str, line: int) -> None:
        self.out.append("  " * depth + text)
        self.lines.append(line)

    def program(self) -> str:
        for define in self.functions.values():
            self.function(define)
        self.scope = _Scope(True)
        self.emit(0, "def _main():", 1)
        if self.global_names:
            self.emit(1, "global " + ", ".join(sorted(f"u_{n}" for n in self.global_names)), 1)
        self.block(self.script.body, 1, 1)
        for text, name in self.texts.items():
            self.emit(0, f"{name} = _Text({text!r})", 1)
        return "\n".join(self.out) + "\n"

    def function(self, define: Define) -> None:
        scope = _Scope(False, {name for name, _ in define.parameters})
        shared: set[str] = set()
        for statement in _statements(define.body):
            if isinstance(statement, Assign) and isinstance(statement.target, Name):
                name = statement.target.id
                if statement.scope != "local" and name in self.declared and name not in scope.parameters:
                    shared.add(name)
                else:
                    scope.locals.add(name)
        for statement in _statements(define.body):
            if isinstance(statement, Assign) and statement.scope == "local" and isinstance(statement.target, Name):
                shared.discard(statement.target.id)
        parameters, late = [], []
        self.scope = _Scope(True)  # defaults are evaluated outside, at the call
        for name, default in define.parameters:
            if default is None:
                parameters.append(f"u_{name}")
            elif isinstance(default, Literal) and not isinstance(default.value, str):
                parameters.append(f"u_{name}={default.value!r}")
            else:
                parameters.append(f"u_{name}=_unset")
                late.append((name, self.by_value(default)))
        self.scope = scope
        self.emit(0, f"def u_{define.name}({', '.join(parameters)}):", define.line)
        if shared:
            self.emit(1, "global " + ", ".join(sorted(f"u_{n}" for n in shared)), define.line)
        for name, text in late:
            self.emit(1, f"if u_{name} is _unset: u_{name} = {text}", define.line)
        self.block(define.body, 1, define.line)

    def block(self, body: list[Stmt], depth: int, line: int) -> None:
        before = len(self.out)
        for i, statement in enumerate(body):
            if i and i % _STRAIGHT == 0:
                self.emit(depth, f"_spin({_STRAIGHT})", statement.line)
            self.statement(statement, depth)
        if len(self.out) == before:
            self.emit(depth, "pass", line)

    def statement(self, s: Stmt, depth: int) -> None:
        line = s.line
        match s:
            case Assign(target=target, value=value):
                self.emit(depth, f"{self.place(target)} = {self.by_value(value)}", line)
            case Do(value=value):
                if isinstance(value, Name) and value.id in self.functions:
                    raise ScriptError(f"{value.id} is a function: call it with ()", line)
                self.emit(depth, self.expr(value), line)
            case If(branches=branches, otherwise=otherwise):
                word = "if"
                for condition, block in branches:
                    self.emit(depth, f"{word} {self.condition(condition)}:", condition.line)
                    self.block(block, depth + 1, line)
                    word = "elif"
                if otherwise:
                    self.emit(depth, "else:", line)
                    self.block(otherwise, depth + 1, line)
            case While(condition=condition, body=body):
                self.emit(depth, f"while {self.condition(condition)}:", line)
                self.emit(depth + 1, "_spin()", line)
                self.loops += 1
                self.block(body, depth + 1, line)
                self.loops -= 1
            case Return(value=None):
                self.emit(depth, "return None", line)
            case Return(value=value) if value is not None:
                self.emit(depth, f"return {self.by_value(value)}", line)
            case Simple(word=word):
                if word in ("break", "continue") and not self.loops:
                    raise ScriptError(f"{word} outside a loop", line)
                self.emit(depth, word if word in ("break", "continue", "pass") else f"_{word}()", line)
            case OnThread(word=word, handle=handle):
                self.emit(depth, f"_{word}({self.expr(handle)})", line)
            case Define():
                pass
            case _:
                raise ScriptError(f"{type(s).__name__} is not understood", line)

    # --- expressions
    def name(self, name: str, line: int) -> str:
        scope = self.scope
        known = name in scope.parameters or name in scope.locals or name in self.global_names
        if known or name in self.functions or name in self.builtins:
            return f"u_{name}"
        raise UnknownName(f"name {name!r} is not defined", line, name)

    def place(self, target: Name | Index | Member) -> str:
        if not isinstance(target, Name):
            return self.expr(target)
        if target.id in self.functions:
            raise ScriptError(f"{target.id} is a function and cannot be assigned", target.line)
        return f"u_{target.id}"

    def by_value(self, e: Expr) -> str:
        """An expression whose list, if it is one, must be a copy."""
        text = self.expr(e)
        return f"_copy({text})" if isinstance(e, Name | Index | Member) else text

    def index(self, e: Expr) -> str:
        if isinstance(e, Literal) and isinstance(e.value, int) and e.value >= 0:
            return str(e.value)
        if isinstance(e, Name):
            name = self.expr(e)
            return f"{name} if {name} >= 0 else _below({name})"
        return f"_i if (_i := {self.expr(e)}) >= 0 else _below(_i)"

    def is_boolean(self, e: Expr) -> bool:
        match e:
            case Literal(value=bool()):
                return True
            case Unary(op="not"):
                return True
            case Binary(op=op):
                return op in _COMPARES or op in _LOGIC
        return False

    def condition(self, e: Expr) -> str:
        text = self.expr(e)
        return text if self.is_boolean(e) else f"_truth({text})"

    def arguments(self, function: str, args: list[Expr], named: dict[str, Expr], line: int) -> str:
        define = self.functions.get(function)
        if define is None:
            if function in self.global_names or function not in self.builtins:
                raise UnknownName(f"unknown function {function!r}", line, function)
            self.check(function, len(args), named, line)
            texts = [self.expr(a) for a in args] + [f"{n}={self.expr(v)}" for n, v in named.items()]
            return ", ".join(texts)
        names = tuple(n for n, _ in define.parameters)
        required = sum(d is None for _, d in define.parameters)
        _fit(function, Signature(names, required), len(args), named, line)
        texts = [self.by_value(a) for a in args] + [f"u_{n}={self.by_value(v)}" for n, v in named.items()]
        return ", ".join(texts)

    def check(self, function: str, given: int, named: Collection[str], line: int) -> None:
        signature = self.builtins[function]
        if isinstance(signature, Signature):
            _fit(function, signature, given, named, line)

    def number(self, e: Expr, op: str) -> str:
        """An operand of an arithmetic operator."""
        if isinstance(e, Literal) and isinstance(e.value, bool | str) and (op != "+" or isinstance(e.value, bool)):
            raise ScriptError(f"{op!r} needs numbers or lists, not {e.value!r}", e.line)
        return self.expr(e)

    @staticmethod
    def within(text: str, *operands: Expr) -> str:
        """An operation whose result may be an integer: checked for its 32 bits."""
        if any(map(_never_integer, operands)):
            return f"({text})"
        return f"(_r if (_r := {text}).__class__ is float else _int32(_r))"

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
                make = "_Pose" if pose else "_Items" if any(_may_be_list(i) for i in items) else "_List"
                return f"{make}([{', '.join(self.by_value(i) for i in items)}])"
            case Struct(members=members):
                return f"_Struct({', '.join(f'm_{n}={self.by_value(v)}' for n, v in members.items())})"
            case Member(value=value, name=name):
                return f"{self.expr(value)}.m_{name}"
            case Index(value=value, indices=indices):
                return self.expr(value) + "".join(f"[{self.index(i)}]" for i in indices)
            case Call(function=function, args=args, named=named):
                return f"u_{function}({self.arguments(function, args, named, e.line)})"
            case Run(function=function, args=args):
                if function not in self.functions or not self.functions[function].thread:
                    raise ScriptError(f"{function!r} is not a thread of this program", e.line)
                texts = self.arguments(function, args, {}, e.line)
                return f"_run(u_{function}{', ' + texts if texts else ''})"
            case Method(value=value, name=name, args=args):
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
            case Binary(op=op, left=left, right=right) if op in _LOGIC:
                return f"({self.condition(left)} {op} {self.condition(right)})"
            case Binary(op=op, left=left, right=right) if op in _COMPARES:
                return f"({self.expr(left)} {op} {self.expr(right)})"
            case Binary(op="/" | "%" as op, left=left, right=right):
                return f"({self.number(left, op)} {op} {self.number(right, op)})"
            case Binary(op=op, left=left, right=right):
                return self.within(f"{self.number(left, op)} {op} {self.number(right, op)}", left, right)
        raise ScriptError(f"{type(e).__name__} is not understood", e.line)
