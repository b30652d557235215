"""How the simulated arm moves: shapes, times, blends, speeds, limits. Everything on controller time, cycle by cycle."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import DhParameters, Runtime, SafetyMode
from wardarm.sim.ur_controller.kinematics import Kinematics, NoSolution, from_pose
from wardarm.sim.ur_controller.motion import Profile, circle, corner

Array = NDArray[np.float64]
TCP = (0.0, 0.0, 0.1558, 0.0, 0.0, 0.0)
START = (0.0, -1.57, 1.57, -1.57, -1.57, 0.0)
P0 = "p[0.4, 0.0, 0.3, 0, 3.14159, 0]"


class Run:
    """One program to its end; the TCP's way is that of the commanded joints."""

    def __init__(self, body: str, limit_s: float = 30.0, slider: float = 1.0, begin: bool = True) -> None:
        self.sim = Lockstep(KinematicPlant(START, 0.0), tcp=TCP, q=START)
        self.sim.controller.slider = self.sim.controller.slider_now = slider
        if begin:
            self.sim.load(f"def begin():\n movej({P0})\nend\n")
            self.sim.until(lambda s: s.controller.slot.runtime is Runtime.STOPPED)
            self.sim.step()
        self.sim.forget()
        self.sim.load("def prog():\n" + body + "\nend\n")
        self.sim.until(
            lambda s: s.controller.slot.runtime is not Runtime.PLAYING or not s.controller.safety.may_move, limit_s
        )
        self.sim.step(5)
        self.rows = self.sim.history
        self.error = self.sim.controller.slot.last_error
        kinematics = self.sim.controller.kinematics
        self.frames = np.array([np.array(from_flange(kinematics, q)) for q in self.rows["target_q_rad"]])
        self.xyz = self.frames[:, 9:]
        self.speed = np.linalg.norm(np.diff(self.xyz, axis=0), axis=1) / 0.002

    @property
    def moving_s(self) -> float:
        moved = np.abs(self.rows["target_qd_rad_s"]).max(1) > 1e-9
        return float(np.count_nonzero(moved)) * 0.002

    def text(self, name: str) -> str:
        return next(line for line in self.sim.log(50) if line.startswith(f"textmsg: {name} ")).split(" ", 2)[2]


def from_flange(kinematics: Kinematics, q: Any) -> tuple[float, ...]:
    from wardarm.sim.ur_controller.kinematics import product

    return product(kinematics.flange(q), from_pose(TCP))


def test_a_profile_keeps_speed_and_acceleration_and_ends_where_it_should() -> None:
    for distance, v, a, v0 in [(1, 0.5, 1, 0), (0.1, 1, 1, 0), (1, 0.5, 1, 0.2), (1, 0.5, 1, 0.8), (0.05, 1, 1, 0.5)]:
        p = Profile(distance, v, a, v0=v0)
        t = np.linspace(0, p.total_s, 2001)
        s = np.array([p.gone(x) for x in t])
        u = np.gradient(s, t)
        assert s[0] == pytest.approx(0, abs=1e-9)
        assert s[-1] == distance
        assert u.min() > -1e-6
        assert u.max() <= max(v, v0) + 1e-3
        assert np.abs([p.speed(x) - y for x, y in zip(t[5:-5], u[5:-5], strict=True)]).max() < 0.02
    assert Profile(1, 0.5, 1, t=7).total_s == pytest.approx(7)


def test_movej_takes_the_time_of_its_trapezoid() -> None:
    run = Run("movej([0.5, -1.57, 1.57, -1.57, -1.57, 0], a=1.4, v=1.05)", begin=False)
    assert np.abs(run.rows["target_qd_rad_s"]).max() == pytest.approx(0.8367, abs=2e-3)  # sqrt(0.5 * 1.4): never at v
    assert np.abs(run.rows["target_qdd_rad_s2"]).max() == pytest.approx(1.4, abs=1e-3)
    assert run.moving_s == pytest.approx(2 * math.sqrt(0.5 / 1.4), abs=0.004)
    assert np.abs(run.rows["target_q_rad"][-1] - [0.5, *START[1:]]).max() == 0


