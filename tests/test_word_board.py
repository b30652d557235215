"""Words on the board, on real shared memory with the clock in the test's hand: true, false, late, torn, replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from board_clock import Clock, blocks
from wardarm.gate.words import BlockWatch, Heard, OwnWord, WordBoard
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, WORD, BlockKind, HoldReason, ProcessId

DEADLINE_S = 0.1
GUARD, API = ProcessId.GUARD, ProcessId.API


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().take(monkeypatch)


@pytest.fixture
def prefix() -> Iterator[str]:
    yield from blocks()


def board(prefix: str, *processes: ProcessId) -> WordBoard:
    return WordBoard(processes or (GUARD,), prefix, DEADLINE_S)


def publish(prefix: str, **fields: object) -> None:
    writer = ring.Writer(BlockKind.WORD, prefix, GUARD)
    word = np.zeros((), WORD)
    word["process"], word["ok"] = GUARD, 1
    for name, value in fields.items():
        word[name] = value
    writer.publish(word)


def test_a_word_is_true_up_to_its_deadline(clock: Clock, prefix: str) -> None:
    OwnWord(GUARD, prefix, 0.02).say(True)
    ours = board(prefix)
    for age_s, true in ((0.0, True), (0.05, True), (0.0999, True), (0.1001, False), (10.0, False)):
        start = clock.now_ns
        clock.advance(age_s)
        heard = ours.hear(GUARD)
        assert heard.true is true, age_s
        assert heard.late is not true
        assert heard.ok
        assert heard.age_s == pytest.approx(age_s, abs=1e-6)
        clock.now_ns = start


def test_the_deadline_itself_is_in_time(clock: Clock, prefix: str) -> None:
    ours = WordBoard([GUARD], prefix, 0.125)  # a number without rounding
    publish(prefix, beat_ns=clock.now_ns)
    clock.now_ns += 125_000_000
    assert ours.hear(GUARD).age_s == 0.125
    assert ours.hear(GUARD).true
    clock.now_ns += 1
    assert not ours.hear(GUARD).true


def test_a_beat_from_the_future_is_no_beat(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns + 125_000_000)
    ours = WordBoard([GUARD], prefix, 0.125)
    assert ours.hear(GUARD).true  # as far ahead as it may be behind
    clock.now_ns -= 1
    assert ours.hear(GUARD).late


def test_no_block_is_a_late_word(clock: Clock, prefix: str) -> None:
    ours = board(prefix)
    assert ours.hear(GUARD) == Heard(GUARD, False, float("inf"), 0, HoldReason.STARTING, "no word yet", True)
    assert not ours.hear(GUARD).true
    assert ours.hear(GUARD).why() == "guard: no word yet"


def test_a_block_without_a_word_is_late(clock: Clock, prefix: str) -> None:
    ring.create(BlockKind.WORD, prefix, GUARD)
    assert board(prefix).hear(GUARD).late


def test_hold_is_heard_with_its_reason_and_number(clock: Clock, prefix: str) -> None:
    word = OwnWord(GUARD, prefix, 0.02)
    word.say(True)
    word.say(False, HoldReason.INTRUDER, "a person in zone 2")
    ours = board(prefix)
    heard = ours.hear(GUARD)
    assert (heard.ok, heard.late, heard.true, heard.hold_seq) == (False, False, False, 1)
    assert (heard.reason, heard.detail) == (HoldReason.INTRUDER, "a person in zone 2")
    assert heard.why() == "guard: a person in zone 2"
    clock.advance(0.2)
    late = ours.hear(GUARD)
    assert late.detail == "a person in zone 2"
    assert late.why() == "guard: last word 200 ms ago"


def test_a_detail_is_said_for_a_hold_or_a_late_word_only(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns, detail=b"left over")
    ours = board(prefix)
    assert ours.hear(GUARD).detail == ""
    assert ours.hear(GUARD).why() == "guard: none"
    clock.advance(1.0)
    assert ours.hear(GUARD).detail == "left over"


def test_a_word_in_another_processs_block_is_false(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns, process=API)
    assert not board(prefix).hear(GUARD).ok
    publish(prefix, beat_ns=clock.now_ns, process=GUARD, ok=0)
    assert not board(prefix).hear(GUARD).ok


def test_an_unknown_reason_is_a_watchdog(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns, ok=0, reason=99)
    assert board(prefix).hear(GUARD).reason is HoldReason.WATCHDOG


def test_every_word_is_heard_in_order(clock: Clock, prefix: str) -> None:
    OwnWord(API, prefix, 0.02).say(True)
    ours = board(prefix, GUARD, API)
    assert [(h.process, h.true) for h in ours.hear_all()] == [(GUARD, False), (API, True)]


def test_a_torn_word_is_late_and_the_next_whole_one_counts(clock: Clock, prefix: str) -> None:
    writer = ring.Writer(BlockKind.WORD, prefix, GUARD)
    word = np.zeros((), WORD)
    word["process"], word["ok"], word["beat_ns"] = GUARD, 1, clock.now_ns
    writer.publish(word)
    ours = board(prefix)
    assert ours.hear(GUARD).true
    at = writer._offset(2)
    writer.publish(word)
    writer.map[at + 80] ^= 1  # the process died while it wrote
    assert ours.hear(GUARD).late
    writer.publish(word)
    assert ours.hear(GUARD).true


def test_a_replaced_block_is_opened_again_within_a_fifth_of_a_second(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns)
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    first = watch.latest()
    assert first is not None
    assert watch.latest() is first  # nothing newer
    assert watch.replaced_count == 0
    ring.block_path(BlockKind.WORD, prefix, GUARD).unlink()
    publish(prefix, beat_ns=clock.now_ns, hold_seq=9)
    clock.advance(0.19)
    assert watch.latest() is first
    clock.advance(0.011)
    second = watch.latest()
    assert second is not None
    assert int(second.data["hold_seq"]) == 9
    assert watch.replaced_count == 1
    clock.advance(0.201)
    assert watch.latest() is second
    assert watch.replaced_count == 1


def test_a_block_that_appears_is_found_within_a_fifth_of_a_second(clock: Clock, prefix: str) -> None:
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    assert watch.latest() is None
    publish(prefix, beat_ns=clock.now_ns)
    clock.advance(0.199)
    assert watch.latest() is None
    clock.now_ns += 1_000_001
    assert watch.latest() is not None


def test_a_removed_block_is_noticed_and_counted_once(clock: Clock, prefix: str) -> None:
    publish(prefix, beat_ns=clock.now_ns)
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    assert watch.latest() is not None
    ring.block_path(BlockKind.WORD, prefix, GUARD).unlink()
    for _ in range(3):
        clock.advance(0.21)
        assert watch.latest() is None
    assert watch.replaced_count == 1


def test_a_block_of_another_layout_is_no_word(clock: Clock, prefix: str) -> None:
    ring.block_path(BlockKind.WORD, prefix, GUARD).write_bytes(b"x" * 64)
    assert board(prefix).hear(GUARD).late


class Said:
    """What one process's block says after each change."""

    def __init__(self, prefix: str) -> None:
        self.word = OwnWord(GUARD, prefix, 0.02)
        self.reader = ring.Reader(BlockKind.WORD, prefix, GUARD)

    def row(self) -> tuple[bool, int, int]:
        slot = self.reader.latest()
        assert slot is not None
        return bool(slot.data["ok"]), int(slot.data["reason"]), int(slot.data["hold_seq"])


