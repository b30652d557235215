"""The expert's promises, over states and targets drawn all over the workspace."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wardarm.policy import contract
from wardarm.sim.scenes import GRASP_Z_M, KINDS
from wardarm.training import expert
from wardarm.training.expert import State, Target

_EVERY = settings(max_examples=60, deadline=None)


@st.composite
def targets(draw: st.DrawFn) -> Target:
    kind = draw(st.sampled_from(KINDS))
    yaw = draw(st.floats(-1.2, 1.2)) if kind == "spoon" else 0.0
    return Target(draw(st.floats(0.27, 0.66)), draw(st.floats(-0.4, 0.4)), yaw, kind)


@st.composite
def states(draw: st.DrawFn) -> State:
    holding = draw(st.booleans())
    small = st.floats(-0.05, 0.05)
    return State(
        draw(st.floats(0.27, 0.66)),
        draw(st.floats(-0.42, 0.5)),
        draw(st.floats(0.18 if holding else 0.03, 0.5)),
        draw(small),
        draw(small),
        draw(st.floats(-1.2, 1.2)),
        0.0 if holding else draw(st.floats(0, 1)),
        holding,
    )


@_EVERY
@given(states(), targets())
def test_every_state_ends_done(state: State, target: Target) -> None:
    end = expert.roll_out(state, target, 400)[-1]
    assert expert.done(end)
    assert math.dist(end[:3], contract.HAND_OVER_M) < 1e-6


@_EVERY
@given(states(), targets())
def test_the_tcp_never_exceeds_the_speed_limit(state: State, target: Target) -> None:
    for a, b in itertools.pairwise(expert.roll_out(state, target, 300)):
        assert math.dist(a[:3], b[:3]) <= expert.SPEED_M_S * expert.STEP_S + 1e-12
        assert abs(a.yaw_rad - b.yaw_rad) <= max(expert.YAW_RATE_RAD_S * expert.STEP_S, expert.YAW_LAND_RAD) + 1e-12
        assert abs(a.opening - b.opening) <= expert.GRIP_PER_S * expert.STEP_S + 1e-12 or b.holding


@_EVERY
@given(states(), targets())
def test_it_never_goes_below_the_table(state: State, target: Target) -> None:
    floor = min(state.z_m, GRASP_Z_M[target.kind])
    assert all(s.z_m >= floor - 1e-12 for s in expert.roll_out(state, target, 300))


@_EVERY
@given(states(), targets())
def test_it_is_memoryless(state: State, target: Target) -> None:
    path = expert.roll_out(state, target, 60)
    assert expert.roll_out(path[20], target, 40) == path[20:]


@_EVERY
@given(states(), targets())
def test_fingers_close_only_around_the_piece(state: State, target: Target) -> None:
    grasp = (target.x_m, target.y_m, target.grasp_z_m)
    for a, b in itertools.pairwise(expert.roll_out(state, target, 300)):
        if b.opening < a.opening and not a.holding:
            assert math.dist(a[:3], grasp) < expert.KEEP_CLOSING_WITHIN_M
            assert b[:3] == a[:3]


@pytest.mark.parametrize("kind", KINDS)
def test_a_carried_piece_is_lifted_clear_before_it_travels(kind: str) -> None:
    target = Target(0.45, -0.35, 0.0, kind)
    path = expert.roll_out(State(0.45, -0.35, GRASP_Z_M[kind], 0, 0, 0, 0.0, True), target, 200)
    for s in path:
        aside = math.hypot(s.x_m - target.x_m, s.y_m - target.y_m)
        assert s.z_m > target.carry_z_m - expert.LIFT_FADE_M[0] or aside < 0.005


def test_a_fetch_from_home_takes_about_eight_seconds() -> None:
    path = expert.roll_out(State(0.30, 0.0, 0.42, 0, 0, 0, 1.0, False), Target(0.55, -0.3, 0.0, "cup"), 300)
    seconds = next(i for i, s in enumerate(path) if expert.done(s)) * expert.STEP_S
    assert 6 < seconds < 11
