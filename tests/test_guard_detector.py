"""What guard's detector must see, must not see, and must not get used to. Time is counted in frames."""

from __future__ import annotations

import copy

import cv2
import numpy as np
import pytest
from guard_room import Room
from wardarm.config import Guard, RoomCamera
from wardarm.guard.detector import Detector, ViewState, work_size

GUARD = Guard(fps=10, warmup_frames=15)
WHOLE = RoomCamera(name="bed", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])
LEFT = RoomCamera(name="bed", command="x", keep_out=[(0, 0), (320, 0), (320, 360), (0, 360)])


def learnt(room: Room, camera: RoomCamera = WHOLE, guard: Guard = GUARD) -> Detector:
    detector = Detector(guard, camera)
    for _ in range(guard.warmup_frames):
        detector.update(room.frame(), None)
    assert detector.state is ViewState.CLEAR
    return detector


def states(detector: Detector, frames: list) -> list[ViewState]:
    return [detector.update(frame, None).state for frame in frames]


@pytest.fixture
def room() -> Room:
    return Room()


def test_an_empty_room_with_sensor_noise_stays_clear(room: Room) -> None:
    detector = learnt(room)
    assert set(states(detector, [room.frame() for _ in range(200)])) == {ViewState.CLEAR}


def test_five_percent_lamp_flicker_stays_clear(room: Room) -> None:
    detector = learnt(room)
    frames = [room.frame(gain=1 + 0.05 * np.sin(0.7 * i)) for i in range(100)]
    assert set(states(detector, frames)) == {ViewState.CLEAR}


def test_a_person_who_walks_in_is_seen_in_two_frames_and_stays_seen_while_standing_still(room: Room) -> None:
    detector = learnt(room)
    standing = room.with_person(320, 330)
    seen = states(detector, [room.frame(standing) for _ in range(400)])
    assert ViewState.INTRUDER in seen[:2]
    assert set(seen[2:]) == {ViewState.INTRUDER}


def test_a_view_is_clear_a_second_after_the_person_left(room: Room) -> None:
    detector = learnt(room)
    states(detector, [room.frame(room.with_person(320, 330)) for _ in range(50)])
    after = states(detector, [room.frame() for _ in range(30)])
    assert after.index(ViewState.CLEAR) == pytest.approx(detector.clear_frames, abs=2)
    assert set(after[after.index(ViewState.CLEAR) :]) == {ViewState.CLEAR}


def test_a_person_outside_the_zone_is_no_intruder_until_any_part_is_inside(room: Room) -> None:
    detector = learnt(room, LEFT)
    assert set(states(detector, [room.frame(room.with_person(500, 330)) for _ in range(60)])) == {ViewState.CLEAR}
    assert detector.update(room.frame(room.with_person(322, 330)), None).state is ViewState.INTRUDER


def test_who_waits_outside_the_zone_is_not_absorbed_before_stepping_in(room: Room) -> None:
    detector = learnt(room, LEFT)
    states(detector, [room.frame(room.with_person(420, 330)) for _ in range(600)])
    finding = detector.update(room.frame(room.with_person(420, 330)), None)
    assert finding.changed_percent > 2
    assert detector.update(room.frame(room.with_person(300, 330)), None).state is ViewState.INTRUDER


@pytest.mark.parametrize("seed", range(4))
def test_more_foreground_is_never_less_of_a_detection(seed: int) -> None:
    rng = np.random.default_rng(seed)
    room = Room(seed=seed)
    arm = np.zeros(work_size(GUARD)[::-1], np.uint8)
    cv2.line(arm, (40, 150), (200, 60), 255, 25)
    x, y = float(rng.uniform(60, 580)), float(rng.uniform(250, 350))
    foreground = np.zeros(arm.shape, bool)
    first_seen = 0.0
    empty = learnt(room)
    for height in np.linspace(10, 380, 60):
        detector = copy.deepcopy(empty)
        foreground |= np.abs(cv2.resize(room.with_person(x, y, height) - room.picture, work_size(GUARD))) > 40
        grown = np.where(cv2.resize(foreground.astype(np.uint8), (640, 360)) > 0, 5, room.picture).astype(np.float32)
        found = [detector.update(room.frame(grown), arm) for _ in range(2)][-1]
        held = found.state in (ViewState.INTRUDER, ViewState.VIEW_CHANGED)
        first_seen = first_seen or (height if held else 0.0)
        assert held or not first_seen, f"seen at {first_seen:.0f} px, not at {height:.0f} px"
    assert first_seen > 0