def test_a_time_beats_speed_and_acceleration() -> None:
    assert Run("movej([0.5, -1.57, 1.57, -1.57, -1.57, 0], t=3)", begin=False).moving_s == pytest.approx(3.0, abs=0.004)
    assert Run("movel(p[0.4, 0.2, 0.3, 0, 3.14159, 0], t=2)").moving_s == pytest.approx(2.0, abs=0.004)


def test_movel_is_straight_keeps_its_speed_and_turns_evenly() -> None:
    run = Run("movel(p[0.4, 0.2, 0.3, 0, 3.14159, 0], a=1.2, v=0.25)")
    assert np.abs(run.xyz[:, 0] - 0.4).max() < 1e-6
    assert np.abs(run.xyz[:, 2] - 0.3).max() < 1e-6
    assert run.speed.max() == pytest.approx(0.25, rel=1e-3)
    assert run.moving_s == pytest.approx(0.2 / 0.25 + 0.25 / 1.2, abs=0.006)


def test_movec_goes_through_its_via_point_on_a_circle() -> None:
    run = Run("movec(p[0.5, 0.1, 0.3, 0, 0, 0], p[0.4, 0.2, 0.3, 0, 3.14159, 0], a=1.2, v=0.2)")
    assert np.abs(np.hypot(run.xyz[:, 0] - 0.4, run.xyz[:, 1] - 0.1) - 0.1).max() < 1e-6
    assert np.linalg.norm(run.xyz - [0.5, 0.1, 0.3], axis=1).min() < 5e-4
    assert np.abs(run.xyz[-1] - [0.4, 0.2, 0.3]).max() < 1e-6
    assert run.speed.max() == pytest.approx(0.2, rel=1e-3)
    fixed = Run("movec(p[0.5, 0.1, 0.3, 0, 0, 0], p[0.4, 0.2, 0.3, 0, 3.14159, 0], a=1.2, v=0.2, mode=1)")
    turned = fixed.frames[-1, :9].reshape(3, 3) @ fixed.frames[0, :9].reshape(3, 3).T
    assert math.degrees(math.acos((np.trace(turned) - 1) / 2)) == pytest.approx(180, abs=0.1)  # half a circle


@pytest.mark.parametrize("move", ["movel({}, a=1.2, v=0.2{})", "movep({}, a=1.2, v=0.2{})"])
def test_a_blend_cuts_the_corner_within_its_radius_and_never_stops(move: str) -> None:
    corner_, end = "p[0.4, 0.15, 0.3, 0, 3.14159, 0]", "p[0.55, 0.15, 0.3, 0, 3.14159, 0]"
    run = Run(move.format(corner_, ", r=0.04") + "\n" + move.format(end, ""))
    away = np.linalg.norm(run.xyz - [0.4, 0.15, 0.3], axis=1)
    assert 0.001 < away.min() < 0.04
    off = np.minimum(np.abs(run.xyz[:, 0] - 0.4), np.abs(run.xyz[:, 1] - 0.15))
    assert off[away > 0.0401].max() < 1e-4
    near = run.speed[(away[1:] < 0.04)]
    assert near.min() > 0.05
    assert np.abs(run.xyz[-1] - [0.55, 0.15, 0.3]).max() < 1e-6
    assert np.abs(np.diff(run.rows["target_qd_rad_s"], axis=0)).max() / 0.002 < 12


