"""The planned state: the quintic between knots, its derivatives, the TCP it gives."""

from __future__ import annotations

import numpy as np
import pytest
from wardarm.config import load
from wardarm.eye.planned import TrajectoryState, at_rest, quintic
from wardarm.kinematics import Kinematics, TcpPose, Unreachable, pose_from_rotvec, rotvec_from_pose
from wardarm.shm.layouts import ARM_STATUS, TRAJECTORY, Holding

ARM = load("desk").arm
KINEMATICS = Kinematics(ARM)
HOME_Q = np.array([2.67854, -2.0576, 1.70011, -1.21331, -1.5708, -2.03385])


def trajectory(seed: int = 0, knots: int = 20, dt_s: float = 0.05) -> np.void:
    """Knots of a smooth made-up motion about home: a sum of sines, its derivatives exact."""
    rng = np.random.default_rng(seed)
    a, w, f = rng.uniform(-0.2, 0.2, (3, 6)), rng.uniform(0.5, 6, (3, 6)), rng.uniform(0, 6, (3, 6))
    t = np.zeros((), TRAJECTORY)
    t["id"], t["raw_id"], t["knot_count"], t["duration_s"] = 7, 3, knots, (knots - 1) * dt_s
    for i in range(knots):
        k, s = t["knots"][i], i * dt_s
        k["t_s"] = s
        k["q_rad"] = HOME_Q + (a * np.sin(w * s + f)).sum(0)
        k["qd_rad_s"] = (a * w * np.cos(w * s + f)).sum(0)
        k["qdd_rad_s2"] = -(a * w * w * np.sin(w * s + f)).sum(0)
        k["grip"] = 1.0 if i < knots // 2 else 0.0
    return t[()]


