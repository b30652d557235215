"""The arm's own shadow on the table is left out where the lamp is named; a person in it is not. The shadow is drawn from
points along the links and rays from the lamp, not with the code that masks it."""

from __future__ import annotations

from itertools import pairwise

import cv2
import numpy as np
from guard_room import Room
from wardarm.config import Arm, Guard, RoomCamera
from wardarm.guard.detector import Detector, ViewState, work_size
from wardarm.guard.silhouette import ArmPose, Silhouette
from wardarm.kinematics import Kinematics

LAMP = (1.2, 1.0, 1.3)
GUARD = Guard(fps=10, lamps=[LAMP], shadow_z=[0.0])
CAMERA = RoomCamera(
    name="door", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)], camera_pos=(2.85, -2.25, 1.60),
    camera_look=(0.55, -0.05, -0.40), fovy_deg=54.0,
)  # fmt: skip
LINK_RADIUS_M, LIGHT_LEFT = 0.05, 0.65
HOME = np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5])


def shadow_on(picture: np.ndarray, q_rad: np.ndarray) -> np.ndarray:
    """The picture with the arm's shadow on the table top, z = 0."""
    whole, lamp = Silhouette(Arm(), GUARD, CAMERA, (640, 360)), np.array(LAMP)
    origins = np.stack(Kinematics(Arm()).frames(q_rad))[:, :3, 3]
    dark = np.zeros((360, 640), np.uint8)
    for a, b in pairwise(origins[1:]):
        for part in np.linspace(0, 1, 40):
            point = a + part * (b - a)
            way = lamp[2] / (lamp[2] - point[2])
            foot = lamp + (point - lamp) * way
            centre = whole.project(foot[None])[0]
            radius = LINK_RADIUS_M * way * whole.focal_px / np.linalg.norm(foot - whole.position)
            cv2.circle(dark, (round(centre[0]), round(centre[1])), max(1, round(radius)), 255, -1)
    out = picture.copy()
    out[dark > 0] *= LIGHT_LEFT
    return out


def states(lamps: list[tuple[float, float, float]], person_px: float = 0.0) -> set[ViewState]:
    """The arm turns by 0.5 rad over the table; with `person_px` somebody dark stands in its shadow, so tall."""
    guard = GUARD.model_copy(update={"lamps": lamps})
    room, silhouette, detector = Room(), Silhouette(Arm(), guard, CAMERA, work_size(guard)), Detector(guard, CAMERA)
    room.picture = np.maximum(room.picture, 90)
    pose = [ArmPose(1, HOME, False)]
    while detector.state is ViewState.LEARNING:
        frame = room.frame(shadow_on(room.picture, HOME))
        detector.update(frame, silhouette.mask(pose), own_shadow=silhouette.shadow(pose))
    found = set()
    for turn in np.linspace(0, 0.5, 10):
        q = HOME + np.array([turn, 0, 0, 0, 0, 0])
        shown = shadow_on(room.picture, q)
        if person_px:
            foot = Silhouette(Arm(), guard, CAMERA, (640, 360)).project(np.array([[0.45, 0.1, 0.0]]))[0]
            room_was, room.picture = room.picture, shown
            shown, room.picture = room.with_person(float(foot[0]), float(foot[1]) + 40, person_px), room_was
        pose = [ArmPose(1, q, False)]
        found.add(detector.update(room.frame(shown), silhouette.mask(pose), own_shadow=silhouette.shadow(pose)).state)
    return found


def test_the_arms_shadow_is_left_out_where_the_lamp_is_named() -> None:
    assert ViewState.INTRUDER in states([]), "without the lamp's place the shadow counts: it holds, it does not hide"
    assert states([LAMP]) == {ViewState.CLEAR}


def test_somebody_in_the_arms_shadow_is_seen() -> None:
    assert ViewState.INTRUDER in states([LAMP], person_px=170)
