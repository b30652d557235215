"""Tree to Python: compiled once, off the control loop, so that a 500 Hz script costs little.

Names of the script get the prefix `u_`; what the runtime provides starts with `_`. `lines[n]` is the script's line of
Python line n, so that every error names the script's own line.

Scope, as the manual's "Scoping rules" has it: names of the program's own body are global, whatever stands before them;
`global` in a function declares for the whole program, `local` never leaves its function; an unqualified name is the
global one if there is one, else local.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import Any

from wardarm.sim.urscript.analyse import (
    Scope,
    calls,
    kept_of,
    kind,
    name_of,
    statements,
)
from wardarm.sim.urscript.chains import deepest
from wardarm.sim.urscript.compiled import HOST, Builtins, Compiled, Kept
from wardarm.sim.urscript.errors import ScriptError
from wardarm.sim.urscript.expressions import Expressions
from wardarm.sim.urscript.parser import parse
from wardarm.sim.urscript.tree import (
    Assign,
    Define,
    Do,
    If,
    Literal,
    Name,
    OnThread,
    Return,
    Script,
    Simple,
    Stmt,
    While,
)

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
        raise ScriptError("nested too deeply", emitter.line) from None
    try:
        code = compile(text, f"<urscript {script.name}>", "exec")
    except (SyntaxError, RecursionError, MemoryError) as e:
        line = getattr(e, "lineno", 0) or deepest(text)
        deep = not isinstance(e, SyntaxError) or re.search("nest|levels|stack|parenthes", str(e.msg))
        why = "nested too deeply" if deep else f"cannot be compiled: {getattr(e, 'msg', e)}"
        raise ScriptError(why, emitter.lines[min(line, len(emitter.lines)) - 1]) from e
    functions = {name: kept_of(define) for name, define in emitter.functions.items()}
    names = frozenset(emitter.global_names - set(emitter.outside))
    return Compiled(script.name, script.secondary, code, array("i", emitter.lines), names, functions)


class _Emitter(Expressions):
    def __init__(self, script: Script, builtins: Mapping[str, Any], may_host: bool = False) -> None:
        super().__init__(builtins)
        self.script, self.may_host = script, may_host
        self.hosts = 0
        self.out: list[str] = []
        self.lines: list[int] = []
        self.line = 1
        """The script's line that is being looked at."""
        self.loops = 0

    def _prepare(self) -> None:
        self._collect(self.script.body)
        main = [s for s in statements(self.script.body) if isinstance(s, Assign) and isinstance(s.target, Name)]
        self.declared |= {name_of(s) for s in main} | set(self.outside)
        for assign in main:
            self.line = assign.line
            self.kinds.setdefault(name_of(assign), kind(assign.value, self.kinds))

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
        self._prepare()
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
        line = self.line = s.line
        match s:
            case Assign(target=Name() as target, value=value) if not self.stays(target.id, value):
                was, now = self.kind_of_name(target.id), kind(value, self.all_kinds())
                self.emit(depth, f"_retype({target.id!r}, {was!r}, {now!r})", line)
            case Assign(target=Name() as target, value=value) if self.may_resize(target.id, value):
                place = self.place(target)
                self.emit(depth, f"_v = {self.by_value(value)}", line)
                self.emit(depth, "if _v.__class__ is _List:", line)
                self.emit(depth + 1, f"try: _v = _resize({target.id!r}, {place}, _v)", line)
                self.emit(depth + 1, "except NameError: pass", line)  # it has no value yet
                self.emit(depth, f"{place} = _v", line)
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
