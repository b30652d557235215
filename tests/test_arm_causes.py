"""What forbids motion now: silence before and after a first word, stray ticks, drops."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wardarm.arm import causes
from wardarm.arm.causes import Board, robot_causes
from wardarm.arm.state import PlayerState, RobotMode, RuntimeState, SafetyMode, Seen
from wardarm.config import Config
from wardarm.gate.words import GATE_FAREWELL, OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import GATE_STATUS, BlockKind, HoldReason, ProcessId

PREFIX = f"tc{os.getpid()}_"
CONFIG = Config.model_validate({"schema": 1, "shm": {"prefix": PREFIX}, "gate": {"word_deadline_ms": 100}})


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    for file in Path("/dev/shm").glob(f"{PREFIX}*"):
        file.unlink()


class Others:
    """Every word, and gate's status."""

    def __init__(self) -> None:
        self.words = {p: OwnWord(p, PREFIX, 0.0) for p in (ProcessId.GUARD, ProcessId.API, ProcessId.EYE)}
        self.gate = ring.Writer(BlockKind.GATE_STATUS, PREFIX)

    def beat(self, *silent: ProcessId, pwm_on: bool = False) -> None:
        for process, word in self.words.items():
            if process not in silent:
                word.say(True)
        if ProcessId.GATE not in silent:
            status: Any = np.zeros((), GATE_STATUS)
            status["beat_ns"], status["pwm_on"] = time.monotonic_ns(), pwm_on
            self.gate.publish(status)


def reasons(board: Board) -> dict[ProcessId, HoldReason]:
    board.read_gate()
    return {c.writer: c.reason for c in board.word_causes()}


@pytest.mark.usefixtures("clean")
def test_silence_is_starting_until_the_first_word_and_a_watchdog_after_it() -> None:
    others, board = Others(), Board(CONFIG)
    starting = HoldReason.STARTING
    assert reasons(board) == {ProcessId.API: starting, ProcessId.GUARD: starting, ProcessId.GATE: starting}
    others.beat()
    assert reasons(board) == {}
    time.sleep(0.15)  # everybody late
    assert reasons(board) == {
        ProcessId.API: HoldReason.WATCHDOG,
        ProcessId.GUARD: HoldReason.WATCHDOG,
        ProcessId.GATE: HoldReason.GATE_FAULT,
    }


@pytest.mark.usefixtures("clean")
def test_a_restarted_process_is_a_watchdog_hold_not_a_start() -> None:
    others, board = Others(), Board(CONFIG)
    others.beat()
    assert reasons(board) == {}
    others.beat(ProcessId.GUARD)
    others.words[ProcessId.GUARD].say(False, HoldReason.STARTING, "warming up")
    assert reasons(board) == {ProcessId.GUARD: HoldReason.WATCHDOG}


@pytest.mark.usefixtures("clean")
def test_an_explicit_hold_counts_with_its_own_reason_even_at_the_start() -> None:
    others, board = Others(), Board(CONFIG)
    others.beat(ProcessId.GUARD)
    others.words[ProcessId.GUARD].say(False, HoldReason.INTRUDER, "a person in zone 1")
    assert reasons(board) == {ProcessId.GUARD: HoldReason.INTRUDER}


@pytest.mark.usefixtures("clean")
def test_a_gate_that_was_ended_in_order_is_no_fault_of_the_line() -> None:
    others, board = Others(), Board(CONFIG)
    others.beat(pwm_on=True)
    assert reasons(board) == {}
    status: Any = np.zeros((), GATE_STATUS)
    status["beat_ns"], status["detail"] = time.monotonic_ns(), GATE_FAREWELL.encode()
    others.gate.publish(status)
    assert reasons(board) == {ProcessId.GATE: HoldReason.WATCHDOG}  # at once, while the beat is still fresh
    time.sleep(0.15)
    others.beat(ProcessId.GATE)
    assert reasons(board) == {ProcessId.GATE: HoldReason.WATCHDOG}  # and it stays one incident
    others.beat()
    assert reasons(board) == {}  # the next gate


@pytest.mark.usefixtures("clean")
def test_ticks_without_a_pwm_are_a_gate_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "STRAY_TICKS_S", 0.05)
    others, board = Others(), Board(CONFIG)
    others.beat(pwm_on=True)
    board.read_gate()
    assert board.stray_ticks(20) is None
    others.beat()
    board.read_gate()
    assert board.stray_ticks(20) is None  # the last edges are still on their way
    time.sleep(0.06)
    others.beat()
    board.read_gate()
    assert board.stray_ticks(0) is None
    stray = board.stray_ticks(20)
    assert stray is not None
    assert stray.reason is HoldReason.GATE_FAULT
    assert "wiring" in stray.detail


FINE = Seen(True, RobotMode.RUNNING, SafetyMode.NORMAL, RuntimeState.PLAYING, PlayerState.READY)


def test_a_robot_that_is_fine_is_no_cause() -> None:
    assert robot_causes(FINE, True, "") == []


def test_a_stop_of_the_robot_is_a_hold_even_at_the_start() -> None:
    stopped = Seen(True, RobotMode.RUNNING, SafetyMode.PROTECTIVE_STOP, RuntimeState.PAUSED, None)
    assert [c.reason for c in robot_causes(stopped, False, "")] == [HoldReason.ROBOT]


def test_a_player_that_is_not_up_yet_is_a_start_and_one_that_is_gone_a_hold() -> None:
    gone = Seen(True, RobotMode.RUNNING, SafetyMode.NORMAL, RuntimeState.STOPPED, None)
    assert [c.reason for c in robot_causes(gone, False, "uploading the player")] == [HoldReason.STARTING]
    assert [c.reason for c in robot_causes(gone, True, "the player program was stopped")] == [HoldReason.ROBOT]


def test_no_connection_says_why() -> None:
    offline = robot_causes(Seen(False), False, "controller 10.0.0.5:30004: no route")
    assert [c.detail for c in offline] == ["controller 10.0.0.5:30004: no route"]
