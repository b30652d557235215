"""`wardarm_arm`: written each loop, and read once at start, so that counters go on and holds outlive a crash."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wardarm.arm.holds import Hold
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, MAX_HOLDS, TEXT, ArmState, BlockKind, HoldReason, ProcessId

_MOVED = (ArmState.LOADED, ArmState.RUNNING, ArmState.RAMP_DOWN)


@dataclass(frozen=True)
class Inherited:
    """What an earlier arm of this boot left. `known`: there was one. `moved`: it ended while a trajectory was loaded or
    played."""

    known: bool = False
    plan_epoch: int = 0
    request_seq: int = 0
    command_seq: int = 0
    moved: bool = False
    holds: tuple[Hold, ...] = field(default=())


def inherit(prefix: str) -> Inherited:
    """Read the old block; nothing there is no error."""
    try:
        slot = ring.Reader(BlockKind.ARM_STATUS, prefix).latest()
    except ring.BlockError:
        return Inherited()
    if slot is None:
        return Inherited()
    old = slot.data
    holds = tuple(
        Hold(
            int(h["seq"]),
            int(h["since_ns"]),
            HoldReason(int(h["reason"])),
            ProcessId(int(h["writer"])),
            ring.text(h["detail"]),
        )
        for h in old["holds"][: min(int(old["hold_count"]), MAX_HOLDS)]
        if int(h["reason"]) in HoldReason._value2member_map_ and int(h["writer"]) in ProcessId._value2member_map_
    )
    return Inherited(
        known=True,
        plan_epoch=int(old["plan_epoch"]),
        request_seq=int(old["request_seq"]),
        command_seq=int(old["command_seq"]),
        moved=int(old["state"]) in _MOVED,
        holds=tuple(h for h in holds if h.reason is not HoldReason.STARTING),
    )


def begins_held(left: Inherited, went_on: bool) -> str:
    """Why an arm that starts begins with a WATCHDOG hold; empty if it need not. `went_on`: see `system_went_on`."""
    if left.moved:
        return "arm: ended while a trajectory was under way"
    if left.known and went_on:
        # a task may be under way that waits for the arm to stand ready: it goes on after a person's word only
        return "arm: was started again while the system ran"
    return ""


def system_went_on(prefix: str, others: Iterable[ProcessId]) -> bool:
    """Whether one of these processes lives and is older than this one: arm alone was started again, in the middle of
    whatever the others are doing. In a system that starts, arm is older than any of them (processes.py)."""
    own = ring.start_ticks(os.getpid())
    for process in others:
        try:
            head = ring.Reader(BlockKind.WORD, prefix, process).head
        except ring.BlockError:
            continue
        started = ring.start_ticks(int(head["writer_pid"])) if int(head["writer_pid"]) else 0
        if started and started == int(head["writer_start_ticks"]) and started < own:
            return True
    return False


class StatusBlock:
    """The block and the record that is published next: `record["field"] = value`, then `publish`."""

    def __init__(self, prefix: str) -> None:
        self._writer = ring.Writer(BlockKind.ARM_STATUS, prefix)
        self.record: Any = np.zeros((), ARM_STATUS)
        self._holds: list[Hold] = []

    def set_holds(self, holds: list[Hold]) -> None:
        if holds == self._holds:
            return
        self._holds = list(holds)
        rows = self.record["holds"]
        rows[...] = np.zeros((), rows.dtype)
        for row, hold in zip(rows, holds, strict=False):
            row["seq"], row["since_ns"], row["reason"], row["writer"] = (
                hold.seq,
                hold.since_ns,
                hold.reason,
                hold.writer,
            )
            row["detail"] = ring.encode(hold.detail, TEXT)
        self.record["hold_count"] = min(len(holds), MAX_HOLDS)

    def set_text(self, name: str, value: str) -> None:
        self.record[name] = ring.encode(value, self.record.dtype[name].itemsize)

    def publish(self) -> None:
        self._writer.publish(self.record)
