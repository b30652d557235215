"""The motion stays on the smoothed path, ends soon after it, and takes a new speed under way, smoothly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from postproc_cases import WARD, Array, Bench, knot_table, line, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.ops import bench_reaches as shapes
from wardarm.shm.layouts import PlanStatus

OPEN = np.ones(64)
BRIDGE = 1 << 12  # of `limited`
BRAKES_MM = 1e3 * (0.2**2 / (2 * 0.8) + 0.2 * 0.8 / (2 * 6))  # from 0.2 m/s within a and j of `ward`


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


@pytest.fixture(scope="module")
def home(bench: Bench) -> Array:
    pose = bench.tcp(bench.home())
    return np.concatenate([pose[:3], rpy_of(pose)])


def moved(home: Array, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Array:
    return home + np.array([x, y, z, 0, 0, 0])


def state_at(knots: Array, t_s: float) -> tuple[Array, Array, Array]:
    rows = _native.sample(knots, 0.002)
    row = rows[round(t_s / 0.002)]
    return row[1:7].copy(), row[7:13].copy(), row[13:19].copy()


def deviation_mm(bench: Bench, out: np.void) -> float:
    tcp = np.array([bench.tcp(row)[:3] for row in _native.sample(knot_table(out), 0.01)[:, 1:7]])
    points = np.array(out["points"].tolist())[: int(out["point_count"]), :3]
    return shapes.deviation_mm(points, tcp)


def test_corners_and_turns_are_followed_within_half_a_millimetre(bench: Bench, home: Array) -> None:
    rng = np.random.default_rng(5)
    for _ in range(12):
        u = np.linspace(0, 1, 64)[:, None]
        bend = rng.uniform(-0.08, 0.08, 3) * np.sin(rng.uniform(2, 9) * u)
        points = home + np.concatenate([bend + u * rng.uniform(-0.15, 0.15, 3), np.zeros((64, 3))], 1)
        points[1:] += rng.uniform(-0.002, 0.002, (63, 6))
        out = bench.plan(raw_chunk(points, OPEN), bench.home())
        if out["status"] == PlanStatus.OK:
            assert deviation_mm(bench, out) <= 0.5
        else:
            assert "point" in reason(out) or "limit" in reason(out)


def test_a_chunk_that_turns_away_from_the_motion_is_bridged_or_refused(bench: Bench, home: Array) -> None:
    """From 0.2 m/s sideways, ever more another way: the points say where the arm goes, up to a limit."""
    first = bench.plan(raw_chunk(line(home, moved(home, y=-0.4), 0.2), OPEN), bench.home())
    q, qd, qdd = state_at(knot_table(first), 1.0)
    here = np.concatenate([bench.tcp(q)[:3], rpy_of(bench.tcp(q))])
    seen = set()
    for degrees in (0, 15, 30, 60, 90, 120, 180):
        angle = np.radians(degrees)
        ends = moved(here, x=0.25 * np.sin(angle), y=-0.25 * np.cos(angle))
        out = bench.plan(raw_chunk(line(here, ends, 0.2), OPEN), q, qd, qdd)
        if out["status"] == PlanStatus.OK:
            assert deviation_mm(bench, out) <= 0.5
            said = np.array(out["raw_points"].tolist())[:, :3]
            taken = np.array(out["points"].tolist())[:, :3]
            off_mm = np.linalg.norm(taken[:, None] - said, axis=2).min(1).max()
            assert off_mm <= 2 * BRAKES_MM + 15
            assert bench.envelope.check(knot_table(out), float(out["ramp_s"]), WARD, np.concatenate([q, qd, qdd]))["ok"]
            seen.add("bridged" if int(out["limited"]) & BRIDGE else "followed")
        else:
            assert "limit" in reason(out)
            seen.add("refused")
    assert {"followed", "bridged"} <= seen


def test_the_motion_ends_soon_after_its_pace(bench: Bench, home: Array) -> None:
    """A chunk that cruises to its last point: starting and stopping within a and j cost 0.13 s each, more is lost."""
    out = bench.plan(raw_chunk(line(home, moved(home, y=-0.315), 0.1), OPEN), bench.home())
    assert out["status"] == PlanStatus.OK
    assert 3.15 + 0.26 < float(out["duration_s"]) < 3.15 + 0.26 + 0.30
    t = knot_table(out)[:, 0]
    np.testing.assert_allclose(np.diff(t), t[1], atol=1e-9)
    assert t[1] <= 0.05
    assert t[1] * 1e6 == pytest.approx(round(t[1] * 1e6), abs=1e-4)  # whole microseconds, as the wire counts


def test_slower_under_way_is_the_same_path_and_no_jerk(bench: Bench, home: Array) -> None:
    points = line(home, moved(home, y=-0.45), 0.2)
    first = knot_table(bench.plan(raw_chunk(points, OPEN), bench.home()))
    q, qd, qdd = state_at(first, 1.0)
    here = np.concatenate([bench.tcp(q)[:3], rpy_of(bench.tcp(q))])
    chunk = raw_chunk(line(here, moved(home, y=-0.45), 0.2), OPEN)
    chunk["speed_scale"] = 0.4
    out = bench.plan(chunk, q, qd, qdd)
    assert out["status"] == PlanStatus.OK, reason(out)
    knots = knot_table(out)
    verdict = bench.envelope.check(knots, float(out["ramp_s"]), WARD, np.concatenate([q, qd, qdd]))
    assert verdict["ok"], verdict["reason"]
    tcp = np.array([bench.tcp(row)[:3] for row in _native.sample(knots, 0.01)[:, 1:7]])
    speed = np.linalg.norm(np.diff(tcp, axis=0), axis=1) / 0.01
    assert speed[0] == pytest.approx(0.2, abs=0.01)
    steady = speed[100:300]
    assert np.abs(steady - 0.08).max() < 0.006
    assert np.diff(speed[:100]).max() < 1e-3  # only ever slower, until it is slow
    assert np.abs(tcp[:, 0] - here[0]).max() < 5e-4
