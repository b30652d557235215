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
from collections.abc import Collection, Mapping
from typing import Any

from wardarm.sim.urscript.analyse import (
    COMPARES,
    INTEGER,
    LOGIC,
    Scope,
    becomes,
    calls,
    fit,
    is_boolean,
    kept_of,
    kind,
    may_be_list,
    name_of,
    never_integer,
    statements,
    telling_float,
)
from wardarm.sim.urscript.compiled import HOST, Builtins, Compiled, Kept, Signature, Variable
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
from wardarm.sim.urscript.values import INT_MAX, INT_MIN

_STRAIGHT = 25  # statements in a row that count like as many loop rounds: they too use up a thread's slice


def compile_script(source: str, builtins: Builtins) -> Compiled:
    """Compile a program. Raises ScriptError with the line of what cannot be understood."""
    return _compile(parse(source), source, builtins)


def compile_statement(source: str, builtins: Builtins, name: str) -> Compiled:
    """Statements of interpreter mode, definitions among them. `name` tells them apart. Raises ScriptError."""
    script = parse(source, bare=True)
    script.name = name
    return _compile(script, source, builtins)


def _compile(script: Script, source: str, builtins: Builtins) -> Compiled:
    known = builtins if isinstance(builtins, Mapping) else dict.fromkeys(builtins)
    emitter = _Emitter(script, known, HOST in source)
    try:
        text = emitter.program()
    except RecursionError:
        raise ScriptError("nested too deeply", emitter.lines[-1] if emitter.lines else 0) from None
    try:
        code = compile(text, f"<urscript {script.name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as e:
        line = getattr(e, "lineno", 0) or 0
        raise ScriptError(f"cannot be compiled: {e}", emitter.lines[line - 1] if line else 0) from e
    functions = {name: kept_of(define) for name, define in emitter.functions.items()}
    names = frozenset(emitter.global_names - set(emitter.outside))
    return Compiled(script.name, script.secondary, code, array("i", emitter.lines), names, functions)


class _Emitter:
    def __init__(self, script: Script, builtins: Mapping[str, Any], may_host: bool = False) -> None:
        self.script, self.builtins, self.may_host = script, builtins, may_host
        self.outside = {name: v.python for name, v in builtins.items() if isinstance(v, Variable)}
        self.hosts = 0
        self.kinds: dict[str, str] = {}
        """Of globals, by their first assignment in the text."""
        self.out: list[str] = []
        self.lines: list[int] = []
        self.functions: dict[str, Define] = {}
        self.declared: set[str] = set()
        self._collect(script.body)
        main = [s for s in statements(script.body) if isinstance(s, Assign) and isinstance(s.target, Name)]
        self.declared |= {name_of(s) for s in main} | set(self.outside)
        for assign in main:
            self.kinds.setdefault(name_of(assign), kind(assign.value, self.kinds))
        self.global_names = self.declared
        self.texts: dict[str, str] = {}
        self.scope = Scope(True)
        self.loops = 0
        self.floats: tuple[str, ...] | None = None
        """Variables that are floats in the expression at hand; None: no long one is being emitted."""

    def _collect(self, body: list[Stmt]) -> None:
        for statement in statements(body):
            if isinstance(statement, Define):
                kept = self.builtins.get(statement.name)
                if statement.name in self.functions or (isinstance(kept, Kept) and kept.own):
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
        self.scope = Scope(True)
        self.emit(0, "def _main():", 1)
        if self.global_names:
            self.emit(1, "global " + ", ".join(sorted(map(self.python, self.global_names))), 1)
        self.block(self.script.body, 1, 1)
        for text, name in self.texts.items():
            self.emit(0, f"{name} = _Text({text!r})", 1)
        return "\n".join(self.out) + "\n"

    def function(self, define: Define) -> None:
        scope = Scope(False, {name for name, _ in define.parameters})
        shared: set[str] = set()
        for statement in statements(define.body):
            if isinstance(statement, Assign) and isinstance(statement.target, Name):
                name = statement.target.id
                if statement.scope != "local" and name in self.declared and name not in scope.parameters:
                    shared.add(name)
                else:
                    scope.locals.add(name)
        for statement in statements(define.body):
            if isinstance(statement, Assign) and statement.scope == "local" and isinstance(statement.target, Name):
                shared.discard(statement.target.id)
        parameters, late = [], []
        self.scope = Scope(True)  # defaults are evaluated outside, at the call
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
        if self.may_host and calls(define.body, HOST):
            self.hosts += 1
            own = (scope.parameters | scope.locals) - shared
            scope.shown = {name: f"h{self.hosts}_{name}" for name in sorted(own)}
        if shared or scope.shown:
            names = sorted(map(self.python, shared)) + list(scope.shown.values())
            self.emit(1, "global " + ", ".join(names), define.line)
        for name, text in late:
            self.emit(1, f"if u_{name} is _unset: u_{name} = {text}", define.line)
        if scope.shown:
            self.emit(1, f"_forget({tuple(scope.shown.values())!r})", define.line)
            for name in sorted(scope.parameters):
                self.emit(1, f"{scope.shown[name]} = u_{name}", define.line)
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
            case Assign(target=Name() as target, value=value) if not self.stays(target.id, value):
                was, now = self.kind_of_name(target.id), kind(value, self.all_kinds())
                self.emit(depth, f"_retype({target.id!r}, {was!r}, {now!r})", line)
            case Assign(target=target, value=value):
                self.emit(depth, f"{self.place(target)} = {self.by_value(value)}", line)
            case Do(value=value):
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

    # --- expressions
    def python(self, name: str) -> str:
        """What a name is called in Python."""
        scope = self.scope
        if name in scope.shown:
            return scope.shown[name]
        if name in scope.parameters or name in scope.locals:
            return f"u_{name}"
        return self.outside.get(name, f"u_{name}")

    def name(self, name: str, line: int) -> str:
        scope = self.scope
        if name in scope.parameters or name in scope.locals or name in self.global_names:
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
        """Long ones are there twice: for a variable that is a float, which spares most checks, and for any."""
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
            case Binary(op=op, left=left, right=right) if op in LOGIC:
                return f"({self.condition(left)} {op} {self.condition(right)})"
            case Binary(op=op, left=left, right=right) if op in COMPARES:
                return f"({self.expr(left)} {op} {self.expr(right)})"
            case Binary(op="/" | "%" as op, left=left, right=right):
                return f"({self.number(left, op)} {op} {self.number(right, op)})"
            case Binary():
                return self.sum_or_product(e)
        raise ScriptError(f"{type(e).__name__} is not understood", e.line)
