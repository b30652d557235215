"""Lock-step says what the running daemon does: the same trials both ways. Half an hour; resumable, results in out/prove."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from wardarm.training.trial import wilson

pytestmark = pytest.mark.timeout(4 * 3600)
OUT = Path("out/prove")
TRIALS, SEED = 20, 7


def figures(name: str, *more: str) -> dict[str, Any]:
    OUT.mkdir(parents=True, exist_ok=True)
    out = OUT / f"eval_{name}.json"
    if not out.exists():
        words = ["--kind", "fetch", "--tasks", str(TRIALS), "--seed", str(SEED), "--out", str(out), *more]
        subprocess.run([sys.executable, "-m", "wardarm.training.trial", *words], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_the_two_agree_within_their_intervals() -> None:
    daemon, lock_step = figures("daemon", "--daemon"), figures("lock_step")
    assert lock_step["lock_step"]
    assert not daemon["lock_step"]
    shares = [f["tasks"]["fetch"] for f in (daemon, lock_step)]
    assert [s["n"] for s in shares] == [TRIALS, TRIALS]
    (low_a, high_a), (low_b, high_b) = (wilson(round(s["success"] * s["n"]), s["n"]) for s in shares)
    assert low_a <= high_b
    assert low_b <= high_a
    for f in (daemon, lock_step):
        assert f["limit_violations"] == 0
        assert f["patient_contacts"] == 0
    seconds = [s["seconds"]["p50"] for s in shares]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.25), "the daemon waits for what lock-step does not have"
