"""Tree to Python: compiled once, off the control loop, so that a 500 Hz script costs little.

Names of the script get the prefix `u_`; what the runtime provides starts with `_`. `lines[n]` is the script's line of
Python line n, so that every error names the script's own line.

Scope, as the manual's "Scoping rules" has it: `global` declares for the whole program, `local` never leaves its
function; an unqualified name is the global one if there is one, else local. Names of the main body can be read
everywhere below it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from types import CodeType

from wardarm.sim.urscript.errors import ScriptError
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
    Method,
    Name,
    OnThread,
    Return,
    Run,
    Script,
    Simple,
    Stmt,
    Unary,
    While,
)

_COMPARES = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LOGIC = frozenset({"and", "or", "xor"})


@dataclass(frozen=True)
class Compiled:
    """A program ready to run. `lines[n - 1]` is the script line of Python line n of `code`."""

    name: str
    secondary: bool
    source: str
    code: CodeType
    lines: tuple[int, ...]
    globals: frozenset[str]


def compile_script(source: str, builtins: Collection[str]) -> Compiled:
    """Compile a program. `builtins`: names of the controller's functions and constants. Raises ScriptError."""
    script = parse(source)
    emitter = _Emitter(script, builtins)
    text = emitter.program()
    try:
        code = compile(text, f"<urscript {script.name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as e:
        line = getattr(e, "lineno", 0) or 0
        raise ScriptError(f"cannot be compiled: {e}", emitter.lines[line - 1] if line else 0) from e
    return Compiled(script.name, script.secondary, source, code, tuple(emitter.lines), frozenset(emitter.global_names))


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


class _Emitter:
    def __init__(self, script: Script, builtins: Collection[str]) -> None:
        self.script, self.builtins = script, frozenset(builtins)
        self.out: list[str] = []
        self.lines: list[int] = []
        self.functions: dict[str, Define] = {}
        self.declared: set[str] = set()
        self._collect(script.body)
        main_names = {
            s.target.id for s in _statements(script.body) if isinstance(s, Assign) and isinstance(s.target, Name)
        }
        self.global_names = self.declared | main_names
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
        self.scope = _Scope(True)  # defaults are evaluated outside
        parameters = [f"u_{n}" + (f"={self.expr(d)}" if d is not None else "") for n, d in define.parameters]
        self.scope = scope
        self.emit(0, f"def u_{define.name}({', '.join(parameters)}):", define.line)
        if shared:
            self.emit(1, "global " + ", ".join(sorted(f"u_{n}" for n in shared)), define.line)
        self.block(define.body, 1, define.line)

    def block(self, body: list[Stmt], depth: int, line: int) -> None:
        before = len(self.out)
        for statement in body:
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
        raise ScriptError(f"name {name!r} is not defined", line)

    def place(self, target: Name | Index) -> str:
        return f"u_{target.id}" if isinstance(target, Name) else self.expr(target)

    def by_value(self, e: Expr) -> str:
        """An expression whose list, if it is one, must be a copy."""
        text = self.expr(e)
        return f"_copy({text})" if isinstance(e, Name | Index) else text

    def index(self, e: Expr) -> str:
        if isinstance(e, Literal) and isinstance(e.value, int):
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
                raise ScriptError(f"unknown function {function!r}", line)
            texts = [self.expr(a) for a in args] + [f"{n}={self.expr(v)}" for n, v in named.items()]
            return ", ".join(texts)
        names = [n for n, _ in define.parameters]
        required = sum(d is None for _, d in define.parameters)
        if len(args) > len(names) or len(args) + len(named) < required:
            raise ScriptError(f"{function} takes {len(names)} arguments, {len(args) + len(named)} given", line)
        for name in named:
            if name not in names:
                raise ScriptError(f"{function} has no parameter {name!r}", line)
        texts = [self.by_value(a) for a in args] + [f"u_{n}={self.by_value(v)}" for n, v in named.items()]
        return ", ".join(texts)

    def expr(self, e: Expr) -> str:
        match e:
            case Literal(value=value):
                return repr(value)
            case Name(id=name):
                return self.name(name, e.line)
            case Items(items=items, pose=pose):
                return f"{'_Pose' if pose else '_List'}([{', '.join(self.by_value(i) for i in items)}])"
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
            case Unary(op=op, value=value):
                return f"({op}{self.expr(value)})"
            case Binary(op="xor", left=left, right=right):
                return f"({self.condition(left)} != {self.condition(right)})"
            case Binary(op=op, left=left, right=right) if op in _LOGIC:
                return f"({self.condition(left)} {op} {self.condition(right)})"
            case Binary(op=op, left=left, right=right):
                return f"({self.expr(left)} {op} {self.expr(right)})"
        raise ScriptError(f"{type(e).__name__} is not understood", e.line)
