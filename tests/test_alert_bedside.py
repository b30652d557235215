"""The alert process under its real supervisor: its death is a warning and a restart, and never a hold."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bed import UNHURRIED, Bed
from wardarm.client import Refused
from wardarm.sim.demo.attendant import LATE, NO_DATA
from wardarm.sim.demo.staging import stage
from wardarm.v1 import hold_pb2, state_pb2

pytestmark = pytest.mark.timeout(180)
BUDGET = 3


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    scene, _ = stage(None, 3)
    overrides: dict[str, object] = {
        "guard.enabled": False, "alert.command": "sh -c 'exit 3' {file}", "alert.self_test": True,
        "supervisor.restart_budget": BUDGET, "supervisor.restart_window_s": 8.0,
        "log.directory": str(tmp_path_factory.mktemp("log")), **UNHURRIED,
    }  # fmt: skip
    bed = Bed(tmp_path_factory.mktemp("alert"), scene, overrides)
    yield bed
    bed.close()


def events(bed: Bed) -> list[dict[str, Any]]:
    file = Path(bed.config.log.directory) / "supervisor.jsonl"
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def alert(bed: Bed) -> dict[str, Any]:
    return dict(bed.system.status()["processes"]["alert"])


def until(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def held_by_the_alert(bed: Bed) -> list[Any]:
    """Holds that are no moment of this machine, which is rightly held when it stands still; the alert causes none."""
    return [h for h in bed.client.state().holds if not moment(h.reason, h.detail)]


def moment(reason: int, detail: str) -> bool:
    return reason in LATE or (reason == hold_pb2.HOLD_REASON_ROBOT and NO_DATA in detail)


def test_a_sound_that_fails_is_counted_in_the_state_and_holds_nothing(bed: Bed) -> None:
    until("the self-test tone failed", lambda: bed.client.state().alert.failures >= 1)
    shown = bed.client.state().alert
    assert (shown.enabled, shown.running) == (True, True)
    assert "exit 3" in shown.last_failure
    assert not held_by_the_alert(bed)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_its_death_and_its_stillness_hold_nothing(bed: Bed, number: signal.Signals) -> None:
    before = alert(bed)
    os.kill(before["pid"], number)
    if number == signal.SIGKILL:
        until("started again", lambda: alert(bed)["restarts"] == before["restarts"] + 1)
        until("there again", lambda: bed.client.state().alert.running)
        died = [e for e in events(bed) if e["event"] == "died"][-1]
        assert died["child"] == "alert"
        assert "never holds" in died["promise"]
        assert bed.client.state().alert.failures >= 1, "what was counted before is counted still"
    else:
        time.sleep(1.5)
        os.kill(before["pid"], signal.SIGCONT)
        assert alert(bed)["pid"] == before["pid"]
    state = bed.client.state()
    assert not held_by_the_alert(bed)
    assert state.holds or state.arm.state == state_pb2.ARM_STATE_READY


def test_one_that_dies_again_and_again_is_given_up_for_a_while_and_the_arm_goes_on(bed: Bed) -> None:
    def given_up() -> bool:
        return any(e["event"] == "given up for a while" for e in events(bed))

    def kill() -> bool:
        try:
            os.kill(alert(bed)["pid"], signal.SIGKILL)
        except ProcessLookupError:
            return given_up()
        return given_up()

    until("given up", kill)
    line = next(e for e in events(bed) if e["event"] == "given up for a while")
    assert (line["child"], line["level"]) == ("alert", "warning")
    assert not bed.client.state().alert.running
    assert bed.system.process.poll() is None
    with contextlib.suppress(Refused):  # held for a moment of this machine
        done = bed.client.park()  # motion needs no alert
        assert not held_by_the_alert(bed), done
    assert not held_by_the_alert(bed)
    until("tried again later", lambda: bed.client.state().alert.running)
    assert bed.system.process.poll() is None
