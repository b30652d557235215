"""The supervisor with its real children: it restarts what dies, and what it leaves behind when it dies itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bed import UNHURRIED, Bed, causes_gone
from patience import PATIENCE_S
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId
from wardarm.sim.demo.attendant import late
from wardarm.sim.demo.staging import stage
from wardarm.v1 import state_pb2

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    scene, _ = stage(None, 3)
    bed = Bed(tmp_path_factory.mktemp("supervisor"), scene, {"guard.enabled": False, **UNHURRIED})
    yield bed
    bed.close()


def until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_disabled_guard_needs_no_word_and_the_state_says_so(bed: Bed) -> None:
    state = bed.client.state()
    assert not state.guard_enabled
    assert "guard" not in bed.system.status()["processes"]


def test_a_second_system_is_refused_and_disturbs_nothing(bed: Bed, tmp_path: Path) -> None:
    before = bed.system.status()["processes"]
    for run_dir in (bed.system.run_dir, tmp_path):
        command = [sys.executable, "-m", "wardarm.cli", "run", "--config", str(bed.system.run_dir / "demo.json")]
        second = subprocess.run([*command, "--run-dir", str(run_dir)], capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert f"wardarm already runs (pid {bed.system.process.pid}" in second.stdout + second.stderr
    after = bed.system.status()["processes"]
    assert [(p["pid"], p["restarts"]) for p in after.values()] == [(p["pid"], p["restarts"]) for p in before.values()]
    assert all(late(h) for h in bed.client.state().holds)


@pytest.mark.parametrize(
    ("name", "kind", "process"),
    [
        ("eye", BlockKind.WORD, ProcessId.EYE),
        ("postproc", BlockKind.TRAJECTORY, None),
        ("arm", BlockKind.WORD, ProcessId.ARM),
    ],
    ids=["eye", "postproc", "arm"],
)
def test_a_killed_process_is_started_again_and_its_work_goes_on(
    bed: Bed, name: str, kind: BlockKind, process: ProcessId | None
) -> None:
    before = bed.system.status()["processes"][name]
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: bed.system.status()["processes"][name]["restarts"] == before["restarts"] + 1)
    block = ring.Reader(kind, bed.config.shm.prefix, process)
    until(lambda: int(block.head["writer_pid"]) == bed.system.status()["processes"][name]["pid"])
    settled = (state_pb2.ARM_STATE_READY, state_pb2.ARM_STATE_HELD)
    state = bed.wait("back", lambda s: causes_gone(s) and not s.arm.stale and s.arm.state in settled)
    if state.holds:
        with bed.client.lease() as lease:
            bed.client.resume([h.token for h in state.holds], lease)
    bed.wait("ready", lambda s: s.arm.state == state_pb2.ARM_STATE_READY)
    assert bed.system.status()["processes"][name]["pid"] != before["pid"]


def test_when_the_supervisor_is_killed_every_child_ends(bed: Bed) -> None:
    """Last in this file: it ends the system."""
    pids = {n: p["pid"] for n, p in bed.system.status()["processes"].items()}
    assert all(ring.start_ticks(pid) for pid in pids.values())
    bed.system.process.kill()
    bed.system.process.wait()
    until(lambda: not any(ring.start_ticks(pid) for pid in pids.values()))
