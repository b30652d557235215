"""After a hold a step looks again and plans from where the arm stands; what is between the fingers is never guessed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from eye_bedside import ENDED, HOME, LEAF, THING, Bedside, held_path, near, running
from patience import PATIENCE_S
from wardarm.kinematics import TcpPose
from wardarm.policy import contract
from wardarm.shm.layouts import Holding, Source, StepKind, StepState

UNKNOWN_WORDS = ("放下", "put it down", "松开", "release it")


@pytest.fixture
def bedside() -> Iterator[Bedside]:
    with running() as made:
        yield made


def first_point(chunk: np.void) -> np.ndarray:
    """Where a chunk begins, m."""
    return contract.denormalise(np.array(chunk["traj"]).view(np.float16).reshape(64, 6)[0])[:3]


def grips(chunk: np.void) -> np.ndarray:
    return np.array(chunk["grip"]).view(np.float16).astype(float)


def hold_something_unknown(bedside: Bedside) -> None:
    """As after a restart: the fingers are stopped by something, and the player knows no target yet."""
    bedside.arm.holding, bedside.arm.opening, bedside.arm.target = Holding.UNKNOWN, 0.4, 0.4
    bedside.arm.commanded = False
    bedside.run(lambda: bedside.motion.holding is Holding.UNKNOWN)


@pytest.mark.parametrize("kind", [StepKind.FETCH, StepKind.HOME, StepKind.PARK])
def test_with_something_unknown_between_the_fingers_no_step_begins(bedside: Bedside, kind: StepKind) -> None:
    hold_something_unknown(bedside)
    stood = bedside.arm.xyz
    bedside.order(kind)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert all(word in report.reason for word in UNKNOWN_WORDS)
    assert not bedside.arm.chunks
    np.testing.assert_array_equal(bedside.arm.xyz, stood)


def test_a_person_says_release_and_then_the_arm_takes_steps_again(bedside: Bedside) -> None:
    hold_something_unknown(bedside)
    bedside.order(StepKind.SET_DOWN_HERE)  # nobody knows how high it has to stand
    assert bedside.finish().state is StepState.REFUSED
    assert "hand under it" in bedside.report.reason
    assert not bedside.arm.chunks
    stood = bedside.arm.xyz
    bedside.order(StepKind.RELEASE)
    assert bedside.finish().state is StepState.DONE
    np.testing.assert_allclose(bedside.arm.xyz, stood, atol=1e-3)
    assert bedside.arm.holding is Holding.NO
    bedside.order(StepKind.HOME)
    assert bedside.finish().state is StepState.DONE


def test_an_arm_that_was_restarted_while_carrying_waits_for_put_it_down(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.arm.holding is Holding.YES and bedside.arm.xyz[2] > THING[2] + 0.02)
    bedside.arm.hold()
    bedside.run(lambda: bedside.report.state is StepState.HELD)
    hold_something_unknown(bedside)
    sent = len(bedside.arm.chunks)
    bedside.arm.resume()
    report = bedside.finish()
    assert report.state is StepState.FAILED
    assert all(word in report.reason for word in UNKNOWN_WORDS)
    assert len(bedside.arm.chunks) == sent
    bedside.order(StepKind.SET_DOWN_HERE)
    assert bedside.finish().state is StepState.DONE
    lowering = [c for c in bedside.arm.chunks[sent:] if last_z(c) < THING[2] + 0.01]
    # while it is lowered the fingers are told to stay closed, not to stay where they happen to stand
    assert grips(lowering[0])[0] == 0.0
    path = np.array(bedside.arm.path)
    opened = path[path[:, 4] != Holding.NO][-1]
    assert opened[2] == pytest.approx(THING[2] + 0.002, abs=0.004)
    assert bedside.arm.opening > 0.9


def test_the_height_of_a_grasp_is_known_though_eye_stood_still_while_the_fingers_closed(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)

    def will_close() -> bool:
        playing = bedside.motion.playing()
        return playing is not None and playing.closed_at(np.inf) is not None and bedside.arm.opening > 0.9

    bedside.run(will_close)
    end = time.monotonic() + PATIENCE_S
    while bedside.arm.holding is not Holding.YES or bedside.arm.xyz[2] < THING[2] + 0.03:
        assert time.monotonic() < end
        time.sleep(0.005)
    assert bedside.machine.grasp is None
    bedside.run(lambda: bedside.machine.grasp is not None)
    assert bedside.machine.grasp is not None
    assert bedside.machine.grasp.z_m == pytest.approx(THING[2], abs=0.004)


def last_z(chunk: np.void) -> float:
    return float(contract.denormalise(np.array(chunk["traj"]).view(np.float16).reshape(64, 6)[-1])[2])


def test_an_arm_that_was_pushed_by_hand_in_a_hold_goes_on_from_where_it_stands(bedside: Bedside) -> None:
    bedside.arm.place(np.array([0.50, 0.15, 0.26]))
    bedside.order(StepKind.HOME)
    bedside.run(lambda: bool(np.linalg.norm(bedside.arm.qd) > 0.15))
    bedside.arm.hold()
    bedside.run(lambda: bedside.report.state is StepState.HELD)
    stood = bedside.arm.xyz
    pushed = stood + np.array([0.06, -0.05, 0.04])
    bedside.arm.place(pushed)
    sent, walked = len(bedside.arm.chunks), len(bedside.arm.path)
    bedside.arm.resume()
    assert bedside.finish().state is StepState.DONE
    np.testing.assert_allclose(first_point(bedside.arm.chunks[sent]), pushed, atol=1e-3)
    assert int(bedside.arm.chunks[sent]["join_trajectory_id"]) == 0
    path = np.array(bedside.arm.path)[walked + 1 :, :3]
    np.testing.assert_allclose(path[0], pushed, atol=2e-3)
    # it does not go back to where it was held: its way home is straight up, then straight over
    assert np.linalg.norm(path - stood, axis=1).min() > 0.03
    np.testing.assert_allclose(bedside.arm.xyz, HOME[:3], atol=0.005)


def test_a_cup_that_was_moved_in_a_hold_is_looked_for_again(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bool(np.linalg.norm(bedside.arm.qd) > 0.02))
    bedside.arm.hold()
    bedside.run(lambda: bedside.report.state is StepState.HELD)
    assert bedside.arm.xyz[2] > THING[2] + 0.03  # on its way down
    moved = THING + np.array([-0.03, -0.05, 0.0])
    bedside.model.thing_m, bedside.arm.thing_at = moved, near(moved)
    sent, frame = len(bedside.arm.chunks), bedside.board.latest.number
    bedside.arm.resume()
    assert bedside.finish().state is StepState.DONE
    assert all(int(c["frame_number"]) > frame for c in bedside.arm.chunks[sent:] if int(c["source"]) == Source.MODEL)
    held = held_path(bedside)
    assert np.linalg.norm(held[0, :3] - moved) < 0.012
    np.testing.assert_allclose(held[-1, :2], LEAF, atol=0.003)
    assert bedside.report.grasp_attempts == 1


def test_a_grasp_is_tried_three_times_each_with_a_look_of_its_own_from_above(bedside: Bedside) -> None:
    bedside.order(StepKind.FETCH)
    looks: list[int] = []

    def counted() -> bool:
        while len(looks) < bedside.report.grasp_attempts - 1:
            looks.append(bedside.board.latest.number)
        return bedside.report.state in ENDED

    bedside.run(counted, 60)
    assert bedside.report.state is StepState.FAILED
    assert bedside.report.grasp_attempts == 3
    assert "closed on nothing 3 times" in bedside.report.reason
    chunks = [c for c in bedside.arm.chunks if int(c["source"]) == Source.MODEL]
    for number in looks:
        after = next(c for c in chunks if int(c["frame_number"]) >= number)
        assert int(after["join_trajectory_id"]) == 0 or float(first_point(after)[2]) > THING[2] + 0.04
        assert grips(after)[0] == 1.0
    np.testing.assert_allclose(bedside.arm.xyz, HOME[:3], atol=0.005)


def lean(bedside: Bedside, pitch_rad: float) -> None:
    """Something is held, and it leans."""
    arm = bedside.arm
    with arm._lock:
        arm.q = arm.kinematics.solve(TcpPose(np.array([0.48, 0.30, 0.20]), np.array([0.0, pitch_rad, 0.0])), arm.q)
        arm.holding, arm.opening, arm.target, arm.commanded = Holding.YES, 0.4, 0.0, True


def pitches(chunk: np.void) -> np.ndarray:
    return contract.denormalise(np.array(chunk["traj"]).view(np.float16).reshape(64, 6))[:, 4]


@pytest.mark.parametrize("degrees", [20, 50])
def test_a_pause_while_something_leans_sets_it_upright_and_then_nothing_moves(bedside: Bedside, degrees: int) -> None:
    leaning = np.radians(degrees)
    lean(bedside, leaning)
    bedside.order(StepKind.HOME)
    bedside.run(lambda: bool(np.linalg.norm(bedside.arm.qd) > 0.1))
    sent, chunk = len(bedside.arm.chunks), bedside.arm.chunks[-1]
    assert pitches(chunk)[0] > 0.8 * leaning
    bedside.machine.pause(True, upright=True)

    def upright_and_still() -> bool:
        bedside.machine.pause(True, upright=True)
        return len(bedside.arm.chunks) > sent and bedside.motion.ready

    bedside.run(upright_and_still)
    assert bedside.report.state is StepState.HELD
    assert len(bedside.arm.chunks) == sent + 1
    last = pitches(bedside.arm.chunks[-1])
    assert abs(last[-1]) < 0.01
    limits = bedside.config.limits
    turning = np.abs(np.diff(last)) * contract.RATE_HZ
    assert turning.max() < np.radians(limits.tcp_deg_s)  # (a pause is no reason to leave the limits)
    takes_s = np.flatnonzero(np.abs(last) > 0.02)[-1] / contract.RATE_HZ
    print(f"from {degrees} degrees: {takes_s:.2f} s")
    assert takes_s <= (0.9 if degrees == 20 else 1.9)
    way = first_point(bedside.arm.chunks[-1]) - bedside.arm.xyz
    assert np.linalg.norm(way) < 0.08
    for _ in range(25):  # the word is taken, arm has not latched it yet
        bedside.machine.pause(True, upright=False)
        bedside.tick()
    assert len(bedside.arm.chunks) == sent + 1
    bedside.arm.hold()
    bedside.run(lambda: bedside.motion.held)
    bedside.machine.pause(False, upright=False)
    bedside.arm.resume()
    assert bedside.finish().state is StepState.DONE
    assert bedside.arm.holding is Holding.YES
