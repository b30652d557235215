"""A simulated controller in a process of its own, for tests: start it, ask it, record every cycle of it."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SERVICE = Path(__file__).resolve().parents[1] / "service"
_next_host = 0


def free_address() -> str:
    """A loopback address of this test's own, so that fixed ports do not clash."""
    global _next_host
    _next_host += 1
    number = os.getpid() * 16 + _next_host
    return f"127.{1 + number // 62500 % 250}.{number // 250 % 250}.{2 + number % 250}"


class Robot:
    """A running `wardarm sim ur`."""

    def __init__(self, *arguments: str, address: str | None = None) -> None:
        self.address = address or free_address()
        environment = {**os.environ, "PYTHONPATH": str(SERVICE)}
        command = [sys.executable, "-m", "wardarm.sim.ur_controller", "--address", self.address, *arguments]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert self.address in line, f"the simulated controller did not start: {line!r}"
        self.control = socket.create_connection((self.address, 30100), timeout=60)
        self.answers = self.control.makefile("r")

    def ask(self, command: str) -> dict[str, Any]:
        self.control.sendall(command.encode() + b"\n")
        answer = json.loads(self.answers.readline())
        assert "error" not in answer, f"{command}: {answer['error']}"
        return answer

    def state(self) -> dict[str, Any]:
        return self.ask("state")

    def log(self) -> list[str]:
        return [text for _, text in self.ask("log 1000")["log"]]

    def run(self, script: str) -> None:
        """Send a program to the script port."""
        with socket.create_connection((self.address, 30002)) as link:
            link.sendall(script.encode())
            link.shutdown(socket.SHUT_WR)
            while link.recv(65536):  # hanging up with the stream unread would cut off what is still on its way
                pass

    def wait(self, what: str, condition: Any, timeout_s: float = 60.0) -> dict[str, Any]:
        """Until `condition(state)`; the timeout is wall time and only for a robot that never gets there."""
        end = time.monotonic() + timeout_s
        while True:
            state = self.state()
            if condition(state):
                return state
            assert time.monotonic() < end, f"{what} never came; {state}; log {self.log()[-8:]}"
            time.sleep(0.005)

    def close(self) -> None:
        self.answers.close()
        self.control.close()
        self.process.terminate()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def robot(*arguments: str, address: str | None = None) -> Iterator[Robot]:
    running = Robot(*arguments, address=address)
    try:
        yield running
    finally:
        running.close()


class Recording:
    """Every 2 ms cycle of some RTDE fields, read by a client that is not ur_rtde."""

    FIELDS = (
        ("timestamp", "d", 1), ("target_q", "d", 6), ("target_qd", "d", 6), ("actual_q", "d", 6), ("actual_qd", "d", 6),
        *((f"output_int_register_{i}", "i", 1) for i in range(12, 20)),
        *((f"output_double_register_{i}", "d", 1) for i in range(12, 18)),
        ("safety_mode", "i", 1), ("runtime_state", "I", 1), ("speed_scaling", "d", 1),
    )  # fmt: skip

    def __init__(self, address: str) -> None:
        self.link = socket.create_connection((address, 30004), timeout=60)
        self.stream = self.link.makefile("rb")
        self._ask("V", struct.pack(">H", 2))
        names = ",".join(name for name, _, _ in self.FIELDS)
        answer = self._ask("O", struct.pack(">d", 500.0) + names.encode())
        assert b"NOT_FOUND" not in answer, answer
        self._ask("S", b"")
        self.rows: list[bytes] = []
        self.done = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _ask(self, kind: str, payload: bytes) -> bytes:
        self.link.sendall(struct.pack(">HB", 3 + len(payload), ord(kind)) + payload)
        size, _ = struct.unpack(">HB", self.stream.read(3))
        return self.stream.read(size - 3)

    def _read(self) -> None:
        while not self.done:
            head = self.stream.read(3)
            if len(head) < 3:
                return
            size, kind = struct.unpack(">HB", head)
            body = self.stream.read(size - 3)
            if kind == ord("U"):
                self.rows.append(body[1:])

    def stop(self) -> np.ndarray:
        """All cycles so far, one record each."""
        self.done = True
        self.thread.join(60)
        self.link.close()
        dtype = np.dtype(
            [
                (n, f">{'f8' if c == 'd' else 'i4' if c == 'i' else 'u4'}", (k,) if k > 1 else ())
                for n, c, k in self.FIELDS
            ]
        )
        return np.frombuffer(b"".join(self.rows), dtype)
