"""player.script on the simulated controller: starts, joins, holds, refusals, gripper. Asserted on controller cycles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from patience import soonest
from player_bench import HELD, HOME, IDLE, LOADED, RAMP_S, RAMPING, RUNNING, Bench, bench, column, knots_of, law
from ur_bench import Robot, robot
from wardarm.arm.wire import BLOCK_BYTES, encode_bye, encode_trajectory
from wardarm.shm.layouts import RefusalReason

MOVE = np.array([0.4, 0.1, -0.1, 0.05, 0.0, 0.2])
DURATION_S = 1.5
PATH, RATE, OPENING = "output_double_register_12", "output_double_register_13", "output_double_register_14"


@pytest.fixture(scope="module")
def controller() -> Iterator[Robot]:
    with robot("--reads-per-cycle", "1") as running:  # the slowest case
        yield running


@pytest.fixture
def player(controller: Robot) -> Iterator[Bench]:
    controller.ask("place " + " ".join(str(q) for q in HOME))
    controller.ask("pwm 8 off")
    controller.ask("slider 1")
    controller.wait("full speed", lambda s: s["speed_scaling"] == 1.0)
    ours = Bench(controller)
    yield ours
    ours.close()


def jerk_of(q: np.ndarray) -> float:
    return float(np.abs(np.diff(q, n=3, axis=0)).max() / 0.002**3)


def begin(player: Bench, id: int = 5, duration_s: float = DURATION_S) -> tuple[object, np.ndarray]:
    """Load from rest and give the permit; returns the law and its knots."""
    at = law(HOME, MOVE, duration_s)
    knots = knots_of(at, duration_s)
    player.send(id, knots)
    player.until(14, id)
    player.pwm(True)
    return at, knots


def test_it_starts_within_cycles_of_the_first_pulse_and_plays_the_law(player: Bench) -> None:
    at = law(HOME, MOVE, DURATION_S)
    player.send(5, knots_of(at, DURATION_S))
    state = player.until(14, 5)
    assert state["output_ints"][0] == LOADED
    assert state["q"] == pytest.approx(list(HOME), abs=1e-9)
    player.pwm(True)
    done = player.until(17, 5)
    assert (done["output_ints"][0], done["output_ints"][1]) == (IDLE, 0)
    first_edge, accepted, moved = done["output_doubles"][3:6]
    assert 0 < accepted - first_edge <= 6
    assert 0 < moved - accepted <= 2
    player.robot.wait("rest", lambda s: max(map(abs, s["qd"])) < 1e-6)
    rows = player.recording.stop()
    running = np.flatnonzero(column(rows, 12) == RUNNING)
    assert len(running) == round(DURATION_S / 0.002) - 1
    away = max(np.abs(rows["target_q"][i] - at(rows[PATH][i])[0]).max() for i in running)
    assert away < 1e-7
    assert np.abs(rows["target_q"][-1] - (HOME + MOVE)).max() < 1e-7
    assert jerk_of(rows["target_q"]) < 1.02 * 60 * MOVE.max() / DURATION_S**3


def test_without_a_trajectory_a_permit_moves_nothing(player: Bench) -> None:
    player.pwm(True)
    player.robot.wait("a permit", lambda s: s["output_doubles"][4] > 0)
    player.robot.wait("half a second", lambda s: s["output_ints"][6] > s["output_doubles"][4] + 250)
    rows = player.recording.stop()
    assert np.abs(rows["target_qd"]).max() == 0.0


@pytest.mark.parametrize("missing", ["beat", "pulses", "request"])
def test_motion_needs_pulses_beat_and_request(player: Bench, missing: str) -> None:
    if missing == "beat":
        player.beating = False
    if missing == "request":
        player.io.setInputIntRegister(19, 0)
    stamp = player.robot.state()["output_ints"][6]
    player.robot.wait("the beat to be old", lambda s: s["output_ints"][6] > stamp + 120)
    player.send(5, knots_of(law(HOME, MOVE, DURATION_S), DURATION_S))
    player.until(14, 5)
    if missing != "pulses":
        player.pwm(True)
    stamp = player.robot.state()["output_ints"][6]
    state = player.robot.wait("0.3 s", lambda s: s["output_ints"][6] > stamp + 150)
    assert state["output_ints"][0] == LOADED
    assert state["output_doubles"][0] == 0.0


def test_pulses_of_a_wrong_frequency_are_no_permit(player: Bench) -> None:
    player.send(5, knots_of(law(HOME, MOVE, DURATION_S), DURATION_S))
    player.until(14, 5)
    for frequency_hz in (500, 1500):
        player.robot.ask(f"pwm 8 on {frequency_hz}")
        stamp = player.robot.state()["output_ints"][6]
        state = player.robot.wait("0.1 s", lambda s, stamp=stamp: s["output_ints"][6] > stamp + 50)
        assert state["output_ints"][0] == LOADED
    player.pwm(True)
    player.until(12, RUNNING)


def test_a_replacement_takes_over_at_the_join_without_a_step(player: Bench) -> None:
    join_s, duration_s = 1.0007, 2.0  # between two cycles
    at, _ = begin(player, duration_s=duration_s)
    there = at(join_s)
    other = quintic_to_rest(there, there[0] + np.array([0.1, -0.1, 0.05, 0, 0.1, 0]), 1.2)
    player.until_path(0.2)
    player.send(6, knots_of(other, 1.2), join_id=5, join_path_s=join_s)
    accepted = player.until(14, 6)
    assert accepted["output_ints"][1] == 5
    player.until(13, 6)
    player.until(17, 6)
    rows = player.recording.stop()
    ids, path = column(rows, 13), rows[PATH]
    first = int(np.flatnonzero(ids == 6)[0])
    assert path[first - 1] == pytest.approx(join_s - 0.002, abs=0.0021)
    assert path[first] == pytest.approx(path[first - 1] + 0.002 - join_s, abs=1e-9)
    moved = np.flatnonzero(ids == 6)
    assert max(np.abs(rows["target_q"][i] - other(path[i])[0]).max() for i in moved) < 1e-7
    smooth = max(60 * np.abs(MOVE).max() / duration_s**3, highest_jerk(other, 1.2))
    assert jerk_of(rows["target_q"][first - 20 : first + 20]) < 1.1 * smooth


def quintic_to_rest(start: tuple[np.ndarray, np.ndarray, np.ndarray], end: np.ndarray, duration_s: float) -> object:
    """The quintic from (q, qd, qdd) to rest at `end`."""
    q0, v0, a0 = start
    t = duration_s
    powers = np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0],
            [0, 0, 2, 0, 0, 0],
            [t**k for k in range(6)],
            [k * t ** max(k - 1, 0) for k in range(6)],
            [k * (k - 1) * t ** max(k - 2, 0) for k in range(6)],
        ]
    )
    c = np.linalg.solve(powers, np.array([q0, v0, a0, end, 0 * end, 0 * end]))

    def at(x: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = min(max(x, 0.0), duration_s)
        return (
            sum(c[k] * x**k for k in range(6)),
            sum(k * c[k] * x ** (k - 1) for k in range(1, 6)),
            sum(k * (k - 1) * c[k] * x ** (k - 2) for k in range(2, 6)),
        )

    return at


def highest_jerk(at: object, duration_s: float) -> float:
    qdd = np.array([at(x)[2] for x in np.arange(0, duration_s, 0.002)])
    return float(np.abs(np.diff(qdd, axis=0)).max() / 0.002)


def refusal(player: Bench, id: int) -> int:
    state = player.until(15, id)
    return int(state["output_ints"][4])


def test_what_does_not_fit_is_refused_and_the_motion_goes_on(player: Bench) -> None:
    duration_s = 3.0
    at, _ = begin(player, duration_s=duration_s)
    player.until_path(0.6)
    there = at(2.5)
    good = knots_of(quintic_to_rest(there, there[0] + 0.05, 1.0), 1.0)
    player.send(11, good, join_id=5, join_path_s=0.3)
    assert refusal(player, 11) == RefusalReason.LATE
    player.send(12, good, join_id=4, join_path_s=2.5)
    assert refusal(player, 12) == RefusalReason.UNKNOWN_JOIN
    off = good.copy()
    off[:, 1] += 0.001
    player.send(13, off, join_id=5, join_path_s=2.5)
    assert refusal(player, 13) == RefusalReason.DISCONTINUOUS
    faster = good.copy()
    faster[0, 7] += 0.01
    player.send(14, faster, join_id=5, join_path_s=2.5)
    assert refusal(player, 14) == RefusalReason.DISCONTINUOUS
    never_rests = good.copy()
    never_rests[-1, 8] = 0.1
    player.send(15, never_rests, join_id=5, join_path_s=2.5)
    assert refusal(player, 15) == RefusalReason.DISCONTINUOUS
    message, _ = encode_trajectory(16, 5, 2.5, RAMP_S, 1.0, 0.0, good)
    broken = bytearray(message)
    broken[BLOCK_BYTES + 8] ^= 1
    player.link.sendall(broken)
    assert refusal(player, 16) == RefusalReason.CHECKSUM
    player.send(17, knots_of(law(HOME, MOVE, 1.0), 1.0))
    assert refusal(player, 17) == RefusalReason.NOT_READY
    player.send(5, good, join_id=5, join_path_s=2.5)
    assert refusal(player, 5) == RefusalReason.EPOCH
    player.until(17, 5)
    rows = player.recording.stop()
    assert set(column(rows, 13)) == {0, 5}
    running = np.flatnonzero(column(rows, 12) == RUNNING)
    assert max(np.abs(rows["target_q"][i] - at(rows[PATH][i])[0]).max() for i in running) < 1e-7


def test_a_start_away_from_the_commanded_position_is_refused(player: Bench) -> None:
    player.send(5, knots_of(law(HOME + 0.0011, MOVE, 1.0), 1.0))
    assert refusal(player, 5) == RefusalReason.START
    player.pwm(True)
    player.send(6, knots_of(law(HOME + 0.0009, MOVE, 1.0), 1.0))
    player.until(17, 6)
    rows = player.recording.stop()
    assert np.abs(rows["target_q"][-1] - (HOME + 0.0009 + MOVE)).max() < 1e-7
    assert jerk_of(rows["target_q"]) < 60 * 0.4 + 60 * 0.0009 / 0.2**3 + 0.5  # the law's, and the fading distance


@pytest.mark.parametrize("cause", ["pulses", "beat", "request"])
def test_a_lost_permit_ramps_along_the_path_to_held(player: Bench, cause: str) -> None:
    at, _ = begin(player, duration_s=2.0)
    player.until_path(0.7)
    if cause == "pulses":
        player.pwm(False)
    elif cause == "beat":
        player.beating = False
    else:
        player.io.setInputIntRegister(19, 0)
    player.until(12, HELD)
    player.robot.wait("rest", lambda s: max(map(abs, s["qd"])) < 1e-6)
    rows = player.recording.stop()
    states = column(rows, 12)
    ramp = np.flatnonzero(states == RAMPING)
    assert len(ramp) == pytest.approx(RAMP_S / 0.002, abs=1)
    path = rows[PATH]
    away = max(np.abs(rows["target_q"][i] - at(path[i])[0]).max() for i in ramp)
    assert away < 1e-7, "it left the path"
    gone = path[ramp[-1] + 1] - path[ramp[0] - 1]
    assert gone == pytest.approx(0.528 * RAMP_S, abs=0.0021)
    rate = rows[RATE][ramp]
    assert (np.diff(rate) <= 1e-12).all()
    u = (np.arange(len(ramp)) + 1) * 0.002 / RAMP_S
    fine = np.linspace(0, 1, 200_001)  # the braking: up over half of the ramp, held, and down over the last 35 %
    braking = np.interp(fine, [0, 0.5, 0.65, 1], [0, 1, 1, 0]) / 0.575
    falling = 1 - np.concatenate([[0], np.cumsum((braking[1:] + braking[:-1]) / 2 * np.diff(fine))])
    gone_u = np.concatenate([[0], np.cumsum((falling[1:] + falling[:-1]) / 2 * np.diff(fine))])
    assert rate == pytest.approx(np.interp(u, fine, falling), abs=1e-6)
    steps = np.diff(path[ramp[0] - 1 : ramp[-1] + 1]) / RAMP_S
    assert steps == pytest.approx(np.diff(np.interp(u, fine, gone_u), prepend=0.0), abs=1e-8)
    assert np.abs(rows["target_qd"][-1]).max() == 0.0
    assert column(rows, 13)[-1] == 0


def test_the_ramp_begins_within_10_ms_of_the_last_pulse(player: Bench) -> None:
    begin(player, duration_s=2.0)
    player.until_path(0.5)
    off = player.robot.ask("pwm 8 off")["cycle"]
    player.until(12, HELD)
    rows = player.recording.stop()
    ramp = int(np.flatnonzero(column(rows, 12) == RAMPING)[0])
    assert round(rows["timestamp"][ramp] / 0.002) - off <= 5


def test_a_permit_that_comes_back_resumes_nothing_and_discard_clears(player: Bench) -> None:
    at, _ = begin(player, duration_s=2.0)
    player.until_path(0.5)
    player.pwm(False)
    held = player.until(12, HELD)
    player.pwm(True)
    stamp = held["output_ints"][6]
    state = player.robot.wait("half a second", lambda s: s["output_ints"][6] > stamp + 250)
    assert state["output_ints"][0] == HELD
    assert state["target_q"] == held["target_q"]
    here = np.array(state["target_q"])
    player.send(6, knots_of(law(here, -MOVE / 2, 1.0), 1.0))
    assert refusal(player, 6) == RefusalReason.NOT_READY
    player.discard()
    player.until(12, IDLE)
    player.send(7, knots_of(law(here, -MOVE / 2, 1.0), 1.0))
    done = player.until(17, 7)
    assert done["target_q"] == pytest.approx(list(here - MOVE / 2), abs=1e-7)
    assert np.abs(here - at(done["output_doubles"][0])[0]).max() > 0  # it stood on the old path, not at its end


def test_discard_under_way_ramps_to_rest_and_then_forgets(player: Bench) -> None:
    begin(player, duration_s=2.0)
    player.until_path(0.5)
    player.discard()
    player.until(12, IDLE)
    states = column(player.recording.stop(), 12)
    seen = [int(s) for s in states[np.flatnonzero(np.diff(states, prepend=-1))]]
    assert seen == [IDLE, LOADED, RUNNING, RAMPING, HELD, IDLE]


def test_a_silent_arm_leaves_it_to_end_at_rest(player: Bench) -> None:
    begin(player)
    player.until_path(0.3)
    player.link.close()
    player.until(17, 5)
    player.link, _ = player.server.accept()  # it calls again
    player.send(6, knots_of(law(HOME + MOVE, -MOVE, 1.0), 1.0))
    player.until(17, 6)


def test_half_a_message_changes_nothing_and_the_player_calls_again(player: Bench) -> None:
    message, _ = encode_trajectory(5, 0, 0.0, RAMP_S, 1.0, 0.0, knots_of(law(HOME, MOVE, 1.0), 1.0))
    player.link.sendall(message[:-40])
    player.link.close()
    player.link, _ = player.server.accept()
    assert player.register(14) == 0
    player.send(6, knots_of(law(HOME, MOVE, 1.0), 1.0))
    player.until(14, 6)


def test_a_foreign_message_closes_the_connection(player: Bench) -> None:
    player.link.sendall(bytes(BLOCK_BYTES))
    player.link, _ = player.server.accept()
    player.send(6, knots_of(law(HOME, MOVE, 1.0), 1.0))
    player.until(14, 6)


def test_a_newer_trajectory_from_rest_replaces_the_loaded_one(player: Bench) -> None:
    player.send(5, knots_of(law(HOME, MOVE, 1.0), 1.0))
    player.until(14, 5)
    player.send(6, knots_of(law(HOME, -MOVE, 1.0), 1.0))
    player.until(14, 6)
    player.pwm(True)
    done = player.until(17, 6)
    assert done["target_q"] == pytest.approx(list(HOME - MOVE), abs=1e-7)


def test_the_slider_slows_the_path_but_not_the_ramp(player: Bench) -> None:
    player.robot.ask("slider 0.5")
    player.robot.wait("half speed", lambda s: s["speed_scaling"] == 0.5)
    begin(player, duration_s=2.0)
    player.until_path(0.7)
    player.pwm(False)
    player.until(12, HELD)
    rows = player.recording.stop()
    states = column(rows, 12)
    running, ramp = np.flatnonzero(states == RUNNING), np.flatnonzero(states == RAMPING)
    assert rows[PATH][running[-1]] / (len(running) * 0.002) == pytest.approx(0.5, abs=0.02)
    assert len(ramp) * 0.002 == pytest.approx(RAMP_S, abs=0.008)


def test_a_gap_in_the_pulses_counts_even_between_two_rounds_of_a_slow_motion_loop(player: Bench) -> None:
    begin(player, duration_s=2.0)
    player.until_path(0.5)
    player.robot.ask("slider 0.02")  # one round takes 0.1 s
    player.robot.wait("slow motion", lambda s: s["speed_scaling"] == 0.02)
    off = player.robot.ask("pwm 8 off")["cycle"]
    player.robot.wait("10 cycles", lambda s: s["cycle"] >= off + 10)
    player.pwm(True)
    player.until(12, HELD)


def test_a_program_that_stood_still_holds_when_it_goes_on(player: Bench) -> None:
    begin(player, duration_s=2.0)
    player.until_path(0.5)
    player.robot.ask("inject safeguard on")
    stopped = player.robot.wait("the pause", lambda s: s["runtime"] == "PAUSED")
    player.robot.wait("0.2 s", lambda s: s["cycle"] > stopped["cycle"] + 100)
    player.robot.ask("inject safeguard off")
    player.until(12, HELD)
    rows = player.recording.stop()
    assert np.abs(rows["target_q"][-1] - stopped["target_q"]).max() < 0.005


@pytest.fixture
def fresh() -> Iterator[Bench]:
    with bench() as ours:
        yield ours


def test_gripper_openings_are_carried_out_and_kept_on_hold(fresh: Bench) -> None:
    player = fresh
    at = law(HOME, MOVE, 3.0)
    player.send(5, knots_of(at, 3.0, grip=lambda t: 1.0 if t < 0.5 else 0.25 if t < 1.0 else 0.0), payload_kg=0.25)
    player.until(14, 5)
    assert player.robot.state()["payload_kg"] == 0.0
    player.pwm(True)
    player.until_path(0.3)
    player.robot.wait("open fingers", lambda s: s["payload_kg"] == pytest.approx(1.03))
    player.until_path(0.8)
    assert player.robot.state()["output_doubles"][2] == 0.25
    player.robot.wait("the closed fingers' payload", lambda s: s["payload_kg"] == pytest.approx(1.28))
    assert player.robot.state()["output_doubles"][0] >= 1.0
    player.pwm(False)
    held = player.until(12, HELD)
    assert held["output_doubles"][2] == 0.0
    assert ask_gripper(player, "GET PRE") == "PRE 255"
    assert ask_gripper(player, "GET FOR") == f"FOR {player.parameters.gripper_force}"
    player.discard()
    player.until(12, IDLE)
    assert ask_gripper(player, "GET PRE") == "PRE 255"
    assert player.robot.state()["payload_kg"] == pytest.approx(1.28)


def ask_gripper(player: Bench, line: str) -> str:
    import socket

    with socket.create_connection((player.robot.address, 63352), timeout=60) as link:
        link.sendall(line.encode() + b"\n")
        return link.makefile("r").readline().strip()


def test_bye_ends_the_program_at_rest(player: Bench) -> None:
    begin(player, duration_s=2.0)
    player.until_path(0.5)
    player.link.sendall(encode_bye())
    player.robot.wait("the end", lambda s: s["runtime"] == "STOPPED")
    rows = player.recording.stop()
    assert int(np.count_nonzero(column(rows, 12) == RAMPING)) == pytest.approx(RAMP_S / 0.002, abs=1)
    assert player.robot.state()["last_error"] == ""
    player.link.settimeout(5)
    while player.link.recv(64):  # what it said while nothing arrived; times out if the connection stays open
        pass


def test_loading_takes_one_cycle_a_block(player: Bench) -> None:
    knots = knots_of(law(HOME, MOVE, 3.15), 3.15)
    assert len(knots) == 64
    numbers = itertools.count(5)

    def loaded_cycles() -> int:
        number, before = next(numbers), player.robot.state()["cycle"]
        player.send(number, knots)
        cycles = int(player.until(14, number)["cycle"] - before)
        assert cycles >= 64
        player.discard()
        player.until(12, IDLE)
        return cycles

    soonest(loaded_cycles, 64 + 40)
