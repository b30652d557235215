"""The simulated bedside as one MuJoCo model: arm, table, tableware, bed, patient, visitor.

`build()` makes the model, the same in every process, so that `qpos` and the mocap poses describe it completely.
`World` adds what a scene needs: where things stand, how they look, where the arm is. World frame = the arm's base
frame; metres, radians, seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from wardarm.sim import dressing, furniture, robot, tableware
from wardarm.sim.room_views import FILM_VIEW, ROOM_VIEWS
from wardarm.sim.scenes import COLORS, HEIGHT_M, Scene
from wardarm.sim.visitor import PARTS, Visitor, add_visitor
from wardarm.sim.world_state import STATE

STEP_S = 0.002
ARM_DOF = 6
_EXTENT_M = 4.0
"""Clipping planes are this times 0.01 and 50: a view sees from 4 cm on."""
_AWAY = (0.0, 8.0, -0.5)
"""Pieces that a scene does not use hover here, touching nothing, out of every view."""


def build(
    dressed: bool = True, leaf: bool = True, film: bool = False, width: int = 1280, height: int = 720, msaa: int = 0
) -> mujoco.MjModel:
    """Compile the world. `dressed` adds the room's looks, `film` a light that throws shadows; neither changes qpos.

    `width`, `height`, `msaa` size the offscreen buffer (pixels, samples).
    """
    spec = robot.arm_spec()
    spec.option.timestep = STEP_S
    spec.stat.extent = _EXTENT_M
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    visual = spec.visual
    visual.global_.offwidth, visual.global_.offheight, visual.quality.offsamples = width, height, msaa
    furniture.add_materials(spec, tiles=film)
    furniture.add_trained_bedside(spec)
    if leaf:
        furniture.add_leaf(spec)
    furniture.add_patient(spec)
    if dressed:
        dressing.add_room(spec)
    add_visitor(spec)
    tableware.add_tableware(spec)
    for view in (*ROOM_VIEWS, FILM_VIEW):
        spec.worldbody.add_camera(
            name=view.name, pos=view.pos, quat=furniture.look_at(view.pos, view.look), fovy=view.fovy_deg
        )
    if film:
        furniture.add_film_light(spec)
    return spec.compile()


class World:
    """A model with its state. `model` and `data` are MuJoCo's own; the rest finds its way in them."""

    def __init__(self, model: mujoco.MjModel | None = None) -> None:
        self.model = build() if model is None else model
        self.data = mujoco.MjData(self.model)
        m = self.model
        self.pieces = tableware.names()
        self.tcp_site = m.site(robot.TCP_SITE).id
        self.fingers_actuator = m.actuator(robot.FINGERS).id
        self.finger_qpos = int(m.jnt_qposadr[m.joint(robot.FINGER_JOINT).id])
        self._qpos = {n: int(m.jnt_qposadr[m.joint(n).id]) for n in self.pieces}
        self._qvel = {n: int(m.jnt_dofadr[m.joint(n).id]) for n in self.pieces}
        self._body = {n: int(m.body(n).id) for n in self.pieces}
        self._geoms = {n: [i for i in range(m.ngeom) if m.geom(i).name.startswith(f"{n}_")] for n in self.pieces}
        self._mat_mocap = int(m.body("mat").mocapid[0])
        self._visitor_mocap = [int(m.body(n).mocapid[0]) for n in PARTS]
        self._camera_pos, self._camera_quat = m.camera("d455").pos.copy(), m.camera("d455").quat.copy()
        self._lights = (m.light_diffuse.copy(), m.vis.headlight.diffuse.copy(), m.vis.headlight.ambient.copy())
        self.visitor = Visitor()
        self.scene: Scene | None = None
        self.set_arm(robot.HOME_Q_RAD)

    # the scene
    def load(self, scene: Scene) -> None:
        """Put the scene's pieces where they stand, at rest and in their colours; the others away."""
        for name in self.pieces:
            self.put_away(name)
        for o in scene.objects:
            self.place(o.name, (o.x_m, o.y_m, 0.0005), o.body_yaw_rad)
            self.color(o.name, COLORS[o.color])
        self.data.mocap_pos[self._mat_mocap] = [*scene.mat, 0.0005]
        self.scene = scene
        self.show_visitor()
        mujoco.mj_forward(self.model, self.data)

    def place(self, name: str, pos: Sequence[float], yaw_rad: float) -> None:
        """Put a piece somewhere, upright and at rest. `pos` is the middle of its foot, m."""
        a, v = self._qpos[name], self._qvel[name]
        self.data.qpos[a : a + 3] = pos
        self.data.qpos[a + 3 : a + 7] = [np.cos(yaw_rad / 2), 0, 0, np.sin(yaw_rad / 2)]
        self.data.qvel[v : v + 6] = 0

        self._set_solid(name, True)

    def put_away(self, name: str) -> None:
        """Take a piece out of the scene."""
        self.place(name, _AWAY, 0.0)
        self._set_solid(name, False)

    def _set_solid(self, name: str, solid: bool) -> None:
        self.model.body_gravcomp[self._body[name]] = 0.0 if solid else 1.0
        for i in self._geoms[name]:
            touches = solid and tableware.is_solid(self.model.geom(i).name)
            self.model.geom_contype[i] = self.model.geom_conaffinity[i] = int(touches)

    def color(self, name: str, rgb: Sequence[float]) -> None:
        """Paint a piece; the inside of a vessel is darker, a bottle's cap stays black."""
        for i in self._geoms[name]:
            part = self.model.geom(i).name.rpartition("_")[2]
            value = np.asarray(rgb, float)
            if part == tableware.DARK:
                value = value * 0.35
            if part == tableware.KNOB:
                value = np.array([0.15, 0.15, 0.15])
            self.model.geom_rgba[i] = [*value, 1.0]

    def piece_color(self, name: str) -> NDArray[np.float32]:
        """The piece's colour as painted, RGB 0..1."""
        return np.array(self.model.geom_rgba[self._geoms[name][0], :3], np.float32)

    def piece_color_name(self, name: str) -> str:
        """The colour's name: of those in `scenes.COLORS` the one nearest to what is painted."""
        painted = self.piece_color(name)
        return min(COLORS, key=lambda color: float(np.linalg.norm(painted - np.asarray(COLORS[color]))))

    def body_id(self, name: str) -> int:
        return self._body[name]

    def piece_pos(self, name: str) -> NDArray[np.float64]:
        """Middle of the piece's foot, m."""
        return np.array(self.data.xpos[self._body[name]])

    def piece_tilt_rad(self, name: str) -> float:
        """Angle between the piece's own upright axis and the vertical."""
        return float(np.arccos(np.clip(self.data.xmat[self._body[name]][8], -1, 1)))

    def piece_speed_m_s(self, name: str) -> float:
        v = self._qvel[name]
        return float(np.linalg.norm(self.data.qvel[v : v + 3]))

    def present(self, name: str) -> bool:
        return bool(self.data.xpos[self._body[name]][1] < 5.0)

    def set_light(self, gain: float) -> None:
        """Brightness of every lamp against nominal 1."""
        for target, nominal in zip(
            (self.model.light_diffuse, self.model.vis.headlight.diffuse, self.model.vis.headlight.ambient),
            self._lights,
            strict=True,
        ):
            target[:] = nominal * gain

    def state(self, t_ns: int, sim_rate: float, light: float, scene_id: int, blackout: int) -> Any:
        """The world as published: a 0-d array of world_state.STATE."""
        out = np.zeros((), STATE)
        d = self.data
        out["t_ns"], out["time_s"], out["sim_rate"], out["light"] = t_ns, d.time, sim_rate, light
        out["scene_id"], out["blackout"] = scene_id, blackout
        out["qpos"], out["mocap_pos"], out["mocap_quat"] = d.qpos, d.mocap_pos, d.mocap_quat
        out["colors"] = [self.piece_color(n) for n in self.pieces]
        return out

    def move_camera(self, shift_m: ArrayLike, turn_rad: ArrayLike) -> None:
        """The D455 stands off its place: shift in the base frame, turn as a rotation vector in the camera's frame."""
        camera = self.model.camera("d455").id
        self.model.cam_pos[camera] = self._camera_pos + np.asarray(shift_m, float)
        self.model.cam_quat[camera] = turned(self._camera_quat, turn_rad)

    def show_state(self, state: Any, repaint: bool = True) -> None:
        """Be as published, for drawing: positions only, nothing of the dynamics."""
        d = self.data
        self.move_camera(state["camera_shift_m"], state["camera_turn_rad"])
        d.qpos[:], d.mocap_pos[:], d.mocap_quat[:] = state["qpos"], state["mocap_pos"], state["mocap_quat"]
        self.set_light(float(state["light"]))
        if repaint:
            for name, rgb in zip(self.pieces, state["colors"], strict=True):
                self.color(name, rgb)
        mujoco.mj_kinematics(self.model, d)
        mujoco.mj_camlight(self.model, d)

    # the arm
    def set_arm(self, q_rad: ArrayLike) -> None:
        """Joints there at once, servos too, fingers as they are."""
        self.data.qpos[:ARM_DOF] = q_rad
        self.data.qvel[:ARM_DOF] = 0
        self.data.ctrl[:ARM_DOF] = q_rad
        mujoco.mj_forward(self.model, self.data)

    def tcp(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """TCP position (m) and rotation matrix (3x3), base frame."""
        return self.data.site_xpos[self.tcp_site].copy(), self.data.site_xmat[self.tcp_site].reshape(3, 3).copy()

    def opening(self) -> float:
        """Gripper opening as the fingers stand: 1 open, 0 closed on nothing."""
        return float(np.clip(1 - self.data.qpos[self.finger_qpos] / robot.FINGER_CLOSED_RAD, 0, 1))

    # the visitor
    def show_visitor(self) -> None:
        """Bring the figure's bodies to where the visitor is."""
        for i, (pos, quat) in zip(self._visitor_mocap, self.visitor.poses(), strict=True):
            self.data.mocap_pos[i], self.data.mocap_quat[i] = pos, quat


def piece_height_m(name: str) -> float:
    return HEIGHT_M[name[:-1]]


def turned(quat: ArrayLike, turn_rad: ArrayLike) -> NDArray[np.float64]:
    """A quaternion (w x y z) turned further by a rotation vector in its own frame, rad."""
    turn = np.asarray(turn_rad, np.float64)
    angle = float(np.linalg.norm(turn))
    further, out = np.zeros(4), np.zeros(4)
    mujoco.mju_axisAngle2Quat(further, turn / angle if angle else np.array([1.0, 0, 0]), angle)
    mujoco.mju_mulQuat(out, np.asarray(quat, np.float64), further)
    return out
