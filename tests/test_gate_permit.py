"""Gate's rule, over every sequence of what it can see."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from wardarm.gate.permit import Look, Permit, forget, newer, step
from wardarm.shm.layouts import ProcessId

REQUIRED = (ProcessId.ARM, ProcessId.GUARD, ProcessId.API)
missing = st.lists(st.sampled_from(REQUIRED), unique=True, max_size=3).map(tuple)
looks = st.builds(
    Look, arm_fresh=st.booleans(), motion_request=st.booleans(), request_seq=st.integers(0, 4), missing=missing,
    late=st.booleans(),
)  # fmt: skip
# mostly good looks, so that the PWM is on often enough to be dropped
kind_looks = st.one_of(looks, st.builds(Look, st.just(True), st.just(True), st.integers(0, 6)))


def play(sequence: list[Look], start: Permit | None = None) -> list[Permit]:
    permits = [start or Permit()]
    for look in sequence:
        permits.append(step(permits[-1], look))
    return permits[1:]


IDLE = Look(True, False, 4)
ASKING = Look(True, True, 5)


def test_a_new_request_with_every_word_true_switches_on_in_the_same_loop() -> None:
    assert [p.on for p in play([IDLE, ASKING, ASKING])] == [False, True, True]


@given(st.lists(kind_looks, max_size=40))
def test_on_needs_every_condition(sequence: list[Look]) -> None:
    for look, permit in zip(sequence, play(sequence), strict=True):
        if permit.on:
            assert look.arm_fresh
            assert look.motion_request
            assert not look.missing
            assert not look.late
            assert look.request_seq == permit.request_seq


@given(st.lists(kind_looks, max_size=60))
def test_no_request_is_served_twice(sequence: list[Look]) -> None:
    served: list[int] = []
    on = False
    for permit in play(sequence):
        if permit.on and not on:
            served.append(permit.request_seq)
        on = permit.on
    assert len(served) == len(set(served))
    assert served == sorted(served)


@given(st.sampled_from([Look(False, True, 5), Look(True, True, 5, (ProcessId.GUARD,)), Look(True, True, 5, late=True)]))
def test_a_drop_needs_a_new_request(fault: Look) -> None:
    permits = play([IDLE, ASKING, fault, *[ASKING] * 50, Look(True, False, 5), *[ASKING] * 3])
    assert permits[1].on
    assert not any(p.on for p in permits[2:])
    assert permits[2].drop_seq == 1
    assert play([Look(True, True, 6)], permits[-1])[0].on


def test_a_drop_names_who_made_it() -> None:
    both = Look(True, True, 5, (ProcessId.GUARD, ProcessId.API))
    assert play([IDLE, ASKING, both])[-1].first_missing is ProcessId.GUARD
    assert play([IDLE, ASKING, Look(False, True, 5)])[-1].first_missing is ProcessId.ARM
    assert play([IDLE, ASKING, Look(True, True, 5, late=True)])[-1].first_missing is ProcessId.GATE


def test_a_request_taken_back_is_no_drop() -> None:
    permit = play([IDLE, ASKING, Look(True, False, 5)])[-1]
    assert not permit.on
    assert permit.drop_seq == 0


def test_a_word_that_was_false_when_the_request_came_may_still_come_true() -> None:
    waiting = Look(True, True, 5, (ProcessId.API,))
    permits = play([IDLE, waiting, waiting, ASKING])
    assert [p.on for p in permits] == [False, False, False, True]


def test_a_request_that_runs_while_gate_starts_is_not_served() -> None:
    assert not any(p.on for p in play([ASKING] * 10))
    assert play([ASKING, Look(True, False, 5), Look(True, True, 6)])[-1].on


def test_a_status_block_made_anew_counts_as_a_start() -> None:
    on = play([IDLE, ASKING])[-1]
    assert not any(p.on for p in play([Look(True, True, 1)] * 5, forget(on)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 2**31 - 1))
def test_request_counters_wrap(seq: int, ahead: int) -> None:
    assert newer((seq + ahead) % 2**32, seq)
    assert not newer(seq, (seq + ahead) % 2**32)
    assert not newer(seq, seq)
