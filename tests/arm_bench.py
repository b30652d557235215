"""A bench for arm: simulated controller, real gate, real arm, each a process; words, trajectories and commands from here.

`python arm_bench.py ADDRESS PWM_SOCKET Q...` is the controller: perfect joints, free fingers, and on its control port
one more command, `object OPENING` (what the fingers meet when they close; `none` takes it away).
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from patience import PATIENCE_S
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import (
    COMMAND,
    KNOT,
    TRAJECTORY,
    ArmState,
    BlockKind,
    CommandKind,
    HoldReason,
    ProcessId,
    RefusalReason,
    Source,
)

HERE = Path(__file__).parent
# TCP at about (0.30, 0, 0.42) m, tool-down, for the UR5e's nominal DH parameters
HOME_Q = np.array([2.678540, -2.057600, 1.700110, -1.213310, -1.570800, -2.033850])
WORD_DEADLINE_MS = 600  # the machine may stand still for a while, and no test is about that
STALE_S = 1.6
LIMIT_S = PATIENCE_S


def control(address: str, line: str) -> dict[str, Any]:
    """One command to the controller's control port."""
    with socket.create_connection((address, 30100), 10) as s, s.makefile("rw") as f:
        f.write(line + "\n")
        f.flush()
        answer: dict[str, Any] = json.loads(f.readline())
    assert "error" not in answer, answer
    return answer


def quintic_move(q0: npt.NDArray[np.float64], step: Sequence[float], duration_s: float, opening: float = 1.0) -> Any:
    """KNOT records, 50 ms apart: one minimum-jerk move from rest to rest."""
    count = round(duration_s / 0.05) + 1
    t = np.linspace(0, duration_s, count)
    u, by = (t / duration_s)[:, None], np.asarray(step, float)
    knots = np.zeros(count, KNOT)
    knots["t_s"] = t
    knots["q_rad"] = q0 + by * (10 * u**3 - 15 * u**4 + 6 * u**5)
    knots["qd_rad_s"] = by * (30 * u**2 - 60 * u**3 + 30 * u**4) / duration_s
    knots["qdd_rad_s2"] = by * (60 * u - 180 * u**2 + 120 * u**3) / duration_s**2
    knots["grip"] = opening
    return knots


def quintic_bridge(start: Sequence[npt.NDArray[np.float64]], q1: npt.NDArray[np.float64], duration_s: float) -> Any:
    """KNOT records of the quintic from (q, qd, qdd) to rest at `q1`."""
    q0, v0, a0 = start
    t1 = duration_s
    d = q1 - q0 - v0 * t1 - a0 * t1**2 / 2
    e, f = -v0 - a0 * t1, -a0
    c3 = (10 * d - 4 * e * t1 + f * t1**2 / 2) / t1**3
    c4 = (-15 * d + 7 * e * t1 - f * t1**2) / t1**4
    c5 = (6 * d - 3 * e * t1 + f * t1**2 / 2) / t1**5
    t = np.linspace(0, t1, round(t1 / 0.05) + 1)
    knots = np.zeros(len(t), KNOT)
    s = t[:, None]
    knots["t_s"] = t
    knots["q_rad"] = q0 + v0 * s + a0 / 2 * s**2 + c3 * s**3 + c4 * s**4 + c5 * s**5
    knots["qd_rad_s"] = v0 + a0 * s + 3 * c3 * s**2 + 4 * c4 * s**3 + 5 * c5 * s**4
    knots["qdd_rad_s2"] = a0 + 6 * c3 * s + 12 * c4 * s**2 + 20 * c5 * s**3
    knots["qd_rad_s"][-1], knots["qdd_rad_s2"][-1] = 0, 0
    knots["grip"] = 1.0
    return knots


