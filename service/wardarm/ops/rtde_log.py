"""Writes down what the controller did: every RTDE sample of one robot, at 500 Hz, into a numpy file.

A witness apart from the planner, the player and ur_rtde: its own small client of the RTDE protocol (version 2,
universal-robots.com "Real-Time Data Exchange guide"), output only. `limits.py` judges what it wrote.

    python -m wardarm.ops.rtde_log --host 127.0.0.1 --out FILE.npy      (until SIGTERM)

Errors: `RtdeRefused` names the field or the step that the controller refused.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

PORT = 30004
FIELDS = (
    ("timestamp", "d", 1), ("target_q", "d", 6), ("target_qd", "d", 6), ("actual_q", "d", 6), ("actual_qd", "d", 6),
    ("speed_scaling", "d", 1), ("safety_mode", "i", 1), ("runtime_state", "I", 1),
    ("output_int_register_12", "i", 1), ("output_int_register_13", "i", 1),
    ("output_double_register_12", "d", 1), ("output_double_register_13", "d", 1),
)  # fmt: skip
SAMPLE = np.dtype(
    [(n, ">f8" if c == "d" else f">{c}4" if c != "I" else ">u4", (k,) if k > 1 else ()) for n, c, k in FIELDS]
)


class RtdeRefused(RuntimeError):
    """The controller refused a step of the handshake."""


class RtdeLog:
    """One connection; `samples` holds the raw packets of everything received since `start`."""

    def __init__(self, host: str, port: int = PORT, frequency_hz: float = 500.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=5)
        self.buffer = bytearray()
        self.samples: list[bytes] = []
        self.arrival_ns: list[int] = []
        if self._ask(b"V", struct.pack(">H", 2)) != b"\x01":
            raise RtdeRefused("protocol version 2 refused")
        names = ",".join(n for n, _, _ in FIELDS).encode()
        answer = self._ask(b"O", struct.pack(">d", frequency_hz) + names)
        types = answer[1:].decode().split(",")
        for (name, _, _), kind in zip(FIELDS, types, strict=True):
            if kind in ("NOT_FOUND", "IN_USE"):
                raise RtdeRefused(f"output {name}: {kind}")
        if self._ask(b"S", b"") != b"\x01":
            raise RtdeRefused("start refused")

    def _send(self, kind: bytes, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">Hc", 3 + len(payload), kind) + payload)

    def _packets(self) -> list[tuple[bytes, bytes]]:
        chunk = self.socket.recv(65536)
        if not chunk:
            raise ConnectionError("the controller closed the RTDE connection")
        self.buffer += chunk
        out = []
        while len(self.buffer) >= 3:
            size, kind = struct.unpack_from(">Hc", self.buffer)
            if len(self.buffer) < size:
                break
            out.append((kind, bytes(self.buffer[3:size])))
            del self.buffer[:size]
        return out

    def _ask(self, kind: bytes, payload: bytes) -> bytes:
        self._send(kind, payload)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            for got, body in self._packets():
                if got == kind:
                    return body
        raise RtdeRefused(f"no answer to {kind.decode()}")

    def receive(self) -> None:
        """Take what has arrived (blocks up to the socket's time-out)."""
        for kind, body in self._packets():
            if kind == b"U" and len(body) == 1 + SAMPLE.itemsize:
                self.samples.append(body[1:])
                self.arrival_ns.append(time.monotonic_ns())

    def array(self) -> np.ndarray[Any, Any]:
        """All samples, shape (N,), native byte order, plus `arrival_ns` (CLOCK_MONOTONIC)."""
        raw = np.frombuffer(b"".join(self.samples), SAMPLE)
        native = np.dtype([*((n, SAMPLE[n].newbyteorder("=")) for n in SAMPLE.names or ()), ("arrival_ns", "<i8")])
        out = np.zeros(len(raw), native)
        for name in SAMPLE.names or ():
            out[name] = raw[name]
        out["arrival_ns"] = self.arrival_ns
        return out


@contextlib.contextmanager
def recorded(host: str) -> Iterator[RtdeLog]:
    """A log that a thread of its own fills for the length of the block; complete when the block is left."""
    log = RtdeLog(host)
    log.socket.settimeout(0.2)
    over = threading.Event()

    def record() -> None:
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                log.receive()
            time.sleep(0.02)

    recorder = threading.Thread(target=record, daemon=True)
    recorder.start()
    try:
        yield log
    finally:
        over.set()
        recorder.join()
        log.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    running = True

    def stop(_signal: int, _frame: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    log = RtdeLog(args.host, args.port)
    log.socket.settimeout(0.2)
    print("recording", flush=True)
    try:
        while running:
            try:
                log.receive()
            except TimeoutError:
                continue
            time.sleep(0.02)  # several packets a turn: the stamps that matter are the controller's
    except ConnectionError:
        pass
    np.save(args.out, log.array())


if __name__ == "__main__":
    main()
