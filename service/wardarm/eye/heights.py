"""What stands on the table and on the leaf, by the depth picture: heights over a grid in the base frame.

Asked before something is fetched (is the place free where it will be set down?) and after it was let go (does it stand
there?). Glass and black may have no depth: what is not seen is told apart from what is seen to be empty.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.eye.frames import FrameBoard
from wardarm.policy.view import Optics, Pose, intrinsics

Array = NDArray[np.float64]

CELL_M = 0.010
X_M, Y_M, Z_M = (0.15, 0.80), (-0.50, 0.66), (-0.05, 0.34)
"""Of the grid, base frame; above it is the arm at home."""
RAISED_M = 0.007
"""Something lies there: a spoon is 13 mm high, depth is off by 2 mm a cell."""
LEVEL_M = 0.012
"""The leaf may be so far from the height of the table."""
CLEAR_M = 0.065
"""From the middle of a free place to what stands beside it: open fingers reach 57 mm to each side."""
FOOT_M = 0.06
"""Around the place where a thing stands, its top is looked for."""
SEEN_SHARE = 0.5
"""So much of a place has to have depth, or it is not seen."""
_STRIDE = 2
_SPOT_STEP_M = 0.01
_CHANGED, _CHANGED_SHARE = 25, 0.03
"""Grey levels of a pixel, and the share of pixels, by which a place looks different in colour."""
_SHRINK = 4


@dataclass(frozen=True)
class Heights:
    """`z_m` (rows along x, columns along y): top of what is seen in each cell, base frame; NaN where nothing is seen."""

    z_m: Array

    @staticmethod
    def measured(depth_m: NDArray[np.float32], pose: Pose, k: Array) -> Heights:
        """From a depth picture (H x W, m, 0 = none) of a camera at `pose` (base_T_camera) with intrinsics `k` (3 x 3)."""
        v, u = np.mgrid[0 : depth_m.shape[0] : _STRIDE, 0 : depth_m.shape[1] : _STRIDE]
        z = depth_m[v, u]
        rays = np.stack([(u - k[0, 2]) / k[0, 0], (v - k[1, 2]) / k[1, 1], np.ones_like(z)], -1).astype(np.float32)
        points = (rays * z[..., None])[z > 0.2] @ pose.rotation.T.astype(np.float32) + pose.position_m
        inside = np.all([(points[:, i] > r[0]) & (points[:, i] < r[1]) for i, r in enumerate((X_M, Y_M, Z_M))], 0)
        points = points[inside]
        shape = (math.ceil((X_M[1] - X_M[0]) / CELL_M), math.ceil((Y_M[1] - Y_M[0]) / CELL_M))
        cell = np.ravel_multi_index(
            (((points[:, 0] - X_M[0]) / CELL_M).astype(int), ((points[:, 1] - Y_M[0]) / CELL_M).astype(int)), shape
        )
        top = np.full(shape[0] * shape[1], -np.inf)
        np.maximum.at(top, cell, points[:, 2])
        return Heights(np.where(np.isfinite(top), top, np.nan).reshape(shape))

    def around(self, x_m: float, y_m: float, radius_m: float) -> Array:
        """Heights of the cells whose middle is within `radius_m` of a place, NaN among them."""
        x, y = _middles(self.z_m.shape)
        return np.asarray(self.z_m[np.hypot(x - x_m, y - y_m) <= radius_m])

    def seen_share(self, x_m: float, y_m: float, radius_m: float) -> float:
        cells = self.around(x_m, y_m, radius_m)
        return float(np.isfinite(cells).mean()) if len(cells) else 0.0

    def level_m(self, x_m: float, y_m: float, half_m: tuple[float, float]) -> float:
        """Height of the surface itself in a rectangle about a place: the median of what is seen. NaN if nothing is."""
        x, y = _middles(self.z_m.shape)
        inside = (np.abs(x - x_m) <= half_m[0]) & (np.abs(y - y_m) <= half_m[1]) & np.isfinite(self.z_m)
        return float(np.median(self.z_m[inside])) if inside.any() else math.nan

    def top_m(self, x_m: float, y_m: float, level_m: float = 0.0, radius_m: float = FOOT_M) -> float:
        """How high what stands at a place reaches above `level_m`: the third highest cell, for one may be an edge's echo.
        0 if nothing is raised; NaN if the place is not seen."""
        cells = self.around(x_m, y_m, radius_m)
        cells = np.sort(cells[np.isfinite(cells)])
        if len(cells) < 3:
            return math.nan
        top = float(cells[-3]) - level_m
        return top if top >= RAISED_M else 0.0

    def raised(self, level_m: float = 0.0) -> Array:
        """Middles (N, 2) of the cells in which something stands, m."""
        raised = np.nan_to_num(self.z_m, nan=-1.0) >= level_m + RAISED_M
        raised &= _has_neighbour(raised)
        x, y = _middles(self.z_m.shape)
        return np.column_stack([np.broadcast_to(v, raised.shape)[raised] for v in (x, y)])


def _middles(shape: tuple[int, ...]) -> tuple[Array, Array]:
    x = X_M[0] + (np.arange(shape[0]) + 0.5) * CELL_M
    y = Y_M[0] + (np.arange(shape[1]) + 0.5) * CELL_M
    return np.asarray(x[:, None], np.float64), np.asarray(y[None, :], np.float64)


def _has_neighbour(raised: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A single raised cell is noise."""
    padded = np.pad(raised, 1).astype(np.int8)
    steps = [s for s in itertools.product((0, 1, 2), repeat=2) if s != (1, 1)]
    around = sum(padded[i : i + raised.shape[0], j : j + raised.shape[1]] for i, j in steps)
    return np.asarray(around > 0)


