"""Slower and faster while a step is under way: eye, the real planner and the real check; the arm plays what they give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import eye_bedside
import numpy as np
import pytest
from eye_arm import ScriptedArm
from eye_bedside import Bedside, running
from wardarm import _native
from wardarm.arm.params import write_envelope_params, write_planner_params
from wardarm.config import Config
from wardarm.eye.planned import TrajectoryState
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY, PlanStatus, StepKind, StepState

FAR = np.array([0.45, 0.02, 0.26])  # 0.38 m from home
CYCLE_S = 0.002


class PlannedArm(ScriptedArm):
    """With the real planner and the independent check in the plain ones' place. `speeds`: TCP m/s at each moment."""

    folder: Path

    def __init__(self, config: Config) -> None:
        self.planner = _native.Planner(str(write_planner_params(config, self.folder / "planner.params")))
        self.envelope = _native.Envelope(str(write_envelope_params(config, self.folder / "envelope.params")))
        self.refused: list[str] = []
        self.joined_s: list[tuple[int, float]] = []  # trajectory that played, path time of the join
        super().__init__(config)

    def _plan(self, raw: Any, t: Any) -> None:
        join_id = int(raw["join_trajectory_id"])
        if join_id:
            start = self._known[join_id].at(float(raw["join_path_s"]))
            q, qd, qdd, opening = start.q_rad, start.qd_rad_s, start.qdd_rad_s2, start.opening
        else:
            q, qd, qdd, opening = self.q, np.zeros(6), np.zeros(6), self.target
        chunk = np.frombuffer(raw.tobytes(), RAW_CHUNK)[0]
        out = np.frombuffer(self.planner.plan(chunk.tobytes(), q, qd, qdd, opening=opening), TRAJECTORY)[0]
        for name in ("status", "reason", "knot_count", "duration_s", "ramp_s", "knots", "profile", "max_ratio_plan"):
            t[name] = out[name]
        if int(out["status"]) != PlanStatus.OK:
            return
        table = np.ascontiguousarray(out["knots"][: int(out["knot_count"])]).view(np.float64).reshape(-1, 20)
        verdict = self.envelope.check(
            table, float(out["ramp_s"]), int(out["profile"]), np.concatenate([q, qd, qdd]), True
        )
        if not verdict["ok"]:
            self.refused.append(verdict["reason"])

    def speed_m_s(self) -> float:
        with self._lock:
            return float(np.linalg.norm((self.kinematics.jacobian(self.q) @ self.qd)[:3]))


@pytest.fixture
def bedside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bedside]:
    monkeypatch.setattr(PlannedArm, "folder", tmp_path, raising=False)
    monkeypatch.setattr(eye_bedside, "ScriptedArm", PlannedArm)
    with running() as made:
        yield made


def set_speed(bedside: Bedside, scale: float) -> None:
    step = np.zeros((), [("speed_scale", "<f4")])
    step["speed_scale"] = scale
    bedside.machine.keep_pace(step)


def cruise(bedside: Bedside, above_m_s: float) -> None:
    bedside.run(lambda: bedside.arm.speed_m_s() > above_m_s, 20)  # type: ignore[attr-defined]


def executed(bedside: Bedside) -> np.ndarray:
    """Joints (N, 6) every 2 ms of path, as the trajectories that were loaded followed each other."""
    arm = bedside.arm
    rows: list[np.ndarray] = []
    at_s = 0.0  # of the present trajectory: the moments are whole cycles of the whole way
    taken = [t for t in arm.trajectories if int(t["status"]) == PlanStatus.OK and int(t["id"]) in arm._known]
    for t, after in zip(taken, [*taken[1:], None], strict=True):
        state = TrajectoryState(t, arm.kinematics)
        until_s = state.duration_s
        if after is not None and int(after["join_trajectory_id"]) == state.id:
            until_s = float(after["join_path_s"])
        while at_s < until_s:
            rows.append(state.at(at_s).q_rad)
            at_s += CYCLE_S
        at_s -= until_s
    return np.array(rows)


