"""Every public method of ur_rtde against a simulated controller, one a call; run as a program, it may crash.

    python tests/ur_rtde_methods.py ADDRESS CLASS METHOD    # prints one JSON object: {"result", "detail"}

A case returns True, or a text that says what was there instead. `NOT_MODELLED` names the methods whose physics the
simulator does not have: what they do then is part of the table.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HOME = [0.0, -1.57, 1.57, -1.57, -1.57, 0.0]
NEAR = [0.05, -1.57, 1.57, -1.57, -1.57, 0.0]
TCP = [0.0, 0.0, 0.1558, 0.0, 0.0, -math.pi / 2]
# a TCP of exact zeros makes ur_rtde send 12 numbers under its recipe of 6 (getForwardKinematics in its source): the package
# does not fit, no command is run, and the call waits for ever, on every robot
ALMOST_ZERO = [0.0, 0.0, 1e-9, 0.0, 0.0, 0.0]
Case = Callable[[Any, "Ask"], Any]

# method: why the simulator has no answer. The program stops with a message, or the call has no effect; the table says which.
NOT_MODELLED = {
    "getMassMatrix": "links as mass points; and ur_rtde reads `output_double_register_6` and up, which its recipe does not have: it raises",
    "getCoriolisAndCentrifugalTorques": "links as mass points; zeros at rest",
    "directTorque": "no dynamics: the program stops and says so",
    "forceMode": "accepted with a warning in the log, the arm stays",
    "forceModeSetDamping": "accepted with a warning in the log",
    "forceModeSetGainScaling": "accepted with a warning in the log",
    "forceModeStop": "accepted with a warning in the log",
    "zeroFtSensor": "accepted with a warning in the log",
    "ftRtdeInputEnable": "accepted with a warning in the log",
    "enableExternalFtSensor": "accepted with a warning in the log",
}


# method: a defect of ur_rtde 1.6.5 itself, by its source: it fails on every robot
DEFECTS = {
    "getJacobian": "ur_rtde reads double registers above 5 that its default recipe does not ask for",
    "getJacobianTimeDerivative": "ur_rtde reads double registers above 5 that its default recipe does not ask for",
    "isProgramSaved": "looks for `True`; the dashboard says `true` (dashboard manual)",
    "setUserRole": "its argument's type is not exported to Python",
    "setScriptFile": "exported to Python without its argument",
}


class Ask:
    """The simulator's own port."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._file = socket.create_connection((address, 30100), timeout=60).makefile("rw")

    def __call__(self, command: str) -> dict[str, Any]:
        self._file.write(command + "\n")
        self._file.flush()
        return json.loads(self._file.readline())

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float = 60.0) -> Any:
        """True once the controller's state fulfils it; else the state's essentials after that much controller time."""
        state = self("state")
        end = state["time_s"] + seconds
        while not condition(state):
            if state["time_s"] > end:
                return {k: state[k] for k in ("q", "runtime", "safety_mode", "last_error")}
            time.sleep(0.01)
            state = self("state")
        return True


def at(q: list[float], tolerance: float = 2e-3) -> Callable[[dict[str, Any]], bool]:
    return lambda s: all(abs(a - b) < tolerance for a, b in zip(s["q"], q, strict=True))


def near(values: Any, wanted: Any, tolerance: float = 1e-3) -> Any:
    good = len(values) == len(wanted) and all(abs(a - b) < tolerance for a, b in zip(values, wanted, strict=True))
    return True if good else list(values)


def equal(value: Any, wanted: Any) -> Any:
    return True if value == wanted else repr(value)


def logged(ask: Ask, text: str) -> Any:
    lines = [line for _, line in ask("log 300")["log"]]
    return True if any(text in line for line in lines) else lines[-3:]


def both(*results: Any) -> Any:
    return next((r for r in results if r is not True), True)


def moved(ask: Ask, joint: int = 0, least: float = 0.005) -> Any:
    return ask.until(lambda s: abs(s["q"][joint] - HOME[joint]) > least)


# --- RTDEControlInterface: (c, ask); the arm begins at HOME
def _pose(c: Any, dz: float) -> list[float]:
    pose = c.getForwardKinematics(HOME, TCP)
    pose[2] += dz
    return list(pose)


def _higher(c: Any, ask: Ask, dz: float, tolerance: float = 1e-3) -> Any:
    wanted = c.getInverseKinematics(_pose(c, dz), HOME)
    return ask.until(at(wanted, tolerance))


