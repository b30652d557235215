"""The keep-out zone of a view: a polygon in pixels of the frame, checked when the configuration is read.

A person with any part inside it, larger than `guard.min_area_percent`, holds the arm.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import ConfigError, Guard

Polygon = Sequence[tuple[float, float]]


def area_px(polygon: Polygon) -> float:
    """Shoelace formula, pixels."""
    x, y = np.array(polygon, np.float64).T
    return float(abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2)


def _side(a: tuple[float, float], b: tuple[float, float], p: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])


def _between(a: tuple[float, float], b: tuple[float, float], p: tuple[float, float]) -> bool:
    return min(a[0], b[0]) <= p[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= p[1] <= max(a[1], b[1])


def _cross(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float], d: tuple[float, float]) -> bool:
    """True if segments ab and cd meet, touching ends and overlaps included."""
    d1, d2, d3, d4 = _side(c, d, a), _side(c, d, b), _side(a, b, c), _side(a, b, d)
    if d1 * d2 < 0 and d3 * d4 < 0:
        return True
    touches = ((d1, c, d, a), (d2, c, d, b), (d3, a, b, c), (d4, a, b, d))
    return any(side == 0 and _between(p, q, r) for side, p, q, r in touches)


def crossing(polygon: Polygon) -> tuple[int, int] | None:
    """Two edges (each named by its first point, counted from 1) that meet though they are not neighbours, or None."""
    n = len(polygon)
    for i in range(n):
        for j in range(i + 2, n):
            if i == 0 and j == n - 1:
                continue
            if _cross(polygon[i], polygon[(i + 1) % n], polygon[j], polygon[(j + 1) % n]):
                return i + 1, j + 1
    return None


def check(key: str, polygon: Polygon, guard: Guard) -> None:
    """Raises ConfigError naming `key`, the point or edges, and the limit."""
    for i, (x, y) in enumerate(polygon, 1):
        if not (0 <= x <= guard.width and 0 <= y <= guard.height):
            raise ConfigError(
                f"{key}: point {i} = ({x:g}, {y:g}) lies outside the {guard.width} x {guard.height} frame"
            )
        if tuple(polygon[i % len(polygon)]) == (x, y):
            raise ConfigError(f"{key}: points {i} and {i % len(polygon) + 1} are the same; remove one")
    met = crossing(polygon)
    if met:
        raise ConfigError(
            f"{key}: the edge from point {met[0]} meets the edge from point {met[1]}; "
            "list the corners in order around the zone"
        )
    smallest = guard.min_area_percent / 100 * guard.width * guard.height
    if area_px(polygon) < 4 * smallest:
        raise ConfigError(
            f"{key}: {area_px(polygon):.0f} px is too small; at least {4 * smallest:.0f} px "
            f"(4 x guard.min_area_percent = {guard.min_area_percent:g} % of the frame)"
        )


def mask(polygon: Polygon, guard: Guard, size: tuple[int, int]) -> NDArray[np.uint8]:
    """255 inside, shape (height, width) of `size` = (width, height); the edge itself counts as inside."""
    scale = np.array([size[0] / guard.width, size[1] / guard.height])
    points = np.rint(np.array(polygon, np.float64) * scale).astype(np.int32)
    out = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(out, [points], 255)
    return out
