"""arm with the real ur_rtde, the real gate and the simulated controller: what moves, what is refused, what stops it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from arm_bench import HOME_Q, STALE_S, Bench, quintic_bridge, quintic_move
from wardarm.arm.admit import quintic
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, CommandKind, Holding, HoldReason, ProcessId, RefusalReason, Source

PAN = (0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
BACK = (-0.3, 0.0, 0.0, 0.0, 0.0, 0.0)
MOVE_S = 2.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(tmp_path_factory.mktemp("arm"), 1) as bench:
        yield bench


@pytest.fixture
def bench(whole: Bench) -> Bench:
    """At rest, nothing held, nothing wrong, near home."""
    whole.speakers.wrong.clear()
    whole.speakers.silent.clear()

    def clear() -> bool:
        if whole.state is ArmState.READY:
            return True
        if whole.state is ArmState.HELD:
            whole.resume()
        return False

    whole.until(clear)
    return whole


def away(bench: Bench) -> tuple[float, ...]:
    """A pan away from where the arm stands, back and forth over the tests."""
    return PAN if bench.status["q_rad"][0] < HOME_Q[0] + 0.15 else BACK


def pwm_on(bench: Bench) -> bool:
    slot = ring.Reader(BlockKind.GATE_STATUS, bench.prefix).latest()
    return slot is not None and bool(slot.data["pwm_on"])


def test_a_trajectory_runs_to_its_end(bench: Bench) -> None:
    start, step = np.array(bench.status["target_q_rad"]), away(bench)
    request = int(bench.status["request_seq"])
    trajectory = bench.move(step, MOVE_S)
    bench.moving_beyond(0.3)
    status = bench.status
    assert status["playing_id"] == trajectory
    assert status["motion_request"] == 1
    assert status["request_seq"] == request + 1
    assert status["path_duration_s"] == pytest.approx(MOVE_S, abs=1e-6)
    bench.finished(trajectory)
    bench.until(lambda: bool(bench.status["at_rest"]))
    status = bench.status
    assert bench.state is ArmState.READY
    assert status["motion_request"] == 0
    np.testing.assert_allclose(status["target_q_rad"], start + step, atol=1e-6)
    np.testing.assert_allclose(status["q_rad"], start + step, atol=1e-3)
    bench.until(lambda: not pwm_on(bench))
    edge, accept, first = (int(status[f"{n}_cycle"]) for n in ("permit_edge", "permit_accept", "first_motion"))
    assert edge < accept <= first <= edge + 7
    assert first <= accept + 2


def test_another_joins_under_way_and_the_arm_ends_where_the_second_one_says(bench: Bench) -> None:
    start, step = np.array(bench.status["target_q_rad"]), away(bench)
    first_knots = quintic_move(start, step, MOVE_S)
    first = bench.trajectory(first_knots)
    bench.moving_beyond(0.2)
    join_s = 1.0
    goal = start + np.multiply(step, 0.8) + np.array([0, 0, 0.05, 0, 0, 0])
    second = bench.trajectory(quintic_bridge(quintic(first_knots, join_s), goal, 2.0), join=(first, join_s))
    bench.until(lambda: int(bench.status["loaded_id"]) == second)
    assert int(bench.status["playing_id"]) == first
    bench.until(lambda: int(bench.status["playing_id"]) == second)
    bench.finished(second)
    np.testing.assert_allclose(bench.status["target_q_rad"], goal, atol=1e-6)
    assert bench.holds() == []
    assert int(bench.status["refused_id"]) not in (first, second)
    bench.finished(bench.trajectory(quintic_move(goal, start + step - goal, 2.0)))


def test_a_person_in_the_zone_stops_the_arm_and_only_a_complete_resume_ends_it(bench: Bench) -> None:
    epoch = int(bench.status["plan_epoch"])
    trajectory = bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.5)
    bench.speakers.wrong[ProcessId.GUARD] = (HoldReason.INTRUDER, "a person in zone 2")
    bench.until_state(ArmState.HELD)
    bench.until(lambda: bool(bench.status["at_rest"]))
    status = bench.status
    assert bench.holds() == [(HoldReason.INTRUDER, ProcessId.GUARD)]
    assert "a person in zone 2" in ring.text(status["holds"][0]["detail"])
    assert status["motion_request"] == 0
    assert int(status["plan_epoch"]) > epoch
    assert int(status["finished_id"]) != trajectory
    stood = np.array(status["target_q_rad"])

    refused, why = bench.resume()
    assert refused
    assert "INTRUDER" in why
    bench.speakers.wrong.clear()
    bench.until(lambda: "resume again" in bench.command(CommandKind.RESUME, [])[1])
    assert bench.state is ArmState.HELD
    bench.until(lambda: bench.resume()[0] == 0)
    bench.ready()
    assert not pwm_on(bench)
    assert bench.refusal(bench.move(away(bench), MOVE_S, epoch=epoch)) is RefusalReason.EPOCH
    np.testing.assert_allclose(bench.status["target_q_rad"], stood, atol=1e-9)  # nothing went on by itself
    bench.finished(bench.move(away(bench), MOVE_S))


def test_a_silent_api_is_a_watchdog_hold(bench: Bench) -> None:
    bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.3)
    bench.speakers.silent.add(ProcessId.API)
    bench.until_state(ArmState.HELD)
    assert bench.holds() == [(HoldReason.WATCHDOG, ProcessId.API)]


def test_an_eye_that_says_hold_stops_although_gate_does_not_need_its_word(bench: Bench) -> None:
    bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.3)
    bench.speakers.wrong[ProcessId.EYE] = (HoldReason.CAMERA_LOST, "no frame for 0.5 s")
    bench.until_state(ArmState.HELD)
    assert bench.holds() == [(HoldReason.CAMERA_LOST, ProcessId.EYE)]


def test_stop_latches(bench: Bench) -> None:
    bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.3)
    assert bench.command(CommandKind.STOP) == (0, "")
    bench.until_state(ArmState.HELD)
    assert bench.holds() == [(HoldReason.STOP, ProcessId.API)]
    assert bench.command(CommandKind.RESUME, [])[0]
    bench.until(lambda: bench.resume() == (0, ""))
    bench.ready()


def test_moving_on_a_model_s_chunk_without_a_new_one_is_stale(bench: Bench) -> None:
    bench.move(away(bench), 4.0, source=Source.MODEL)
    bench.moving_beyond(0.3)
    bench.until_state(ArmState.HELD)
    assert bench.holds() == [(HoldReason.INFERENCE_STALE, ProcessId.EYE)]
    assert f"limit {STALE_S:g} s" in ring.text(bench.status["holds"][0]["detail"])


def test_what_is_refused_changes_nothing(bench: Bench) -> None:
    start, step = np.array(bench.status["target_q_rad"]), away(bench)
    elsewhere = quintic_move(start + 0.03, step, MOVE_S)
    assert bench.refusal(bench.trajectory(elsewhere)) is RefusalReason.START
    assert bench.refusal(bench.move(step, MOVE_S, epoch=int(bench.status["plan_epoch"]) - 1)) is RefusalReason.EPOCH
    assert bench.refusal(bench.move(step, 0.6)) is RefusalReason.ENVELOPE  # 0.9 rad/s and more: too fast
    assert bench.refusal(bench.trajectory(elsewhere, join=(4711, 0.5))) is RefusalReason.UNKNOWN_JOIN
    assert bench.state is ArmState.READY
    assert bench.status["motion_request"] == 0

    knots = quintic_move(start, step, MOVE_S)
    first = bench.trajectory(knots)
    bench.moving_beyond(0.8)
    join_s = float(bench.status["path_s"]) + 0.05
    late = bench.trajectory(quintic_bridge(quintic(knots, join_s), start + step, 2.0), join=(first, join_s))
    assert bench.refusal(late) is RefusalReason.LATE
    join_s = float(bench.status["path_s"]) + 0.6
    bent = quintic_bridge(quintic(knots, join_s), start + step, 1.5)
    bent["qd_rad_s"][0, 0] += 0.01
    assert bench.refusal(bench.trajectory(bent, join=(first, join_s))) is RefusalReason.DISCONTINUOUS
    bench.finished(first)
    np.testing.assert_allclose(bench.status["target_q_rad"], start + step, atol=1e-6)
    assert bench.holds() == []


def test_arm_killed_in_motion_ramps_and_the_next_arm_asks_a_person(bench: Bench) -> None:
    bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.5)
    epoch, request = int(bench.status["plan_epoch"]), int(bench.status["request_seq"])
    bench.kill("arm")
    bench.until(lambda: not any(bench.say("state")["qd"]))
    said = bench.say("state")
    assert said["output_ints"][0] == 4  # the player is HELD: it came to rest by itself
    assert said["safety_mode"] == "NORMAL"
    stood = said["q"]
    bench.start("arm")
    bench.until(lambda: bench.state is ArmState.HELD and int(bench.status["plan_epoch"]) > epoch)
    status = bench.status
    assert (HoldReason.WATCHDOG, ProcessId.ARM) in bench.holds()
    assert int(status["plan_epoch"]) > epoch
    assert int(status["request_seq"]) == request
    bench.until(lambda: bench.resume()[0] == 0)
    bench.ready()
    np.testing.assert_allclose(bench.status["q_rad"], stood, atol=1e-6)
    bench.finished(bench.move(away(bench), MOVE_S))


def test_gate_killed_in_motion_ramps_and_is_a_gate_fault(bench: Bench) -> None:
    bench.move(away(bench), MOVE_S)
    bench.moving_beyond(0.5)
    bench.kill("gate")
    bench.until(lambda: bool(bench.status["at_rest"]))
    assert bench.state is ArmState.HELD
    assert (HoldReason.GATE_FAULT, ProcessId.GATE) in bench.holds()
    assert bench.resume()[0]  # no gate yet
    bench.start("gate")
    bench.until(lambda: bench.resume()[0] == 0)
    bench.finished(bench.move(away(bench), MOVE_S))


def test_holding_is_what_the_gripper_says(bench: Bench) -> None:
    start, epoch = np.array(bench.status["target_q_rad"]), int(bench.status["plan_epoch"])
    bench.say("object 0.4")
    bench.finished(bench.trajectory(quintic_move(start, [0] * 6, 1.0, opening=0.0)))
    bench.until(lambda: int(bench.status["holding"]) == Holding.YES)
    assert bench.status["grip_opening"] == pytest.approx(0.4, abs=0.01)
    assert bench.status["grip_target"] == 0.0

    bench.kill("arm")
    bench.start("arm")  # it cannot know what that is
    bench.until(lambda: bench.state is ArmState.HELD and int(bench.status["plan_epoch"]) > epoch)
    bench.until(lambda: bench.resume()[0] == 0)
    bench.ready()
    bench.until(lambda: int(bench.status["holding"]) == Holding.UNKNOWN)
    bench.say("object none")
    bench.finished(bench.trajectory(quintic_move(np.array(bench.status["target_q_rad"]), [0] * 6, 1.0, opening=1.0)))
    bench.until(lambda: int(bench.status["holding"]) == Holding.NO)


def test_losing_what_is_held_on_the_way_is_a_hold(bench: Bench) -> None:
    start = np.array(bench.status["target_q_rad"])
    bench.say("object 0.4")
    bench.finished(bench.trajectory(quintic_move(start, [0] * 6, 1.0, opening=0.0)))
    bench.until(lambda: int(bench.status["holding"]) == Holding.YES)
    bench.trajectory(quintic_move(start, away(bench), MOVE_S, opening=0.0))
    bench.moving_beyond(0.3)
    lost_s = float(bench.say("state")["time_s"])
    bench.say("object none")
    bench.until(lambda: bool(bench.holds()))
    noticed_s = float(bench.status["controller_s"])
    assert bench.holds() == [(HoldReason.GRIP_LOST, ProcessId.ARM)]
    print(f"noticed {1e3 * (noticed_s - lost_s):.0f} ms after it was lost, controller time")
    assert noticed_s - lost_s < 0.5
    bench.until_state(ArmState.HELD)
    bench.until(lambda: bench.resume()[0] == 0)
    bench.finished(bench.trajectory(quintic_move(np.array(bench.status["target_q_rad"]), [0] * 6, 1.0, opening=1.0)))


def test_the_loop_costs_little(bench: Bench) -> None:
    pid = bench.processes["arm"].pid

    def cpu_s() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, began = cpu_s(), time.monotonic()
    bench.finished(bench.move(away(bench), MOVE_S))
    share = (cpu_s() - before) / (time.monotonic() - began)
    print(f"arm: {100 * share:.1f} % of a core")
    assert share < 0.25
