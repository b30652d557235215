"""The figures of motion at their full size: an optimum, seams beside other ways, a full cup. Minutes each; resumable.

Writes `out/prove/motion_{optimum,seams,slosh}.json`: what `wardarm bench optimum|seams|slosh --json` prints. A file that
is there is not measured again; delete it to start anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(3600)
OUT = Path("out/prove")
MOST_PCT = {"ward_paced": 3.0, "fast_paced": 3.0, "ward_free": 8.0, "fast_free": 12.0}


def figures(name: str, *more: str) -> dict[str, Any]:
    file = OUT / f"motion_{name}.json"
    if not file.exists():
        OUT.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "wardarm.cli", "bench", name, "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        file.write_text(done.stdout)
    return json.loads(file.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", list(MOST_PCT))
def test_motions_are_within_a_few_per_cent_of_the_optimum(mode: str) -> None:
    measured = figures("optimum", "--motions", "24")
    assert measured["refused"] == {}
    assert measured["over_optimum_pct"][mode] <= MOST_PCT[mode]
    assert measured["derating_cost_pct"][mode] is not None


def test_two_hundred_motions_are_gentler_than_the_usual_ways_make_of_the_same_chunks() -> None:
    measured = figures("seams")
    assert measured["motions"] == 200
    ours = measured["methods"]["wardarm"]
    assert ours["over_limit_motions"] == ours["protective_stops"] == 0
    assert max(ours[f"{order}_ratio_max"] for order in ("speed", "acceleration", "jerk")) <= 1.0
    assert len(ours["refused"]) <= 0.01 * ours["joins"]
    for name in ("linear", "ensemble"):
        other = measured["methods"][name]
        assert ours["slosh_mm"]["max"] < other["slosh_mm"]["p50"]
        assert ours["jerk_rms_m_s3"] < other["jerk_rms_m_s3"]


def test_three_hundred_full_cups_keep_two_millimetres_of_a_centimetre() -> None:
    measured = figures("slosh")
    assert measured["carries"] == 300
    assert measured["slosh_mm"]["max"] <= 8.0
    for half in ("close_seams", "paused"):
        assert measured[half]["stop_ratio_max"] <= 1.0
        assert measured[half]["jerk_ratio_max"] <= 1.0
        assert len(measured[half]["refused"]) <= 0.01 * measured[half]["joins"]
    assert measured["close_seams"]["seams_apart_s"]["p5"] < 0.2
