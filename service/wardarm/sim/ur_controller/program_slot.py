"""The one program of the controller: compiled off the control loop, started, paused, resumed, stopped."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from wardarm.sim.ur_controller.modes import CYCLE_S, Runtime
from wardarm.sim.urscript import (
    Compiled,
    Program,
    ScriptError,
    ScriptSyntaxError,
    Signature,
    UnknownName,
    people_text,
    script_text,
)
from wardarm.sim.urscript.compiler import Compiler, compile_here

SCALE_STEP = CYCLE_S / 0.1  # pausing and resuming take 100 ms; our figure, the manual gives none
_CACHE = 16
_SECONDARY = re.compile(r"\s*(?:#[^\n]*\n\s*)*sec\b")


@dataclass
class Launch:
    """A program on its way. `outcome`: None until it runs (True) or never will (False). `number`: counts submissions."""

    source: str = ""
    future: Future[Compiled] | None = None
    outcome: bool | None = None
    number: int = 0
    garbled: bool = False
    """Whether it is no URScript at all."""

    @property
    def secondary(self) -> bool:
        return _SECONDARY.match(self.source) is not None


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
        return Failure(error.line, column, f"syntax_error_on_line:{error.line}:{people_text(text)}:")
    return Failure(error.line, column, people_text(error.message))


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
        self._launches: list[Launch] = []
        self._submitted = 0
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

    @property
    def inline(self) -> bool:
        """Whether programs are compiled where they are submitted."""
        return self._compiler is None

    def submit(self, source: str, launch: Launch | None = None) -> Launch:
        """Compile in the background; `update` starts the program once that is done."""
        launch = launch or Launch()
        self._submitted += 1
        launch.source, launch.number = script_text(source), self._submitted
        known = self._known.get(launch.source)
        if known is None and self._compiler is not None:
            launch.future = self._compiler.submit(launch.source)
        else:
            launch.future = Future()
            try:
                made = compile_here(launch.source, self._signatures) if known is None else known
                launch.future.set_result(made)
            except ScriptError as e:
                launch.future.set_exception(e)
        self._launches.append(launch)
        return launch

    def close(self) -> None:
        self.stop()
        if self._compiler is not None:
            self._compiler.close()

    def update(self, may_start: Callable[[], str]) -> None:
        """Once a cycle, before `run`: start what was compiled. `may_start` says why not, or nothing.

        Of several main programs only the newest that can be compiled starts; it does not wait for older ones.
        """
        newest: tuple[Launch, Compiled] | None = None
        for launch in list(self._launches):
            assert launch.future is not None
            if not launch.future.done() or (launch.secondary and self._first_secondary() is not launch):
                continue
            self._launches.remove(launch)
            compiled = self._compiled(launch)
            if compiled is None:
                continue
            refused = may_start()
            if refused:
                self._log(f"program {compiled.name} refused: {refused}")
                launch.outcome = False
            elif compiled.secondary:
                launch.outcome = self._start(compiled, launch.source)
            else:
                if newest is not None:
                    self._replaced(newest[0], newest[1].name)
                self._drop_older(launch)
                newest = launch, compiled
        if newest is not None:
            newest[0].outcome = self._start(newest[1], newest[0].source)

    def _first_secondary(self) -> Launch | None:
        """Secondary programs keep their order."""
        return next((launch for launch in self._launches if launch.secondary), None)

    def _compiled(self, launch: Launch) -> Compiled | None:
        assert launch.future is not None
        try:
            compiled = launch.future.result()
        except ScriptError as e:
            self.last_error, self.failure = people_text(f"compile error: {e}"), failure(e, launch.source)
            self._log(self.last_error)
            launch.outcome, launch.garbled = False, isinstance(e, ScriptSyntaxError)
            return None
        if len(self._known) >= _CACHE:
            self._known.clear()
        self._known[launch.source] = compiled
        return compiled

    def _drop_older(self, launch: Launch) -> None:
        """Main programs that were submitted before `launch` and are still being compiled."""
        for other in list(self._launches):
            if other.number < launch.number and not other.secondary:
                self._launches.remove(other)
                if self._compiler is not None and other.future is not None:
                    self._compiler.drop(other.future)
                self._replaced(other, f"of {len(other.source)} characters")

    def _replaced(self, launch: Launch, name: str) -> None:
        launch.outcome = False
        self._log(f"program {name} never began: a newer one takes its place")

    def _start(self, compiled: Compiled, source: str) -> bool:
        table, attach = self._functions()
        try:
            program = Program(compiled, table)
        except Exception as e:
            self.last_error = f"program {compiled.name} cannot start: {e}"
            self._log(self.last_error)
            return False
        attach(program)
        if compiled.secondary:
            self._secondaries.append(program)
            return True
        self.stop()
        self.program, self.runtime, self.scale, self._source = program, Runtime.PLAYING, 1.0, source
        self.started += 1
        self._log(f"program {compiled.name} started")
        return True

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
                    self._log(people_text(f"secondary program {program.name}: {program.error}"))
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
            self.last_error = people_text(f"program {program.name} stopped: {program.error}")
            self.failure = failure(program.error, self._source)
            self._log(self.last_error)
        else:
            self._log(f"program {program.name} ended")
        return True
