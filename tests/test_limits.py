"""The judge of recorded motion: exact on motions whose derivatives are known, honest about gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm.ops import limits
from wardarm.ops.rtde_log import SAMPLE

CONFIG = configuration.load("desk")


def recorded(joint: np.ndarray[Any, Any], state: int = 2) -> np.ndarray[Any, Any]:
    """Samples in which joint 1 moves as given and the others stand."""
    out = np.zeros(len(joint), np.dtype([(n, SAMPLE[n].newbyteorder("=")) for n in SAMPLE.names or ()]))
    out["timestamp"] = 10 + np.arange(len(joint)) * limits.CYCLE_S
    out["target_q"] = [2.68, -2.06, 1.70, -1.21, -1.57, -2.03]
    out["target_q"][:, 0] += joint
    out["output_int_register_12"] = state
    return out


def sine(amplitude_rad: float, hertz: float, seconds: float = 2.0) -> np.ndarray[Any, Any]:
    t = np.arange(0, seconds, limits.CYCLE_S)
    return amplitude_rad * np.sin(2 * np.pi * hertz * t)


def test_a_sine_has_the_derivatives_of_a_sine() -> None:
    m = limits.motion(recorded(sine(0.1, 1.0)), CONFIG.arm)
    w = 2 * np.pi
    for order, series in enumerate(m.joint):
        assert np.abs(series[:, 0]).max() == pytest.approx(0.1 * w ** (order + 1), rel=2e-3)
    radius = np.hypot(*m.position_m[0, :2])
    assert m.tcp[0].max() == pytest.approx(0.1 * w * radius, rel=2e-3)
    assert m.turn[0].max() == pytest.approx(0.1 * w, rel=2e-3)


def test_too_fast_is_seen_and_named() -> None:
    m = limits.motion(recorded(sine(0.2, 1.0)), CONFIG.arm)
    r = limits.ratios(m, CONFIG.limits)
    assert r.plan > 1
    assert r.stop == 0
    assert r.which.startswith("plan: TCP")


def test_a_ramp_is_held_against_the_stop_row() -> None:
    fast = sine(0.05, 1.5)
    plan = limits.ratios(limits.motion(recorded(fast), CONFIG.arm), CONFIG.limits)
    stop = limits.ratios(limits.motion(recorded(fast, limits.RAMPING), CONFIG.arm), CONFIG.limits)
    assert stop.plan == 0
    assert 0 < stop.stop < plan.plan


def test_a_gap_in_the_record_is_counted_and_never_read_as_motion() -> None:
    whole = recorded(sine(0.02, 0.5))
    cut = np.concatenate([whole[:300], whole[340:500], whole[505:]])
    m = limits.motion(cut, CONFIG.arm)
    assert m.gaps == 2
    assert (
        limits.ratios(m, CONFIG.limits).largest
        <= limits.ratios(limits.motion(whole, CONFIG.arm), CONFIG.limits).largest * 1.01
    )


def test_a_record_that_begins_and_ends_in_motion_shows_no_more_than_the_motion() -> None:
    whole = recorded(sine(0.05, 0.5, 4.0))
    reference = limits.ratios(limits.motion(whole, CONFIG.arm), CONFIG.limits)
    for begin, end in ((251, 1500), (300, 1251), (777, 1999)):
        part = limits.motion(whole[begin:end], CONFIG.arm)
        assert np.abs(part.joint[0][5:-5, 0]).max() > 0.01
        assert limits.ratios(part, CONFIG.limits).largest <= 1.001 * reference.largest


def test_the_plan_is_not_blamed_for_the_ramp_that_begins_after_it() -> None:
    """Steady turning, then a ramp with 1.8 times the plan's jerk: differences before its first sample reach into it."""
    jerk, cycles = 1.8 * np.radians(CONFIG.limits.joint_deg_s3), 20
    t = np.arange(200 + cycles) * limits.CYCLE_S
    into = np.clip(t - t[199], 0, None)
    samples = recorded(0.1 * t - jerk * into**3 / 6)
    samples["output_int_register_12"][200:] = limits.RAMPING
    r = limits.ratios(limits.motion(samples, CONFIG.arm), CONFIG.limits)
    assert r.plan < 0.5
    assert r.stop > 0.85
