"""The arm's state is what robot, player and holds say, for every combination."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from wardarm.arm.state import (
    MOVING,
    PlayerState,
    RobotMode,
    RuntimeState,
    SafetyMode,
    Seen,
    arm_state,
    program_trouble,
    robot_trouble,
)  # fmt: skip
from wardarm.shm.layouts import ArmState


def seen(
    *, linked: bool = True, robot: int = RobotMode.RUNNING, safety: int = SafetyMode.NORMAL,
    runtime: int = RuntimeState.PLAYING, player: PlayerState | None = PlayerState.READY, starting: bool = False,
    held: bool = False,
) -> Seen:  # fmt: skip
    return Seen(linked, robot, safety, runtime, player, starting, held)


@pytest.mark.parametrize(
    ("what", "state"),
    [
        (seen(), ArmState.READY),
        (seen(linked=False), ArmState.OFFLINE),
        (seen(player=PlayerState.LOADED), ArmState.LOADED),
        (seen(player=PlayerState.RUNNING), ArmState.RUNNING),
        (seen(player=PlayerState.RAMPING), ArmState.RAMP_DOWN),
        (seen(player=PlayerState.HELD), ArmState.HELD),
        (seen(held=True), ArmState.HELD),
        (seen(held=True, player=PlayerState.RAMPING), ArmState.RAMP_DOWN),
        (seen(starting=True), ArmState.CONNECTED),
        (seen(safety=SafetyMode.REDUCED), ArmState.CONNECTED),
        (seen(safety=SafetyMode.SAFEGUARD_STOP), ArmState.SAFEGUARD),
        (seen(safety=SafetyMode.PROTECTIVE_STOP), ArmState.PROTECTIVE),
        (seen(safety=SafetyMode.ROBOT_EMERGENCY_STOP), ArmState.ESTOP),
        (seen(safety=SafetyMode.SYSTEM_EMERGENCY_STOP), ArmState.ESTOP),
        (seen(safety=SafetyMode.VIOLATION), ArmState.FAULT),
        (seen(safety=77), ArmState.FAULT),
        (seen(robot=RobotMode.POWER_OFF), ArmState.CONNECTED),
        (seen(runtime=RuntimeState.PAUSED), ArmState.CONNECTED),
        (seen(runtime=RuntimeState.PAUSED, held=True), ArmState.HELD),
        (seen(player=None), ArmState.CONNECTED),
    ],
)
def test_state(what: Seen, state: ArmState) -> None:
    assert arm_state(what) is state


EVERY = [
    Seen(*values)
    for values in itertools.product(
        (False, True), (-1, 3, 5, 7), range(12), range(6), (None, *PlayerState), (False, True), (False, True)
    )
]


def test_ready_means_nothing_is_wrong() -> None:
    for what in EVERY:
        if arm_state(what) in (ArmState.READY, ArmState.LOADED):
            assert not robot_trouble(what)
            assert not program_trouble(what)
            assert not what.held
            assert not what.starting


def test_whatever_keeps_the_arm_from_ready_has_words() -> None:
    for what in EVERY:
        if arm_state(what) in (
            ArmState.OFFLINE,
            ArmState.FAULT,
            ArmState.ESTOP,
            ArmState.PROTECTIVE,
            ArmState.SAFEGUARD,
        ):
            assert robot_trouble(what)


def test_moving_is_said_even_while_a_hold_is_latched() -> None:
    for what in EVERY:
        stopped = robot_trouble(
            replace(what, safety_mode=SafetyMode.NORMAL if what.safety_mode == SafetyMode.REDUCED else what.safety_mode)
        )
        if what.linked and not stopped and not program_trouble(what):
            moving = what.player in (PlayerState.RUNNING, PlayerState.RAMPING)
            assert (arm_state(what) in MOVING) == moving
