"""Cups, bowls, bottles, spoons as MuJoCo bodies: solid, graspable, coloured by the scene."""

from __future__ import annotations

import mujoco

from wardarm.sim.scenes import KINDS, PER_KIND

_CYLINDER, _BOX, _ELLIPSOID = mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_ELLIPSOID
_FRICTION = [1.0, 0.01, 0.001]
DARK, KNOB, HANDLE = "d", "k", "h"
"""Parts, the end of a geom's name: the inside of a vessel, a bottle's black cap, a cup's handle."""


def names() -> list[str]:
    return [f"{kind}{i}" for kind in KINDS for i in range(PER_KIND)]


def is_solid(geom: str) -> bool:
    """Whether the geom of this name touches anything: the inside of a vessel and a handle are looks only."""
    return geom.rpartition("_")[2] not in (DARK, HANDLE)


def add_tableware(spec: mujoco.MjSpec) -> None:
    """Add every piece with a free joint of its own name. Geoms are called `<piece>_<part>`; lengths in m, kg."""
    for name in names():
        body = spec.worldbody.add_body(name=name, pos=[0, 0, -3])
        body.add_freejoint(name=name)
        _PARTS[name[:-1]](body, name)


def _cylinder(
    body: mujoco.MjsBody, name: str, radius: float, half: float, z: float, mass: float = 0.001, solid: bool = True
) -> None:
    body.add_geom(
        name=name, type=_CYLINDER, size=[radius, half, 0], pos=[0, 0, z], mass=mass, friction=_FRICTION, condim=4,
        contype=int(solid), conaffinity=int(solid),
    )  # fmt: skip


def _cup(body: mujoco.MjsBody, name: str) -> None:
    _cylinder(body, f"{name}_a", 0.032, 0.045, 0.045, 0.12)
    _cylinder(body, f"{name}_{DARK}", 0.027, 0.0015, 0.0905, solid=False)
    body.add_geom(
        name=f"{name}_{HANDLE}", type=_BOX, size=[0.012, 0.004, 0.02], pos=[0.043, 0, 0.045], mass=0.001,
        contype=0, conaffinity=0,
    )  # fmt: skip


def _bowl(body: mujoco.MjsBody, name: str) -> None:
    _cylinder(body, f"{name}_a3", 0.026, 0.006, 0.006, 0.04)
    _cylinder(body, f"{name}_a", 0.036, 0.0165, 0.0285, 0.08)
    _cylinder(body, f"{name}_{DARK}", 0.031, 0.001, 0.0455, solid=False)


def _bottle(body: mujoco.MjsBody, name: str) -> None:
    _cylinder(body, f"{name}_a", 0.028, 0.075, 0.075, 0.2)
    _cylinder(body, f"{name}_a2", 0.012, 0.02, 0.17, 0.01)
    _cylinder(body, f"{name}_{KNOB}", 0.014, 0.006, 0.193, 0.005)


def _spoon(body: mujoco.MjsBody, name: str) -> None:
    body.add_geom(
        name=f"{name}_a", type=_BOX, size=[0.055, 0.007, 0.006], pos=[0, 0, 0.006], mass=0.03,
        friction=_FRICTION, condim=4,
    )  # fmt: skip
    body.add_geom(
        name=f"{name}_a2", type=_ELLIPSOID, size=[0.026, 0.018, 0.006], pos=[0.075, 0, 0.0065], mass=0.015,
        friction=_FRICTION, condim=4,
    )  # fmt: skip


_PARTS = {"cup": _cup, "bowl": _bowl, "bottle": _bottle, "spoon": _spoon}