def _path(c: Any) -> Any:
    import rtde_control as m

    path = m.Path()
    joints, kind = m.PathEntry.PositionJoints, m.PathEntry.MoveJ
    path.addEntry(m.PathEntry(kind, joints, [*NEAR, 1.0, 2.0, 0.0]))
    path.addEntry(m.PathEntry(kind, joints, [0.1, *HOME[1:], 1.0, 2.0, 0.0]))
    return path


def _servo_j(c: Any, ask: Ask) -> Any:
    q = list(HOME)
    for _ in range(100):
        start = c.initPeriod()
        q[0] += 0.0005
        c.servoJ(q, 0.0, 0.0, 0.002, 0.1, 300)
        c.waitPeriod(start)
    reached = moved(ask, least=0.02)
    return both(c.servoStop(), reached)


def _servo_l(c: Any, ask: Ask) -> Any:
    pose = _pose(c, 0.0)
    for _ in range(100):
        start = c.initPeriod()
        pose[2] += 0.0002
        c.servoL(pose, 0.0, 0.0, 0.002, 0.1, 300)
        c.waitPeriod(start)
    return both(c.servoStop(), moved(ask, 1, 0.0005))


def _stopped_move(stop: str) -> Case:
    def case(c: Any, ask: Ask) -> Any:
        c.moveJ([2.0, *HOME[1:]], 0.5, 1.0, True)
        moved(ask)
        getattr(c, stop)(4.0)
        ended = ask.until(lambda s: not any(abs(v) > 1e-3 for v in s["qd"]))
        short = ask("state")["q"][0]
        return both(ended, True if short < 1.9 else f"went on to {short:.2f} rad")

    return case


def _watchdog(c: Any, ask: Ask) -> Any:
    """Without kicks the program is stopped."""
    return both(c.setWatchdog(10.0), ask.until(lambda s: s["runtime"] == "STOPPED"))


def _kick(c: Any, ask: Ask) -> Any:
    c.setWatchdog(5.0)
    for _ in range(40):
        if not c.kickWatchdog():
            return "kick refused"
        time.sleep(0.02)
    return equal(ask("state")["runtime"], "PLAYING")


