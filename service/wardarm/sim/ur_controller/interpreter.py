"""Interpreter mode: statements that arrive on port 30020 run inside a program that called `interpreter_mode()`.

One statement a line. Answers, as in the script manual, "Interpreter Mode": `ack: ID: STATEMENT`, `discard: REASON:
STATEMENT`; `state: ID: statelastexecuted` and so on for the questions below.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.program_slot import signatures
from wardarm.sim.urscript import Compiled, Program, ScriptError
from wardarm.sim.urscript.compiler import compile_here

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PORT = 30020
STATEMENT_MAX = 1024  # bytes; "Interpreter Mode": longer ones are discarded
QUEUE_MAX = 500  # statements that may wait; the manual asks to clear before that
_QUESTIONS = {
    "statelastexecuted": "executed", "statelastinterpreted": "interpreted", "statelastcleared": "cleared",
    "stateunexecuted": "unexecuted",
}  # fmt: skip


class Interpreter:
    """The queue of statements of the running program; `active` while a program is in `interpreter_mode()`."""

    def __init__(self) -> None:
        self.active = False
        self.ending = False
        self.aborting = False
        self.interpreted = self.executed = self.cleared = 0
        self.queue: deque[tuple[int, Compiled]] = deque()

    @property
    def unexecuted(self) -> int:
        return len(self.queue)

    def begin(self, clear_queue: bool) -> None:
        self.active, self.ending = True, False
        if clear_queue:
            self.clear()

    def finish(self, clear: bool) -> None:
        self.active = False
        if clear:
            self.clear()

    def clear(self) -> None:
        self.queue.clear()
        self.cleared = self.interpreted

    def accept(self, compiled: Compiled) -> int:
        self.interpreted += 1
        self.queue.append((self.interpreted, compiled))
        return self.interpreted

    def over(self) -> None:
        """The program has ended, however."""
        self.active = self.ending = False
        self.queue.clear()


class InterpreterFunctions:
    """Script functions of interpreter mode."""

    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._program: Program | None = None

    def _attach(self, program: Program) -> None:
        self._program = program
        if not program.compiled.secondary:
            program.at_end.append(self._c.interpreter.over)

    def interpreter_mode(self, clearQueueOnEnter: bool = True, clearOnEnd: bool = True) -> None:
        """Runs what arrives on port 30020 until end_interpreter()."""
        program, state = self._program, self._c.interpreter
        assert program is not None
        if state.active:
            raise ScriptError("interpreter_mode() within interpreter mode")
        state.begin(clearQueueOnEnter)
        while not state.ending:
            if not state.queue:
                program.wait()
                continue
            number, statement = state.queue.popleft()
            program.interpret(statement)
            state.executed = number
        state.finish(clearOnEnd)

    def end_interpreter(self) -> None:
        self._c.interpreter.ending = True

    def clear_interpreter(self) -> None:
        self._c.interpreter.clear()


class InterpreterPort(Service):
    """Port 30020. A statement is short: it is compiled where it arrives, about 1 ms."""

    def __init__(self, controller: Controller, port: int = PORT) -> None:
        super().__init__(port)
        self.controller = controller
        self._signatures: dict[str, Any] = signatures(controller.functions())

    def received(self, link: Connection) -> None:
        for line in link.lines():
            statement = line.strip()
            if statement:
                self._take(link, statement)
        if len(link.buffer) > STATEMENT_MAX * 64:
            link.close()

    def _take(self, link: Connection, statement: str) -> None:
        state = self.controller.interpreter
        word = statement.removesuffix("()")
        if word in _QUESTIONS:
            self._say(link, f"state: {getattr(state, _QUESTIONS[word])}: {statement}")
        elif not state.active:
            self._say(link, f"discard: the robot is not in interpreter mode: {statement}")
        elif word == "skipbuffer":
            state.queue.clear()
            self._say(link, f"ack: {state.interpreted}: {statement}")
        elif word == "abort":
            state.queue.clear()
            self.controller.servo.brake(10.0)
            self._say(link, f"ack: {state.interpreted}: {statement}")
        elif len(statement) > STATEMENT_MAX:
            self._say(link, f"discard: longer than {STATEMENT_MAX} characters: {statement[:80]}")
        elif len(state.queue) >= QUEUE_MAX:
            self._say(link, f"discard: {QUEUE_MAX} statements are waiting: {statement}")
        else:
            self._say(link, self._queue(statement))

    def _queue(self, statement: str) -> str:
        program = self.controller.slot.program
        if program is None:
            return f"discard: no program is running: {statement}"
        try:
            compiled = compile_here(statement + "\n", dict.fromkeys(program.known()) | self._signatures)
        except ScriptError as e:
            return f"discard: {e.message}: {statement}"
        return f"ack: {self.controller.interpreter.accept(compiled)}: {statement}"

    @staticmethod
    def _say(link: Connection, text: str) -> None:
        link.send(text.encode("utf-8", "replace") + b"\n")
