"""A running URScript program: one greenlet a thread, one slice a thread and controller cycle.

What takes physical time (servoj, sync, sleep, a socket that has nothing yet) calls `wait()`, which gives up the rest
of the thread's slice until the next cycle. A thread that computes without end loses its slice too, after
`SPIN_LIMIT` loop rounds, as a real controller takes the slice away; one that does so for a second is an error. In a
critical section it keeps the others waiting until it goes on; waiting for something lets them run, there too (Universal
Robots' external-control script waits for its socket in one while its other threads move the arm).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from greenlet import GreenletExit, getcurrent, greenlet

from wardarm.sim.urscript.chains import compute
from wardarm.sim.urscript.compiled import LISTS_GROW, Compiled, Kept, Variable
from wardarm.sim.urscript.errors import ScriptError
from wardarm.sim.urscript.explain import explain
from wardarm.sim.urscript.values import (
    PLAIN,
    Pose,
    Struct,
    Text,
    UrList,
    below,
    copy,
    int32,
    make_items,
    method,
    resized,
    to_text,
    truth,
)

SPIN_LIMIT = 4_000  # loop rounds, or statements in a row, that fit into one cycle without physical time; our figure
# Cycles in a row that end so until the program is stopped; our figure. The manual ("Thread scheduling") only says that
# an exception and a protective stop can follow.
SPIN_CYCLES_MAX = 500


_STATEMENT = "<urscript statement"  # begins the file name of what was interpreted


def _retype(name: str, was: str, now: str) -> NoReturn:
    raise ScriptError(f"variable {name!r} is a {was} and cannot become a {now}")


class _Halt(Exception):
    pass


class Thread:
    """One thread of a program. `reads`: its socket reads in the cycle `reads_at`."""

    def __init__(self, name: str, run: Callable[[], Any], parent: Any) -> None:
        self.name = name
        self.greenlet = greenlet(run, parent)
        self.reads_at, self.reads = -1, 0
        self.ready: Callable[[], bool] | None = None
        """Asked once a cycle in the thread's place until it says yes; None: the thread runs in every cycle."""
        self.spun = 0
        self.critical = False
        self.interpreted = False

    @property
    def dead(self) -> bool:
        return bool(self.greenlet.dead)

    def __repr__(self) -> str:
        return f"thread {self.name}"


@dataclass(frozen=True)
class _Session:
    """Interpreter mode: what was there before it, the thread that interprets, its function's locals."""

    names: set[str]
    kept: set[str]
    thread: Thread
    enclosing: Mapping[str, str]


