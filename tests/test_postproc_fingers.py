"""The arm stands within a millimetre wherever the commanded opening changes: in every profile, across seams, or refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from postproc_cases import (
    CARRY_LIQUID,
    FAST,
    PATIENT,
    WARD,
    Array,
    Bench,
    knot_table,
    line,
    raw_chunk,
    reason,
    rpy_of,
)  # fmt: skip
from wardarm import _native
from wardarm.ops import bench_postproc, bench_reaches
from wardarm.shm.layouts import TRAJECTORY, PlanStatus

CYCLE_S, LAG_S = 0.002, 0.05
GATHERED = 1 << 13  # of `limited`
PROFILES = {"ward": WARD, "carry_liquid": CARRY_LIQUID, "patient": PATIENT, "fast": FAST}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


@pytest.fixture(scope="module")
def home(bench: Bench) -> Array:
    pose = bench.tcp(bench.home())
    return np.concatenate([pose[:3], rpy_of(pose)])


def planned(bench: Bench, chunk: np.void, row: Array | None = None, opening: float = -1.0) -> np.void:
    """`row`: where the motion under way is joined, as `sample` gives it; None: from rest at home."""
    q, qd, qdd = (bench.home(), np.zeros(6), np.zeros(6)) if row is None else (row[1:7], row[7:13], row[13:19])
    out = bench.planner.plan(chunk.tobytes(), q.copy(), qd.copy(), qdd.copy(), opening=opening)
    return np.frombuffer(out, TRAJECTORY)[0]  # type: ignore[no-any-return]


def stand_mm(bench: Bench, motion: Array) -> float:
    """Of rows t, q, qd, qdd, grip: largest extent of the TCP from before an opening changes to when fingers followed."""
    changes = np.flatnonzero(np.abs(np.diff(motion[:, 19])) > 1e-3)
    worst, lag = 0.0, round(LAG_S / CYCLE_S)
    for group in np.split(changes, np.flatnonzero(np.diff(changes) > lag) + 1):
        if not group.size:
            continue
        tcp = np.array([bench.tcp(q)[:3] for q in motion[group[0] : group[-1] + 2 + lag, 1:7]])
        worst = max(worst, 1e3 * float(np.linalg.norm(tcp.max(0) - tcp.min(0))))
    return worst


@pytest.mark.parametrize("profile", PROFILES)
def test_reaches_stand_within_a_millimetre_and_join(tmp_path: Path, profile: str) -> None:
    followed = bench_postproc.Bench(tmp_path, profile)
    rng = np.random.default_rng(5)
    for _ in range(16):
        followed.follow(rng, closes=True)
    figures = followed.figures
    assert len(figures.stand_mm) > 50
    assert max(figures.stand_mm) <= 1.0
    assert figures.unchecked == 0
    assert figures.joined >= 0.99 * figures.seams


@pytest.mark.parametrize("profile", PROFILES)
def test_whenever_a_new_chunk_takes_over_a_closing_is_finished_in_place(
    bench: Bench, home: Array, profile: str
) -> None:
    grip = np.clip(1 - (np.arange(64) - 10) / 10, 0, 1)
    first = planned(bench, raw_chunk(np.tile(home, (64, 1)), grip, PROFILES[profile]), opening=1.0)
    assert first["status"] == PlanStatus.OK, reason(first)
    motion = _native.sample(knot_table(first), CYCLE_S)
    closing = np.flatnonzero(np.diff(motion[:, 19]))
    moments = [*range(closing[0] - 20, closing[-1] + 40, 17)]
    assert any(0.001 < motion[i, 19] < 0.15 for i in moments)
    for i in moments:
        row, opening = motion[i], float(motion[i, 19])
        leaves = np.vstack([np.tile(home, (3, 1)), line(home, home + np.array([0, -0.2, 0.05, 0, 0, 0]), 0.2)[:61]])
        grip = np.zeros(64)
        grip[0] = opening
        second = planned(bench, raw_chunk(leaves, grip, PROFILES[profile]), row, opening)
        assert second["status"] == PlanStatus.OK, reason(second)
        after = _native.sample(knot_table(second), CYCLE_S)
        assert after[0, 19] == pytest.approx(opening, abs=1e-6)
        assert after[-1, 19] == pytest.approx(0.0, abs=1e-9)
        assert stand_mm(bench, np.concatenate([motion[: i + 1], after])) <= 1.0, f"joined at opening {opening:.3f}"


@pytest.mark.parametrize("profile", PROFILES)
def test_a_gripper_that_is_only_open_or_closed_gets_the_time_that_fingers_need(
    bench: Bench, home: Array, profile: str
) -> None:
    points = np.vstack([np.tile(home, (5, 1)), line(home, home + np.array([0, -0.2, 0, 0, 0, 0]), 0.15)[:59]])
    out = planned(bench, raw_chunk(points, np.repeat([1.0, 0.0], [3, 61]), PROFILES[profile]), opening=1.0)
    assert out["status"] == PlanStatus.OK, reason(out)
    motion = _native.sample(knot_table(out), CYCLE_S)
    changing = motion[np.flatnonzero(np.diff(motion[:, 19])), 0]
    assert changing[-1] - changing[0] >= 0.4, "half a second from open to closed, at a knot's 50 ms"
    assert stand_mm(bench, motion) <= 1.0
    assert np.linalg.norm(bench.tcp(motion[-1, 1:7].copy())[:3] - home[:3]) > 0.1, "then the arm goes on"


@pytest.mark.parametrize("closed", [0.6, 0.2, 0.0])
def test_chunks_that_follow_each_other_closely_finish_a_closing_and_get_on(
    bench: Bench, home: Array, closed: float
) -> None:
    """Replanned every 0.17 s, each from where the one before has come to: the arm closes, leaves and arrives."""
    q, qd, qdd, opening = bench.home(), np.zeros(6), np.zeros(6), 1.0
    goal = home + np.array([0.003, 0.03, -0.11, 0, 0, 0])
    for _ in range(16):
        at = bench.tcp(q)
        out = bench.plan(
            raw_chunk(line(np.concatenate([at[:3], rpy_of(at)]), goal, 0.147), np.full(64, closed)), q, qd, qdd, opening
        )
        assert out["status"] == PlanStatus.OK, reason(out)
        row = _native.sample(knot_table(out), 0.001)[170]
        q, qd, qdd, opening = row[1:7].copy(), row[7:13].copy(), row[13:19].copy(), float(row[19])
    assert opening == pytest.approx(closed, abs=0.01)
    assert np.linalg.norm(bench.tcp(q)[:3] - goal[:3]) < 0.005


def test_what_the_arm_told_its_fingers_last_is_where_they_start(bench: Bench, home: Array) -> None:
    """Told 0.6, a chunk that says open from its first point on opens them in place before it leaves."""
    out = planned(bench, raw_chunk(line(home, home + np.array([0, -0.2, 0, 0, 0, 0]), 0.15), np.ones(64)), opening=0.6)
    assert out["status"] == PlanStatus.OK, reason(out)
    motion = _native.sample(knot_table(out), CYCLE_S)
    assert motion[0, 19] == pytest.approx(0.6)
    assert motion[-1, 19] == 1.0
    assert stand_mm(bench, motion) <= 1.0


def test_openings_that_tremble_while_the_arm_moves_move_no_finger(bench: Bench, home: Array) -> None:
    rng = np.random.default_rng(3)
    moves = line(home, home + np.array([0, -0.3, 0, 0, 0, 0]), 0.1)
    out = planned(bench, raw_chunk(moves, rng.uniform(0.9, 1.0, 64)), opening=1.0)
    assert out["status"] == PlanStatus.OK, reason(out)
    assert np.ptp(knot_table(out)[:, 19]) == 0.0


def creeping(home: Array, way_m: float, points: int = 10) -> np.void:
    """A reach whose fingers close over `points` points while it creeps `way_m` on, with a model's noise; then away."""
    rng = np.random.default_rng(round(way_m * 1e4))
    there = home + np.array([0.02, -0.08, -0.03, 0, 0, 0])
    reach = line(home, there, 0.12)
    reach = reach[: int(np.argmax(np.linalg.norm(reach[:, :3] - there[:3], axis=1) < 1e-9)) + 2]
    creep = there + np.linspace(0, 1, points + 1)[1:, None] * np.array([way_m, 0, 0, 0, 0, 0])
    away = line(creep[-1], creep[-1] + np.array([0, 0, 0.15, 0, 0, 0]), 0.12)
    rows = np.concatenate([reach, creep, away])[:64]
    rows[1:] += rng.uniform(-1, 1, (63, 6)) * np.array([3e-4] * 3 + [3e-3] * 3)
    grip = np.ones(64)
    grip[len(reach) : len(reach) + points] = 1 - np.arange(1, points + 1) / points
    grip[len(reach) + points :] = 0.0
    return raw_chunk(rows, grip)


