"""Whatever a model says and wherever the arm is: a plan within the limits by two programs that are not the planner, or none.

The judges: the independent check, and `ops.limits` (finite differences of the 500 Hz motion, own kinematics).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from postproc_cases import Array, Bench, Fetch, knot_table, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.config import Config, LimitProfile
from wardarm.ops import limits
from wardarm.shm.layouts import PlanStatus

PLAIN = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
ROUNDING = 1.002  # of finite differences over 2 ms
FOLDER = tempfile.TemporaryDirectory(prefix="motion-oracle-")  # goes with the process
BENCH = Bench.make(Path(FOLDER.name))
TALLY = {True: 0, False: 0}  # planned, refused
seeds = st.integers(0, 2**31)
places = st.tuples(st.floats(0.30, 0.62), st.floats(-0.40, 0.35), st.floats(0.02, 0.2)).map(np.array)


def rest_chunk(target: Array, yaw: float, seed: int, profile: int, bench: Bench = BENCH) -> np.void:
    q = bench.home()
    state = np.concatenate([bench.tcp(q)[:3], rpy_of(bench.tcp(q)), [1.0, 0.0]])
    return Fetch(target, yaw).chunk(state, np.random.default_rng(seed), profile)


def judged(out: np.void, profile: LimitProfile, bench: Bench, index: int, start: Array) -> None:
    """Both judges agree with an accepted plan; a refused one has a reason and no motion."""
    TALLY[out["status"] == PlanStatus.OK] += 1
    if out["status"] != PlanStatus.OK:
        assert reason(out)
        assert out["knot_count"] == 0
        return
    knots = knot_table(out)
    np.testing.assert_array_equal(knots[0, 1:19], start)
    assert np.abs(knots[-1, 7:19]).max() == 0.0
    verdict = bench.envelope.check(knots, float(out["ramp_s"]), index, start)
    assert verdict["ok"], verdict["reason"]
    assert verdict["max_ratio_stop"] <= 1.0001
    assert differences(knots, profile, bench.config) <= ROUNDING


def differences(knots: Array, profile: LimitProfile, config: Config) -> float:
    rows = _native.sample(knots, limits.CYCLE_S)
    samples = np.zeros(len(rows), [("timestamp", "<f8"), ("target_q", "<f8", 6), ("output_int_register_12", "<i4")])
    samples["timestamp"], samples["target_q"] = rows[:, 0], rows[:, 1:7]
    motion = limits.motion(samples[:-1], config.arm)  # the last row is off the 2 ms grid
    return limits.ratios(motion, profile).plan


@PLAIN
@given(target=places, yaw=st.floats(-1.2, 1.2), seed=seeds, profile=st.integers(0, 3))
def test_a_reach_from_rest_keeps_its_limits(target: Array, yaw: float, seed: int, profile: int) -> None:
    out = BENCH.plan(rest_chunk(target, yaw, seed, profile), BENCH.home())
    start = np.concatenate([BENCH.home(), np.zeros(12)])
    judged(out, list(BENCH.config.profiles.values())[profile], BENCH, profile, start)


@PLAIN
@given(target=places, seed=seeds, profile=st.integers(0, 3), share=st.floats(0.05, 0.95), other=places)
def test_a_chunk_that_interrupts_a_motion_anywhere_continues_it(
    target: Array, seed: int, profile: int, share: float, other: Array
) -> None:
    """Another target, from any moment of the motion under way: the same q, qd and qdd, every limit, or nothing changes."""
    first = BENCH.plan(rest_chunk(target, 0.0, seed, profile), BENCH.home())
    assume(first["status"] == PlanStatus.OK)
    motion = _native.sample(knot_table(first), limits.CYCLE_S)
    row = motion[int(share * (len(motion) - 1))]
    q, qd, qdd = row[1:7].copy(), row[7:13].copy(), row[13:19].copy()
    pose = BENCH.tcp(q)
    state = np.concatenate([pose[:3], rpy_of(pose), [1.0, 0.0]])
    out = BENCH.plan(Fetch(other).chunk(state, np.random.default_rng(seed + 1), profile), q, qd, qdd)
    judged(out, list(BENCH.config.profiles.values())[profile], BENCH, profile, np.concatenate([q, qd, qdd]))


@st.composite
def profiles(draw: Any) -> LimitProfile:
    """Any limits that the configuration accepts, within what a ward would ask for."""

    def share(low: float, high: float) -> float:
        return float(draw(st.floats(low, high)))

    return LimitProfile(
        joint_deg_s=share(15, 180), joint_deg_s2=share(60, 400), joint_deg_s3=share(400, 4000),
        tcp_m_s=share(0.05, 1.0), tcp_m_s2=share(0.3, 4), tcp_m_s3=share(2, 35),
        tcp_deg_s=share(15, 180), tcp_deg_s2=share(60, 400), tcp_deg_s3=share(400, 4000),
        stop_factor=share(1.2, 3.0), ramp_min_s=0.3, ramp_max_s=share(0.34, 1.5),
    )  # fmt: skip


@settings(PLAIN, max_examples=25)
@given(profile=profiles(), target=places, seed=seeds)
def test_limits_of_any_size_are_kept_or_the_plan_is_refused(profile: LimitProfile, target: Array, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.make(
            Path(folder), Config(profiles={"drawn": profile}, profile="drawn", guard={"slow_profile": "drawn"})
        )
    index = bench.config.profile_index()
    out = bench.plan(rest_chunk(target, 0.0, seed, index, bench), bench.home())
    judged(out, profile, bench, index, np.concatenate([bench.home(), np.zeros(12)]))


@PLAIN
@given(
    walk=st.lists(st.tuples(*[st.floats(-1, 1)] * 6), min_size=64, max_size=64).map(np.array),
    size=st.sampled_from([0.0005, 0.004, 0.012, 0.03]), seed=seeds, profile=st.integers(0, 3),
)  # fmt: skip
def test_any_wandering_chunk_is_planned_within_the_limits_or_refused(
    walk: Array, size: float, seed: int, profile: int
) -> None:
    """Constant, reversing, dwelling, jumping: steps of up to 30 mm and 9 degrees a point in random directions."""
    q = BENCH.home()
    pose = BENCH.tcp(q)
    steps = walk * size
    steps[:, 3:] *= 5
    steps[0] = 0
    points = np.concatenate([pose[:3], rpy_of(pose)]) + np.cumsum(steps, axis=0)
    points[:, :3] = np.clip(points[:, :3], [0.01, -0.59, -0.04], [0.99, 0.59, 0.74])
    points[:, 3:] = (points[:, 3:] + np.pi) % (2 * np.pi) - np.pi
    grip = np.clip(np.cumsum(np.random.default_rng(seed).uniform(-0.1, 0.1, 64)) + 0.5, 0, 1)
    out = BENCH.plan(raw_chunk(points, grip, profile), q)
    judged(out, list(BENCH.config.profiles.values())[profile], BENCH, profile, np.concatenate([q, np.zeros(12)]))


def test_most_of_what_was_drawn_was_planned_and_some_was_refused() -> None:
    """So that the claims above are not about nothing."""
    if sum(TALLY.values()) < 100:
        pytest.skip("the tests above did not run")
    assert TALLY[True] > TALLY[False] > 0
