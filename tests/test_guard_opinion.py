"""The second opinion (`guard.person`): it may add to a hold, never keep one from beginning, never end one."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import test_guard_word
from patience import PATIENCE_S
from wardarm.config import Guard, RoomCamera
from wardarm.guard import trial
from wardarm.guard.opinion import FRESH_S, SecondOpinion
from wardarm.ops.bench_guard_vtest import VTEST
from wardarm.shm.layouts import HoldReason

WHOLE = [(0, 0), (640, 0), (640, 480), (0, 480)]
CAMERA = RoomCamera(name="bed", command="x", keep_out=WHOLE)
PROGRAM = Path(__file__).with_name("guard_camera_program.py")


@pytest.fixture(scope="module")
def people() -> np.ndarray:
    """Walkers of Debian's recording, enlarged to 640 x 480: tall enough to be seen in every look, whatever the noise."""
    if not VTEST.exists():
        pytest.skip("Debian's opencv-doc has the recording")
    whole = next(trial.frames(VTEST, Guard(width=768, height=576)))
    return np.asarray(cv2.resize(whole[130:370, 400:720], (640, 480), interpolation=cv2.INTER_CUBIC), np.uint8)


def until(condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_names_how_many_it_sees_and_an_old_opinion_is_none(people: np.ndarray) -> None:
    opinion = SecondOpinion("bed")
    assert opinion.label(time.monotonic_ns()) == ""
    at_ns = time.monotonic_ns()
    opinion.offer(people, at_ns)
    until(lambda: opinion.at_ns > 0)
    assert opinion.label(at_ns).endswith("seen as a person")
    assert opinion.label(at_ns)[0] in "123456789"
    far = CAMERA.model_copy(update={"keep_out": [(0, 0), (60, 0), (60, 60), (0, 60)]})
    assert not opinion.agrees(CAMERA, at_ns - 1)
    assert opinion.agrees(far, at_ns - 1), "nobody stands in that zone"
    assert not opinion.agrees(far, at_ns), "a look at a frame from before they left says nothing"
    later_ns = at_ns + int((FRESH_S + 0.1) * 1e9)
    assert opinion.label(later_ns) == ""


def test_a_detector_that_fails_says_so_and_has_no_opinion(caplog: pytest.LogCaptureFixture) -> None:
    opinion = SecondOpinion("bed")
    with caplog.at_level(logging.ERROR, "wardarm.guard"):
        opinion.offer(np.zeros((480, 640)), time.monotonic_ns())  # HOG takes uint8 only
        until(lambda: bool(caplog.records))
    assert "the person detector failed; the other rules go on" in caplog.text
    assert opinion.label(time.monotonic_ns()) == ""
    assert opinion.agrees(CAMERA, time.monotonic_ns()), "a view must be able to become clear without it"


class Guard640(test_guard_word.Guard):
    """The guard process with a second opinion, on one camera that shows a picture."""

    def __init__(self, folder: Path, person: str, picture: np.ndarray | None) -> None:
        self.person, self.picture = person, picture
        if picture is not None:
            np.save(folder / "picture.npy", picture)
        super().__init__(folder)

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        extra = f" --picture {self.folder}/picture.npy" if self.picture is not None else ""
        size = (640, 480) if self.picture is not None else (320, 180)
        command = f"{{python}} {PROGRAM} --width {{width}} --height {{height}} --fps {{fps}} --control {self.folder}/bed{extra}"
        zone = [(0, 0), (size[0], 0), size, (0, size[1])]
        self.config["guard"] = {
            "width": size[0], "height": size[1], "fps": 8, "warmup_frames": 10, "person": self.person,
            "cameras": [{"name": "bed", "command": command, "keep_out": zone}],
        }  # fmt: skip
        self.file.write_text(json.dumps(self.config))
        return super().start(*more)


@pytest.mark.parametrize("person", ["label", "require"])
def test_a_person_whom_it_does_not_see_holds_all_the_same(tmp_path: Path, person: str) -> None:
    """The figure is no person to HOG. It is a hold, at once, and ends by what the background model says."""
    guard = Guard640(tmp_path, person, None)
    try:
        guard.until_ok()
        guard.say("bed", "box")
        guard.until_reason(HoldReason.INTRUDER)
        guard.until(lambda h: h.detail.endswith(", not seen as a person") and not h.ok)
        guard.say("bed", "room")
        guard.until_ok()
    finally:
        guard.close()


@pytest.mark.parametrize(("person", "stays"), [("label", False), ("require", True)])
def test_only_with_require_a_view_in_which_it_sees_somebody_does_not_become_clear(
    tmp_path: Path, people: np.ndarray, person: str, stays: bool
) -> None:
    """Who was there when the view was learnt is furniture to the background model, and people to HOG."""
    guard = Guard640(tmp_path, person, people)
    try:
        guard.until_ok()
        guard.say("bed", "box")
        guard.until_reason(HoldReason.INTRUDER)
        guard.say("bed", "room")
        if stays:
            guard.until(lambda h: "just left the zone" in h.detail)
            end = time.monotonic() + 4  # a view is clear after one second
            while time.monotonic() < end:
                heard = guard.board.hear(guard.board.processes[0])
                assert heard.late or not heard.ok, heard
                time.sleep(0.01)
        else:
            guard.until_ok()
    finally:
        guard.close()
