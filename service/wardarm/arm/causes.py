"""What forbids motion now: the words, gate's status, the robot, the gripper, what plays. Recomputed each loop.

Before a process has said its first true word since arm started, its silence is STARTING; after that a late word is
WATCHDOG. An explicit "hold" of any process, also of one whose word gate does not need, counts with its own reason.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from wardarm.arm.holds import Cause
from wardarm.arm.state import STOPPED_STATES, Seen, program_trouble, robot_trouble
from wardarm.config import Config
from wardarm.gate.words import BlockWatch, Heard, WordBoard
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

# the PWM's last edge, the way to the robot and the 10 ms window: later ticks are not ours
STRAY_TICKS_S = 0.5


@dataclass(frozen=True, slots=True)
class GateSeen:
    """Gate's status as arm needs it. `age_s` is infinite if there is none."""

    age_s: float = float("inf")
    beat: int = 0
    pwm_on: bool = False
    drop_seq: int = 0
    first_missing: ProcessId = ProcessId.GATE
    detail: str = ""


class Board:
    """Reads words and gate's status; remembers who was true once."""

    def __init__(self, config: Config) -> None:
        self.deadline_s = config.gate.word_deadline_ms * 1e-3
        prefix = config.shm.prefix
        self._required = tuple(p for p in required_words(config) if p is not ProcessId.ARM)
        self._words = WordBoard((*self._required, ProcessId.EYE), prefix, self.deadline_s)
        self._gate = BlockWatch(BlockKind.GATE_STATUS, prefix)
        self._true_once: set[ProcessId] = set()
        self._off_since_s = time.monotonic()
        self.gate = GateSeen()

    def read_gate(self) -> GateSeen:
        """Call before `causes`: a word is then at least as new as the gate that judged it."""
        slot = self._gate.latest()
        if slot is None:
            self.gate = GateSeen()
        else:
            status = slot.data
            missing = int(status["first_missing"])
            self.gate = GateSeen(
                (time.monotonic_ns() - int(status["beat_ns"])) * 1e-9, int(status["beat"]), bool(status["pwm_on"]),
                int(status["drop_seq"]),
                ProcessId(missing) if missing in ProcessId._value2member_map_ else ProcessId.GATE,
                ring.text(status["detail"]),
            )  # fmt: skip
        if self.gate.pwm_on:
            self._off_since_s = time.monotonic()
        return self.gate

    def word_causes(self) -> list[Cause]:
        """From the words and gate's beat."""
        causes = [c for heard in self._words.hear_all() if (c := self._word_cause(heard)) is not None]
        if self.gate.age_s <= self.deadline_s:
            self._true_once.add(ProcessId.GATE)
        else:
            age = (
                "no status yet"
                if self.gate.age_s == float("inf")
                else f"last status {self.gate.age_s * 1e3:.0f} ms ago"
            )
            reason = HoldReason.GATE_FAULT if ProcessId.GATE in self._true_once else HoldReason.STARTING
            causes.append(Cause(reason, ProcessId.GATE, f"gate: {age}"))
        return causes

    def _word_cause(self, heard: Heard) -> Cause | None:
        process = heard.process
        if heard.true:
            self._true_once.add(process)
            return None
        explicit = not heard.late and heard.reason not in (HoldReason.NONE, HoldReason.STARTING)
        if explicit:
            return Cause(heard.reason, process, heard.why(), heard.hold_seq)
        if process not in self._required:
            return None  # its silence shows as INFERENCE_STALE while something moves
        reason = HoldReason.WATCHDOG if process in self._true_once else HoldReason.STARTING
        return Cause(reason, process, heard.why())

    def stray_ticks(self, ticks: int) -> Cause | None:
        """Encoder ticks although gate's PWM has been off for long: a stuck or foreign signal is no permit."""
        off_s = time.monotonic() - self._off_since_s
        if ticks and not self.gate.pwm_on and self.gate.age_s <= self.deadline_s and off_s > STRAY_TICKS_S:
            detail = f"{ticks} encoder ticks although the PWM is off; check the wiring of the encoder input"
            return Cause(HoldReason.GATE_FAULT, ProcessId.GATE, detail)
        return None


def robot_causes(seen: Seen, was_up: bool, session_trouble: str) -> list[Cause]:
    """From the robot itself. `was_up`: the player has run under this arm, so a missing one is no start any more."""
    trouble = robot_trouble(seen)
    stopped = seen.linked and seen.safety_mode in STOPPED_STATES
    if not seen.linked or not trouble:
        missing = program_trouble(seen) if seen.linked else trouble
        trouble = (session_trouble or missing) if missing else ""
    if not trouble:
        return []
    reason = HoldReason.ROBOT if was_up or stopped else HoldReason.STARTING
    return [Cause(reason, ProcessId.ARM, trouble, seen.safety_mode if stopped else 0)]
