"""What the kinds of zones mean: warn, authorised, mask, times; and that a larger person is never less of a detection."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from guard_room import Room
from wardarm import config as configuration
from wardarm.config import ConfigError, Guard, RoomCamera, Zone
from wardarm.guard import zones
from wardarm.guard.detector import Detector, ViewState
from wardarm.guard.main import check
from wardarm.guard.tracks import Tracks
from wardarm.guard.verdict import fitting

GUARD = Guard(fps=10, warmup_frames=15)
FLOOR = [(0.0, 0.0), (640.0, 0.0), (640.0, 360.0), (0.0, 360.0)]
BED = [(330.0, 120.0), (630.0, 120.0), (630.0, 250.0), (330.0, 250.0)]


def learnt(room: Room, *more: Zone, keep_out: list[tuple[float, float]] = FLOOR) -> Detector:
    detector = Detector(GUARD, RoomCamera(name="bed", command="x", keep_out=keep_out, zones=list(more)))
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None)
    return detector


def last(detector: Detector, picture: np.ndarray, room: Room, frames: int = 4, minute: int = 0) -> ViewState:
    return [detector.update(room.frame(picture), None, minute).state for _ in range(frames)][-1]


def test_a_patient_who_moves_in_the_bed_holds_nothing() -> None:
    room = Room()
    picture = room.picture.copy()
    cv2.ellipse(picture, (480, 190), (90, 40), 0, 0, 360, 10.0, -1)
    assert last(learnt(room, Zone(kind="authorised", polygon=BED)), picture, room) is ViewState.CLEAR
    assert last(learnt(room), picture, room) is ViewState.INTRUDER


def test_somebody_who_stands_in_front_of_the_bed_is_not_hidden_by_it() -> None:
    room = Room()
    keep_out = [(330.0, 100.0), (640.0, 100.0), (640.0, 260.0), (330.0, 260.0)]  # the bed's own pixels, nearly
    bed = Zone(kind="authorised", polygon=BED)
    detector = learnt(room, bed, keep_out=keep_out)
    assert last(detector, room.with_person(480, 350, 230), room) is ViewState.INTRUDER
    assert detector.update(room.frame(room.with_person(480, 350, 230)), None).zone_percent > 2


@pytest.mark.parametrize("seed", range(6))
def test_a_larger_person_is_never_less_of_a_detection_beside_a_bed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    room = Room(seed=seed)
    detector = learnt(room, Zone(kind="authorised", polygon=BED))
    size = detector.size
    fore = np.zeros(size[::-1], np.uint8)
    before = 0
    for _ in range(60):  # one blob that grows: a smaller one is always part of it
        x, y = int(rng.integers(150, 310)), int(rng.integers(50, 175))
        blob = fore.copy()
        cv2.line(blob, (240, 100), (x, y), 255, int(rng.integers(3, 12)))
        fore |= blob
        counted = cv2.countNonZero(detector.not_in_bed(fore, 0))
        assert counted >= before
        before = counted
    assert before > 0


def test_a_screen_behind_a_mask_is_nothing_and_a_person_before_it_is_seen() -> None:
    room = Room()
    detector = learnt(room, Zone(kind="mask", polygon=[(100, 40), (220, 40), (220, 120), (100, 120)]))
    picture = room.picture.copy()
    for value in (0.0, 255.0, 90.0):
        picture[42:118, 102:218] = value
        assert last(detector, picture, room) is ViewState.CLEAR
    assert last(detector, room.with_person(160, 330, 260), room) is ViewState.INTRUDER


def test_a_room_is_learnt_while_a_masked_screen_plays() -> None:
    room = Room()
    detector = Detector(GUARD, RoomCamera(name="bed", command="x", keep_out=FLOOR, zones=[
        Zone(kind="mask", polygon=[(100, 40), (220, 40), (220, 120), (100, 120)])]))  # fmt: skip
    for i in range(40):
        picture = room.picture.copy()
        picture[42:118, 102:218] = 255.0 * (i % 2)
        detector.update(room.frame(picture), None)
    assert detector.state is ViewState.CLEAR


def test_a_warn_zone_warns_and_holds_nothing_and_ends_a_second_later() -> None:
    room = Room()
    near = Zone(kind="warn", name="door", polygon=[(320, 0), (640, 0), (640, 360), (320, 360)])
    detector = learnt(room, near, keep_out=[(0, 0), (300, 0), (300, 360), (0, 360)])
    found = [detector.update(room.frame(room.with_person(500, 330)), None) for _ in range(4)][-1]
    assert found.state is ViewState.CLEAR
    assert found.warned
    assert found.warn_percent > 1
    after = [detector.update(room.frame(), None).warned for _ in range(20)]
    assert after.index(False) == pytest.approx(detector.clear_frames, abs=1)


def test_a_zone_with_times_counts_within_them_only_also_over_midnight() -> None:
    room = Room()
    night = Zone(kind="keep_out", name="corridor", polygon=[(320, 0), (640, 0), (640, 360), (320, 360)],
                 start="22:00", end="06:00")  # fmt: skip
    detector = learnt(room, night, keep_out=[(0, 0), (300, 0), (300, 360), (0, 360)])
    person = room.with_person(500, 330)
    assert last(detector, person, room, minute=12 * 60) is ViewState.CLEAR
    assert last(detector, person, room, minute=23 * 60) is ViewState.INTRUDER
    assert [zones.active("22:00", "06:00", h * 60) for h in (21, 22, 0, 5, 6)] == [False, True, True, True, False]
    assert [zones.active("08:00", "20:00", h * 60) for h in (7, 8, 19, 20)] == [False, True, True, False]


def test_dwell_lets_something_small_pass_and_never_a_person() -> None:
    room = Room()
    slow = Zone(kind="keep_out", polygon=FLOOR, dwell_s=1.0)
    detector = learnt(room, slow, keep_out=[])
    small = room.picture.copy()
    cv2.circle(small, (320, 200), 16, 5.0, -1)
    states = [detector.update(room.frame(small), None).state for _ in range(14)]
    assert states.index(ViewState.INTRUDER) == 10
    assert last(learnt(room, slow, keep_out=[]), room.with_person(320, 330), room, frames=1) is ViewState.INTRUDER


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"keep_out": []}, "guard.cameras[bed]: no keep_out zone at all"),
        ({"keep_out": [], "zones": [{"kind": "keep_out", "polygon": FLOOR, "start": "08:00", "end": "20:00"}]}, "one must be always"),
        ({"zones": [{"kind": "mask", "polygon": FLOOR}]}, "100 % of it lies in authorised or mask zones"),
        ({"zones": [{"kind": "warn", "name": "door", "polygon": [(0, 0), (400, 300), (400, 0), (0, 300)]}]},
         "guard.cameras[bed].zones[door]: the edge from point 1 meets the edge from point 3"),
        ({"zones": [{"kind": "warn", "polygon": FLOOR, "start": "08:00"}]}, "give two different times, or neither"),
        ({"zones": [{"kind": "mask", "polygon": BED, "start": "08:00", "end": "09:00"}]}, "a mask has no times"),
    ],
)  # fmt: skip
def test_zones_that_cannot_work_are_refused_at_load(changes: dict[str, object], words: str) -> None:
    camera = {"name": "bed", "command": "x", "keep_out": FLOOR} | changes
    config = configuration.parse({"schema": 1, "guard": {"cameras": [camera]}}, "test")
    with pytest.raises(ConfigError) as e:
        check(config, Path("x.toml"))
    assert words in str(e.value)


@pytest.mark.parametrize(
    "commands",
    [
        ("gst-launch-1.0 v4l2src device=/dev/video0 ! fdsink", "gst-launch-1.0 -q v4l2src device=/dev/video0 ! fdsink"),
        ("gst nvarguscamerasrc sensor-id=1 ! fdsink", "gst -q nvarguscamerasrc sensor-id=1 ! fdsink"),
        ("same", "same"),
    ],
)
def test_two_cameras_on_one_device_are_refused(commands: tuple[str, str]) -> None:
    cameras = [{"name": n, "command": c, "keep_out": FLOOR} for n, c in zip("ab", commands, strict=True)]
    config = configuration.parse({"schema": 1, "guard": {"cameras": cameras}}, "test")
    with pytest.raises(ConfigError, match="two cameras on one device are one view"):
        check(config, Path("x.toml"))


def test_one_person_is_one_track_however_the_outline_flickers() -> None:
    tracks = Tracks()
    rng = np.random.default_rng(1)
    for i in range(100):
        x, y, w, h = 100 + 4 * i, 100, 40 + int(rng.integers(-8, 8)), 120 + int(rng.integers(-20, 20))
        tracks.update([(x, y, w, h)] if i % 7 else [], i / 15)
    assert tracks.count == 1
    tracks.update([(120, 100, 40, 120)], 60.0)
    assert tracks.count == 2


def test_a_words_text_is_never_cut_in_the_middle_of_a_part() -> None:
    parts = [f"camera{i}: somebody in the zone (12.{i} %)" for i in range(4)]
    text = fitting(parts)
    assert text == "; ".join([*parts[:2], "2 more"])
    assert len(text.encode()) < 96
    long = fitting(["door: its program ended (exit 1): " + "no such device " * 20])
    assert long.endswith(("device...", "such...", "no..."))
    assert len(long.encode()) < 96
    assert fitting([]) == ""
