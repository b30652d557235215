"""The planner's kinematics against two programs that are not ours: Pinocchio and ur-analytic-ik."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import ur_analytic_ik
from hypothesis import given, settings
from hypothesis import strategies as st
from postproc_cases import HOME_DEG, Array, Bench
from scipy.spatial.transform import Rotation
from wardarm.config import Config

angles = st.lists(st.floats(-3.1, 3.1), min_size=6, max_size=6).map(np.array)


def pinocchio_model(config: Config) -> tuple[pin.Model, int]:
    """A chain of six revolute joints from the configuration's DH rows, with a frame at the TCP."""
    model = pin.Model()
    parent, placement = 0, pin.SE3.Identity()
    for a, d, alpha in zip(config.arm.dh_a, config.arm.dh_d, config.arm.dh_alpha, strict=True):
        parent = model.addJoint(parent, pin.JointModelRZ(), placement, f"joint{parent + 1}")
        placement = pin.SE3(Rotation.from_euler("x", alpha).as_matrix(), np.array([a, 0.0, d]))
    tcp = np.array(config.arm.tcp)
    tool = placement * pin.SE3(Rotation.from_rotvec(tcp[3:]).as_matrix(), tcp[:3])
    return model, model.addFrame(pin.Frame("tcp", parent, tool, pin.FrameType.OP_FRAME))


CALIBRATED = Config.model_validate(
    {"arm": {
        "dh_a": [0.0001, -0.4256, -0.3917, 0.0002, -0.0001, 0],
        "dh_d": [0.1623, 0.0004, -0.0006, 0.1334, 0.0998, 0.0995],
        "dh_alpha": [1.5712, 0.0008, -0.0011, 1.5701, -1.5715, 0.0],
    }}
)  # fmt: skip


@pytest.fixture(scope="module", params=["nominal", "calibrated"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    config = Config() if request.param == "nominal" else CALIBRATED
    return Bench.make(Path(tmp_path_factory.mktemp(request.param)), config)


@settings(max_examples=60, deadline=None)
@given(q=angles)
def test_pose_and_jacobian_agree_with_pinocchio(bench: Bench, q: Array) -> None:
    model, frame = pinocchio_model(bench.config)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    jacobian = pin.computeFrameJacobian(model, data, q, frame, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
    pose = bench.tcp(q)
    np.testing.assert_allclose(pose[:3], data.oMf[frame].translation, atol=1e-12)
    turn = Rotation.from_rotvec(pose[3:]).as_matrix().T @ data.oMf[frame].rotation
    assert np.abs(turn - np.eye(3)).max() < 1e-12
    np.testing.assert_allclose(bench.planner.jacobian(q), jacobian, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(offset=st.lists(st.floats(-0.25, 0.25), min_size=6, max_size=6).map(np.array))
def test_inverse_returns_the_joints_it_came_from(bench: Bench, offset: Array) -> None:
    q = np.radians(HOME_DEG) + offset
    found = bench.planner.ik(bench.tcp(q), np.radians(HOME_DEG))
    assert found is not None
    np.testing.assert_allclose(found, q, atol=1e-7)


def test_inverse_is_one_of_the_analytic_solutions(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    q = np.radians(HOME_DEG)
    tool = np.eye(4)
    tcp = np.array(bench.config.arm.tcp)
    tool[:3, :3], tool[:3, 3] = Rotation.from_rotvec(tcp[3:]).as_matrix(), tcp[:3]
    rng = np.random.default_rng(3)
    for _ in range(50):
        pose = bench.tcp(q + rng.uniform(-0.3, 0.3, 6))
        wanted = np.eye(4)
        wanted[:3, :3], wanted[:3, 3] = Rotation.from_rotvec(pose[3:]).as_matrix(), pose[:3]
        ours = bench.planner.ik(pose, q)
        assert ours is not None
        theirs = np.array(ur_analytic_ik.ur5e.inverse_kinematics(wanted @ np.linalg.inv(tool))).reshape(-1, 6)
        gap = np.abs(np.remainder(theirs - ours + np.pi, 2 * np.pi) - np.pi).max(axis=1)
        assert gap.min() < 1e-6


def test_a_pose_out_of_reach_has_no_joints(tmp_path: Path) -> None:
    bench = Bench.make(tmp_path)
    pose = bench.tcp(bench.home())
    pose[0] = 1.4
    assert bench.planner.ik(pose, bench.home()) is None
