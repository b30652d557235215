"""A pause while a real carried cup leans, on the whole simulated system: upright, within the limits, the cup kept.

Writes `out/prove/upright.json`: tilt at the pause, time to upright and to rest on the controller's clock, ratios.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wardarm.ops import limits
from wardarm.sim.matrix.bed import Bed
from wardarm.sim.matrix.witness import moving
from wardarm.v1 import hold_pb2, task_pb2

pytestmark = pytest.mark.timeout(900)
FILE = Path("out/prove/upright.json")
LEANING_DEG = 35.0
TRIALS = 3


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    bed = Bed(tmp_path, {"poses.park": [0.42, -0.30, 0.35, 0, LEANING_DEG, 0]})
    try:
        yield bed
    finally:
        bed.close()


def tilt_deg(sample: Any, bed: Bed) -> float:
    _, rotation = limits.forward(np.asarray(sample["target_q"], float)[None], bed.config.arm)
    return float(np.degrees(np.arccos(np.clip(-rotation[0, 2, 2], -1, 1))))


def until(condition: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_cup_that_leans_is_set_upright_before_the_pause_holds(bed: Bed) -> None:
    rows = []
    bed.take_cup()
    bed.sweep()  # leans on its way to the parking pose
    for _ in range(TRIALS):
        until(lambda: not bed.busy())
        bed.settle()
        bed.client.create_task(bed.owned(), movement=task_pb2.MOVEMENT_PARK)
        until(lambda: not moving(bed.witness.last()) and tilt_deg(bed.witness.last(), bed) > 0.9 * LEANING_DEG)
        until(lambda: not bed.client.state().HasField("task"))
        task = bed.client.create_task(bed.owned(), movement=task_pb2.MOVEMENT_HOME)
        until(lambda: bed.witness.speed_m_s() > 0.05 and tilt_deg(bed.witness.last(), bed) > 15)
        begun = bed.witness.last()
        holds = bed.client.pause("look")
        assert [h.reason for h in holds] == [hold_pb2.HOLD_REASON_CLIENT]
        until(lambda: bool(bed.client.state().holds) and bed.client.state().holds[0].latched, 10)
        until(lambda: not moving(bed.witness.last()), 5)
        time.sleep(0.3)
        record = bed.witness.since(float(begun["timestamp"]))
        t = record["timestamp"] - float(begun["timestamp"])
        tilts = np.array([tilt_deg(s, bed) for s in record])
        busy = np.abs(record["target_qd"]).max(1) > 0.002
        ratios = limits.ratios(limits.motion(record, bed.config.arm), bed.config.limits)
        rows.append(
            {"tilt_deg": round(float(tilts[0]), 1), "upright_s": round(float(t[np.flatnonzero(tilts > 3)[-1]]), 2),
             "rest_s": round(float(t[np.flatnonzero(busy)[-1]]), 2), "end_tilt_deg": round(float(tilts[-1]), 2),
             "plan_ratio": round(ratios.plan, 3), "stop_ratio": round(ratios.stop, 3), "cup_kept": bed.held()}
        )  # fmt: skip
        print(rows[-1])
        assert tilts[-1] < 10  # what spills; quite upright unless the simulation is slower than the pause waits
        assert ratios.plan <= 1
        assert ratios.stop <= 1
        assert bed.held()
        resumed = bed.settle(keep_task=True)
        assert set(resumed) <= {"CLIENT", "WATCHDOG"}
        until(lambda task_id=task.task_id: bed.client.task(task_id).state == task_pb2.TASK_STATE_DONE, 60)  # type: ignore[misc]
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps({"trials": rows}, indent=1) + "\n")
