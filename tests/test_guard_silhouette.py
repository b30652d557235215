"""Our own arm is not an intruder, somebody beside, behind or in front of it is. The arm in these pictures is drawn by
code of its own: OpenCV's projection, its own chain of rotations, the real arm's tube sizes."""

from __future__ import annotations

import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from guard_room import Room
from wardarm import config as configuration
from wardarm.config import Arm, Guard, RoomCamera
from wardarm.guard.detector import Detector, ViewState, work_size
from wardarm.guard.main import View
from wardarm.guard.silhouette import ArmPose, ArmTrack, Silhouette
from wardarm.shm.layouts import ARM_STATUS, ArmState, Holding

GUARD = Guard(fps=10, warmup_frames=10)
CAMERA = RoomCamera(
    name="door", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)],
    camera_pos=(2.4, -1.9, 1.4), camera_look=(0.2, 0.1, 0.2), fovy_deg=58,
)  # fmt: skip
ARM = Arm()
HOME_Q = np.array([-0.3, -1.9, 1.8, -1.5, -1.57, 0.2])


def turn(axis: str, angle: float) -> np.ndarray:
    vector = {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}[axis]
    return cv2.Rodrigues(np.array(vector, float) * angle)[0]


def tubes(q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """UR5e as its outline drawing shows it: (end, end, radius), metres, base frame."""
    at, rotation, joints, axes = np.zeros(3), np.eye(3), [], []
    for theta, a, d, alpha in zip(q, ARM.dh_a, ARM.dh_d, ARM.dh_alpha, strict=True):
        rotation = rotation @ turn("z", theta)
        at = at + rotation @ np.array([a, 0, d])
        rotation = rotation @ turn("x", alpha)
        joints.append(at)
        axes.append(rotation[:, 2])
    z1, z2 = axes[0], axes[1]
    tool = joints[5] + rotation @ np.array([0, 0, 0.16])
    return [
        (np.zeros(3), joints[0], 0.075),
        (joints[0], joints[0] + 0.14 * z1, 0.065),
        (joints[0] + 0.138 * z1, joints[1] + 0.138 * z2, 0.058),
        (joints[1], joints[1] + 0.15 * z2, 0.055),
        (joints[1] + 0.007 * z2, joints[2] + 0.007 * z2, 0.048),
        (joints[2], joints[3], 0.045),
        (joints[3], joints[4], 0.045),
        (joints[4], joints[5], 0.045),
        (joints[5], tool, 0.07),
    ]


def draw_arm(picture: np.ndarray, q: np.ndarray, grey: float = 225) -> np.ndarray:
    """The picture with the arm in it: balls along each tube, projected by OpenCV."""
    forward = np.subtract(CAMERA.camera_look, CAMERA.camera_pos)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0, 0, 1])
    right = right / np.linalg.norm(right)
    world = np.stack([right, np.cross(forward, right), forward])
    focal = 180 / np.tan(np.radians(CAMERA.fovy_deg / 2))
    matrix = np.array([[focal, 0, 320], [0, focal, 180], [0, 0, 1]])
    rotation, shift = cv2.Rodrigues(world)[0], -world @ np.array(CAMERA.camera_pos)
    out = picture.copy()
    for a, b, radius in tubes(q):
        balls = a + np.linspace(0, 1, 40)[:, None] * (b - a)
        pixels, _ = cv2.projectPoints(balls, rotation, shift, matrix, None)
        depths = (balls @ world.T + shift)[:, 2]
        for (u, v), depth in zip(pixels[:, 0], depths, strict=True):
            cv2.circle(out, (round(u), round(v)), round(focal * radius / depth), grey, -1)
    return out


def status(stamp_ns: int, q: np.ndarray, state: ArmState = ArmState.RUNNING) -> np.void:
    data = np.zeros((), ARM_STATUS)
    data["stamp_ns"], data["q_rad"], data["state"], data["holding"] = stamp_ns, q, state, Holding.NO
    return data[()]


