"""What the primary, secondary and real-time ports stream: robot state packages, messages, the real-time packet.

Layouts: universal-robots.com, "Primary and secondary client interface" (software 5.11 to 5.21) and "RealTime 5.10";
package sizes as in Universal Robots' client library. Everything is big-endian.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.modes import RobotMode, Runtime, SafetyMode
from wardarm.sim.ur_controller.rtde_fields import expression_packer
from wardarm.sim.urscript import Pose, wire

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

ROBOT_STATE, ROBOT_MESSAGE, PROGRAM_STATE = 16, 20, 25
# message types of a robot message
TEXT, POPUP, VERSION, SAFETY_MODE, ROBOT_COMM, KEY, RUNTIME_EXCEPTION = 0, 2, 3, 5, 6, 7, 10
SOURCE_ROBOT_INTERFACE, SOURCE_CONTROLLER = 254, 253  # char -2 and -3: the interface to the GUI, the controller
WARNING, VIOLATION, FAULT = 2, 3, 4  # levels of an error message (Universal Robots' client library, ReportLevel)
_SIX = range(6)

# The real-time packet of software 5.10 and later: (struct format, expression of the controller `c`), 1220 bytes.
# What the guide calls "used by Universal Robots software only" is zero.
_REAL_TIME: tuple[tuple[str, str], ...] = (
    ("i", "1220"), ("d", "c.time_s"), ("6d", "c.servo.q"), ("6d", "c.servo.qd"), ("6d", "c.servo.qdd"), ("6d", "(0.0,)*6"),
    ("6d", "(0.0,)*6"), ("6d", "c.state.q"), ("6d", "c.state.qd"), ("6d", "c.state.current"), ("6d", "(0.0,)*6"),
    ("6d", "c.tcp_pose"), ("6d", "c.tcp_speed(c.state.q, c.state.qd)"), ("6d", "c.state.tcp_force"),
    ("6d", "c.target_tcp_pose"), ("6d", "c.tcp_speed(c.servo.q, c.servo.qd)"), ("d", "float(c.digital_in)"),
    ("6d", "(30.0,)*6"), ("d", "0.0"), ("d", "0.0"), ("d", "float(c.safety.robot_mode)"),
    ("6d", "(253.0 if c.safety.robot_mode == 7 else 239.0,)*6"), ("d", "float(c.safety.mode)"), ("6d", "(0.0,)*6"),
    ("3d", "(0.0, 0.0, 9.82)"), ("6d", "(0.0,)*6"), ("d", "c.scale"), ("d", "0.0"), ("d", "0.0"), ("d", "0.0"),
    ("d", "48.0"), ("d", "48.0 if c.safety.robot_mode >= 4 else 0.0"), ("d", "0.0"),
    ("6d", "(48.0 if c.safety.robot_mode >= 4 else 0.0,)*6"), ("d", "float(c.digital_out)"), ("d", "float(c.slot.runtime)"),
    ("3d", "c.elbow_position"), ("3d", "(0.0,)*3"), ("d", "float(c.safety.mode)"), ("3d", "(0.0,)*3"),
    ("d", "c.payload_kg"), ("3d", "c.payload_cog"), ("6d", "c.payload_inertia"),
)  # fmt: skip
real_time_packet: Callable[[Controller], bytes] = expression_packer(_REAL_TIME)


def _package(kind: int, payload: bytes) -> bytes:
    return struct.pack(">iB", 5 + len(payload), kind) + payload


def robot_state(c: Controller) -> bytes:
    """One robot state message: every published sub-package of software 5.11 to 5.21."""
    return _package(ROBOT_STATE, b"".join(part(c) for part in _PARTS))


def _mode_data(c: Controller) -> bytes:
    safety, runtime = c.safety, c.slot.runtime
    powered = safety.robot_mode >= RobotMode.POWER_ON
    stopped = safety.mode in (SafetyMode.ROBOT_EMERGENCY_STOP, SafetyMode.SYSTEM_EMERGENCY_STOP)
    return _package(0, struct.pack(
        ">Q7?BBdddB", c.cycle * 2000, True, True, powered, stopped, safety.mode is SafetyMode.PROTECTIVE_STOP,
        runtime in (Runtime.PLAYING, Runtime.RESUMING), runtime in (Runtime.PAUSED, Runtime.PAUSING),
        max(0, safety.robot_mode), 2 if c.freedrive else 0, c.slider, c.scale, 1.0, 0,
    ))  # fmt: skip


def _joint_data(c: Controller) -> bytes:
    mode = 253 if c.safety.robot_mode is RobotMode.RUNNING else 239
    volt = 48.0 if c.safety.robot_mode >= RobotMode.POWER_ON else 0.0
    q, target, qd, current = c.state.q, c.servo.q, c.state.qd, c.state.current
    one = struct.Struct(">dddffffB").pack
    return _package(1, b"".join(one(q[i], target[i], qd[i], current[i], volt, 30.0, 30.0, mode) for i in _SIX))


def _tool_data(c: Controller) -> bytes:
    mode = 253 if c.safety.robot_mode >= RobotMode.POWER_ON else 239
    a, b = c.tool_analog_in
    return _package(2, struct.pack(">BBddfBffB", 0, 0, a, b, 48.0, c.tool_voltage, 0.0, 30.0, mode))


def _masterboard_data(c: Controller) -> bytes:
    powered = c.safety.robot_mode >= RobotMode.POWER_ON
    return _package(3, struct.pack(
        ">iiBBddBBddffffBBBIBBB", c.digital_in & 0x7FFFFFFF, c.digital_out & 0x7FFFFFFF, 0, 0, *c.analog_in, 0, 0,
        *c.analog_out, 30.0, 48.0 if powered else 0.0, 0.0, 0.0, c.safety.mode, c.safety.mode is SafetyMode.REDUCED, 0,
        0, 0, 0, 0,
    ))  # fmt: skip


def _cartesian_info(c: Controller) -> bytes:
    return _package(4, struct.pack(">12d", *c.tcp_pose, *c.tcp_offset))


def _kinematics_info(c: Controller) -> bytes:
    dh = c.kinematics.dh
    calibrated = 0 if c.calibration_checksum == (0,) * 6 else 1
    return _package(5, struct.pack(
        ">6I24dI", *(v & 0xFFFFFFFF for v in c.calibration_checksum), *dh.theta, *dh.a, *dh.d, *dh.alpha, calibrated,
    ))  # fmt: skip


def _configuration_data(c: Controller) -> bytes:
    dh, limits = c.kinematics.dh, c.limits
    reach = [v for _ in _SIX for v in (-limits.joint_rad, limits.joint_rad)]
    fastest = [v for _ in _SIX for v in (limits.joint_rad_s, 40.0)]
    # joint and tool defaults of a new move in PolyScope; equivalent radius; then board, box, robot type and sub-type
    return _package(6, struct.pack(
        ">12d12d5d24d4i", *reach, *fastest, 1.05, 1.4, 0.25, 1.2, 0.1, *dh.a, *dh.d, *dh.alpha, *dh.theta, 1, 4, 1, 0,
    ))  # fmt: skip


def _force_mode_data(c: Controller) -> bytes:
    return _package(7, struct.pack(">7d", *c.state.tcp_force, 0.0))


def _additional_info(c: Controller) -> bytes:
    return _package(8, struct.pack(">BBBB", 0, c.freedrive, 0, 0))


def _calibration_data(c: Controller) -> bytes:
    return _package(9, bytes(48))  # used by Universal Robots only, but always there: clients count on its length


def _tool_communication(c: Controller) -> bytes:
    return _package(11, struct.pack(">Biiiff", 0, 115200, 0, 1, 1.5, 3.5))


def _tool_mode(c: Controller) -> bytes:
    return _package(12, struct.pack(">BBB", 0, 0, 0))


_PARTS = (
    _mode_data, _joint_data, _tool_data, _masterboard_data, _cartesian_info, _kinematics_info, _configuration_data,
    _force_mode_data, _additional_info, _calibration_data, _tool_communication, _tool_mode,
)  # fmt: skip


# --- messages
def robot_message(c: Controller, kind: int, payload: bytes, source: int = SOURCE_ROBOT_INTERFACE) -> bytes:
    return _package(ROBOT_MESSAGE, struct.pack(">QBB", c.cycle * 2000, source, kind) + payload)


def version_message(c: Controller) -> bytes:
    """The first message on the primary and secondary port."""
    name, date = b"URControl", time.strftime("%d-%m-%Y, %H:%M:%S", time.gmtime(1735689600)).encode()
    major, minor, bugfix, build = c.version
    return robot_message(c, VERSION, struct.pack(">B", len(name)) + name + struct.pack(">BBii", major, minor, bugfix, build) + date)  # fmt: skip


def text_message(c: Controller, text: str) -> bytes:
    return robot_message(c, TEXT, wire(text))


def key_message(c: Controller, title: str, text: str) -> bytes:
    name = wire(title)[:255]
    return robot_message(c, KEY, struct.pack(">iiB", 0, 0, len(name)) + name + wire(text))


def popup_message(c: Controller, title: str, text: str) -> bytes:
    name = wire(title)[:255]
    head = struct.pack(">IB???B", 0, 0, False, False, c.popup_open, len(name))
    return robot_message(c, POPUP, head + name + wire(text))


def runtime_exception(c: Controller, line: int, column: int, text: str) -> bytes:
    """Line and column count from 1."""
    return robot_message(c, RUNTIME_EXCEPTION, struct.pack(">ii", line, column) + wire(text))


def safety_mode_message(c: Controller) -> bytes:
    return robot_message(c, SAFETY_MODE, struct.pack(">iiBII", 0, 0, c.safety.mode, 0, 0), SOURCE_CONTROLLER)


def error_message(c: Controller, code: int, argument: int, level: int, text: str) -> bytes:
    """Robot communication message C`code`A`argument` of a `level` (`WARNING` to `FAULT`); no data."""
    head = struct.pack(">iiiII", code, argument, level, 0, 0)
    return robot_message(c, ROBOT_COMM, head + wire(text), SOURCE_CONTROLLER)


# --- program state: the running program's global variables
def _value(value: Any) -> bytes:
    match value:
        case bool():
            return struct.pack(">BB", 12, value)
        case int():
            return struct.pack(">Bi", 14, max(-(2**31), min(2**31 - 1, value)))
        case float():
            return struct.pack(">Bf", 15, value)
        case str():
            text = value.encode("latin-1", "replace")[:65535]  # a string of a script is bytes
            return struct.pack(">BH", 4, len(text)) + text
        case Pose():
            return struct.pack(">B6f", 10, *[float(v) for v in value])
        case list() | tuple():
            return struct.pack(">BH", 5, len(value)) + b"".join(_value(v) for v in value)
    return struct.pack(">B", 0)


def program_state(c: Controller, known: list[str]) -> tuple[bytes, list[str]]:
    """Names (when they changed) and values of the program's globals, and the names for the next call."""
    program = c.slot.program
    values = program.variables() if program is not None else {}
    names = list(values)
    made = b""
    stamp = c.cycle * 2000
    if names != known:
        made += _package(PROGRAM_STATE, struct.pack(">QBH", stamp, 0, 0) + wire("\n".join(names)))
    if names:
        body = b"".join(_value(v) for v in values.values())
        made += _package(PROGRAM_STATE, struct.pack(">QBH", stamp, 1, 0) + body)
    return made, names
