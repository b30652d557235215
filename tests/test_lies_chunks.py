"""Chunks and arm statuses that lie to the postprocessor: an answer each, in words, and no plan that breaks a limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postproc_cases import WARD, Bench, knot_table, line, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.shm.layouts import ARM_STATUS, RAW_CHUNK, TRAJECTORY, PlanStatus

from test_lies_words import lies, noise  # isort: skip

NOW_NS = 5_000_000_000


class Answers:
    """`wardarm-postproc`'s answer to a chunk, with a good arm status unless another is given."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench.make(folder)
        self.home = self.bench.home()
        pose = self.bench.tcp(self.home)
        start = np.concatenate([pose[:3], rpy_of(pose)])
        self.chunk: Any = raw_chunk(line(start, start + np.array([0, -0.1, 0, 0, 0, 0]), 0.15), np.ones(64), WARD, 1)
        self.status: Any = np.zeros((), ARM_STATUS)
        self.status["stamp_ns"], self.status["at_rest"], self.status["target_q_rad"] = NOW_NS, 1, self.home

    def ask(self, chunk: Any, status: Any) -> Any:
        answerer = _native.Answerer(str(self.bench.planner_file))  # new: it numbers and remembers
        out = answerer.answer(chunk.tobytes(), None if status is None else status.tobytes(), NOW_NS + 8_000_000)
        return np.frombuffer(out, TRAJECTORY)[0]

    def harmless(self, what: str, out: Any) -> bool:
        """Refused in words, or a plan that the independent check agrees with. Returns whether it is a plan."""
        if out["status"] != PlanStatus.OK:
            assert reason(out), what
            assert out["knot_count"] == 0, what
            return False
        profile = int(out["profile"])
        verdict = self.bench.envelope.check(knot_table(out), float(out["ramp_s"]), profile)
        assert verdict["ok"], (what, verdict["reason"])
        return True


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    return Answers(tmp_path_factory.mktemp("lies"))


def test_the_honest_ones_are_planned(answers: Answers) -> None:
    assert answers.harmless("honest", answers.ask(answers.chunk, answers.status))


def test_a_chunk_with_any_field_impossible_is_refused_or_harmless(answers: Answers) -> None:
    planned = {what for what, bad in lies(answers.chunk) if answers.harmless(what, answers.ask(bad, answers.status))}
    steering = ("traj ", "join_trajectory_id ", "plan_epoch ", "profile ")
    assert not {w for w in planned if w.startswith(steering) and not w.endswith(" = 0")}


def test_a_status_with_any_field_impossible_is_refused_or_harmless(answers: Answers) -> None:
    planned = {what for what, bad in lies(answers.status) if answers.harmless(what, answers.ask(answers.chunk, bad))}
    steering = ("target_q_rad ", "plan_epoch ")
    assert not {w for w in planned if w.startswith(steering) and not w.endswith(" = 0")}


def test_a_status_of_another_time_starts_nothing(answers: Answers) -> None:
    """An old status does not say where the arm is now. (arm itself checks the start once more before it sends.)"""
    for stamp_ns in (0, 1, NOW_NS - 10**9, NOW_NS - 600_000_000):
        status = answers.status.copy()
        status["stamp_ns"] = stamp_ns
        out = answers.ask(answers.chunk, status)
        assert out["status"] == PlanStatus.START_MISMATCH, stamp_ns
        assert reason(out)
    assert answers.ask(answers.chunk, None)["status"] != PlanStatus.OK


def test_noise_is_never_planned_beyond_a_limit(answers: Answers) -> None:
    for n, chunk in enumerate(noise(RAW_CHUNK, 200)):
        answers.harmless(f"chunk {n}", answers.ask(chunk, answers.status))
    for n, status in enumerate(noise(ARM_STATUS, 200)):
        answers.harmless(f"status {n}", answers.ask(answers.chunk, status))