@dataclass
class Speakers(threading.Thread):
    """The words of everybody else, every 20 ms."""

    prefix: str
    wrong: dict[ProcessId, tuple[HoldReason, str]] = field(default_factory=dict)
    silent: set[ProcessId] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self.ending = threading.Event()
        self.words = [OwnWord(p, self.prefix, 0.01) for p in (ProcessId.GUARD, ProcessId.API, ProcessId.EYE)]
        self.names = (ProcessId.GUARD, ProcessId.API, ProcessId.EYE)
        self.feeds: list[ring.Writer] = []  # blocks whose writer lives: postproc renews its beat between two answers

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.ending.wait(0.02):
            for name, word in zip(self.names, self.words, strict=True):
                if name not in self.silent:
                    reason = self.wrong.get(name)
                    word.say(reason is None, *(reason or ()))
            for feed in self.feeds:
                feed.beat()


class Bench:
    """Everything up around one arm. Use as a context manager."""

    def __init__(self, folder: Path, number: int, **arm: Any) -> None:
        self.prefix = f"ta{os.getpid()}_{number}_"
        # loopback addresses of this test process alone, so that benches run side by side
        self.address = f"127.{1 + os.getpid() % 120}.{os.getpid() // 120 % 250}.{1 + number}"
        with socket.create_server((self.address, 0)) as probe:
            port = probe.getsockname()[1]
        self.pwm = folder / "pwm.sock"
        self.file = folder / "wardarm.json"
        self.folder = folder
        self.settings = {
            "schema": 1, "simulated": True, "shm": {"prefix": self.prefix}, "sim": {"enabled": True},
            "gate": {"output": f"unix:{self.pwm}", "word_deadline_ms": WORD_DEADLINE_MS},
            "arm": {"host": self.address, "own_address": self.address, "trajectory_port": port, "chunk_stale_s": STALE_S, **arm},
        }  # fmt: skip
        self.file.write_text(json.dumps(self.settings))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for process in (ProcessId.GATE, ProcessId.ARM):
            ring.create(BlockKind.WORD, self.prefix, process)
        for kind in (BlockKind.ARM_STATUS, BlockKind.GATE_STATUS, BlockKind.COMMAND, BlockKind.TRAJECTORY):
            ring.create(kind, self.prefix)
        self.speakers = Speakers(self.prefix)
        self.trajectories = ring.Writer(BlockKind.TRAJECTORY, self.prefix)
        self.speakers.feeds.append(self.trajectories)
        self.commands = ring.Writer(BlockKind.COMMAND, self.prefix)
        self.reader = ring.Reader(BlockKind.ARM_STATUS, self.prefix)
        self.next_id = 100
        self.command_seq = 0

    def __enter__(self) -> Bench:
        self.start_controller()
        self.speakers.start()
        self.start("gate")
        self.start("arm")
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)
        self.speakers.ending.set()
        self.speakers.join()
        for file in Path("/dev/shm").glob(f"{self.prefix}*"):
            file.unlink()

    def start_controller(self) -> None:
        command = [sys.executable, str(HERE / "arm_bench.py"), self.address, str(self.pwm), *(str(v) for v in HOME_Q)]
        self.processes["controller"] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.until(self._answers)

    def _answers(self) -> bool:
        try:
            control(self.address, "state")
        except OSError:
            return False
        return True

    def start(self, name: str) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        command = [sys.executable, "-m", f"wardarm.{name}.main", "--config", str(self.file)]
        self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)
        log.close()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        self.processes[name].send_signal(number)
        self.processes[name].wait(PATIENCE_S)

    def say(self, line: str) -> dict[str, Any]:
        return control(self.address, line)

    # --- arm as others see it

    @property
    def status(self) -> Any:
        slot = self.reader.latest()
        return slot.data if slot is not None else np.zeros((), self.reader.payload)

    @property
    def state(self) -> ArmState:
        return ArmState(int(self.status["state"]))

    def holds(self) -> list[tuple[HoldReason, ProcessId]]:
        status = self.status
        return [
            (HoldReason(int(h["reason"])), ProcessId(int(h["writer"])))
            for h in status["holds"][: int(status["hold_count"])]
        ]

    def until(self, done: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        end = time.monotonic() + limit_s
        while not done():
            assert self.processes["controller"].poll() is None, "the simulated controller has ended"
            if time.monotonic() > end:
                logs = "\n".join(f"{f.name}: {f.read_text()[-1500:]}" for f in self.folder.glob("*.log"))
                status = self.status
                raise AssertionError(
                    f"not there after {limit_s} s: {self.state.name}, holds {self.holds()}, refused {status['refused_id']} "
                    f"({RefusalReason(int(status['refusal'])).name}), playing {status['playing_id']}\n{logs}"
                )
            time.sleep(0.005)

    def until_state(self, state: ArmState) -> None:
        self.until(lambda: self.state is state)

    def ready(self) -> None:
        self.until_state(ArmState.READY)

    def clear(self) -> None:
        """At rest, nothing held, player running: whatever an earlier test left is resumed."""

        def ready() -> bool:
            if self.state is ArmState.HELD:
                self.resume()
            return self.state is ArmState.READY

        self.until(ready)

    # --- what eye, postproc and api do

    def trajectory(
        self, knots: Any, *, join: tuple[int, float] = (0, 0.0), epoch: int | None = None, ramp_s: float = 0.34,
        source: Source = Source.SCRIPTED, payload_kg: float = 0.0,
    ) -> int:  # fmt: skip
        """Publish one as postproc would. Returns its id."""
        self.next_id += 1
        t: Any = np.zeros((), TRAJECTORY)
        t["id"], t["plan_epoch"] = self.next_id, self.status["plan_epoch"] if epoch is None else epoch
        t["join_trajectory_id"], t["join_path_s"] = join
        t["duration_s"], t["ramp_s"], t["source"], t["payload_kg"] = knots["t_s"][-1], ramp_s, source, payload_kg
        t["knot_count"] = len(knots)
        t["knots"][: len(knots)] = knots
        self.trajectories.publish(t)
        return self.next_id

    def move(self, step: Sequence[float], duration_s: float, **more: Any) -> int:
        """From where the arm stands."""
        return self.trajectory(quintic_move(np.array(self.status["target_q_rad"]), step, duration_s), **more)

    def refusal(self, trajectory_id: int) -> RefusalReason:
        self.until(lambda: int(self.status["refused_id"]) == trajectory_id)
        return RefusalReason(int(self.status["refusal"]))

    def finished(self, trajectory_id: int) -> None:
        self.until(lambda: int(self.status["finished_id"]) == trajectory_id)

    def moving_beyond(self, path_s: float) -> None:
        self.until(lambda: self.state is ArmState.RUNNING and float(self.status["path_s"]) > path_s)

    def command(self, kind: CommandKind, hold_seqs: Sequence[int] = ()) -> tuple[int, str]:
        """Say it and wait for the result: (0 = done, reason)."""
        self.command_seq += 1
        c: Any = np.zeros((), COMMAND)
        c["seq"], c["kind"], c["hold_count"], c["actor"] = self.command_seq, kind, len(hold_seqs), b"nurse"
        c["hold_seqs"][: len(hold_seqs)] = hold_seqs
        self.commands.publish(c)
        self.until(lambda: int(self.status["command_seq"]) == self.command_seq)
        status = self.status
        return int(status["command_result"]), ring.text(status["command_reason"])

    def resume(self) -> tuple[int, str]:
        status = self.status
        return self.command(CommandKind.RESUME, [int(h["seq"]) for h in status["holds"][: int(status["hold_count"])]])


def _controller(address: str, pwm: str, q: list[float]) -> None:
    from wardarm.sim.gripper import FreeFingers, GripperPort
    from wardarm.sim.plant import KinematicPlant
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.kinematics import DhParameters
    from wardarm.sim.ur_controller.modes import CYCLE_S
    from wardarm.sim.ur_controller.server import Server, run_realtime

    fingers = FreeFingers()

    def thing(opening: str) -> None:
        fingers.object_opening = None if opening == "none" else float(opening)

    sys.setswitchinterval(0.0005)
    controller = Controller(KinematicPlant(q), DhParameters(), (0, 0, 0.1558, 0, 0, -math.pi / 2), q=q)
    with Server(
        controller, address, pwm_path=pwm, services=[GripperPort(fingers)], commands={"object": thing}
    ) as server:
        run_realtime(controller, server, lambda: fingers.step(CYCLE_S), lambda: False)


if __name__ == "__main__":
    _controller(sys.argv[1], sys.argv[2], [float(v) for v in sys.argv[3:]])
