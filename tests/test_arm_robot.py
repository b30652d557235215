"""arm and what robots do: stops, power, lost connections, a pendant, an end in motion."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from arm_bench import HOME_Q, Bench
from wardarm.arm.link import Dashboard, RobotError
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, CommandKind, HoldReason, ProcessId, RefusalReason

PAN = (0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
BACK = (-0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
MOVE_S = 2.0
ROBOT = (HoldReason.ROBOT, ProcessId.ARM)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("arm_robot"), 2) as bench:
        yield bench


@pytest.fixture
def bench(whole: Bench) -> Bench:
    """At rest, nothing held, player running."""
    whole.clear()
    return whole


def in_motion(bench: Bench) -> int:
    step = PAN if bench.status["q_rad"][0] < HOME_Q[0] + 0.15 else BACK
    trajectory = bench.move(step, MOVE_S)
    bench.moving_beyond(0.4)
    return trajectory


def still(bench: Bench) -> bool:
    """The joints themselves, which lag behind what they are told; below a thousandth of a degree a second."""
    return bool(np.max(np.abs(bench.say("state")["qd"])) < 1e-5)


def resumed(bench: Bench) -> None:
    bench.until(lambda: bench.state is ArmState.HELD and bench.resume()[0] == 0)
    bench.ready()


def test_after_a_safeguard_stop_nothing_goes_on_by_itself(bench: Bench) -> None:
    trajectory = in_motion(bench)
    bench.say("inject safeguard on")
    bench.until_state(ArmState.SAFEGUARD)
    assert ROBOT in bench.holds()
    assert bench.resume()[0]
    bench.until(lambda: bench.say("state")["runtime"] == "STOPPED" and still(bench))
    stood = bench.say("state")["q"]
    bench.say("inject safeguard off")
    bench.until_state(ArmState.HELD)  # the player is up again, the hold stays
    resumed(bench)
    np.testing.assert_allclose(bench.say("state")["q"], stood, atol=1e-5)
    assert int(bench.status["finished_id"]) != trajectory
    bench.finished(bench.move([0] * 6, 0.5))


def test_a_protective_stop_is_ended_by_a_person_and_not_before_five_seconds(bench: Bench) -> None:
    in_motion(bench)
    bench.say("inject protective touched the bed rail")
    bench.until_state(ArmState.PROTECTIVE)
    began_s = bench.say("state")["time_s"]
    refused, why = bench.command(CommandKind.RECOVER)
    assert refused
    assert "after 5 s" in why
    assert bench.state is ArmState.PROTECTIVE
    assert bench.resume()[0]
    bench.until(lambda: bench.command(CommandKind.RECOVER)[0] == 0)
    assert bench.say("state")["time_s"] - began_s > 4.5
    bench.until_state(ArmState.HELD)
    resumed(bench)
    refused, why = bench.command(CommandKind.RECOVER)
    assert refused
    assert "READY" in why


def test_recover_works_again_after_the_dashboard_hung_up(bench: Bench) -> None:
    for _ in range(2):
        in_motion(bench)
        bench.say("inject drop dashboard")
        bench.say("inject protective touched the bed rail")
        bench.until_state(ArmState.PROTECTIVE)
        bench.until(lambda: bench.command(CommandKind.RECOVER)[0] == 0)
        resumed(bench)
    assert bench.processes["arm"].poll() is None


def test_a_dashboard_is_asked_on_a_new_connection_ten_times(bench: Bench) -> None:
    dashboard = Dashboard(bench.address)
    try:
        for _ in range(10):
            bench.say("inject drop dashboard")
            dashboard.demand_remote_control()
        bench.say("inject refuse dashboard on")
        bench.say("inject drop dashboard")
        with pytest.raises(RobotError, match=bench.address):
            dashboard.demand_remote_control()
        bench.say("inject refuse dashboard off")
        dashboard.demand_remote_control()
    finally:
        bench.say("inject refuse dashboard off")
        dashboard.close()


def test_an_emergency_stop_needs_its_button_released_and_power_on(bench: Bench) -> None:
    in_motion(bench)
    bench.say("inject estop on")
    bench.until_state(ArmState.ESTOP)
    refused, why = bench.command(CommandKind.POWER_ON)
    assert refused
    assert "release" in why
    bench.say("inject estop off")
    bench.until(lambda: bench.state not in (ArmState.ESTOP, ArmState.RUNNING, ArmState.RAMP_DOWN))
    bench.until(lambda: bench.command(CommandKind.POWER_ON)[0] == 0)
    resumed(bench)
    bench.finished(bench.move([0] * 6, 0.5))


def test_a_pendant_that_stops_the_player_is_a_hold(bench: Bench) -> None:
    in_motion(bench)
    bench.say("remote off")
    with_dashboard(bench, "stop")
    bench.until(lambda: ROBOT in bench.holds())
    bench.until(lambda: "local control" in ring.text(bench.status["holds"][0]["detail"]))
    assert bench.resume()[0]
    bench.say("remote on")
    resumed(bench)


def with_dashboard(bench: Bench, line: str) -> str:
    """What a person at the pendant does."""
    bench.say("remote on")
    with socket.create_connection((bench.address, 29999), 10) as s, s.makefile("rw") as f:
        f.readline()
        f.write(line + "\n")
        f.flush()
        answer = f.readline()
    bench.say("remote off")
    return answer


def test_a_lost_rtde_connection_holds_and_is_made_again(bench: Bench) -> None:
    pid = bench.processes["arm"].pid
    in_motion(bench)
    bench.say("inject refuse rtde on")
    bench.say("inject drop rtde")
    bench.until_state(ArmState.OFFLINE)
    bench.until(lambda: still(bench))
    assert bench.say("state")["output_ints"][0] in (0, 4)
    bench.say("inject refuse rtde off")
    resumed(bench)
    assert bench.processes["arm"].pid == pid
    assert bench.processes["arm"].poll() is None  # ur_rtde did not take the process down
    bench.finished(bench.move([0] * 6, 0.5))


def test_a_frozen_controller_is_offline_until_it_answers_again(bench: Bench) -> None:
    in_motion(bench)
    bench.say("inject freeze 2.5")
    bench.until_state(ArmState.OFFLINE)
    bench.until(lambda: ROBOT in bench.holds())  # the state is said in the same loop, the hold in the next
    resumed(bench)
    assert bench.processes["arm"].poll() is None


def test_sigterm_in_motion_comes_to_rest_says_bye_and_leaves_the_fingers(bench: Bench) -> None:
    in_motion(bench)
    grip = bench.status["grip_opening"]
    bench.processes["arm"].terminate()
    assert bench.processes["arm"].wait(60) == 0
    bench.until(lambda: bench.say("state")["runtime"] == "STOPPED")
    said = bench.say("state")
    assert said["output_ints"][0] == 5  # the player ended, it was not stopped
    bench.until(lambda: still(bench))
    assert said["safety_mode"] == "NORMAL"
    assert bench.status["grip_opening"] == grip
    assert bench.state is ArmState.OFFLINE
    restarted(bench)


def restarted(bench: Bench) -> None:
    """The others went on meanwhile, perhaps with a task: the next arm waits for a person, moved or not."""
    epoch = int(bench.status["plan_epoch"])
    bench.start("arm")
    bench.until(lambda: bench.state is ArmState.HELD and int(bench.status["plan_epoch"]) > epoch)
    bench.until(lambda: bench.holds() == [(HoldReason.WATCHDOG, ProcessId.ARM)])  # STARTING ends by itself
    bench.until(lambda: bench.resume()[0] == 0)
    bench.ready()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_arm_that_is_started_again_at_rest_waits_for_a_person_too(bench: Bench, number: int) -> None:
    bench.kill("arm", number)
    restarted(bench)


def test_arm_uploads_nothing_while_the_arm_moves(bench: Bench) -> None:
    bench.kill("arm")
    bench.until(lambda: still(bench))
    goal = [*bench.say("state")["q"][:5], float(HOME_Q[5]) + 0.5]
    with socket.create_connection((bench.address, 30002), 10) as s:  # somebody else's program
        s.sendall(f"def foreign():\n  movej({goal}, a=1.0, v=0.2)\nend\n".encode())
    bench.until(lambda: not still(bench))
    before = uploads(bench)
    bench.start("arm")
    speed = []
    while uploads(bench) == before:
        speed.append(float(np.max(np.abs(bench.say("state")["qd"]))))
        time.sleep(0.01)
    assert max(speed) > 0.1  # it was there while the arm moved
    assert bench.say("state")["q"][5] == pytest.approx(goal[5], abs=1e-3)  # and let it come to its end
    assert max(speed[-3:]) < 0.002
    resumed(bench)


def uploads(bench: Bench) -> int:
    """How often a player was started."""
    return sum("wardarm_player started" in line for _, line in bench.say("log 1000")["log"])


def test_no_permit_within_the_time_limit_discards(bench: Bench) -> None:
    """A gate whose line goes nowhere: a broken wire."""
    settings = dict(bench.settings)
    settings["gate"] = {**bench.settings["gate"], "output": f"unix:{bench.folder / 'nowhere.sock'}"}
    bench.file.write_text(json.dumps(settings))
    bench.kill("gate")
    bench.start("gate")
    try:
        resumed(bench)
        began = time.monotonic()
        trajectory = bench.move([0.1, 0, 0, 0, 0, 0], MOVE_S)
        bench.until_state(ArmState.LOADED)
        assert bench.refusal(trajectory) is RefusalReason.NOT_READY
        assert time.monotonic() - began >= 2.0
        bench.ready()
        assert bench.status["motion_request"] == 0
    finally:
        bench.file.write_text(json.dumps(bench.settings))
        bench.kill("gate")
        bench.start("gate")
    resumed(bench)
    bench.finished(bench.move([0] * 6, 0.5))
