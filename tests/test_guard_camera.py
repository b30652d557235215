"""A room camera that dies, hangs, repeats itself or talks nonsense is lost, says why, and comes back. Real programs,
real pipes."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from patience import PATIENCE_S
from wardarm.config import Guard, RoomCamera
from wardarm.guard.camera import CameraProgram, Frame, argv, looks_like_a_picture

GUARD = Guard(width=320, height=180, fps=25, lost_s=0.4)
ROOM = Path(__file__).with_name("guard_room.py")
ZONE = [(0.0, 0.0), (300.0, 0.0), (300.0, 170.0)]


class Rig:
    """A camera program told what to do by a file, polled like the guard's loop polls it."""

    def __init__(self, folder: Path) -> None:
        self.control = folder / "word"
        self.say("room")
        command = f"{{python}} {ROOM} --width {{width}} --height {{height}} --fps {{fps}} --control {self.control}"
        self.program = CameraProgram(RoomCamera(name="bed", command=command, keep_out=ZONE), GUARD, Path("x.toml"))
        self.frames: list[Frame] = []

    def say(self, word: str) -> None:
        self.control.with_suffix(".new").write_text(word)
        self.control.with_suffix(".new").rename(self.control)

    def until(self, condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, f"not reached in {limit_s} s; fault: {self.program.fault!r}"
            select.select(self.program.fds, [], [], 0.01)
            frame = self.program.poll(time.monotonic_ns())
            if frame is not None:
                self.frames.append(frame)

    def lost(self) -> bool:
        return self.program.lost

    def works(self) -> bool:
        return not self.program.lost


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    try:
        rig.until(rig.works)
        yield rig
    finally:
        rig.program.stop()


def test_frames_arrive_whole_and_in_order(rig: Rig) -> None:
    rig.until(lambda: len(rig.frames) >= 20)
    assert [f.number for f in rig.frames] == list(range(rig.frames[0].number, rig.frames[-1].number + 1))
    assert all(f.grey.shape == (180, 320) and f.grey.dtype == np.uint8 for f in rig.frames)


def test_a_killed_camera_is_lost_at_once_and_started_again(rig: Rig) -> None:
    first = rig.program.process
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    rig.until(rig.lost)
    assert "its program ended" in rig.program.fault
    rig.until(rig.works)
    assert rig.program.process is not None
    assert rig.program.process.pid != first.pid
    assert rig.program.starts == 2


def test_a_stopped_camera_is_lost_and_its_process_is_replaced(rig: Rig) -> None:
    first = rig.program.process
    assert first is not None
    os.kill(first.pid, signal.SIGSTOP)
    rig.until(rig.lost)
    assert "no frame for 0.4 s" in rig.program.fault
    rig.until(rig.works)
    with pytest.raises(ProcessLookupError):
        os.kill(first.pid, 0)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("frozen", "the picture is frozen"),
        ("silent", "no frame for 0.4 s"),
        ("garbage", "what it sends is no picture"),
        ("short", "57600 bytes"),
    ],
)
def test_what_is_no_live_picture_is_lost_and_comes_back(rig: Rig, word: str, why: str) -> None:
    rig.say(word)
    rig.until(rig.lost)
    seen = {rig.program.fault}
    rig.until(lambda: seen.add(rig.program.fault) or any(why in fault for fault in seen))
    rig.say("room")
    rig.until(rig.works)


def test_text_on_its_output_costs_a_frame_not_the_alignment(rig: Rig) -> None:
    rig.say("text")
    count = len(rig.frames)
    rig.until(lambda: rig.program.starts > 1 or rig.lost() or len(rig.frames) > count + 3)
    rig.say("room")
    rig.until(rig.works)
    rig.until(lambda: len(rig.frames) > count + 20)
    step = np.abs(np.diff(rig.frames[-1].grey.astype(int), axis=0)).mean()
    assert step < 15, "rows fit together: the frame starts where it should"


def test_a_program_that_fails_says_its_last_words_and_is_tried_less_and_less_often(tmp_path: Path) -> None:
    start = time.monotonic()
    rig = Rig(tmp_path)
    rig.say("exit")
    try:
        rig.until(lambda: "ended (exit 3): no such device: /dev/video9" in rig.program.fault)
        rig.until(lambda: rig.program.starts >= 4)
        assert time.monotonic() - start > 1.4, "0, 0.5 and 1 s between the first four starts"
        assert rig.program.lost
        assert not rig.program.starting
    finally:
        rig.program.stop()


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    camera = RoomCamera(name="bed", command="/no/such/program {width}", keep_out=ZONE)
    program = CameraProgram(camera, GUARD, Path("x.toml"))
    program.poll(time.monotonic_ns())
    assert program.fault == "/no/such/program: No such file or directory"
    assert program.lost


def test_stop_ends_the_whole_session(tmp_path: Path) -> None:
    shell = f"sh -c 'sleep 600 & echo $! > {tmp_path}/pid; wait'"
    program = CameraProgram(RoomCamera(name="bed", command=shell, keep_out=ZONE), GUARD, Path("x.toml"))
    end = time.monotonic() + PATIENCE_S
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()):
        program.poll(time.monotonic_ns())
        assert time.monotonic() < end
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    program.stop()
    state = Path(f"/proc/{child}/stat")
    end = time.monotonic() + PATIENCE_S
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end, "the grandchild lives on"
        time.sleep(0.02)


def test_the_command_is_split_without_a_shell() -> None:
    camera = RoomCamera(name="bed", command="{python} 'a b' {width}x{height}@{fps};$(x) {config} {name}", keep_out=ZONE)
    assert argv(camera, GUARD, Path("/c.toml")) == [sys.executable, "a b", "320x180@25;$(x)", "/c.toml", "bed"]


def test_noise_is_no_picture_but_a_dark_room_is() -> None:
    rng = np.random.default_rng(0)
    assert not looks_like_a_picture(rng.integers(0, 256, (180, 320), np.uint8))
    assert looks_like_a_picture(rng.integers(8, 16, (180, 320)).astype(np.uint8))
