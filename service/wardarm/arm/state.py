"""The arm's state as a pure function of what the robot, the player and the holds say.

Numbers are RTDE's (Universal Robots, "Real-Time Data Exchange guide": robot_mode, safety_mode, runtime_state); the
player's are its own (output integer register 12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from wardarm.shm.layouts import ArmState

REST_RAD_S = 0.002  # joint speed below which the arm is at rest; a tenth of a degree a second


def at_rest(qd_rad_s: Sequence[float]) -> bool:
    """Whether six joint speeds are zero, but for what a measurement of zero shows."""
    return max(map(abs, qd_rad_s)) <= REST_RAD_S


class PlayerState(IntEnum):
    READY = 0
    LOADED = 1
    RUNNING = 2
    RAMPING = 3
    HELD = 4
    ENDED = 5


def player_state(register: int) -> PlayerState:
    """What output integer register 12 says; a number that no player of ours writes counts as ENDED."""
    return PlayerState(register) if register in PlayerState._value2member_map_ else PlayerState.ENDED


class RobotMode(IntEnum):
    NO_CONTROLLER = -1
    DISCONNECTED = 0
    CONFIRM_SAFETY = 1
    BOOTING = 2
    POWER_OFF = 3
    POWER_ON = 4
    IDLE = 5
    BACKDRIVE = 6
    RUNNING = 7
    UPDATING_FIRMWARE = 8


class SafetyMode(IntEnum):
    NORMAL = 1
    REDUCED = 2
    PROTECTIVE_STOP = 3
    RECOVERY = 4
    SAFEGUARD_STOP = 5
    SYSTEM_EMERGENCY_STOP = 6
    ROBOT_EMERGENCY_STOP = 7
    VIOLATION = 8
    FAULT = 9
    VALIDATE_JOINT_ID = 10
    UNDEFINED = 11


class RuntimeState(IntEnum):
    STOPPING = 0
    STOPPED = 1
    PLAYING = 2
    PAUSING = 3
    PAUSED = 4
    RESUMING = 5


STOPPED_STATES: dict[int, ArmState] = {
    SafetyMode.PROTECTIVE_STOP: ArmState.PROTECTIVE,
    SafetyMode.SAFEGUARD_STOP: ArmState.SAFEGUARD,
    SafetyMode.SYSTEM_EMERGENCY_STOP: ArmState.ESTOP,
    SafetyMode.ROBOT_EMERGENCY_STOP: ArmState.ESTOP,
    SafetyMode.RECOVERY: ArmState.FAULT,
    SafetyMode.VIOLATION: ArmState.FAULT,
    SafetyMode.FAULT: ArmState.FAULT,
    SafetyMode.VALIDATE_JOINT_ID: ArmState.FAULT,
    SafetyMode.UNDEFINED: ArmState.FAULT,
}
MOVING = (ArmState.RUNNING, ArmState.RAMP_DOWN)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one loop of arm sees. `player` is None until the uploaded player's registers were seen."""

    linked: bool
    robot_mode: int = RobotMode.DISCONNECTED
    safety_mode: int = SafetyMode.NORMAL
    runtime_state: int = RuntimeState.STOPPED
    player: PlayerState | None = None
    starting: bool = False  # a process has not said its first true word yet
    held: bool = False  # a hold is latched


def robot_trouble(seen: Seen) -> str:
    """Why the robot itself does not let anything move, in plain words; empty if it does."""
    if not seen.linked:
        return "no data from the controller; check its power and the network cable"
    text = {
        SafetyMode.REDUCED: "the robot is in reduced mode; leave the reduced zone or input",
        SafetyMode.PROTECTIVE_STOP: "protective stop; look at the arm, then Recover",
        SafetyMode.RECOVERY: "recovery mode; move the arm back within its limits on the pendant",
        SafetyMode.SAFEGUARD_STOP: "safeguard stop; clear the safeguarded space and reset it",
        SafetyMode.SYSTEM_EMERGENCY_STOP: "emergency stop (system); release it, then PowerOn",
        SafetyMode.ROBOT_EMERGENCY_STOP: "emergency stop; release it, then PowerOn",
        SafetyMode.VIOLATION: "safety violation; acknowledge it on the pendant",
        SafetyMode.FAULT: "robot fault; read the pendant's log",
        SafetyMode.VALIDATE_JOINT_ID: "the robot validates its joints; finish it on the pendant",
        SafetyMode.UNDEFINED: "safety mode undefined; read the pendant's log",
    }.get(SafetyMode(seen.safety_mode) if 1 <= seen.safety_mode <= 11 else SafetyMode.UNDEFINED, "")
    if text:
        return text
    if seen.robot_mode != RobotMode.RUNNING:
        known = RobotMode.NO_CONTROLLER <= seen.robot_mode <= RobotMode.UPDATING_FIRMWARE
        name = RobotMode(seen.robot_mode).name.lower().replace("_", " ") if known else str(seen.robot_mode)
        return f"robot mode: {name}; PowerOn, or switch it on at the pendant"
    return ""


def program_trouble(seen: Seen) -> str:
    """Why the player cannot be reached although the robot is fine; empty if it can."""
    if seen.runtime_state != RuntimeState.PLAYING:
        return "the player program was stopped or paused (pendant?); it is started again when the arm is at rest"
    if seen.player is None or seen.player is PlayerState.ENDED:
        return "the player program is not loaded"
    return ""


def arm_state(seen: Seen) -> ArmState:
    """The one state of docs/arm.md that fits."""
    if not seen.linked:
        return ArmState.OFFLINE
    if seen.safety_mode in STOPPED_STATES:
        return STOPPED_STATES[seen.safety_mode]
    if seen.safety_mode not in (SafetyMode.NORMAL, SafetyMode.REDUCED):
        return ArmState.FAULT
    if seen.robot_mode != RobotMode.RUNNING or program_trouble(seen):
        return ArmState.HELD if seen.held else ArmState.CONNECTED
    if seen.player is PlayerState.RUNNING:
        return ArmState.RUNNING
    if seen.player is PlayerState.RAMPING:
        return ArmState.RAMP_DOWN
    if seen.held or seen.player is PlayerState.HELD:
        return ArmState.HELD
    if seen.starting or seen.safety_mode != SafetyMode.NORMAL:
        return ArmState.CONNECTED
    return ArmState.LOADED if seen.player is PlayerState.LOADED else ArmState.READY
