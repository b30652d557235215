"""The independent check: agrees with Pinocchio, finds what is wrong with knots, and stops like the player does."""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

import numpy as np
import pytest
from postproc_cases import WARD, Array, Bench, knot_table, line, raw_chunk, reason, rpy_of
from test_postproc_kinematics import pinocchio_model
from wardarm import _native
from wardarm.config import Config
from wardarm.shm.layouts import PlanStatus


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


@pytest.fixture(scope="module")
def plan(bench: Bench) -> tuple[Array, float]:
    pose = bench.tcp(bench.home())
    start = np.concatenate([pose[:3], rpy_of(pose)])
    points = line(start, start + np.array([0.2, -0.3, -0.2, 0.1, -0.1, 0.8]), 0.3)
    out = bench.plan(raw_chunk(points, np.ones(64)), bench.home())
    assert out["status"] == PlanStatus.OK, reason(out)
    return knot_table(out), float(out["ramp_s"])


def limits(bench: Bench) -> dict[str, Array]:
    p = bench.config.profiles["ward"]
    return {
        "joint": np.radians([p.joint_deg_s, p.joint_deg_s2, p.joint_deg_s3]),
        "tcp": np.array([p.tcp_m_s, p.tcp_m_s2, p.tcp_m_s3]),
        "angular": np.radians([p.tcp_deg_s, p.tcp_deg_s2, p.tcp_deg_s3]),
    }


def tcp_ratio(bench: Bench, q: Array, dt_s: float, orders: tuple[int, ...]) -> float:
    """Largest TCP derivative / limit of a joint path, by Pinocchio's forward kinematics and finite differences."""
    import pinocchio as pin

    model, frame = pinocchio_model(bench.config)
    data = model.createData()
    place = []
    for row in q:
        pin.framesForwardKinematics(model, data, row)
        place.append(data.oMf[frame].copy())
    p = np.array([m.translation for m in place])
    w = np.array([pin.log3(b.rotation @ a.rotation.T) for a, b in itertools.pairwise(place)]) / dt_s
    worst = 0.0
    for order in orders:
        linear = np.diff(p, order, axis=0) / dt_s**order
        turning = np.diff(w, order - 1, axis=0) / dt_s ** (order - 1)
        joint = np.diff(q, order, axis=0) / dt_s**order
        worst = max(
            worst,
            np.linalg.norm(linear, axis=1).max() / limits(bench)["tcp"][order - 1],
            np.linalg.norm(turning, axis=1).max() / limits(bench)["angular"][order - 1],
            np.abs(joint).max() / limits(bench)["joint"][order - 1],
        )
    return float(worst)


def path_gone(u: Array) -> Array:
    """Path time after the share u of a ramp: two integrals of a braking that grows over 50 %, holds, fades over 35 %."""
    fine = np.linspace(0, 1, 200_001)
    braking = np.interp(fine, [0, 0.5, 0.65, 1], [0, 1, 1, 0]) / 0.575
    rate = 1 - np.concatenate([[0], np.cumsum((braking[1:] + braking[:-1]) / 2 * np.diff(fine))])
    gone = np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(fine))])
    return np.interp(u, fine, gone)


def test_the_largest_ratio_agrees_with_pinocchio(bench: Bench, plan: tuple[Array, float]) -> None:
    knots, ramp_s = plan
    verdict = bench.envelope.check(knots, ramp_s, WARD)
    assert verdict["ok"], verdict["reason"]
    q = _native.sample(knots, 0.002)[:, 1:7]
    assert abs(verdict["max_ratio_plan"] - tcp_ratio(bench, q, 0.002, (1, 2, 3))) < 0.01


def test_a_stop_from_anywhere_keeps_what_the_check_promises(bench: Bench, plan: tuple[Array, float]) -> None:
    knots, ramp_s = plan
    promised = bench.envelope.check(knots, ramp_s, WARD)["max_ratio_stop"]
    factor = bench.config.profiles["ward"].stop_factor
    fine = _native.sample(knots, 0.0001)
    u = np.arange(0, ramp_s + 0.002, 0.002) / ramp_s
    u = np.minimum(u, 1)
    ahead = ramp_s * path_gone(u)
    worst = 0.0
    for start_s in np.arange(0.0, knots[-1, 0] - ramp_s, 0.05):
        path = np.minimum(start_s + ahead, knots[-1, 0])
        q = np.column_stack([np.interp(path, fine[:, 0], fine[:, j]) for j in range(1, 7)])
        worst = max(worst, tcp_ratio(bench, q, 0.002, (2,)) / factor)
    assert 0.5 < worst <= 1.0
    assert worst <= promised + 0.02


def test_a_check_takes_less_than_15_ms(bench: Bench, plan: tuple[Array, float]) -> None:
    knots, ramp_s = plan
    times = []
    for _ in range(15):
        begin = time.thread_time()
        bench.envelope.check(knots, ramp_s, WARD)
        times.append(time.thread_time() - begin)
    assert min(times) < 0.015