@pytest.mark.parametrize("gain", [0.55, 1.5])
def test_a_lamp_step_is_a_changed_view_and_is_not_learnt(room: Room, gain: float) -> None:
    detector = learnt(room)
    after = states(detector, [room.frame(gain=gain) for _ in range(300)])
    assert set(after) == {ViewState.VIEW_CHANGED}
    back = states(detector, [room.frame() for _ in range(20)])
    assert back[-1] is ViewState.CLEAR
    assert back.count(ViewState.VIEW_CHANGED) >= detector.clear_frames - 1


def test_a_covered_lens_is_a_changed_view(room: Room) -> None:
    detector = learnt(room)
    black = np.full_like(room.picture, 6)
    assert set(states(detector, [room.frame(black) for _ in range(100)])) == {ViewState.VIEW_CHANGED}


def test_a_covered_lens_in_a_dark_room_is_a_changed_view_too(room: Room) -> None:
    room.picture = 14 + 0.10 * (room.picture - 14)  # at night: differences under the threshold, some contrast left
    detector = learnt(room)
    found = [detector.update(room.frame(np.full_like(room.picture, 14)), None) for _ in range(5)]
    assert {f.state for f in found} == {ViewState.VIEW_CHANGED}
    assert found[-1].detail == "the lens is covered"


def test_someone_right_at_the_lens_holds_the_arm(room: Room) -> None:
    detector = learnt(room)
    close = room.with_person(320, 700, 900)
    assert ViewState.CLEAR not in states(detector, [room.frame(close) for _ in range(50)])


def test_light_and_a_person_at_the_same_moment_hold_until_both_are_gone(room: Room) -> None:
    detector = learnt(room)
    person = room.with_person(320, 330)
    assert ViewState.CLEAR not in states(detector, [room.frame(person, gain=1.5) for _ in range(30)])
    only_person = states(detector, [room.frame(person) for _ in range(60)])
    assert ViewState.CLEAR not in only_person
    assert only_person[-1] is ViewState.INTRUDER


def test_daylight_that_changes_over_minutes_is_followed(room: Room) -> None:
    detector = learnt(room)
    frames = [room.frame(gain=1 + 0.25 * i / 1800) for i in range(1800)]
    assert set(states(detector, frames)) == {ViewState.CLEAR}


def test_a_view_is_not_learnt_while_something_moves_in_it(room: Room) -> None:
    detector = Detector(GUARD, WHOLE)
    walk = [room.frame(room.with_person(20 + 6 * i, 330)) for i in range(100)]
    findings = [detector.update(frame, None) for frame in walk]
    assert {f.state for f in findings} == {ViewState.LEARNING}
    assert sum("moves" in f.detail for f in findings) > 5
    assert states(detector, [room.frame() for _ in range(20)])[-1] is ViewState.CLEAR


def test_relearning_makes_a_moved_cupboard_normal(room: Room) -> None:
    detector = learnt(room)
    moved = room.picture.copy()
    cv2.rectangle(moved, (100, 100), (200, 250), 5.0, -1)
    assert set(states(detector, [room.frame(moved) for _ in range(200)])[2:]) == {ViewState.INTRUDER}
    detector.relearn()
    assert states(detector, [room.frame(moved) for _ in range(40)])[-1] is ViewState.CLEAR
