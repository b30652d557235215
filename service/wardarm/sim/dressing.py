"""The room as people see it: walls, door, window, bed with its linen, cabinet, drip stand. Nothing here is solid.

Lengths in m, base frame; seen by the room views and the film, not by the D455.
"""

from __future__ import annotations

import mujoco

from wardarm.sim.furniture import BLANKET_RGB, DRESSED, Builder, box_ends
from wardarm.sim.visitor import FLOOR_Z_M

ROOM_X_M, ROOM_Y_M, CEILING_Z_M = (-2.1, 3.0), (-2.4, 1.95), 1.75
CORRIDOR_X_M = 5.0
_WINDOW_X_M, _WINDOW_Z_M = (-0.55, 1.35), (0.25, 1.45)
_DOOR_Y_M, _DOOR_TOP_Z_M = (-1.95, -0.95), 1.35
_BED_X_M, _BED_Y_M, _BED_TOP_Z_M = (-0.80, 1.28), (0.62, 1.50), -0.10
_WALL, _RAIL, _WOOD, _WHITE = (0.90, 0.91, 0.88), (0.66, 0.76, 0.74), (0.55, 0.45, 0.34), (0.97, 0.97, 0.96)
_LINEN, _FRAME, _BEECH, _STEEL, _DARK = (
    (0.95, 0.96, 0.97), (0.80, 0.81, 0.82), (0.72, 0.62, 0.48), (0.55, 0.57, 0.60), (0.30, 0.31, 0.33),
)  # fmt: skip


def add_room(spec: mujoco.MjSpec) -> None:
    """Add everything. Needs the materials "matte" and "vinyl"."""
    size, pos = box_ends((ROOM_X_M[0], CORRIDOR_X_M), ROOM_Y_M, (FLOOR_Z_M - 0.05, FLOOR_Z_M))
    spec.worldbody.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=size, pos=pos, material="vinyl", contype=0, conaffinity=0, group=DRESSED
    )
    put = Builder(spec.worldbody)
    _walls(put)
    _door(put)
    _window(put)
    _bed(put)
    _equipment(put)


def _walls(put: Builder) -> None:
    (x0, x1), (y0, y1), z = ROOM_X_M, ROOM_Y_M, (FLOOR_Z_M, CEILING_Z_M)
    rail_z = (FLOOR_Z_M + 0.85, FLOOR_Z_M + 0.97)  # the hand rail that wards have
    put.box((x0 - 0.05, x0), (y0, y1), z, _WALL)
    put.box((x0, x0 + 0.02), (y0, y1), rail_z, _RAIL)
    put.box((x0, x1), (y0 - 0.05, y0), z, _WALL)
    put.box((x0, x1), (y0, y0 + 0.02), rail_z, _RAIL)
    put.box((CORRIDOR_X_M, CORRIDOR_X_M + 0.05), (y0, y1), z, _WALL)
    put.box((CORRIDOR_X_M - 0.02, CORRIDOR_X_M), (y0, y1), rail_z, _RAIL)


def _door(put: Builder) -> None:
    x, (y0, y1), (d0, d1), top = ROOM_X_M[1], ROOM_Y_M, _DOOR_Y_M, _DOOR_TOP_Z_M
    wall, frame = (x, x + 0.05), (x - 0.01, x + 0.06)
    put.box(wall, (y0, d0), (FLOOR_Z_M, CEILING_Z_M), _WALL)
    put.box(wall, (d1, y1), (FLOOR_Z_M, CEILING_Z_M), _WALL)
    put.box(wall, (d0, d1), (top, CEILING_Z_M), _WALL)
    put.box((x - 0.02, x), (d1 + 0.05, y1), (FLOOR_Z_M + 0.85, FLOOR_Z_M + 0.97), _RAIL)
    put.box(frame, (d0 - 0.04, d0), (FLOOR_Z_M, top + 0.04), _WOOD)
    put.box(frame, (d1, d1 + 0.04), (FLOOR_Z_M, top + 0.04), _WOOD)
    put.box(frame, (d0 - 0.04, d1 + 0.04), (top, top + 0.04), _WOOD)


