"""`wardarm bench sim`: how fast the simulated controller is, and whether lock-step runs repeat themselves to the bit.

Lock-step: controller cycles a second of processor time while the player plays, on perfect joints and on the MuJoCo
bedside, and whether two runs here and one in a process of its own have the same digest. Real time: the share of one
core that `wardarm sim ur` takes at 500 Hz while the player plays and a client reads RTDE at 500 Hz, in several windows;
`sim_rate` 1 says that it kept up. Processor seconds of a shared machine vary with its neighbours: `loops_per_s` is what a
simulated second costs in runs of a fixed pure-Python loop, timed between the windows; it can be compared between machines.

    python -m wardarm.ops.bench_sim --json [--seconds 10]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from wardarm.arm.player import PlayerParameters, script
from wardarm.arm.wire import encode_trajectory
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.ur_controller.modes import CYCLE_S

LOADED, RUNNING = 1, 2
MOVE = np.array([0.2, 0.1, -0.1, 0.1, 0.0, 0.1])
KNOT_S, KNOTS = 0.05, 100
_ADDRESS_TRIES = 20
WINDOWS = 5
LOOP_ROUNDS = 1_000_000
_LOOK_S = 0.1


def trajectory(start: Any, id: int) -> bytes:
    """There and back in 100 knots, minimum jerk."""
    rows = []
    half_s = KNOT_S * (KNOTS - 1) / 2
    for i in range(KNOTS):
        t = i * KNOT_S
        back = t > half_s
        u = (t - half_s if back else t) / half_s
        sign, base = (-1, start + MOVE) if back else (1, start)
        s, v, a = u**3 * (10 - 15 * u + 6 * u * u), 30 * u * u * (1 - u) ** 2, 60 * u * (1 - u) * (1 - 2 * u)
        rows.append(
            [
                t,
                *(base + sign * MOVE * s),
                *(sign * MOVE * v / half_s),
                *(sign * MOVE * a / half_s**2),
                1.0,
            ]
        )
    knots = np.array(rows)
    return encode_trajectory(id, 0, 0.0, 0.3, float(knots[-1, 0]), 0.0, knots)[0]


def play(sim: Lockstep) -> tuple[float, int]:
    """Play one trajectory: processor seconds and cycles of the motion."""
    sim.load_player()
    sim.send(trajectory(sim.target_q_rad, 1))
    sim.until(lambda s: s.int_register(12) == LOADED)
    sim.permit(True)
    sim.until(lambda s: s.int_register(12) == RUNNING)
    began, cycle = time.process_time(), sim.cycle
    sim.until(lambda s: s.int_register(12) != RUNNING)
    return time.process_time() - began, sim.cycle - cycle


def lockstep(bedside: bool) -> dict[str, Any]:
    digests, rate = [], 0.0
    for _ in range(2):
        with Lockstep.bedside(seed=7) if bedside else Lockstep(seed=7) as sim:
            seconds, cycles = play(sim)
            rate = max(rate, cycles / seconds)
            digests.append(sim.digest())
    code = "from wardarm.ops.bench_sim import play, Lockstep\n" + (
        "sim = Lockstep.bedside(seed=7)" if bedside else "sim = Lockstep(seed=7)"
    )
    other = subprocess.run(
        [sys.executable, "-c", code + "\nplay(sim)\nprint(sim.digest())"], capture_output=True, text=True, check=True
    )
    return {
        "cycles_per_s": round(rate),
        "times_real_time": round(rate * CYCLE_S, 1),
        "two_runs_equal": digests[0] == digests[1],
        "two_processes_equal": digests[0] == other.stdout.split()[-1],
    }


def loop_s() -> float:
    """Processor time of a fixed pure-Python loop: what this machine gives a second of now."""
    began, x = time.thread_time(), 0.0
    for i in range(LOOP_ROUNDS):
        x += i * 0.5
    return time.thread_time() - began


def _p50_max(values: Sequence[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(values), 3), "max": round(max(values), 3)}


class _RealTime:
    """`wardarm sim ur` in a process of its own, with this process in arm's and gate's place."""

    def __init__(self) -> None:
        for i in range(_ADDRESS_TRIES):
            self.address = f"127.{90 + os.getpid() // 250 % 100}.{os.getpid() % 250}.{2 + i}"
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wardarm.sim.ur_controller", "--address", self.address],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert self.process.stdout is not None
            if self.address in self.process.stdout.readline():
                break
        else:
            raise RuntimeError("no free loopback address for a simulated controller")
        self.control = socket.create_connection((self.address, 30100), timeout=10)
        self.answers = self.control.makefile("r")
        self.arm = socket.create_server((self.address, 0))
        self.reader = _Rtde(self.address)
        self.beating = True
        self.beater = threading.Thread(target=self._beat, daemon=True)
        self.ask("inject power on")

    def ask(self, command: str) -> dict[str, Any]:
        self.control.sendall(command.encode() + b"\n")
        answer: dict[str, Any] = json.loads(self.answers.readline())
        return answer

    def _beat(self) -> None:
        beat = 0
        while self.beating:
            beat += 1
            self.reader.write(beat)
            time.sleep(0.02)

    def play(self, seconds: float) -> dict[str, Any]:
        parameters = PlayerParameters(self.address, self.arm.getsockname()[1], gripper_host=self.address)
        with socket.create_connection((self.address, 30002)) as link:
            link.sendall(script(parameters).encode())
        self.arm.settimeout(20)
        player, _ = self.arm.accept()
        self.beater.start()
        self.ask("pwm 8 on")
        id, windows, loops = 0, [], [loop_s()]
        for _ in range(WINDOWS):
            began, cpu, first = time.monotonic(), self._cpu_s(), self.ask("state")["cycle"]
            while time.monotonic() - began < seconds / WINDOWS:
                state = self.ask("state")
                if state["output_ints"][0] == 0 and state["output_ints"][2] == id:
                    id += 1
                    player.sendall(trajectory(np.array(state["target_q"]), id))
                time.sleep(_LOOK_S)
            state, passed, cpu = self.ask("state"), time.monotonic() - began, self._cpu_s() - cpu
            windows.append((cpu / passed, (state["cycle"] - first) * CYCLE_S / passed))
            loops.append(loop_s())
        player.close()
        shares = [share for share, _ in windows]
        in_loops = [share / rate / (a + b) * 2 for (share, rate), a, b in zip(windows, loops, loops[1:], strict=False)]
        return {
            "core_share": _p50_max(shares),
            "loops_per_s": _p50_max(in_loops),
            "loop_ms": _p50_max([s * 1e3 for s in loops]),
            "sim_rate": round(min(rate for _, rate in windows), 4),
            "trajectories": id,
            "rtde_packets": self.reader.packets,
            "last_error": state["last_error"],
        }

    def _cpu_s(self) -> float:
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.beating = False
        self.reader.close()
        self.answers.close()
        self.control.close()
        self.arm.close()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


class _Rtde:
    """A client that reads 500 packets a second and writes gate's beat and a motion request."""

    def __init__(self, address: str) -> None:
        self.link = socket.create_connection((address, 30004), timeout=10)
        self.stream = self.link.makefile("rb")
        self.packets = 0
        self._ask("V", struct.pack(">H", 2))
        self._ask("O", struct.pack(">d", 500.0) + b"timestamp,actual_q,target_q,actual_qd,robot_mode,safety_mode")
        self._recipe = self._ask("I", b"input_int_register_18,input_int_register_19")[0]
        self._ask("S", b"")
        self._done = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _ask(self, kind: str, payload: bytes) -> bytes:
        self.link.sendall(struct.pack(">HB", 3 + len(payload), ord(kind)) + payload)
        size, _ = struct.unpack(">HB", self.stream.read(3))
        return self.stream.read(size - 3)

    def _read(self) -> None:
        with contextlib.suppress(ConnectionResetError):  # the simulator ends first
            while not self._done and len(head := self.stream.read(3)) == 3:
                self.stream.read(struct.unpack(">H", head[:2])[0] - 3)
                self.packets += 1

    def write(self, beat: int) -> None:
        self.link.sendall(struct.pack(">HBBii", 12, ord("U"), self._recipe, beat, 1))

    def close(self) -> None:
        self._done = True
        self.link.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self.link.close()


def run(seconds: float) -> dict[str, Any]:
    """The object of `wardarm bench sim --json`."""
    figures: dict[str, Any] = {"lockstep": lockstep(False), "lockstep_bedside": lockstep(True)}
    bench = _RealTime()
    try:
        figures["real_time"] = bench.play(seconds)
    finally:
        bench.close()
    figures["load_average"] = round(os.getloadavg()[0], 2)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm bench sim", description="figures of the simulated controller")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the real-time part plays")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = run(args.seconds)
    if args.json:
        print(json.dumps(figures))
        return
    table = Table(title="simulated controller", show_header=False)
    for key, value in figures.items():
        table.add_row(key, json.dumps(value))
    Console().print(table, highlight=False)


if __name__ == "__main__":
    main()
