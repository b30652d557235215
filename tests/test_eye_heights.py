"""Where things stand, by depth: measured on pictures of the simulated bedside, where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from wardarm.eye.heights import CLEAR_M, Heights, Sight, free_place
from wardarm.policy.view import Pose, intrinsics
from wardarm.sim import scenes
from wardarm.sim.scenes import HEIGHT_M, SET_DOWN_M, Scene, SceneObject
from wardarm.training.environment import Environment

ROOM_M = (0.08, 0.03)
EMPTY = Scene((), (0.5, -0.3))


@pytest.fixture(scope="module")
def bedside() -> Iterator[Environment]:
    environment = Environment(1280, 720)
    yield environment
    environment.close()


def piece(kind: str, x_m: float, y_m: float, number: int = 0) -> SceneObject:
    return SceneObject(kind, "blue", x_m, y_m, 0.0, math.pi / 2, f"{kind}{number}")


def seen(bedside: Environment, scene: Scene) -> Heights:
    bedside.load(scene)
    bedside.refresh()
    return Heights.measured(bedside.depth_m(), Pose.trained(), intrinsics())


@pytest.mark.parametrize("seed", range(4))
def test_what_stands_is_as_high_as_it_is(bedside: Environment, seed: int) -> None:
    scene = scenes.scene_for(seed)
    heights = seen(bedside, scene)
    for o in scene.objects:
        assert heights.top_m(o.x_m, o.y_m) == pytest.approx(HEIGHT_M[o.kind], abs=0.006), o
    assert heights.top_m(*SET_DOWN_M) == 0.0
    assert heights.level_m(*SET_DOWN_M, (0.1, 0.05)) == pytest.approx(0.0, abs=0.003)
    assert heights.seen_share(*SET_DOWN_M, CLEAR_M) > 0.7  # a bottle may stand before it


def test_an_empty_leaf_is_used_where_it_is_meant(bedside: Environment) -> None:
    assert free_place(seen(bedside, EMPTY), SET_DOWN_M, ROOM_M, 0.0) == SET_DOWN_M


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_beside_what_stands_at_the_edge_of_the_leaf(bedside: Environment, kind: str) -> None:
    other = piece(kind, 0.40, SET_DOWN_M[1])
    spot = free_place(seen(bedside, replace(EMPTY, objects=(other,))), SET_DOWN_M, ROOM_M, 0.0)
    assert spot is not None
    assert spot[0] - other.x_m > CLEAR_M
    assert abs(spot[0] - SET_DOWN_M[0]) <= ROOM_M[0] + 1e-6


def test_a_full_leaf_has_no_free_place(bedside: Environment) -> None:
    both = (piece("cup", 0.42, 0.53), piece("bowl", 0.55, 0.53))
    assert free_place(seen(bedside, replace(EMPTY, objects=both)), SET_DOWN_M, ROOM_M, 0.0) is None


def test_with_no_room_beside_only_the_place_itself_counts(bedside: Environment) -> None:
    at_the_edge = replace(EMPTY, objects=(piece("cup", 0.41, SET_DOWN_M[1]),))
    assert free_place(seen(bedside, at_the_edge), SET_DOWN_M, (0.0, 0.0), 0.0) is None


def test_a_cup_on_its_side_is_told_from_one_that_stands(bedside: Environment) -> None:
    standing = seen(bedside, replace(EMPTY, objects=(piece("cup", *SET_DOWN_M),)))
    bedside._lean("cup0", np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]))
    at = int(bedside.world.model.joint("cup0").qposadr[0])
    bedside.world.data.qpos[at + 2] = 0.038  # its radius
    bedside.refresh()
    lying = Heights.measured(bedside.depth_m(), Pose.trained(), intrinsics())
    assert standing.top_m(*SET_DOWN_M) - lying.top_m(*SET_DOWN_M) > 0.009


def test_a_picture_without_depth_there_says_that_it_does_not_know(bedside: Environment) -> None:
    bedside.load(EMPTY)
    bedside.refresh()
    depth = bedside.depth_m()
    depth[:, depth.shape[1] // 2 :] = 0
    blind = Heights.measured(depth, Pose.trained(), intrinsics())
    assert blind.seen_share(*SET_DOWN_M, CLEAR_M) < 0.5
    assert math.isnan(blind.top_m(*SET_DOWN_M))
    assert free_place(blind, SET_DOWN_M, ROOM_M, 0.0) is None


def test_what_depth_cannot_see_is_seen_in_colour(bedside: Environment) -> None:
    trained = Pose.trained()
    to_camera = np.column_stack([trained.rotation.T, -trained.rotation.T @ trained.position_m])
    to_pixel = np.diag([0.25, 0.25, 1.0]) @ intrinsics() @ to_camera
    blind = Heights(np.full((65, 116), np.nan))

    def sight(scene: Scene) -> Sight:
        bedside.load(scene)
        bedside.refresh()
        return Sight(blind, bedside.draw()[::4, ::4].mean(-1).astype(np.uint8), to_pixel)

    empty, glass = sight(EMPTY), sight(replace(EMPTY, objects=(piece("cup", *SET_DOWN_M),)))
    assert glass.differs(empty, *SET_DOWN_M, 0.06)
    assert not empty.differs(empty, *SET_DOWN_M, 0.06)
    assert not glass.differs(empty, 0.40, 0.0, 0.06)
