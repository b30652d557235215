"""Programs are compiled in a process of their own: Python compiles with its lock held, and 2 ms cycles must go on.

`Compiler.submit` returns a future of a `Compiled`. The process starts with `warm` or the first program and ends when
the controller's does (its standard input closes).

    python -m wardarm.sim.urscript.compiler      # the other side
"""

from __future__ import annotations

import marshal
import os
import pickle
import struct
import subprocess
import sys
from array import array
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

from wardarm.sim.urscript.errors import ScriptError
from wardarm.sim.urscript.generate import Compiled, Signature, compile_script

SOURCE_MAX = 4_000_000
"""Characters of a program; ours: beyond that unpacking the compiled program would hold up the cycle."""

SMALL = 2_000
"""Characters of a program that is compiled here, in a thread: Python holds its lock for far less than 1 ms."""


def check_size(source: str) -> None:
    if len(source) > SOURCE_MAX:
        raise ScriptError(f"a program of {len(source)} characters is refused: the limit is {SOURCE_MAX}")


def compile_here(source: str, builtins: Mapping[str, Signature | None]) -> Compiled:
    """For a caller that has no clock to keep."""
    check_size(source)
    return compile_script(source, builtins)


class Compiler:
    """One compiler process, one program after the other."""

    def __init__(self, builtins: Mapping[str, Signature | None]) -> None:
        self._builtins = dict(builtins)
        self._thread = ThreadPoolExecutor(1, "urscript-compiler")
        self._small = ThreadPoolExecutor(1, "urscript-small")
        self._process: subprocess.Popen[bytes] | None = None

    def warm(self) -> None:
        """Start the process now, so that the first program does not wait for it."""
        self._thread.submit(self._compile, "# nothing")

    def submit(self, source: str) -> Future[Compiled]:
        if len(source) <= SMALL:
            return self._small.submit(compile_script, source, self._builtins)
        return self._thread.submit(self._compile, source)

    def close(self) -> None:
        for threads in (self._thread, self._small):
            threads.shutdown(wait=False, cancel_futures=True)
        process = self._process
        if process is not None:
            assert process.stdin is not None
            process.terminate()
            process.wait()
            process.stdin.close()
            assert process.stdout is not None
            process.stdout.close()

    def _compile(self, source: str) -> Compiled:
        check_size(source)
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, source)
            answer = _read(process.stdout)
        except (OSError, EOFError, ValueError) as e:
            raise ScriptError(f"the compiler process ended: {e}") from e
        if isinstance(answer, ScriptError):
            raise answer
        name, secondary, code, lines, names = answer
        return Compiled(name, secondary, marshal.loads(code), array("i", lines), names)

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
            answer = (made.name, made.secondary, marshal.dumps(made.code), bytes(array("i", made.lines)), made.globals)
        except ScriptError as e:
            answer = e
        except Exception as e:  # a fault of the compiler must reach the program's log, not end the compiler
            answer = ScriptError(f"the compiler failed: {type(e).__name__}: {e}")
        _write(answers, answer)


if __name__ == "__main__":
    os.nice(5)
    _serve(sys.stdin.buffer, sys.stdout.buffer)
