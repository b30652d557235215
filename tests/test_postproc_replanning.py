"""A whole fetch, replanned every 0.4 s while moving: joins, limits, seams and the stand while the fingers close."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from postproc_cases import CARRY_LIQUID, PATIENT, WARD, Array, Bench, Fetch, knot_table, reason, rpy_of
from wardarm import _native
from wardarm.shm.layouts import PlanStatus

PERIOD_S = 0.4
TARGETS = [(0.50, -0.30, 0.062, 0.0), (0.42, 0.05, 0.030, 0.0), (0.55, -0.10, 0.172, 0.0), (0.38, -0.35, 0.012, 0.9)]


@dataclass
class Run:
    planned: int = 0
    refusals: list[str] = field(default_factory=list)
    ratios: list[tuple[float, float]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    seams: list[float] = field(default_factory=list)
    dwell_mm: list[float] = field(default_factory=list)
    deviation_mm: list[float] = field(default_factory=list)
    final_mm: list[float] = field(default_factory=list)
    motion: list[Array] = field(default_factory=list)


def fetch(bench: Bench, profile: int, seed: int, target: tuple[float, ...], run: Run) -> None:
    rng = np.random.default_rng(seed)
    expert = Fetch(np.array(target[:3]), target[3])
    q, qd, qdd, opening = bench.home(), np.zeros(6), np.zeros(6), 1.0
    current: Array | None = None
    path_s = 0.0
    for step in range(70):
        pose = bench.tcp(q)
        state = np.concatenate([pose[:3], rpy_of(pose), [opening, float(opening <= 0.06)]])
        if state[7] > 0.5 and np.linalg.norm(state[:3] - expert.hand_over) < 0.012:
            break
        out = bench.plan(expert.chunk(state, rng, profile, step + 1), q, qd, qdd, opening)
        run.planned += 1
        if out["status"] == PlanStatus.OK:
            knots = knot_table(out)
            verdict = bench.envelope.check(knots, float(out["ramp_s"]), profile, np.concatenate([q, qd, qdd]))
            run.verdicts += [] if verdict["ok"] else [verdict["reason"]]
            run.ratios.append((verdict["max_ratio_plan"], verdict["max_ratio_stop"]))
            run.seams.append(float(np.abs(knots[0, 1:19] - np.concatenate([q, qd, qdd])).max()))
            measure(bench, out, knots, run)
            current, path_s = knots, 0.0
        else:
            run.refusals.append(f"seed {seed} step {step}: {reason(out)}")
            assert current is not None, "the first plan starts from rest"
        path_s += PERIOD_S
        motion = _native.sample(current, 0.002)
        until = min(round(path_s / 0.002), len(motion) - 1)
        run.motion.append(motion[max(0, until - round(PERIOD_S / 0.002)) : until])
        q, qd, qdd, opening = (motion[until, 1:7].copy(), motion[until, 7:13].copy(), motion[until, 13:19].copy(),
                               float(motion[until, 19]))  # fmt: skip
    run.final_mm.append(1e3 * float(np.linalg.norm(bench.tcp(q)[:3] - expert.hand_over)))


def measure(bench: Bench, out: np.void, knots: Array, run: Run) -> None:
    motion = _native.sample(knots, 0.02)
    tcp = np.array([bench.tcp(row)[:3] for row in motion[:, 1:7]])
    points = np.array(out["points"].tolist())[: int(out["point_count"]), :3] / 1e3
    a, d = points[:-1], np.diff(points, axis=0)
    along = np.clip(((tcp[:, None] - a) * d).sum(2) / ((d * d).sum(1) + 1e-12), 0, 1)
    run.deviation_mm.append(1e3 * float(np.linalg.norm(tcp[:, None] - a - along[..., None] * d, axis=2).min(1).max()))
    moving = np.flatnonzero(np.abs(np.diff(motion[:, 19])) > 1e-6)
    closes = moving.size > 0 and motion[moving[-1] + 1, 19] == 0.0 and motion[moving[0], 19] > 0.05
    if closes:
        stand = tcp[moving[0] : moving[-1] + 2]
        run.dwell_mm.append(1e3 * float(np.linalg.norm(stand - stand.mean(0), axis=1).max()))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


@pytest.fixture(scope="module", params=[WARD, CARRY_LIQUID, PATIENT], ids=["ward", "carry_liquid", "patient"])
def run(request: pytest.FixtureRequest, bench: Bench) -> Run:
    result = Run()
    for seed, target in enumerate(TARGETS):
        fetch(bench, request.param, seed, target, result)
    return result


def test_nearly_every_chunk_joins(run: Run) -> None:
    assert run.planned > 40
    assert len(run.refusals) <= max(1, 0.02 * run.planned), run.refusals


def test_the_independent_check_agrees_with_every_plan(run: Run) -> None:
    assert run.verdicts == []
    assert max(plan for plan, _ in run.ratios) <= 1.0
    assert max(stop for _, stop in run.ratios) <= 1.0


def test_seams_have_the_same_position_speed_and_acceleration(run: Run) -> None:
    assert max(run.seams) == 0.0


def test_the_500_hz_motion_across_seams_has_no_step(run: Run) -> None:
    q = np.concatenate([m[:, 1:7] for m in run.motion[:20]])
    speed = np.diff(q, axis=0) / 0.002
    assert np.abs(np.diff(speed, axis=0)).max() <= np.radians(180) * 0.002 * 1.01


def test_the_arm_stands_still_while_the_fingers_close(run: Run) -> None:
    assert len(run.dwell_mm) >= 8
    assert max(run.dwell_mm) <= 1.0


def test_the_path_is_followed(run: Run) -> None:
    assert np.median(run.deviation_mm) <= 1.0
    assert np.percentile(run.deviation_mm, 95) <= 3.0


def test_the_fetch_arrives(run: Run) -> None:
    assert max(run.final_mm) <= 15
