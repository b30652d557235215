"""The last lines, with the real supervisor and the real gate: whoever is killed, the PWM goes off and somebody says so."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_gate_process import DEADLINE_MS, LATE_S, Bench, running
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId

PROGRAM = Path(__file__).with_name("last_lines_program.py")
BUDGET = 3


class System(Bench):
    """A supervisor above gate, the words of the others from here."""

    run_dir: Path
    supervisor: subprocess.Popen[bytes]

    def status_file(self) -> dict[str, Any]:
        for _ in range(100):
            try:
                found: dict[str, Any] = json.loads((self.run_dir / "status.json").read_text())
                return found
            except (OSError, ValueError):
                time.sleep(0.01)
        return {}

    def pid(self, name: str) -> int:
        return int(self.status_file()["processes"][name]["pid"])

    def log(self) -> str:
        return (self.run_dir.parent / "supervisor.log").read_text()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    prefix, path = f"tll{os.getpid()}_", tmp_path / "pwm.sock"
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.bind(str(path))
    line.setblocking(False)
    config = tmp_path / "wardarm.json"
    settings = {
        "schema": 1, "shm": {"prefix": prefix}, "gate": {"output": f"unix:{path}", "word_deadline_ms": DEADLINE_MS},
        "supervisor": {"restart_budget": BUDGET}, "sim": {"enabled": False},
    }  # fmt: skip
    config.write_text(json.dumps(settings))
    words = {p: OwnWord(p, prefix, 0.02) for p in (ProcessId.ARM, ProcessId.GUARD, ProcessId.API)}
    made = System(prefix, config, line, words, ring.Writer(BlockKind.ARM_STATUS, prefix))
    made.run_dir = tmp_path / "run"
    with (tmp_path / "supervisor.log").open("wb") as log:
        made.supervisor = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(config), str(made.run_dir)], stdout=log, stderr=log
        )
    try:
        made.until(
            lambda: any(not m["on"] for m in made.heard) and "gate" in made.status_file().get("processes", {}), 30
        )
        made.until(lambda: ring.block_path(BlockKind.GATE_STATUS, prefix).exists() and _gate_speaks(made), 30)
        running(made)
        yield made
    finally:
        if made.supervisor.poll() is None:
            made.supervisor.kill()
        made.supervisor.wait(60)
        line.close()
        for file in ring.SHM.glob(f"*{prefix}*"):
            file.unlink()


def _gate_speaks(system: System) -> bool:
    slot = ring.Reader(BlockKind.GATE_STATUS, system.prefix).latest()
    return slot is not None and int(slot.data["missing"]) == 0


def child_of(pid: int) -> int:
    """gate's companion."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def off_after(system: System, moment_ns: int, limit_s: float) -> None:
    system.until(lambda: not system.on)
    assert (system.edges[-1].t_ns - moment_ns) * 1e-9 < limit_s


def gone(system: System, *pids: int) -> None:
    system.until(lambda: not any(ring.start_ticks(p) for p in pids))


def test_a_killed_supervisor_ends_its_children_and_the_companion_switches_off(system: System) -> None:
    gate, bystander = system.pid("gate"), system.pid("bystander")
    deadman = child_of(gate)
    system.supervisor.kill()
    off_after(system, time.monotonic_ns(), LATE_S)
    gone(system, gate, bystander, deadman)
    system.for_s(0.3)
    assert not system.on


def test_a_frozen_supervisor_leaves_gate_at_its_work_and_the_words_decide(system: System) -> None:
    """It only restarts: motion needs its word no more than systemd's, whose watchdog ends it."""
    system.supervisor.send_signal(signal.SIGSTOP)
    system.for_s(0.5)
    assert system.on
    system.ok[ProcessId.GUARD] = False
    off_after(system, time.monotonic_ns(), LATE_S)
    system.supervisor.send_signal(signal.SIGCONT)


def test_gate_and_its_companion_killed_together_the_supervisor_switches_off(system: System) -> None:
    gate = system.pid("gate")
    deadman = child_of(gate)
    os.kill(deadman, signal.SIGSTOP)  # a companion that cannot act any more
    os.kill(gate, signal.SIGKILL)
    off_after(system, time.monotonic_ns(), LATE_S)
    os.kill(deadman, signal.SIGKILL)
    system.until(lambda: system.pid("gate") != gate)
    system.for_s(0.5)
    assert not system.on  # the new gate does not serve the old request


def test_a_spent_restart_budget_ends_at_rest_with_the_pwm_off_and_says_so(system: System) -> None:
    gate = system.pid("gate")
    for n in range(BUDGET):
        bystander = system.pid("bystander")
        assert system.on, "a bystander's death is not gate's"
        killed_ns = time.monotonic_ns()
        os.kill(bystander, signal.SIGKILL)
        if n < BUDGET - 1:
            system.until(lambda old=bystander: system.pid("bystander") != old)  # type: ignore[misc]
    off_after(system, killed_ns, LATE_S)
    assert system.supervisor.wait(60) == 1  # systemd's Restart=on-failure, and after five of those OnFailure
    gone(system, gate)
    status = system.status_file()
    said = f"bystander died {BUDGET} times in 60 s (last exit -9)"
    assert said in status["ended"]
    assert not status["ready"]
    assert said in system.log()
    last = ring.Reader(BlockKind.GATE_STATUS, system.prefix).latest()
    assert last is not None
    assert not last.data["pwm_on"]
    assert ring.text(last.data["detail"]) == "gate ended"


def test_gate_that_dies_again_and_again_ends_the_system_with_the_pwm_off(system: System) -> None:
    for n in range(BUDGET):
        gate = system.pid("gate")
        os.kill(gate, signal.SIGKILL)
        off_after(system, 0, 1e9)
        if n < BUDGET - 1:
            system.until(lambda old=gate: system.pid("gate") != old)  # type: ignore[misc]
            system.until(lambda: _gate_speaks(system))
    assert system.supervisor.wait(60) == 1
    assert f"gate died {BUDGET} times" in system.status_file()["ended"]
    system.tick()
    assert not system.on


def test_an_orderly_end_switches_off_before_anybody_else_ends(system: System) -> None:
    bystander = system.pid("bystander")
    system.supervisor.send_signal(signal.SIGTERM)
    system.until(lambda: not system.on)
    assert system.supervisor.wait(60) == 0
    gone(system, bystander)
    assert system.status_file()["ended"] == ""
