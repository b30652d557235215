"""One step at a time: publishes `wardarm_step` for eye and follows `wardarm_progress`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from wardarm.api.board import Picture
from wardarm.config import Config
from wardarm.policy.instruction import ParsedStep
from wardarm.shm import ring
from wardarm.shm.layouts import INSTRUCTION_BYTES, BlockKind, StepKind, StepState

ANSWER_S = 10.0  # eye says something about a new step within this
SPARE = 3.0  # eye ends a step by itself after eye.step_timeout_s; this many times as long is the fallback


@dataclass(frozen=True)
class StepReading:
    """What eye says about the step that was published last."""

    state: StepState
    fraction: float
    grasp_attempts: int
    reason: str


class StepWriter:
    """The one writer of `wardarm_step`. Publishes 'nothing to do' at start: a step of an earlier run is never taken up."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._writer = ring.Writer(BlockKind.STEP, config.shm.prefix)
        self._published: Any = None
        before = ring.Reader(BlockKind.STEP, config.shm.prefix).latest()
        self.seq = int(before.data["seq"]) if before else 0
        self.published_s = 0.0
        self.clear()

    def publish(self, step: ParsedStep, task_id: str, speed_scale: float) -> int:
        """Hand a step to eye. Returns its seq."""
        block = self._writer.blank()
        self.seq += 1
        block["seq"], block["kind"], block["attempt"] = self.seq, step.kind, 1
        block["task_id"] = ring.encode(task_id, 40)
        block["object_kind"] = ring.encode(step.object, 24)
        block["object_color"] = ring.encode(step.color, 24)
        block["language"] = ring.encode(step.language, 8)
        block["speed_scale"] = speed_scale
        block["profile"] = self._config.profile_index(self._profile(step))
        block["text"] = ring.encode(step.text, INSTRUCTION_BYTES)
        self._writer.publish(block)
        self._published = block
        self.published_s = time.monotonic()
        return self.seq

    def set_speed(self, speed_scale: float) -> None:
        """The same step goes on at another share of its profile's speed. Nothing happens without a step."""
        if self._published is not None:
            self._published["speed_scale"] = speed_scale
            self._writer.publish(self._published)

    def clear(self) -> None:
        """Nothing to do: eye drops what it works on."""
        block = self._writer.blank()
        self.seq += 1
        block["seq"], block["kind"] = self.seq, StepKind.NONE
        self._writer.publish(block)
        self._published = None

    def _profile(self, step: ParsedStep) -> str:
        """The gentler of the configured profile and what the step asks for."""
        wanted = "patient" if step.kind is StepKind.HAND_OVER else "carry_liquid" if step.liquid else ""
        profiles = self._config.profiles
        if wanted in profiles and profiles[wanted].tcp_m_s2 <= self._config.limits.tcp_m_s2:
            return wanted
        return self._config.profile

    def reading(self, picture: Picture) -> StepReading | None:
        """What eye says about this step; None while it has not taken it up."""
        progress: Any = picture.progress
        if progress is None or int(progress["step_seq"]) != self.seq:
            return None
        try:
            state = StepState(int(progress["state"]))
        except ValueError:
            return None
        return StepReading(
            state, float(progress["fraction"]), int(progress["grasp_attempts"]), ring.text(progress["reason"])
        )

    @property
    def timeout_s(self) -> float:
        return SPARE * self._config.eye.step_timeout_s
