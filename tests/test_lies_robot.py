"""A controller that is not as arm needs it when arm starts: in local control, not powered, taken by another client."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest
from arm_bench import Bench
from test_arm_robot import with_dashboard
from test_ur_rtde import Client
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, CommandKind, HoldReason, ProcessId


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("lies_robot"), 7)
    bench.start_controller()
    bench.speakers.start()
    bench.start("gate")
    yield bench
    bench.__exit__()


@pytest.fixture
def bench(whole: Bench) -> Iterator[Bench]:
    """The controller as it is after power-up in the morning, powered, remote, nobody connected; no arm yet."""
    whole.say("remote on")
    ring.block_path(BlockKind.ARM_STATUS, whole.prefix).unlink(missing_ok=True)  # no arm before this one
    ring.create(BlockKind.ARM_STATUS, whole.prefix)
    whole.reader = ring.Reader(BlockKind.ARM_STATUS, whole.prefix)
    yield whole
    if "arm" in whole.processes and whole.processes["arm"].poll() is None:
        whole.kill("arm", 15)


def said(bench: Bench) -> str:
    """arm's word, and what its holds say."""
    slot = ring.Reader(BlockKind.WORD, bench.prefix, ProcessId.ARM).latest()
    status = bench.status
    holds = [ring.text(h["detail"]) for h in status["holds"][: int(status["hold_count"])]]
    return "; ".join([ring.text(slot.data["detail"]) if slot is not None else "", *holds])


def refuses(bench: Bench, state: ArmState, words: str) -> None:
    """arm says these words in this state for a second, and its word is false."""
    bench.until(lambda: bench.state is state and words in said(bench))
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        slot = ring.Reader(BlockKind.WORD, bench.prefix, ProcessId.ARM).latest()
        assert slot is None or not slot.data["ok"]
        assert not int(bench.status["motion_request"])
        time.sleep(0.02)


def test_a_silent_dashboard_is_named_and_arm_goes_on_by_itself_once_it_speaks(bench: Bench) -> None:
    """At the start: no program is uploaded. Under way: nobody needs it; a Recover says why it could not."""
    bench.say("inject mute dashboard on")
    bench.start("arm")
    refuses(bench, ArmState.OFFLINE, "no answer")
    assert bench.say("state")["runtime"] == "STOPPED"
    bench.say("inject mute dashboard off")
    bench.ready()
    bench.say("inject mute dashboard on")
    moving = bench.move([0.1, 0, 0, 0, 0, 0], 2.0)
    bench.finished(moving)
    assert not bench.holds()
    bench.say("inject protective a hand on the arm")
    bench.until_state(ArmState.PROTECTIVE)
    bench.until(lambda: "no answer" in bench.command(CommandKind.RECOVER)[1])
    assert bench.state is ArmState.PROTECTIVE
    bench.say("inject mute dashboard off")
    bench.until(lambda: bench.command(CommandKind.RECOVER)[0] == 0)


def test_a_controller_in_local_control_gets_no_program_until_it_is_remote(bench: Bench) -> None:
    bench.say("remote off")
    started = bench.say("state")["runtime"]
    bench.start("arm")
    refuses(bench, ArmState.CONNECTED, "local control; switch the pendant to Remote")
    assert bench.say("state")["runtime"] == started == "STOPPED"
    bench.say("remote on")
    bench.ready()
    bench.finished(bench.move([0] * 6, 0.2))


def test_a_robot_that_is_not_powered_waits_for_a_persons_power_on(bench: Bench) -> None:
    bench.say("remote on")
    with_dashboard(bench, "power off")
    bench.say("remote on")
    bench.start("arm")
    refuses(bench, ArmState.CONNECTED, "robot mode: power off; PowerOn")
    bench.until(lambda: bench.command(CommandKind.POWER_ON)[0] == 0)
    bench.until(lambda: bench.state is ArmState.READY or (bench.state is ArmState.HELD and not bench.resume()[0]))
    bench.ready()


def test_another_client_on_the_inputs_keeps_arm_away_and_is_named_as_the_cause(bench: Bench) -> None:
    other = Client(bench.address)
    other.ask("V", struct.pack(">H", 2))
    assert b"IN_USE" not in other.ask("I", b"input_int_register_18")
    bench.start("arm")
    try:
        refuses(bench, ArmState.OFFLINE, "RTDE inputs are taken: switch EtherNet/IP, PROFINET, drivers off")
    finally:
        other.link.close()
    bench.ready()


def test_a_second_arm_is_refused_and_the_first_goes_on(bench: Bench) -> None:
    bench.start("arm")
    bench.ready()
    first = bench.processes.pop("arm")
    try:
        bench.start("arm")
        assert bench.processes["arm"].wait(60) != 0
    finally:
        bench.processes["arm"] = first
    if bench.state is ArmState.HELD:  # two processes that start can make a shared machine late
        assert {reason for reason, _ in bench.holds()} <= {HoldReason.WATCHDOG, HoldReason.GATE_FAULT}
        bench.resume()
    bench.ready()
    bench.finished(bench.move([0] * 6, 0.2))
