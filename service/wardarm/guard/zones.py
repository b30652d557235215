"""The zones of a view: polygons in pixels of the frame, checked when the configuration is read.

- `keep_out`: somebody with any part inside it, larger than the smallest area, holds the arm.
- `warn`: the same, but the arm goes on in the gentle profile.
- `authorised`: the bed and who lies in it. Where a blob's lowest point decides: what stands lower in the picture than
  the zone stands in front of it, and counts with all of its pixels.
- `mask`: screens and windows: nothing is seen there at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import ConfigError, Guard, RoomCamera, Zone

Polygon = Sequence[tuple[float, float]]
Grey = NDArray[np.uint8]
WATCHED = ("keep_out", "warn")
SHUT_MAX = 0.5  # authorised and mask together may take this share of a keep-out zone, not more


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
    if len(polygon) < 3:
        raise ConfigError(f"{key}: {len(polygon)} points are no area; a zone needs at least 3")
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


def of(camera: RoomCamera) -> list[Zone]:
    """Every zone of a camera; `keep_out` of the camera itself first."""
    short = [Zone(kind="keep_out", polygon=camera.keep_out)] if camera.keep_out else []
    return short + list(camera.zones)


def keys(camera: RoomCamera) -> Iterator[tuple[str, Zone]]:
    """What each zone is called in the configuration."""
    at = f"guard.cameras[{camera.name}]"
    if camera.keep_out:
        yield f"{at}.keep_out", of(camera)[0]
    for i, zone in enumerate(camera.zones):
        yield f"{at}.zones[{zone.name or i}]", zone


def check_camera(camera: RoomCamera, guard: Guard) -> None:
    """All zones of a camera together. Raises ConfigError."""
    always = False
    for key, zone in keys(camera):
        check(key, zone.polygon, guard)
        if bool(zone.start) != bool(zone.end) or (zone.start and zone.start == zone.end):
            raise ConfigError(
                f"{key}: start = {zone.start!r}, end = {zone.end!r}: give two different times, or neither"
            )
        if zone.kind == "mask" and zone.start:
            raise ConfigError(f"{key}: a mask has no times: what is behind it was never learnt")
        always |= zone.kind == "keep_out" and not zone.start
    at = f"guard.cameras[{camera.name}]"
    if not any(z.kind == "keep_out" for z in of(camera)):
        raise ConfigError(f"{at}: no keep_out zone at all: this camera would watch nothing; draw one")
    if not always:
        raise ConfigError(
            f"{at}: every keep_out zone has times, so nothing is watched between them; one must be always"
        )
    size = (guard.width, guard.height)
    shut = np.zeros(size[::-1], np.uint8)
    for zone in of(camera):
        if zone.kind in ("authorised", "mask"):
            shut |= mask(zone.polygon, guard, size)
    for key, zone in keys(camera):
        if zone.kind == "keep_out":
            area = mask(zone.polygon, guard, size)
            share = cv2.countNonZero(cv2.bitwise_and(area, shut)) / max(1, cv2.countNonZero(area))
            if share > SHUT_MAX:
                raise ConfigError(
                    f"{key}: {100 * share:.0f} % of it lies in authorised or mask zones; at most {100 * SHUT_MAX:.0f} %"
                )


def mask(polygon: Polygon, guard: Guard, size: tuple[int, int]) -> Grey:
    """255 inside, shape (height, width) of `size` = (width, height); the edge itself counts as inside."""
    scale = np.array([size[0] / guard.width, size[1] / guard.height])
    points = np.rint(np.array(polygon, np.float64) * scale).astype(np.int32)
    out = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(out, [points], 255)
    return out


def active(start: str, end: str, minute: int) -> bool:
    """`minute` of the day, local time; times over midnight ("22:00" to "06:00") are meant so."""
    if not start:
        return True
    first, last = (int(t[:2]) * 60 + int(t[3:]) for t in (start, end))
    return first <= minute < last if first < last else minute >= first or minute < last


def minute_of_day() -> int:
    now = time.localtime()
    return now.tm_hour * 60 + now.tm_min


@dataclass(frozen=True)
class Area:
    """One watched zone at work size: `pixels` uint8 (height, width), 255 inside; `min_px` the smallest blob."""

    kind: str
    name: str
    pixels: Grey
    min_px: float
    dwell_s: float
    start: str
    end: str


def areas(camera: RoomCamera, guard: Guard, size: tuple[int, int]) -> list[Area]:
    """The keep-out and warn zones of a camera, `size` = (width, height)."""
    frame_px = size[0] * size[1]
    return [
        Area(
            z.kind, z.name, mask(z.polygon, guard, size), (z.min_area_percent or guard.min_area_percent) / 100 * frame_px,
            z.dwell_s, z.start, z.end,
        )
        for z in of(camera)
        if z.kind in WATCHED
    ]  # fmt: skip