def _contact(c: Any, ask: Ask) -> Any:
    c.startContactDetection([0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    before = c.readContactDetection()
    ask("inject force 0 0 60")
    time.sleep(0.3)
    after = c.readContactDetection()
    ask("inject force 0 0 0")
    c.stopContactDetection()
    return True if (before, after) == (False, True) else f"before {before}, with 60 N {after}"


def _until_contact(c: Any, ask: Ask) -> Any:
    now = ask("state")["time_s"]
    ask(f"at {now + 1.0} inject force 0 0 60")
    found = c.moveUntilContact([0.0, 0.0, -0.05, 0.0, 0.0, 0.0])
    ask("inject force 0 0 0")
    return both(equal(found, True), moved(ask, 1, 0.001))


def _async(c: Any, ask: Ask) -> Any:
    c.moveJ([0.4, *HOME[1:]], 0.5, 1.0, True)
    moved(ask)
    running = c.getAsyncOperationProgress()
    ask.until(at([0.4, *HOME[1:]]))
    time.sleep(0.1)
    return (
        True
        if running >= 0 and c.getAsyncOperationProgress() < 0
        else f"{running}, then {c.getAsyncOperationProgress()}"
    )


def _async_ex(c: Any, ask: Ask) -> Any:
    c.moveJ([0.4, *HOME[1:]], 0.5, 1.0, True)
    moved(ask)
    running = c.getAsyncOperationProgressEx().isAsyncOperationRunning()
    ask.until(at([0.4, *HOME[1:]]))
    time.sleep(0.1)
    return True if running and not c.getAsyncOperationProgressEx().isAsyncOperationRunning() else f"running {running}"


def _file(text: str) -> str:
    path = Path(tempfile.mkdtemp()) / "custom.script"
    path.write_text(text)
    return str(path)


def _reconnect(c: Any, ask: Ask) -> Any:
    c.disconnect()
    return both(equal(c.reconnect(), True), equal(c.isConnected(), True), equal(c.moveJ(NEAR, 1.0, 2.0), True))


def _gone(c: Any, ask: Ask) -> Any:
    c.disconnect()
    return equal(c.isConnected(), False)


def _freedrive(c: Any, ask: Ask) -> Any:
    good = c.freedriveMode()
    ask("inject jog 0.02")
    return both(equal(good, True), ask.until(at([0.02, *HOME[1:]])), equal(c.endFreedriveMode(), True))


def _teach(c: Any, ask: Ask) -> Any:
    good = c.teachMode()
    ask("inject jog 0.02")
    return both(equal(good, True), ask.until(at([0.02, *HOME[1:]])), equal(c.endTeachMode(), True))


def _force_mode(c: Any) -> Any:
    return c.forceMode([0.0] * 6, [0, 0, 1, 0, 0, 0], [0.0, 0.0, -5.0, 0.0, 0.0, 0.0], 2, [0.1] * 6)


def _payload(c: Any, ask: Ask) -> Any:
    done = c.setPayload(1.5, [0.0, 0.0, 0.05])
    return both(equal(done, True), ask.until(lambda s: abs(s["payload_kg"] - 1.5) < 1e-6))


def _target_payload(c: Any, ask: Ask) -> Any:
    done = c.setTargetPayload(1.2, [0.0, 0.0, 0.05], [0.0] * 6)
    return both(equal(done, True), ask.until(lambda s: abs(s["payload_kg"] - 1.2) < 1e-6))


def _tcp(c: Any, ask: Ask) -> Any:
    wanted = [0.0, 0.0, 0.2, 0.0, 0.0, 0.0]
    return both(equal(c.setTcp(wanted), True), near(c.getTCPOffset(), wanted))


def _period(c: Any, ask: Ask) -> Any:
    start = c.initPeriod()
    c.waitPeriod(start)
    return True


FUNCTION = 'textmsg("custom function ran")\n'
PROGRAM = 'def custom():\n  textmsg("custom script ran")\nend\n'
TOLD = PROGRAM.replace(
    "end\n", "  write_output_integer_register(0, 2)\n  sync()\n  sync()\nend\n"
)  # what ur_rtde waits for


def again(call: Callable[[], Any]) -> Any:
    """ur_rtde does not wait for some answers: the first call gives the register as it was, the second the answer."""
    call()
    time.sleep(0.2)
    return call()


def _uploaded(c: Any, ask: Ask) -> Any:
    """A script that was uploaded again starts a moment later; ur_rtde does not wait for that either."""
    good = c.reuploadScript()
    running = ask.until(lambda s: s["runtime"] == "PLAYING")
    time.sleep(0.3)
    return both(equal(good, True), running, equal(c.moveJ(NEAR, 1.0, 2.0), True), ask.until(at(NEAR)))


def _custom_file(c: Any, ask: Ask) -> Any:
    """Its own script again, as a file: the next upload takes it."""
    import script_client

    own = "def rtde_control():\n" + script_client.ScriptClient(ask.address, 5, 21).getScript() + "end\n"
    c.setCustomScriptFile(_file(own))
    return _uploaded(c, ask)


CONTROL: dict[str, Case] = {
    "moveJ": lambda c, ask: both(equal(c.moveJ(NEAR, 1.0, 2.0), True), ask.until(at(NEAR))),
    "moveJ_IK": lambda c, ask: both(equal(c.moveJ_IK(_pose(c, 0.03), 1.0, 2.0), True), _higher(c, ask, 0.03)),
    "moveL": lambda c, ask: both(equal(c.moveL(_pose(c, 0.03), 0.2, 1.0), True), _higher(c, ask, 0.03)),
    "moveL_FK": lambda c, ask: both(equal(c.moveL_FK(NEAR, 0.2, 1.0), True), ask.until(at(NEAR))),
    "movePath": lambda c, ask: both(equal(c.movePath(_path(c)), True), ask.until(at([0.1, *HOME[1:]]))),
    "moveUntilContact": _until_contact,
    "servoJ": _servo_j,
    "servoL": _servo_l,
    "servoC": lambda c, ask: both(equal(c.servoC(_pose(c, 0.03), 0.2, 1.0), True), _higher(c, ask, 0.03), c.servoStop()),
    "servoStop": _servo_j,
    "speedJ": lambda c, ask: both(equal(c.speedJ([0.2, 0, 0, 0, 0, 0], 1.0), True), moved(ask), c.speedStop()),
    "speedL": lambda c, ask: both(equal(c.speedL([0, 0, 0.05, 0, 0, 0], 0.5), True), moved(ask, 1), c.speedStop()),
    "speedStop": lambda c, ask: both(
        equal(c.speedJ([0.2, 0, 0, 0, 0, 0], 1.0), True), moved(ask), equal(c.speedStop(), True),
        ask.until(lambda s: not any(abs(v) > 1e-3 for v in s["qd"]))),
    "stopJ": _stopped_move("stopJ"),
    "stopL": _stopped_move("stopL"),
    "jogStart": lambda c, ask: both(equal(c.jogStart([0.0, 0.0, 50.0, 0.0, 0.0, 0.0]), True), moved(ask, 1), c.jogStop()),
    "jogStop": lambda c, ask: both(
        c.jogStart([0.0, 0.0, 50.0, 0.0, 0.0, 0.0]), moved(ask, 1), equal(c.jogStop(), True),
        ask.until(lambda s: not any(abs(v) > 1e-3 for v in s["qd"]))),
    "getForwardKinematics": lambda c, ask: both(near(
        c.getForwardKinematics(HOME, ALMOST_ZERO)[:3], _flange(HOME)), near(c.getForwardKinematics()[:3], _pose(c, 0)[:3], 0.01)),
    "getInverseKinematics": lambda c, ask: near(c.getInverseKinematics(_pose(c, 0.0), HOME), HOME),
    "getInverseKinematicsHasSolution": lambda c, ask: both(
        equal(c.getInverseKinematicsHasSolution(_pose(c, 0.0)), True),
        equal(c.getInverseKinematicsHasSolution([3.0, 0, 0, 0, 0, 0]), False)),
    "getJacobian": lambda c, ask: _jacobian(c),
    "getJacobianTimeDerivative": lambda c, ask: equal(len(c.getJacobianTimeDerivative(HOME, [0.1] * 6, [0.0] * 6)), 36),
    "poseTrans": lambda c, ask: near(c.poseTrans([1, 0, 0, 0, 0, math.pi / 2], [1, 0, 0, 0, 0, 0]), [1, 1, 0, 0, 0, math.pi / 2]),
    "isPoseWithinSafetyLimits": lambda c, ask: equal(c.isPoseWithinSafetyLimits(_pose(c, 0.0)), True),
    "isJointsWithinSafetyLimits": lambda c, ask: both(
        equal(c.isJointsWithinSafetyLimits(HOME), True), equal(c.isJointsWithinSafetyLimits([7.0, *HOME[1:]]), False)),
    "getActualToolFlangePose": lambda c, ask: near(again(c.getActualToolFlangePose)[:3], _flange(HOME)),
    "getActualJointPositionsHistory": lambda c, ask: near(again(lambda: c.getActualJointPositionsHistory(5)), HOME),
    "getTargetWaypoint": lambda c, ask: equal(len(c.getTargetWaypoint()), 6),
    "getTargetJointAccelerations": lambda c, ask: near(c.getTargetJointAccelerations(), [0.0] * 6),
    "getJointTorques": lambda c, ask: equal(len(c.getJointTorques()), 6),
    "getTCPOffset": lambda c, ask: near(c.getTCPOffset(), TCP),
    "getStepTime": lambda c, ask: equal(again(c.getStepTime), 0.002),
    "getRobotStatus": lambda c, ask: True if c.getRobotStatus() & 3 == 3 else c.getRobotStatus(),
    "isProgramRunning": lambda c, ask: equal(c.isProgramRunning(), True),
    "isSteady": lambda c, ask: equal(c.isSteady(), True),
    "isConnected": lambda c, ask: equal(c.isConnected(), True),
    "disconnect": _gone,
    "reconnect": _reconnect,
    "reuploadScript": _uploaded,
    "stopScript": lambda c, ask: both(c.stopScript() or True, ask.until(lambda s: s["runtime"] == "STOPPED")),
    "sendCustomScript": lambda c, ask: both(equal(c.sendCustomScript(TOLD), True), logged(ask, "custom script ran")),
    "sendCustomScriptFile": lambda c, ask: both(
        equal(c.sendCustomScriptFile(_file(TOLD)), True), logged(ask, "custom script ran")),
    "sendCustomScriptFunction": lambda c, ask: both(
        equal(c.sendCustomScriptFunction("custom", FUNCTION), True), logged(ask, "custom function ran")),
    "setCustomScriptFile": _custom_file,
    "setPayload": _payload,
    "setTargetPayload": _target_payload,
    "setTcp": _tcp,
    "setGravity": lambda c, ask: equal(c.setGravity([0.0, 0.0, 9.82]), True),
    "setWatchdog": _watchdog,
    "kickWatchdog": _kick,
    "freedriveMode": _freedrive,
    "endFreedriveMode": _freedrive,
    "getFreedriveStatus": lambda c, ask: equal(c.getFreedriveStatus(), 0),
    "teachMode": _teach,
    "endTeachMode": _teach,
    "startContactDetection": _contact,
    "readContactDetection": _contact,
    "stopContactDetection": _contact,
    "toolContact": lambda c, ask: equal(c.toolContact([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), 0),
    "triggerProtectiveStop": lambda c, ask: both(
        c.triggerProtectiveStop() or True, ask.until(lambda s: s["safety_mode"] == "PROTECTIVE_STOP")),
    "getAsyncOperationProgress": _async,
    "getAsyncOperationProgressEx": _async_ex,
    "initPeriod": _period,
    "waitPeriod": _period,
    "setExternalForceTorque": lambda c, ask: equal(c.setExternalForceTorque([1.0, 0, 0, 0, 0, 0]), True),
    "forceMode": lambda c, ask: equal(_force_mode(c), True),
    "forceModeStop": lambda c, ask: both(_force_mode(c), equal(c.forceModeStop(), True)),
    "forceModeSetDamping": lambda c, ask: equal(c.forceModeSetDamping(0.1), True),
    "forceModeSetGainScaling": lambda c, ask: equal(c.forceModeSetGainScaling(1.0), True),
    "zeroFtSensor": lambda c, ask: equal(c.zeroFtSensor(), True),
    "ftRtdeInputEnable": lambda c, ask: equal(c.ftRtdeInputEnable(True, 0.1), True),
    "enableExternalFtSensor": lambda c, ask: equal(c.enableExternalFtSensor(True, 0.1), True),
    "getMassMatrix": lambda c, ask: equal(len(c.getMassMatrix(HOME)), 36),
    "getCoriolisAndCentrifugalTorques": lambda c, ask: equal(len(c.getCoriolisAndCentrifugalTorques(HOME, [0.1] * 6)), 6),
    "directTorque": lambda c, ask: equal(c.directTorque([0.0] * 6), True),
}  # fmt: skip


def _flange(q: list[float]) -> list[float]:
    from wardarm.sim.ur_controller.kinematics import DhParameters, Kinematics

    return list(Kinematics(DhParameters()).flange(q)[9:12])


def _jacobian(c: Any) -> Any:
    """Against differences of the forward kinematics, first column."""
    step = 1e-5
    jacobian = c.getJacobian(HOME, TCP)
    a, b = c.getForwardKinematics(HOME, TCP), c.getForwardKinematics([step, *HOME[1:]], TCP)
    column = [(y - x) / step for x, y in zip(a[:3], b[:3], strict=True)]
    return near([jacobian[6 * row] for row in range(3)], column, 1e-2)


# --- the other four classes
SIX_RECEIVED = [
    "getTargetQ",
    "getTargetQd",
    "getTargetQdd",
    "getTargetCurrent",
    "getTargetMoment",
    "getActualQ",
    "getActualQd",
    "getActualCurrent",
    "getJointControlOutput",
    "getActualTCPPose",
    "getActualTCPSpeed",
    "getActualTCPForce",
    "getTargetTCPPose",
    "getTargetTCPSpeed",
    "getJointTemperatures",
    "getJointMode",
    "getActualJointVoltage",
    "getFtRawWrench",
    "getPayloadInertia",
]
NUMBERS_RECEIVED = [
    "getTimestamp",
    "getActualExecutionTime",
    "getActualMomentum",
    "getActualMainVoltage",
    "getActualRobotVoltage",
    "getActualRobotCurrent",
    "getStandardAnalogInput0",
    "getStandardAnalogInput1",
    "getStandardAnalogOutput0",
    "getStandardAnalogOutput1",
    "getPayload",
    "getSpeedScaling",
    "getSpeedScalingCombined",
    "getTargetSpeedFraction",
]


def _six(name: str) -> Case:
    return lambda r, ask: equal(len(getattr(r, name)()), 6)


def _number(name: str) -> Case:
    return lambda r, ask: True if math.isfinite(getattr(r, name)()) else "no number"


def _recording(r: Any, ask: Ask) -> Any:
    path = tempfile.mktemp(suffix=".csv")
    r.startFileRecording(path, ["timestamp", "actual_q"])
    time.sleep(0.5)
    r.stopFileRecording()
    lines = Path(path).read_text().splitlines()
    return True if len(lines) > 20 and lines[0].startswith("timestamp") else f"{len(lines)} lines"


def _receive_again(r: Any, ask: Ask) -> Any:
    r.disconnect()
    gone = equal(r.isConnected(), False)
    return both(gone, equal(r.reconnect(), True), equal(r.isConnected(), True))


def _seen(ask: Ask, command: str, check: Callable[[], bool]) -> Any:
    ask(command)
    end = time.monotonic() + 60
    while not check():
        if time.monotonic() > end:
            return f"not seen after {command}"
        time.sleep(0.01)
    return True


RECEIVE: dict[str, Case] = {
    **{name: _six(name) for name in SIX_RECEIVED},
    **{name: _number(name) for name in NUMBERS_RECEIVED},
    "getActualQ": lambda r, ask: near(r.getActualQ(), HOME),
    "getActualTCPPose": lambda r, ask: near(r.getActualTCPPose(), r.getTargetTCPPose()),
    "getActualToolAccelerometer": lambda r, ask: equal(len(r.getActualToolAccelerometer()), 3),
    "getPayloadCog": lambda r, ask: equal(len(r.getPayloadCog()), 3),
    "getActualDigitalInputBits": lambda r, ask: _seen(ask, "digital 2 on", lambda: r.getActualDigitalInputBits() >> 2 & 1),
    "getDigitalInState": lambda r, ask: _seen(ask, "digital 3 on", lambda: r.getDigitalInState(3)),
    "getActualDigitalOutputBits": lambda r, ask: equal(r.getActualDigitalOutputBits(), 0),
    "getDigitalOutState": lambda r, ask: equal(r.getDigitalOutState(1), False),
    "getOutputIntRegister": lambda r, ask: equal(type(r.getOutputIntRegister(12)), int),
    "getOutputDoubleRegister": lambda r, ask: equal(type(r.getOutputDoubleRegister(12)), float),
    "getRobotMode": lambda r, ask: equal(r.getRobotMode(), 7),
    "getRobotStatus": lambda r, ask: True if r.getRobotStatus() & 1 else r.getRobotStatus(),
    "getRuntimeState": lambda r, ask: equal(r.getRuntimeState(), 1),
    "getSafetyMode": lambda r, ask: equal(r.getSafetyMode(), 1),
    "getSafetyStatusBits": lambda r, ask: equal(r.getSafetyStatusBits(), 1),
    "isProtectiveStopped": lambda r, ask: _seen(ask, "inject protective", r.isProtectiveStopped),
    "isEmergencyStopped": lambda r, ask: both(
        _seen(ask, "inject estop on", r.isEmergencyStopped), _seen(ask, "inject estop off", lambda: not r.isEmergencyStopped())),
    "getActualMainVoltage": lambda r, ask: equal(r.getActualMainVoltage(), 48.0),
    "getStandardAnalogInput0": lambda r, ask: _seen(ask, "analog 0 2.5", lambda: r.getStandardAnalogInput0() == 2.5),
    "getStandardAnalogInput1": lambda r, ask: _seen(ask, "analog 1 3.5", lambda: r.getStandardAnalogInput1() == 3.5),
    "getActualTCPForce": lambda r, ask: _seen(ask, "inject force 0 0 -7", lambda: abs(r.getActualTCPForce()[2] + 7) < 1e-6),
    "isConnected": lambda r, ask: equal(r.isConnected(), True),
    "disconnect": _receive_again,
    "reconnect": _receive_again,
    "startFileRecording": _recording,
    "stopFileRecording": _recording,
    "initPeriod": _period,
    "waitPeriod": _period,
}  # fmt: skip


class _Outputs:
    """What the controller's outputs are, through another client."""

    def __init__(self, address: str) -> None:
        import rtde_receive

        self.r = rtde_receive.RTDEReceiveInterface(address)

    def until(self, check: Callable[[Any], bool]) -> Any:
        end = time.monotonic() + 60
        while not check(self.r):
            if time.monotonic() > end:
                return f"outputs {self.r.getActualDigitalOutputBits():b}"
            time.sleep(0.01)
        return True


def _output(call: Callable[[Any], Any], check: Callable[[Any], bool]) -> Case:
    return lambda io, ask: both(equal(call(io), True), _Outputs(ask.address).until(check))


def _register(call: Callable[[Any], Any], kind: str, number: int, wanted: float) -> Case:
    def case(io: Any, ask: Ask) -> Any:
        name = "integer" if kind == "int" else "float"
        source = f"sec r():\n  write_output_{name}_register(19, read_input_{name}_register({number}))\nend\n"
        good = call(io)
        end = time.monotonic() + 60
        while ask("state")[f"output_{kind}s"][7] != wanted:
            with socket.create_connection((ask.address, 30002)) as link:
                link.sendall(source.encode())
            if time.monotonic() > end:
                return f"register is {ask('state')[f'output_{kind}s'][7]}"
            time.sleep(0.05)
        return equal(good, True)

    return case


def _again(o: Any, ask: Ask) -> Any:
    o.disconnect()
    return both(equal(o.isConnected(), False), equal(o.reconnect(), True), equal(o.isConnected(), True))


IO: dict[str, Case] = {
    "setStandardDigitalOut": _output(lambda io: io.setStandardDigitalOut(2, True), lambda r: r.getDigitalOutState(2)),
    "setConfigurableDigitalOut": _output(
        lambda io: io.setConfigurableDigitalOut(1, True), lambda r: r.getDigitalOutState(9)),
    "setToolDigitalOut": _output(lambda io: io.setToolDigitalOut(1, True), lambda r: r.getDigitalOutState(17)),
    "setAnalogOutputVoltage": _output(
        lambda io: io.setAnalogOutputVoltage(0, 0.5), lambda r: r.getStandardAnalogOutput0() > 0.4),
    "setAnalogOutputCurrent": _output(
        lambda io: io.setAnalogOutputCurrent(1, 0.5), lambda r: r.getStandardAnalogOutput1() > 0.0),
    "setSpeedSlider": _output(lambda io: io.setSpeedSlider(0.5), lambda r: abs(r.getTargetSpeedFraction() - 0.5) < 1e-9),
    "setInputIntRegister": _register(lambda io: io.setInputIntRegister(20, 42), "int", 20, 42),
    "setInputDoubleRegister": _register(lambda io: io.setInputDoubleRegister(20, 4.5), "double", 20, 4.5),
    "isConnected": lambda io, ask: equal(io.isConnected(), True),
    "disconnect": _again,
    "reconnect": _again,
}  # fmt: skip

WAVE = "def wave():\n while True:\n  movej([0.3,-1.57,1.57,-1.57,-1.57,0])\n  movej([0,-1.57,1.57,-1.57,-1.57,0])\n end\nend\n"


def _playing(ask: Ask) -> Any:
    with socket.create_connection((ask.address, 30002)) as link:
        link.sendall(WAVE.encode())
    return ask.until(lambda s: s["runtime"] == "PLAYING")


def _unlock(d: Any, ask: Ask) -> Any:
    ask("inject protective")
    try:
        d.unlockProtectiveStop()
        return "unlocked within 5 s"
    except RuntimeError as e:
        early = True if "5s" in str(e) else str(e)
    since = ask("state")["time_s"]
    ask.until(lambda s: s["time_s"] > since + 5.1)
    d.unlockProtectiveStop()
    return both(early, ask.until(lambda s: s["safety_mode"] == "NORMAL"))


def _cycle_power(d: Any, ask: Ask) -> Any:
    d.powerOff()
    off = ask.until(lambda s: s["robot_mode"] == "POWER_OFF")
    d.powerOn()
    idle = ask.until(lambda s: s["robot_mode"] == "IDLE")
    d.brakeRelease()
    return both(off, idle, ask.until(lambda s: s["robot_mode"] == "RUNNING"))


def _load(d: Any, ask: Ask) -> Any:
    try:
        d.loadURP("nothing.urp")
        return "loaded a file that is not there"
    except RuntimeError as e:
        missing = True if "File not found" in str(e) else str(e)
    d.loadURP("wave.urp")
    d.play()
    return both(missing, ask.until(lambda s: s["program"] == "wave"))


def _restart(d: Any, ask: Ask) -> Any:
    ask("inject violation")
    d.restartSafety()
    return ask.until(lambda s: s["safety_mode"] == "NORMAL" and s["robot_mode"] == "POWER_OFF")


def _role(d: Any, ask: Ask) -> Any:
    import dashboard_client

    d.setUserRole(dashboard_client.DashboardClient.UserRole.PROGRAMMER if hasattr(
        dashboard_client.DashboardClient, "UserRole") else "programmer")  # fmt: skip
    return True


def _raw(d: Any, ask: Ask) -> Any:
    d.send("robotmode\n")
    return equal(d.receive(), "Robotmode: RUNNING")


DASHBOARD: dict[str, Case] = {
    "connect": lambda d, ask: equal(d.isConnected(), True),
    "isConnected": lambda d, ask: equal(d.isConnected(), True),
    "disconnect": lambda d, ask: both(d.disconnect() or True, equal(d.isConnected(), False)),
    "send": _raw,
    "receive": _raw,
    "loadURP": _load,
    "play": lambda d, ask: both(_playing(ask), d.pause() or True, ask.until(lambda s: s["runtime"] == "PAUSED"),
                                d.play() or True, ask.until(lambda s: s["runtime"] == "PLAYING")),
    "pause": lambda d, ask: both(_playing(ask), d.pause() or True, ask.until(lambda s: s["runtime"] == "PAUSED")),
    "stop": lambda d, ask: both(_playing(ask), d.stop() or True, ask.until(lambda s: s["runtime"] == "STOPPED")),
    "running": lambda d, ask: both(equal(d.running(), False), _playing(ask), equal(d.running(), True)),
    "programState": lambda d, ask: both(_playing(ask), equal(d.programState(), "PLAYING wave")),
    "getLoadedProgram": lambda d, ask: equal(d.getLoadedProgram(), "No program loaded"),
    "isProgramSaved": lambda d, ask: equal(d.isProgramSaved(), True),
    "popup": lambda d, ask: both(d.popup("hello") or True, logged(ask, "popup Dashboard: hello")),
    "closePopup": lambda d, ask: d.closePopup() or True,
    "closeSafetyPopup": lambda d, ask: d.closeSafetyPopup() or True,
    "powerOn": _cycle_power,
    "powerOff": _cycle_power,
    "brakeRelease": _cycle_power,
    "unlockProtectiveStop": _unlock,
    "restartSafety": _restart,
    "polyscopeVersion": lambda d, ask: equal(d.polyscopeVersion(), "5.21.0.0"),
    "getRobotModel": lambda d, ask: equal(d.getRobotModel(), "UR5"),
    "getSerialNumber": lambda d, ask: True if d.getSerialNumber().isdigit() else d.getSerialNumber(),
    "robotmode": lambda d, ask: equal(d.robotmode(), "Robotmode: RUNNING"),
    "safetymode": lambda d, ask: equal(d.safetymode(), "Safetymode: NORMAL"),
    "safetystatus": lambda d, ask: equal(d.safetystatus(), "Safetystatus: NORMAL"),
    "addToLog": lambda d, ask: both(d.addToLog("a line") or True, logged(ask, "a line")),
    "isInRemoteControl": lambda d, ask: both(
        equal(d.isInRemoteControl(), True), True if ask("remote off") else None, equal(d.isInRemoteControl(), False)),
    "setUserRole": _role,
    "quit": lambda d, ask: d.quit() or True,
    "shutdown": lambda d, ask: both(d.shutdown() or True, ask.until(lambda s: s["robot_mode"] == "POWER_OFF")),
}  # fmt: skip


def _script_file(s: Any, ask: Ask) -> Any:
    s.setScriptFile(_file(PROGRAM))
    return both(equal(s.sendScript(), True), ask.until(lambda _: logged(ask, "custom script ran") is True))


SCRIPT: dict[str, Case] = {
    "connect": lambda s, ask: equal(s.isConnected(), True),
    "isConnected": lambda s, ask: equal(s.isConnected(), True),
    "disconnect": lambda s, ask: both(s.disconnect() or True, equal(s.isConnected(), False)),
    "getScript": lambda s, ask: True if s.getScript().startswith("# HEADER_BEGIN") else s.getScript()[:80],
    "sendScript": lambda s, ask: both(
        equal(s.sendScript(_file(PROGRAM)), True), ask.until(lambda _: logged(ask, "custom script ran") is True)),
    "sendScriptCommand": lambda s, ask: both(
        equal(s.sendScriptCommand(PROGRAM), True), ask.until(lambda _: logged(ask, "custom script ran") is True)),
    "setScriptFile": _script_file,
}  # fmt: skip
CASES: dict[str, dict[str, Case]] = {
    "RTDEControlInterface": CONTROL, "RTDEReceiveInterface": RECEIVE, "RTDEIOInterface": IO, "DashboardClient": DASHBOARD,
    "ScriptClient": SCRIPT,
}  # fmt: skip


def client(kind: str, address: str) -> Any:
    """A connected object of that class."""
    if kind == "RTDEControlInterface":
        import rtde_control

        return rtde_control.RTDEControlInterface(address)
    if kind == "RTDEReceiveInterface":
        import rtde_receive

        return rtde_receive.RTDEReceiveInterface(address)
    if kind == "RTDEIOInterface":
        import rtde_io

        return rtde_io.RTDEIOInterface(address)
    if kind == "DashboardClient":
        import dashboard_client

        made = dashboard_client.DashboardClient(address)
        made.connect(2000)
        return made
    import script_client

    made = script_client.ScriptClient(address, 5, 21)
    made.connect()
    return made


def main(address: str, kind: str, method: str) -> None:
    ask = Ask(address)
    try:
        result = CASES[kind][method](client(kind, address), ask)
    except Exception as e:
        result = f"{type(e).__name__}: {e}"
    print(
        "\n" + json.dumps({"result": result is True, "detail": "" if result is True else str(result)[:300]}), flush=True
    )
    os._exit(0)  # ur_rtde's destructors can hang


if __name__ == "__main__":
    main(*sys.argv[1:])
