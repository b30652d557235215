"""Words, gate, latch, line, player and a person in every order: the quick part. The whole one is in tests/prove.

What is taken away in the self-check has to be found: a check that cannot fail is none.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from model_board import FRESH, Bounds, Explored, Faults, Model, after, explore
from wardarm.arm.holds import HoldLatch
from wardarm.gate.permit import Look, Permit, step

QUIET = Bounds(deaths=0, dangers=0, plans=1, resumes=0)
DANGER = Bounds(deaths=0, dangers=1, plans=1, resumes=1)
DEATH = Bounds(deaths=1, dangers=0, plans=1, resumes=0)


def test_without_faults_nothing_is_broken_in_any_order() -> None:
    found = explore(Model(QUIET))
    assert found.complete
    assert found.broken == "", found.trace
    assert found.states > 5_000
    assert found.depth > 15


@pytest.mark.parametrize("bounds", [DANGER, DEATH], ids=["a danger and a resume", "a death"])
def test_the_first_states_with_a_fault_hold_what_they_promise(bounds: Bounds) -> None:
    found = explore(Model(bounds), 12_000)
    assert found.broken == "", found.trace


def motion_is_reached(bounds: Bounds, faults: Faults | None = None) -> Explored:
    """A search that ends where motion begins: that there is such a state shows that the checks are looked at."""

    class Ends(Model):
        def player(self, s):  # type: ignore[no-untyped-def]
            following = super().player(s)
            if following.player == 2 and s.player != 2:
                raise AssertionError("moves")
            return following

    try:
        return explore(Ends(bounds, faults))
    except AssertionError:
        return Explored(0, 0, 0, False, (), "moves")


def test_motion_is_reached_at_all() -> None:
    assert motion_is_reached(QUIET).broken == "moves"


def blind_to(**always: object):  # type: ignore[no-untyped-def]
    """The permit's rule with a part of what it sees replaced."""

    def rule(permit: Permit, look: Look) -> Permit:
        return step(permit, replace(look, **always))  # type: ignore[arg-type]

    return rule


def served_again(permit: Permit, look: Look) -> Permit:
    """Forgets that a request was dropped."""
    now = step(permit, look)
    return replace(now, spent_seq=(now.request_seq - 1) & 0xFFFFFFFF) if permit.on and not now.on else now


def half_a_resume(latch: HoldLatch, seen: tuple[int, ...]) -> str:
    """A resume that nobody compares with the holds."""
    if latch._live:
        return "still there"
    latch.holds = []
    return ""


SENT = ("a plan", "arm")  # on its way to the player
HELD_MEANWHILE = (*SENT, "danger", "guard says", "arm", "time")
MOVING = (*SENT, "player", "arm", "gate", "player")
SEEDED: dict[str, tuple[Faults, Bounds, tuple[str, ...], str]] = {
    "gate does not ask whether a word is fresh": (Faults(word_deadline=99), DEATH, (), "word or a status"),
    "gate does not ask for the words": (Faults(step=blind_to(missing=())), DANGER, (), "word or a status"),
    "gate does not ask whether arm's status is fresh": (
        Faults(step=blind_to(arm_fresh=True), word_deadline=99), DEATH, (), "word or a status"
    ),
    "a dropped request is served again": (Faults(step=served_again), DANGER, (), "was dropped"),
    "a new gate serves the old request": (Faults(new_gate=Permit(spent_seq=0)), DEATH, (), "was dropped"),
    "a hold does not count the epoch up": (Faults(epoch_kept=True), DANGER, HELD_MEANWHILE, "from before a hold"),
    "a resume is not compared with the holds": (
        Faults(resume=half_a_resume), replace(DANGER, dangers=2), (), "did not carry"
    ),
    "neither gate's companion nor the beat": (Faults(deadman=False, beat_deadline=99), DEATH, MOVING, "motion goes on"),
    "a new arm begins without a hold": (Faults(begins_held=False), DEATH, (), "without a person's word"),
    "arm keeps its request under a hold": (Faults(holds_kept=False), DANGER, (), "motion begins"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDED)
def test_what_is_taken_away_is_found(name: str) -> None:
    faults, bounds, begin, words = SEEDED[name]
    model = Model(bounds, faults)
    found = explore(model, 60_000, after(model, *begin))
    assert words in found.broken, f"{name}: {found}"
    assert 2 <= len(found.trace) <= 25


@pytest.mark.parametrize("faults", [Faults(deadman=False), Faults(beat_deadline=99)], ids=["companion", "beat"])
def test_of_companion_and_beat_one_may_be_missing(faults: Faults) -> None:
    model = Model(DEATH, faults)
    found = explore(model, 10_000, after(model, *MOVING))
    assert found.broken == "", found.trace


def test_a_fresh_word_is_one_tick_old_at_most() -> None:
    assert FRESH == 1
