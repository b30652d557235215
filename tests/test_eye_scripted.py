"""Scripted movements: straight lines in chunks, found again where the plan is."""

from __future__ import annotations

import numpy as np
import pytest
from wardarm.config import load
from wardarm.eye.delay import Delay
from wardarm.eye.planned import Planned
from wardarm.eye.scripted import SPEED_M_S, STOP_S, Fingers, Line, Script, stop, via_travel
from wardarm.kinematics import TcpPose
from wardarm.policy import contract

HOME = TcpPose(np.array([0.30, 0.0, 0.42]), np.zeros(3))
LOW = TcpPose(np.array([0.48, 0.53, 0.064]), np.array([0, 0, 0.4]))


def way(script: Script) -> np.ndarray:
    return np.array([script.at(t)[0][:3] for t in np.arange(0, script.duration_s, 0.005)])


def test_a_script_never_exceeds_its_speed_and_ends_where_it_should() -> None:
    script = Script(HOME, 1.0, via_travel(HOME, LOW, 0.34))
    speed = np.linalg.norm(np.diff(way(script), axis=0), axis=1) / 0.005
    assert 0.95 * SPEED_M_S < speed.max() <= SPEED_M_S * 1.001
    np.testing.assert_allclose(script.at(script.duration_s)[0], LOW.six, atol=1e-12)


def test_a_script_keeps_the_wards_acceleration_and_jerk() -> None:
    script = Script(HOME, 1.0, [Line(LOW)])
    for derivative, limit in ((2, 0.8), (3, 6.0)):
        values = np.diff(way(script), derivative, axis=0) / 0.005**derivative
        assert np.linalg.norm(values, axis=1).max() < limit


def test_travel_goes_up_across_and_down_and_never_low_over_the_table() -> None:
    start = TcpPose(np.array([0.55, -0.3, 0.06]), np.zeros(3))
    path = way(Script(start, 0.0, via_travel(start, LOW, 0.34)))
    across = (np.linalg.norm(path[:, :2] - start.xyz_m[:2], axis=1) > 0.005) & (
        np.linalg.norm(path[:, :2] - LOW.xyz_m[:2], axis=1) > 0.005
    )
    assert across.any()
    assert path[across, 2].min() > 0.339


def test_chunks_joined_one_after_another_are_the_whole_script() -> None:
    script = Script(HOME, 1.0, [*via_travel(HOME, LOW, 0.34), Fingers(0.0)])
    at_s, seen = 0.0, []
    while at_s < script.duration_s:
        traj, grip = script.chunk(at_s)
        assert traj.dtype == grip.dtype == np.float16
        poses = contract.denormalise(traj)
        for k in range(8):  # 0.4 s, then the next window
            wanted, _ = script.at(at_s + k / contract.RATE_HZ)
            assert np.linalg.norm(poses[k, :3] - wanted[:3]) < 5e-4  # FP16 over 1.2 m
        here = TcpPose(poses[8, :3], poses[8, 3:])
        found = script.find(here, float(grip[8]), at_s, at_s + 0.4)
        assert found == pytest.approx(at_s + 0.4, abs=0.11)
        seen.append(found)
        at_s = max(found, at_s + 0.01)
    assert len(seen) > 10


def test_a_plan_that_lags_is_found_where_it_is_not_where_the_clock_is() -> None:
    script = Script(HOME, 1.0, [Line(LOW)])
    pose, _ = script.at(1.3)
    assert script.find(TcpPose(pose[:3], pose[3:]), 1.0, 0.5, 2.5) == pytest.approx(1.3, abs=0.03)


def test_in_a_pause_the_clock_decides() -> None:
    script = Script(HOME, 1.0, [Fingers(0.0, pause_s=2.0)])
    assert script.find(HOME, 0.0, 0.2, 0.7) == pytest.approx(0.7, abs=0.011)


def test_a_pose_outside_the_models_box_is_refused_by_name() -> None:
    outside = TcpPose(np.array([0.4, 0.7, 0.3]), np.zeros(3))
    script = Script(HOME, 1.0, [Line(outside)])
    with pytest.raises(ValueError, match=r"\[poses\]"):
        script.chunk(script.duration_s)


def test_every_configured_pose_fits_into_a_chunk() -> None:
    for name in ("desk", "thor"):
        poses = load(name).poses
        for six in (poses.home, poses.park, poses.hand_over):
            goal = TcpPose(np.array(six[:3]), np.radians(six[3:]))
            Script(HOME, 1.0, via_travel(HOME, goal, poses.travel_z)).chunk(0.0)


def test_a_stop_goes_on_a_few_centimetres_and_stands() -> None:
    zero = np.zeros(6)
    plan = Planned(zero, zero, zero, HOME, 1.0)
    velocity = np.array([0.25, 0, 0, 0, 0, 0.2])
    traj, grip = stop(plan, velocity)
    poses = contract.denormalise(traj)
    assert (grip == 1).all()
    assert poses[-1, 0] - HOME.xyz_m[0] == pytest.approx(0.25 * STOP_S / 3, abs=1e-3)
    assert (poses[1, 0] - poses[0, 0]) * contract.RATE_HZ == pytest.approx(0.25, rel=0.1)
    still = poses[int(STOP_S * contract.RATE_HZ) + 1 :]
    np.testing.assert_array_equal(still, np.broadcast_to(still[-1], still.shape))
    assert poses[-1, 5] == pytest.approx(0.2 * STOP_S / 3, abs=2e-3)


def test_the_delay_is_the_p99_of_what_chunks_took_within_its_limits() -> None:
    delay = Delay(first_s=0.3, margin_s=0.05, max_s=0.6)
    assert delay.seconds == pytest.approx(0.3)
    for _ in range(64):
        delay.add(0.08)
    assert delay.seconds == pytest.approx(0.13)
    delay.add(0.3)
    assert delay.seconds > 0.2
    before = delay.seconds
    delay.late(0.0)  # nobody measured it: at least a margin more
    assert before < delay.seconds
    delay.late(0.5)
    delay.late(0.5)
    assert delay.seconds > 0.45
    for _ in range(100):
        delay.add(5.0)
    assert delay.seconds == 0.6
    for _ in range(100):
        delay.add(0.001)
    assert delay.seconds == 0.1
