"""Interpreter mode: statements that arrive on port 30020 run inside a program that called `interpreter_mode()`.

One statement a line. Answers, as in the script manual, "Interpreter Mode": `ack: ID: STATEMENT`, `discard: REASON:
STATEMENT`; `state: ID: statelastexecuted` and so on for the questions below. What a statement defines (variables, functions,
threads) stays until it is cleared. A statement that comes while a program runs that is not in interpreter mode waits, and
is answered when the program enters the mode or ends.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.program_slot import signatures
from wardarm.sim.urscript import (
    Compiled,
    Program,
    ScriptError,
    Variable,
    compile_statement,
    people_text,
    script_text,
)

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PORT = 30020
STATEMENT_MAX = 1024  # bytes; "Interpreter Mode": longer ones are discarded
QUEUE_MAX = 500  # statements that may wait; the manual asks to clear before that
_QUESTIONS = {
    "statelastexecuted": "executed", "statelastinterpreted": "interpreted", "statelastcleared": "cleared",
    "stateunexecuted": "unexecuted",
}  # fmt: skip
_LAST = re.compile(r"\b(?:clear|end)_interpreter\s*\(")


class Interpreter:
    """The statements of the running program; `active` while a program is in `interpreter_mode()`.

    `waiting`: came and are not yet decided about; `queue`: were taken and not yet executed.
    """

    def __init__(self) -> None:
        self.active = False
        self.ending = False
        self.interpreted = self.executed = self.cleared = 0
        self.waiting: deque[tuple[Connection, str]] = deque()
        self.queue: deque[tuple[int, Compiled]] = deque()
        self.holding = False
        """A statement that clears or ends was taken: what comes after it is not looked at before that is done."""

    @property
    def unexecuted(self) -> int:
        return len(self.queue)

    def begin(self, clear_queue: bool) -> None:
        self.active, self.ending, self.holding = True, False, False
        if clear_queue:
            self.discard("cleared when interpreter mode began")

    def discard(self, reason: str) -> None:
        """What waits is not taken."""
        while self.waiting:
            link, statement = self.waiting.popleft()
            _say(link, f"discard: {reason}: {statement}")

    def clear(self) -> None:
        self.cleared, self.holding = self.executed, False

    def finish(self) -> None:
        self.active = self.ending = self.holding = False
        self.queue.clear()

    def accept(self, compiled: Compiled, last: bool) -> int:
        """`last`: nothing after it is looked at before it is done."""
        self.interpreted += 1
        self.queue.append((self.interpreted, compiled))
        self.holding = last
        return self.interpreted

    def over(self) -> None:
        """The program has ended, however."""
        self.finish()
        self.discard("the robot is not in interpreter mode")


def _say(link: Connection, text: str) -> None:
    link.send(text.encode("utf-8", "surrogateescape") + b"\n")


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
        if program.current is not program.main:
            raise ScriptError("interpreter_mode() is for the main thread")
        program.open_session()
        state.begin(clearQueueOnEnter)
        while not state.ending:
            if not state.queue:
                program.wait()
                continue
            state.executed, statement = state.queue.popleft()
            program.interpret(statement)
            if not state.queue:
                state.holding = False
        state.finish()
        if clearOnEnd:
            program.clear_session()
            state.clear()
        program.close_session()

    def end_interpreter(self) -> None:
        self._c.interpreter.ending = True

    def clear_interpreter(self) -> None:
        assert self._program is not None
        self._program.clear_session()
        self._c.interpreter.clear()


class InterpreterPort(Service):
    """Port 30020. A statement is short: it is compiled where it arrives, about 1 ms."""

    def __init__(self, controller: Controller, port: int = PORT) -> None:
        super().__init__(port)
        self.controller = controller
        self._signatures: dict[str, Any] = signatures(controller.functions())
        self.pending = controller.interpreter.waiting

    def received(self, link: Connection) -> None:
        *lines, rest = bytes(link.buffer).split(b"\n")
        link.buffer[:] = rest
        for line in lines:
            self._arrived(link, line.decode("utf-8", "surrogateescape").strip())
        self._look()
        if len(link.buffer) > STATEMENT_MAX * 64:
            link.close()

    def publish(self) -> None:
        self._look()

    def _arrived(self, link: Connection, statement: str) -> None:
        state = self.controller.interpreter
        word = statement.removesuffix("()")
        if word in _QUESTIONS:
            _say(link, f"state: {getattr(state, _QUESTIONS[word])}: {statement}")
        elif word in ("skipbuffer", "abort") and not state.active:
            _say(link, f"discard: the robot is not in interpreter mode: {statement}")
        elif word in ("skipbuffer", "abort"):
            state.queue.clear()
            state.holding = False
            if word == "abort":
                self.controller.servo.brake(10.0)
            _say(link, f"ack: {state.interpreted}: {statement}")
        elif len(statement.encode("utf-8", "surrogateescape")) > STATEMENT_MAX:
            _say(link, f"discard: longer than {STATEMENT_MAX} characters: {statement[:80]}")
        elif len(state.waiting) >= QUEUE_MAX:
            _say(link, f"discard: {QUEUE_MAX} statements are waiting: {statement}")
        else:
            state.waiting.append((link, statement))

    def _look(self) -> None:
        """Take, discard or leave what waits."""
        if not self.controller.interpreter.waiting:
            return
        state, program = self.controller.interpreter, self.controller.slot.program
        if program is None:
            state.discard("the robot is not in interpreter mode")
        elif state.active and not state.ending:
            while state.waiting and not state.holding:
                link, statement = state.waiting.popleft()
                _say(link, self._taken(program, statement))

    def _taken(self, program: Program, statement: str) -> str:
        state = self.controller.interpreter
        if len(state.queue) >= QUEUE_MAX:
            return f"discard: {QUEUE_MAX} statements are waiting: {statement}"
        known: dict[str, Any] = dict(self._signatures) | program.known()
        for _, queued in state.queue:  # what they define is there when this one runs
            known |= {name: Variable(f"u_{name}") for name in queued.globals}
            known |= {name: replace(kept, own=False) for name, kept in queued.functions.items()}
        try:
            compiled = compile_statement(script_text(statement) + "\n", known, f"statement {state.interpreted + 1}")
        except ScriptError as e:
            return f"discard: {people_text(e.message)}: {statement}"
        return f"ack: {state.accept(compiled, _LAST.search(statement) is not None)}: {statement}"
