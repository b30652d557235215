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
from wardarm.arm.causes import STEADY_S, Board, GateSeen, RobotEvents, robot_causes
from wardarm.arm.holds import Hold, HoldLatch
from wardarm.arm.link import Registers
from wardarm.arm.state import PlayerState, RobotMode, RuntimeState, SafetyMode, Seen
from wardarm.arm.under_way import EXPLAINS_S, UnderWay
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
    assert board.stray_ticks(20, time.monotonic() - 0.01) is None  # a controller that was silent until now: old words
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


def once(events: RobotEvents, rounds: list[Seen], trouble: str = "") -> list[Hold]:
    """The holds that arm latches of these looks, 8 ms apart."""
    latch, new = HoldLatch(), []
    for number, seen in enumerate(rounds):
        new += latch.see(events.causes(seen, True, trouble, 100 + 0.008 * number), number)
    return new


STOPPED = Seen(True, RobotMode.RUNNING, SafetyMode.PROTECTIVE_STOP, RuntimeState.PAUSED, None)
NO_PLAYER = Seen(True, RobotMode.RUNNING, SafetyMode.NORMAL, RuntimeState.STOPPED, None)
POWER_OFF = Seen(True, RobotMode.POWER_OFF, SafetyMode.NORMAL, RuntimeState.STOPPED, None)
ESTOP = Seen(True, RobotMode.POWER_OFF, SafetyMode.ROBOT_EMERGENCY_STOP, RuntimeState.STOPPED, None)
SILENT = Seen(False)


@pytest.mark.parametrize(
    "event",
    [[STOPPED] * 9 + [NO_PLAYER] * 9, [ESTOP] * 9 + [POWER_OFF] * 9 + [NO_PLAYER] * 9, [SILENT] * 9 + [NO_PLAYER] * 9,
     ([SILENT] * 9 + [FINE] * 9) * 4],
)  # fmt: skip
def test_one_event_of_the_robot_is_latched_once_until_it_is_over(event: list[Seen]) -> None:
    """From the stop until the player is up again; a connection that comes and goes is one event too."""
    assert len(once(RobotEvents(), [FINE, *event, *[FINE] * 100])) == 1


def test_the_next_event_and_a_worse_one_are_holds_of_their_own() -> None:
    again = [FINE, *[STOPPED] * 3, *[NO_PLAYER] * 3, *[FINE] * 3]
    assert len(once(RobotEvents(), again * 2)) == 2
    silent = [FINE, *[SILENT] * 3, *[FINE] * int(STEADY_S / 0.008 + 2)]
    assert len(once(RobotEvents(), silent * 2)) == 2
    assert len(once(RobotEvents(), [FINE, *[STOPPED] * 3, *[ESTOP] * 3, *[POWER_OFF] * 3])) == 2


def test_a_silent_controller_counts_as_back_after_its_data_flowed_for_a_while() -> None:
    events = RobotEvents()
    assert events.causes(SILENT, True, "no data", 100.0)
    assert events.causes(FINE, True, "", 100.0 + 0.9 * STEADY_S)[0].detail == "no data"
    assert not events.causes(FINE, True, "", 100.0 + 1.1 * STEADY_S)
    assert not RobotEvents().causes(FINE, True, "", 100.0)


class Wire:
    """What `UnderWay` sees of gate: a status that a test sets."""

    def __init__(self, **seen: Any) -> None:
        self.gate = GateSeen(**seen)


def player(state: PlayerState, ticks: int = 0) -> Registers:
    return Registers(state, 0, 0, 0, 0, 0, 0, ticks, 0.5, 1.0, 1.0, 0, 0, 0)


def test_a_lost_permit_is_blamed_on_the_wire_only_once_gate_had_time_to_say_why() -> None:
    watch = UnderWay(Wire(beat=7), None, 1.0)  # type: ignore[arg-type]
    assert watch.permit_lost(player(PlayerState.RUNNING), False, 10.0) is None
    assert watch.permit_lost(player(PlayerState.RAMPING), False, 10.0) is None
    assert watch.permit_lost(player(PlayerState.RAMPING), False, 10.0 + 0.9 * EXPLAINS_S) is None
    lost = watch.permit_lost(player(PlayerState.RAMPING, 3), False, 10.0 + EXPLAINS_S)
    assert lost is not None
    assert (lost.reason, lost.writer) == (HoldReason.GATE_FAULT, ProcessId.GATE)
    assert lost.detail == "the player lost its permit: 3 ticks in its window, gate's beat 7"
    assert watch.permit_lost(player(PlayerState.RAMPING), True, 10.2) is None  # somebody named a cause: not the wire
    assert watch.permit_lost(player(PlayerState.RAMPING), False, 10.3) is None  # and the time begins anew
    assert (
        watch.permit_lost(player(PlayerState.HELD), False, 10.3) is not None
    )  # it stands already: nothing to wait for


def test_a_drop_is_a_cause_once_and_the_first_count_is_none() -> None:
    wire = Wire(drop_seq=4, first_missing=ProcessId.GUARD, detail="guard: late")
    watch = UnderWay(wire, None, 1.0)  # type: ignore[arg-type]
    assert watch.dropped() is None
    wire.gate = GateSeen(drop_seq=5, first_missing=ProcessId.GUARD, detail="guard: late")
    dropped = watch.dropped()
    assert dropped is not None
    assert (dropped.reason, dropped.writer, dropped.incident) == (HoldReason.WATCHDOG, ProcessId.GUARD, 5)
    assert watch.dropped() is None
