"""What may not happen with something in the hand: fingers that move under way, a cup that leans, a link near the patient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from postproc_cases import (
    CARRY_LIQUID,
    PATIENT,
    WARD,
    Array,
    Bench,
    knot_table,
    line,
    pose_of,
    raw_chunk,
    reason,
    rpy_of,
)
from scipy.spatial.transform import Rotation
from wardarm import _native
from wardarm.arm.params import write_envelope_params, write_planner_params
from wardarm.config import Config
from wardarm.shm.layouts import ARM_STATUS, TRAJECTORY, PlanStatus

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


def closing(first: int, points: int = 10) -> Array:
    return np.clip(1 - (np.arange(64) - first) / points, 0, 1)


@pytest.mark.parametrize("profile", [WARD, PATIENT])
def test_fingers_that_close_while_the_arm_moves_on_are_refused(bench: Bench, home: Array, profile: int) -> None:
    out = bench.plan(raw_chunk(line(home, moved(home, y=-0.3), 0.1), closing(20), profile), bench.home())
    assert out["status"] == PlanStatus.NO_LAW
    assert "point 21: the fingers close while the arm moves on by" in reason(out)
    assert "limit 12 mm" in reason(out)
    assert out["knot_count"] == 0


def test_fingers_may_open_under_way_unless_they_carry_something(bench: Bench, home: Array) -> None:
    chunk = raw_chunk(line(home, moved(home, y=-0.3), 0.1), 1 - closing(20))
    assert bench.plan(chunk, bench.home())["status"] == PlanStatus.OK
    chunk["payload_kg"] = 0.2
    out = bench.plan(chunk, bench.home())
    assert out["status"] == PlanStatus.NO_LAW
    assert "point 21: the fingers let go of the load while the arm moves on" in reason(out)


def test_an_opening_that_trembles_is_no_closing(bench: Bench, home: Array) -> None:
    grip = OPEN - 0.04 * (np.arange(64) % 3 == 0)
    out = bench.plan(raw_chunk(line(home, moved(home, y=-0.3), 0.1), grip), bench.home())
    assert out["status"] == PlanStatus.OK


def test_only_a_profile_for_liquids_keeps_the_tool_upright(bench: Bench, home: Array) -> None:
    tilted = line(home, home + np.array([0, -0.2, 0, np.radians(14), 0, 0]), 0.1)
    assert bench.plan(raw_chunk(tilted, OPEN, WARD), bench.home())["status"] == PlanStatus.OK
    out = bench.plan(raw_chunk(tilted, OPEN, CARRY_LIQUID), bench.home())
    assert out["status"] == PlanStatus.OUT_OF_RANGE
    assert "tilted by 10." in reason(out)
    assert "limit 10.0 deg with liquid" in reason(out)
    assert reason(out).startswith("point ")


def test_the_check_refuses_a_tilt_that_the_planner_did_not_see(bench: Bench, home: Array) -> None:
    tilted = line(home, home + np.array([0, -0.2, 0, np.radians(14), 0, 0]), 0.05)
    out = bench.plan(raw_chunk(tilted, OPEN, PATIENT), bench.home())
    assert out["status"] == PlanStatus.OK
    verdict = bench.envelope.check(knot_table(out), float(out["ramp_s"]), PATIENT)
    assert verdict["ok"], verdict["reason"]
    verdict = bench.envelope.check(knot_table(out), 0.5, CARRY_LIQUID)
    assert not verdict["ok"]
    assert "tilted by 10." in verdict["reason"]


def test_a_cup_that_leans_at_the_start_may_be_set_upright(bench: Bench, home: Array) -> None:
    leaning = home + np.array([0, 0, 0, np.radians(13), 0, 0])
    q = bench.planner.ik(pose_of(leaning[:3], leaning[3:]), bench.home())
    assert q is not None
    out = bench.plan(raw_chunk(line(leaning, moved(home, y=-0.1), 0.05), OPEN, CARRY_LIQUID), q)
    assert out["status"] == PlanStatus.OK, reason(out)
    verdict = bench.envelope.check(knot_table(out), float(out["ramp_s"]), CARRY_LIQUID)
    assert verdict["ok"], verdict["reason"]


def test_many_plans_in_a_row_do_not_lean_a_full_cup_further_and_further(bench: Bench, home: Array) -> None:
    """Each goes on where the one before ended and asks for one more degree; both judges let it come 1.8 degrees too far at most."""
    limit, at, q, refused = 10.0, home + np.array([0, 0, 0, np.radians(9.9), 0, 0]), bench.home(), 0
    q = bench.planner.ik(pose_of(at[:3], at[3:]), q)
    worst = 0.0
    for i in range(150):
        side = -1 if at[1] > 0 else 1
        goal = at + np.array([0, 0.03 * side, 0, np.radians(0.45 if i % 3 else 0.1), 0, 0])
        out = bench.plan(raw_chunk(line(at, goal, 0.05), OPEN, CARRY_LIQUID), q)
        if out["status"] != PlanStatus.OK:
            assert "deg with liquid" in reason(out)
            refused += 1
            at = at + np.array([0, 0, 0, np.radians(-0.02), 0, 0])  # a little less, and once more
            q = bench.planner.ik(pose_of(at[:3], at[3:]), q)
            continue
        knots = knot_table(out)
        assert bench.envelope.check(knots, float(out["ramp_s"]), CARRY_LIQUID)["ok"]
        q = knots[-1, 1:7]
        at = np.concatenate([bench.tcp(q)[:3], rpy_of(bench.tcp(q))])
        worst = max(worst, np.degrees(np.arccos(-Rotation.from_rotvec(bench.tcp(q)[3:]).as_matrix()[2, 2])))
    assert refused > 20
    assert limit < worst < limit + 1.8


@pytest.mark.parametrize("payload_kg", [np.nan, -0.1, np.inf, 5.1])
def test_a_payload_that_no_arm_carries_is_refused(bench: Bench, home: Array, payload_kg: float) -> None:
    chunk = raw_chunk(line(home, moved(home, y=-0.1), 0.05), OPEN)
    chunk["payload_kg"] = payload_kg
    out = bench.plan(chunk, bench.home())
    assert out["status"] == PlanStatus.OUT_OF_RANGE
    assert reason(out).startswith("payload ")
    assert out["knot_count"] == 0


def test_liquid_feels_no_more_than_its_profile_says(
    home: Array, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Half of the profile's acceleration as the horizontal limit: the motion takes longer, and the check says the same."""
    row = Config().profiles["carry_liquid"]
    calm = Config(profiles={**Config().profiles, "carry_liquid": row.model_copy(update={"lateral_m_s2": 0.4})})
    bench = Bench.make(tmp_path, calm)
    chunk = raw_chunk(line(home, moved(home, y=-0.3), 0.24), OPEN, CARRY_LIQUID)
    ordinary = Bench.make(tmp_path_factory.mktemp("ordinary")).plan(chunk, bench.home())
    out = bench.plan(chunk, bench.home())
    assert ordinary["status"] == out["status"] == PlanStatus.OK
    assert out["duration_s"] > ordinary["duration_s"] + 0.1
    assert bench.envelope.check(knot_table(out), float(out["ramp_s"]), CARRY_LIQUID)["ok"]
    verdict = bench.envelope.check(knot_table(ordinary), float(ordinary["ramp_s"]), CARRY_LIQUID)
    assert not verdict["ok"]
    assert "TCP horizontal acceleration" in verdict["reason"]


