"""Where chunks meet, in the simulated controller: wardarm, interpolation and ensembling on the same chunks."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm.eye import follow
from wardarm.eye.calm import SLOSH_PERIOD_S
from wardarm.eye.follow import Follower, Order, Report, _Asking
from wardarm.eye.motion import Motion
from wardarm.kinematics import Kinematics
from wardarm.ops.slosh import Cup
from wardarm.sim.seams import dense
from wardarm.sim.seams.course import Policy, courses
from wardarm.sim.seams.ours import Ours
from wardarm.sim.seams.record import Record, measure
from wardarm.sim.seams.streams import Streams

CONFIG = configuration.load("desk")


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """One carry three ways, and once more with a pause under way."""
    folder = Path(tmp_path_factory.mktemp("params"))
    course = dataclasses.replace(courses(1, 3, CONFIG, only_carries=True)[0], delay_s=0.2)
    ours = Ours(CONFIG, folder)
    runs = {
        "wardarm": ours.run(course, Policy(course)),
        "paused": ours.run(course, Policy(course), 1.0),
        "linear": Streams(CONFIG, folder, ensemble=False).run(course, Policy(course)),
        "ensemble": Streams(CONFIG, folder, ensemble=True).run(course, Policy(course)),
    }
    assert ours.refused == []
    return {name: measure(history, seams, "carry_liquid", CONFIG, True) for name, (history, seams) in runs.items()}


def test_the_motion_keeps_its_limits_across_seams_and_pauses(carried: dict[str, Record]) -> None:
    for name in ("wardarm", "paused"):
        r = carried[name]
        assert r.seams >= 2, name
        assert max(r.speed_ratio, r.acceleration_ratio, r.jerk_ratio) <= 1.0, (name, r)
        assert r.protective_stops == 0
    assert carried["wardarm"].stop_ratio == 0.0
    assert 0.0 < carried["paused"].stop_ratio <= 1.0


def test_a_full_cup_keeps_its_water(carried: dict[str, Record]) -> None:
    for name in ("wardarm", "paused"):
        slosh_mm = carried[name].slosh_mm
        assert slosh_mm is not None
        assert 0.2 < slosh_mm <= 8.0


def test_slosh_and_jerk_are_below_what_the_usual_ways_make_of_the_same_chunks(carried: dict[str, Record]) -> None:
    ours = carried["wardarm"]
    for name in ("linear", "ensemble"):
        other = carried[name]
        assert other.seams >= 2
        assert ours.slosh_mm < other.slosh_mm  # type: ignore[operator]
        assert ours.jerk_rms_m_s3 < 0.2 * other.jerk_rms_m_s3
        assert ours.jerk_ratio < 0.05 * other.jerk_ratio


def test_seams_at_the_cups_own_period_do_not_add_up(tmp_path: Path) -> None:
    """Every 0.28 s, the worst: what `eye` avoids is harmless all the same."""
    ours = Ours(CONFIG, tmp_path)
    course = dataclasses.replace(courses(1, 3, CONFIG, only_carries=True)[0], period_s=0.28)
    history, seams = dense.run(ours, course, Policy(course))
    assert len(seams) >= 8
    np.testing.assert_allclose(np.diff(seams), 0.28, atol=1e-9)
    r = measure(history, seams, "carry_liquid", CONFIG, True)
    assert max(r.speed_ratio, r.acceleration_ratio, r.jerk_ratio) <= 1.0, r
    assert r.slosh_mm is not None
    assert 0.2 < r.slosh_mm <= 8.0


def test_the_same_question_gets_the_same_answer_whoever_asks() -> None:
    course = courses(2, 5, CONFIG)[1]
    six = Kinematics(CONFIG.arm).forward(course.start_q_rad).six
    first, second = Policy(course).ask(six, course.opening), Policy(course).ask(six, course.opening)
    np.testing.assert_array_equal(first.points, second.points)
    assert first.delay_s == second.delay_s
    np.testing.assert_allclose(first.points[0], six, atol=1e-12)


@pytest.mark.parametrize(("profile", "since_s", "due"), [
    ("carry_liquid", 0.10, False), ("carry_liquid", 0.20, True), ("carry_liquid", 0.27, False), ("carry_liquid", 0.36, True),
    ("ward", 0.27, True),
])  # fmt: skip
def test_while_liquid_is_carried_no_chunk_is_asked_for_at_the_cups_own_period(
    profile: str, since_s: float, due: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: now_s))
    config = configuration.load("desk", {"eye.period_s": 0.15})
    follower = Follower(config, Motion("calm", Kinematics(config.arm)), None, None, Report())  # type: ignore[arg-type]
    follower.order = Order(1, list(config.profiles).index(profile), 1.0, 0.0)
    assert follower._due(_Asking(last_s=now_s - since_s)) is due


def test_the_period_that_is_kept_away_from_is_that_of_every_usual_cup() -> None:
    for radius_mm in (30, 35, 45):
        assert SLOSH_PERIOD_S[0] < 1 / Cup(radius_m=radius_mm * 1e-3).frequency_hz < SLOSH_PERIOD_S[1]
