"""Ten protective stops in one life of arm, each under way, each ended by a person after the controller's five seconds.

Writes `out/prove/recover.json`: controller times of stop, unlocking, next motion, for each.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from arm_bench import HOME_Q, Bench
from wardarm.arm.link import UNLOCK_WAIT_S
from wardarm.shm.layouts import ArmState, CommandKind, HoldReason, ProcessId

pytestmark = pytest.mark.timeout(600)
FILE = Path("out/prove/recover.json")
CYCLES = 10


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Bench(tmp_path, 9) as bench:
        bench.ready()
        yield bench


def controller_s(bench: Bench) -> float:
    return float(bench.say("state")["time_s"])


def test_ten_protective_stops_in_a_row_are_ended_by_a_person_and_the_arm_moves_again(bench: Bench) -> None:
    pid, rows = bench.processes["arm"].pid, []
    for number in range(CYCLES):
        step = 0.3 if bench.status["q_rad"][0] < HOME_Q[0] + 0.15 else -0.3
        bench.move([step, 0, 0, 0, 0, 0], 2.0)
        bench.moving_beyond(0.4)
        bench.say(f"inject protective touched the bed rail {number}")
        bench.until_state(ArmState.PROTECTIVE)
        stopped_s = controller_s(bench)
        refused, why = bench.command(CommandKind.RECOVER)  # too early
        assert refused, number
        assert f"after {UNLOCK_WAIT_S:.0f} s" in why
        assert bench.resume()[0]  # and nobody resumes a protective stop
        refusals = 1
        while bench.command(CommandKind.RECOVER)[0]:
            refusals += 1
            assert bench.state is ArmState.PROTECTIVE
            time.sleep(0.2)
        unlocked_s = controller_s(bench)
        assert unlocked_s - stopped_s > UNLOCK_WAIT_S - 0.5
        bench.until_state(ArmState.HELD)
        stood = np.array(bench.say("state")["q"])
        quiet_s = controller_s(bench) + 0.5
        bench.until(lambda until_s=quiet_s: controller_s(bench) > until_s)  # type: ignore[misc]
        np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-4)
        bench.until(lambda: bench.resume()[0] == 0)
        bench.ready()
        assert not bench.holds()
        np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-4)
        trajectory = bench.move([0.05 if step < 0 else -0.05, 0, 0, 0, 0, 0], 1.0)
        bench.finished(trajectory)
        rows.append(
            {"stopped_s": stopped_s, "unlocked_after_s": round(unlocked_s - stopped_s, 3), "refused_before": refusals,
             "moved_again_after_s": round(controller_s(bench) - stopped_s, 3)}
        )  # fmt: skip
    assert bench.processes["arm"].pid == pid
    assert bench.processes["arm"].poll() is None
    log = [json.loads(r) for r in (bench.folder / "arm.log").read_text().splitlines() if r.startswith("{")]
    robot = [r for r in log if r.get("event") == "hold" and r["reason"] == HoldReason.ROBOT.name]
    assert len(robot) == CYCLES, robot  # one hold a stop
    assert all(r["writer"] == ProcessId.ARM.name for r in robot)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps({"cycles": rows}, indent=1) + "\n")
