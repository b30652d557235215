"""What can befall the system: each fault is applied at once, and taken back once the arm stands."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable

from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId
from wardarm.sim.control import ControlError
from wardarm.sim.matrix.bed import Bed
from wardarm.sim.matrix.cells import PROCESSES, Cell

_LIE_S, _SLOW_S = 0.6, 1.2
_BLOCKS: dict[str, tuple[BlockKind, ProcessId | None]] = {
    "gate": (BlockKind.GATE_STATUS, None),
    "arm": (BlockKind.ARM_STATUS, None),
    "guard": (BlockKind.WORD, ProcessId.GUARD),
    "api": (BlockKind.WORD, ProcessId.API),
    "eye": (BlockKind.RAW_CHUNK, None),
    "postproc": (BlockKind.TRAJECTORY, None),
    "alert": (BlockKind.WORD, ProcessId.API),
}
Undo = Callable[[], None]


def prepare(bed: Bed, cell: Cell) -> Callable[[], Undo]:
    """Looks up everything beforehand; what it returns applies the fault and returns how it is taken back."""
    if cell.target in PROCESSES:
        if cell.action == "lie":
            kind, process = _BLOCKS[cell.target]
            path = ring.block_path(kind, bed.config.shm.prefix, process)
            return lambda: _noise(str(path), random.Random(cell.key))
        pids = bed.pids(cell.target)
        return {"kill": lambda: _kill(pids), "stop": lambda: _freeze(pids), "slow": lambda: _stutter(pids)}[cell.action]
    return lambda: _device(bed, cell)


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _kill(pids: list[int]) -> Undo:
    _send(pids, signal.SIGKILL)
    return lambda: None


def _freeze(pids: list[int]) -> Undo:
    _send(pids, signal.SIGSTOP)
    return lambda: _send(pids, signal.SIGCONT)


def _stutter(pids: list[int]) -> Undo:
    """80 ms of standing still, 20 ms of running, in turn."""
    ended = threading.Event()

    def run() -> None:
        end = time.monotonic() + _SLOW_S
        while time.monotonic() < end and not ended.is_set():
            _send(pids, signal.SIGSTOP)
            time.sleep(0.08)
            _send(pids, signal.SIGCONT)
            time.sleep(0.02)

    thread = threading.Thread(target=run)
    thread.start()

    def undo() -> None:
        ended.set()
        thread.join()
        _send(pids, signal.SIGCONT)

    return undo


def _noise(path: str, rng: random.Random) -> Undo:
    """Random bytes over the block's slots (not its header), again and again: torn, foreign, impossible."""
    ended = threading.Event()

    def run() -> None:
        end = time.monotonic() + _LIE_S
        size = os.stat(path).st_size
        fd = os.open(path, os.O_WRONLY)
        try:
            while time.monotonic() < end and not ended.is_set():
                for at in range(192, size - 64, 512):
                    os.pwrite(fd, rng.randbytes(8), at + rng.randrange(64))
                time.sleep(0.002)
        finally:
            os.close(fd)

    thread = threading.Thread(target=run)
    thread.start()

    def undo() -> None:
        ended.set()
        thread.join()

    return undo


def _device(bed: Bed, cell: Cell) -> Undo:
    target = cell.target
    if target == "pause":
        bed.client.pause("matrix")
    elif target == "stop":
        bed.client.stop("matrix")
    elif target == "lease":
        lease, bed.lease = bed.owned(), None
        lease.close()
    elif target == "visitor":
        bed.sim("visitor", to="table", at_once=True)
        return lambda: _quietly(lambda: bed.sim("visitor", to="away", speed_m_s=3.0))
    elif target in ("room_camera", "d455"):
        name = "d455" if target == "d455" else bed.config.guard.cameras[0].name
        bed.sim("blackout", camera=name, on=True)
        return lambda: _quietly(lambda: bed.sim("blackout", camera=name, on=False))
    elif target in ("rtde", "dashboard", "script"):
        bed.sim("inject", "drop", target)
    elif target == "controller":
        bed.sim("inject", "freeze", 0.4)
    elif target in ("protective", "gripper", "pendant"):
        return _single(bed, target)
    elif target in ("safeguard", "estop"):
        bed.sim("inject", target, "on")
        return lambda: _quietly(lambda: bed.sim("inject", target, "off"))
    elif target == "pwm":
        return _pwm(bed, cell.action)
    return lambda: None


def _single(bed: Bed, target: str) -> Undo:
    if target == "protective":
        bed.sim("inject", "protective")
    elif target == "pendant":
        with socket.create_connection((bed.config.arm.host, 29999), timeout=2) as s:
            s.recv(200)
            s.sendall(b"stop\n")
            s.recv(200)
    else:
        bed.sim("inject", "refuse", "other", "on")
        bed.sim("inject", "drop", "other")
        return lambda: _quietly(lambda: bed.sim("inject", "refuse", "other", "off"))
    return lambda: None


def _pwm(bed: Bed, action: str) -> Undo:
    """The wire: another frequency (lie), or no pulses (stop), said over gate's own."""
    pin = bed.config.arm.encoder_pins[0]
    ended = threading.Event()
    frequency_hz = 400.0 if action == "lie" else 1.0

    def run() -> None:
        end = time.monotonic() + _LIE_S
        while time.monotonic() < end and not ended.is_set():
            with contextlib.suppress(ControlError):
                bed.sim("pwm", pin, "on", frequency_hz, 50.0)
            time.sleep(0.005)
        with contextlib.suppress(ControlError):
            bed.sim("pwm", pin, "off")

    thread = threading.Thread(target=run)
    thread.start()

    def undo() -> None:
        ended.set()
        thread.join()

    return undo


def _quietly(action: Callable[[], object]) -> None:
    with contextlib.suppress(ControlError):
        action()
