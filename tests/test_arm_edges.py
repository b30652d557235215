"""What arm admits and what it latches, exactly at the edge of each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_arm_admit import AT_REST, DURATION_S, OLD, UNDER_WAY, joining, minimum_jerk, refusal, trajectory
from wardarm.arm.admit import Refused, admit, quintic
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.shm.layouts import KNOT, MAX_HOLDS, MAX_KNOTS, HoldReason, PlanStatus, ProcessId, RefusalReason

ZERO = np.zeros(6)


def still(count: int = 5, step_s: float = 0.05) -> Any:
    """Knots that stay at zero: differences from them are exact."""
    knots = np.zeros(count, KNOT)
    knots["t_s"] = np.arange(count) * step_s
    return knots


STANDING = replace(AT_REST, actual_q=ZERO, target_q=ZERO)
PLAYING_STILL = replace(UNDER_WAY, path_s=0.5, load_s=0.125, playing_knots=still(41))


def verdict(t: Any, now: Any) -> RefusalReason:
    try:
        admit(t, now)
    except Refused as e:
        return e.reason
    return RefusalReason.NONE


@pytest.mark.parametrize(("field", "limit"), [("q_rad", 1e-5), ("qd_rad_s", 1e-4), ("qdd_rad_s2", 1e-3)])
def test_a_join_may_step_up_to_its_limit(field: str, limit: float) -> None:
    for step, reason in (
        (limit, RefusalReason.NONE), (-limit, RefusalReason.NONE), (limit * 1.001, RefusalReason.DISCONTINUOUS),
        (-limit * 1.001, RefusalReason.DISCONTINUOUS),
    ):  # fmt: skip
        for joint in range(6):
            knots = still()
            knots[field][0, joint] = step
            assert verdict(trajectory(knots, 11, 1.0), PLAYING_STILL) is reason, (field, step, joint)


@pytest.mark.parametrize(("field", "limit"), [("qd_rad_s", 1e-6), ("qdd_rad_s2", 1e-5)])
def test_rest_at_the_end_has_a_limit(field: str, limit: float) -> None:
    for step, reason in (
        (limit, RefusalReason.NONE), (-limit, RefusalReason.NONE), (limit * 1.001, RefusalReason.DISCONTINUOUS),
        (-limit * 1.001, RefusalReason.DISCONTINUOUS),
    ):  # fmt: skip
        for joint in range(6):
            knots = still()
            knots[field][-1, joint] = step
            assert verdict(trajectory(knots), STANDING) is reason


def test_a_start_has_limits_to_where_the_arm_is_and_stands() -> None:
    for joint in range(6):
        for limit, field in ((STANDING.start_tolerance_rad, "actual_q"), (1e-3, "target_q")):
            for sign in (1, -1):
                there = ZERO.copy()
                there[joint] = sign * limit
                assert verdict(trajectory(still()), replace(STANDING, **{field: there})) is RefusalReason.NONE
                there[joint] *= 1.001
                assert verdict(trajectory(still()), replace(STANDING, **{field: there})) is RefusalReason.START
        knots = still()
        knots["qd_rad_s"][0, joint] = 1e-6
        assert verdict(trajectory(knots), STANDING) is RefusalReason.NONE
        knots["qd_rad_s"][0, joint] = -1.001e-6
        assert verdict(trajectory(knots), STANDING) is RefusalReason.START


def test_it_is_the_first_knot_that_has_to_be_where_the_arm_is() -> None:
    knots = still()
    knots["q_rad"][1:] = 0.5
    assert verdict(trajectory(knots), STANDING) is RefusalReason.NONE
    knots = still()
    knots["q_rad"][0] = 0.5
    assert verdict(trajectory(knots), STANDING) is RefusalReason.START


@pytest.mark.parametrize("count", [0, 1, MAX_KNOTS + 1])
def test_the_number_of_knots_has_limits(count: int) -> None:
    t = trajectory(still(MAX_KNOTS, 0.05))
    t["knot_count"] = count
    assert verdict(t, STANDING) is RefusalReason.PLAN


@pytest.mark.parametrize("count", [2, 3, MAX_KNOTS - 1, MAX_KNOTS])
def test_every_number_of_knots_within_them_is_taken(count: int) -> None:
    assert verdict(trajectory(still(count)), STANDING) is RefusalReason.NONE


@pytest.mark.parametrize("times", [[0.0, 0.05, 0.05], [0.0, 0.1, 0.05], [0.01, 0.05, 0.1], [-0.01, 0.0, 0.05]])
def test_knot_times_rise_from_zero(times: list[float]) -> None:
    knots = still(3)
    knots["t_s"] = times
    assert verdict(trajectory(knots), STANDING) is RefusalReason.PLAN


@pytest.mark.parametrize("field", ["t_s", "q_rad", "qd_rad_s", "qdd_rad_s2", "grip"])
@pytest.mark.parametrize("row", [0, 2, 4])
def test_every_number_is_finite(field: str, row: int) -> None:
    knots = still()
    knots[field][row] = np.nan
    assert verdict(trajectory(knots), STANDING) is RefusalReason.PLAN


def test_every_status_but_ok_is_refused_by_name() -> None:
    for status in (*PlanStatus, 13, 200):
        t = trajectory(still())
        t["status"] = status
        if status == PlanStatus.OK:
            admit(t, STANDING)
            continue
        with pytest.raises(Refused, match=PlanStatus(status).name if status <= 12 else str(status)):
            admit(t, STANDING)


def test_an_epoch_that_is_ahead_is_refused_too() -> None:
    assert verdict(trajectory(still(), epoch=4), STANDING) is RefusalReason.EPOCH


def test_a_join_leaves_more_time_than_loading_takes() -> None:
    t = trajectory(still(), 11, 1.0)
    assert verdict(t, replace(PLAYING_STILL, path_s=0.875)) is RefusalReason.LATE
    assert verdict(t, replace(PLAYING_STILL, path_s=0.8749)) is RefusalReason.NONE
    with pytest.raises(Refused, match="joins in 100 ms, loading takes 125 ms"):
        admit(t, replace(PLAYING_STILL, path_s=0.9))


def test_a_join_lies_on_what_plays() -> None:
    end_s = float(still(41)["t_s"][-1])
    assert verdict(trajectory(still(), 11, end_s), PLAYING_STILL) is RefusalReason.NONE
    assert verdict(trajectory(still(), 11, end_s + 1e-9), PLAYING_STILL) is RefusalReason.UNKNOWN_JOIN
    for playing in (replace(PLAYING_STILL, playing_knots=None), replace(PLAYING_STILL, playing_id=12)):
        assert verdict(trajectory(still(), 11, 1.0), playing) is RefusalReason.UNKNOWN_JOIN


def test_loading_refuses_starts_and_joins() -> None:
    assert verdict(trajectory(still()), replace(STANDING, loading=True)) is RefusalReason.NOT_READY
    assert verdict(trajectory(still(), 11, 1.0), replace(PLAYING_STILL, loading=True)) is RefusalReason.NOT_READY


def test_the_law_is_clamped_to_its_knots() -> None:
    for t_s, knot in ((-0.3, OLD[0]), (0.0, OLD[0]), (DURATION_S, OLD[-1]), (DURATION_S + 0.3, OLD[-1])):
        q, qd, qdd = quintic(OLD, t_s)
        np.testing.assert_allclose(q, knot["q_rad"], atol=1e-12)
        np.testing.assert_allclose(qd, knot["qd_rad_s"], atol=1e-12)
        np.testing.assert_allclose(qdd, knot["qdd_rad_s2"], atol=1e-9)


def test_the_law_goes_through_every_knot_of_an_uneven_grid() -> None:
    knots = minimum_jerk(ZERO, np.ones(6), 1.0, 11)[[0, 1, 3, 4, 7, 10]]
    for knot in knots:
        q, qd, qdd = quintic(knots, float(knot["t_s"]))
        np.testing.assert_allclose(q, knot["q_rad"], atol=1e-12)
        np.testing.assert_allclose(qd, knot["qd_rad_s"], atol=1e-12)
        np.testing.assert_allclose(qdd, knot["qdd_rad_s2"], atol=1e-9)


def test_a_join_that_continues_is_admitted_and_its_refusals_have_words() -> None:
    admit(trajectory(joining(), 11, 1.0), UNDER_WAY)
    assert refusal(trajectory(joining(), 10, 1.0), UNDER_WAY) is RefusalReason.UNKNOWN_JOIN


# --- holds


def cause(i: int, incident: int = 0) -> Cause:
    reasons = [r for r in HoldReason if r not in (HoldReason.NONE, HoldReason.STARTING)]
    return Cause(reasons[i], ProcessId.GUARD, f"cause {i}", incident)


def test_numbers_count_up_by_one_from_the_last() -> None:
    latch = HoldLatch()
    assert latch.last_seq == 0
    assert [h.seq for h in latch.see([cause(0), cause(1)], 1)] == [1, 2]
    assert latch.last_seq == 2
    assert HoldLatch(latch.holds, 1).last_seq == 2
    assert HoldLatch(latch.holds, 9).last_seq == 9
    assert cause(0) == Cause(HoldReason.CLIENT, ProcessId.GUARD, "cause 0")
    assert Cause(HoldReason.CLIENT, ProcessId.GUARD, "").incident == 0


def test_the_table_holds_eight_and_then_the_newest_takes_the_last_place() -> None:
    latch = HoldLatch()
    latch.see([cause(i) for i in range(MAX_HOLDS)], 1)
    assert [h.seq for h in latch.holds] == [1, 2, 3, 4, 5, 6, 7, 8]
    latch.see([*(cause(i) for i in range(MAX_HOLDS)), cause(MAX_HOLDS)], 2)
    assert [h.seq for h in latch.holds] == [1, 2, 3, 4, 5, 6, 7, 9]


def test_a_hold_again_takes_the_place_of_the_one_before() -> None:
    latch = HoldLatch()
    latch.see([cause(0), cause(1)], 1)
    assert [h.seq for h in latch.see([cause(0, 5), cause(1)], 2)] == [3]
    assert [(h.seq, h.reason, h.since_ns) for h in latch.holds] == [
        (2, cause(1).reason, 1),
        (3, cause(0).reason, 2),
    ]


def test_a_persisting_cause_is_one_hold_whose_words_follow() -> None:
    latch = HoldLatch()
    assert len(latch.see([cause(0)], 1)) == 1
    later = replace(cause(0), detail="two persons")
    assert latch.see([later], 2) == []
    assert [(h.seq, h.detail, h.since_ns) for h in latch.holds] == [(1, "two persons", 1)]
    latch.see([], 3)
    assert latch.holds[0].detail == "two persons"


def test_only_what_blocks_blocks() -> None:
    starting = Cause(HoldReason.STARTING, ProcessId.EYE, "eye: no word yet")
    latch = HoldLatch()
    assert latch.blocking is False
    latch.see([starting], 1)
    assert latch.blocking is False
    latch.see([starting, cause(0)], 2)
    assert latch.blocking is True
    latch.see([], 3)
    assert [h.reason for h in latch.holds] == [cause(0).reason]


def test_an_empty_resume_of_nothing_is_allowed_and_one_of_a_cause_is_not() -> None:
    latch = HoldLatch()
    assert latch.resume([]) == ""
    latch.see([Cause(HoldReason.STARTING, ProcessId.EYE, "")], 1)
    assert "STARTING (eye)" in latch.resume([1])
