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
from wardarm.gate.words import GATE_FAREWELL, BlockWatch, Heard, WordBoard
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

# What only feeds the plan may be silent this many word deadlines (and at least FEED_S) while something moves: its loss does
# not have to stop the arm as fast as that of a word, and its beat shares a busy machine with the inference.
FEED_DEADLINES, FEED_S = 2.0, 0.4
# the PWM's last edge, the way to the robot and the 10 ms window: later ticks are not ours
STRAY_TICKS_S = 0.5
# After a silence of the controller its data have to flow this long before the connection counts as back.
STEADY_S = 0.5


@dataclass(frozen=True, slots=True)
class GateSeen:
    """Gate's status as arm needs it. `age_s` is infinite if there is none."""

    age_s: float = float("inf")
    beat: int = 0
    pwm_on: bool = False
    drop_seq: int = 0
    first_missing: ProcessId = ProcessId.GATE
    detail: str = ""
    ended: bool = False
    farewell: bool = False  # it was ended in order: no fault of the permit line


class Board:
    """Reads words and gate's status; remembers who was true once."""

    def __init__(self, config: Config) -> None:
        self.deadline_s = config.gate.word_deadline_ms * 1e-3
        prefix = config.shm.prefix
        self._required = tuple(p for p in required_words(config) if p is not ProcessId.ARM)
        self._words = WordBoard((*self._required, ProcessId.EYE), prefix, self.deadline_s)
        self._gate = BlockWatch(BlockKind.GATE_STATUS, prefix)
        self._feeds = {
            ProcessId.EYE: BlockWatch(BlockKind.WORD, prefix, ProcessId.EYE),
            ProcessId.POSTPROC: BlockWatch(BlockKind.TRAJECTORY, prefix),
        }
        self._true_once: set[ProcessId] = set()
        self._heard_seq: dict[ProcessId, int] = {}  # the last hold number that each word carried
        self._off_since_s = time.monotonic()
        self.gate = GateSeen()

    def read_gate(self) -> GateSeen:
        """Call before `causes`: a word is then at least as new as the gate that judged it."""
        slot = self._gate.latest()
        if slot is None:
            self.gate = GateSeen()
        else:
            status = slot.data
            missing, detail = int(status["first_missing"]), ring.text(status["detail"])
            self.gate = GateSeen(
                (time.monotonic_ns() - int(status["beat_ns"])) * 1e-9, int(status["beat"]), bool(status["pwm_on"]),
                int(status["drop_seq"]),
                ProcessId(missing) if missing in ProcessId._value2member_map_ else ProcessId.GATE,
                detail, self._gate.writer_ended(), detail == GATE_FAREWELL and not status["pwm_on"],
            )  # fmt: skip
        if self.gate.pwm_on:
            self._off_since_s = time.monotonic()
        return self.gate

    def word_causes(self, leaving: bool = False) -> list[Cause]:
        """From the words and gate's beat. `leaving`: arm was asked to end, so gate's orderly end is of the same system's."""
        causes = [c for heard in self._words.hear_all() if (c := self._word_cause(heard)) is not None]
        if self.gate.age_s <= self.deadline_s and not self.gate.ended and not self.gate.farewell:
            self._true_once.add(ProcessId.GATE)
        elif not (leaving and self.gate.farewell):
            age = (
                "was ended in order; nothing moves without it"
                if self.gate.farewell
                else "its process ended"
                if self.gate.ended
                else "no status yet"
                if self.gate.age_s == float("inf")
                else f"last status {self.gate.age_s * 1e3:.0f} ms ago"
            )
            lost = HoldReason.WATCHDOG if self.gate.farewell else HoldReason.GATE_FAULT
            reason = lost if ProcessId.GATE in self._true_once else HoldReason.STARTING
            causes.append(Cause(reason, ProcessId.GATE, f"gate: {age}"))
        return causes

    def _word_cause(self, heard: Heard) -> Cause | None:
        process = heard.process
        was_true, before = process in self._true_once, self._heard_seq.get(process, heard.hold_seq)
        if not heard.late:
            self._heard_seq[process] = heard.hold_seq
        if heard.true:
            self._true_once.add(process)
            if was_true and process in self._required and heard.hold_seq > before:
                detail = f"{process.name.lower()}: said hold {heard.hold_seq} and took it back before arm looked"
                return Cause(HoldReason.WATCHDOG, process, detail, heard.hold_seq)
            return None
        explicit = not heard.late and heard.reason not in (HoldReason.NONE, HoldReason.STARTING)
        if explicit:
            return Cause(heard.reason, process, heard.why(), heard.hold_seq)
        if process not in self._required:
            return None  # its silence shows as INFERENCE_STALE while something moves
        reason = HoldReason.WATCHDOG if process in self._true_once else HoldReason.STARTING
        return Cause(reason, process, heard.why())

    def feed_causes(self) -> list[Cause]:
        """While something moves: eye or postproc died or froze, so nothing newer can come. The tail is not played out."""
        causes = []
        deadline_s = max(FEED_S, FEED_DEADLINES * self.deadline_s)
        for process, block in self._feeds.items():
            name = process.name.lower()
            if block.writer_ended():
                causes.append(Cause(HoldReason.INFERENCE_STALE, process, f"{name}: its process ended under way"))
            elif (age_s := block.beat_age_s()) > deadline_s:
                said = f"{name}: silent for {age_s * 1e3:.0f} ms under way, limit {deadline_s * 1e3:.0f} ms"
                causes.append(Cause(HoldReason.INFERENCE_STALE, process, said))
        return causes

    def stray_ticks(self, ticks: int, silent_s: float = float("-inf")) -> Cause | None:
        """Encoder ticks although gate's PWM has been off for long: a stuck or foreign signal is no permit.

        `silent_s`: when the controller last said nothing. Its first words after that are of the time before.
        """
        off_s = time.monotonic() - max(self._off_since_s, silent_s)
        if ticks and not self.gate.pwm_on and self.gate.age_s <= self.deadline_s and off_s > STRAY_TICKS_S:
            detail = f"{ticks} encoder ticks although the PWM is off; check the wiring of the encoder input"
            return Cause(HoldReason.GATE_FAULT, ProcessId.GATE, detail)
        return None


