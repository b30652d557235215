"""Where the camera is: rectified pictures look like the trained view; a camera that was knocked is noticed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from wardarm.policy import contract, view
from wardarm.policy.view import Pose, Rectifier, ReferenceView, table_plane
from wardarm.sim import scenes
from wardarm.training.environment import Environment, Looks

STILL = Looks(camera_shift_m=0.0, camera_turn=0.0)


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    made = Environment(contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT)
    yield made
    made.close()


def picture(env: Environment, seed: int, moved: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    rng = np.random.default_rng(seed)
    env.load(scenes.sample(rng))
    env.vary(rng, STILL)
    if moved != (0.0, 0.0):
        shift, turn = rng.normal(size=3), rng.normal(size=3)
        env.move_camera(shift / np.linalg.norm(shift) * moved[0], turn / np.linalg.norm(turn) * np.radians(moved[1]))
    return env.draw().copy()


def test_the_simulated_camera_is_the_contracts(env: Environment) -> None:
    picture(env, 0)
    pose, trained = env.camera_pose(), Pose.trained()
    np.testing.assert_allclose(pose.position_m, trained.position_m, atol=1e-6)
    np.testing.assert_allclose(pose.rotation, trained.rotation, atol=1e-6)
    assert not Rectifier(pose).needed


@pytest.mark.parametrize("seed", range(3))
def test_a_calibrated_camera_elsewhere_shows_the_trained_view(env: Environment, seed: int) -> None:
    """30 mm and 3 degrees away: after rectification the table lies where the trained camera has it."""
    wanted = picture(env, seed).astype(float)
    moved = picture(env, seed, (0.03, 3.0))
    found = Rectifier(env.camera_pose())(moved).astype(float)
    table = (slice(150, 560), slice(320, 960))
    before, after = (np.abs(p[table].astype(float) - wanted[table]).mean() for p in (moved, found))
    assert after < 0.5 * before
    assert after < 6


def test_a_knock_of_10_mm_and_1_degree_is_seen_and_other_pieces_are_not(env: Environment) -> None:
    reference = ReferenceView(picture(env, 0))
    calm = [reference.compare(picture(env, 100 + i)) for i in range(6)]
    knocked = [reference.compare(picture(env, 200 + i, (0.010, 1.0))) for i in range(6)]
    assert [m.seen for m in calm if m.moved] == []
    assert sum(m.moved for m in knocked) >= 6


def test_a_covered_lens_counts_as_moved(env: Environment) -> None:
    reference = ReferenceView(picture(env, 0))
    found = reference.compare(np.full((contract.IMAGE_HEIGHT, contract.IMAGE_WIDTH, 3), 90, np.uint8))
    assert found.moved
    assert "does not resemble" in found.seen


def depth_of(pose: Pose, noise_m: float = 0.001) -> np.ndarray:
    """Depth of a bare table at z = 0 as a camera at `pose` has it, with noise and a box in the middle."""
    k = view.intrinsics(320, 180)
    v, u = np.mgrid[0:180, 0:320]
    rays = np.stack([(u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], np.ones(u.shape)], -1) @ pose.rotation.T
    depth = -pose.position_m[2] / np.minimum(rays[..., 2], -1e-3)
    depth += np.random.default_rng(0).normal(0, noise_m, depth.shape)
    depth[80:100, 150:170] -= 0.08
    return np.where(depth < 3, depth, 0).astype(np.float32)


def test_the_tables_plane_tells_height_and_tilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_DEPTH_STRIDE", 2)
    trained = Pose.trained()
    k = view.intrinsics(320, 180)
    assert not table_plane(depth_of(trained), trained, k).moved
    higher = Pose(trained.position_m + np.array([0, 0, 0.010]), trained.rotation)
    assert table_plane(depth_of(higher), trained, k).shift_m == pytest.approx(0.010, abs=0.001)
    turn = contract.rotation_from_rotvec(np.array([0.0, np.radians(1.0), 0.0]))
    tilted = table_plane(depth_of(Pose(trained.position_m, turn @ trained.rotation)), trained, k)
    assert np.degrees(tilted.turn_rad) == pytest.approx(1.0, abs=0.1)
    with pytest.raises(ValueError, match="depth points"):
        table_plane(np.zeros((180, 320), np.float32), trained, k)
