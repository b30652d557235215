"""Holds: latched until a person who has seen every one of them resumes, and the causes are gone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.shm.layouts import MAX_HOLDS, HoldReason, ProcessId

PERSON = Cause(HoldReason.INTRUDER, ProcessId.GUARD, "a person in zone 2", 7)
CLIENT = Cause(HoldReason.CLIENT, ProcessId.API, "paused by ward-3", 1)
STARTING = Cause(HoldReason.STARTING, ProcessId.EYE, "eye: no word yet")


def test_a_hold_outlives_its_cause() -> None:
    latch = HoldLatch()
    assert [h.reason for h in latch.see([PERSON], 1)] == [HoldReason.INTRUDER]
    assert latch.see([], 2) == []
    assert [h.reason for h in latch.holds] == [HoldReason.INTRUDER]
    assert latch.blocking


def test_resume_clears_everything_that_was_seen() -> None:
    latch = HoldLatch()
    latch.see([PERSON, CLIENT], 1)
    latch.see([], 2)
    assert latch.resume([h.seq for h in latch.holds]) == ""
    assert latch.holds == []


def test_resume_is_refused_while_a_cause_persists() -> None:
    latch = HoldLatch()
    latch.see([PERSON], 1)
    reason = latch.resume([h.seq for h in latch.holds])
    assert "INTRUDER" in reason
    assert latch.holds


def test_resume_is_refused_if_a_hold_is_missing_from_it() -> None:
    latch = HoldLatch()
    latch.see([PERSON], 1)
    seen = [h.seq for h in latch.holds]
    latch.see([CLIENT], 2)
    latch.see([], 3)
    assert "CLIENT" in latch.resume(seen)
    assert len(latch.holds) == 2


def test_the_same_thing_happening_again_is_a_new_hold() -> None:
    latch = HoldLatch()
    latch.see([PERSON], 1)
    seen = [h.seq for h in latch.holds]
    latch.see([], 2)
    latch.see([PERSON], 3)  # came back
    latch.see([], 4)
    assert "new" in latch.resume(seen)
    assert len(latch.holds) == 1


def test_another_incident_without_a_pause_is_a_new_hold() -> None:
    latch = HoldLatch()
    latch.see([PERSON], 1)
    again = Cause(PERSON.reason, PERSON.writer, "another person", 8)
    assert [h.detail for h in latch.see([again], 2)] == ["another person"]


def test_starting_needs_nobody() -> None:
    latch = HoldLatch()
    latch.see([STARTING], 1)
    assert latch.holds
    assert not latch.blocking
    latch.see([], 2)
    assert latch.holds == []


def test_restored_holds_need_a_resume() -> None:
    first = HoldLatch()
    first.see([PERSON], 1)
    second = HoldLatch(first.holds, first.last_seq)
    assert second.see([], 2) == []
    assert second.blocking
    assert second.resume([]) != ""
    assert second.resume([h.seq for h in first.holds]) == ""


causes = st.builds(
    Cause, st.sampled_from(list(HoldReason)), st.sampled_from(list(ProcessId)), st.just(""), st.integers(0, 2)
)


@given(st.lists(st.lists(causes, max_size=12, unique_by=lambda c: c.key), max_size=12))
def test_numbers_rise_and_the_table_never_overflows(rounds: list[list[Cause]]) -> None:
    latch, seen = HoldLatch(), [0]
    for i, now in enumerate(rounds):
        seen += [h.seq for h in latch.see(now, i)]
        assert len(latch.holds) <= MAX_HOLDS
    assert seen == sorted(set(seen))


@given(st.lists(st.lists(causes, max_size=4, unique_by=lambda c: c.key), min_size=1, max_size=8))
def test_nothing_but_a_complete_resume_without_causes_clears(rounds: list[list[Cause]]) -> None:
    latch = HoldLatch()
    for i, now in enumerate(rounds):
        latch.see(now, i)
    before = [h.seq for h in latch.holds]
    if rounds[-1]:
        assert latch.resume(before) != ""
        assert [h.seq for h in latch.holds] == before
    elif before:
        assert latch.resume(before[:-1]) != ""
        assert [h.seq for h in latch.holds] == before
        assert latch.resume(before) == ""