class RobotEvents:
    """The robot's own causes over time: one event is one hold, however its words change until it is over.

    A stop that was cleared but has left the player to be uploaded is the same event. So is a connection that comes and
    goes: its data have to flow for STEADY_S.
    """

    def __init__(self) -> None:
        self._stop = 0  # the safety mode that this event began with or went on to
        self._trouble = ""
        self.silent_s = float("-inf")  # when the controller last said nothing, CLOCK_MONOTONIC

    def causes(self, seen: Seen, was_up: bool, session_trouble: str, now_s: float) -> list[Cause]:
        """At most one. `was_up`: the player has run under this arm, so a missing one is no start any more."""
        found = robot_causes(seen, was_up, session_trouble, self._stop)
        if not seen.linked:
            self.silent_s = now_s
        if not found and was_up and self._trouble and now_s - self.silent_s < STEADY_S:
            found = [Cause(HoldReason.ROBOT, ProcessId.ARM, self._trouble, self._stop)]
        self._stop, self._trouble = (found[0].incident, found[0].detail) if found else (0, "")
        return found


def robot_causes(seen: Seen, was_up: bool, session_trouble: str, before: int = 0) -> list[Cause]:
    """From the robot itself, as it is now. `before`: the incident of the event that this may still belong to."""
    trouble = robot_trouble(seen)
    stopped = seen.linked and seen.safety_mode in STOPPED_STATES
    if not seen.linked or not trouble:
        missing = program_trouble(seen) if seen.linked else trouble
        trouble = (session_trouble or missing) if missing else ""
    if not trouble:
        return []
    reason = HoldReason.ROBOT if was_up or stopped else HoldReason.STARTING
    return [Cause(reason, ProcessId.ARM, trouble, seen.safety_mode if stopped else before)]
