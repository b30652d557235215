"""Where the three room cameras hang, and which part of each picture nobody should walk into.

No GL in here: the guard's configuration, the renderer and the tests all use it. Base frame, metres; pixels with
(0, 0) at the top left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.sim.visitor import FLOOR_Z_M

ROOM_WIDTH, ROOM_HEIGHT = 640, 360


@dataclass(frozen=True)
class RoomView:
    """A fixed room camera: position and a point on its axis (base frame, m), vertical field of view."""

    name: str
    pos: tuple[float, float, float]
    look: tuple[float, float, float]
    fovy_deg: float


ROOM_VIEWS: tuple[RoomView, ...] = (
    RoomView("bed", (2.85, 1.70, 1.60), (0.70, -0.15, -0.30), 54.0),
    RoomView("door", (2.85, -2.25, 1.60), (0.55, -0.05, -0.40), 54.0),
    RoomView("window", (-1.95, -2.10, 1.60), (0.75, -0.10, -0.40), 54.0),
)
FILM_VIEW = RoomView("film", (2.42, 1.45, 1.30), (0.36, 0.06, -0.10), 42.0)

KEEP_OUT_FLOOR: tuple[tuple[float, float], ...] = (
    (-1.35, -1.45), (1.95, -1.45), (1.95, 0.95), (1.45, 0.95), (1.45, 0.45), (-1.35, 0.45),
)  # fmt: skip
"""The floor around arm and table up to the bed, (x, y) m: about a stride wider than the arm reaches."""
_NEAR_M = 0.05


def camera_axes(pos: Sequence[float], look: Sequence[float]) -> NDArray[np.float64]:
    """Rows right, up, backward of a camera whose axis passes through `look`, image upright."""
    z = np.asarray(pos, float) - np.asarray(look, float)
    z /= np.linalg.norm(z)
    x = np.cross([0.0, 0.0, 1.0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z])


def project(view: RoomView, point: Sequence[float], width: int, height: int) -> tuple[float, float]:
    """Pixel of a point in front of the camera. `point` in m, base frame."""
    right, up, backward = camera_axes(view.pos, view.look) @ (np.asarray(point, float) - view.pos)
    return _pixel(right, up, backward, view, width, height)


def _pixel(right: float, up: float, backward: float, view: RoomView, width: int, height: int) -> tuple[float, float]:
    focal = 0.5 * height / np.tan(np.radians(view.fovy_deg) / 2)
    return float(width / 2 + focal * right / -backward), float(height / 2 - focal * up / -backward)


def _clip(points: list[NDArray[np.float64]], normal: Sequence[float], offset: float) -> list[NDArray[np.float64]]:
    """The part of a polygon where normal . p >= offset (Sutherland and Hodgman)."""
    n, kept = np.asarray(normal, float), []
    for a, b in zip(points, points[1:] + points[:1], strict=True):
        da, db = float(n @ a) - offset, float(n @ b) - offset
        if da >= 0:
            kept.append(a)
        if da * db < 0:
            kept.append(a + (b - a) * da / (da - db))
    return kept


def keep_out(view: RoomView, width: int, height: int) -> list[tuple[int, int]]:
    """`KEEP_OUT_FLOOR` as this camera sees it: a polygon in pixels, cut at the picture's edge."""
    axes = camera_axes(view.pos, view.look)
    corners = [axes @ (np.array([x, y, FLOOR_Z_M]) - view.pos) for x, y in KEEP_OUT_FLOOR]
    seen = _clip(corners, (0, 0, -1), _NEAR_M)
    pixels: list[NDArray[np.float64]] = [np.array(_pixel(p[0], p[1], p[2], view, width, height)) for p in seen]
    for normal, offset in (((1, 0), 0), ((-1, 0), -(width - 1)), ((0, 1), 0), ((0, -1), -(height - 1))):
        pixels = _clip(pixels, normal, offset)
    return [(round(float(p[0])), round(float(p[1]))) for p in pixels]
