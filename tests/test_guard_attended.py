"""Attended mode and warn zones: guard says *go on, but gently*; everything else still holds; the clock ends it."""

from __future__ import annotations

import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from patience import PATIENCE_S
from test_guard_word import Guard
from wardarm import config as configuration
from wardarm.eye.gentle import Gentle as EyeGentle
from wardarm.eye.planned import Planned
from wardarm.gate.words import OwnWord, WordBoard
from wardarm.guard import attended, memory
from wardarm.guard.attended import AttendedWatch, Gentle, NotAttended, Speed
from wardarm.kinematics import Kinematics
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, BlockKind, HoldReason, ProcessId


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    guard = Guard(tmp_path)
    try:
        yield guard
    finally:
        guard.close()
        attended.path(guard.prefix).unlink(missing_ok=True)


@pytest.fixture
def config() -> Iterator[configuration.Config]:
    config = configuration.load("desk", {"shm.prefix": f"ta{secrets.token_hex(4)}_"})
    yield config
    attended.path(config.shm.prefix).unlink(missing_ok=True)
    ring.block_path(BlockKind.WORD, config.shm.prefix, ProcessId.GUARD).unlink(missing_ok=True)


def test_attended_mode_turns_an_intruder_into_going_gently_until_it_ends(guard: Guard) -> None:
    guard.until_ok()
    config = configuration.load(guard.file)
    attended.start(config, 5, "nurse Li", "dressing")
    guard.until(lambda h: h.slow)
    guard.say("door", "person")
    heard = guard.until(lambda h: "somebody in the zone" in h.detail)
    assert heard.true
    assert heard.reason is HoldReason.INTRUDER
    assert heard.detail.startswith("attended by nurse Li; door: somebody")
    assert attended.end(config)
    assert guard.until_reason(HoldReason.INTRUDER).detail.startswith("door: somebody")
    # the word comes first, the line in the log after it
    guard.until(lambda _: any(e["event"] == "attended mode ended" for e in guard.events()))
    events = [e for e in guard.events() if str(e["event"]).startswith("attended")]
    assert [(e["event"], e["actor"], e["why"]) for e in events] == [
        ("attended mode begins", "nurse Li", "dressing"),
        ("attended mode ended", "nurse Li", "dressing"),
    ]


def test_attended_mode_runs_out_by_itself(guard: Guard) -> None:
    guard.until_ok()
    asked = attended.start(configuration.load(guard.file), 0.05, "nurse Li", "dressing")
    guard.say("bed", "person")
    guard.until(lambda h: h.slow and "somebody" in h.detail)
    heard = guard.until_reason(HoldReason.INTRUDER)
    assert time.monotonic_ns() - int(heard.age_s * 1e9) >= asked.until_ns


def test_attended_mode_excuses_a_person_and_nothing_else(guard: Guard) -> None:
    guard.until_ok()
    attended.start(configuration.load(guard.file), 5, "nurse Li", "dressing")
    guard.until(lambda h: h.slow)
    guard.say("bed", "frozen")
    guard.until_reason(HoldReason.ROOM_CAMERA_LOST)
    guard.say("bed", "room")
    guard.until(lambda h: h.slow)
    guard.say("door", "dark")
    guard.until_reason(HoldReason.VIEW_CHANGED)


@pytest.mark.parametrize(
    ("minutes", "actor", "reason", "words"),
    [
        (31, "a", "b", "guard.attended_max_min"),
        (0, "a", "b", "minutes = 0"),
        (5, " ", "b", "actor"),
        (5, "a", "x" * 65, "reason"),
    ],
)
def test_a_request_without_a_name_or_too_long_is_refused(
    config: configuration.Config, minutes: float, actor: str, reason: str, words: str
) -> None:
    with pytest.raises(NotAttended, match=words):
        attended.start(config, minutes, actor, reason)
    assert not attended.path(config.shm.prefix).exists()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\xff\xff", b'{"actor": "x", "reason": "y", "since_ns": 0, "until_ns": 1e18}']
)
def test_a_damaged_or_overlong_request_is_none_and_says_why(config: configuration.Config, content: bytes) -> None:
    attended.path(config.shm.prefix).write_bytes(content)
    watch = AttendedWatch(config)
    assert watch.look(time.monotonic_ns()) is None
    assert "wardarm_attended" in watch.refused


