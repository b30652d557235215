"""What is tried: targets, what befalls them, when, and what the system has to answer."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

KILLED_S, FROZEN_S, REMOTE_S = 0.45, 0.55, 1.10
"""To rest on the controller's clock: killed, frozen, and what only feeds the plan (eye, postproc, Triton)."""
GRIPPER_SILENT_S, FEED_SILENT_S = 1.1, 0.6
"""A silent gripper counts as lost after 1 s, a feed after two word deadlines (0.4 s), Triton after 0.45 s, asked 10 times a second."""

PROCESSES = ("gate", "deadman", "arm", "guard", "api", "eye", "postproc", "triton", "alert", "views")
DEVICES = (
    "pause", "stop", "lease", "visitor", "room_camera", "d455", "rtde", "dashboard", "script", "controller",
    "protective", "safeguard", "estop", "pendant", "pwm", "gripper",
)  # fmt: skip
PHASES = ("before_arming", "permit_edge", "mid_motion", "seam", "in_the_ramp", "carrying", "resuming")
NOT_BUILT = {"pouring": "pouring is refused: 'pouring is not built yet'"}

ROBOT_STOPS = ("protective", "safeguard", "estop", "pendant", "controller")
"""The robot's own stop, at its own deceleration: no row of ours to hold it against."""

_FEEDS = ("eye", "postproc", "triton")
_BYSTANDERS = ("alert", "views", "dashboard", "script")
# The first hold's reason must be one of these. An empty set: nothing has to hold.
_REASONS: dict[str, tuple[str, ...]] = {
    "gate": ("GATE_FAULT", "WATCHDOG"),
    "deadman": ("GATE_FAULT", "WATCHDOG"),
    "arm": ("WATCHDOG", "GATE_FAULT"),
    "guard": ("WATCHDOG",),
    "api": ("WATCHDOG", "LEASE_LOST"),
    "eye": ("INFERENCE_STALE",),
    "postproc": ("INFERENCE_STALE",),
    "triton": ("INFERENCE_STALE",),
    "pause": ("CLIENT",),
    "stop": ("STOP",),
    "lease": ("LEASE_LOST",),
    "visitor": ("INTRUDER",),
    "room_camera": ("ROOM_CAMERA_LOST", "VIEW_CHANGED"),
    "d455": ("CAMERA_LOST",),
    "rtde": ("ROBOT",),
    "controller": ("ROBOT",),
    "protective": ("ROBOT",),
    "safeguard": ("ROBOT",),
    "estop": ("ROBOT",),
    "pendant": ("ROBOT",),
    "pwm": ("GATE_FAULT",),
    "gripper": ("GRIP_LOST",),
}
_ACTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gate", "arm", "guard", "api", "eye", "postproc", "alert"), ("kill", "stop", "lie", "slow")),
    "deadman": ("kill", "stop"),
    "triton": ("kill", "stop", "slow"),
    "views": ("kill", "stop"),
    **dict.fromkeys(DEVICES, ("stop",)),
    "pwm": ("lie", "stop"),
    "controller": ("slow",),
}


@dataclass(frozen=True)
class Cell:
    """One trial. `number` tells repetitions apart; `motion` is what moves: a sweep between two poses, or the model."""

    target: str
    action: str
    phase: str
    number: int
    motion: str

    @property
    def key(self) -> str:
        return f"{self.target}/{self.action}/{self.phase}/{self.number}"

    @property
    def deadline_s(self) -> float | None:
        """To rest, controller time; None where no figure is asked."""
        if self.target in _BYSTANDERS or self.action in ("lie", "slow") or self.phase in ("before_arming", "resuming"):
            return None
        if self.target in _FEEDS:
            return REMOTE_S
        if self.target in PROCESSES:
            return (
                None
                if self.target == "deadman" and self.action == "stop"
                else (KILLED_S if self.action == "kill" else FROZEN_S)
            )
        return KILLED_S if self.target in ("pause", "stop") else None

    @property
    def shows_s(self) -> float:
        """How long the fault may go unseen: a movement that ends within that time needs no hold."""
        if self.target == "gripper":
            return GRIPPER_SILENT_S
        return FEED_SILENT_S if self.target in _FEEDS and self.action != "kill" else 0.0

    @property
    def at_once(self) -> bool:
        """Nothing may move from the first rest on, whether a hold is said by then or later (a restarted arm or api)."""
        return self.deadline_s is not None and self.target not in _FEEDS

    @property
    def reasons(self) -> tuple[str, ...]:
        """Acceptable reasons of the hold that must come; empty if none must."""
        if self.target in _BYSTANDERS or self.action in ("slow", "lie"):
            return ()
        if self.target == "deadman" and self.action == "stop":
            return ()
        if self.phase in ("before_arming", "resuming") and self.target in (*_FEEDS, "gripper", "pwm", "deadman"):
            return ()
        if self.phase == "before_arming" and self.target == "lease":
            return ()  # returned with nothing under way: nobody's arm is left alone
        return _REASONS[self.target]


def ended_first(cell: Cell, row: dict[str, Any]) -> bool:
    """The movement was over before the fault could show: nothing had to be held."""
    return not row["holds"] and row["stop_s"] is not None and row["stop_s"] < cell.shows_s


def plan(phases: tuple[str, ...], repeats: int, seed: int) -> Iterator[Cell]:
    """All cells, in rounds: each round holds every combination once, the mid-motion ones three times as often."""
    for number in range(repeats):
        rng = random.Random(seed * 1000 + number)
        for phase in phases:
            times = 3 if phase == "mid_motion" else 1
            combinations = [(t, a) for t in (*PROCESSES, *DEVICES) for a in _ACTIONS[t] if _fits(t, a, phase)]
            for k in range(times):
                rng.shuffle(combinations)
                combinations.sort(key=lambda c: c[0] == "triton")  # together: they need the model to move
                for target, action in combinations:
                    model = target == "triton" and phase in ("mid_motion", "seam", "in_the_ramp")
                    yield Cell(target, action, phase, number * 3 + k, "model" if model else "sweep")


def _fits(target: str, action: str, phase: str) -> bool:
    if target == "triton":
        return phase in ("before_arming", "mid_motion", "in_the_ramp")
    if phase == "carrying":
        return target not in ("estop", "alert", "views", "dashboard", "room_camera", "d455")
    if phase in ("permit_edge", "seam", "in_the_ramp"):
        return target not in ("visitor", "room_camera", "d455", "lease", "dashboard", "estop", "alert", "views")
    if phase == "before_arming":
        return target not in ("pendant",)
    return True
