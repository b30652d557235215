"""What no robot can do, asked of the simulated one: it stops from the speed it has, or says which argument is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import Runtime, SafetyMode

START = (0.0, -1.57, 1.57, -1.57, -1.57, 0.0)
GOAL = "[0.1, -1.57, 1.57, -1.57, -1.57, 0]"
POSE = "p[0.4, 0.0, 0.3, 0, 3.14159, 0]"
STEPS = {
    "half a turn": "servoj([3.14, -1.57, 1.57, -1.57, -1.57, 0], t=0.002, lookahead_time=0.03)",
    "half a turn while moving": "speedj([0.5, 0, 0, 0, 0, 0], 2, 0.5)\n"
    "servoj([3.14, -1.57, 1.57, -1.57, -1.57, 0], t=0.002, lookahead_time=0.03)",
    "a long look-ahead": "servoj([3.14, -1.57, 1.57, -1.57, -1.57, 0], t=0.002, lookahead_time=0.2)",
    "an offset of 20 mm": "path_offset_enable()\npath_offset_set(p[0.02, 0, 0, 0, 0, 0], 1)\nsleep(1)",
    "an offset while moving": "path_offset_enable()\nspeedj([0.5, 0, 0, 0, 0, 0], 2, 0.5)\n"
    "path_offset_set(p[0.02, 0, 0, 0, 0, 0], 2)\nsleep(1)",
}


def stepped(body: str, seconds: float = 3.0) -> Lockstep:
    sim = Lockstep(KinematicPlant(START, 0.0), q=START)
    sim.load(f"def p():\n{body}\nend\n")
    sim.run(seconds)
    return sim


@pytest.mark.parametrize("body", STEPS.values(), ids=STEPS)
def test_a_step_that_no_robot_can_take_never_becomes_a_speed(body: str) -> None:
    sim = stepped(body)
    assert sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "deg/s, limit 190" in sim.controller.safety.reason
    assert sim.controller.safety.code == 204
    q, qd = sim.history["target_q_rad"], sim.history["target_qd_rad_s"]
    assert np.abs(qd).max() <= 0.51
    assert np.abs(np.diff(q, axis=0)).max() / 0.002 <= 0.51
    assert np.abs(np.diff(qd, axis=0)).max() / 0.002 <= 40.001
    assert np.abs(q[-1] - START).max() < 0.3
    assert qd[-1].tolist() == [0.0] * 6


@pytest.mark.parametrize("body", STEPS.values(), ids=STEPS)
def test_a_stop_after_such_a_step_can_be_unlocked_and_stays_so(body: str) -> None:
    sim = stepped(body, 7.0)
    stood = sim.target_q_rad.copy()
    sim.controller.safety.unlock_protective_stop(sim.time_s)
    sim.run(1.0)
    assert sim.controller.safety.mode is SafetyMode.NORMAL
    assert np.abs(sim.target_q_rad - stood).max() < 1e-9


def test_a_program_goes_on_after_an_offset_that_was_too_much_without_it() -> None:
    sim = stepped(STEPS["an offset of 20 mm"] + "\ntextmsg(path_offset_get(1))\npath_offset_disable()", 7.0)
    sim.controller.safety.unlock_protective_stop(sim.time_s)
    assert sim.controller.play()
    sim.run(2.0)
    assert sim.controller.safety.mode is SafetyMode.NORMAL
    assert "textmsg: p[0, 0, 0, 0, 0, 0]" in sim.log(20)
    assert np.abs(sim.target_q_rad - START).max() < 1e-9


def test_an_offset_that_a_filter_brings_in_holds_through_a_stop_and_a_stopj() -> None:
    body = (
        "path_offset_enable()\npath_offset_set_alpha_filter(0.01)\npath_offset_set(p[0.02, 0, 0, 0, 0, 0], 1)\n"
        "sleep(4)\nstopj(2)\nsleep(1)\n"
    )
    sim = stepped(body, 5.0)
    assert sim.controller.safety.mode is SafetyMode.NORMAL
    x = np.array([sim.controller.kinematics.flange(q)[9:] for q in (START, sim.target_q_rad)])
    assert x[1] - x[0] == pytest.approx([0.02, 0, 0], abs=1e-6)


def test_joints_stop_before_their_limit_however_fast_they_go_there() -> None:
    for speed in (1.0, 3.0):
        sim = stepped(f"speedj([0, 0, 0, 0, 0, {speed}], 10, 20)", 10.0)
        assert sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
        assert np.abs(sim.history["target_q_rad"]).max() <= math.radians(363) + 1e-9


NOTHING = {
    f"movej({GOAL}, a={{}})": "a", f"movej({GOAL}, v={{}})": "v", f"movel({POSE}, a={{}})": "a",
    f"movel({POSE}, v={{}})": "v", f"movep({POSE}, a={{}})": "a", f"movep({POSE}, v={{}})": "v",
    f"movec({POSE}, {POSE}, a={{}})": "a", f"movec({POSE}, {POSE}, v={{}})": "v", f"servoc({POSE}, a={{}})": "a",
    f"servoc({POSE}, v={{}})": "v", "speedj([0.1, 0, 0, 0, 0, 0], a={})": "a", "speedl([0.1, 0, 0, 0, 0, 0], a={})": "a",
    "speedl([0.1, 0, 0, 0, 0, 0], a=1, t=1, aRot={})": "aRot", "stopj({})": "a", "stopl({})": "a",
    f"optimovej({GOAL}, a={{}})": "a", f"optimovej({GOAL}, v={{}})": "v", f"optimovel({POSE}, a={{}})": "a",
    f"optimovel({POSE}, v={{}})": "v", f"servoj({GOAL}, t={{}})": "t", "path_offset_disable({})": "a",
}  # fmt: skip


@pytest.mark.parametrize("value", ["0", "0.0", "-1", "-0.5"])
@pytest.mark.parametrize("call", NOTHING)
def test_no_speed_no_acceleration_and_less_are_errors_that_name_the_argument(call: str, value: str) -> None:
    sim = stepped(call.format(value), 0.2)
    error = sim.controller.slot.last_error
    assert "program p stopped: line 2: " in error, error
    assert f"{NOTHING[call]} = {float(value):g}" in error, error
    assert sim.controller.slot.runtime is Runtime.STOPPED
    assert np.abs(sim.history["target_qd_rad_s"]).max() == 0.0


@pytest.mark.parametrize(
    "call", [f"movej({GOAL}, t=-1)", f"movel({POSE}, t=-0.1)", "speedj([0, 0, 0, 0, 0, 0], 1, -1)"]
)
def test_a_negative_time_is_an_error(call: str) -> None:
    assert "a time cannot be negative" in stepped(call, 0.2).controller.slot.last_error


def test_a_time_makes_speed_and_acceleration_of_no_account() -> None:
    """Drivers send 0 for both when they give a time."""
    sim = stepped(f"movej({GOAL}, a=0, v=0, t=1)", 1.5)
    assert sim.controller.slot.last_error == ""
    assert sim.target_q_rad[0] == pytest.approx(0.1)


@pytest.mark.parametrize("slider", [1.0, 0.5, 0.25])
def test_a_script_that_steps_a_spline_with_speedj_follows_it_whatever_the_slider_says(slider: float) -> None:
    """As external_control.urscript does it: one speedj of one step time each, its acceleration made for the slider.

    `speedj` takes its time in program time, so that the path stays the same and only takes longer.
    """
    body = (
        "  travelled = 0.0\n  qd = [0, 0, 0, 0, 0, 0]\n  while travelled < 1.0:\n    travelled = travelled + get_steptime()\n"
        "    last = qd\n    v = 6 * 0.4 * travelled * (1 - travelled)\n    qd = [v, 0.5 * v, 0, 0, 0, 0.25 * v]\n"
        "    write_output_float_register(12, travelled)\n    d = (qd - last) / get_steptime()\n"
        "    speedj(qd, max(norm(d[0]), 0.000001), get_steptime())\n  end\n  stopj(5)\n"
    ).replace("max(norm(d[0]), 0.000001)", "norm(d[0]) + 0.000001")
    sim = Lockstep(KinematicPlant(START, 0.0), q=START)
    sim.controller.slider = sim.controller.slider_now = slider
    sim.load(f"def p():\n{body}end\n")
    sim.run(1.2 / slider)
    assert sim.controller.slot.last_error == ""
    rows = sim.history
    playing = rows["doubles"][:, 0] > 0
    assert np.count_nonzero(playing & (rows["doubles"][:, 0] < 0.9995)) == pytest.approx(499 / slider, abs=4)
    u = rows["doubles"][playing, 0]
    wanted = 0.4 * (3 * u**2 - 2 * u**3)
    moved = rows["target_q_rad"][playing] - START
    assert np.abs(moved[:, 0] - wanted).max() < 0.004
    assert np.abs(moved[:, 1] - 0.5 * wanted).max() < 0.002
    assert np.abs(moved[:, 5] - 0.25 * wanted).max() < 0.001
    assert np.abs(np.diff(rows["target_qd_rad_s"][playing], axis=0)).max() / 0.002 < 6 * 0.4 * slider**2 * 1.01


def test_speedj_accelerates_its_leading_joint_and_all_arrive_together() -> None:
    sim = stepped("speedj([0.4, 0.1, 0, 0, 0, -0.2], 0.5)\nstopj(5)", 1.5)
    qdd = sim.history["target_qdd_rad_s2"]
    rising = (qdd[:, 0] > 0.1) & (sim.history["target_qd_rad_s"][:, 0] < 0.399)
    assert qdd[rising] == pytest.approx(np.tile([0.5, 0.125, 0, 0, 0, -0.25], (np.count_nonzero(rising), 1)), abs=1e-9)
