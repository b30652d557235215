"""Planned motions against programs and data that are not ours: a real arm's poses, Pinocchio's dynamics, toppra, an LP."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import ur_analytic_ik
from postproc_cases import CARRY_LIQUID, FAST, WARD, Array, Bench, Fetch, knot_table, reason, rpy_of
from scipy.spatial.transform import Rotation
from test_postproc_kinematics import pinocchio_model
from wardarm import _native
from wardarm.ops import bench_reaches
from wardarm.ops.bench_optimum import GOAL, Comparison, table
from wardarm.ops.optimum import Bounds, PathShape, fastest
from wardarm.policy import contract
from wardarm.shm.layouts import PlanStatus

POSES = Path(__file__).parent / "data" / "ur5e_poses.txt"
TORQUE_NM = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])  # UR5e data sheet
# Link masses (kg) and centres of mass in the links' DH frames (m): universal-robots.com, "DH parameters for calculations
# of kinematics and dynamics".
MASS_KG = (3.761, 8.058, 2.846, 1.37, 1.3, 0.365)
CENTRE_M = (
    (0, -0.02561, 0.00193), (0.2125, 0, 0.11336), (0.15, 0, 0.0265), (0, -0.0018, 0.01634), (0, 0.0018, 0.01634),
    (0, 0, -0.001159),
)  # fmt: skip
PAYLOAD_KG = 5.0  # the most a UR5e may carry


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench.make(Path(tmp_path_factory.mktemp("params")))


def real_poses() -> list[tuple[Array, Array]]:
    rows = [line for line in POSES.read_text().splitlines() if not line.startswith("#")]
    return [tuple(np.array(ast.literal_eval(part)) for part in row.split(";")) for row in rows]  # type: ignore[misc]


def flange(bench: Bench, q: Array) -> Array:
    """4x4 pose of the flange: the TCP's with the tool taken off."""
    pose, tcp = bench.tcp(q), np.array(bench.config.arm.tcp)
    there, tool = np.eye(4), np.eye(4)
    there[:3, :3], there[:3, 3] = Rotation.from_rotvec(pose[3:]).as_matrix(), pose[:3]
    tool[:3, :3], tool[:3, 3] = Rotation.from_rotvec(tcp[3:]).as_matrix(), tcp[:3]
    return np.asarray(there @ np.linalg.inv(tool))


def test_nominal_parameters_are_one_to_two_millimetres_off_a_real_arm(bench: Bench) -> None:
    """A real arm's factory calibration, which `arm.dh_*` must carry: this is what is missing without it."""
    poses = real_poses()
    assert len(poses) == 9
    ours = [flange(bench, q) for q, _ in poses]
    off_mm = [1e3 * float(np.linalg.norm(a[:3, 3] - b[:3, 3])) for a, (_, b) in zip(ours, poses, strict=True)]
    off_deg = [
        float(np.degrees(np.linalg.norm(Rotation.from_matrix(a[:3, :3].T @ b[:3, :3]).as_rotvec())))
        for a, (_, b) in zip(ours, poses, strict=True)
    ]
    assert min(off_mm) > 1.0
    assert max(off_mm) < 2.0
    assert max(off_deg) < 0.5


def test_ur_analytic_ik_has_the_same_nominal_flange(bench: Bench) -> None:
    for q, _ in real_poses():
        theirs = np.array(ur_analytic_ik.ur5e.forward_kinematics(*q))
        np.testing.assert_allclose(flange(bench, q), theirs, atol=1e-9)


def test_the_inverse_finds_the_joints_of_the_real_poses(bench: Bench) -> None:
    """Of the nominal arm's poses at those joints: on the branch, however they are twisted. Singular ones have none."""
    found = 0
    for q, _ in real_poses():
        if min(abs(np.sin(q[2])), abs(np.sin(q[4]))) < 0.1:
            continue
        joints = bench.planner.ik(bench.tcp(q), q)
        assert joints is not None
        np.testing.assert_allclose(joints, q, atol=1e-6)
        found += 1
    assert found >= 5


def loaded_model(bench: Bench) -> pin.Model:
    """The arm with its links' masses and the largest payload at the TCP."""
    model, _ = pinocchio_model(bench.config)
    frames = zip(bench.config.arm.dh_a, bench.config.arm.dh_d, bench.config.arm.dh_alpha, strict=True)
    for joint, (a, d, alpha) in enumerate(frames):
        link = pin.SE3(Rotation.from_euler("x", alpha).as_matrix(), np.array([a, 0.0, d]))
        body = pin.Inertia(MASS_KG[joint], link.act(np.array(CENTRE_M[joint], float)), np.zeros((3, 3)))
        model.appendBodyToJoint(joint + 1, body, pin.SE3.Identity())
        last = link
    tcp = last * pin.SE3(np.eye(3), np.array(bench.config.arm.tcp[:3]))
    model.appendBodyToJoint(6, pin.Inertia(PAYLOAD_KG, tcp.translation, np.zeros((3, 3))), pin.SE3.Identity())
    return model


