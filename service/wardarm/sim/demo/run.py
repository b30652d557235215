"""`wardarm demo`: the whole system on simulated devices, one sentence through gRPC, and the physics' verdict.

Starts `wardarm run` as a process of its own, asks as a client would, writes down what the controller did over RTDE,
stops everything, then judges: did the right piece get lifted and set down within reach, and did anything cross a
limit. `summary.json` holds the figures, `demo.mp4`, `demo.png` and `trajectory.png` show it.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from wardarm import config as configuration
from wardarm.client import Client, Refused
from wardarm.config import Config
from wardarm.ops import limits
from wardarm.shm import ring
from wardarm.sim import scenes
from wardarm.sim.control import ControlError, ask
from wardarm.sim.demo import asking, report
from wardarm.sim.demo.attendant import Attendant
from wardarm.sim.demo.staging import NoSuchScene, meant, stage
from wardarm.sim.demo.witness import Seen, Witness

START_DEADLINE_S = 120.0
TASK_DEADLINE_S = 180.0
STOP_DEADLINE_S = 40.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_systems = itertools.count(1)  # of this process: each has shared-memory names of its own
_PORTS = (29999, 30003, 30004, 63352, 30100, 8001, 50051)


class DemoFailed(RuntimeError):
    """The demonstration could not be carried out; the text says what was missing."""


@dataclass
class Result:
    """Everything that a run left behind; `report` turns it into a table and `summary.json`."""

    instruction: str
    seed: int
    config: Config
    out: Path
    scene: scenes.Scene | None = None
    target: scenes.SceneObject | None = None
    task: asking.Outcome | None = None
    seen: Seen = field(default_factory=Seen)
    world: dict[str, Any] = field(default_factory=dict)
    processes: dict[str, Any] = field(default_factory=dict)
    ratios: limits.Ratios | None = None
    gaps: int = 0
    start_ns: int = 0
    end_ns: int = 0
    start_s: float = 0.0
    reason: str = ""


def free_address() -> str:
    """A loopback address on which none of our ports is taken, so that several systems can run side by side.

    Not 127.0.0.1: ur_rtde skips its remote-control check there.
    """
    start = 2 + os.getpid() % 200
    for k in range(200):
        address = f"127.0.0.{2 + (start + k) % 250}"
        with contextlib.ExitStack() as stack:
            try:
                for port in _PORTS:
                    s = stack.enter_context(socket.socket())
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind((address, port))
            except OSError:
                continue
        return address
    raise DemoFailed("no loopback address with free ports; end the other systems first")


def desk_config(out: Path, seed: int, scene_file: Path, base: str = "desk") -> Config:
    """The desk's configuration for one run of its own: address, shared-memory names and folders."""
    address = free_address()
    run_dir = (out / "run").resolve()
    return configuration.load(
        base,
        {
            "shm.prefix": f"demo{os.getpid()}n{next(_systems)}_",
            "arm.host": address,
            "arm.own_address": address,
            "sim.address": address,
            "sim.seed": seed,
            "sim.scene": str(scene_file.resolve()),
            "sim.record": str(run_dir / "world.rec"),
            "triton.url": f"{address}:8001",
            "gate.output": f"unix:{run_dir}/pwm.sock",
            "api.address": f"{address}:50051",
            "api.stop_address": f"{address}:50052",
            "api.state_dir": str(run_dir / "state"),
        },
    )


