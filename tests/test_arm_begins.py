"""How an arm begins: held, if another one was there before it while the system ran or in the middle of a movement."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from wardarm.arm.status import Inherited, StatusBlock, begins_held, inherit, system_went_on
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, ProcessId

PREFIX = f"tbegins{os.getpid()}_"
GUARD, API = ProcessId.GUARD, ProcessId.API
ASK = f"""
from wardarm.arm.status import system_went_on
from wardarm.gate.words import OwnWord
from wardarm.shm.layouts import ProcessId
%s
print(system_went_on({PREFIX!r}, [ProcessId.API, ProcessId.GUARD]))
"""


@pytest.fixture(autouse=True)
def blocks() -> Iterator[None]:
    ring.create(BlockKind.ARM_STATUS, PREFIX)
    for process in (GUARD, API):
        ring.create(BlockKind.WORD, PREFIX, process)
    yield
    for file in ring.SHM.glob(f"{PREFIX}*"):
        file.unlink()


def a_younger_process(first: str = "") -> str:
    """What a process that is started now says about the system."""
    return subprocess.run(
        [sys.executable, "-c", ASK % first], capture_output=True, text=True, timeout=60, check=True
    ).stdout.strip()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("went_on", [False, True])
def test_it_begins_held_after_a_movement_or_within_a_running_system(known: bool, moved: bool, went_on: bool) -> None:
    why = begins_held(Inherited(known=known, moved=moved), went_on)
    assert bool(why) == (moved or (known and went_on))
    if why:
        assert ("under way" in why) == moved


@pytest.mark.parametrize("state", list(ArmState))
def test_an_arm_that_had_something_loaded_or_moved_counts_as_moved(state: ArmState) -> None:
    assert inherit(PREFIX) == Inherited()
    block = StatusBlock(PREFIX)
    block.record["state"], block.record["plan_epoch"] = state, 7
    block.publish()
    left = inherit(PREFIX)
    assert left.known
    assert left.plan_epoch == 7
    assert left.moved == (state in (ArmState.LOADED, ArmState.RUNNING, ArmState.RAMP_DOWN))


def test_the_system_went_on_if_another_process_lives_and_is_older() -> None:
    assert a_younger_process() == "False"  # nobody has written a word
    word = OwnWord(GUARD, PREFIX, 0.0)
    word.say(True)
    assert a_younger_process() == "True"
    assert not system_went_on(PREFIX, [API, GUARD])  # its writer is no older than itself
    assert not system_went_on(PREFIX, [API])


def test_a_process_that_ended_did_not_go_on() -> None:
    says = f"OwnWord(ProcessId.GUARD, {PREFIX!r}, 0.0).say(True)"
    assert a_younger_process(says) == "False"  # itself
    assert ring.Reader(BlockKind.WORD, PREFIX, GUARD).latest() is not None
    assert a_younger_process() == "False"  # the one before, which is gone
