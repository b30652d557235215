"""What can go wrong with a camera's program while it runs: each is a lost camera that says why, and comes back."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from patience import PATIENCE_S, soonest
from wardarm.config import Guard, RoomCamera
from wardarm.guard.camera import IN_VAIN, CameraProgram, Frame

GUARD = Guard(width=320, height=180, fps=15, lost_s=1.0)
PROGRAM = Path(__file__).with_name("guard_camera_program.py")
ZONE = [(0.0, 0.0), (300.0, 0.0), (300.0, 170.0)]


class Rig:
    def __init__(self, folder: Path, guard: Guard = GUARD) -> None:
        self.control = folder / "word"
        self.say("room")
        command = f"{{python}} {PROGRAM} --width {{width}} --height {{height}} --fps {{fps}} --control {self.control}"
        self.program = CameraProgram(RoomCamera(name="bed", command=command, keep_out=ZONE), guard, Path("x.toml"))
        self.frames: list[Frame] = []
        self.slowest_poll_s = 0.0

    def say(self, word: str) -> None:
        self.control.with_suffix(".new").write_text(word)
        self.control.with_suffix(".new").rename(self.control)

    def until(self, condition: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, f"not reached in {limit_s} s; fault: {self.program.fault!r}"
            select.select(self.program.fds, [], [], 0.01)
            begin = time.thread_time()
            frame = self.program.poll(time.monotonic_ns())
            self.slowest_poll_s = max(self.slowest_poll_s, time.thread_time() - begin)
            if frame is not None:
                self.frames.append(frame)

    def fault(self, word: str, why: str) -> None:
        """Until it is lost and says `why`; then the program behaves again, and it comes back."""
        self.say(word)
        self.until(lambda: self.program.lost and why in self.program.fault)
        self.say("room")
        self.until(lambda: not self.program.lost)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    try:
        rig.until(lambda: not rig.program.lost)
        yield rig
    finally:
        rig.program.stop()


def test_a_rate_that_decays_from_15_to_4_is_a_lost_camera_that_says_so(rig: Rig) -> None:
    rig.fault("slow", "instead of 15 frames/s")


def test_a_program_that_floods_is_lost_and_never_keeps_the_loop_from_its_word(rig: Rig) -> None:
    rig.slowest_poll_s = 0.0
    rig.fault("flood", "it floods: more than")
    assert rig.slowest_poll_s < 0.1


def test_a_frozen_picture_is_lost_within_a_second_even_if_a_clock_in_it_goes_on(rig: Rig) -> None:
    rig.until(lambda: len(rig.frames) > 20)

    def lost_s() -> float:
        rig.say("clock")
        last = rig.frames[-1].arrival_ns
        rig.until(lambda: rig.program.lost and "frozen" in rig.program.fault)
        moved = [f for f in rig.frames if f.arrival_ns > last]
        took_s = (time.monotonic_ns() - (moved[-1].arrival_ns if moved else last)) * 1e-9
        rig.say("room")
        rig.until(lambda: not rig.program.lost)
        return took_s

    soonest(lost_s, 1.0)


def test_a_driver_that_hands_out_its_four_buffers_in_turn_is_a_frozen_picture(rig: Rig) -> None:
    """No two frames in a row are alike, and whoever walks in is in none of them."""
    rig.fault("ring", "the picture is frozen")


def test_half_frames_are_a_lost_camera(rig: Rig) -> None:
    rig.fault("half", "instead of 57600 bytes")


def test_another_resolution_is_a_lost_camera(rig: Rig) -> None:
    """384 x 180 read as 320 x 180: more bytes than a frame, or rows that do not fit."""
    rig.say("wide")
    rig.until(lambda: rig.program.lost)
    assert rig.program.fault
    rig.say("room")
    rig.until(lambda: not rig.program.lost)


def test_a_program_that_hangs_is_lost_and_replaced(rig: Rig) -> None:
    assert rig.program.process is not None
    first = rig.program.process.pid
    rig.say("hang")
    rig.until(lambda: rig.program.lost)
    rig.say("room")
    rig.until(lambda: not rig.program.lost)
    assert rig.program.process is not None
    assert rig.program.process.pid != first


def test_ten_thousand_log_lines_a_second_cost_no_frame(rig: Rig) -> None:
    rig.say("loud")
    count = len(rig.frames)
    rig.until(lambda: len(rig.frames) > count + 30)
    assert not rig.program.lost
    assert rig.slowest_poll_s < 0.1


def test_restarts_that_never_help_say_that_a_person_is_needed(tmp_path: Path) -> None:
    camera = RoomCamera(name="bed", command="sh -c 'echo no device >&2; exit 4'", keep_out=ZONE)
    program = CameraProgram(camera, GUARD, Path("x.toml"))
    now, starts = time.monotonic_ns(), []
    try:
        while program.in_vain < IN_VAIN + 2:  # the program is real, the clock is ours: minutes of waiting in a second
            before = program.starts
            program.poll(now)
            if program.starts != before:
                starts.append(now * 1e-9)
            time.sleep(0.002)
            now += 50_000_000
    finally:
        program.stop()
    assert f"(started {program.in_vain} times in vain)" in program.fault
    waits = [b - a for a, b in pairwise(starts)]
    assert waits[-1] > waits[1] + 2, "less and less often"
    assert program.lost