@pytest.mark.parametrize("way_mm", [13, 15, 17, 19])
def test_a_closing_that_creeps_is_gathered_and_says_so(bench: Bench, home: Array, way_mm: int) -> None:
    chunk = creeping(home, way_mm * 1e-3)
    out = planned(bench, chunk, opening=1.0)
    assert out["status"] == PlanStatus.OK, reason(out)
    assert int(out["limited"]) & GATHERED
    motion = _native.sample(knot_table(out), CYCLE_S)
    assert stand_mm(bench, motion) <= 1.0
    assert motion[-1, 19] == 0.0
    assert bench.envelope.check(knot_table(out), float(out["ramp_s"]), WARD)["ok"]
    raw = np.stack([out["raw_points"][n] for n in ("x_mm", "y_mm", "z_mm")], 1)
    tcp = np.array([bench.tcp(q)[:3] * 1e3 for q in motion[::10, 1:7]])
    off = [float(np.linalg.norm(tcp - p, axis=1).min()) for p in raw[: int(out["point_count"])]]
    assert max(off) < 12.0, "half of the creep, and what the smoothing rounds"
    in_place = planned(bench, creeping(home, 0.006), opening=1.0)
    assert in_place["status"] == PlanStatus.OK, reason(in_place)
    assert not int(in_place["limited"]) & GATHERED


