"""The bedside: table, leaf, plain bed, and the patient in it (`dressing` adds the room).

Geom groups decide who sees what: `SHARED` is in every view; `TRAINED` is the plain floor and bed that the D455
picture had when the policy was trained, and only that picture shows them; `DRESSED` is the room as people see it.
Lengths in m, base frame; the floor is 0.75 m below the table top.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from wardarm.sim.room_views import camera_axes
from wardarm.sim.scenes import LEAF_X_M, LEAF_Y_M, TABLE_X_M, TABLE_Y_M
from wardarm.sim.visitor import FLOOR_Z_M

SHARED, DRESSED, TRAINED = 0, 1, 4
Vec3 = tuple[float, float, float]
Rgb = tuple[float, float, float]
_GEOM = mujoco.mjtGeom
TABLE_RGBA = (0.78, 0.70, 0.58, 1.0)
LEAF_RGBA = (0.85, 0.88, 0.92, 1.0)
"""As the bed's linen: of seven looks tried on 250 scenes, among those that led the policy astray least."""
_TABLE_THICKNESS = 0.04
BLANKET_RGB = (0.55, 0.70, 0.80)
D455_POS, D455_LOOK, D455_FOVY_DEG = (1.08, 0.0, 0.74), (0.46, 0.0, 0.03), 58.0


def box_ends(x: Sequence[float], y: Sequence[float], z: Sequence[float]) -> tuple[list[float], list[float]]:
    """(half sizes, middle) of a box given by its ends."""
    low, high = np.array([x[0], y[0], z[0]]), np.array([x[1], y[1], z[1]])
    return list((high - low) / 2), list((high + low) / 2)


def look_at(pos: Sequence[float], look: Sequence[float]) -> list[float]:
    """Camera quaternion (w x y z): optical axis through `look`, image upright."""
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, camera_axes(pos, look).T.ravel())
    return list(quat)


def add_trained_bedside(spec: mujoco.MjSpec) -> None:
    """What the policy's pictures showed, the D455 camera and its lights. Changing any of it means training again."""
    w = spec.worldbody
    w.add_light(name="l0", pos=[0.2, -0.6, 2.2], dir=[0, 0.3, -1], diffuse=[0.7] * 3, castshadow=False)
    w.add_light(name="l1", pos=[0.9, 0.8, 2.0], dir=[-0.3, -0.4, -1], diffuse=[0.35] * 3, castshadow=False)
    w.add_geom(
        name="floor", type=_GEOM.mjGEOM_PLANE, size=[3, 3, 0.1], pos=[0, 0, FLOOR_Z_M], rgba=[0.75, 0.77, 0.78, 1],
        group=TRAINED,
    )  # fmt: skip
    size, pos = box_ends(TABLE_X_M, TABLE_Y_M, (-_TABLE_THICKNESS, 0))
    w.add_geom(
        name="table",
        type=_GEOM.mjGEOM_BOX,
        size=size,
        pos=pos,
        rgba=TABLE_RGBA,
        friction=[1, 0.01, 0.001],
        group=SHARED,
    )
    w.add_geom(
        name="pedestal", type=_GEOM.mjGEOM_BOX, size=[0.12, 0.12, 0.37], pos=[0, 0, -0.375], rgba=[0.4, 0.4, 0.42, 1],
        group=SHARED,
    )  # fmt: skip
    w.add_geom(
        name="bed", type=_GEOM.mjGEOM_BOX, size=[0.6, 0.35, 0.25], pos=[0.5, 0.95, -0.35], rgba=[0.85, 0.88, 0.92, 1],
        group=TRAINED,
    )  # fmt: skip
    mat = w.add_body(name="mat", mocap=True, pos=[0.6, 0, 0.0005])
    mat.add_geom(
        name="mat", type=_GEOM.mjGEOM_CYLINDER, size=[0.05, 0.0008, 0], rgba=[0.15, 0.15, 0.15, 1],
        contype=0, conaffinity=0, group=SHARED,
    )  # fmt: skip
    w.add_camera(name="d455", pos=D455_POS, quat=look_at(D455_POS, D455_LOOK), fovy=D455_FOVY_DEG)


def add_leaf(spec: mujoco.MjSpec) -> None:
    """The over-bed leaf: the table goes on towards the bed, so that a piece is set down within reach."""
    size, pos = box_ends(LEAF_X_M, LEAF_Y_M, (-_TABLE_THICKNESS, 0))
    spec.worldbody.add_geom(
        name="leaf", type=_GEOM.mjGEOM_BOX, size=size, pos=pos, rgba=LEAF_RGBA, friction=[1, 0.01, 0.001], group=SHARED
    )