def test_an_arm_that_does_not_become_slow_while_attended_is_a_hold(config: configuration.Config) -> None:
    gentle = Gentle(config)
    assert gentle.limit_m_s == pytest.approx(0.12)
    now = 10**9
    assert gentle.check(True, 0.25, now)
    assert gentle.check(True, 0.25, now + int((attended.GRACE_S - 0.1) * 1e9))
    assert not gentle.check(True, 0.25, now + int((attended.GRACE_S + 0.1) * 1e9))
    assert gentle.check(True, 0.10, now + int(9e9))
    assert gentle.check(False, 0.25, now + int(9e9))
    assert gentle.check(True, 0.25, now + int(9.1e9)), "a new person: the arm gets its moment again"


def test_the_arms_speed_is_taken_from_its_poses() -> None:
    speed, status = Speed(), np.zeros((), ARM_STATUS)
    assert speed.m_s() == 0
    for i in range(40):
        status["stamp_ns"], status["tcp_pose"][0] = 10**9 + i * 8_000_000, 0.2 * i * 0.008
        speed.add(status[()])
    assert speed.m_s() == pytest.approx(0.2, rel=1e-6)


def planned(speed_m_s: float, kinematics: Kinematics) -> Planned:
    q = np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5])
    qd = np.linalg.pinv(kinematics.jacobian(q)) @ np.array([speed_m_s, 0, 0, 0, 0, 0])
    return Planned(q, qd, np.zeros(6), kinematics.forward(q), 1.0)


def test_eye_goes_gently_when_guard_says_so_and_joins_the_gentle_profile_once_slow(
    config: configuration.Config,
) -> None:
    ring.create(BlockKind.WORD, config.shm.prefix, ProcessId.GUARD)
    word = OwnWord(ProcessId.GUARD, config.shm.prefix, 0.02)
    kinematics = Kinematics(config.arm)
    gentle = EyeGentle(config, kinematics)
    ward, patient = config.profile_index("ward"), config.profile_index("patient")
    word.say(True)
    assert (gentle.scale(ward), gentle.profile(ward, planned(0.0, kinematics))) == (1.0, ward)
    word.say(True, HoldReason.INTRUDER, "door: somebody comes near")
    assert gentle.scale(ward) == pytest.approx(0.4)
    assert gentle.profile(ward, planned(0.2, kinematics)) == ward, "an arm this fast cannot join the gentle profile"
    assert gentle.profile(ward, planned(0.05, kinematics)) == patient
    assert gentle.scale(patient) == 1.0
    word.say(False, HoldReason.INTRUDER, "door: somebody in the zone")
    assert gentle.scale(ward) == 1.0, "a hold is not eye's to carry out"


