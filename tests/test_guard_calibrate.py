"""A room camera's place from ArUco markers in rendered pictures: found within centimetres, refused when it cannot be."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from guard_room import Room
from wardarm.config import Arm, Guard, RoomCamera
from wardarm.guard import calibrate
from wardarm.guard.calibrate import NotCalibrated, Pair, Place
from wardarm.guard.silhouette import Silhouette

GUARD = Guard()
SIZE = (GUARD.width, GUARD.height)
TRUTH = RoomCamera(
    name="door", command="x", keep_out=[(0, 0), (640, 0), (640, 360)], camera_pos=(2.85, -2.25, 1.60),
    camera_look=(0.55, -0.05, -0.40), roll_deg=4.0, fovy_deg=54.0,
)  # fmt: skip


def view(camera: RoomCamera) -> Silhouette:
    return Silhouette(Arm(), GUARD, camera, SIZE)


def square(centre: np.ndarray, size_m: float) -> np.ndarray:
    """Corners of a marker that faces the camera, as a person would hold it."""
    right, down = view(TRUTH).axes[0] * size_m / 2, view(TRUTH).axes[1] * size_m / 2
    return np.array([centre - right - down, centre + right - down, centre + right + down, centre - right + down])


def picture(corners: dict[int, np.ndarray]) -> np.ndarray:
    """The room with those markers in it, printed with a white margin, as the true camera sees them."""
    room = Room()
    out = room.picture.copy()
    for number, points in corners.items():
        tile = np.full((80, 80), 255, np.uint8)
        tile[10:70, 10:70] = cv2.aruco.generateImageMarker(
            cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50), number, 60
        )
        source = np.array([[10, 10], [70, 10], [70, 70], [10, 70]], np.float32) - 0.5
        warp = cv2.getPerspectiveTransform(source, view(TRUTH).project(points).astype(np.float32))
        shown = cv2.warpPerspective(tile, warp, SIZE)
        inside = cv2.warpPerspective(np.full_like(tile, 255), warp, SIZE) > 200
        out[inside] = shown[inside]
    return room.frame(out)


PLACES = [np.array(p) for p in (
    (0.3, -0.3, 0.1), (0.7, -0.4, 0.3), (0.5, 0.3, 0.2), (0.2, 0.2, 0.5), (0.8, 0.1, 0.05), (0.4, -0.1, 0.6), (0.6, 0.4, 0.55),
    (0.25, -0.5, 0.45))]  # fmt: skip


def seen_places(places: list[np.ndarray]) -> list[Pair]:
    pairs = []
    for place in places:
        found = calibrate.find_markers(picture({7: square(place, 0.2)}))
        if 7 in found:
            pairs.append(Pair(tuple(place), tuple(found[7].mean(0))))
    return pairs


def off_px(place: Place) -> float:
    """Largest distance, pixels, between the true camera's and the found one's picture of the arm's reach."""
    found = TRUTH.model_copy(update={"camera_pos": place.camera_pos, "camera_look": place.camera_look,
                                     "roll_deg": place.roll_deg, "fovy_deg": place.fovy_deg})  # fmt: skip
    grid = np.array([(x, y, z) for x in (0.0, 0.4, 0.8) for y in (-0.6, 0.0, 0.6) for z in (0.0, 0.4, 0.8)])
    return float(np.linalg.norm(view(TRUTH).project(grid) - view(found).project(grid), axis=1).max())


def test_a_marker_on_the_gripper_at_eight_places_gives_the_camera() -> None:
    pairs = seen_places(PLACES)
    assert len(pairs) >= 6
    place = calibrate.solve(pairs, *SIZE)
    assert place.rms_px < 1.0
    assert off_px(place) < 6
    assert place.roll_deg == pytest.approx(4.0, abs=1.0)


def test_measured_markers_give_the_camera(tmp_path: Path) -> None:
    file = tmp_path / "markers.toml"
    rows = [(1, (0.6, -0.5, 0.0), 0), (2, (0.5, 0.4, 0.0), 90), (3, (1.1, -0.7, -0.3), 30), (4, (0.1, -0.6, 0.3), 0)]
    file.write_text(
        "".join(
            f"[[marker]]\nid = {i}\nsize_m = 0.22\npos = {list(p)}\nrpy_deg = [0, 0, {yaw}]\n" for i, p, yaw in rows
        )
    )
    measured = calibrate.measured_markers(file)
    seen = calibrate.find_markers(picture(measured))
    pairs = [Pair(tuple(p), tuple(c)) for i in seen for p, c in zip(measured[i], seen[i], strict=True)]
    place = calibrate.solve(pairs, *SIZE)
    assert place.rms_px < 1.5
    assert off_px(place) < 12
    assert "camera_pos = [" in place.toml()


def test_a_place_that_was_measured_wrongly_is_refused_and_named() -> None:
    pairs = seen_places(PLACES)
    wrong = [Pair((p.point[0] + 0.15, *p.point[1:]), p.pixel) if i == 2 else p for i, p in enumerate(pairs)]
    with pytest.raises(NotCalibrated, match=r"px \(limit 3\.0\); the worst is point"):
        calibrate.solve(wrong, *SIZE)


def test_too_few_or_too_close_points_are_refused() -> None:
    pairs = seen_places(PLACES)
    with pytest.raises(NotCalibrated, match="5 points; at least 6"):
        calibrate.solve(pairs[:5], *SIZE)
    close = [Pair(p.point, (300 + i, 200)) for i, p in enumerate(pairs)]
    with pytest.raises(NotCalibrated, match="of the picture; spread them"):
        calibrate.solve(close, *SIZE)


def test_a_rolled_camera_turns_the_picture_the_other_way() -> None:
    """Turned clockwise as it looks: the picture turns counter-clockwise."""
    level, rolled = view(TRUTH.model_copy(update={"roll_deg": 0.0})), view(TRUTH.model_copy(update={"roll_deg": 10.0}))
    right = TRUTH.camera_look + 0.5 * level.axes[0]
    assert level.project(right[None])[0, 1] == pytest.approx(SIZE[1] / 2)
    assert rolled.project(right[None])[0, 1] < SIZE[1] / 2 - 5


def test_a_broken_marker_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text("[[marker]]\nid = 1\n")
    with pytest.raises(NotCalibrated, match=r"m\.toml: KeyError: 'size_m'"):
        calibrate.measured_markers(tmp_path / "m.toml")
