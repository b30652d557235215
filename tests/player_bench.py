"""The player on a simulated controller, with the test in arm's place: its socket, its registers, gate's pulses."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import rtde_io
from ur_bench import Recording, Robot, robot
from wardarm.arm.player import PlayerParameters, script
from wardarm.arm.wire import encode_discard, encode_trajectory

IDLE, LOADED, RUNNING, RAMPING, HELD, ENDED = range(6)
RAMP_S = 0.3
HOME = np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])


def law(start: np.ndarray, move: np.ndarray, duration_s: float) -> Any:
    """A rest-to-rest move: functions of time that give (q, qd, qdd) of six joints (minimum jerk)."""

    def at(t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        u = min(max(t / duration_s, 0.0), 1.0)
        s = u**3 * (10 - 15 * u + 6 * u * u)
        v = 30 * u * u * (1 - u) ** 2 / duration_s
        a = 60 * u * (1 - u) * (1 - 2 * u) / duration_s**2
        return start + move * s, move * v, move * a

    return at


def knots_of(at: Any, duration_s: float, begin_s: float = 0.0, grip: Any = 1.0, step_s: float = 0.05) -> np.ndarray:
    """(N, 20) knots of a law from `begin_s` on; `grip`: a number or a function of knot time."""
    count = round((duration_s - begin_s) / step_s) + 1
    rows = []
    for i in range(count):
        t = i * step_s
        q, qd, qdd = at(begin_s + t)
        rows.append([t, *q, *qd, *qdd, grip(t) if callable(grip) else grip])
    return np.array(rows)


class Bench:
    """arm's side. `beat` runs by itself every 20 ms until `beating` is off."""

    def __init__(self, controller: Robot, **changes: Any) -> None:
        self.robot = controller
        self.server = socket.create_server((controller.address, 0))
        self.server.settimeout(10)
        self.parameters = PlayerParameters(
            controller.address, self.server.getsockname()[1], gripper_host=controller.address, **changes
        )
        self.recording = Recording(controller.address)
        self.io = rtde_io.RTDEIOInterface(controller.address)
        self.beating = True
        self.closing = False
        self._beat = threading.Thread(target=self._beats, daemon=True)
        self.io.setInputIntRegister(19, 1)
        self._beat.start()
        controller.run(script(self.parameters))
        self.link, _ = self.server.accept()
        controller.wait("idle", lambda s: s["runtime"] == "PLAYING" and s["output_ints"][6] > 5)

    def _beats(self) -> None:
        beat = 0
        while not self.closing:
            if self.beating:
                beat += 1
                self.io.setInputIntRegister(18, beat)
            time.sleep(0.02)

    def pwm(self, on: bool) -> None:
        self.robot.ask(f"pwm 8 {'on' if on else 'off'}")

    def send(
        self, id: int, knots: np.ndarray, join_id: int = 0, join_path_s: float = 0.0, payload_kg: float = 0.0
    ) -> None:
        message, _ = encode_trajectory(id, join_id, join_path_s, RAMP_S, float(knots[-1, 0]), payload_kg, knots)
        self.link.sendall(message)

    def discard(self) -> None:
        self.link.sendall(encode_discard())

    def register(self, number: int) -> int:
        return int(self.robot.state()["output_ints"][number - 12])

    def until(self, number: int, value: int, timeout_s: float = 60.0) -> dict[str, Any]:
        return self.robot.wait(
            f"register {number} = {value}", lambda s: s["output_ints"][number - 12] == value, timeout_s
        )

    def until_path(self, path_s: float) -> None:
        self.robot.wait(f"path time {path_s}", lambda s: s["output_doubles"][0] >= path_s)

    def close(self) -> None:
        self.closing = True
        self._beat.join()
        self.io.disconnect()
        self.link.close()
        self.server.close()


@contextmanager
def bench(*arguments: str, **changes: Any) -> Iterator[Bench]:
    with robot("--reads-per-cycle", "1", *arguments) as controller:  # the slowest case
        ours = Bench(controller, **changes)
        try:
            yield ours
        finally:
            ours.close()


def column(rows: np.ndarray, number: int) -> np.ndarray:
    return rows[f"output_int_register_{number}"]
