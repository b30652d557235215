"""Where the bedside camera stands: found from markers, checked against depth, kept, and looked at again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest
from wardarm.eye import calibrate, place
from wardarm.eye.calibrate import Seen
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.place import CameraPlace, PlaceError, PlaceWatch
from wardarm.guard.calibrate import NotCalibrated
from wardarm.policy import contract
from wardarm.policy.view import Optics, Pose, intrinsics
from wardarm.shm import ring
from wardarm.sim import renderer, scenes
from wardarm.sim.views import D455_HEIGHT, D455_WIDTH
from wardarm.sim.world import World, build

K = intrinsics()
OPTICS = Optics(K, K, np.eye(3), np.zeros(3), 0.001)
ELSEWHERE = (np.array([0.018, -0.022, 0.009]), np.radians([1.5, -2.0, 1.2]))  # 30 mm and 2.8 degrees


class Table:
    """The simulated bedside as the D455 sees it, the camera where it is put."""

    def __init__(self) -> None:
        self.world = World(build(width=D455_WIDTH, height=D455_HEIGHT))
        self._renderer = renderer.Renderer(self.world.model)
        self._view = renderer.View(self._renderer, "d455", D455_WIDTH, D455_HEIGHT, renderer.D455_GROUPS)

    def seen(self, seed: int = 0, off: tuple[np.ndarray, np.ndarray] = (np.zeros(3), np.zeros(3))) -> Seen:
        self.world.load(scenes.sample(np.random.default_rng(seed)))
        self.world.move_camera(*off)
        mujoco.mj_forward(self.world.model, self.world.data)
        colour = self._view.draw(self.world.data, depth=True).copy()
        depth = np.round(self._view.depth_m(1), 3).astype(np.float32)
        return Seen(colour, np.where(depth < 3, depth, 0), OPTICS)

    def pose(self) -> Pose:
        camera = self.world.model.camera("d455").id
        data = self.world.data
        return Pose(data.cam_xpos[camera].copy(), data.cam_xmat[camera].reshape(3, 3) * [1.0, -1.0, -1.0])


@pytest.fixture(scope="module")
def table() -> Table:
    return Table()


def lay_markers(seen: Seen, pose: Pose, file: Path, **wrong: float) -> dict[int, np.ndarray]:
    """Draw four printed markers flat on the table into the picture, and write the file that says where they lie."""
    rows = []
    for number, (x, y) in enumerate([(0.30, -0.30), (0.32, 0.28), (0.62, -0.28), (0.64, 0.30)]):
        rows.append({"id": number, "size_m": 0.08, "pos": [x, y, 0.0], "rpy_deg": [0, 0, 30 * number]})
        page = cv2.copyMakeBorder(
            cv2.aruco.generateImageMarker(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50), number, 160),
            40, 40, 40, 40, cv2.BORDER_CONSTANT, value=255,
        )  # fmt: skip
        a = np.radians(30 * number)
        half = 0.08 / 2 * 240 / 160
        flat = np.array([[-half, half, 0], [half, half, 0], [half, -half, 0], [-half, -half, 0]])
        turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
        corners = (flat @ turn.T + [x, y, 0] - pose.position_m) @ pose.rotation @ K.T
        to = (corners[:, :2] / corners[:, 2:]).astype(np.float32)
        onto = cv2.getPerspectiveTransform(np.float32([[0, 0], [240, 0], [240, 240], [0, 240]]), to)
        drawn = cv2.warpPerspective(cv2.cvtColor(page, cv2.COLOR_GRAY2RGB), onto, (1280, 720), flags=cv2.INTER_AREA)
        there = cv2.warpPerspective(np.full_like(page, 255), onto, (1280, 720)) > 127
        seen.colour[there] = drawn[there]
    for name, value in wrong.items():
        rows[0]["pos"][{"x": 0, "y": 1}[name]] += value  # type: ignore[index]
    text = "\n".join(
        f"[[marker]]\nid = {r['id']}\nsize_m = {r['size_m']}\npos = {r['pos']}\nrpy_deg = {r['rpy_deg']}\n"
        for r in rows
    )
    file.write_text(text)
    from wardarm.guard.calibrate import measured_markers

    return measured_markers(file)


def test_markers_tell_where_a_camera_30_mm_and_3_degrees_off_stands(table: Table, tmp_path: Path) -> None:
    seen = table.seen(3, ELSEWHERE)
    markers = lay_markers(seen, table.pose(), tmp_path / "markers.toml")
    said: list[str] = []
    found = calibrate.calibrate(seen, markers, said.append)
    assert np.linalg.norm(found.pose.position_m - table.pose().position_m) < 0.003
    turn = np.degrees(np.arccos(np.clip((np.trace(found.pose.rotation.T @ table.pose().rotation) - 1) / 2, -1, 1)))
    assert turn < 0.2
    assert calibrate.from_trained(found.pose).seen in said[0]
    assert abs(calibrate.from_trained(found.pose).shift_m - np.linalg.norm(ELSEWHERE[0])) < 0.003
    # the reference is the table as the trained camera would see it
    trained = table.seen(3)
    on_table = (slice(200, 520), slice(350, 930))
    off = [np.abs(p[on_table].astype(float) - trained.colour[on_table]).mean() for p in (seen.colour, found.reference)]
    assert off[1] < 0.6 * off[0]


@pytest.mark.parametrize("wrong", [{"x": 0.02}, {"y": -0.02}])
def test_a_marker_that_lies_elsewhere_is_named(table: Table, tmp_path: Path, wrong: dict[str, float]) -> None:
    seen = table.seen(3)
    markers = lay_markers(seen, table.pose(), tmp_path / "markers.toml", **wrong)
    with pytest.raises(NotCalibrated, match=r"px, limit 1\.5; marker \d is off"):
        calibrate.calibrate(seen, markers, lambda _: None)


def test_a_camera_off_its_bracket_is_not_taken_as_trained(table: Table) -> None:
    calibrate.calibrate(table.seen(4), None, lambda _: None)
    with pytest.raises(NotCalibrated, match="depth says the table is"):
        calibrate.calibrate(table.seen(4, (np.array([0, 0, 0.012]), np.zeros(3))), None, lambda _: None)


def test_too_few_markers_are_counted(table: Table, tmp_path: Path) -> None:
    bare = table.seen(5)
    markers = lay_markers(table.seen(5), table.pose(), tmp_path / "markers.toml")
    with pytest.raises(NotCalibrated, match="0 of the 4 markers are seen"):
        calibrate.calibrate(bare, markers, lambda _: None)


def test_what_was_kept_is_read_back_and_what_is_broken_is_said(table: Table, tmp_path: Path) -> None:
    kept = calibrate.calibrate(table.seen(1), None, lambda _: None)
    kept.save(tmp_path)
    back = CameraPlace.load(tmp_path)
    np.testing.assert_array_equal(back.reference, kept.reference)
    np.testing.assert_allclose(back.pose.rotation, kept.pose.rotation)
    np.testing.assert_allclose(back.optics.k, OPTICS.k)
    file = tmp_path / place.PLACE
    good = json.loads(file.read_text())
    for change, says in (
        ({"position_m": [1, 2]}, "position_m has shape"),
        ({"k": [[float("nan")] * 3] * 3}, "k has shape"),
        ({"contract": "0"}, "another trained view"),
    ):
        file.write_text(json.dumps(good | change))
        with pytest.raises(PlaceError, match=says):
            CameraPlace.load(tmp_path)
    file.write_text(json.dumps(good))
    (tmp_path / place.REFERENCE).write_bytes(b"no picture")
    with pytest.raises(PlaceError, match=r"reference\.png is not a picture"):
        CameraPlace.load(tmp_path)
    file.unlink()
    with pytest.raises(PlaceError, match="No such file"):
        CameraPlace.load(tmp_path)


@pytest.fixture
def board() -> Iterator[FrameBoard]:
    prefix = f"place{os.getpid()}_"
    yield FrameBoard(FrameRegion(prefix, contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT, 2), prefix)
    for block in ring.SHM.glob(f"{prefix}*"):
        block.unlink()


def show(board: FrameBoard, watch: PlaceWatch, seen: Seen, at_home: bool, what: int) -> str:
    """Put a picture there and have it looked at."""
    now_ns = time.monotonic_ns()
    board.put(seen.colour, (seen.depth_m * 1000).round().astype(np.uint16), now_ns, now_ns, 0.0)
    end = time.monotonic() + 60
    while not watch.looked(what, at_home):
        assert time.monotonic() < end
        time.sleep(0.002)
    return watch.trouble


def test_a_knock_is_seen_and_other_things_on_the_table_are_not(table: Table, board: FrameBoard) -> None:
    watch = PlaceWatch(calibrate.calibrate(table.seen(0), None, lambda _: None), board)
    along = (np.array([0.010, 0.0, 0.0]), np.zeros(3))  # what depth cannot see: the picture alone tells
    higher = (np.array([0.0, 0.0, 0.010]), np.zeros(3))
    assert show(board, watch, table.seen(11), True, 1) == ""
    assert "edges are" in show(board, watch, table.seen(12, along), True, 2)
    assert show(board, watch, table.seen(12, along), False, 3) == "", "away from home there is no view to compare with"
    assert "the table is" in show(board, watch, table.seen(13, higher), False, 4)
    assert show(board, watch, table.seen(14), True, 5) == ""
    looks = watch.looks
    assert watch.looked(5, True)
    assert watch.looks == looks, "one look for one step"


def test_in_trouble_it_looks_again_by_itself(table: Table, board: FrameBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "AGAIN_S", 0.05)
    watch = PlaceWatch(calibrate.calibrate(table.seen(0), None, lambda _: None), board)
    assert show(board, watch, table.seen(1, ELSEWHERE), True, 1)
    back = table.seen(1)
    end = time.monotonic() + 60
    while watch.trouble:
        now_ns = time.monotonic_ns()
        board.put(back.colour, (back.depth_m * 1000).round().astype(np.uint16), now_ns, now_ns, 0.0)
        watch.again(True)
        assert time.monotonic() < end
        time.sleep(0.02)