def test_a_word_is_renewed_each_beat_and_at_once_when_it_changes(clock: Clock, prefix: str) -> None:
    said = Said(prefix)
    said.word.say(True)
    assert said.reader.generation == 1
    clock.now_ns += 19_999_999
    said.word.say(True)
    assert said.reader.generation == 1
    clock.now_ns += 1
    said.word.say(True)
    assert said.reader.generation == 2
    said.word.say(False, HoldReason.CLIENT, "paused")
    assert said.reader.generation == 3
    slot = said.reader.latest()
    assert slot is not None
    assert int(slot.data["beat_ns"]) == clock.now_ns
    assert int(slot.data["process"]) == GUARD


def test_each_new_hold_has_a_new_number_and_a_changed_detail_has_none(clock: Clock, prefix: str) -> None:
    said = Said(prefix)
    rows = []
    for ok, reason, detail in (
        (True, HoldReason.NONE, ""), (False, HoldReason.CLIENT, "a"), (False, HoldReason.CLIENT, "b"),
        (False, HoldReason.INTRUDER, "b"), (True, HoldReason.CLIENT, "left over"), (False, HoldReason.INTRUDER, "b"),
    ):  # fmt: skip
        said.word.say(ok, reason, detail)
        rows.append(said.row())
    assert rows == [(True, 0, 0), (False, 1, 1), (False, 1, 1), (False, 2, 2), (True, 1, 2), (False, 2, 3)]
    for reason, detail in ((HoldReason.CLIENT, "a visitor"), (HoldReason.NONE, "")):
        said.word.say(True, reason, "a visitor")
        slot = said.reader.latest()
        assert slot is not None
        assert ring.text(slot.data["detail"]) == detail


