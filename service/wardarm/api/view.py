"""The picture of one tick as the API's State message."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wardarm.api import alerts, holds, texts
from wardarm.api.holds import HoldView
from wardarm.api.loop import ControlLoop
from wardarm.guard.attended import Attended
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, Holding, HoldReason, ProcessId
from wardarm.v1 import hold_pb2, state_pb2

AT_REST_RAD_S = 1e-3  # RTDE speed noise of a resting UR5e is well below
_HOLDING = {
    Holding.NO: state_pb2.HOLDING_NOTHING,
    Holding.YES: state_pb2.HOLDING_OBJECT,
    Holding.UNKNOWN: state_pb2.HOLDING_UNSPECIFIED,
}


def hold_messages(loop: ControlLoop, held: Sequence[HoldView]) -> list[Any]:
    stopped = confirmed_stopped(loop)
    wall_minus_monotonic_ns = time.time_ns() - time.monotonic_ns()
    return [_hold(h, stopped, wall_minus_monotonic_ns) for h in held]


def confirmed_stopped(loop: ControlLoop) -> bool:
    """True only if fresh speed readings of the robot say so."""
    arm = loop.picture.arm
    return arm is not None and bool(arm["at_rest"]) and float(abs(arm["qd_rad_s"]).max()) < AT_REST_RAD_S


def _hold(hold: HoldView, stopped: bool, wall_minus_monotonic_ns: int) -> Any:
    text = texts.hold(hold.reason)
    message = hold_pb2.Hold(
        reason=int(hold.reason), token=hold.token, process=_process(hold.process), detail=hold.detail,
        text_zh=text.zh, text_en=text.en, motion_confirmed_stopped=stopped, clearable=hold.clearable, latched=hold.latched,
    )  # fmt: skip
    if hold.since_ns > 0:
        message.since.FromNanoseconds(hold.since_ns + wall_minus_monotonic_ns)
    return message


def _process(process: ProcessId) -> int:
    return int(process)  # the proto's numbers are the layout's


def state_message(loop: ControlLoop) -> Any:
    """Everything as of now."""
    held = loop.holds()
    picture = loop.picture
    state = state_pb2.State(
        sequence=loop.sequence, arm=_arm(loop), holds=hold_messages(loop, held), stopped=loop.stopped,
        guard_enabled=loop.config.guard.enabled,
    )  # fmt: skip
    state.time.GetCurrentTime()
    for reading in picture.words.values():
        word = state.words.add(
            process=_process(reading.process), ok=reading.ok, detail=reading.detail, required=reading.required,
            reason=int(HoldReason.NONE if reading.ok else reading.reason),
        )  # fmt: skip
        if reading.age_s < 1e6:
            word.age.FromNanoseconds(int(reading.age_s * 1e9))
    own = loop.word.leading()
    state.words.add(
        process=hold_pb2.PROCESS_NAME_API, ok=own is None, detail=own.detail if own else "", required=True,
        reason=int(own.reason) if own else 0,
    )  # fmt: skip
    state.permit.stale = picture.gate is None
    if picture.gate is not None:
        state.permit.signal_on = bool(picture.gate["pwm_on"])
        mask = int(picture.gate["missing"])
        state.permit.missing.extend(
            _process(p) for p in ProcessId if mask >> int(p) & 1 and p is not ProcessId.SUPERVISOR
        )
    if loop.tasks.active is not None:
        state.task.CopyFrom(loop.tasks.active.task)
    lease = loop.leases.current
    if lease is not None:
        state.lease.client = lease.client
        state.lease.remaining.FromNanoseconds(max(0, int((lease.expires_s - time.monotonic()) * 1e9)))
    if loop.attendance.now is not None:
        state.attended.CopyFrom(attended_message(loop.attendance.now))
    alert = alerts.read(loop.config)
    state.alert.CopyFrom(state_pb2.Alert(**vars(alert)))
    _timing(loop, state.timing)
    return state


def attended_message(now: Attended) -> Any:
    message = hold_pb2.Attended(actor=now.actor, reason=now.reason)
    message.since.FromNanoseconds((now.began_ns or now.since_ns) + time.time_ns() - time.monotonic_ns())
    message.remaining.FromNanoseconds(int(now.left_s(time.monotonic_ns()) * 1e9))
    return message


def _arm(loop: ControlLoop) -> Any:
    arm = loop.picture.arm
    message = state_pb2.Arm(stale=arm is None)
    if loop.picture.arm_age_s < 1e6:
        message.age.FromNanoseconds(int(loop.picture.arm_age_s * 1e9))
    if arm is None:
        return message
    state = holds.arm_state(loop.picture)
    message.state = 0 if state is ArmState.OFFLINE else int(state)
    message.at_rest = confirmed_stopped(loop)
    message.q_rad.extend(float(x) for x in arm["q_rad"])
    message.tcp_pose.extend(float(x) for x in arm["tcp_pose"])
    duration_s = float(arm["path_duration_s"])
    if int(arm["playing_id"]) and duration_s > 0:
        message.path_fraction = min(1.0, float(arm["path_s"]) / duration_s)
    message.grip_opening = float(arm["grip_opening"])
    message.holding = _HOLDING.get(int(arm["holding"]), state_pb2.HOLDING_UNSPECIFIED)  # type: ignore[call-overload]
    message.speed_scaling = float(arm["speed_scaling"])
    message.robot_mode, message.safety_mode = int(arm["robot_mode"]), int(arm["safety_mode"])
    message.robot_serial, message.robot_version = ring.text(arm["robot_serial"]), ring.text(arm["robot_version"])
    return message


def _timing(loop: ControlLoop, timing: Any) -> None:
    progress, arm = loop.picture.progress, loop.picture.arm
    if progress is not None:
        for name in ("camera_ms", "queue_ms", "infer_ms", "validate_ms", "camera_fps", "delay_s"):
            setattr(timing, name, float(progress[name]))
    if arm is not None:
        timing.check_ms, timing.load_ms = float(arm["check_ms"]), float(arm["load_ms"])
