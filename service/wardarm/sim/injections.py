"""What can be done to the simulated bedside from outside, by command: move things, walk people, dim lights.

Each public command takes JSON fields and answers with JSON fields; lengths in m, base frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from wardarm.sim import scenes
from wardarm.sim.judge import Judge
from wardarm.sim.room_views import ROOM_VIEWS
from wardarm.sim.visitor import SPOTS
from wardarm.sim.world import World

CAMERAS = ("d455", *(v.name for v in ROOM_VIEWS))
_NO_GO = {"table and arm": ((-0.2, 0.85), (-0.55, 0.60)), "bed": ((-0.9, 1.4), (0.55, 1.6))}
_ROOM = ((-1.9, 4.6), (-2.2, 1.75))


class Injections:
    """Applies commands to a world. `light`, `blackout`, `scene_id` are part of the published state."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world, self._judge = world, judge
        self.light, self.blackout, self.scene_id = 1.0, 0, 1
        self.camera_shift_m, self.camera_turn_rad = np.zeros(3), np.zeros(3)

    def commands(self) -> dict[str, Callable[..., dict[str, Any] | None]]:
        return {
            "place": self.place,
            "remove": self.remove,
            "swap_colors": self.swap_colors,
            "paint": self.paint,
            "load_scene": self.load_scene,
            "scene": self.scene,
            "visitor": self.visitor,
            "light": self.set_light,
            "blackout": self.set_blackout,
            "knock_camera": self.knock_camera,
        }

    def advance(self, dt_s: float) -> None:
        visitor = self._world.visitor
        if visitor.walking or visitor.swing > 0:
            visitor.advance(dt_s)
            self._world.show_visitor()

    def report(self) -> dict[str, Any]:
        v = self._world.visitor
        return {
            "visitor": {"x_m": v.x_m, "y_m": v.y_m, "walking": v.walking, "in_room": v.in_room},
            "light": self.light,
            "blackout": [c for i, c in enumerate(CAMERAS) if self.blackout >> i & 1],
        }

    def _piece(self, name: str) -> str:
        if name not in self._world.pieces:
            raise ValueError(f"name = {name!r}: not one of {', '.join(self._world.pieces)}")
        return name

    def place(
        self, name: str, x_m: float, y_m: float, yaw_rad: float = 0.0, z_m: float = 0.0, relative: bool = False
    ) -> dict[str, Any]:
        """Put a piece somewhere at once (`relative`: shift it from where it is), standing and at rest."""
        name = self._piece(name)
        if relative:
            at = self._world.piece_pos(name)
            x_m, y_m, z_m = at[0] + x_m, at[1] + y_m, at[2] + z_m
        self._world.place(name, (float(x_m), float(y_m), max(float(z_m), 0.0005)), float(yaw_rad))
        self._settle(name)
        return {"pos_m": self._world.piece_pos(name).tolist()}

    def remove(self, name: str) -> None:
        """Take a piece away."""
        self._world.put_away(self._piece(name))
        self._settle(name)

    def _settle(self, name: str) -> None:
        mujoco.mj_kinematics(self._world.model, self._world.data)
        self._judge.moved(name)

    def paint(self, name: str, color: str) -> None:
        """Give a piece one of the six colours."""
        if color not in scenes.COLORS:
            raise ValueError(f"color = {color!r}: not one of {', '.join(scenes.COLORS)}")
        self._world.color(self._piece(name), scenes.COLORS[color])
        self.scene_id += 1

    def swap_colors(self, a: str, b: str) -> None:
        """Two pieces exchange their colours."""
        world = self._world
        first, second = world.piece_color(self._piece(a)), world.piece_color(self._piece(b))
        world.color(a, second.tolist())
        world.color(b, first.tolist())
        self.scene_id += 1

    def load_scene(
        self, scene: dict[str, Any] | None = None, seed: int | None = None, demo: bool = True
    ) -> dict[str, Any]:
        """Another scene, given or drawn; the arm stays where it is. The judge starts anew."""
        if (scene is None) == (seed is None):
            raise ValueError("give either scene or seed")
        if seed is not None:
            new = scenes.demo_scene(seed) if demo else scenes.scene_for(seed)
        else:
            assert scene is not None
            new = scenes.from_json(scene)
        self._world.load(new)
        self._judge.reset()
        self.scene_id += 1
        return {"scene": new.to_json()}

    def scene(self) -> dict[str, Any]:
        """The scene as it was loaded."""
        assert self._world.scene is not None
        return {"scene": self._world.scene.to_json()}

    def visitor(
        self,
        to: str | None = None,
        x_m: float | None = None,
        y_m: float | None = None,
        speed_m_s: float = 1.0,
        at_once: bool = False,
    ) -> dict[str, Any]:
        """Walk the visitor to a named spot ("away" = out), or to (x_m, y_m). `at_once` puts them there."""
        v = self._world.visitor
        if not 0 < speed_m_s <= 3:
            raise ValueError(f"speed_m_s = {speed_m_s}: a person walks at 0..3 m/s")
        if to == "away":
            v.leave(speed_m_s)
        else:
            if to is not None:
                if to not in SPOTS:
                    raise ValueError(f"to = {to!r}: not one of away, {', '.join(SPOTS)}")
                x_m, y_m = SPOTS[to]
            if x_m is None or y_m is None:
                raise ValueError("give to, or x_m and y_m")
            _check_spot(x_m, y_m)
            if at_once:
                v.put(x_m, y_m)
                self._world.show_visitor()
            else:
                v.walk_to(x_m, y_m, speed_m_s)
        distance = sum(math.dist(a, b) for a, b in zip([(v.x_m, v.y_m), *v.route], v.route, strict=False))
        return {"seconds": distance / speed_m_s}

    def set_light(self, gain: float) -> None:
        """Brightness of all lamps, 1 = nominal."""
        if not 0 <= gain <= 3:
            raise ValueError(f"gain = {gain}: 0..3")
        self.light = float(gain)

    def set_blackout(self, camera: str = "d455", on: bool = True) -> None:
        """A camera gives no pictures, or gives them again."""
        if camera not in CAMERAS:
            raise ValueError(f"camera = {camera!r}: not one of {', '.join(CAMERAS)}")
        bit = 1 << CAMERAS.index(camera)
        self.blackout = self.blackout | bit if on else self.blackout & ~bit

    def knock_camera(self, shift_mm: Sequence[float] = (0, 0, 0), turn_deg: Sequence[float] = (0, 0, 0)) -> None:
        """The D455 stands off where it should: mm in the base frame, a rotation vector in its own (x right, y up).

        Without arguments it is put back.
        """
        for name, values, most in (("shift_mm", shift_mm, 200.0), ("turn_deg", turn_deg, 30.0)):
            if len(values) != 3 or not all(abs(float(v)) <= most for v in values):
                raise ValueError(f"{name} = {list(values)}: three numbers of at most {most:g}")
        self.camera_shift_m, self.camera_turn_rad = np.array(shift_mm) * 1e-3, np.radians(turn_deg)


def _check_spot(x_m: float, y_m: float) -> None:
    if not (_ROOM[0][0] <= x_m <= _ROOM[0][1] and _ROOM[1][0] <= y_m <= _ROOM[1][1]):
        raise ValueError(f"({x_m}, {y_m}) m is outside the room, x {_ROOM[0]}, y {_ROOM[1]}")
    for name, (x, y) in _NO_GO.items():
        if x[0] <= x_m <= x[1] and y[0] <= y_m <= y[1]:
            raise ValueError(f"({x_m}, {y_m}) m is in the {name}; nobody can stand there")