def test_movep_keeps_its_speed_round_the_corner() -> None:
    run = Run(
        "movep(p[0.4, 0.15, 0.3, 0, 3.14159, 0], a=1.2, v=0.2, r=0.04)\n"
        "movep(p[0.55, 0.15, 0.3, 0, 3.14159, 0], a=1.2, v=0.2, r=0)"
    )
    corner_ = np.linalg.norm(run.xyz[1:] - [0.4, 0.15, 0.3], axis=1) < 0.039
    assert np.abs(run.speed[corner_] - 0.2).max() < 2e-3


def test_joint_and_tool_moves_blend_into_each_other() -> None:
    run = Run(
        "movej(p[0.4, 0.15, 0.3, 0, 3.14159, 0], r=0.05)\nmovel(p[0.55, 0.15, 0.3, 0, 3.14159, 0], r=0.03)\n"
        "movej(p[0.55, 0, 0.3, 0, 3.14159, 0])"
    )
    assert np.abs(run.xyz[-1] - [0.55, 0, 0.3]).max() < 1e-6
    middle = run.speed[50:-60]
    assert middle.min() > 0.01
    assert not run.error


def test_blends_that_overlap_skip_a_move_and_say_so() -> None:
    run = Run(
        "movel(p[0.4, 0.1, 0.3, 0, 3.14159, 0], r=0.05)\nmovel(p[0.43, 0.1, 0.3, 0, 3.14159, 0], r=0.05)\n"
        "movel(p[0.43, 0.2, 0.3, 0, 3.14159, 0])"
    )
    assert "Overlapping Blends: a move was skipped" in run.sim.log(10)
    assert np.abs(run.xyz[-1] - [0.43, 0.2, 0.3]).max() < 1e-6


def test_a_blend_that_nothing_follows_ends_at_its_waypoint() -> None:
    run = Run("movel(p[0.4, 0.1, 0.3, 0, 3.14159, 0], r=0.05)\nsleep(1)")
    assert np.abs(run.xyz[-1] - [0.4, 0.1, 0.3]).max() < 1e-6


def test_the_speed_slider_stretches_moves_and_servoj() -> None:
    full = Run("movel(p[0.4, 0.2, 0.3, 0, 3.14159, 0])").moving_s
    half = Run("movel(p[0.4, 0.2, 0.3, 0, 3.14159, 0])", slider=0.5)
    assert half.moving_s == pytest.approx(2 * full, abs=0.006)
    assert np.abs(half.xyz[:, 0] - 0.4).max() < 1e-6
    servo = "i = 0\nq = get_target_joint_positions()\nwhile i < 100:\n i = i + 1\n q[0] = q[0] + 0.001\n servoj(q, t=0.002, lookahead_time=0.03)\nend"
    assert Run(servo).moving_s == pytest.approx(0.2, abs=0.016)  # and the end's braking
    assert Run(servo, slider=0.5).moving_s == pytest.approx(0.4, abs=0.016)


def test_speedl_is_straight_and_stopl_stops_on_the_line() -> None:
    run = Run("speedl([0, 0.1, 0, 0, 0, 0], a=0.5, t=1.0)\nstopl(0.5)")
    assert np.abs(run.xyz[:, 0] - 0.4).max() < 1e-7
    assert run.speed.max() == pytest.approx(0.1, rel=1e-3)
    assert run.xyz[-1, 1] == pytest.approx(0.1 * 1.0 - 0.1**2 / (2 * 0.5) + 0.1**2 / (2 * 0.5), abs=1e-3)
    assert run.rows["target_qd_rad_s"][-1].tolist() == [0.0] * 6


def test_speedj_returns_when_its_speed_is_reached_and_stopj_brakes_the_leading_axis() -> None:
    run = Run("speedj([0.4, 0.2, 0, 0, 0, 0], 0.5)\nstopj(2)", begin=False)
    qd = run.rows["target_qd_rad_s"]
    assert qd[:, 0].max() == pytest.approx(0.4)
    assert np.argmax(qd[:, 0] >= 0.4 - 1e-9) * 0.002 == pytest.approx(0.8, abs=0.006)
    moving = qd[:, 0] > 0.01
    assert np.abs(run.rows["target_qdd_rad_s2"][:, 0]).max() == pytest.approx(2.0, abs=0.05)
    falling = qd[moving][-80:]
    assert np.abs(falling[:, 1] / falling[:, 0] - 0.5).max() < 1e-6


