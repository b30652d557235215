"""One rule for every stop: at rest, one hold an event, and on only after a person's word, from where the arm stands."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from arm_bench import HOME_Q, Bench
from wardarm.gate.words import GATE_FAREWELL
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, CommandKind, HoldReason, ProcessId

PAN = (0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
BACK = (-0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
MOVE_S = 2.0
ROBOT = (HoldReason.ROBOT, ProcessId.ARM)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("arm_resume"), 5) as bench:
        yield bench


@pytest.fixture
def bench(whole: Bench) -> Bench:
    """At rest, nothing held, player running."""
    whole.clear()
    return whole


def in_motion(bench: Bench) -> None:
    """Under way; a machine that stood still meanwhile is resumed and asked again."""
    end = time.monotonic() + 60

    def moving() -> bool:
        if bench.state is ArmState.HELD:
            bench.resume()
        elif bench.state is ArmState.READY:
            bench.move(PAN if bench.status["q_rad"][0] < HOME_Q[0] + 0.15 else BACK, MOVE_S)
            until_s = time.monotonic() + 1.0
            while bench.state is ArmState.READY and time.monotonic() < until_s:
                time.sleep(0.005)
        return bench.state is ArmState.RUNNING and 0.4 < float(bench.status["path_s"]) < 1.0

    while not moving():
        assert time.monotonic() < end
        time.sleep(0.005)


def moves_again(bench: Bench) -> None:
    """A new movement is carried out; one that a stall of the machine held is asked for again after a word."""
    for _ in range(5):
        trajectory = bench.move([0] * 6, 0.5)
        bench.until(lambda t=trajectory: int(bench.status["finished_id"]) == t or bench.state is ArmState.HELD)  # type: ignore[misc]
        if int(bench.status["finished_id"]) == trajectory:
            return
        resumed(bench)
    raise AssertionError("no movement came to its end")


def wire_blamed(latched: list[tuple[str, str]]) -> list[str]:
    """GATE_FAULT for anything but a gate that was late itself, as on a machine that stood still."""
    return [d for r, d in latched if r == "GATE_FAULT" and not d.startswith("gate: last status")]


def still(bench: Bench) -> bool:
    return bool(np.max(np.abs(bench.say("state")["qd"])) < 1e-5)


def resumed(bench: Bench) -> None:
    bench.until(lambda: bench.state is ArmState.HELD and bench.resume()[0] == 0)
    bench.ready()


def holds_logged(bench: Bench) -> list[dict[str, Any]]:
    """Every hold that arm has latched, in order."""
    rows = [json.loads(r) for r in (bench.folder / "arm.log").read_text().splitlines() if r.startswith("{")]
    return [r for r in rows if r.get("event") == "hold" and r["reason"] != "STARTING"]


def dashboard(bench: Bench, line: str) -> None:
    """What a person at the pendant presses."""
    with socket.create_connection((bench.address, 29999), 10) as s, s.makefile("rw") as f:
        f.readline()
        f.write(line + "\n")
        f.flush()
        f.readline()


def protective(bench: Bench) -> None:
    bench.say("inject protective touched the bed rail")
    bench.until_state(ArmState.PROTECTIVE)
    bench.until(lambda: bench.command(CommandKind.RECOVER)[0] == 0)


def estop(bench: Bench) -> None:
    bench.say("inject estop on")
    bench.until_state(ArmState.ESTOP)
    bench.say("inject estop off")
    bench.until(lambda: bench.command(CommandKind.POWER_ON)[0] == 0)


def safeguard(bench: Bench) -> None:
    bench.say("inject safeguard on")
    bench.until_state(ArmState.SAFEGUARD)
    bench.say("inject safeguard off")


def silent_controller(bench: Bench) -> None:
    bench.say("inject freeze 2")  # longer than a starved arm looks away
    bench.until(lambda: ROBOT in bench.holds())


def dropped_link(bench: Bench) -> None:
    bench.say("inject drop rtde")
    bench.until(lambda: ROBOT in bench.holds())


def pendant(bench: Bench) -> None:
    dashboard(bench, "stop")
    bench.until(lambda: ROBOT in bench.holds())


@pytest.mark.parametrize("stop", [protective, estop, safeguard, silent_controller, dropped_link, pendant])
def test_one_stop_of_the_robot_is_one_hold_and_nothing_goes_on_by_itself(bench: Bench, stop: Any) -> None:
    in_motion(bench)
    before = len(holds_logged(bench))
    stop(bench)
    bench.until(lambda: bench.state is ArmState.HELD and bool(bench.status["at_rest"]) and still(bench))
    stood = np.array(bench.say("state")["q"])
    later_s = float(bench.say("state")["time_s"]) + 1.0
    bench.until(lambda: float(bench.say("state")["time_s"]) > later_s)
    np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-5)
    resumed(bench)
    latched = [(h["reason"], h["detail"]) for h in holds_logged(bench)[before:]]
    # a machine that stood still may have added a WATCHDOG or silences of its own (test_arm_causes has it exactly); the
    # robot's own event is said once, and no wire is blamed
    robot = [d for r, d in latched if r == "ROBOT"]
    assert robot, latched
    assert [d for d in robot[1:] if not d.startswith("no data")] == [], latched
    assert not wire_blamed(latched), latched
    np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-5)
    moves_again(bench)


def test_a_released_safeguard_that_has_a_reset_input_waits_for_it(bench: Bench) -> None:
    bench.say("inject safeguard_needs_reset on")
    try:
        in_motion(bench)
        bench.say("inject safeguard on")
        bench.until_state(ArmState.SAFEGUARD)
        with pytest.raises(AssertionError, match="nothing to reset"):
            bench.say("inject safeguard_reset")  # while somebody is there
        bench.say("inject safeguard off")
        later_s = float(bench.say("state")["time_s"]) + 1.0
        bench.until(lambda: float(bench.say("state")["time_s"]) > later_s)
        assert bench.state is ArmState.SAFEGUARD
        refused, why = bench.resume()
        assert refused
        assert "ROBOT" in why
        bench.say("inject safeguard_reset")
        bench.until_state(ArmState.HELD)  # the reset moves nothing: the hold stays
        stood = bench.say("state")["q"]
        resumed(bench)
        np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-5)
    finally:
        bench.say("inject safeguard_needs_reset off")
        bench.say("inject safeguard off")
    moves_again(bench)


def test_an_arm_pushed_by_hand_in_a_hold_is_planned_for_where_it_stands(bench: Bench) -> None:
    in_motion(bench)
    dashboard(bench, "stop")
    bench.until(lambda: ROBOT in bench.holds() and still(bench))
    bench.say("remote off")  # freedrive needs local control: arm does not upload meanwhile
    bench.until(lambda: "local control" in ring.text(bench.status["holds"][0]["detail"]))
    before = np.array(bench.say("state")["q"])
    bench.say("inject jog 0.2 -0.15 0.1")
    bench.until(lambda: still(bench))
    pushed = np.array(bench.say("state")["q"])
    assert np.abs(pushed - before).max() > 0.15
    bench.say("remote on")
    resumed(bench)
    bench.until(lambda: float(np.abs(np.array(bench.status["target_q_rad"]) - pushed).max()) < 1e-4)
    np.testing.assert_allclose(bench.say("state")["q"], pushed, atol=1e-4)  # nothing races back
    trajectory, furthest = bench.move([0.1, 0, 0, 0, 0, 0], MOVE_S), 0.0
    until_s = float(bench.say("state")["time_s"]) + 2 * MOVE_S
    while int(bench.status["finished_id"]) != trajectory and bench.state is not ArmState.HELD:  # held: by a stall
        said = bench.say("state")
        assert float(said["time_s"]) < until_s
        q = np.array(said["q"])
        furthest = max(furthest, float(np.abs(q - pushed)[1:].max()), float(pushed[0] - q[0]))
        time.sleep(0.01)
    assert furthest < 1e-3  # along the new plan only, never towards where it was held


def test_an_orderly_end_of_gate_under_way_is_not_blamed_on_the_wire(bench: Bench) -> None:
    for _ in range(2):
        in_motion(bench)
        before = len(holds_logged(bench))
        bench.processes["gate"].terminate()
        bench.processes["gate"].wait(60)
        bench.until(lambda: bool(bench.holds()) and bool(bench.status["at_rest"]))
        latched = [(h["reason"], h["detail"]) for h in holds_logged(bench)[before:]]
        assert latched[0][0] == "WATCHDOG", latched
        assert not wire_blamed(latched), latched
        bench.start("gate")
        resumed(bench)
    slot = ring.Reader(ring.BlockKind.GATE_STATUS, bench.prefix).latest()
    assert slot is not None
    assert ring.text(slot.data["detail"]) != GATE_FAREWELL


def test_a_wire_that_really_fails_is_still_a_gate_fault(bench: Bench) -> None:
    in_motion(bench)
    for _ in range(60):
        bench.say("pwm 8 on 1 50")
        time.sleep(0.005)
    bench.until(lambda: (HoldReason.GATE_FAULT, ProcessId.GATE) in bench.holds() and bool(bench.status["at_rest"]))
    bench.say("pwm 8 off")
    resumed(bench)


def test_what_lay_there_when_arm_started_moves_nothing(bench: Bench) -> None:
    """A plan and a word of before: the next arm waits for a plan of its own time."""
    bench.until(lambda: still(bench))
    stood = np.array(bench.say("state")["q"])
    epoch = int(bench.status["plan_epoch"])
    bench.kill("arm")
    trajectory = bench.move(PAN, MOVE_S, epoch=epoch)
    bench.start("arm")
    bench.until(lambda: bench.state is ArmState.HELD and int(bench.status["plan_epoch"]) > epoch)
    resumed(bench)
    later_s = float(bench.say("state")["time_s"]) + 1.0
    while float(bench.say("state")["time_s"]) < later_s:
        assert not int(bench.status["motion_request"])
        assert int(bench.status["loaded_id"]) != trajectory
        time.sleep(0.01)
    np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-5)
