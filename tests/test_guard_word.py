"""guard as a process: cameras in, word out, read like gate reads it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from patience import PATIENCE_S
from wardarm.gate.words import Heard, WordBoard
from wardarm.guard import memory
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

ROOM = Path(__file__).with_name("guard_room.py")
DEADLINE_S = 1.0  # of the word, for this listener: the machine may stand still for a while


class Guard:
    """The guard process on two synthetic cameras, and the word it says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.prefix = folder, f"tg{secrets.token_hex(4)}_"
        cameras = []
        for name in ("bed", "door"):
            self.say(name, "room")
            command = f"{{python}} {ROOM} --width {{width}} --height {{height}} --fps {{fps}} --control {folder}/{name}"
            zone = [(0, 0), (320, 0), (320, 180), (0, 180)]
            cameras.append({"name": name, "command": command, "keep_out": zone})
        self.config = {
            "schema": 1,
            "shm": {"prefix": self.prefix},
            "guard": {"width": 320, "height": 180, "fps": 20, "lost_s": 1.0, "warmup_frames": 10, "cameras": cameras},
            "log": {"directory": str(folder)},
        }
        self.file = folder / "wardarm.json"
        self.file.write_text(json.dumps(self.config))
        ring.create(BlockKind.WORD, self.prefix, ProcessId.GUARD)
        self.board = WordBoard([ProcessId.GUARD], self.prefix, DEADLINE_S)
        self.process = self.start()

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "wardarm.guard.main", "--config", str(self.file), *more]
        return subprocess.Popen(argv, env=os.environ | {"OMP_NUM_THREADS": "1"})

    def say(self, camera: str, word: str) -> None:
        (self.folder / f"{camera}.new").write_text(word)
        (self.folder / f"{camera}.new").rename(self.folder / camera)

    def until(self, condition: Callable[[Heard], bool], limit_s: float = PATIENCE_S) -> Heard:
        end = time.monotonic() + limit_s
        while True:
            heard = self.board.hear(ProcessId.GUARD)
            if condition(heard):
                return heard
            assert time.monotonic() < end, f"not reached in {limit_s} s; last word: {heard}"
            time.sleep(0.005)

    def until_ok(self) -> Heard:
        return self.until(lambda h: h.true)

    def until_reason(self, reason: HoldReason) -> Heard:
        return self.until(lambda h: not h.late and not h.ok and h.reason is reason)

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in (self.folder / "guard.jsonl").read_text().splitlines()]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        ring.block_path(BlockKind.WORD, self.prefix, ProcessId.GUARD).unlink(missing_ok=True)
        memory.forget(self.prefix)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    guard = Guard(tmp_path)
    try:
        yield guard
    finally:
        guard.close()


def test_the_word_is_starting_then_true_then_follows_the_person(guard: Guard) -> None:
    first = guard.until_reason(HoldReason.STARTING)
    guard.until_ok()
    guard.say("door", "person")
    seen = guard.until_reason(HoldReason.INTRUDER)
    assert seen.detail.startswith("door: somebody in the zone")
    assert seen.hold_seq > first.hold_seq
    guard.say("door", "room")
    guard.until_ok()
    guard.say("bed", "person")
    again = guard.until_reason(HoldReason.INTRUDER)
    assert again.hold_seq == seen.hold_seq + 1
    expected, end = ["NONE", "INTRUDER", "NONE", "INTRUDER"], time.monotonic() + PATIENCE_S
    while [e["reason"] for e in guard.events() if e["event"] == "word"] != expected:  # the word first, then its line
        assert time.monotonic() < end, guard.events()
        time.sleep(0.02)


def test_a_lost_camera_and_a_covered_one_are_told_apart(guard: Guard) -> None:
    guard.until_ok()
    guard.say("bed", "frozen")
    assert guard.until_reason(HoldReason.ROOM_CAMERA_LOST).detail == "bed: the picture is frozen"
    guard.say("bed", "room")
    guard.until_ok()
    guard.say("door", "dark")
    assert guard.until_reason(HoldReason.VIEW_CHANGED).detail.startswith("door:")
    guard.say("door", "room")
    guard.until_ok()