def test_a_tool_path_that_cannot_be_followed_is_a_protective_stop_and_a_joint_goal_out_of_reach_an_error() -> None:
    """As the tests of Universal Robots' client library expect of movel(p[10, ...]) and movej(p[10, ...])."""
    away = Run("movel(p[1.4, 0.0, 0.3, 0, 3.14159, 0])")
    assert away.sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "cannot be reached" in away.sim.controller.safety.reason
    assert away.speed.max() < 1e-9
    assert "no joint positions" in Run("movej(p[1.4, 0.0, 0.3, 0, 3.14159, 0])").error
    behind = Run("movel(p[-0.4, 0.001, 0.3, 0, 3.14159, 0], v=0.5)")  # straight through the arm's own column
    assert behind.sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP


def test_beyond_a_joints_range_is_a_protective_stop() -> None:
    run = Run("speedj([0, 0, 0, 0, 0, 3], 10, 4)", begin=False)
    assert run.sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "joint 5" in run.sim.controller.safety.reason
    assert "its limit, 363 deg" in run.sim.controller.safety.reason
    assert math.radians(355) < run.rows["target_q_rad"][:, 5].max() < math.radians(363)


def test_too_fast_is_a_protective_stop() -> None:
    run = Run(
        "q = get_target_joint_positions()\nq[0] = q[0] + 0.02\nservoj(q, t=0.002, lookahead_time=0.03)", begin=False
    )
    assert run.sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert "deg/s" in run.sim.controller.safety.reason


def test_a_joint_that_does_not_follow_is_a_protective_stop() -> None:
    class Stuck(KinematicPlant):
        def step(self, q_target: Any, qd_target: Any) -> Any:
            return super().step([0.0, *list(q_target)[1:]], qd_target)

    sim = Lockstep(Stuck(START, 0.0), q=START)
    sim.load("def p():\n position_deviation_warning(True, 0.5)\n movej([1, -1.57, 1.57, -1.57, -1.57, 0])\nend\n")
    sim.until(lambda s: not s.controller.safety.may_move)
    assert "from its target, limit 20" in sim.controller.safety.reason
    assert any(line.startswith("position deviation") for line in sim.log(200))


def test_a_move_goes_on_after_a_protective_stop_from_where_the_arm_stands() -> None:
    sim = Lockstep(KinematicPlant(START, 0.0), q=START)
    sim.load("def p():\n movej([0.5, -1.57, 1.57, -1.57, -1.57, 0])\nend\n")
    sim.step(200)
    sim.controller.safety.protective_stop(sim.time_s, "test")
    sim.run(6)
    assert 0.01 < sim.target_q_rad[0] < 0.49
    sim.controller.safety.unlock_protective_stop(sim.time_s)
    assert sim.controller.play()
    sim.until(lambda s: s.controller.slot.runtime is Runtime.STOPPED)
    assert sim.target_q_rad[0] == pytest.approx(0.5)


def test_two_threads_cannot_move_the_arm_at_once() -> None:
    body = f"thread t():\n movej([0, -1.57, 1.57, -1.57, -1.57, 0])\nend\nh = run t()\nmovel({P0})\nmovel(p[0.4, 0.2, 0.3, 0, 3.14159, 0])"
    assert "another thread is already controlling the robot" in Run(body).error


def test_a_killed_mover_leaves_the_arm_braking() -> None:
    run = Run(
        "thread t():\n movej([1, -1.57, 1.57, -1.57, -1.57, 0])\nend\nh = run t()\nsleep(0.5)\nkill h\nsleep(0.2)",
        begin=False,
    )
    assert run.rows["target_qd_rad_s"][-1].tolist() == [0.0] * 6
    assert run.rows["target_q_rad"][-1, 0] < 0.5


