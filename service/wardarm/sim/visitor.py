"""A person who can be walked into the room: a figure of capsules, moved as mocap bodies, legs swinging.

Heights are above the floor, lengths in m, angles in rad. The figure faces +x at heading 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import mujoco
import numpy as np
from numpy.typing import NDArray

FLOOR_Z_M = -0.75
HIP_Z_M, THIGH_M, SHIN_M = 0.90, 0.43, 0.43
SHOULDER_Z_M, UPPER_ARM_M, FOREARM_M = 1.40, 0.29, 0.27
_HIP_Y, _SHOULDER_Y = 0.095, 0.215
STRIDE_M = 1.30
"""Two steps, at a calm 1 m/s walk."""

PARTS = (
    "visitor_trunk",
    "visitor_thigh_l", "visitor_thigh_r", "visitor_shin_l", "visitor_shin_r",
    "visitor_arm_l", "visitor_arm_r", "visitor_forearm_l", "visitor_forearm_r",
)  # fmt: skip

OUTSIDE = (4.0, 0.60)
"""In the corridor, out of every view."""
_CORRIDOR, _DOOR_X_M = (3.7, -1.45), 3.0
SPOTS: dict[str, tuple[float, float]] = {
    "door": (2.45, -1.45),
    "table": (0.70, -1.00),
    "corner": (1.25, -0.75),
    "foot": (1.85, 0.55),
    "arm": (-0.75, -0.75),
}
"""Places to send the visitor to, (x, y) m, by name."""

_SHIRT, _TROUSERS = (0.16, 0.36, 0.42, 1.0), (0.16, 0.17, 0.22, 1.0)
_SKIN, _HAIR, _SHOE = (0.80, 0.60, 0.48, 1.0), (0.09, 0.07, 0.06, 1.0), (0.08, 0.08, 0.09, 1.0)


def add_visitor(spec: mujoco.MjSpec) -> None:
    """Add the figure's bodies, out of the room. It touches nothing: it is there to be seen."""
    bodies = {n: spec.worldbody.add_body(name=n, mocap=True, pos=[*OUTSIDE, FLOOR_Z_M]) for n in PARTS}
    capsule, ellipsoid, box = mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_ELLIPSOID, mujoco.mjtGeom.mjGEOM_BOX

    def limb(
        body: str, length: float, radius: float, rgba: tuple[float, float, float, float], start: float = 0.0
    ) -> None:
        bodies[body].add_geom(
            type=capsule,
            fromto=[0, 0, -start, 0, 0, -length],
            size=[radius, 0, 0],
            rgba=rgba,
            material="matte",
            contype=0,
            conaffinity=0,
        )

    def blob(
        body: str, size: list[float], pos: list[float], rgba: tuple[float, float, float, float], kind: int
    ) -> None:
        bodies[body].add_geom(type=kind, size=size, pos=pos, rgba=rgba, material="matte", contype=0, conaffinity=0)

    blob("visitor_trunk", [0.115, 0.175, 0.15], [0, 0, 0.06], _TROUSERS, ellipsoid)
    blob("visitor_trunk", [0.125, 0.195, 0.33], [0, 0, 0.30], _SHIRT, ellipsoid)
    blob("visitor_trunk", [0.095, 0.225, 0.085], [0, 0, 0.49], _SHIRT, ellipsoid)
    bodies["visitor_trunk"].add_geom(
        type=capsule,
        fromto=[0, 0, 0.52, 0, 0, 0.66],
        size=[0.052, 0, 0],
        rgba=_SKIN,
        material="matte",
        contype=0,
        conaffinity=0,
    )
    blob("visitor_trunk", [0.095, 0.078, 0.118], [0.012, 0, 0.73], _SKIN, ellipsoid)
    blob("visitor_trunk", [0.100, 0.086, 0.105], [-0.012, 0, 0.765], _HAIR, ellipsoid)
    for side in "lr":
        limb(f"visitor_thigh_{side}", THIGH_M, 0.078, _TROUSERS)
        limb(f"visitor_shin_{side}", SHIN_M - 0.06, 0.055, _TROUSERS)
        blob(f"visitor_shin_{side}", [0.125, 0.045, 0.035], [0.055, 0, -SHIN_M], _SHOE, box)
        limb(f"visitor_arm_{side}", UPPER_ARM_M, 0.050, _SHIRT)
        limb(f"visitor_forearm_{side}", FOREARM_M, 0.037, _SKIN)
        blob(f"visitor_forearm_{side}", [0.035, 0.025, 0.06], [0, 0, -FOREARM_M - 0.06], _SKIN, ellipsoid)


Pose = tuple[NDArray[np.float64], NDArray[np.float64]]