@pytest.mark.parametrize("profile", [WARD, CARRY_LIQUID, FAST], ids=["ward", "carry_liquid", "fast"])
def test_no_planned_motion_asks_a_joint_for_more_torque_than_it_has(bench: Bench, profile: int) -> None:
    model = loaded_model(bench)
    data = model.createData()
    largest, planned = np.zeros(6), 0
    for seed, target in enumerate([(0.50, -0.30, 0.062), (0.62, 0.20, 0.062), (0.38, -0.35, 0.03)]):
        q = bench.home()
        state = np.concatenate([bench.tcp(q)[:3], rpy_of(bench.tcp(q)), [1.0, 0.0]])
        chunk = Fetch(np.array(target)).chunk(state, np.random.default_rng(seed), profile)
        out = bench.plan(chunk, q)
        assert out["status"] == PlanStatus.OK, reason(out)
        planned += 1
        for row in _native.sample(knot_table(out), 0.004):
            torque = pin.rnea(model, data, row[1:7], row[7:13], row[13:19])
            largest = np.maximum(largest, np.abs(torque))
    assert planned == 3
    assert (largest[:3] > 1.0).all(), "gravity alone asks for more"
    assert (largest <= TORQUE_NM).all(), largest


# ---- timings


@pytest.fixture(scope="module", params=[("ward", False), ("fast", True)], ids=["ward_paced", "fast_free"])
def compared(request: pytest.FixtureRequest) -> tuple[Comparison, np.void, bool]:
    profile, free = request.param
    comparison = Comparison(profile)
    plan = comparison.plan(comparison.chunk(np.random.default_rng(4)), free, stops=False)
    assert plan["status"] == PlanStatus.OK, reason(plan)
    return comparison, plan, free


def test_the_optimum_is_faster_than_the_plan_and_keeps_its_limits(compared: tuple[Comparison, np.void, bool]) -> None:
    comparison, plan, free = compared
    optimum = comparison.optimum(plan, free, GOAL)
    assert optimum.duration_s < float(plan["duration_s"])
    # between the nodes; at them it is 1. A free plan has knots closer than its nodes are apart in time: more room there
    assert optimum.largest_ratio <= (1.05 if free else 1.03)
    assert float(plan["duration_s"]) < 1.4 * optimum.duration_s  # how close is a figure: tests/prove/test_motion.py


def test_toppras_acceleration_bound_lies_below_the_optimum(compared: tuple[Comparison, np.void, bool]) -> None:
    """toppra knows no jerk and no TCP: nothing that keeps those too can be faster on the same path."""
    constraint = pytest.importorskip("toppra.constraint")
    from scipy.interpolate import CubicSpline
    from toppra.algorithm import TOPPRA
    from toppra.interpolator import AbstractGeometricPath

    comparison, plan, _ = compared
    knots = table(plan)
    bounds = Bounds.of(comparison.config.limits, GOAL)
    rows = _native.sample(knots, 0.01)
    spline = CubicSpline(rows[:, 0], rows[:, 1:7])

    class Planned(AbstractGeometricPath):  # type: ignore[misc]
        dof, waypoints = 6, None
        path_interval = np.array([rows[0, 0], rows[-1, 0]])

        def __call__(self, s: Array, order: int = 0) -> Array:
            return np.asarray(spline(s, order))

    box = np.tile([-1.0, 1.0], (6, 1))
    limits = [
        constraint.JointVelocityConstraint(box * bounds.joint[0]),
        constraint.JointAccelerationConstraint(box * bounds.joint[1]),
    ]
    inside = np.linspace(rows[0, 0] + 0.02, rows[-1, 0] - 0.02, 200)  # at its ends a path at rest has no direction
    Planned.path_interval = inside[[0, -1]]
    bound = TOPPRA(limits, Planned(), gridpoints=inside, solver_wrapper="seidel").compute_trajectory(0, 0)
    optimum = fastest(knots, comparison.config.arm, bounds)
    assert bound.duration < optimum.duration_s + 0.04
    assert bound.duration > 0.3 * optimum.duration_s


def test_path_derivatives_are_those_of_pinocchio(bench: Bench, compared: tuple[Comparison, np.void, bool]) -> None:
    """The optimum's path: TCP speed and acceleration at unit rate are the plan's own."""
    comparison, plan, _ = compared
    knots = table(plan)
    path = PathShape(knots, comparison.config.arm)
    model, frame = pinocchio_model(comparison.config)
    data = model.createData()
    for k in range(0, len(knots) - 1, 5):
        first, second, _ = path.within(k, np.array([0.0]))
        pin.forwardKinematics(model, data, knots[k, 1:7], knots[k, 7:13], knots[k, 13:19])
        pin.updateFramePlacements(model, data)
        where = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        np.testing.assert_allclose(first[0, 6:9], pin.getFrameVelocity(model, data, frame, where).linear, atol=1e-9)
        speed = pin.getFrameClassicalAcceleration(model, data, frame, where)
        np.testing.assert_allclose(second[0, 6:9], speed.linear, atol=1e-7)
        np.testing.assert_allclose(second[0, 9:], speed.angular, atol=1e-7)


def test_the_bench_reaches_are_chunks_of_the_contract() -> None:
    comparison = Comparison("ward")
    rows = bench_reaches.reach(
        np.random.default_rng(0), comparison.kinematics.forward(comparison.home).six, closes=False
    )
    assert rows.shape[1] == 7
    assert (np.array(contract.LOW) <= rows[:, :3]).all()
    assert (rows[:, :3] <= np.array(contract.HIGH)).all()