class Program:
    """Runs compiled script. `cycle()` is one controller cycle; it must always be called from the same OS thread."""

    def __init__(self, compiled: Compiled, builtins: Mapping[str, Any]) -> None:
        self.compiled = compiled
        self.name = compiled.name
        self.error: ScriptError | None = None
        self.cycles = 0
        self.secondary = compiled.secondary
        self._ended = False
        """A thread has ended since the last look."""
        self.interrupted: Thread | None = None
        """Lost its slice within a critical section: nobody else runs before it."""
        self.at_end: list[Callable[[], None]] = []
        """Called once when the program is over, however it ended."""
        self._hub: Any = None
        self._spins = 0
        self._code = {compiled.code.co_filename: compiled.lines}
        space: dict[str, Any] = {f"u_{name}": value for name, value in builtins.items()}
        space.update(
            _plain=PLAIN, _copy=copy, _int32=int32, _truth=truth, _below=below, _method=method, _List=UrList, _Items=make_items, _Pose=Pose,
            _Struct=Struct, _Text=Text, _unset=object(), _spin=self._spin, _run=self._run, _kill=self._kill,
            _join=self._join, _halt=self._halt, _enter_critical=self._enter, _exit_critical=self._exit,
            _enclose=self._enclose, _forget=self._forget, _retype=_retype,
            _chain=compute, _resize=functools.partial(resized, grows=LISTS_GROW in builtins),
        )  # fmt: skip
        exec(compiled.code, space)
        self.space = space
        self._builtins = builtins
        self.kept: dict[str, Kept] = {}
        """Functions and threads that were interpreted."""
        self._enclosing: dict[str, str] = {}
        self._session: _Session | None = None
        self.threads = [Thread("main", space["_main"], None)]
        self.main = self.threads[0]
        self.current = self.main

    def variables(self) -> dict[str, Any]:
        """The program's global variables that have a value."""
        return {name: self.space[f"u_{name}"] for name in self.compiled.globals if f"u_{name}" in self.space}

    # --- called by the controller
    def cycle(self) -> bool:
        """Give each thread its slice. Returns False once the program has ended; `error` says why if it broke."""
        hub = self._hub = getcurrent()
        self.cycles += 1
        first, self.interrupted = self.interrupted, None
        for thread in self.threads if first is None else [first]:  # also those that start now
            if thread.greenlet.dead:
                continue
            if thread.ready is not None:
                if not thread.ready():
                    continue
                thread.ready = None
            self.current = thread
            self._spins = 0
            slice_ = thread.greenlet
            slice_.parent = hub
            try:
                slice_.switch()
            except _Halt:
                self.stop()
                return False
            except Exception as e:  # whatever broke in the script ends the program with its line
                self.error = explain(e, self._code)
                self.stop()
                return False
            if slice_.dead:
                self._ended = True
            if self.interrupted is not None:
                break
        if self._ended:
            self._ended = False
            self.threads = [t for t in self.threads if not t.dead]
            if self.main.dead:
                self.stop()
                return False
        return True

    def stop(self) -> None:
        """End every thread now."""
        for thread in self.threads:
            self._end(thread)
        self.threads = []
        ending, self.at_end = self.at_end, []
        for call in ending:
            call()

    # --- called from inside the script
    def wait(self) -> None:
        """Give up the rest of this cycle."""
        if self.secondary:
            raise ScriptError("a secondary program must not take physical time")
        self.current.spun = 0
        self._hub.switch()

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Give up this cycle and every further one in which `ready()` says no: it costs less than a thread that looks."""
        self.current.ready = ready
        self.wait()

    # --- interpreter mode
    def open_session(self) -> None:
        """What is interpreted from now on can be cleared. The calling thread is the one that interprets."""
        self._session = _Session(
            set(self.space) | {f"u_{name}" for name in self.compiled.globals},
            set(self.kept),
            self.current,
            self._enclosing,
        )

    def interpret(self, statements: Compiled) -> None:
        """Run compiled statements in the calling thread. They were compiled with `known()` as additional names."""
        self._code[statements.code.co_filename] = statements.lines
        exec(statements.code, self.space)
        self.kept |= {name: replace(kept, own=False) for name, kept in statements.functions.items()}
        self.space["_main"]()

    def clear_session(self) -> None:
        """Forget the functions and variables interpreted since `open_session`, end the threads started since."""
        session = self._session
        if session is None:
            return
        for thread in self.threads:
            if thread.interpreted and thread is not self.current:
                self._end(thread)
        for name in [n for n in self.space if n.startswith("u_") and n not in session.names]:
            del self.space[name]
        self.kept = {name: kept for name, kept in self.kept.items() if name in session.kept}
        *cleared, _ = [name for name in self._code if name.startswith(_STATEMENT)] or [""]
        for name in cleared:  # the last one is the statement that clears
            self._code.pop(name)

    def close_session(self) -> None:
        self._session = None

    def known(self) -> dict[str, Kept | Variable]:
        """What statements for `interpret` may use besides the controller's."""
        made: dict[str, Kept | Variable] = {}
        for name in {n[2:] for n in self.space if n.startswith("u_")} | self.compiled.globals:
            if name not in self._builtins:
                made[name] = Variable(f"u_{name}")
        if self._session is not None:
            made |= {name: Variable(python) for name, python in self._session.enclosing.items()}
        return {**made, **self.compiled.functions, **self.kept}

    def _enclose(self, shown: dict[str, str]) -> None:
        self._enclosing = shown

    def _forget(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.space.pop(name, None)

    def _spin(self, rounds: int = 1) -> None:
        self._spins += rounds
        if self._spins > SPIN_LIMIT:
            thread = self.current
            thread.spun += 1
            if thread.spun > SPIN_CYCLES_MAX:
                raise ScriptError(
                    f"infinite loop: thread {thread.name} computed for {SPIN_CYCLES_MAX} cycles without taking physical "
                    "time; put sync() or sleep() into it"
                )
            if thread.critical:
                self.interrupted = thread
            self._hub.switch()

    def _run(self, function: Callable[..., Any], *args: Any) -> Thread:
        thread = Thread(function.__name__[2:], lambda: function(*args), self._hub)
        session = self._session
        thread.interpreted = session is not None and (self.current.interpreted or self.current is session.thread)
        self.threads.append(thread)
        return thread

    def _kill(self, thread: Any) -> None:
        if not isinstance(thread, Thread):
            return  # ur_rtde's control script kills handles that are still 0
        if thread is self.current:
            raise GreenletExit
        self._end(thread)

    def _end(self, thread: Thread) -> None:
        self._ended = True
        if thread.greenlet.dead:
            return
        thread.greenlet.parent = getcurrent()
        thread.greenlet.throw(GreenletExit)

    def _join(self, thread: Any) -> None:
        if thread.__class__ is int and thread == 0:
            return  # no thread; Universal Robots' external-control script joins handles that are still 0
        if not isinstance(thread, Thread):
            raise ScriptError(f"join needs a thread handle, not {to_text(thread)}")
        while not thread.dead:
            self.wait()

    def _enter(self) -> None:
        self.current.critical = True

    def _exit(self) -> None:
        self.current.critical = False

    @staticmethod
    def _halt() -> NoReturn:
        raise _Halt