def _quat(heading: float, pitch: float) -> NDArray[np.float64]:
    """Rz(heading) Ry(pitch) as w, x, y, z."""
    ch, sh, cp, sp = math.cos(heading / 2), math.sin(heading / 2), math.cos(pitch / 2), math.sin(pitch / 2)
    return np.array([ch * cp, -sh * sp, ch * sp, sh * cp])


@dataclass
class Visitor:
    """Where the person is and walks to. `advance` moves on by sim time; `poses` says where each body goes."""

    x_m: float = OUTSIDE[0]
    y_m: float = OUTSIDE[1]
    heading_rad: float = math.pi
    speed_m_s: float = 1.0
    walked_m: float = 0.0
    swing: float = 0.0  # 0 standing .. 1 walking: legs come together within a third of a second
    route: list[tuple[float, float]] = field(default_factory=list)

    def walk_to(self, x_m: float, y_m: float, speed_m_s: float = 1.0) -> None:
        """Walk there, through the door if coming from or going outside."""
        self.speed_m_s = speed_m_s
        inside_now, inside_then = self.x_m < _DOOR_X_M, x_m < _DOOR_X_M
        through = [_CORRIDOR, SPOTS["door"]] if inside_then else [SPOTS["door"], _CORRIDOR]
        self.route = (through if inside_now != inside_then else []) + [(x_m, y_m)]

    def put(self, x_m: float, y_m: float, heading_rad: float = math.pi) -> None:
        """Be there at once, standing."""
        self.x_m, self.y_m, self.heading_rad = x_m, y_m, heading_rad
        self.route, self.swing = [], 0.0

    def leave(self, speed_m_s: float = 1.0) -> None:
        self.walk_to(*OUTSIDE, speed_m_s)

    @property
    def walking(self) -> bool:
        return bool(self.route)

    @property
    def in_room(self) -> bool:
        return self.x_m < _DOOR_X_M

    def advance(self, dt_s: float) -> None:
        left = self.speed_m_s * dt_s
        while self.route and left > 0:
            dx, dy = self.route[0][0] - self.x_m, self.route[0][1] - self.y_m
            distance = math.hypot(dx, dy)
            if distance <= left:
                self.x_m, self.y_m = self.route.pop(0)
                left -= distance
                self.walked_m += distance
                continue
            self.x_m += dx / distance * left
            self.y_m += dy / distance * left
            self.walked_m += left
            turn = math.remainder(math.atan2(dy, dx) - self.heading_rad, 2 * math.pi)
            self.heading_rad += max(-4 * dt_s, min(4 * dt_s, turn))  # a person turns at about 4 rad/s
            left = 0
        self.swing += max(-3 * dt_s, min(3 * dt_s, float(self.walking) - self.swing))

    def poses(self) -> list[Pose]:
        """(position m, quaternion w x y z) of each of PARTS, base frame."""
        phase = 2 * math.pi * self.walked_m / STRIDE_M
        c, s = math.cos(self.heading_rad), math.sin(self.heading_rad)

        def world(x: float, y: float, z: float) -> NDArray[np.float64]:
            return np.array([self.x_m + c * x - s * y, self.y_m + s * x + c * y, FLOOR_Z_M + z])

        bob = 0.02 * self.swing * math.cos(2 * phase)
        found: dict[str, Pose] = {
            "visitor_trunk": (world(0, 0, HIP_Z_M + bob), _quat(self.heading_rad, 0.03 * self.swing))
        }
        for side, sign, shift in (("l", 1, 0.0), ("r", -1, math.pi)):
            hip = -0.42 * self.swing * math.sin(phase + shift)
            knee = self.swing * (0.12 + 0.75 * max(0.0, math.cos(phase + shift)) ** 2)
            found[f"visitor_thigh_{side}"] = (world(0, sign * _HIP_Y, HIP_Z_M + bob), _quat(self.heading_rad, hip))
            kx, kz = -THIGH_M * math.sin(hip), HIP_Z_M + bob - THIGH_M * math.cos(hip)
            found[f"visitor_shin_{side}"] = (world(kx, sign * _HIP_Y, kz), _quat(self.heading_rad, hip + knee))
            arm = 0.38 * self.swing * math.sin(phase + shift)
            elbow = -0.15 - 0.25 * self.swing
            found[f"visitor_arm_{side}"] = (
                world(0, sign * _SHOULDER_Y, SHOULDER_Z_M + bob),
                _quat(self.heading_rad, arm),
            )
            ex, ez = -UPPER_ARM_M * math.sin(arm), SHOULDER_Z_M + bob - UPPER_ARM_M * math.cos(arm)
            found[f"visitor_forearm_{side}"] = (
                world(ex, sign * _SHOULDER_Y, ez),
                _quat(self.heading_rad, arm + elbow),
            )
        return [found[name] for name in PARTS]