def test_freedrive_takes_no_moves_and_the_hand_may_push() -> None:
    assert "freedrive" in Run("freedrive_mode()\nmovej([0, -1.57, 1.57, -1.57, -1.57, 0])").error
    sim = Lockstep(KinematicPlant(START, 0.0), q=START)
    sim.load(
        "def p():\n freedrive_mode()\n sleep(0.1)\n end_freedrive_mode()\n movej([0, -1.57, 1.57, -1.57, -1.57, 0])\nend\n"
    )
    sim.step(20)
    sim.controller.move_by_hand([0.2, 0, 0, 0, 0, 0])
    assert sim.q_rad[0] == pytest.approx(0.2)
    sim.until(lambda s: s.controller.slot.runtime is Runtime.STOPPED)
    assert sim.q_rad[0] == pytest.approx(0.0)


def test_a_path_offset_is_added_to_what_plays() -> None:
    body = (
        "path_offset_enable()\npath_offset_set_alpha_filter(0.05)\npath_offset_set([0, 0, 0.02, 0, 0, 0], 1)\n"
        "movel(p[0.4, 0.2, 0.3, 0, 3.14159, 0])\nsleep(0.3)"
    )
    run = Run(body)
    assert run.xyz[-10, 2] == pytest.approx(0.32, abs=1e-5)
    assert np.abs(run.xyz[:, 0] - 0.4).max() < 1e-5
    assert run.xyz[:, 2].max() < 0.3201


def test_force_mode_is_accepted_with_a_warning() -> None:
    run = Run("force_mode(p[0,0,0,0,0,0], [0,0,1,0,0,0], [0,0,-5,0,0,0], 2, [0.1,0.1,0.1,1,1,1])\nend_force_mode()")
    assert "force_mode is accepted and has no effect: it is not simulated" in run.sim.log(10)
    assert not run.error


# ---------------------------------------------------------------- kinematics
def test_inverse_kinematics_finds_all_branches_of_a_nominal_arm() -> None:
    kinematics, rng = Kinematics(DhParameters()), random.Random(5)
    for _ in range(200):
        q = [rng.uniform(-3, 3) for _ in range(6)]
        flange = kinematics.flange(q)
        branches = list(kinematics._branches(flange, q))
        assert len(branches) >= 2
        assert max(np.abs(np.array(kinematics.flange(b)) - flange).max() for b in branches) < 1e-8
        assert min(np.abs(np.array(b) - q).max() for b in branches) < 1e-6
        assert np.abs(np.array(kinematics.closest(flange, q)) - q).max() < 1e-6


CALIBRATION = """[mounting]
delta_theta = [ 1.2e-4, -0.31, 0.35, -0.04, 2e-5, -1e-5]
delta_a = [ 5e-5, 0.02, -0.01, 2e-5, -5e-5, 0]
delta_d = [ 1e-4, 150.2, -160.1, 9.9, 1e-5, -2e-4]
delta_alpha = [ -5e-4, 1e-3, 4e-4, 1e-4, -2e-4, 0]
joint_checksum = [ 0x1, 0x2, 0x3, 0x4, 0x5, 0x6]
"""