def test_no_link_enters_the_patients_place(
    home: Array, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The place moved to where the arm goes: planner and check each refuse, by their own kinematics."""
    here = Config()
    low, high = home[:3] + np.array([-0.2, -0.30, -0.3]), home[:3] + np.array([0.2, -0.22, 0.3])
    space = here.workspace.model_copy(update={"patient_low": tuple(low), "patient_high": tuple(high)})
    guarded = Bench.make(tmp_path, here.model_copy(update={"workspace": space}))
    free = Bench.make(tmp_path_factory.mktemp("free"), here)
    chunk = raw_chunk(line(home, moved(home, y=-0.3), 0.2), OPEN)
    out = guarded.plan(chunk, guarded.home())
    assert out["status"] == PlanStatus.COLLISION
    assert "enters the patient's place" in reason(out)
    assert reason(out).startswith("point ")
    passes = free.plan(chunk, free.home())
    assert passes["status"] == PlanStatus.OK
    verdict = guarded.envelope.check(knot_table(passes), float(passes["ramp_s"]), WARD)
    assert not verdict["ok"]
    assert "enters the patient's place at" in verdict["reason"]
    short = guarded.plan(raw_chunk(line(home, moved(home, y=-0.1), 0.2), OPEN), guarded.home())
    assert short["status"] == PlanStatus.OK, reason(short)


def test_a_place_with_one_corner_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give both corners"):
        Config(workspace={"patient_low": None})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="patient_low y"):
        Config(workspace={"patient_low": (-1, 2, -1)})  # type: ignore[arg-type]
    none = Config(workspace={"patient_low": None, "patient_high": None})  # type: ignore[arg-type]
    for write in (write_planner_params, write_envelope_params):
        assert "patient_low" not in write(none, tmp_path / "p").read_text()


def test_a_number_that_overflows_is_refused_by_the_check(bench: Bench, home: Array) -> None:
    """Finite knots whose interpolation is not: no comparison with a NaN may pass."""
    out = bench.plan(raw_chunk(line(home, moved(home, y=-0.1)), OPEN), bench.home())
    for column in range(1, 19):
        for value in (1e308, -1e308):
            knots = knot_table(out).copy()
            knots[5:7, column] = value
            assert not bench.envelope.check(knots, float(out["ramp_s"]), WARD)["ok"], column


@pytest.mark.parametrize(("age_s", "fresh"), [(0.1, True), (0.6, False), (-0.1, True), (-0.6, False), (-1e9, False)])
def test_an_arm_status_of_another_time_is_no_place_to_start_from(
    bench: Bench, home: Array, age_s: float, fresh: bool
) -> None:
    status = np.zeros((), ARM_STATUS)
    status["target_q_rad"], status["at_rest"] = bench.home(), 1
    now_ns = int(2e18)
    status["stamp_ns"] = now_ns - int(age_s * 1e9)
    raw = raw_chunk(line(home, moved(home, y=-0.1)), OPEN).tobytes()
    answer = _native.Answerer(str(bench.planner_file)).answer(raw, status.tobytes(), now_ns)
    out = np.frombuffer(answer, TRAJECTORY)[0]
    assert PlanStatus(int(out["status"])) is (PlanStatus.OK if fresh else PlanStatus.START_MISMATCH)
    assert fresh or "s old, limit 0.50 s" in reason(out)