class Scene:
    """A room, our arm in it, and a detector that is told where the arm is, `delay_s` before the frame arrives."""

    def __init__(self, guard: Guard = GUARD) -> None:
        self.room, self.guard = Room(seed=3), guard
        self.detector = Detector(guard, CAMERA)
        self.silhouette = Silhouette(ARM, guard, CAMERA, work_size(guard))
        self.track = ArmTrack(1 / guard.fps)
        self.now_ns = 10_000_000_000

    def frame(self, q: np.ndarray, person: np.ndarray | None = None, in_front: bool = False) -> ViewState:
        self.now_ns += int(1e9 / self.guard.fps)
        self.track.add(status(self.now_ns - 80_000_000, q))
        base = self.room.picture if person is None else person
        picture = draw_arm(base, q)
        if in_front and person is not None:
            picture = np.where(person != self.room.picture, person, picture)
        mask = self.silhouette.mask(self.track.during(self.now_ns))
        return self.detector.update(self.room.frame(picture), mask).state


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    for _ in range(GUARD.warmup_frames):
        scene.frame(HOME_Q)
    assert scene.detector.state is ViewState.CLEAR
    return scene


def sweep(frames: int) -> list[np.ndarray]:
    """A movement through most of the workspace at about 0.5 rad/s a joint."""
    t = np.arange(frames) / GUARD.fps
    return [HOME_Q + np.array([0.9, 0.35, -0.5, 0.5, 0.3, 1.0]) * np.sin(0.5 * s) for s in t]


@pytest.mark.parametrize("seed", range(6))
def test_the_mask_covers_the_drawn_arm_in_any_pose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    silhouette = Silhouette(ARM, GUARD, CAMERA, (640, 360))
    for _ in range(10):
        q = HOME_Q + rng.uniform(-1.2, 1.2, 6)
        drawn = draw_arm(np.zeros((360, 640), np.float32), q, 255) > 0
        mask = silhouette.mask([ArmPose(1, q, False)]) > 0
        assert not (drawn & ~mask).any()
        assert mask.sum() < 3.2 * drawn.sum(), "so generous that it would hide people"


def test_the_moving_arm_alone_is_no_intruder(scene: Scene) -> None:
    assert {scene.frame(q) for q in sweep(200)} == {ViewState.CLEAR}


def test_without_the_mask_the_same_movement_would_be_one(scene: Scene) -> None:
    found = {scene.detector.update(scene.room.frame(draw_arm(scene.room.picture, q)), None).state for q in sweep(60)}
    assert ViewState.INTRUDER in found


def test_what_the_arm_stood_in_front_of_at_the_start_is_learnt_when_it_leaves(scene: Scene) -> None:
    away = HOME_Q + np.array([1.2, 0, 0, 0, 0, 0])
    path = [HOME_Q + (away - HOME_Q) * min(1.0, i / 25) for i in range(80)]
    assert {scene.frame(q) for q in path} == {ViewState.CLEAR}
    hidden_before = (scene.silhouette.mask([ArmPose(1, HOME_Q, False)]) > 0) & (
        scene.silhouette.mask([ArmPose(1, away, False)]) == 0
    )
    assert hidden_before.sum() > 100
    assert (scene.detector.seen[hidden_before] >= GUARD.warmup_frames).all()


def test_an_arm_that_appears_after_the_view_was_learnt_leaves_no_ghost() -> None:
    """The robot was off when guard started: its picture was learnt as furniture until its status came."""
    scene = Scene()
    with_arm = draw_arm(scene.room.picture, HOME_Q)
    for _ in range(40):
        scene.detector.update(scene.room.frame(with_arm), None)
    assert scene.detector.state is ViewState.CLEAR
    assert {scene.frame(q) for q in sweep(100)} == {ViewState.CLEAR}


