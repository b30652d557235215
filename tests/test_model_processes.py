"""Gate, arm's board and latch, words and status: the real code on real shared memory, in orders that hypothesis draws.

The clock is the test's. Writers say yes and no, stay silent, die between two stores, come back; arm and gate die and
come back; a person reads the holds at one moment and resumes at another. A ledger of what was really said, kept beside
it, is what the outcome is held against.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from board_clock import Clock, blocks
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from wardarm.arm import causes as arm_causes
from wardarm.arm.causes import Board
from wardarm.arm.channel import Answer, Sent
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.arm.operate import Arm
from wardarm.arm.status import StatusBlock, begins_held, inherit
from wardarm.config import Config
from wardarm.gate import main as gate_main
from wardarm.gate.main import Gate
from wardarm.gate.words import OwnWord
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, HoldReason, ProcessId, RefusalReason, Source

DEADLINE_S = 0.1
ARM, GUARD = ProcessId.ARM, ProcessId.GUARD


class Line:
    """The PWM line."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.is_on = clock, False

    def on(self) -> int:
        self.is_on = True
        return self.clock.now_ns

    def off(self) -> int:
        self.is_on = False
        return self.clock.now_ns

    def renew(self) -> None:
        """Nothing is lost on this line."""


class Board2(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.clock = pytest.MonkeyPatch(), Clock()
        self.clock.take(self.patch, gate_main, arm_causes)
        self.made = blocks()
        self.prefix = next(self.made)
        self.config = Config.model_validate(
            {"schema": 1, "shm": {"prefix": self.prefix}, "gate": {"word_deadline_ms": DEADLINE_S * 1e3}}
        )
        self.required = required_words(self.config)
        self.line = Line(self.clock)
        self.words: dict[ProcessId, OwnWord | None] = {}
        self.said: dict[ProcessId, tuple[bool, int]] = {}  # what each said last, and when
        self.holds_said = 0  # holds that the guard said and arm has to record
        self.request = self.moves = False
        self.request_seq = self.epoch = self.served = 0
        self.used: set[int] = set()
        self.seen: list[int] = []
        self.arm_up = True

    def teardown(self) -> None:
        for _ in self.made:
            pass
        self.patch.undo()

    @initialize()
    def everybody_comes_up(self) -> None:
        for process in self.required:
            self.words[process] = OwnWord(process, self.prefix, 0.0)
        self.new_arm()
        self.gate: Gate | None = self.new_gate()
        for _ in range(2):
            self.others_say()
            self.arm_loops()
            self.gate_loops()

    # --- who writes

    def new_gate(self) -> Gate:
        return Gate(self.config, self.line, SimpleNamespace(beat=lambda _: None))  # type: ignore[arg-type]

    def new_arm(self) -> None:
        left = inherit(self.prefix)
        self.epoch = left.plan_epoch + 1
        self.latch = HoldLatch(left.holds, self.epoch)
        if why := begins_held(left, went_on=True):
            self.epoch = self.latch.add(Cause(HoldReason.WATCHDOG, ARM, why), self.clock.now_ns).seq
        self.status = StatusBlock(self.prefix)
        self.board = Board(self.config)
        self.words[ARM] = OwnWord(ARM, self.prefix, 0.0)
        self.request, self.request_seq = False, left.request_seq
        self.arm_up = True

    def say(self, process: ProcessId, ok: bool) -> None:
        word = self.words[process]
        if word is None:
            return
        if process is GUARD and not ok and self.said.get(process, (True, 0))[0]:
            self.holds_said += 1
        word.say(ok, HoldReason.NONE if ok else HoldReason.INTRUDER, "" if ok else "a person")
        self.said[process] = (ok, self.clock.now_ns)

    @rule()
    def others_say(self) -> None:
        for process in self.required:
            if process is not ARM and self.said.get(process, (True, 0))[0]:
                self.say(process, True)

    @rule(ok=st.booleans())
    def guard_says(self, ok: bool) -> None:
        self.say(GUARD, ok)

    @rule(store=st.integers(0, 7))
    def guard_dies_while_it_writes(self, store: int) -> None:
        """Its block is left as it was between two of a publication's stores."""
        word = self.words[GUARD]
        if word is None:
            return
        writer, left = word._writer, [store]

        class Dies:
            def __init__(self, inner: Any) -> None:
                self.inner = inner

            def __getitem__(self, at: Any) -> Any:
                return self.inner[at]

            def __setitem__(self, at: Any, value: Any) -> None:
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                self.inner[at] = value

        writer.words, writer.map = Dies(writer.words), Dies(writer.map)  # type: ignore[assignment]
        before = self.said[GUARD]
        with contextlib.suppress(KeyboardInterrupt):
            word.say(
                before[0],
                HoldReason.INTRUDER if not before[0] else HoldReason.NONE,
                "a person" if not before[0] else "",
            )
        if store >= 7:
            self.said[GUARD] = (before[0], self.clock.now_ns)  # the head was written: it counts
        self.words[GUARD] = None

    @rule()
    def guard_comes_back(self) -> None:
        if self.words[GUARD] is None:
            self.words[GUARD] = OwnWord(GUARD, self.prefix, 0.0)

    @rule(ms=st.sampled_from([1, 10, 30, 60, 101, 260]))
    def time_passes(self, ms: int) -> None:
        self.clock.now_ns += ms * 1_000_000

    # --- arm

    @rule()
    def arm_loops(self) -> None:
        if not self.arm_up:
            return
        self.board.read_gate()
        new = self.latch.see(self.board.word_causes(), self.clock.now_ns)
        for hold in new:
            self.epoch = max(self.epoch + 1, hold.seq)
            if hold.writer is GUARD and hold.reason is not HoldReason.STARTING:
                self.holds_said = 0
        if self.latch.holds:
            self.request = False
        self.arm_publishes()

    def arm_publishes(self) -> None:
        record = self.status.record
        record["state"] = ArmState.HELD if self.latch.holds else ArmState.READY
        record["plan_epoch"], record["motion_request"], record["request_seq"] = (
            self.epoch,
            self.request,
            self.request_seq,
        )
        self.status.set_holds(self.latch.holds)
        self.status.publish()
        ok = not self.latch.holds
        self.words[ARM].say(ok, HoldReason.WATCHDOG, "held")  # type: ignore[union-attr]
        self.said[ARM] = (ok, self.clock.now_ns)

    @rule(on=st.booleans())
    def arm_wants(self, on: bool) -> None:
        """A trajectory was loaded, or has ended."""
        self.arm_loops()
        if self.arm_up and on != self.request and not self.latch.holds:
            self.request = on
            self.request_seq += on
            self.arm_publishes()

    @rule()
    def arm_dies_and_comes_back(self) -> None:
        self.arm_up = False
        self.new_arm()

    # --- gate

    @rule()
    def gate_loops(self) -> None:
        if self.gate is None:
            return
        before = self.line.is_on
        self.gate.loop()
        if self.line.is_on and not before:
            assert self.request_seq not in self.used, "a request that was dropped before is served"
            self.served = self.request_seq
        if self.line.is_on:
            assert self.request
            for process in self.required:
                ok, at_ns = self.said[process]
                assert ok, f"{process.name} says no"
                assert self.clock.now_ns - at_ns <= DEADLINE_S * 1e9, f"{process.name} said it long ago"
            assert self.holds_said == 0 or before or not self.recorded(), "a hold that arm has not seen"
        elif before:
            self.used.add(self.served)

    def recorded(self) -> bool:
        """Whether arm has looked since the guard's last word: only then can it know."""
        return self.said[ARM][1] >= self.said[GUARD][1] and self.words[GUARD] is not None

    @rule()
    def gate_dies_and_comes_back(self) -> None:
        if self.line.is_on:
            self.used.add(self.served)
        self.line.off()  # its companion, then systemd
        self.gate = self.new_gate()

    # --- a person

    @rule()
    def a_person_reads(self) -> None:
        self.seen = [h.seq for h in inherit(self.prefix).holds]

    @precondition(lambda self: bool(self.seen))
    @rule()
    def a_person_resumes(self) -> None:
        before = [h.seq for h in self.latch.holds]
        if self.latch.resume(self.seen) == "":
            assert set(before) <= set(self.seen), "a hold was ended that nobody saw"
            assert self.latch.holds == []
        else:
            assert [h.seq for h in self.latch.holds] == before
        self.seen = []

    @invariant()
    def no_request_while_held(self) -> None:
        if hasattr(self, "latch"):
            assert not (self.request and self.latch.holds)


Board2.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True,
    database=None,
)  # fmt: skip
TestRealProcesses = Board2.TestCase


