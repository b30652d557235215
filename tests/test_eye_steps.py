"""The step machine on real blocks, with a scripted arm and an expert in the model's place."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from eye_bedside import ENDED, HAND_OVER, HOME, LEAF, THING, Bedside, held_path, last_point, near, running
from wardarm.eye import leaf
from wardarm.eye.chunks import Refused, outcome
from wardarm.eye.follow import Report
from wardarm.eye.heights import TableLook
from wardarm.eye.scripted import Fingers, Script
from wardarm.policy import contract
from wardarm.policy.view import Optics, Pose, intrinsics
from wardarm.shm import layouts
from wardarm.shm.layouts import ArmState, Holding, Source, StepKind, StepState


@pytest.fixture
def bedside() -> Iterator[Bedside]:
    with running() as made:
        yield made


def test_a_fetch_ends_with_the_thing_set_down_on_the_leaf_and_the_arm_at_home(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.DONE, report
    assert bedside.states[-5:] == [
        StepState.LOOKING, StepState.MOVING, StepState.SETTING_DOWN, StepState.RETURNING, StepState.DONE,
    ]  # fmt: skip
    held = held_path(bedside)
    assert np.linalg.norm(held[0, :3] - THING) < 0.012
    assert np.linalg.norm(held[:, :3] - HAND_OVER, axis=1).min() < 0.03
    np.testing.assert_allclose(held[-1, :2], LEAF, atol=0.003)
    assert held[-1, 2] == pytest.approx(THING[2] + 0.002, abs=0.004)  # let go at the height of the grasp
    np.testing.assert_allclose(bedside.arm.xyz, HOME[:3], atol=0.005)
    assert bedside.arm.opening > 0.9
    assert report.first_motion_ns > report.first_capture_ns > 0
    assert report.grasp_attempts == 1
    assert report.accepted > 5
    assert report.refused == bedside.arm.late <= 2  # what a stall of the machine made late


def test_the_model_is_told_the_planned_state_at_the_join(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.report.accepted >= 6)
    joined = [c for c in bedside.arm.chunks if int(c["join_trajectory_id"]) and int(c["source"]) == Source.MODEL]
    assert len(joined) >= 3
    known = {int(t["id"]): t for t in bedside.arm.trajectories}
    for chunk in joined:
        point = contract.denormalise(np.array(chunk["traj"]).view(np.float16).reshape(64, 6)[0])
        old = bedside.arm._known[int(known[int(chunk["join_trajectory_id"])]["id"])]
        assert np.linalg.norm(old.at(float(chunk["join_path_s"])).pose.xyz_m - point[:3]) < 1e-3
        assert int(chunk["capture_ns"]) <= int(chunk["infer_start_ns"]) < int(chunk["infer_end_ns"])


def test_valid_is_asked_only_from_home(bedside: Bedside) -> None:
    bedside.arm.place(np.array([0.48, 0.38, 0.25]))
    bedside.model.valid = 0.1
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert bedside.arm.sources() == {Source.SCRIPTED}  # it went home, and nothing of the model's was played
    for state in bedside.model.states:
        np.testing.assert_allclose(state[:3], HOME[:3], atol=0.005)


def test_a_thing_that_is_not_there_is_refused_and_nothing_moves(bedside: Bedside) -> None:
    bedside.model.valid = 0.2
    bedside.order(StepKind.FETCH, "拿一下红色的碗")
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert "红色的碗" in report.reason
    assert "seen on the table" in report.reason  # words for a nurse; the number is in the report
    assert report.valid == pytest.approx(0.2)
    assert not bedside.arm.chunks
    assert report.first_motion_ns == 0


def test_fingers_that_close_on_nothing_are_tried_again_and_counted(bedside: Bedside) -> None:
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.report.grasp_attempts == 2)
    risen = max(p[2] for p in bedside.arm.path[-10:])
    assert risen >= bedside.config.poses.travel_z - 0.005
    assert bedside.arm.opening > 0.9
    bedside.arm.thing_at = near(THING)
    bedside.run(lambda: bedside.arm.holding is Holding.YES)
    assert bedside.report.grasp_attempts == 2
    assert bedside.report.state is StepState.MOVING


def test_the_last_attempt_ends_in_failed_with_open_fingers_at_home(bedside: Bedside) -> None:
    bedside.machine.config = bedside.config.model_copy(
        update={"eye": bedside.config.eye.model_copy(update={"grasp_attempts": 1})}
    )
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.FAILED
    assert "closed on nothing 1 times" in report.reason
    np.testing.assert_allclose(bedside.arm.xyz, HOME[:3], atol=0.005)
    assert bedside.arm.opening > 0.9


def test_a_hold_while_carrying_keeps_the_thing_and_goes_on_after_a_persons_word(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.arm.holding is Holding.YES and bedside.arm.xyz[2] > THING[2] + 0.02)
    bedside.arm.hold()
    bedside.run(lambda: bedside.report.state is StepState.HELD)
    assert bedside.report.reason == "somebody is at the bed"
    sent = len(bedside.arm.chunks)
    bedside.run(lambda: bedside.model.board.latest.number % 40 == 0)
    assert len(bedside.arm.chunks) == sent  # nothing is sent while held
    bedside.arm.resume()
    bedside.run(lambda: bedside.report.state is StepState.RETURNING)
    bedside.arm.thing_at = lambda _xyz: False
    bedside.arm.hold()  # once more, with nothing held: it is not set down a second time
    bedside.run(lambda: bedside.report.state is StepState.HELD)
    bedside.arm.resume()
    report = bedside.finish()
    assert report.state is StepState.DONE, report
    assert int(bedside.arm.chunks[sent]["join_trajectory_id"]) == 0  # planned anew, from rest
    assert int(bedside.arm.chunks[sent]["plan_epoch"]) == 2
    held = held_path(bedside)
    np.testing.assert_allclose(held[-1, :2], LEAF, atol=0.003)
    assert report.grasp_attempts == 1
    assert bedside.states.count(StepState.SETTING_DOWN) == 1


def test_refused_plans_and_trajectories_are_asked_for_again(bedside: Bedside) -> None:
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.report.accepted >= 1)
    bedside.arm.refuse_plan, bedside.arm.refuse_arm = 2, 2
    bedside.run(lambda: bedside.report.refused >= 4)
    before = bedside.report.accepted
    bedside.run(lambda: bedside.report.accepted >= before + 2)
    assert bedside.report.state not in ENDED


def test_a_place_the_planner_always_refuses_ends_the_step_with_its_reason(bedside: Bedside) -> None:
    bedside.arm.refuse_plan = 1000
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert "touch itself or the table (elbow 3 mm into the table)" in report.reason
    assert report.accepted == 0


def test_a_model_that_does_not_answer_ends_the_step_with_its_reason(bedside: Bedside) -> None:
    bedside.model.failing = True
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert "down or restarting" in report.reason


def test_a_new_step_stops_the_old_one_within_15_cm(bedside: Bedside) -> None:
    bedside.arm.place(np.array([0.50, 0.15, 0.26]))
    bedside.order(StepKind.HOME)
    bedside.run(lambda: np.linalg.norm(bedside.arm.qd) > 0.15)
    where = bedside.arm.xyz
    bedside.order(StepKind.NONE)
    bedside.run(lambda: bool(np.linalg.norm(bedside.arm.qd) < 1e-3))
    assert bedside.report.state is StepState.IDLE
    stopped = bedside.arm.xyz
    assert np.linalg.norm(stopped - where) < 0.15
    bedside.order(StepKind.PARK)  # and the next one starts from there
    assert bedside.finish().state is StepState.DONE
    np.testing.assert_allclose(bedside.arm.xyz, bedside.config.poses.park[:3], atol=0.005)


def test_a_dropped_step_leaves_no_tail_of_the_models(bedside: Bedside) -> None:
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.report.accepted >= 3)
    bedside.order(StepKind.NONE)
    bedside.run(lambda: Source(int(bedside.arm.chunks[-1]["source"])) is Source.SCRIPTED)
    bedside.run(lambda: bedside.motion.ready)
    np.testing.assert_allclose(bedside.arm.xyz, last_point(bedside.arm.chunks[-1]), atol=0.003)


def test_waiting_long_for_the_permit_is_no_failed_grasp(bedside: Bedside) -> None:
    bedside.arm.permit = False
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.motion.state is ArmState.LOADED)
    since = bedside.board.latest.number
    bedside.run(lambda: bedside.board.latest.number > since + 50)  # a second
    assert bedside.report.state is StepState.MOVING
    assert bedside.report.grasp_attempts == 1
    bedside.arm.permit = True
    bedside.run(lambda: bedside.report.accepted >= 2)
    assert bedside.arm.sources() == {Source.MODEL}


def test_a_script_that_begins_under_way_stops_first(bedside: Bedside) -> None:
    bedside.order(StepKind.FETCH)
    bedside.run(lambda: bedside.report.grasp_attempts == 1 and np.linalg.norm(bedside.arm.qd) > 0.1)
    sent = len(bedside.arm.chunks)
    bedside.order(StepKind.HOME)
    assert bedside.finish().state is StepState.DONE
    np.testing.assert_allclose(bedside.arm.xyz, HOME[:3], atol=0.005)
    known = {int(t["raw_id"]): t for t in bedside.arm.trajectories}
    first = next(c for c in bedside.arm.chunks[sent:] if np.linalg.norm(last_point(c) - HOME[:3]) < 0.002)
    start = bedside.arm._known[int(known[int(first["id"])]["id"])].at(0.0)
    assert np.linalg.norm((bedside.arm.kinematics.jacobian(start.q_rad) @ start.qd_rad_s)[:3]) < 0.03
    assert bedside.report.refused == bedside.arm.late <= 2


def test_two_trajectories_within_a_tick_are_both_seen(bedside: Bedside) -> None:
    bedside.arm.stop()
    bedside.motion.update()
    join = bedside.motion.join(0.3)
    assert join is not None
    traj, grip = Script(join.planned.pose, 1.0, [Fingers(1.0)]).chunk(0.0)
    sent = []
    for _ in range(2):
        chunk = bedside.chunks.send(
            traj, grip, join, source=Source.SCRIPTED, step_seq=1, profile=0, payload_kg=0, asked_ns=time.monotonic_ns()
        )
        bedside.arm.tick(0.0)
        sent.append(chunk)
    bedside.motion.update()
    answers = [bedside.motion.answer_to(s.raw_id) for s in sent]
    assert all(a is not None for a in answers)
    assert isinstance(outcome(sent[1], bedside.motion), Refused)  # the arm plays the first already


def test_homing_lifts_first_and_opens_empty_fingers(bedside: Bedside) -> None:
    bedside.arm.place(np.array([0.48, 0.35, 0.15]))
    bedside.arm.target = bedside.arm.opening = 0.0
    bedside.order(StepKind.HOME)
    assert bedside.finish().state is StepState.DONE
    path = np.array(bedside.arm.path)
    across = np.linalg.norm(path[:, :2] - [0.48, 0.35], axis=1) > 0.01
    assert path[across, 2].min() > 0.225
    assert bedside.arm.opening > 0.9
    assert bedside.arm.sources() == {Source.SCRIPTED}


def test_set_down_here_and_release_need_something_in_the_fingers(bedside: Bedside) -> None:
    bedside.order(StepKind.SET_DOWN_HERE)
    assert bedside.finish().state is StepState.REFUSED
    assert bedside.report.reason == "the fingers hold nothing"
    bedside.arm.holding, bedside.arm.opening, bedside.arm.target = Holding.YES, 0.4, 0.0
    bedside.run(lambda: bedside.motion.holding is Holding.YES)
    bedside.order(StepKind.FETCH)
    assert bedside.finish().state is StepState.REFUSED
    assert "hold something already" in bedside.report.reason
    bedside.order(StepKind.RELEASE)
    assert bedside.finish().state is StepState.DONE
    assert bedside.arm.holding is Holding.NO


@pytest.mark.parametrize("kind", [StepKind.PUT, StepKind.POUR, StepKind.PUT_BACK, StepKind.HAND_OVER, 77])
def test_what_is_not_built_is_refused_in_plain_words(bedside: Bedside, kind: int) -> None:
    bedside.order(kind)
    assert bedside.report.state is StepState.REFUSED
    assert "not built yet" in bedside.report.reason


def test_an_instruction_that_is_too_long_is_refused(bedside: Bedside) -> None:
    bedside.order(StepKind.FETCH, "x y z " * 80)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert "limit is 128" in report.reason


def test_a_step_that_an_earlier_life_had_begun_is_never_begun_again(bedside: Bedside) -> None:
    step = np.zeros((), layouts.STEP)
    step["seq"], step["kind"], step["text"] = 9, StepKind.FETCH, b"bring me the blue cup"
    bedside.machine.take(step[()], Report(step_seq=9, state=StepState.MOVING, accepted=4))
    assert bedside.report.state is StepState.FAILED
    assert "restarted" in bedside.report.reason
    bedside.machine.take(step[()], Report(step_seq=9, state=StepState.DONE, accepted=30))
    assert bedside.report.state is StepState.DONE
    assert not bedside.arm.chunks


def test_a_slower_step_moves_slower(bedside: Bedside) -> None:
    bedside.arm.place(np.array([0.45, 0.28, 0.26]))
    bedside.arm.path.clear()
    bedside.order(StepKind.HOME, speed_scale=0.5)
    assert bedside.finish().state is StepState.DONE
    path = np.array(bedside.arm.path)[:, :3]
    way_m = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    assert way_m == pytest.approx(0.12, abs=0.02)
    for t in bedside.arm.trajectories:
        n = int(t["knot_count"])
        speeds = [
            np.linalg.norm((bedside.arm.kinematics.jacobian(k["q_rad"]) @ k["qd_rad_s"])[:3]) for k in t["knots"][:n]
        ]
        assert max(speeds) < 0.11


def test_where_depth_is_expected_and_none_comes_nothing_is_fetched(
    bedside: Bedside, monkeypatch: pytest.MonkeyPatch
) -> None:
    eye = np.eye(3)
    optics = Optics(intrinsics(64, 48), intrinsics(64, 48), eye, np.zeros(3), 0.001)
    bedside.machine.table = TableLook(bedside.board, Pose.trained(), lambda: optics)  # the board's frames have none
    monkeypatch.setattr(leaf, "LOOK_S", 0.5)
    bedside.arm.thing_at = near(THING)
    bedside.order(StepKind.FETCH)
    report = bedside.finish()
    assert report.state is StepState.REFUSED
    assert "no picture with depth" in report.reason
    assert Source.MODEL not in bedside.arm.sources()
    assert bedside.arm.opening > 0.9