def test_what_is_wrong_with_knots_is_found_and_named(bench: Bench, plan: tuple[Array, float]) -> None:
    knots, ramp_s = plan

    def refused(changed: Array, *words: str, ramp: float = ramp_s, start: Array | None = None) -> None:
        verdict = bench.envelope.check(np.ascontiguousarray(changed), ramp, WARD, start)
        assert not verdict["ok"]
        for word in words:
            assert word in verdict["reason"], verdict["reason"]

    def with_change(row: int, column: int, by: float) -> Array:
        out = knots.copy()
        out[row, column] += by
        return out

    refused(with_change(20, 3, 0.01), "times its limit")
    refused(with_change(20, 9, 0.5), "times its limit")
    refused(with_change(20, 15, 50.0), "times its limit")
    refused(with_change(-1, 8, 0.01), "does not end at rest", "joint 2")
    refused(with_change(12, 1, np.nan), "knot 12", "not finite")
    refused(with_change(12, 19, 0.5), "knot 12: opening 1.500")
    refused(np.delete(knots, 10, axis=0), f"knot 10 comes {2 * knots[1, 0]:.4f} s after")
    refused(knots[:1].repeat(2, axis=0), "knot 1 comes 0.0000 s after")
    refused(knots, "ramp of 0.100 s", ramp=0.1)
    start = np.concatenate([knots[0, 1:7], np.zeros(12)])
    start[2] += 0.001
    refused(knots, "does not start where the arm is", "joint 3", start=start)
    faster = knots.copy()
    faster[:, 0] *= 0.9
    faster[:, 7:13] /= 0.9
    faster[:, 13:19] /= 0.81
    refused(faster, "times its limit")


def test_a_shorter_ramp_than_planned_is_refused(bench: Bench, plan: tuple[Array, float]) -> None:
    knots, ramp_s = plan
    assert ramp_s > 0.3
    verdict = bench.envelope.check(knots, 0.3, WARD)
    assert not verdict["ok"]
    assert "a stop reaches" in verdict["reason"]


def test_the_box_the_table_and_the_floor_are_kept(plan: tuple[Array, float], tmp_path: Path) -> None:
    knots, ramp_s = plan
    for workspace, words in [
        ({"high": [0.40, 0.62, 0.75]}, "TCP x ="),
        ({"low": [0.10, -0.6, 0.3]}, "TCP z ="),
        ({"table_z": 0.35}, "TCP"),
        ({"floor_links_z": 0.5}, "at z ="),
    ]:
        narrow = Bench.make(tmp_path, Config.model_validate({"workspace": workspace}))
        verdict = narrow.envelope.check(knots, ramp_s, WARD)
        assert not verdict["ok"]
        assert words in verdict["reason"]


def test_a_parameter_file_that_lacks_a_key_is_refused(bench: Bench, tmp_path: Path) -> None:
    for source, load in [(bench.planner_file, _native.Planner), (bench.envelope_file, _native.Envelope)]:
        broken = tmp_path / "broken.params"
        broken.write_text("\n".join(row for row in source.read_text().splitlines() if not row.startswith("dh_d")))
        with pytest.raises(RuntimeError, match="dh_d"):
            load(str(broken))
        with pytest.raises(RuntimeError, match=r"absent\.params"):
            load(str(tmp_path / "absent.params"))


@pytest.mark.parametrize(
    ("q", "pattern"),
    [
        ([1.99, -2.62, 1.95, -2.01, -0.75, -1.1], r"wrist \d+ mm from the base axis at 0\.00 s, limit 60 mm"),
        ([2.37, -1.37, 2.92, -0.66, -0.02, -1.92], r"sin\(q5\) = 0\.020 at 0\.00 s, limit 0\.10"),
        ([2.94, -0.38, 0.09, -0.19, 2.99, 0.0], r"sin\(q3\) = 0\.090 at 0\.00 s, limit 0\.10"),
        ([-0.4, -1.36, -0.94, 2.96, 2.74, -2.5], r"forearm and tool overlap by \d+ mm at 0\.00 s"),
        ([1.25, -1.77, 2.69, 0.0, -0.28, -1.51], r"upper arm and wrist overlap by \d+ mm at 0\.00 s"),
        ([1.8, -1.82, 2.85, -0.86, 0.97, 0.61], r"base and forearm overlap by \d+ mm at 0\.00 s"),
    ],
)
def test_a_posture_that_touches_itself_or_is_singular_is_refused(bench: Bench, q: list[float], pattern: str) -> None:
    knots = np.zeros((8, 20))
    knots[:, 0], knots[:, 1:7], knots[:, 19] = np.arange(8) * 0.05, q, 1.0
    verdict = bench.envelope.check(knots, 0.3, WARD)
    assert not verdict["ok"]
    assert re.fullmatch(pattern, verdict["reason"]), verdict["reason"]
