"""A running bedside for tests: processes `sim` and `views` on an address and a shared-memory prefix of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from wardarm import config as configuration
from wardarm.sim import control, world_state
from wardarm.sim.pictures import Picture, PictureFeed

_CONFIG = """
schema = 1
simulated = true
[shm]
prefix = "{prefix}"
[camera]
source = "factory:wardarm.sim.d455:open_device"
[arm]
host = "{address}"
dh_a = [0, -0.425, -0.392, 0, 0, 0]
dh_d = [0.163, 0, 0, 0.134, 0.1, 0.1]
[gate]
output = "unix:/dev/shm/{prefix}pwm.sock"
[sim]
enabled = true
seed = 7
address = "{address}"
"""


@dataclass
class Bench:
    """`file` is the configuration; `ask` talks to the control port."""

    config: configuration.Config
    file: Path
    processes: dict[str, subprocess.Popen[bytes]]

    def ask(self, command: str, *words: Any, **fields: Any) -> dict[str, Any]:
        return control.ask(self.config.sim.address, self.config.sim.control_port, command, *words, **fields)

    def run_script(self, body: str, most_s: float = PATIENCE_S) -> dict[str, Any]:
        """Have the controller run a program; its state afterwards."""
        before = self.ask("state")["cycle"]
        with socket.create_connection((self.config.sim.address, 30002)) as s:
            s.sendall(f"def go():\n{body}\nend\n".encode())
            return self.until("state", lambda a: a["cycle"] > before + 100 and a["runtime"] == "STOPPED", most_s)

    def until(self, command: str, fits: Any, most_s: float = PATIENCE_S, **fields: Any) -> dict[str, Any]:
        """Ask until the answer fits."""
        end = time.monotonic() + most_s
        while True:
            answer = self.ask(command, **fields)
            if fits(answer):
                return answer
            assert time.monotonic() < end, f"{command}: after {most_s} s still {answer}"
            time.sleep(0.05)

    def gripper(self, line: str) -> str:
        address = (self.config.sim.address, self.config.arm.gripper_port)
        with socket.create_connection(address, timeout=PATIENCE_S) as s:
            s.sendall(line.encode() + b"\n")
            answer = b""
            while answer != b"ack" and not answer.endswith(b"\n"):  # "ack" ends with nothing
                answer += s.recv(64)
            return answer.decode().strip()

    def picture(self, name: str, after_ns: int = 0, most_s: float = PATIENCE_S) -> Picture:
        """A picture exposed after `after_ns`."""
        feed, end = PictureFeed(self.config.shm.prefix, name), time.monotonic() + most_s
        while time.monotonic() < end:
            picture = feed.next(0.5)
            if picture is not None and picture.stamp_ns > after_ns:
                return picture
        raise AssertionError(f"no picture of {name} in {most_s} s")


@contextmanager
def running(folder: Path) -> Iterator[Bench]:
    pid = os.getpid()
    file = folder / "bedside.toml"
    address = f"127.{60 + (pid >> 16) % 60}.{pid >> 8 & 255}.{pid & 255 or 1}"
    file.write_text(_CONFIG.format(prefix=f"tb{pid}_", address=address))
    config = configuration.load(file)
    processes = {
        name: subprocess.Popen([sys.executable, "-m", f"wardarm.sim.{name}", "--config", str(file)])
        for name in ("bedside", "views")
    }
    try:
        world_state.wait_for(config.shm.prefix, 60)
        yield Bench(config, file, processes)
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait(PATIENCE_S)
