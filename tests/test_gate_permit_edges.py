"""Gate's rule at every edge, one look at a time."""

from __future__ import annotations

import pytest
from wardarm.gate.permit import Look, Permit, forget, newer, step
from wardarm.shm.layouts import ProcessId

WAITING = Permit(spent_seq=4)
ON = Permit(on=True, request_seq=5, spent_seq=4, drop_seq=7, first_missing=ProcessId.GUARD)
CLEAR = Look(True, True, 5)


def test_nothing_is_on_or_counted_at_the_start() -> None:
    assert Permit() == Permit(False, 0, None, 0, ProcessId.SUPERVISOR)
    assert Look(True, True, 5) == Look(True, True, 5, (), False)


def test_on_needs_a_request_newer_than_the_spent_one() -> None:
    assert step(WAITING, CLEAR) == Permit(True, 5, 4)
    for seq in (4, 3, 0, 4 + 0x80000000):
        assert step(WAITING, Look(True, True, seq)) == WAITING
    assert step(WAITING, Look(True, True, 4 + 0x7FFFFFFF)).on


FAULTS = [
    (Look(False, True, 5), ProcessId.ARM),
    (Look(True, True, 5, (ProcessId.GUARD,)), ProcessId.GUARD),
    (Look(True, True, 5, (ProcessId.API, ProcessId.GUARD)), ProcessId.API),
    (Look(True, True, 5, (), True), ProcessId.GATE),
    (Look(False, True, 5, (ProcessId.API,), True), ProcessId.GATE),
    (Look(False, True, 5, (ProcessId.API,)), ProcessId.ARM),
    (Look(False, False, 5), ProcessId.ARM),
    (Look(True, False, 5, (), True), ProcessId.GATE),
    (Look(False, False, 5, (), True), ProcessId.GATE),
]  # fmt: skip


@pytest.mark.parametrize(("look", "who"), FAULTS)
def test_each_fault_keeps_off_and_switches_off_and_uses_the_request_up(look: Look, who: ProcessId) -> None:
    assert step(WAITING, look) == WAITING
    off = step(ON, look)
    assert off == Permit(False, 5, 5, 8, who)
    assert step(off, CLEAR) == off
    assert step(off, Look(True, True, 6)).on


def test_a_request_taken_back_is_spent_and_nobody_is_named() -> None:
    assert step(ON, Look(True, False, 5)) == Permit(False, 5, 5, 7, ProcessId.GUARD)
    assert step(ON, Look(True, False, 5, (ProcessId.API,))) == Permit(False, 5, 5, 7, ProcessId.GUARD)
    assert step(WAITING, Look(True, False, 5)) == WAITING


def test_another_request_under_way_is_a_drop_of_the_one_served() -> None:
    off = step(ON, Look(True, True, 6))
    assert off == Permit(False, 5, 5, 8, ProcessId.ARM)
    assert step(off, Look(True, True, 6)) == Permit(True, 6, 5, 8, ProcessId.ARM)


def test_what_stays_clear_stays_on() -> None:
    assert step(ON, CLEAR) is ON


@pytest.mark.parametrize("look", [Look(False, True, 5), Look(True, True, 5, (), True), Look(False, True, 5, (), True)])
def test_no_request_is_learnt_from_a_late_look_or_a_stale_status(look: Look) -> None:
    assert step(Permit(), look) == Permit()


@pytest.mark.parametrize("look", [CLEAR, Look(True, False, 5), Look(True, True, 5, (ProcessId.API,))])
def test_the_first_request_seen_is_spent(look: Look) -> None:
    assert step(Permit(), look) == Permit(spent_seq=5)


def test_a_status_made_anew_is_off_and_unlearnt() -> None:
    assert forget(ON) == Permit(False, 5, None, 7, ProcessId.GUARD)


def test_counters_wrap_half_way_round() -> None:
    assert newer(1, 0)
    assert newer(0, 0xFFFFFFFF)
    assert newer(0x7FFFFFFF, 0)
    assert not newer(0, 0)
    assert not newer(0x80000000, 0)
    assert not newer(0x80000001, 0)
    assert not newer(0, 1)
    assert not newer(0xFFFFFFFF, 0)


def test_who_is_named() -> None:
    assert Look(False, True, 1, (ProcessId.API,), True).first_missing() is ProcessId.GATE
    assert Look(False, True, 1, (ProcessId.API,)).first_missing() is ProcessId.ARM
    assert Look(True, True, 1, (ProcessId.API, ProcessId.GUARD)).first_missing() is ProcessId.API
    assert Look(True, True, 1).first_missing() is ProcessId.ARM