def test_the_quintic_meets_both_ends_exactly() -> None:
    rng = np.random.default_rng(1)
    start, end = (tuple(rng.normal(size=6) for _ in range(3)) for _ in range(2))
    for s, wanted in ((0.0, start), (0.08, end)):
        for got, want in zip(quintic(0.08, s, start, end), wanted, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_speed_and_acceleration_are_the_derivatives_of_position(seed: int) -> None:
    state = TrajectoryState(trajectory(seed), KINEMATICS)
    h = 1e-5
    for s in np.random.default_rng(seed).uniform(2 * h, state.duration_s - 2 * h, 40):
        before, now, after = (state.at(s + k * h) for k in (-1, 0, 1))
        np.testing.assert_allclose((after.q_rad - before.q_rad) / (2 * h), now.qd_rad_s, atol=1e-6)
        np.testing.assert_allclose((after.qd_rad_s - before.qd_rad_s) / (2 * h), now.qdd_rad_s2, atol=1e-4)


def test_the_quintic_follows_the_motion_the_knots_came_from() -> None:
    fine, coarse = trajectory(2, 41, 0.025), trajectory(2, 21, 0.05)
    state = TrajectoryState(coarse, KINEMATICS)
    for k in fine["knots"][:41]:
        np.testing.assert_allclose(state.at(float(k["t_s"])).q_rad, k["q_rad"], atol=1e-7)


def test_the_opening_holds_from_its_knot_on_and_the_end_is_clamped() -> None:
    state = TrajectoryState(trajectory(), KINEMATICS)
    change_s = 10 * 0.05
    assert state.at(change_s - 1e-6).opening == 1.0
    assert state.at(change_s).opening == 0.0
    assert state.at(change_s).holding
    assert state.at(99.0).opening == 0.0
    np.testing.assert_array_equal(state.at(99.0).q_rad, state.at(state.duration_s).q_rad)


def test_a_tail_is_still_only_where_neither_arm_nor_fingers_move() -> None:
    t = trajectory()
    t["knots"]["q_rad"][12:20] = t["knots"]["q_rad"][12]
    t["knots"]["qd_rad_s"][12:20] = 0
    t["knots"]["qdd_rad_s2"][12:20] = 0
    state = TrajectoryState(t, KINEMATICS)
    assert not state.still_after(0.3)
    assert state.still_after(0.61)
    t["knots"]["grip"][18:] = 1.0
    assert not TrajectoryState(t, KINEMATICS).still_after(0.61)


def test_a_trajectory_without_knots_is_refused() -> None:
    t = trajectory()
    t["knot_count"] = 1
    with pytest.raises(ValueError, match="knot_count is 1"):
        TrajectoryState(t, KINEMATICS)


def test_the_tcp_speed_of_the_jacobian_is_that_of_forward_kinematics() -> None:
    rng = np.random.default_rng(4)
    h = 1e-6
    for _ in range(20):
        q, qd = rng.uniform(-2, 2, 6), rng.normal(size=6)
        twist = KINEMATICS.jacobian(q) @ qd
        a, b = KINEMATICS.frames(q - h * qd)[-1], KINEMATICS.frames(q + h * qd)[-1]
        np.testing.assert_allclose((b[:3, 3] - a[:3, 3]) / (2 * h), twist[:3], atol=1e-6)
        spin = (b[:3, :3] - a[:3, :3]) / (2 * h) @ KINEMATICS.frames(q)[-1][:3, :3].T
        np.testing.assert_allclose([spin[2, 1], spin[0, 2], spin[1, 0]], twist[3:], atol=1e-6)


def test_the_desks_home_is_where_the_simulated_arm_stands() -> None:
    pose = KINEMATICS.forward(HOME_Q)
    np.testing.assert_allclose(pose.xyz_m, load("desk").poses.home[:3], atol=1e-4)
    np.testing.assert_allclose(pose.rpy_rad, 0, atol=1e-3)


def test_solve_is_the_inverse_of_forward_and_says_when_it_cannot() -> None:
    goal = TcpPose(np.array([0.48, 0.5, 0.34]), np.array([0.05, -0.1, 0.3]))
    q = KINEMATICS.solve(goal, HOME_Q)
    np.testing.assert_allclose(KINEMATICS.forward(q).six, goal.six, atol=1e-8)
    with pytest.raises(Unreachable, match="mm"):
        KINEMATICS.solve(TcpPose(np.array([1.5, 0, 0.3]), np.zeros(3)), HOME_Q)


def test_poses_survive_the_rotation_vector() -> None:
    pose = TcpPose(np.array([0.4, 0.1, 0.2]), np.array([0.1, -0.2, 2.0]))
    np.testing.assert_allclose(pose_from_rotvec(rotvec_from_pose(pose)).six, pose.six, atol=1e-9)


def test_at_rest_fingers_that_hold_something_count_as_closed() -> None:
    status = np.zeros((), ARM_STATUS)
    status["q_rad"] = status["target_q_rad"] = HOME_Q
    status["grip_opening"], status["grip_target"], status["holding"] = 0.4, 0.3, Holding.YES
    planned = at_rest(status, KINEMATICS)
    assert planned.opening == 0.0
    assert planned.robot_state()[7] == 1.0
    status["holding"] = Holding.NO
    assert at_rest(status, KINEMATICS).opening == pytest.approx(0.3)
    assert at_rest(status, KINEMATICS).robot_state()[7] == 0.0
    status["grip_target"] = -1.0  # nothing was commanded yet
    assert at_rest(status, KINEMATICS).opening == pytest.approx(0.4)


def test_at_rest_fingers_that_are_letting_go_are_not_told_to_close_again() -> None:
    """They count as holding until they have arrived; a plan that begins meanwhile must not take the thing up again."""
    status = np.zeros((), ARM_STATUS)
    status["q_rad"] = status["target_q_rad"] = HOME_Q
    status["grip_opening"], status["grip_target"], status["holding"] = 0.75, 1.0, Holding.YES
    assert at_rest(status, KINEMATICS).opening == pytest.approx(1.0)
    assert not at_rest(status, KINEMATICS).holding
    status["holding"] = Holding.UNKNOWN
    assert at_rest(status, KINEMATICS).opening == pytest.approx(1.0)


def test_at_rest_fingers_that_may_hold_something_are_told_to_stay_closed() -> None:
    """After a restart the player knows no target: the opening at which they were stopped would take their force away."""
    status = np.zeros((), ARM_STATUS)
    status["q_rad"] = status["target_q_rad"] = HOME_Q
    status["grip_opening"], status["grip_target"], status["holding"] = 0.4, -1.0, Holding.UNKNOWN
    assert at_rest(status, KINEMATICS).opening == 0.0
