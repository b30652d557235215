"""Which trajectories may go to the player."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from wardarm.arm.admit import ArmNow, Refused, admit, quintic
from wardarm.shm.layouts import TRAJECTORY, ArmState, PlanStatus, RefusalReason

Q0 = np.array([0.1, -1.4, 1.5, -1.6, -1.5, 0.2])
STEP = np.array([0.3, 0.1, -0.2, 0.1, 0.0, -0.1])
DURATION_S, KNOTS = 2.0, 41


def minimum_jerk(q0: np.ndarray, step: np.ndarray, duration_s: float, count: int) -> np.ndarray:
    """Knots of one quintic from rest to rest."""
    t = np.linspace(0, duration_s, count)
    u = (t / duration_s)[:, None]
    knots = np.zeros(count, TRAJECTORY["knots"].base)
    knots["t_s"] = t
    knots["q_rad"] = q0 + step * (10 * u**3 - 15 * u**4 + 6 * u**5)
    knots["qd_rad_s"] = step * (30 * u**2 - 60 * u**3 + 30 * u**4) / duration_s
    knots["qdd_rad_s2"] = step * (60 * u - 180 * u**2 + 120 * u**3) / duration_s**2
    knots["grip"] = 1.0
    return knots


def trajectory(knots: np.ndarray, join_id: int = 0, join_s: float = 0.0, epoch: int = 3) -> Any:
    t = np.zeros((), TRAJECTORY)
    t["id"], t["plan_epoch"], t["join_trajectory_id"], t["join_path_s"] = 12, epoch, join_id, join_s
    t["knot_count"] = len(knots)
    t["knots"][: len(knots)] = knots
    return t


OLD = minimum_jerk(Q0, STEP, DURATION_S, KNOTS)
AT_REST = ArmNow(
    state=ArmState.READY, plan_epoch=3, playing_id=0, path_s=0.0, load_s=0.15, loading=False, actual_q=Q0 + 0.002,
    target_q=Q0, start_tolerance_rad=0.02,
)  # fmt: skip
UNDER_WAY = replace(AT_REST, state=ArmState.RUNNING, playing_id=11, path_s=0.5, playing_knots=OLD)


def joining(join_s: float = 1.0) -> np.ndarray:
    """Old law from the join on, sampled anew: exactly continuous, ends at rest."""
    times = np.linspace(join_s, DURATION_S, 21)
    knots = np.zeros(len(times), OLD.dtype)
    for knot, t in zip(knots, times, strict=True):
        knot["t_s"] = t - join_s
        knot["q_rad"], knot["qd_rad_s"], knot["qdd_rad_s2"] = quintic(OLD, t)
    return knots


def refusal(t: Any, now: ArmNow) -> RefusalReason:
    with pytest.raises(Refused) as e:
        admit(t, now)
    return e.value.reason


def test_the_quintic_is_the_law_itself() -> None:
    for t in np.linspace(0, DURATION_S, 333):
        u = t / DURATION_S
        q, qd, qdd = quintic(OLD, t)
        np.testing.assert_allclose(q, Q0 + STEP * (10 * u**3 - 15 * u**4 + 6 * u**5), atol=1e-12)
        np.testing.assert_allclose(qd, STEP * (30 * u**2 - 60 * u**3 + 30 * u**4) / DURATION_S, atol=1e-10)
        np.testing.assert_allclose(qdd, STEP * (60 * u - 180 * u**2 + 120 * u**3) / DURATION_S**2, atol=1e-8)


def test_a_good_one_from_rest_and_a_good_join_are_admitted() -> None:
    admit(trajectory(OLD), AT_REST)
    admit(trajectory(joining(), 11, 1.0), UNDER_WAY)


def test_a_plan_that_postproc_refused_is_refused() -> None:
    t = trajectory(OLD)
    t["status"] = PlanStatus.COLLISION
    assert refusal(t, AT_REST) is RefusalReason.PLAN


def test_a_stale_epoch_is_refused() -> None:
    assert refusal(trajectory(OLD, epoch=2), AT_REST) is RefusalReason.EPOCH


@pytest.mark.parametrize("state", [s for s in ArmState if s is not ArmState.READY])
def test_from_rest_needs_ready(state: ArmState) -> None:
    assert refusal(trajectory(OLD), replace(AT_REST, state=state)) is RefusalReason.NOT_READY


@pytest.mark.parametrize("state", [s for s in ArmState if s is not ArmState.RUNNING])
def test_a_join_needs_running(state: ArmState) -> None:
    assert refusal(trajectory(joining(), 11, 1.0), replace(UNDER_WAY, state=state)) is RefusalReason.NOT_READY


def test_a_start_elsewhere_is_refused() -> None:
    assert refusal(trajectory(OLD), replace(AT_REST, actual_q=Q0 + 0.021)) is RefusalReason.START
    assert refusal(trajectory(OLD), replace(AT_REST, target_q=Q0 + 0.0011)) is RefusalReason.START


def test_a_start_in_motion_is_refused() -> None:
    assert refusal(trajectory(joining()), replace(AT_REST, target_q=joining()[0]["q_rad"], actual_q=joining()[0]["q_rad"])) in (
        RefusalReason.START,
    )  # fmt: skip


def test_a_join_that_loading_would_miss_is_late() -> None:
    assert refusal(trajectory(joining(), 11, 1.0), replace(UNDER_WAY, path_s=0.86)) is RefusalReason.LATE
    admit(trajectory(joining(), 11, 1.0), replace(UNDER_WAY, path_s=0.84))


def test_a_join_to_something_else_is_refused() -> None:
    assert refusal(trajectory(joining(), 10, 1.0), UNDER_WAY) is RefusalReason.UNKNOWN_JOIN


@pytest.mark.parametrize(("field", "step"), [("q_rad", 1e-4), ("qd_rad_s", 1e-3), ("qdd_rad_s2", 1e-2)])
def test_a_step_at_the_join_is_refused(field: str, step: float) -> None:
    knots = joining()
    knots[0][field][2] += step
    assert refusal(trajectory(knots, 11, 1.0), UNDER_WAY) is RefusalReason.DISCONTINUOUS


def test_one_that_does_not_end_at_rest_is_refused() -> None:
    assert refusal(trajectory(OLD[:-1]), AT_REST) is RefusalReason.DISCONTINUOUS


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_number_that_is_none_is_refused(value: float) -> None:
    knots = OLD.copy()
    knots[7]["qd_rad_s"][3] = value
    assert refusal(trajectory(knots), AT_REST) is RefusalReason.PLAN


def test_only_one_is_loaded_at_a_time() -> None:
    assert refusal(trajectory(OLD), replace(AT_REST, loading=True)) is RefusalReason.NOT_READY
