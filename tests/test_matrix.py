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

import pytest
from wardarm.shm import ring
from wardarm.sim.matrix import __main__ as matrix
from wardarm.sim.matrix import report, trial
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
