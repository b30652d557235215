"""Everything that keeps the arm still, as one list: what `arm` has latched, and what it has not seen yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wardarm.api.board import Picture, reason_of
from wardarm.api.word import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, HoldReason, ProcessId

# In these the robot itself says no; no word of ours ends that.
NOT_NORMAL = frozenset({ArmState.OFFLINE, ArmState.SAFEGUARD, ArmState.PROTECTIVE, ArmState.ESTOP, ArmState.FAULT})


@dataclass(frozen=True)
class HoldView:
    """`seq` is the latched hold's number (0 while not latched); `token` is what a client passes to Resume."""

    reason: HoldReason
    process: ProcessId
    seq: int
    token: str
    since_ns: int
    detail: str
    clearable: bool
    latched: bool


def arm_state(picture: Picture) -> ArmState:
    if picture.arm is None:
        return ArmState.OFFLINE
    try:
        return ArmState(int(picture.arm["state"]))
    except ValueError:
        return ArmState.FAULT


def process_of(number: int) -> ProcessId:
    try:
        return ProcessId(number)
    except ValueError:
        return ProcessId.SUPERVISOR


def current(picture: Picture, word: OwnWord, stopped: bool) -> list[HoldView]:
    """Latched holds first (arm's order), then words that are false and not latched yet."""
    out: list[HoldView] = []
    if picture.arm is not None:
        latched = picture.arm["holds"][: int(picture.arm["hold_count"])]
        out = [_latched(hold, picture, word, stopped) for hold in latched if int(hold["seq"])]
    seen = {(h.process, h.reason) for h in out}
    cause = word.leading()
    if cause is not None and (ProcessId.API, cause.reason) not in seen:
        out.append(
            HoldView(
                cause.reason, ProcessId.API, 0, f"api-{word.hold_seq}", cause.since_ns, cause.detail,
                clearable=not stopped and cause.reason is not HoldReason.STARTING, latched=False,
            )
        )  # fmt: skip
    speaking = {h.process for h in out}
    if picture.arm is not None:
        speaking.add(ProcessId.ARM)  # its word repeats what its fresh status says in full
    for reading in picture.words.values():
        if reading.required and not reading.ok and reading.process not in speaking:
            since_ns = picture.taken_ns - int(min(reading.age_s, 1e6) * 1e9)
            token = f"w{int(reading.process)}-{reading.hold_seq}"
            out.append(HoldView(reading.reason, reading.process, 0, token, since_ns, reading.detail, False, False))
    return out


def _latched(hold: Any, picture: Picture, word: OwnWord, stopped: bool) -> HoldView:
    reason, process, seq = reason_of(int(hold["reason"])), process_of(int(hold["writer"])), int(hold["seq"])
    token = str(seq)
    if process is ProcessId.API:
        # Counts presses, not latched holds: a pause pressed again is not ended by a Resume prepared before it.
        token = f"api-{word.hold_seq}"
    if reason is HoldReason.STARTING:
        clearable = False  # it ends by itself; there is nothing to resume
    elif reason is HoldReason.STOP or process is ProcessId.API:
        clearable = not stopped
    elif process is ProcessId.ARM or process not in picture.words:
        clearable = arm_state(picture) not in NOT_NORMAL
    else:
        clearable = picture.words[process].ok
    detail = ring.text(hold["detail"]).removeprefix(f"{process.name.lower()}: ")  # `process` says it already
    cause = word.leading() if process is ProcessId.API else None
    if cause is not None and cause.reason is reason:
        detail = cause.detail  # of the press that the token names, which arm may not have seen yet
    return HoldView(reason, process, seq, token, int(hold["since_ns"]), detail, clearable, latched=True)