def test_go_on_but_gently_is_true_and_says_why(clock: Clock, prefix: str) -> None:
    word, ours = OwnWord(GUARD, prefix, 0.02), board(prefix)
    word.say(True, HoldReason.INTRUDER, "somebody near the bed")
    heard = ours.hear(GUARD)
    assert (heard.true, heard.slow, heard.reason) == (True, True, HoldReason.INTRUDER)
    assert heard.detail == "somebody near the bed"
    word.say(True)
    assert (ours.hear(GUARD).true, ours.hear(GUARD).slow) == (True, False)
    word.say(False, HoldReason.INTRUDER, "somebody in the zone")
    assert (ours.hear(GUARD).true, ours.hear(GUARD).slow) == (False, False)
    assert ours.hear(GUARD).hold_seq == 1
    word.say(True, HoldReason.INTRUDER, "somebody near the bed")
    clock.advance(0.2)
    assert ours.hear(GUARD).slow is False


def test_a_first_word_of_hold_counts_and_a_restart_counts_on(clock: Clock, prefix: str) -> None:
    said = Said(prefix)
    said.word.say(False, HoldReason.STARTING, "starting")
    assert said.row() == (False, HoldReason.STARTING, 1)
    again = Said(prefix)
    again.word.say(True)
    assert again.row() == (True, 0, 1)
    again.word.say(False, HoldReason.STARTING)
    assert again.row() == (False, HoldReason.STARTING, 2)


def test_a_watch_follows_a_block_without_a_process(clock: Clock, prefix: str) -> None:
    ring.Writer(BlockKind.ARM_STATUS, prefix).publish(np.zeros((), ARM_STATUS))
    assert BlockWatch(BlockKind.ARM_STATUS, prefix).latest() is not None


def test_a_block_is_looked_for_at_the_first_instant_and_again_exactly_a_fifth_of_a_second_later(
    clock: Clock, prefix: str
) -> None:
    clock.now_ns = 0
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    publish(prefix)
    assert watch.latest() is not None
    ring.block_path(BlockKind.WORD, prefix, GUARD).unlink()
    clock.now_ns = 199_999_999
    assert watch.latest() is not None
    clock.now_ns = 200_000_000
    assert watch.latest() is None


WRITES = """
import sys
from wardarm.gate.words import OwnWord
from wardarm.shm.layouts import ProcessId
OwnWord(ProcessId.GUARD, sys.argv[1], 0.02).say(True)
print("said", flush=True)
sys.stdin.read()
"""


def test_the_word_of_a_process_that_died_is_late_at_once(prefix: str) -> None:
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    assert watch.writer_ended() is False  # nobody wrote yet: nobody to lose
    assert watch.beat_age_s() == float("inf")
    other = subprocess.Popen([sys.executable, "-c", WRITES, prefix], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"said\n"
        ours = WordBoard([GUARD], prefix, 60.0)
        assert ours.hear(GUARD).true
        assert ours.hear(GUARD).ended is False
    finally:
        other.kill()
        other.wait()
    heard = ours.hear(GUARD)
    assert (heard.ok, heard.late, heard.ended, heard.true) == (True, True, True, False)
    assert heard.why() == "guard: its process ended"
    OwnWord(GUARD, prefix, 0.02).say(True)  # another one has taken over
    assert ours.hear(GUARD).true


def test_the_age_of_a_beat_is_the_headers(clock: Clock, prefix: str) -> None:
    watch = BlockWatch(BlockKind.WORD, prefix, GUARD)
    writer = ring.Writer(BlockKind.WORD, prefix, GUARD)
    clock.advance(0.25)
    assert watch.beat_age_s() == float("inf")
    writer.beat()
    clock.advance(0.25)
    assert watch.beat_age_s() == pytest.approx(0.25)
    assert watch.writer_ended() is False


def test_a_hold_without_a_reason_keeps_its_words(clock: Clock, prefix: str) -> None:
    word = OwnWord(GUARD, prefix, 0.02)
    word.say(False, HoldReason.NONE, "not yet")
    heard = board(prefix).hear(GUARD)
    assert (heard.ok, heard.reason, heard.detail) == (False, HoldReason.NONE, "not yet")