def add_materials(spec: mujoco.MjSpec, tiles: bool) -> None:
    """Cloth, skin and walls do not shine as plastic does; the floor is a hospital's vinyl, in tiles if asked (drawing
    a texture costs a CPU more than the rest of the room)."""
    spec.add_material(name="matte", specular=0.04, shininess=0.1)
    if not tiles:
        spec.add_material(name="vinyl", rgba=[0.71, 0.755, 0.76, 1], specular=0.2)
        return
    spec.add_texture(
        name="vinyl", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.70, 0.745, 0.75], rgb2=[0.72, 0.765, 0.77], width=256, height=256,
    )  # fmt: skip
    spec.add_material(name="vinyl", textures=["", "vinyl"], texrepeat=[2, 2], texuniform=True, specular=0.2)


def add_patient(spec: mujoco.MjSpec) -> None:
    """The patient, half sitting, and what the blanket covers of them. Solid: whatever touches them is counted. Seen in
    the dressed views."""
    skin, gown, hair, blanket = (0.86, 0.69, 0.57), (0.62, 0.76, 0.82), (0.55, 0.54, 0.53), BLANKET_RGB
    put = Builder(spec.worldbody.add_body(name="patient"), solid=True)
    put.capsule((-0.02, 1.06, 0.00), (-0.30, 1.06, 0.26), 0.14, gown)
    put.capsule((-0.30, 0.93, 0.26), (-0.30, 1.19, 0.26), 0.075, gown)
    put.capsule((-0.34, 1.06, 0.33), (-0.40, 1.06, 0.42), 0.05, skin)
    put.ellipsoid((0.085, 0.075, 0.11), (-0.415, 1.06, 0.475), skin)
    put.ellipsoid((0.09, 0.082, 0.10), (-0.445, 1.06, 0.50), hair)
    for shoulder, elbow, wrist in (
        ((-0.29, 0.88, 0.23), (-0.08, 0.82, 0.05), (0.14, 0.86, 0.03)),
        ((-0.29, 1.24, 0.23), (-0.10, 1.31, 0.04), (0.12, 1.24, 0.03)),
    ):
        put.capsule(shoulder, elbow, 0.045, gown)
        put.capsule(elbow, wrist, 0.036, skin)
    put.ellipsoid((0.06, 0.04, 0.02), (0.20, 0.87, 0.02), skin)
    put.ellipsoid((0.46, 0.33, 0.14), (0.32, 1.06, -0.11), blanket)  # lap, knees, feet
    put.ellipsoid((0.42, 0.27, 0.12), (0.72, 1.06, -0.11), blanket)
    put.ellipsoid((0.13, 0.20, 0.13), (1.05, 1.06, -0.08), blanket)


class Builder:
    """Adds matte shapes of the dressed room to a body. Lengths in m, colours RGB 0..1."""

    def __init__(self, body: mujoco.MjsBody, solid: bool = False) -> None:
        self._body = body
        self._look = {"contype": int(solid), "conaffinity": int(solid), "group": DRESSED, "material": "matte"}

    def box(self, x: Sequence[float], y: Sequence[float], z: Sequence[float], rgb: Rgb, tilt_rad: float = 0.0) -> None:
        """From and to along each axis, then tilted about its own y axis."""
        size, pos = box_ends(x, y, z)
        self._add(_GEOM.mjGEOM_BOX, rgb, size=size, pos=pos, quat=_about_y(tilt_rad))

    def capsule(self, a: Vec3, b: Vec3, radius: float, rgb: Rgb) -> None:
        self._add(_GEOM.mjGEOM_CAPSULE, rgb, fromto=[*a, *b], size=[radius, 0, 0])

    def post(self, x: float, y: float, z: Sequence[float], radius: float, rgb: Rgb) -> None:
        """An upright cylinder from z to z."""
        size, pos = [radius, (z[1] - z[0]) / 2, 0], [x, y, (z[0] + z[1]) / 2]
        self._add(_GEOM.mjGEOM_CYLINDER, rgb, size=size, pos=pos)

    def ellipsoid(self, size: Vec3, pos: Vec3, rgb: Rgb, tilt_rad: float = 0.0) -> None:
        self._add(_GEOM.mjGEOM_ELLIPSOID, rgb, size=size, pos=pos, quat=_about_y(tilt_rad))

    def _add(self, shape: mujoco.mjtGeom, rgb: Rgb, **where: object) -> None:
        self._body.add_geom(type=shape, rgba=[*rgb, 1.0], **where, **self._look)


def _about_y(angle_rad: float) -> list[float]:
    return [math.cos(angle_rad / 2), 0.0, math.sin(angle_rad / 2), 0.0]


def add_film_light(spec: mujoco.MjSpec) -> None:
    """Daylight from the door's side that throws shadows."""
    spec.visual.quality.shadowsize = 2048
    spec.worldbody.add_light(
        name="film", type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=[1.5, -1.0, 3], dir=[-0.35, 0.5, -1.0],
        diffuse=[0.35] * 3, specular=[0.1] * 3, castshadow=True,
    )  # fmt: skip
