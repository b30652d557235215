"""What no chunk and no parameter file may do: each is planned within every limit, or refused with point, value and limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from postproc_cases import FAST, PATIENT, WARD, Array, Bench, knot_table, line, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.shm.layouts import PlanStatus

OPEN = np.ones(64)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


@pytest.fixture(scope="module")
def home(bench: Bench) -> Array:
    pose = bench.tcp(bench.home())
    return np.concatenate([pose[:3], rpy_of(pose)])


def moved(home: Array, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Array:
    return home + np.array([x, y, z, 0, 0, 0])


def planned(bench: Bench, points: Array, grip: Array = OPEN, profile: int = WARD) -> np.void:
    """The answer; if it is a motion, the independent check agrees with it and it ends at rest."""
    out = bench.plan(raw_chunk(points, grip, profile), bench.home())
    if out["status"] == PlanStatus.OK:
        verdict = bench.envelope.check(knot_table(out), float(out["ramp_s"]), profile)
        assert verdict["ok"], verdict["reason"]
    else:
        assert out["knot_count"] == 0
        assert out["duration_s"] == 0
    return out


def test_a_constant_chunk_is_a_short_stand(bench: Bench, home: Array) -> None:
    out = planned(bench, np.tile(home, (64, 1)))
    assert out["status"] == PlanStatus.OK
    assert out["duration_s"] <= 0.6
    assert np.abs(knot_table(out)[:, 1:7] - bench.home()).max() < 1e-3


def test_a_chunk_that_turns_back_is_followed_there_and_back(bench: Bench, home: Array) -> None:
    u = np.linspace(0, 1, 64)[:, None]
    out = planned(bench, home + np.sin(np.pi * u) * np.array([0, 0.12, 0, 0, 0, 0]))
    assert out["status"] == PlanStatus.OK
    tcp = np.array([bench.tcp(q) for q in knot_table(out)[:, 1:7]])
    assert tcp[:, 1].max() - home[1] == pytest.approx(0.12, abs=0.005)
    assert np.linalg.norm(tcp[-1, :3] - home[:3]) < 0.003


def test_standing_at_the_end_costs_a_tenth_of_a_second(bench: Bench, home: Array) -> None:
    short = line(home, moved(home, y=-0.1), 0.15)
    arrival_s = 0.1 / 0.15
    out = planned(bench, short)
    assert out["status"] == PlanStatus.OK
    assert arrival_s < out["duration_s"] < arrival_s + 0.9  # starting, braking and 0.1 s: not the 2.5 s of standing


def test_fingers_that_move_at_the_end_are_waited_for(bench: Bench, home: Array) -> None:
    grip = OPEN.copy()
    grip[40:51] = np.linspace(1, 0, 11)
    grip[51:] = 0
    out = planned(bench, line(home, moved(home, y=-0.1), 0.15), grip)
    assert out["status"] == PlanStatus.OK
    assert 2.6 < out["duration_s"] < 3.45  # the fingers are done after 2.6 s of the chunk
    assert knot_table(out)[-1, 19] == 0


@pytest.mark.parametrize("profile", [WARD, PATIENT, FAST])
def test_the_arm_stands_within_a_millimetre_while_the_fingers_close(bench: Bench, home: Array, profile: int) -> None:
    rng = np.random.default_rng(profile)
    for first in (12, 20, 30):
        go = line(home, moved(home, y=-0.1, z=-0.05), 0.1)[:first]
        points = np.concatenate([go, np.tile(go[-1], (11, 1)), line(go[-1], home, 0.1)[: 53 - first]])
        points[1:, :3] += rng.uniform(-0.002, 0.002, (63, 3))
        grip = OPEN.copy()
        grip[first : first + 11], grip[first + 11 :] = np.linspace(1, 0, 11), 0
        out = planned(bench, points, grip, profile)
        assert out["status"] == PlanStatus.OK, reason(out)
        motion = _native.sample(knot_table(out), 0.004)
        change = np.flatnonzero(np.abs(np.diff(motion[:, 19])) > 1e-3)
        tcp = np.array([bench.tcp(q)[:3] for q in motion[change[0] : change[-1] + 2, 1:7]])
        assert np.linalg.norm(tcp.max(0) - tcp.min(0)) <= 0.001


def test_a_step_of_40_mm_is_smoothed_and_of_60_mm_refused(bench: Bench, home: Array) -> None:
    for step, ok in ((0.04, True), (0.06, False)):
        points = np.tile(home, (64, 1))
        points[30:] = moved(home, y=-step)
        out = planned(bench, points)
        if ok:
            assert out["status"] == PlanStatus.OK, reason(out)
        else:
            assert out["status"] == PlanStatus.JUMP
            assert re.search(r"point 30.* 60\.0 mm.*50 mm", reason(out)), reason(out)


def test_garbage_is_refused_or_kept_within_the_limits(bench: Bench, home: Array) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        chunk = raw_chunk(np.tile(home, (64, 1)), OPEN)
        chunk["traj"] = rng.integers(0, 65536, chunk["traj"].shape, np.uint16)
        out = bench.plan(chunk, bench.home())
        assert out["status"] != PlanStatus.OK
        assert re.match(r"point \d+", reason(out)), reason(out)
        assert out["knot_count"] == 0


def test_out_of_reach_and_outside_the_workspace_name_the_point(bench: Bench, home: Array) -> None:
    out = planned(bench, line(home, np.array([0.85, 0.55, 0.6, *home[3:]]), 0.3))
    assert out["status"] in (PlanStatus.UNREACHABLE, PlanStatus.SINGULAR), reason(out)
    assert re.match(r"point \d+", reason(out))
    out = planned(bench, line(home, moved(home, z=-0.01 - home[2]), 0.3))
    assert out["status"] == PlanStatus.OUTSIDE_BOX
    assert re.match(r"point \d+: z = .* 5.0..750.0 mm", reason(out)), reason(out)


def test_another_start_is_refused(bench: Bench, home: Array) -> None:
    out = planned(bench, line(moved(home, x=0.035), moved(home, x=0.1)))
    assert out["status"] == PlanStatus.START_MISMATCH
    assert "35 mm" in reason(out)
    assert "30 mm" in reason(out)


def test_a_speed_scale_slows_and_a_wrong_one_is_refused(bench: Bench, home: Array) -> None:
    lasts = []
    for scale in (0.0, 1.0, 0.5):
        chunk = raw_chunk(line(home, moved(home, y=-0.15), 0.12), OPEN)
        chunk["speed_scale"] = scale
        out = bench.plan(chunk, bench.home())
        assert out["status"] == PlanStatus.OK
        lasts.append(float(out["duration_s"]))
    assert lasts[0] == lasts[1]
    assert lasts[2] - lasts[1] == pytest.approx(0.15 / 0.06 - 0.15 / 0.12, abs=0.3)
    for scale in (-0.5, 1.5, np.nan, 0.01):
        chunk["speed_scale"] = scale
        out = bench.plan(chunk, bench.home())
        assert out["status"] == PlanStatus.OUT_OF_RANGE
        assert "speed scale" in reason(out)
        assert "0.05..1" in reason(out)


@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("value", ["0", "-1", "1e9", "nan"])
def test_limits_of_zero_below_zero_or_absurd_are_refused(bench: Bench, tmp_path: Path, number: int, value: str) -> None:
    for source, load in ((bench.planner_file, _native.Planner), (bench.envelope_file, _native.Envelope)):
        lines = []
        for row in source.read_text().splitlines():
            if row.startswith("profile.ward"):
                words = row.split()
                words[2 + number] = value
                row = " ".join(words)
            lines.append(row)
        path = tmp_path / "bad.params"
        path.write_text("\n".join(lines) + "\n")
        absurd = value == "1e9" and load is _native.Envelope and number not in (0, 3, 9, 10, 11)
        if absurd:
            continue  # the check compares with whatever the robot cannot do; the planner's file names it
        with pytest.raises(RuntimeError, match=r"profile\.ward|:\d+: expected"):
            load(str(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: [*rows, next(r for r in rows if r.startswith("profile.ward"))], r"profile\.ward .* twice"),
        (
            lambda rows: ["box_low = 0.9 -0.6 0.005" if r.startswith("box_low") else r for r in rows],
            "box_low is not below",
        ),
        (lambda rows: ["box_low = 0.1 -0.6 nan" if r.startswith("box_low") else r for r in rows], "box_low|expected"),
    ],
)
def test_parameter_files_with_a_key_twice_or_a_box_inside_out_are_refused_by_both(
    bench: Bench, tmp_path: Path, change: Callable[[list[str]], list[str]], words: str
) -> None:
    for source, load in ((bench.planner_file, _native.Planner), (bench.envelope_file, _native.Envelope)):
        path = tmp_path / "bad.params"
        path.write_text("\n".join(change(source.read_text().splitlines())) + "\n")
        with pytest.raises(RuntimeError, match=words):
            load(str(path))
