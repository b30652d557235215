"""The gate process with real words in shared memory and the simulated controller's PWM socket."""

from __future__ import annotations

import json
import os
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
import pytest
from patience import PATIENCE_S
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, BlockKind, HoldReason, ProcessId

# The machine may stand still for less than this, and no test is about that
DEADLINE_MS = 600
LOOP_MS = 5.0  # the default of gate.loop_ms
LATE_S = 5.0  # what a busy machine may add


@dataclass
class Edge:
    t_ns: int
    on: bool


@dataclass
class Bench:
    """Words, an arm status and the socket that a simulated controller would listen on."""

    prefix: str
    config: Path
    line: socket.socket
    words: dict[ProcessId, OwnWord]
    arm: ring.Writer
    ok: dict[ProcessId, bool] = field(default_factory=dict)
    silent: set[ProcessId] = field(default_factory=set)
    motion_request: int = 0
    request_seq: int = 0
    arm_silent: bool = False
    edges: list[Edge] = field(default_factory=list)
    heard: list[dict[str, Any]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    drops_before: int = 0

    def drops(self) -> int:
        """Drops since the test began."""
        return int(self.status()["drop_seq"]) - self.drops_before

    def tick(self) -> None:
        """All processes beat once; what gate says is collected."""
        for process, word in self.words.items():
            if process not in self.silent:
                word.say(self.ok.get(process, True), HoldReason.INTRUDER, "a person in the zone")
        if not self.arm_silent:
            status = np.zeros((), ARM_STATUS)
            status["motion_request"], status["request_seq"] = self.motion_request, self.request_seq
            self.arm.publish(status)
        while True:
            try:
                message = json.loads(self.line.recv(4096))
            except BlockingIOError:
                break
            self.heard.append(message)
            if not self.edges or self.edges[-1].t_ns != message["t_ns"]:
                self.edges.append(Edge(message["t_ns"], message["on"]))

    def until(self, done: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < end, "gate did not get there"
            self.tick()
            time.sleep(0.005)

    def for_s(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()
            time.sleep(0.005)

    @property
    def on(self) -> bool:
        return bool(self.edges) and self.edges[-1].on

    def status(self) -> Any:
        slot = ring.wait_for(BlockKind.GATE_STATUS, self.prefix).latest()
        assert slot is not None
        return slot.data

    def request(self) -> None:
        self.request_seq += 1
        self.motion_request = 1


def start_gate(bench: Bench) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "wardarm.gate.main", "--config", str(bench.config)])


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(60)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    prefix, tmp_path = f"tg{os.getpid()}_", tmp_path_factory.mktemp("gate")
    path = tmp_path / "pwm.sock"
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.bind(str(path))
    line.setblocking(False)
    config = tmp_path / "wardarm.json"
    config.write_text(
        json.dumps(
            {
                "schema": 1,
                "shm": {"prefix": prefix},
                "gate": {"output": f"unix:{path}", "word_deadline_ms": DEADLINE_MS},
            }
        )
    )
    words = {p: OwnWord(p, prefix, 0.02) for p in (ProcessId.ARM, ProcessId.GUARD, ProcessId.API)}
    bench = Bench(prefix, config, line, words, ring.Writer(BlockKind.ARM_STATUS, prefix))
    yield bench
    if bench.process is not None:
        end(bench.process)
    line.close()
    for file in Path("/dev/shm").glob(f"{prefix}*"):
        file.unlink()


@pytest.fixture
def gate(bench: Bench) -> subprocess.Popen[bytes]:
    """A gate that has seen an idle arm and every word true; started anew if a test ended it."""
    bench.ok.clear()
    bench.silent.clear()
    bench.arm_silent, bench.motion_request = False, 0
    if bench.process is None or bench.process.poll() is not None:
        bench.process = start_gate(bench)
        bench.heard.clear()
    bench.until(lambda: bool(bench.heard) and not bench.on)
    bench.for_s(0.25)
    bench.until(lambda: int(bench.status()["missing"]) == 0)
    bench.drops_before = int(bench.status()["drop_seq"])
    return bench.process


def running(bench: Bench) -> None:
    """Asks until it is on: a request that fell into a stall of the machine is rightly not served, nor served later."""
    end = time.monotonic() + PATIENCE_S
    while not bench.on:
        assert time.monotonic() < end, "gate did not switch on"
        bench.request()
        again = time.monotonic() + 1.0
        while not bench.on and time.monotonic() < again:
            bench.for_s(0.005)
    bench.drops_before = int(bench.status()["drop_seq"])


def test_a_request_switches_1_khz_on_and_its_end_switches_it_off(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    assert not bench.on
    asked_ns = time.monotonic_ns()
    running(bench)
    edge = bench.edges[-1]
    assert 0 <= edge.t_ns - asked_ns < LATE_S * 1e9
    assert bench.heard[-1]["frequency_hz"] == 1000
    assert bench.heard[-1]["duty_percent"] == 50
    assert bench.status()["edge_ns"] == edge.t_ns
    bench.motion_request = 0
    bench.until(lambda: not bench.on)
    assert bench.drops() == 0


def test_a_false_word_drops_the_pwm_and_its_return_does_not_bring_it_back(
    bench: Bench, gate: subprocess.Popen[bytes]
) -> None:
    running(bench)
    bench.ok[ProcessId.GUARD] = False
    bench.until(lambda: not bench.on)
    bench.tick()
    status = bench.status()
    assert bench.drops() == 1
    assert status["first_missing"] == ProcessId.GUARD
    assert status["missing"] == 1 << ProcessId.GUARD
    assert "a person in the zone" in ring.text(status["detail"])
    bench.ok[ProcessId.GUARD] = True
    bench.for_s(0.4)
    assert not bench.on
    bench.request()
    bench.until(lambda: bench.on)


@pytest.mark.parametrize("process", [ProcessId.GUARD, ProcessId.API, ProcessId.ARM])
def test_a_silent_process_drops_the_pwm_within_its_deadline(
    bench: Bench, gate: subprocess.Popen[bytes], process: ProcessId
) -> None:
    running(bench)
    bench.silent.add(process)
    bench.until(lambda: not bench.on)
    reader = ring.Reader(BlockKind.WORD, bench.prefix, process)
    last = reader.latest()
    assert last is not None
    late_ms = (bench.edges[-1].t_ns - int(last.data["beat_ns"])) / 1e6
    assert DEADLINE_MS - LOOP_MS <= late_ms < DEADLINE_MS + LATE_S * 1e3


def test_a_stale_arm_status_drops_the_pwm(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    bench.arm_silent = True
    bench.until(lambda: not bench.on)
    bench.tick()
    assert bench.status()["first_missing"] == ProcessId.ARM


def test_the_state_is_said_again_with_the_edge_s_own_time(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    bench.heard.clear()
    bench.until(lambda: len(bench.heard) >= 5)
    assert {m["t_ns"] for m in bench.heard} == {bench.edges[-1].t_ns}
    assert all(m["on"] for m in bench.heard)


def test_a_gate_that_was_frozen_switches_off_first(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    gate.send_signal(signal.SIGSTOP)
    bench.for_s(2 * DEADLINE_MS / 1e3)
    gate.send_signal(signal.SIGCONT)
    bench.until(lambda: not bench.on)
    bench.for_s(0.3)
    assert not bench.on
    assert bench.status()["first_missing"] == ProcessId.GATE


def test_a_gate_restarted_during_a_request_does_not_serve_it(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    bench.for_s(0.1)
    beat = int(bench.status()["beat"])
    gate.kill()
    gate.wait(60)
    bench.process = start_gate(bench)
    bench.until(lambda: not bench.on)
    bench.until(lambda: int(bench.status()["beat"]) > beat + 20)
    assert not bench.on
    assert bench.drops() == 1
    bench.request()
    bench.until(lambda: bench.on)


def test_sigterm_switches_off_and_says_so(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    gate.terminate()
    bench.until(lambda: gate.poll() is not None)
    bench.tick()
    assert gate.returncode == 0
    assert not bench.on
    assert bench.status()["pwm_on"] == 0


def companion(gate: subprocess.Popen[bytes]) -> int:
    """Process id of gate's deadman."""
    return int(Path(f"/proc/{gate.pid}/task/{gate.pid}/children").read_text().split()[0])


def test_after_sigkill_the_companion_switches_off(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    deadman = companion(gate)
    gate.kill()
    killed_ns = time.monotonic_ns()
    gate.wait(60)
    bench.until(lambda: not bench.on)
    assert (bench.edges[-1].t_ns - killed_ns) / 1e6 < LATE_S * 1e3
    bench.until(
        lambda: not Path(f"/proc/{deadman}/cmdline").exists() or not Path(f"/proc/{deadman}/cmdline").read_bytes()
    )


def test_while_gate_is_frozen_the_companion_switches_off(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    gate.send_signal(signal.SIGSTOP)
    frozen_ns = time.monotonic_ns()
    bench.until(lambda: not bench.on)
    assert gate.poll() is None
    assert (bench.edges[-1].t_ns - frozen_ns) / 1e6 < DEADLINE_MS + LATE_S * 1e3
    gate.send_signal(signal.SIGCONT)
    bench.until(lambda: bench.drops() == 1)
    bench.for_s(0.2)
    assert not bench.on


def test_without_its_companion_gate_ends(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    os.kill(companion(gate), signal.SIGKILL)
    bench.until(lambda: gate.poll() is not None)
    assert gate.returncode == 1
    bench.tick()
    assert not bench.on


def test_pwm_off_needs_no_gate(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)
    gate.send_signal(signal.SIGSTOP)
    os.kill(companion(gate), signal.SIGKILL)
    bench.tick()
    assert bench.on  # nobody said off
    done = subprocess.run([sys.executable, "-m", "wardarm.gate.pwm_off", "--config", str(bench.config)], check=False)
    assert done.returncode == 0
    bench.tick()
    assert not bench.on
    gate.kill()
    gate.wait(60)


def test_a_gate_loop_costs_little(bench: Bench, gate: subprocess.Popen[bytes]) -> None:
    running(bench)

    def cpu_s() -> float:
        fields = Path(f"/proc/{gate.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, beats = cpu_s(), int(bench.status()["beat"])
    bench.for_s(1.0)
    per_loop_ms = (cpu_s() - before) * 1e3 / (int(bench.status()["beat"]) - beats)
    print(f"gate: {per_loop_ms:.2f} ms of CPU a loop")
    assert per_loop_ms < 1.0