def test_a_person_outranks_a_lost_camera_and_both_are_named(guard: Guard) -> None:
    guard.until_ok()
    guard.say("bed", "silent")
    guard.until_reason(HoldReason.ROOM_CAMERA_LOST)
    guard.say("door", "person")
    heard = guard.until_reason(HoldReason.INTRUDER)
    assert "door: somebody" in heard.detail
    assert "bed: no frame for 1 s" in heard.detail


def test_a_frozen_guard_has_a_late_word(guard: Guard) -> None:
    guard.until_ok()
    os.kill(guard.process.pid, signal.SIGSTOP)
    try:
        heard = guard.until(lambda h: h.late)
        assert heard.ok
        assert not heard.true
    finally:
        os.kill(guard.process.pid, signal.SIGCONT)


def test_a_killed_guard_takes_its_cameras_with_it(guard: Guard) -> None:
    guard.until_ok()
    children = Path(f"/proc/{guard.process.pid}/task/{guard.process.pid}/children").read_text().split()
    assert len(children) == 2
    guard.process.kill()
    guard.process.wait()
    end = time.monotonic() + PATIENCE_S
    while any(Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children):
        assert time.monotonic() < end, "a camera program lives on and keeps its device"
        time.sleep(0.02)


def test_a_stopped_guard_leaves_a_false_word(guard: Guard) -> None:
    guard.until_ok()
    guard.process.terminate()
    assert guard.process.wait(PATIENCE_S) == 0
    heard = guard.board.hear(ProcessId.GUARD)
    assert not heard.ok
    assert heard.detail == "guard was stopped" or heard.late


def test_relearn_makes_the_present_view_the_normal_one(guard: Guard) -> None:
    guard.until_ok()
    guard.say("bed", "person")
    seen = guard.until(lambda h: h.reason is HoldReason.INTRUDER)
    assert guard.start("--relearn").wait(PATIENCE_S) == 0
    guard.until(lambda h: h.hold_seq > seen.hold_seq)  # it says STARTING, for less time than a stalled test looks away
    guard.until_ok()


def test_a_wrong_zone_ends_the_program_with_its_name(guard: Guard) -> None:
    cameras = guard.config["guard"]["cameras"]  # type: ignore[index]
    cameras[1]["keep_out"] = [(0, 0), (300, 150), (300, 0), (0, 150)]
    guard.file.write_text(json.dumps(guard.config))
    argv = [sys.executable, "-m", "wardarm.guard.main", "--config", str(guard.file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "guard.cameras[door].keep_out: the edge from point 1 meets the edge from point 3" in done.stderr


def test_a_guard_that_died_does_not_learn_who_stands_there(guard: Guard) -> None:
    guard.until_ok()
    guard.say("bed", "person")
    guard.until_reason(HoldReason.INTRUDER)
    guard.process.kill()
    guard.process.wait()
    guard.process = guard.start()
    heard = guard.until(lambda h: not h.late and h.reason is not HoldReason.STARTING)
    assert heard.reason is HoldReason.INTRUDER
    guard.say("bed", "room")
    guard.until_ok()


def test_an_orderly_end_forgets_the_room(guard: Guard) -> None:
    guard.until_ok()
    assert memory.path(guard.prefix).exists()
    guard.process.terminate()
    guard.process.wait(PATIENCE_S)
    assert not memory.path(guard.prefix).exists()


def test_a_camera_that_never_comes_back_is_an_error_in_the_log_and_in_the_word(guard: Guard) -> None:
    guard.until_ok()
    guard.say("door", "exit")
    heard = guard.until(lambda h: "times in vain" in h.detail)
    assert heard.reason is HoldReason.ROOM_CAMERA_LOST
    assert heard.detail.startswith("door: its program ended (exit 3): no such device: /dev/video9 (started ")

    def lines() -> list[dict[str, object]]:
        return [e for e in guard.events() if e["event"] == "camera does not come back: it needs a person"]

    guard.until(lambda _h: bool(lines()))  # with its next start
    assert (lines()[0]["camera"], lines()[0]["level"]) == ("door", "error")
