"""The controller's modes, with the numbers RTDE sends and the words the dashboard answers.

Numbers: universal-robots.com, "Real-Time Data Exchange guide"; words: "Dashboard server e-Series".
"""

from __future__ import annotations

from enum import IntEnum

CYCLE_S = 0.002


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


class Runtime(IntEnum):
    STOPPING = 0
    STOPPED = 1
    PLAYING = 2
    PAUSING = 3
    PAUSED = 4
    RESUMING = 5


MAY_MOVE = frozenset({SafetyMode.NORMAL, SafetyMode.REDUCED})

_BIT = {
    SafetyMode.NORMAL: 1 << 0,
    SafetyMode.REDUCED: 1 << 1,
    SafetyMode.PROTECTIVE_STOP: 1 << 2,
    SafetyMode.RECOVERY: 1 << 3,
    SafetyMode.SAFEGUARD_STOP: 1 << 4,
    SafetyMode.SYSTEM_EMERGENCY_STOP: 1 << 5 | 1 << 7,
    SafetyMode.ROBOT_EMERGENCY_STOP: 1 << 6 | 1 << 7,
    SafetyMode.VIOLATION: 1 << 8,
    SafetyMode.FAULT: 1 << 9,
}


def safety_status_bits(mode: SafetyMode) -> int:
    """Bit 10 says that safety has stopped the robot."""
    return _BIT[mode] | (0 if mode in MAY_MOVE or mode is SafetyMode.RECOVERY else 1 << 10)