# --- what the model has found, in the real code


def test_a_hold_that_was_taken_back_before_arm_looked_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock().take(monkeypatch, arm_causes)
    for prefix in blocks():
        config = Config.model_validate({"schema": 1, "shm": {"prefix": prefix}})
        words = {p: OwnWord(p, prefix, 0.0) for p in required_words(config)}
        board, latch = Board(config), HoldLatch()
        gate = ring.Writer(BlockKind.GATE_STATUS, prefix)

        def everybody(words: Any = words, gate: Any = gate) -> None:
            for word in words.values():
                word.say(True)
            status = gate.blank()
            status["beat_ns"] = clock.now_ns
            gate.publish(status)

        def looks(board: Board = board, latch: HoldLatch = latch) -> list[tuple[HoldReason, ProcessId]]:
            board.read_gate()
            return [h.key for h in latch.see(board.word_causes(), clock.now_ns)]

        words[GUARD].say(False, HoldReason.STARTING, "starting")
        assert (HoldReason.STARTING, GUARD) in looks()
        everybody()
        assert looks() == []
        words[GUARD].say(False, HoldReason.INTRUDER, "a person")
        everybody()
        assert looks() == [(HoldReason.WATCHDOG, GUARD)]
        assert "said hold 2 and took it back" in latch.holds[0].detail
        assert looks() == []
        assert latch.blocking
        assert latch.resume([latch.holds[0].seq]) == ""


@pytest.mark.parametrize(("epoch", "starts"), [(7, True), (6, False), (0, False)])
def test_what_was_sent_before_a_hold_does_not_start_after_it(epoch: int, starts: bool) -> None:
    """The hold may be latched and ended while the player still loads."""
    sent = Sent(5, None, Source.MODEL, True, 0.0, 0.0, epoch)  # type: ignore[arg-type]
    arm = Arm.__new__(Arm)
    arm.session = SimpleNamespace(sample=SimpleNamespace(controller_s=1.0))  # type: ignore[assignment]
    arm.loads = SimpleNamespace(see=lambda *_: Answer(sent, RefusalReason.NONE, 0.1))  # type: ignore[assignment]
    arm.block = SimpleNamespace(record={})  # type: ignore[assignment]
    arm.log = SimpleNamespace(debug=lambda *_, **__: None)  # type: ignore[assignment]
    arm.plan_epoch, arm._to_start, arm._loaded_s = 7, False, 0.0
    arm._take_answer(None, 3.0)  # type: ignore[arg-type]
    assert arm._to_start is starts
