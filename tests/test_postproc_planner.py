"""One chunk from one state: refused in plain words, or within every limit as the independent check sees it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from postproc_cases import CARRY_LIQUID, FAST, PATIENT, WARD, Array, Bench, knot_table, line, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.shm.layouts import PlanStatus


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


def at_home(bench: Bench) -> Array:
    pose = bench.tcp(bench.home())
    return np.concatenate([pose[:3], rpy_of(pose)])


def reach(bench: Bench, *offset: float, speed_m_s: float = 0.2) -> Array:
    start = at_home(bench)
    return line(start, start + np.array(offset), speed_m_s)


OPEN = np.ones(64)


@pytest.mark.parametrize("profile", [WARD, CARRY_LIQUID, PATIENT, FAST])
def test_a_reach_keeps_every_limit_and_arrives(bench: Bench, profile: int) -> None:
    points = reach(bench, 0.15, -0.2, -0.1, 0, 0, 0.5, speed_m_s=0.15)
    out = bench.plan(raw_chunk(points, OPEN, profile), bench.home())
    assert out["status"] == PlanStatus.OK, reason(out)
    knots = knot_table(out)
    verdict = bench.envelope.check(knots, float(out["ramp_s"]), profile, np.concatenate([bench.home(), np.zeros(12)]))
    assert verdict["ok"], verdict["reason"]
    assert verdict["max_ratio_plan"] <= 1.0
    assert verdict["max_ratio_stop"] <= 1.0
    assert abs(verdict["max_ratio_plan"] - float(out["max_ratio_plan"])) < 0.02
    np.testing.assert_allclose(bench.tcp(knots[-1, 1:7])[:3], points[-1, :3], atol=0.003)
    assert not knots[-1, 7:19].any()


def test_a_chunk_starts_at_cruise_but_the_arm_starts_from_rest(bench: Bench) -> None:
    out = bench.plan(raw_chunk(reach(bench, 0.2, 0, 0, 0, 0, 0, speed_m_s=0.24), OPEN), bench.home())
    knots = knot_table(out)
    np.testing.assert_array_equal(knots[0, 1:7], bench.home())
    assert not knots[0, 7:19].any()


def test_a_chunk_faster_than_the_profile_is_slowed_down(bench: Bench) -> None:
    points = reach(bench, 0.30, -0.30, -0.05, 0, 0, 0, speed_m_s=0.35)
    out = bench.plan(raw_chunk(points, OPEN), bench.home())
    assert out["status"] == PlanStatus.OK, reason(out)
    motion = _native.sample(knot_table(out), 0.01)
    tcp = np.array([bench.tcp(row)[:3] for row in motion[:, 1:7]])
    assert np.linalg.norm(np.diff(tcp, axis=0), axis=1).max() / 0.01 <= 0.25
    assert int(out["limited"]) & 0x8  # TCP speed
    np.testing.assert_allclose(tcp[-1], points[-1, :3], atol=0.003)


def test_the_plan_is_never_faster_than_the_chunk(bench: Bench) -> None:
    points = reach(bench, 0.0, -0.2, 0.0, 0, 0, 0, speed_m_s=0.05)
    out = bench.plan(raw_chunk(points, OPEN, FAST), bench.home())
    motion = _native.sample(knot_table(out), 0.05)
    tcp = np.array([bench.tcp(row)[:3] for row in motion[:, 1:7]])
    gone = np.linalg.norm(tcp - tcp[0], axis=1)[:60]
    assert (gone <= np.arange(60) * 0.05 * 0.05 + 0.001).all()
    assert gone[-1] > 0.1


def test_jitter_above_2_hz_is_gone(bench: Bench) -> None:
    rng = np.random.default_rng(5)
    clean = reach(bench, 0.15, -0.2, -0.1, 0, 0, 0.3, speed_m_s=0.08)
    noisy = clean.copy()
    noisy[1:, 3:] += np.radians(rng.uniform(-0.8, 0.8, (63, 3)))
    out = bench.plan(raw_chunk(noisy, OPEN), bench.home())
    assert out["status"] == PlanStatus.OK, reason(out)
    motion = _native.sample(knot_table(out), 0.05)
    angles = np.degrees(np.array([rpy_of(bench.tcp(row)) for row in motion[:, 1:7]]))
    spectrum = np.fft.rfft(angles - np.linspace(angles[0], angles[-1], len(angles)), axis=0)
    spectrum[np.fft.rfftfreq(len(angles), 0.05) <= 2.0] = 0
    assert np.abs(np.fft.irfft(spectrum, len(angles), axis=0)).max() <= 0.15


def test_the_points_are_reported_in_millimetres_and_degrees(bench: Bench) -> None:
    points = reach(bench, 0.1, 0.0, -0.1, 0.1, -0.1, 0.2, speed_m_s=0.05)
    out = bench.plan(raw_chunk(points, OPEN), bench.home())
    wanted = np.concatenate([points[:, :3] * 1e3, np.degrees(points[:, 3:])], axis=1)
    for field in ("raw_points", "points"):
        seen = np.array(out[field].tolist())
        assert np.abs(seen[:, :3] - wanted[:, :3]).max() < 1.0, field
        assert np.abs(seen[:, 3:] - wanted[:, 3:]).max() < 0.5, field


def test_the_customers_function_gives_the_raw_points(bench: Bench) -> None:
    points = reach(bench, 0.1, 0.0, -0.1, 0.1, -0.1, 0.2)
    chunk = raw_chunk(points, OPEN)
    normalised = np.ascontiguousarray(chunk["traj"]).view(np.float16).astype(np.float32).reshape(64, 6)
    raw = np.array(bench.plan(chunk, bench.home())["raw_points"].tolist(), np.float32)
    np.testing.assert_array_equal(_native.process_groot_output(normalised), raw)
    normalised[7, 2] = np.nan
    with pytest.raises(ValueError, match="point 7"):
        _native.process_groot_output(normalised)


def test_half_a_turn_of_yaw_is_no_jump(bench: Bench) -> None:
    start = at_home(bench)
    q = bench.home()
    q[5] += math.radians(170)
    start[5] = rpy_of(bench.tcp(q))[2]
    end = start + np.array([0.05, -0.1, -0.05, 0, 0, math.radians(-40)])
    points = line(start, end, 0.05)
    points[:, 5] = (points[:, 5] + math.pi) % (2 * math.pi) - math.pi
    assert np.abs(np.diff(points[:, 5])).max() > 6
    out = bench.plan(raw_chunk(points, OPEN), q)
    assert out["status"] == PlanStatus.OK, reason(out)


@pytest.mark.parametrize("bits", [0x7C00, 0xFC00, 0x7E00, 0x7C01])
def test_infinity_and_nan_are_refused_by_their_bits(bench: Bench, bits: int) -> None:
    chunk = raw_chunk(reach(bench, 0.1, 0, 0, 0, 0, 0), OPEN)
    chunk["traj"][17 * 6 + 2 :][:1] = bits
    out = bench.plan(chunk, bench.home())
    assert out["status"] == PlanStatus.NOT_FINITE
    assert "point 17: z" in reason(out)
    assert out["knot_count"] == 0
    chunk = raw_chunk(reach(bench, 0.1, 0, 0, 0, 0, 0), OPEN)
    chunk["grip"][5] = bits
    assert "point 5: opening" in reason(bench.plan(chunk, bench.home()))


def test_each_refusal_names_point_value_and_limit(bench: Bench) -> None:
    def refused(points: Array, status: PlanStatus, *words: str, grip: Array = OPEN) -> None:
        out = bench.plan(raw_chunk(points, grip), bench.home())
        assert out["status"] == status, reason(out)
        for word in words:
            assert word in reason(out), reason(out)

    far = reach(bench, 0.1, 0, 0, 0, 0, 0)
    far[20:, 0] += 0.8
    refused(far, PlanStatus.OUT_OF_RANGE, "point 20: x is 1.400", "-1..1")
    jump = reach(bench, 0.1, 0, 0, 0, 0, 0)
    jump[30:, 2] -= 0.08
    refused(jump, PlanStatus.JUMP, "point 30", "80.0 mm", "limit 50 mm")
    turn = reach(bench, 0.1, 0, 0, 0, 0, 0)
    turn[30:, 5] += 0.5
    refused(turn, PlanStatus.JUMP, "point 30", "28.7 deg", "limit 20 deg")
    refused(reach(bench, 0.05, 0, -0.44, 0, 0, 0), PlanStatus.OUTSIDE_BOX, "z = ", "5.0..750.0 mm")
    refused(reach(bench, 0.58, 0.1, 0.25, 0, 0, 0, speed_m_s=0.24), PlanStatus.UNREACHABLE, "too far for the arm")
    moved = reach(bench, 0.1, 0, 0, 0, 0, 0)
    moved[:, 1] += 0.04
    refused(moved, PlanStatus.START_MISMATCH, "40 mm", "limit 30 mm")
    refused(reach(bench, 0.1, 0, 0, 0, 0, 0), PlanStatus.OUT_OF_RANGE, "point 0: opening is 1.5", grip=OPEN * 1.5)


def test_an_arm_near_a_singularity_is_refused(bench: Bench) -> None:
    out = bench.plan(raw_chunk(reach(bench, 0, 0, 0, 0, 0, 0), OPEN), bench.home())
    assert out["status"] == PlanStatus.OK, reason(out)
    over = reach(bench, -0.20, 0.0, 0.05, 0, 0, 0, speed_m_s=0.1)
    out = bench.plan(raw_chunk(over, OPEN), bench.home())
    assert out["status"] in (PlanStatus.SINGULAR, PlanStatus.UNREACHABLE, PlanStatus.COLLISION, PlanStatus.OUTSIDE_BOX)
    assert reason(out)


def test_an_unknown_profile_is_refused(bench: Bench) -> None:
    out = bench.plan(raw_chunk(reach(bench, 0.1, 0, 0, 0, 0, 0), OPEN, 9), bench.home())
    assert out["status"] == PlanStatus.OUT_OF_RANGE
    assert "profile 9" in reason(out)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_comes_is_refused_with_a_reason_or_keeps_the_limits(bench: Bench, data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    profile = data.draw(st.sampled_from([WARD, CARRY_LIQUID, PATIENT, FAST]))
    q = bench.home() + rng.uniform(-0.3, 0.3, 6) * data.draw(st.floats(0, 1))
    qd = rng.uniform(-0.3, 0.3, 6) * data.draw(st.floats(0, 1))
    qdd = rng.uniform(-0.5, 0.5, 6) * data.draw(st.floats(0, 1))
    pose = bench.tcp(q)
    start = np.concatenate([pose[:3], rpy_of(pose)])
    steps = rng.normal(0, 1, (64, 6)) * np.array([1, 1, 1, 3, 3, 3]) * data.draw(st.floats(0, 0.008))
    points = start + np.cumsum(np.cumsum(steps, axis=0) * 0.1, axis=0) - steps[0] * 0.1
    points[:, :3] = np.clip(points[:, :3], [0.0, -0.6, -0.05], [1.0, 0.6, 0.75])
    points[:, 3:] = np.clip(points[:, 3:], -math.pi, math.pi)
    grip = np.clip(np.cumsum(rng.normal(0, 0.05, 64)) + 0.5, 0, 1)
    out = bench.plan(raw_chunk(points, grip, profile), q, qd, qdd)
    if out["status"] != PlanStatus.OK:
        assert reason(out)
        assert out["knot_count"] == 0
        return
    verdict = bench.envelope.check(knot_table(out), float(out["ramp_s"]), profile, np.concatenate([q, qd, qdd]))
    assert verdict["ok"], verdict["reason"]