def _window(put: Builder) -> None:
    (x0, x1), y, (w0, w1), (z0, z1) = ROOM_X_M, ROOM_Y_M[1], _WINDOW_X_M, _WINDOW_Z_M
    wall = (y, y + 0.05)
    put.box((x0, w0), wall, (FLOOR_Z_M, CEILING_Z_M), _WALL)
    put.box((w1, x1), wall, (FLOOR_Z_M, CEILING_Z_M), _WALL)
    put.box((w0, w1), wall, (FLOOR_Z_M, z0), _WALL)
    put.box((w0, w1), wall, (z1, CEILING_Z_M), _WALL)
    put.box((w0, w1), (y + 0.03, y + 0.04), (z0, z1), (0.72, 0.86, 0.97))
    for x in (w0, (w0 + w1) / 2 - 0.02, w1 - 0.04):
        put.box((x, x + 0.04), (y - 0.02, y + 0.03), (z0, z1), _WHITE)
    for z in (z0 - 0.04, z1 - 0.02):
        put.box((w0 - 0.05, w1 + 0.05), (y - 0.03, y + 0.03), (z, z + 0.05), _WHITE)


def _bed(put: Builder) -> None:
    (x0, x1), (y0, y1), top = _BED_X_M, _BED_Y_M, _BED_TOP_Z_M
    put.box((x0, x1), (y0, y1), (-0.34, -0.26), _FRAME)
    put.box((0.0, x1 - 0.03), (y0 + 0.02, y1 - 0.02), (-0.26, top), _LINEN)
    put.box((0.25, x1 - 0.02), (y0 + 0.005, y1 - 0.005), (-0.22, top + 0.015), BLANKET_RGB)
    put.box((0.10, 0.24), (y0 + 0.003, y1 - 0.003), (-0.20, top + 0.02), _LINEN)  # the sheet folded over it
    put.box((-0.75, 0.09), (0.64, 1.48), (0.02, 0.14), _LINEN, tilt_rad=0.75)  # the raised back rest
    put.ellipsoid((0.17, 0.26, 0.075), (-0.50, 1.06, 0.36), _WHITE, tilt_rad=0.75)
    put.box((x0 - 0.04, x0), (y0, y1), (-0.34, 0.28), _BEECH)
    put.box((x1, x1 + 0.04), (y0, y1), (-0.34, 0.06), _BEECH)
    for x in (x0 + 0.12, x1 - 0.12):
        for y in (y0 + 0.06, y1 - 0.06):
            put.box((x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (FLOOR_Z_M, -0.34), (0.45, 0.47, 0.50))
    put.capsule((0.70, y1, 0.04), (1.15, y1, 0.04), 0.014, _FRAME)
    for x in (0.70, 0.92, 1.15):
        put.capsule((x, y1, -0.3), (x, y1, 0.04), 0.011, _FRAME)


def _equipment(put: Builder) -> None:
    """Cabinet, drip stand, the table's legs, the camera on its mast."""
    f = FLOOR_Z_M
    put.box((-1.55, -1.05), (1.40, 1.85), (f, 0.05), (0.78, 0.70, 0.58))
    put.box((-1.54, -1.06), (1.395, 1.40), (-0.30, -0.02), (0.86, 0.79, 0.68))
    put.post(-0.95, 0.55, (f, f + 1.90), 0.012, (0.75, 0.76, 0.78))
    put.post(-0.95, 0.55, (f, f + 0.03), 0.20, _DARK)
    put.ellipsoid((0.05, 0.02, 0.10), (-0.90, 0.55, f + 1.70), (0.85, 0.92, 0.95))
    for x in (0.22, 0.72):
        for y in (-0.38, 0.38):
            put.box((x - 0.02, x + 0.02), (y - 0.02, y + 0.02), (f, -0.04), _STEEL)
    put.post(1.14, 0.0, (f, 0.74), 0.018, _DARK)
    put.box((1.085, 1.125), (-0.062, 0.062), (0.725, 0.755), (0.72, 0.73, 0.75))
    put.box((1.00, 1.28), (-0.14, 0.14), (f, f + 0.02), _DARK)