def test_slower_and_faster_act_within_the_next_chunk_and_the_step_goes_on(bedside: Bedside) -> None:
    bedside.arm.place(FAR)
    bedside.order(StepKind.HOME)
    cruise(bedside, 0.12)
    before = len(bedside.arm.chunks)
    set_speed(bedside, 0.25)
    bedside.run(lambda: len(bedside.arm.chunks) > before, 3)
    assert float(bedside.arm.chunks[before]["speed_scale"]) == pytest.approx(0.25), "the very next chunk"
    assert int(bedside.arm.chunks[before]["join_trajectory_id"]), "under way, not from rest"
    bedside.run(lambda: bedside.arm.speed_m_s() < 0.06, 5)  # type: ignore[attr-defined]
    assert bedside.report.state is StepState.RETURNING or bedside.report.state is StepState.MOVING
    slow = len(bedside.arm.chunks)
    set_speed(bedside, 1.0)
    cruise(bedside, 0.12)
    assert float(bedside.arm.chunks[slow]["speed_scale"]) == pytest.approx(1.0)
    assert bedside.finish().state is StepState.DONE
    assert bedside.report.step_seq == bedside.seq
    assert {int(c["step_seq"]) for c in bedside.arm.chunks} == {bedside.seq}, "one step all the way"
    assert bedside.arm.refused == []  # type: ignore[attr-defined]


def test_the_change_is_smooth_and_within_the_profile_across_the_seam(bedside: Bedside) -> None:
    bedside.arm.place(FAR)
    bedside.order(StepKind.HOME)
    cruise(bedside, 0.12)
    set_speed(bedside, 0.25)
    bedside.run(lambda: bedside.arm.speed_m_s() < 0.06, 5)  # type: ignore[attr-defined]
    bedside.finish()
    q = executed(bedside)
    tcp = np.array([bedside.arm.kinematics.forward(row).xyz_m for row in q])
    limits = bedside.config.limits
    speed, acceleration, jerk = (np.linalg.norm(np.diff(tcp, n, axis=0), axis=1) / CYCLE_S**n for n in (1, 2, 3))
    assert speed.max() <= limits.tcp_m_s
    assert acceleration.max() <= limits.tcp_m_s2
    assert (
        np.percentile(jerk, 99.5) <= 1.02 * limits.tcp_m_s3
    )  # where two trajectories meet the moments are not whole cycles
    fast, slow = int(np.argmax(speed > 0.12)), int(np.flatnonzero(speed > 0.12)[-1])
    falls = speed[slow : slow + round(0.8 / CYCLE_S)]
    assert fast < slow
    assert np.diff(falls).max() < 1e-3, "it falls and does not stutter"
    assert falls.min() > 0.01, "it does not stand in between"


def test_a_hold_keeps_the_speed_that_was_asked_for(bedside: Bedside) -> None:
    bedside.arm.place(FAR)
    bedside.order(StepKind.HOME)
    cruise(bedside, 0.05)
    set_speed(bedside, 0.5)
    bedside.arm.hold()
    bedside.run(lambda: bedside.report.state is StepState.HELD, 5)
    before = len(bedside.arm.chunks)
    bedside.arm.resume()
    assert bedside.finish(60).state is StepState.DONE
    later = bedside.arm.chunks[before:]
    assert later
    assert {round(float(c["speed_scale"]), 3) for c in later} == {0.5}


def test_a_step_that_has_ended_is_not_woken(bedside: Bedside) -> None:
    bedside.arm.place(FAR + np.array([0, 0.3, 0]))
    bedside.order(StepKind.HOME)
    bedside.finish()
    chunks = len(bedside.arm.chunks)
    set_speed(bedside, 0.5)
    for _ in range(20):
        bedside.tick()
    assert len(bedside.arm.chunks) == chunks
    assert bedside.report.state is StepState.DONE


@pytest.mark.parametrize("said", [0.0, float("nan"), -1.0, 7.0])
def test_a_block_without_a_speed_means_the_profiles_own(bedside: Bedside, said: float) -> None:
    bedside.arm.place(FAR + np.array([0, 0.3, 0]))
    bedside.order(StepKind.HOME)
    set_speed(bedside, said)
    assert bedside.follower.order.speed_scale == 1.0