def _ends_with(parent: int) -> Callable[[], None]:
    """For the child: SIGTERM when the parent dies, however it does. The thread that starts it counts as the parent."""
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class System:
    """`wardarm run` as a child. Leaves no process behind: a killed parent's system comes to rest and ends by itself."""

    def __init__(self, config: Config, run_dir: Path) -> None:
        self.run_dir, self.prefix, self._api = run_dir, config.shm.prefix, config.api
        self.resumed: list[str] = []  # what was late while it started, once each time
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.mkdir(parents=True)
        file = run_dir / "demo.json"
        configuration.dump(config, file)
        log = (run_dir / "supervisor.log").open("wb")
        command = [sys.executable, "-m", "wardarm.cli", "run", "--config", str(file), "--run-dir", str(run_dir)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=_ends_with(os.getpid())
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.run_dir / "status.json").read_text())
            return found
        return {}

    def wait_ready(self, deadline_s: float = START_DEADLINE_S) -> Iterator[list[str]]:
        """Yields what is still waited for until all is up; resumes what was late meanwhile. Raises DemoFailed."""
        end = time.monotonic() + deadline_s
        with (
            Client(self._api.address, self._api.stop_address, name="start") as client,
            Attendant(client, self.resumed.append),
        ):
            while not (status := self.status()).get("ready"):
                if self.process.poll() is not None:
                    raise DemoFailed(f"the system ended while starting; see {self.run_dir}/*.log")
                if time.monotonic() > end:
                    raise DemoFailed(f"not ready after {deadline_s:.0f} s: {'; '.join(status.get('waiting_for', []))}")
                yield status.get("waiting_for", [])
                time.sleep(0.25)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for block in ring.SHM.glob(f"{self.prefix}*"):  # names of this run alone
            block.unlink(missing_ok=True)


def demo(
    instruction: str,
    seed: int,
    out: Path,
    film: bool = True,
    as_json: bool = False,
    scene_file: Path | None = None,
    absent: bool = False,
) -> int:
    """Run it. Returns the exit status: 0 only if the physics says so and nothing crossed a limit."""
    console = Console(stderr=as_json)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("summary.json", "demo.mp4", "demo.png", "trajectory.png"):
        (out / name).unlink(missing_ok=True)
    try:
        scene, target = choose_scene(instruction, seed, scene_file, absent)
    except (NoSuchScene, scenes.SceneError) as e:
        console.print(f"[red]{e}[/]", highlight=False)
        return 2
    scenes.save(scene, out / "scene.json")
    result = Result(instruction, seed, desk_config(out, seed, out / "scene.json"), out, scene, target)
    try:
        carry_out(result, console)
    except (DemoFailed, Refused, ControlError) as e:
        result.reason = str(e)
    if result.start_ns:
        judge_motion(result)
    summary = report.summary(result)
    (out / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", "utf-8")
    report.table(result, summary, console)
    if film and result.start_ns:
        report.pictures(result, summary, console)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    return 0 if summary["success"] else 1


def choose_scene(
    instruction: str, seed: int, scene_file: Path | None, absent: bool
) -> tuple[scenes.Scene, scenes.SceneObject | None]:
    """The scene of a run and the piece that the sentence means in it."""
    named = asking.named(instruction)
    if scene_file is not None:
        scene = scenes.load(scene_file)
        return scene, meant(scene, named)
    return stage(named, seed, absent)


def carry_out(result: Result, console: Console) -> None:
    """Start, ask, wait, stop; fills in everything that the run leaves."""
    run_dir = result.out / "run"
    began = time.monotonic()
    system = System(result.config, run_dir)
    recorder: subprocess.Popen[bytes] | None = None
    witness: Witness | None = None
    try:
        with console.status("starting") as line:
            for waiting in system.wait_ready():
                line.update("starting; " + "; ".join(waiting[:4]))
        result.start_s = time.monotonic() - began
        recorder = subprocess.Popen(
            [sys.executable, "-m", "wardarm.ops.rtde_log", "--host", result.config.arm.host, "--out", str(run_dir / "rtde.npy")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        witness = Witness(result.config.shm.prefix)
        time.sleep(0.3)
        result.start_ns = time.monotonic_ns()
        result.task = asking.say(result.config, result.instruction, TASK_DEADLINE_S, console)
        result.task.resumed[:0] = system.resumed
        time.sleep(0.5)
        result.world = ask(result.config.sim.address, result.config.sim.control_port, "report")
    finally:
        result.end_ns = time.monotonic_ns()
        if witness is not None:
            result.seen = witness.stop()
        if recorder is not None:
            recorder.terminate()
            recorder.wait(20)
        result.processes = system.status().get("processes", {})
        system.stop()


def judge_motion(result: Result) -> None:
    """Largest value / limit of the recorded target motion."""
    file = result.out / "run" / "rtde.npy"
    if not file.exists():
        return
    samples = np.load(file)
    if len(samples) < 10:
        return
    moved = limits.motion(samples, result.config.arm)
    result.ratios, result.gaps = limits.ratios(moved, result.config.limits), moved.gaps