@pytest.mark.parametrize("in_front", [False, True], ids=["behind the arm", "in front of it"])
def test_a_person_who_overlaps_the_arm_is_an_intruder(scene: Scene, in_front: bool) -> None:
    u, v = scene.silhouette.project(np.array([[0.3, 0.0, 0.2]]))[0] * 2
    person = scene.room.with_person(u, v + 90, 200)
    seen = [scene.frame(q, person, in_front) for q in sweep(100)]
    assert ViewState.INTRUDER in seen[:2]
    assert set(seen[2:]) == {ViewState.INTRUDER}


def test_an_arm_whose_status_stopped_is_masked_where_it_was(scene: Scene) -> None:
    frames = [scene.room.frame(draw_arm(scene.room.picture, HOME_Q)) for _ in range(5)]
    for i, frame in enumerate(frames):
        poses = scene.track.during(scene.now_ns + (i + 1) * 10_000_000_000)
        assert scene.detector.update(frame, scene.silhouette.mask(poses)).state is ViewState.CLEAR


def test_an_offline_arm_gives_no_pose() -> None:
    track = ArmTrack(0.1)
    track.add(status(1_000, np.zeros(6), ArmState.OFFLINE))
    assert track.during(2_000) == []


def test_a_frame_is_masked_with_the_poses_of_its_own_time() -> None:
    track = ArmTrack(0.1)
    for i in range(100):
        track.add(status(1_000_000_000 + i * 20_000_000, HOME_Q + 0.01 * i))
    poses = track.during(2_500_000_000)
    stamps = [p.stamp_ns for p in poses]
    assert min(stamps) <= 2_500_000_000 - track.window_ns <= min(stamps) + 20_000_000
    assert max(stamps) == 2_500_000_000
    assert 2 <= len(poses) <= 5


def test_a_held_bottle_belongs_to_the_arm() -> None:
    silhouette = Silhouette(ARM, GUARD, CAMERA, (640, 360))
    tip = tubes(HOME_Q)[-1][1]
    around = np.array([[np.cos(a), np.sin(a), 0] for a in np.linspace(0, 6, 20)])
    bottle = silhouette.project(tip + 0.13 * around).round().astype(int)  # lying across the fingers
    empty, full = (silhouette.mask([ArmPose(1, HOME_Q, holding)]) for holding in (False, True))
    assert (full[bottle[:, 1], bottle[:, 0]] > 0).all()
    assert not (empty[bottle[:, 1], bottle[:, 0]] > 0).all()
    assert not ((empty > 0) & (full == 0)).any()


def test_a_frame_that_took_long_to_read_is_masked_with_the_arm_of_now(tmp_path: Path) -> None:
    """On a busy machine a frame is read for a while, and the arm moves on: its newest pose is asked for after the reading."""
    config = configuration.load("desk")
    program = Path(__file__).with_name("guard_camera_program.py")
    size = {"width": GUARD.width, "height": GUARD.height}
    command = f"{{python}} {program} --width {{width}} --height {{height}} --fps 15 --control {tmp_path}/x"
    camera = config.guard.cameras[0].model_copy(update={"command": command})
    config = config.model_copy(update={"guard": config.guard.model_copy(update=size)})
    view, track = View(config, camera, Path("x")), ArmTrack(1 / 15)
    asked: list[int] = []
    status = np.zeros((), ARM_STATUS)

    def hear_arm() -> None:
        asked.append(view.program.number)
        status["stamp_ns"], status["state"] = time.monotonic_ns(), ArmState.READY
        status["q_rad"] = HOME_Q + 0.1 * len(asked)
        track.add(status[()])

    end = time.monotonic() + 60
    try:
        while not view.look(time.monotonic_ns(), track, hear_arm):
            assert time.monotonic() < end
    finally:
        view.program.stop()
    assert asked == [1], "once, after the frame was there"
    assert view.arm_mask is not None
    assert np.array_equal(view.arm_mask, view.silhouette.mask(list(track.poses)))