def test_a_calibration_file_changes_the_kinematics_and_the_inverse_follows(tmp_path: Path) -> None:
    path = tmp_path / "calibration.conf"
    path.write_text(CALIBRATION)
    dh = DhParameters().calibrated(path)
    assert dh.theta[1] == pytest.approx(-0.31)
    small = DhParameters(d=(0.1626, 1e-4, -2e-4, 0.1334, 0.0998, 0.0995), theta=(1e-4, -2e-4, 3e-4, 0, 1e-4, -1e-4))
    rng = random.Random(2)
    for arm in (dh, small):
        kinematics = Kinematics(arm)
        for _ in range(20):
            q = [rng.uniform(-2, 2) for _ in range(4)] + [rng.uniform(0.4, 2), rng.uniform(-2, 2)]
            flange = kinematics.flange(q)
            near = [v + rng.uniform(-0.05, 0.05) for v in q]
            found = kinematics.closest(flange, near) if arm is small else kinematics.joints(flange, near)
            assert np.abs(np.array(kinematics.flange(found)) - flange).max() < 1e-6
    path.write_text(CALIBRATION.replace("delta_a =", "delta_b ="))
    with pytest.raises(ValueError, match="delta_a missing"):
        DhParameters().calibrated(path)


def test_the_jacobian_is_the_derivative_of_the_pose() -> None:
    kinematics, tool = Kinematics(DhParameters()), from_pose(TCP)
    q = [0.3, -1.2, 1.4, -0.9, -1.3, 0.4]
    jacobian = kinematics.jacobian(q, tool)
    for j in range(6):
        ahead, behind = ([v + s * 1e-6 * (i == j) for i, v in enumerate(q)] for s in (1, -1))
        difference = (np.array(from_flange(kinematics, ahead)) - from_flange(kinematics, behind))[9:] / 2e-6
        assert np.abs(difference - jacobian[:3, j]).max() < 1e-6


def test_kinematics_functions_of_scripts() -> None:
    run = Run(
        'q = get_inverse_kin(p[0.4, 0.1, 0.3, 0, 3.14159, 0])\ntextmsg("dist ", pose_dist(get_forward_kin(q), p[0.4, 0.1, 0.3, 0, 3.14159, 0]) < 0.000001)\n'
        'textmsg("far ", get_inverse_kin_has_solution(p[2, 0, 0, 0, 0, 0]))\n'
        'textmsg("near ", get_inverse_kin_has_solution(p[0.4, 0.1, 0.3, 0, 3.14159, 0]))\n'
        'textmsg("home ", pose_trans(p[0.1, 0, 0, 0, 0, 0], pose_inv(p[0.1, 0, 0, 0, 0, 0])))\n'
        'textmsg("half ", interpolate_pose(p[0, 0, 0, 0, 0, 0], p[1, 2, 4, 0, 0, 1], 0.5))\n'
        'textmsg("wrench ", wrench_trans(p[0, 0, 0.1, 0, 0, 0], [0, 10, 0, 0, 0, 0]))\n'
        'textmsg("limits ", is_within_safety_limits(p[0.4, 0.1, 0.3, 0, 3.14159, 0]))'
    )
    assert not run.error
    assert [run.text(n) for n in ("dist", "far", "near", "limits")] == ["True", "False", "True", "True"]
    assert run.text("home") == "p[0, 0, 0, 0, 0, 0]"
    assert run.text("half") == "p[0.5, 1, 2, 0, 0, 0.5]"
    assert run.text("wrench") == "[0, 10, 0, 1, 0, 0]"


def test_an_unreachable_pose_is_an_error_with_its_line() -> None:
    run = Run("x = 1\nq = get_inverse_kin(p[2, 0, 0, 0, 0, 0])")
    assert "line 3" in run.error
    with pytest.raises(NoSolution):
        Kinematics(DhParameters()).closest(from_pose((2, 0, 0, 0, 0, 0)), START)


def test_curves_have_the_length_they_say() -> None:
    for point, length in (corner((0, 0, 0), (0.1, 0, 0), (0.1, 0.3, 0)), circle((1, 0, 0), (0, 1, 0), (-1, 0, 0))[:2]):
        at = np.array([point(s) for s in np.linspace(0, length, 2001)])
        assert np.linalg.norm(np.diff(at, axis=0), axis=1).sum() == pytest.approx(length, rel=1e-4)
    with pytest.raises(ValueError, match="one line"):
        circle((0, 0, 0), (1, 0, 0), (2, 0, 0))