@pytest.mark.parametrize(("way_mm", "points"), [(23, 10), (40, 10), (16, 4)])
def test_a_closing_while_the_arm_is_on_its_way_stays_refused(
    bench: Bench, home: Array, way_mm: int, points: int
) -> None:
    out = planned(bench, creeping(home, way_mm * 1e-3, points), opening=1.0)
    assert out["status"] == PlanStatus.NO_LAW
    assert "the fingers close while the arm moves on by" in reason(out)


def test_the_check_refuses_fingers_that_close_under_way(bench: Bench, home: Array) -> None:
    moves = planned(bench, raw_chunk(line(home, home + np.array([0, -0.3, 0, 0, 0, 0]), 0.1), np.ones(64)))
    knots = knot_table(moves)
    ramp_s = float(moves["ramp_s"])
    assert bench.envelope.check(knots, ramp_s, WARD)["ok"]
    knots[len(knots) // 2 :, 19] = 0.5
    verdict = bench.envelope.check(knots, ramp_s, WARD)
    assert not verdict["ok"]
    assert "mm while the fingers do" in verdict["reason"]
    assert "limit 1 mm" in verdict["reason"]
    knots[:, 19] = np.where(np.arange(len(knots)) < len(knots) // 2, 0.5, 1.0)
    assert bench.envelope.check(knots, ramp_s, WARD)["ok"], "empty fingers may open under way"
    assert not bench.envelope.check(knots, ramp_s, WARD, loaded=True)["ok"]


def test_the_bench_measures_each_stand_by_itself() -> None:
    tcp = np.linspace([0, 0, 0], [1, 0, 0], 1001)  # 1 mm a sample
    opening = np.ones(1001)
    opening[100:], opening[600:] = 0.5, 0.0
    assert bench_reaches.stand_mm(tcp, opening, CYCLE_S) == pytest.approx(26.0)  # the change's two and 50 ms