@dataclass(frozen=True)
class Sight:
    """One look. `grey`: the colour picture, small, uint8; `to_pixel` (3 x 4): base frame, m -> its pixels."""

    heights: Heights
    grey: NDArray[np.uint8]
    to_pixel: Array
    captured_ns: int = 0

    def differs(self, other: Sight, x_m: float, y_m: float, z_m: float) -> bool:
        """Whether the thing's room over a place, up to `z_m`, looks different in colour than in another look."""
        corners = np.array(
            [(x_m + dx, y_m + dy, z) for dx in (-FOOT_M, FOOT_M) for dy in (-FOOT_M, FOOT_M) for z in (0.0, z_m)]
        )
        p = np.column_stack([corners, np.ones(len(corners))]) @ self.to_pixel.T
        (u0, v0), (u1, v1) = (p[:, :2] / p[:, 2:]).min(0), (p[:, :2] / p[:, 2:]).max(0)
        box = np.s_[max(0, int(v0)) : max(0, int(v1) + 1), max(0, int(u0)) : max(0, int(u1) + 1)]
        a, b = self.grey[box].astype(int), other.grey[box].astype(int)
        if not a.size or a.shape != b.shape:
            return False
        b = b + round(float(np.median(a) - np.median(b)))  # the light may have changed
        return float((np.abs(a - b) > _CHANGED).mean()) > _CHANGED_SHARE


class TableLook:
    """Looks at the newest pair of pictures. Colour pictures on the board are as the trained camera would see them."""

    def __init__(self, board: FrameBoard, pose: Pose, optics: Callable[[], Optics | None]) -> None:
        """`pose`: base_T_camera of the device's colour camera, from which depth's follows. `optics` is None until a device
        with depth is open."""
        self._board, self._pose, self._optics = board, pose, optics
        self._thread: threading.Thread | None = None
        self._seen: Sight | None = None
        trained = Pose.trained()
        to_camera = np.column_stack([trained.rotation.T, -trained.rotation.T @ trained.position_m])
        self._to_pixel = np.diag([1 / _SHRINK, 1 / _SHRINK, 1.0]) @ intrinsics() @ to_camera

    @property
    def has_depth(self) -> bool:
        """Whether the open device gives depth."""
        return self._optics() is not None

    def look(self, after_ns: int) -> Sight | None:
        """Does not wait: None until a picture captured after `after_ns` that has depth was looked at. A look takes some
        hundredths of a second, on a thread of its own."""
        if self._thread is not None and self._thread.is_alive():
            return None
        seen, self._seen = self._seen, None
        if seen is not None and seen.captured_ns > after_ns:
            return seen
        self._thread = threading.Thread(target=self._look, args=(after_ns,), name="table", daemon=True)
        self._thread.start()
        return None

    def _look(self, after_ns: int) -> None:
        optics = self._optics()
        frame = self._board.pin_latest() if optics is not None else None
        if frame is None or optics is None:
            return
        try:
            if frame.capture_ns <= after_ns:
                return
            depth = self._board.region.depth(frame.slot).astype(np.float32) * np.float32(optics.depth_unit_m)
            grey = self._board.region.colour(frame.slot)[::_SHRINK, ::_SHRINK].mean(-1).astype(np.uint8)
        finally:
            self._board.unpin(frame)
        if depth.any():
            heights = Heights.measured(depth, optics.depth_pose(self._pose), optics.depth_k)
            self._seen = Sight(heights, grey, self._to_pixel, frame.capture_ns)


def free_place(
    heights: Heights, wanted_m: tuple[float, float], room_m: tuple[float, float], level_m: float
) -> tuple[float, float] | None:
    """`wanted_m` (x, y) if it is free, else the nearest free place within `room_m` to each side; None if there is none."""
    steps = [np.arange(-r, r + 1e-9, _SPOT_STEP_M) if r > 0 else np.zeros(1) for r in room_m]
    offsets = sorted(((float(dx), float(dy)) for dx in steps[0] for dy in steps[1]), key=lambda o: math.hypot(*o))
    raised = heights.raised(level_m)
    for dx, dy in [(0.0, 0.0), *offsets]:
        x, y = wanted_m[0] + dx, wanted_m[1] + dy
        clear = not len(raised) or float(np.hypot(*(raised - (x, y)).T).min()) >= CLEAR_M
        if clear and heights.seen_share(x, y, CLEAR_M) >= SEEN_SHARE:
            return round(x, 4), round(y, 4)
    return None
