"""Programs are compiled in processes of their own: Python compiles with its lock held, and 2 ms cycles must go on.

`Compiler.submit` returns a future of a `Compiled`. A process starts with `warm` or the first program and ends when the
controller's does (its standard input closes).

    python -m wardarm.sim.urscript.compiler      # the other side
"""

from __future__ import annotations

import contextlib
import itertools
import marshal
import os
import pickle
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

from wardarm.sim.urscript.compiled import Compiled, Signature
from wardarm.sim.urscript.errors import ScriptError
from wardarm.sim.urscript.generate import compile_script

SOURCE_MAX = 4_000_000
"""Characters of a program; ours: beyond that unpacking the compiled program would hold up the cycle."""

WORKERS = 2
SMALL = 2_000
"""Characters of a program that is compiled here, in a thread: Python holds its lock for far less than 1 ms."""


def check_size(source: str) -> None:
    if len(source) > SOURCE_MAX:
        raise ScriptError(f"a program of {len(source)} characters is refused: the limit is {SOURCE_MAX}")


def compile_here(source: str, builtins: Mapping[str, Signature | None]) -> Compiled:
    """For a caller that has no clock to keep."""
    check_size(source)
    return compile_script(source, builtins)


class _Worker:
    """A compiler process. It starts with its first program, and again after `kill`."""

    def __init__(self, builtins: Mapping[str, Signature | None]) -> None:
        self._builtins = builtins
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._lock = threading.Lock()

    def compile(self, source: str) -> Compiled:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, source)
            answer = _read(process.stdout)
        except (OSError, EOFError, ValueError) as e:
            raise ScriptError(f"the compiler process ended: {e}") from e
        if isinstance(answer, ScriptError):
            raise answer
        name, secondary, code, lines, names, functions = answer
        return Compiled(name, secondary, marshal.loads(code), array("i", lines), names, functions)

    def kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._killed = True

    def close(self) -> None:
        self.kill()
        with self._lock:
            _reap(self._process)

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._process is None or self._killed or self._process.poll() is not None:
                _reap(self._process)
                self._process, self._killed = self._start(), False
            return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        folder = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
        process = subprocess.Popen(
            [sys.executable, "-m", "wardarm.sim.urscript.compiler"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment, start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        _write(process.stdin, self._builtins)
        return process


def _reap(process: subprocess.Popen[bytes] | None) -> None:
    """Wait for a process that has ended or was killed."""
    if process is None:
        return
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):  # what could not be written to it any more
            stream.close()


class Compiler:
    """Small programs in a thread, others in `WORKERS` processes: a long one does not keep the next one waiting."""

    def __init__(self, builtins: Mapping[str, Signature | None]) -> None:
        self._builtins = dict(builtins)
        self._threads = ThreadPoolExecutor(WORKERS, "urscript-compiler")
        self._small = ThreadPoolExecutor(1, "urscript-small")
        self._workers = [_Worker(self._builtins) for _ in range(WORKERS)]
        self._free = list(self._workers)  # the last one is taken first: one that runs already
        self._busy: dict[int, _Worker] = {}
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._numbered: dict[Future[Compiled], int] = {}

    def warm(self) -> None:
        """Start a process now, so that the first program does not wait for it."""
        self._threads.submit(self._compile, "# nothing", next(self._numbers))

    def submit(self, source: str) -> Future[Compiled]:
        if len(source) <= SMALL:
            return self._small.submit(compile_script, source, self._builtins)
        number = next(self._numbers)
        future = self._threads.submit(self._compile, source, number)
        self._numbered[future] = number
        future.add_done_callback(lambda done: self._numbered.pop(done, None))
        return future

    def drop(self, future: Future[Compiled]) -> None:
        """Nobody waits for this program any more: the process that compiles it takes up the next one."""
        number = self._numbered.get(future)
        if future.cancel() or number is None:
            return
        with self._lock:
            worker = self._busy.get(number)
            if worker is not None:
                worker.kill()

    def close(self) -> None:
        for threads in (self._threads, self._small):
            threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def _compile(self, source: str, number: int) -> Compiled:
        check_size(source)
        with self._lock:
            worker = self._busy[number] = self._free.pop()
        try:
            return worker.compile(source)
        finally:
            with self._lock:
                del self._busy[number]
                self._free.append(worker)


def _write(stream: IO[bytes], thing: Any) -> None:
    data = pickle.dumps(thing)
    stream.write(struct.pack(">I", len(data)) + data)
    stream.flush()


def _read(stream: IO[bytes]) -> Any:
    head = stream.read(4)
    if len(head) < 4:
        raise EOFError("nothing more to read")
    return pickle.loads(stream.read(struct.unpack(">I", head)[0]))


def _serve(source: IO[bytes], answers: IO[bytes]) -> None:
    builtins = _read(source)
    while True:
        try:
            text = _read(source)
        except EOFError:
            return
        answer: Any
        try:
            made = compile_script(text, builtins)
            code, lines = marshal.dumps(made.code), bytes(array("i", made.lines))
            answer = (made.name, made.secondary, code, lines, made.globals, made.functions)
        except ScriptError as e:
            answer = e
        except Exception as e:  # a fault of the compiler must reach the program's log, not end the compiler
            answer = ScriptError(f"the compiler failed: {type(e).__name__}: {e}")
        _write(answers, answer)


if __name__ == "__main__":
    os.nice(5)
    _serve(sys.stdin.buffer, sys.stdout.buffer)
