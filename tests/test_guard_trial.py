"""`wardarm guard test`, and the parts of the bench that are quick: recordings made here, judged frame by frame."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from guard_room import Room
from wardarm.config import Guard, RoomCamera
from wardarm.guard import trial
from wardarm.guard.detector import Detector, ViewState
from wardarm.ops import bench_guard, bench_guard_live, bench_guard_vtest

GUARD = Guard(fps=10)
CAMERA = RoomCamera(name="bed", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])


def video(file: Path, pictures: Iterator[np.ndarray], fps: int = 10) -> Path:
    with av.open(str(file), "w") as box:
        stream = box.add_stream("h264", rate=fps)
        stream.width, stream.height, stream.pix_fmt = 640, 360, "yuv420p"
        stream.options = {"crf": "18", "preset": "ultrafast"}
        for picture in pictures:
            frame = av.VideoFrame.from_ndarray(cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR), format="bgr24")
            box.mux(stream.encode(frame))
        box.mux(stream.encode(None))
    return file


def scene(*parts: tuple[int, bool, float]) -> Iterator[np.ndarray]:
    """(frames, somebody there, gain) one after the other."""
    room = Room()
    for frames, somebody, gain in parts:
        for _ in range(frames):
            yield room.frame(room.with_person(320, 330) if somebody else None, gain)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    return {
        "visit": video(folder / "visit.mp4", scene((30, False, 1), (20, True, 1), (30, False, 1))),
        "empty": video(folder / "empty.mp4", scene((60, False, 1))),
        "lamp": video(folder / "lamp.mp4", scene((30, False, 1), (30, False, 1.35))),
    }


def run_cli(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "wardarm.cli", "guard", "test", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env=os.environ | {"COLUMNS": "200"})


def test_a_visit_is_one_hold_with_its_times(recordings: dict[str, Path], tmp_path: Path) -> None:
    row = trial.run(recordings["visit"], GUARD, CAMERA, tmp_path, from_median=False).figures(empty=False)
    assert row["frames"] == 80
    assert len(row["holds"]) == 1
    hold = row["holds"][0]
    assert hold["reasons"] == ["intruder"]
    assert hold["start_s"] == pytest.approx(3.0, abs=0.11)
    assert hold["end_s"] == pytest.approx(5.9, abs=0.2), (
        "20 frames of somebody, and the second that a view has to be clear"
    )
    assert row["examine_ms"]["p50"] > 0
    lines = list(csv.DictReader((tmp_path / "visit.csv").open()))
    assert len(lines) == 80
    assert lines[35]["state"] == "intruder"
    assert float(lines[35]["zone_percent"]) > 1
    with av.open(str(tmp_path / "visit.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == 80


def test_an_empty_recording_has_no_false_alarm_and_a_visit_in_one_is_counted(recordings: dict[str, Path]) -> None:
    whole = "0,0 640,0 640,360 0,360"
    done = run_cli(str(recordings["empty"]), "--zone", whole, "--empty", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recordings"][0]["false_alarms_per_hour"] == 0
    done = run_cli(str(recordings["visit"]), "--zone", whole, "--empty", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["recordings"][0]["false_alarms_per_hour"] == pytest.approx(450)  # one in 8 s


def test_a_lamp_step_is_one_hold_of_one_reason(recordings: dict[str, Path]) -> None:
    row = trial.run(recordings["lamp"], GUARD, CAMERA, None, from_median=False).figures(empty=True)
    assert [h["reasons"] for h in row["holds"]] == [["view changed"]]


def test_what_is_no_recording_and_no_camera_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_text("no video")
    done = run_cli(str(tmp_path / "x.mp4"))
    assert done.returncode == 2
    assert "give a video that FFmpeg reads" in done.stderr
    done = run_cli(str(tmp_path / "x.mp4"), "--camera", "roof")
    assert done.returncode == 2
    assert "the configuration has bed, door, window" in done.stderr


def test_a_lamp_step_with_a_person_stays_a_hold_and_alone_ends_once() -> None:
    row = bench_guard.light_steps()
    assert row["alone"] == ["view changed", "clear"]
    assert row["with_person"][0] == "view changed"
    assert row["with_person"][-1] == "intruder"
    assert "clear" not in row["with_person"]


def test_a_half_exposed_lamp_step_is_the_same_one_hold() -> None:
    """A rolling shutter shows the old light above and the new one below for one frame."""
    room = Room()
    detector = Detector(GUARD, CAMERA)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None)
    mixed = room.frame()
    mixed[180:] = room.frame(gain=1.35)[180:]
    states = [detector.update(f, None).state for f in [mixed, *(room.frame(gain=1.35) for _ in range(50))]]
    assert set(states) == {ViewState.VIEW_CHANGED}


def test_dusk_is_one_hold_of_one_reason_and_one_clear_when_a_person_says_so() -> None:
    """A camera switches to its infrared lamp: every surface has another grey. It never becomes normal by itself."""
    room = Room()
    detector = Detector(GUARD, CAMERA)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None)
    night = np.clip(235 - 0.8 * room.picture + 20 * np.sin(room.picture / 9), 20, 235).astype(np.float32)
    states = [detector.update(room.frame(night), None).state for _ in range(200)]
    assert set(states) == {ViewState.VIEW_CHANGED}
    detector.relearn()
    after = [detector.update(room.frame(night), None).state for _ in range(40)]
    changes = [after[0]] + [b for a, b in pairwise(after) if a is not b]
    assert changes == [ViewState.LEARNING, ViewState.CLEAR]


def test_a_camera_that_is_knocked_is_a_hold() -> None:
    room = Room()
    detector = Detector(GUARD, CAMERA)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None)
    moved = np.roll(room.picture, (6, 14), (0, 1))
    states = [detector.update(room.frame(moved), None).state for _ in range(200)]
    assert ViewState.CLEAR not in states[2:]


def test_the_long_scenes_of_the_bench_hold_what_they_say_in_short() -> None:
    assert bench_guard.empty_scene(seconds=8)["holds"] == 0
    assert bench_guard.still_person(seconds=8)["frames_lost"] == 0
    dusk = bench_guard.dusk()
    assert (dusk["holds"], dusk["reasons"], dusk["clears"]) == (1, 1, 1)


def test_the_whole_loop_needs_no_more_memory_and_a_frozen_camera_is_named() -> None:
    row = bench_guard_live.memory_growth(600)
    assert row["frames"] >= 600
    assert row["grown_kb"] < 4096
    assert bench_guard_live.frozen(1)["word_ms"]["max"] > 500


def test_a_long_bench_goes_on_where_it_was(tmp_path: Path) -> None:
    said: list[str] = []
    first = bench_guard.run(None, 0, 300, False, tmp_path, ["light"], said.append)
    assert json.loads((tmp_path / "guard.json").read_text())["light"] == first["light"]
    (tmp_path / "guard.json").write_text(json.dumps({"light": {"alone_holds": 9}}))
    again = bench_guard.run(None, 0, 300, False, tmp_path, ["light"], said.append)
    assert again["light"] == {"alone_holds": 9}, "what is kept is not made again"
    assert said[-1] == "light: kept from an earlier run"
    assert again["targets"]["light_step_holds"] == {"value": 9, "limit": "<= 1", "reached": False}
    assert again["targets"]["empty_holds"]["reached"] is None
    quick = bench_guard.run(None, 0, 300, True, tmp_path, ["light"])
    assert quick["light"] == first["light"], "a quick run keeps nothing and takes nothing that was kept"


def test_an_entry_is_counted_once_however_often_the_witness_blinks() -> None:
    walk = {i: [(100 + 4 * i, 50, 30, 90)] if i % 3 else [] for i in range(30)}
    assert bench_guard_vtest.entries(walk) == [1]
    assert bench_guard_vtest.entries(walk | {40: [(400, 50, 30, 90)]}) == [1, 40]
