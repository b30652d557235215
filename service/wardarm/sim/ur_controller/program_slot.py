"""The one program of the controller: compiled off the control loop, started, paused, resumed, stopped."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from wardarm.sim.ur_controller.modes import CYCLE_S, Runtime
from wardarm.sim.urscript import Compiled, Program, ScriptError, ScriptSyntaxError, Signature, UnknownName
from wardarm.sim.urscript.compiler import Compiler, compile_here

SCALE_STEP = CYCLE_S / 0.1  # pausing and resuming take 100 ms; our figure, the manual gives none
_CACHE = 16


@dataclass(frozen=True)
class Failure:
    """Why a program does not run, as the primary clients are told: line and column count from 1, 0 = unknown."""

    line: int
    column: int
    text: str


def failure(error: ScriptError, source: str) -> Failure:
    """Texts as a real controller's: `compile_error_name_not_found:NAME:` by the tests of Universal Robots' client
    library, `syntax_error_on_line:LINE:TEXT:` by published logs. Others are ours. The column is where the line begins."""
    lines = source.splitlines()
    text = lines[error.line - 1] if 0 < error.line <= len(lines) else ""
    column = len(text) - len(text.lstrip()) + 1 if text.strip() else min(1, error.line)
    if isinstance(error, UnknownName):
        return Failure(error.line, column, f"compile_error_name_not_found:{error.name}:")
    if isinstance(error, ScriptSyntaxError):
        return Failure(error.line, column, f"syntax_error_on_line:{error.line}:{text}:")
    return Failure(error.line, column, error.message)


def signatures(functions: Mapping[str, Any]) -> dict[str, Signature | None]:
    """What the compiler must know of the controller's functions; None for a constant."""
    return {name: _signature(value) if callable(value) else None for name, value in functions.items()}


def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a function of C that does not tell
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    return Signature(tuple(p.name for p in parameters), sum(p.default is p.empty for p in parameters))


class ProgramSlot:
    """`functions()` makes a fresh table of script functions, and is told the program they belong to."""

    def __init__(
        self, functions: Callable[[], tuple[Mapping[str, Any], Callable[[Program], None]]], log: Callable[[str], None],
        inline: bool = False,
    ) -> None:  # fmt: skip
        self._functions, self._log = functions, log
        self._signatures = signatures(functions()[0])
        self._compiler = None if inline else Compiler(self._signatures)
        self._jobs: deque[tuple[str, Future[Compiled]]] = deque()
        self._known: dict[str, Compiled] = {}
        self._secondaries: list[Program] = []
        self.program: Program | None = None
        self.runtime = Runtime.STOPPED
        self.scale = 1.0
        self.started = 0
        self.last_error = ""
        self.failure = Failure(0, 0, "")
        self._source = ""

    @property
    def name(self) -> str:
        return self.program.name if self.program is not None else ""

    def warm(self) -> None:
        """Have the compiler ready before the first program comes."""
        if self._compiler is not None:
            self._compiler.warm()

    def submit(self, source: str) -> None:
        """Compile in the background; `update` starts the program once that is done."""
        known = self._known.get(source)
        if known is None and self._compiler is not None:
            self._jobs.append((source, self._compiler.submit(source)))
            return
        done: Future[Compiled] = Future()
        try:
            done.set_result(compile_here(source, self._signatures) if known is None else known)
        except ScriptError as e:
            done.set_exception(e)
        self._jobs.append((source, done))

    def close(self) -> None:
        self.stop()
        if self._compiler is not None:
            self._compiler.close()

    def update(self, may_start: Callable[[], str]) -> None:
        """Once a cycle, before `run`: start what was compiled. `may_start` says why not, or nothing."""
        while self._jobs and self._jobs[0][1].done():
            source, job = self._jobs.popleft()
            try:
                compiled = job.result()
            except ScriptError as e:
                self.last_error, self.failure = f"compile error: {e}", failure(e, source)
                self._log(self.last_error)
                continue
            if len(self._known) >= _CACHE:
                self._known.clear()
            self._known[source] = compiled
            refused = may_start()
            if refused:
                self._log(f"program {compiled.name} refused: {refused}")
                continue
            self._start(compiled, source)

    def _start(self, compiled: Compiled, source: str) -> None:
        table, attach = self._functions()
        try:
            program = Program(compiled, table)
        except Exception as e:
            self.last_error = f"program {compiled.name} cannot start: {e}"
            self._log(self.last_error)
            return
        attach(program)
        if compiled.secondary:
            self._secondaries.append(program)
            return
        self.stop()
        self.program, self.runtime, self.scale, self._source = program, Runtime.PLAYING, 1.0, source
        self.started += 1
        self._log(f"program {compiled.name} started")

    def stop(self) -> bool:
        """Ends the program at once. Says whether there was one."""
        was = self.program is not None
        if self.program is not None:
            self.program.stop()
            self._log(f"program {self.program.name} stopped")
        self.program, self.runtime = None, Runtime.STOPPED
        return was

    def pause(self) -> bool:
        if self.runtime in (Runtime.PLAYING, Runtime.RESUMING):
            self.runtime = Runtime.PAUSING
            return True
        return False

    def freeze(self) -> None:
        """Pause without the gentle way (protective stop)."""
        if self.program is not None:
            self.runtime, self.scale = Runtime.PAUSED, 0.0

    def resume(self) -> bool:
        if self.runtime in (Runtime.PAUSED, Runtime.PAUSING):
            self.runtime = Runtime.RESUMING
            return True
        return False

    def run(self) -> bool:
        """One cycle of every program. Returns True if the main one ended in it."""
        for program in list(self._secondaries):
            if not program.cycle():
                self._secondaries.remove(program)
                if program.error is not None:
                    self._log(f"secondary program {program.name}: {program.error}")
        runtime = self.runtime
        if self.program is None or runtime is Runtime.PAUSED:
            return False
        if runtime is Runtime.PAUSING:
            self.scale = max(0.0, self.scale - SCALE_STEP)
            if self.scale <= 0.0:
                self.runtime = Runtime.PAUSED
                return False
        elif self.scale < 1.0:
            self.scale = min(1.0, self.scale + SCALE_STEP)
            self.runtime = Runtime.PLAYING
        elif runtime is Runtime.RESUMING:
            self.runtime = Runtime.PLAYING
        program = self.program
        if program.cycle():
            return False
        if self.program is not program:  # it stopped or replaced itself
            return True
        self.program, self.runtime = None, Runtime.STOPPED
        if program.error is not None:
            self.last_error = f"program {program.name} stopped: {program.error}"
            self.failure = failure(program.error, self._source)
            self._log(self.last_error)
        else:
            self._log(f"program {program.name} ended")
        return True