def test_going_gently_is_true_for_gate_and_a_new_hold_gets_a_new_number(config: configuration.Config) -> None:
    ring.create(BlockKind.WORD, config.shm.prefix, ProcessId.GUARD)
    word, board = (
        OwnWord(ProcessId.GUARD, config.shm.prefix, 0.02),
        WordBoard([ProcessId.GUARD], config.shm.prefix, 1.0),
    )
    word.say(True, HoldReason.INTRUDER, "attended by nurse Li")
    heard = board.hear(ProcessId.GUARD)
    assert (heard.true, heard.slow, heard.detail) == (True, True, "attended by nurse Li")
    word.say(False, HoldReason.INTRUDER, "door: somebody in the zone")
    held = board.hear(ProcessId.GUARD)
    assert (held.true, held.slow, held.hold_seq) == (False, False, heard.hold_seq + 1)
    word.say(True)
    clear = board.hear(ProcessId.GUARD)
    assert (clear.true, clear.slow, clear.detail) == (True, False, "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guard_that_is_killed_or_stopped_loses_its_word_within_the_gates_deadline(guard: Guard, number: int) -> None:
    guard.until_ok()
    deadline_s = configuration.load(guard.file).gate.word_deadline_ms * 1e-3
    assert deadline_s == 0.1
    board = WordBoard([ProcessId.GUARD], guard.prefix, deadline_s)
    end = time.monotonic() + PATIENCE_S
    while not board.hear(ProcessId.GUARD).true:
        assert time.monotonic() < end
    os.kill(guard.process.pid, number)
    killed_ns = time.monotonic_ns()
    try:
        while True:
            before_ns = time.monotonic_ns()
            heard = board.hear(ProcessId.GUARD)
            if not heard.true:
                break
            assert (before_ns - killed_ns) * 1e-9 < PATIENCE_S
        last_beat_ns = before_ns - int(heard.age_s * 1e9)
        assert last_beat_ns <= killed_ns + 1_000_000, "no beat after the signal: its age is at least the time since"
        assert heard.late
    finally:
        if number == signal.SIGSTOP:
            os.kill(guard.process.pid, signal.SIGCONT)


def test_a_full_disk_costs_the_log_and_the_memory_and_not_the_watch(tmp_path: Path) -> None:
    """No file may grow beyond 64 bytes: what a full disk does to the log and to the views that are kept."""
    guard = Guard(tmp_path)
    guard.process.kill()
    guard.process.wait()
    memory.forget(guard.prefix)
    (tmp_path / "guard.jsonl").unlink(missing_ok=True)
    argv = [sys.executable, "-m", "wardarm.guard.main", "--config", str(guard.file)]
    try:
        guard.process = subprocess.Popen(
            argv, stderr=subprocess.DEVNULL, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
        )
        guard.until_ok()
        guard.say("bed", "person")
        guard.until_reason(HoldReason.INTRUDER)
        guard.say("bed", "room")
        guard.until_ok()
        assert guard.process.poll() is None
        assert not memory.path(guard.prefix).exists()
        assert (tmp_path / "guard.jsonl").stat().st_size <= 64
    finally:
        guard.close()


def test_a_warn_zone_makes_the_word_gentle(tmp_path: Path) -> None:
    guard = Guard(tmp_path)
    guard.process.kill()
    guard.process.wait()
    for camera in guard.config["guard"]["cameras"]:  # type: ignore[index]
        camera["keep_out"] = [(0, 0), (60, 0), (60, 180), (0, 180)]
        camera["zones"] = [{"kind": "warn", "name": "aisle", "polygon": [(100, 0), (320, 0), (320, 180), (100, 180)]}]
    guard.file.write_text(json.dumps(guard.config))
    try:
        guard.process = guard.start()
        guard.until(lambda h: h.true and not h.slow)
        guard.say("door", "person")
        heard = guard.until(lambda h: h.slow)
        assert heard.true
        assert heard.detail == "door: somebody comes near"
        guard.say("door", "room")
        guard.until(lambda h: h.true and not h.slow)
    finally:
        guard.close()


def test_the_person_detector_never_ends_a_hold() -> None:
    """`require` without anybody seen, and with somebody seen: the detector's own hold stays, or is made longer."""
    from guard_room import Room
    from wardarm.config import Guard as GuardSection
    from wardarm.config import RoomCamera
    from wardarm.guard.detector import Detector, ViewState

    room = Room()
    camera = RoomCamera(name="bed", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])
    detector = Detector(GuardSection(fps=10), camera)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None)
    for _ in range(5):
        detector.update(room.frame(room.with_person(320, 330)), None)
    for _ in range(40):
        assert detector.update(room.frame(), None).state is ViewState.INTRUDER
        detector.quiet_for_a_person()
    assert [detector.update(room.frame(), None).state for _ in range(20)][-1] is ViewState.CLEAR
