"""The fault matrix's own promises: it takes its system along when it ends, and no cell vanishes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wardarm.config import Config
from wardarm.ops.rtde_log import SAMPLE
from wardarm.shm import ring
from wardarm.sim.matrix import __main__ as matrix
from wardarm.sim.matrix import figures, report, trial
from wardarm.sim.matrix.cells import Cell

pytestmark = pytest.mark.timeout(180)


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_takes_its_system_along(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "matrix" / "run" / "status.json"
    argv = [sys.executable, "-m", "wardarm.sim.matrix", "--out", str(tmp_path), "--minutes", "5"]
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(argv, stdout=log, stderr=log)
    pids: list[int] = []
    try:
        until(file.exists)
        status = json.loads(file.read_text())
        pids = [status["pid"], *(p["pid"] for p in status["processes"].values())]
        assert len(pids) > 8
        assert all(ring.start_ticks(p) for p in pids)
        run.send_signal(number)
        assert run.wait(60) == (143 if number is signal.SIGTERM else -signal.SIGKILL)
        until(lambda: not any(ring.start_ticks(p) for p in pids))
    finally:
        if run.poll() is None:
            run.kill()
            run.wait()
        for pid in pids[:1]:
            if ring.start_ticks(pid):
                os.kill(pid, signal.SIGKILL)
        prefix = json.loads((file.parent / "demo.json").read_text())["shm"]["prefix"]
        for block in ring.SHM.glob(f"{prefix}*"):
            block.unlink(missing_ok=True)


class Nothing:
    """A bed on which no phase ever comes about."""

    def __init__(self, _: Path) -> None:
        pass

    def settle(self) -> None: ...

    def close(self) -> None: ...


def test_a_cell_whose_phase_never_comes_has_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def never(_bed: Any, cell: Cell, _rng: Any) -> Any:
        tries.append(cell.key)
        raise trial.PhaseMissed("no seam")

    monkeypatch.setattr(matrix, "Bed", Nothing)
    monkeypatch.setattr(trial, "run", never)
    done = matrix.run(tmp_path, 1, 1000, ("seam",), ("gate",), repeats=2)
    assert len(done) == 8
    assert len(tries) == 3 * len(done)
    assert all("no seam" in r["not_judged"] and not r["verdict"] for r in done)
    total = report.summary(done)
    assert (total["cells"], total["not_judged"], total["failed"]) == (0, 8, 0)
    assert "What was not judged" in (tmp_path / "matrix.html").read_text()
    assert len(matrix.rows(tmp_path / "matrix.jsonl")) == 8
    tries.clear()
    assert len(matrix.run(tmp_path, 1, 1000, ("seam",), ("gate",), repeats=2)) == 8
    assert not tries  # noted: not tried again by itself
    matrix.run(tmp_path, 1, 1000, ("seam",), ("gate",), repeats=2, again=True)
    assert tries


def record(*pieces: tuple[float, float]) -> Any:
    """Samples at 500 Hz of joint 1: (seconds, rad/s) in turn, from controller time 10 s on."""
    speed = np.concatenate([np.full(round(s / 0.002), v) for s, v in pieces])
    out = np.zeros(len(speed), np.dtype([(n, SAMPLE[n].newbyteorder("=")) for n in SAMPLE.names or ()]))
    out["timestamp"] = 10 + 0.002 * np.arange(len(speed))
    out["target_q"] = [2.68, -2.06, 1.70, -1.21, -1.57, -2.03]
    out["target_q"][:, 0] += np.cumsum(speed) * 0.002
    out["target_qd"][:, 0] = speed
    return out


def moved(cell: Cell, rows: Any, fault_s: float, held_s: float) -> float:
    """As in a trial: what moved from the time on at which nothing may move any more."""
    arm = Config.model_validate({"schema": 1}).arm
    f = figures.stop(rows, fault_s, arm, Config.model_validate({"schema": 1}).limits)
    since_s = trial._quiet_from(cell, rows, fault_s, f, [{"reason": "X", "since_s": held_s}])
    return figures.moved_mm(rows[rows["timestamp"] >= since_s], arm)


def test_a_movement_between_two_rests_before_the_hold_is_none_in_the_hold() -> None:
    """A sweep ends by itself, the next piece of it begins, then a bystander's death is said: that piece was allowed."""
    rows = record((0.4, 0.2), (0.3, 0.0), (0.2, 0.05), (0.5, 0.0))
    views = Cell("views", "kill", "mid_motion", 0, "sweep")
    assert moved(views, rows, 10.1, 10.75) < 0.01
    assert moved(views, rows, 10.1, 10.5) > 1  # but after the hold nothing may


def test_what_must_stop_at_once_may_not_move_again_before_its_hold_is_said_either() -> None:
    rows = record((0.4, 0.2), (0.3, 0.0), (0.2, 0.05), (0.5, 0.0))
    assert moved(Cell("arm", "kill", "mid_motion", 0, "sweep"), rows, 10.1, 11.2) > 1
    still = record((0.4, 0.2), (1.0, 0.0))
    assert moved(Cell("arm", "kill", "mid_motion", 0, "sweep"), still, 10.1, 11.2) < 0.01


@pytest.mark.parametrize(
    ("target", "action", "stop_s", "fine"),
    [("gripper", "stop", 0.9, True), ("gripper", "stop", 1.2, False), ("eye", "stop", 0.3, True),
     ("eye", "stop", 0.8, False), ("eye", "kill", 0.3, False), ("gate", "kill", 0.1, False)],
)  # fmt: skip
def test_a_movement_that_ends_before_a_fault_can_show_needs_no_hold(
    target: str, action: str, stop_s: float, fine: bool
) -> None:
    cell = Cell(target, action, "mid_motion", 0, "sweep")
    row = {
        "target": target, "action": action, "phase": "mid_motion", "motion": "sweep", "holds": [], "speed_mm_s": 100.0,
        "stop_s": stop_s, "plan_ratio": 0.5, "stop_ratio": 0.5, "moved_in_hold_mm": 0.0,
    }  # fmt: skip
    row["verdict"] = trial.verdict(cell, row)
    assert ("no hold" not in row["verdict"]) is fine
    assert report.summary([row])["right_reason"] == ("0 of 0" if fine else "0 of 1")
