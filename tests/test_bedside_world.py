"""The simulated bedside's world, without processes: scenes, arm, fingers, visitor, judge."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray
from wardarm import config as configuration
from wardarm.kinematics import Kinematics as TcpKinematics
from wardarm.kinematics import TcpPose
from wardarm.sim import robot, room_views, scenes
from wardarm.sim.gripper import AT_REQUEST, MOVING, STOPPED_CLOSING
from wardarm.sim.judge import Judge
from wardarm.sim.mujoco_plant import MujocoPlant
from wardarm.sim.ur_controller.kinematics import DhParameters, Kinematics, from_pose, product
from wardarm.sim.visitor import OUTSIDE, SPOTS, Visitor
from wardarm.sim.world import STEP_S, World, build

_STILL = (0.0,) * 6


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return build(dressed=False)


@pytest.fixture
def world(model: mujoco.MjModel) -> World:
    w = World(model)
    w.load(scenes.demo_scene(7))
    return w


@pytest.mark.parametrize("seed", range(40))
def test_the_demo_scene_has_one_blue_cup_and_it_stands_at_a_corner(seed: int) -> None:
    scene = scenes.demo_scene(seed)
    (cup,) = scene.find("cup", "blue")
    assert scenes.is_corner(cup.x_m, cup.y_m)
    assert scene == scenes.demo_scene(seed)


@pytest.mark.parametrize("seed", range(40))
def test_scenes_keep_their_pieces_apart_within_reach_and_off_the_leaf(seed: int) -> None:
    scene = scenes.scene_for(seed)
    assert 3 <= len(scene.objects) <= 6
    for i, o in enumerate(scene.objects):
        assert scenes.REACH_M[0] < math.hypot(o.x_m, o.y_m) < scenes.REACH_M[1]
        assert not scenes.on_leaf(o.x_m, o.y_m, 0.05)
        assert all(math.hypot(o.x_m - p.x_m, o.y_m - p.y_m) >= 0.125 for p in scene.objects[:i])


def test_a_scene_survives_its_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    scene = scenes.scene_for(11)
    scenes.save(scene, tmp_path / "scene.json")
    assert scenes.load(tmp_path / "scene.json") == scene


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"kind": "plate", "color": "blue", "x_m": 0.4, "y_m": 0}, "kind"),
        ({"kind": "cup", "color": "pink", "x_m": 0.4, "y_m": 0}, "color"),
        ({"kind": "cup", "color": "blue", "x_m": 1.4, "y_m": 0}, "off the table"),
        ({"kind": "cup", "color": "blue"}, "x_m"),
    ],
)
def test_a_scene_that_does_not_fit_is_refused_by_name(row: dict[str, object], word: str) -> None:
    with pytest.raises(scenes.SceneError, match=word):
        scenes.from_json({"objects": [row]})


def test_the_arm_is_the_one_in_the_desk_configuration(world: World) -> None:
    arm = configuration.load("desk").arm
    kinematics = Kinematics(DhParameters(arm.dh_a, arm.dh_d, arm.dh_alpha))
    rng = np.random.default_rng(3)
    for _ in range(20):
        q = rng.uniform(-2.5, 2.5, 6)
        world.set_arm(q)
        pos, rotation = world.tcp()
        frame = product(kinematics.flange(q.tolist()), from_pose(arm.tcp))
        np.testing.assert_allclose(frame[9:], pos, atol=2e-6)
        np.testing.assert_allclose(np.reshape(frame[:9], (3, 3)), rotation, atol=2e-5)


def test_home_is_above_the_table_tool_down(world: World) -> None:
    pos, rotation = world.tcp()
    np.testing.assert_allclose(pos, configuration.load("desk").poses.home[:3], atol=1e-4)
    np.testing.assert_allclose(rotation, [[0, 1, 0], [1, 0, 0], [0, 0, -1]], atol=1e-4)


def test_joints_follow_34_ms_late_and_do_not_sag(world: World) -> None:
    plant = MujocoPlant(world)
    q = list(robot.HOME_Q_RAD)
    for _ in range(500):
        state = plant.step(q, _STILL)
    assert np.abs(np.subtract(state.q, q)).max() < 1e-5
    for joint in range(6):
        speed = 0.0
        for _ in range(400):
            speed = min(0.5, speed + 2.0 * STEP_S)
            q[joint] += speed * STEP_S
            state = plant.step(q, _STILL)
        lag_s = (q[joint] - state.q[joint]) / speed
        assert lag_s == pytest.approx(0.034, abs=0.004), f"joint {joint}"
        for _ in range(200):
            state = plant.step(q, _STILL)


def _close(plant: MujocoPlant, opening: float, most_s: float = 2.0) -> float:
    """Send the fingers somewhere; seconds until they rest."""
    plant.fingers.set_target(opening, 255, 80)
    for i in range(int(most_s / STEP_S)):
        plant.step(robot.HOME_Q_RAD, _STILL)
        if plant.fingers.state()[1] != MOVING:
            return i * STEP_S
    raise AssertionError(f"fingers still move after {most_s} s: {plant.fingers.state()}")


def test_fingers_close_on_nothing_in_about_half_a_second_and_say_so(world: World) -> None:
    plant = MujocoPlant(world)
    assert 0.45 < _close(plant, 0.0) < 0.9
    assert plant.fingers.state()[1] == AT_REQUEST
    assert plant.fingers.state()[0] < 0.05
    _close(plant, 1.0)
    assert plant.fingers.state() == (pytest.approx(1.0, abs=0.02), AT_REQUEST)


def test_fingers_stall_on_a_cup_and_hold_it_by_friction(world: World) -> None:
    judge = Judge(world)
    plant = MujocoPlant(world, judge)
    tcp, _ = world.tcp()
    gravity = world.model.opt.gravity[2]
    world.model.opt.gravity[2] = 0  # until the fingers have it, nobody else holds it up here
    try:
        world.place("cup0", tcp - [0, 0, 0.062], 0.0)
        judge.moved("cup0")
        _close(plant, 0.0)
    finally:
        world.model.opt.gravity[2] = gravity
    for _ in range(1000):
        state = plant.step(robot.HOME_Q_RAD, _STILL)
    opening, obj = plant.fingers.state()
    assert obj == STOPPED_CLOSING
    assert 0.6 < opening < 0.8  # 64 mm of 85
    assert judge.piece("cup0").held
    assert state.tcp_force[2] == pytest.approx(-0.125 * 9.81, abs=0.3)  # the cup's weight
    _close(plant, 1.0)
    for _ in range(300):
        plant.step(robot.HOME_Q_RAD, _STILL)
    assert not judge.piece("cup0").held
    assert world.piece_pos("cup0")[2] < 0.1


class _Hand:
    """Moves the TCP tool-down along straight lines, every 2 ms a new target, as servoj does."""

    def __init__(self, plant: MujocoPlant, xyz_m: NDArray[np.float64], yaw_rad: float) -> None:
        self.plant, self.at, self.yaw_rad = plant, xyz_m, yaw_rad
        self.kinematics = TcpKinematics(configuration.load("desk").arm)
        pan = np.arctan2(xyz_m[1], xyz_m[0]) + 2.68  # home, turned towards the piece
        near = np.array([pan, *robot.HOME_Q_RAD[1:]])
        self.q = self.kinematics.solve(TcpPose(xyz_m, np.array([0, 0, yaw_rad])), near)
        plant.reset(self.q.tolist())

    def go(self, to: NDArray[np.float64], seconds: float) -> None:
        start, steps = self.at, round(seconds / STEP_S)
        for i in range(0, steps, 10):
            u = (i + 10) / steps
            xyz = start + (to - start) * u * u * (3 - 2 * u)
            then = self.kinematics.solve(TcpPose(xyz, np.array([0, 0, self.yaw_rad])), self.q)
            for j in range(10):
                self.plant.step((self.q + (then - self.q) * (j + 1) / 10).tolist(), _STILL)
            self.q = then
        self.at = to

    def fingers(self, opening: float) -> int:
        self.plant.fingers.set_target(opening, 255, 80)
        for _ in range(450):
            self.plant.step(self.q.tolist(), _STILL)
        return self.plant.fingers.state()[1]


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_every_kind_is_grasped_lifted_and_set_down_without_touching_the_table(world: World, kind: str) -> None:
    yaw = 0.4 if kind == "spoon" else 0.0
    world.load(
        scenes.from_json({"objects": [{"kind": kind, "color": "red", "x_m": 0.45, "y_m": -0.1, "yaw_rad": yaw}]})
    )
    judge = Judge(world)
    plant = MujocoPlant(world, judge)
    grasp = np.array([0.45, -0.1, scenes.GRASP_Z_M[kind]])
    up = grasp + np.array([0, 0, 0.10])
    hand = _Hand(plant, up, yaw)
    assert hand.fingers(1.0) == AT_REQUEST
    hand.go(grasp, 0.8)
    assert hand.fingers(0.0) == STOPPED_CLOSING
    hand.go(up, 0.8)
    assert judge.piece(f"{kind}0").held
    assert judge.piece(f"{kind}0").lifted
    hand.go(grasp + np.array([0, 0, 0.003]), 0.8)
    hand.fingers(1.0)
    hand.go(up, 0.6)
    assert judge.piece(f"{kind}0").standing
    assert judge.touches.table == 0


def test_the_judge_counts_what_the_arm_touches(world: World) -> None:
    judge = Judge(world)
    plant = MujocoPlant(world, judge)
    q = list(robot.HOME_Q_RAD)
    for _ in range(800):  # the shoulder leans forward until the fingers are on the table
        q[1] += 0.9 * STEP_S * (judge.touches.table == 0)
        state = plant.step(q, _STILL)
    assert judge.touches.table >= 1
    assert judge.touches.peak_n["table"] > 0
    assert state.tcp_force[2] > 5  # the table pushes up
    assert judge.touches.patient == judge.touches.bed == 0


def test_a_piece_on_the_patient_is_seen(world: World) -> None:
    judge = Judge(world)
    world.place("cup0", (-0.2, 1.06, 0.45), 0.0)
    judge.moved("cup0")
    plant = MujocoPlant(world, judge)
    for _ in range(300):
        plant.step(robot.HOME_Q_RAD, _STILL)
    assert judge.touches.patient >= 1


def test_only_a_lifted_piece_standing_free_on_the_leaf_is_fetched(world: World) -> None:
    judge = Judge(world)
    plant = MujocoPlant(world, judge)
    for z in (0.2, 0.0005):  # lifted, then set down upright
        world.place("cup0", (0.48, 0.50, z), 0.0)
        mujoco.mj_forward(world.model, world.data)
        judge.observe()
    for _ in range(250):
        plant.step(robot.HOME_Q_RAD, _STILL)
    assert judge.report()["fetched"] == ["cup0"]
    judge.reset()  # the same place, never lifted
    judge.observe()
    assert judge.report()["fetched"] == []


def test_a_visitor_walks_in_through_the_door_at_walking_speed() -> None:
    visitor = Visitor()
    visitor.walk_to(*SPOTS["table"])
    before, seconds, crossed_y = (visitor.x_m, visitor.y_m), 0.0, None
    while visitor.walking:
        visitor.advance(0.01)
        seconds += 0.01
        here = (visitor.x_m, visitor.y_m)
        assert math.dist(before, here) <= 1.0 * 0.01 + 1e-9
        if before[0] > 3.0 >= here[0]:
            crossed_y = here[1]
        before = here
    assert before == SPOTS["table"]
    assert crossed_y is not None
    assert -1.9 < crossed_y < -1.0  # the door's opening
    trunk_z = visitor.poses()[0][0][2]
    assert trunk_z == pytest.approx(-0.75 + 0.90, abs=0.03)
    visitor.leave()
    while visitor.walking:
        visitor.advance(0.01)
    assert (visitor.x_m, visitor.y_m) == OUTSIDE


def test_the_desk_configuration_masks_what_the_cameras_see() -> None:
    guard = configuration.load("desk").guard
    assert [c.name for c in guard.cameras] == [v.name for v in room_views.ROOM_VIEWS]
    for camera, view in zip(guard.cameras, room_views.ROOM_VIEWS, strict=True):
        assert (camera.camera_pos, camera.camera_look, camera.fovy_deg) == (view.pos, view.look, view.fovy_deg)
        assert camera.keep_out == room_views.keep_out(view, guard.width, guard.height)
