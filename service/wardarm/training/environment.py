"""One bedside to take pictures of and to act in: a scene, the arm in a given state, light and colours, the D455.

The same for making demonstrations (small pictures, no physics) and for evaluating (720p, physics). The arm follows
joint angles from the simulated arm's own DH parameters, as in the `desk` configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm import config
from wardarm.kinematics import Kinematics, TcpPose, Unreachable
from wardarm.policy import contract
from wardarm.policy.view import Pose
from wardarm.sim.renderer import D455_GROUPS, Renderer, View  # before anything that imports mujoco: it picks the GL
from wardarm.sim.robot import FINGER_CTRL_MAX, HOME_Q_RAD
from wardarm.sim.scenes import COLORS, GRASP_Z_M, Scene, SceneObject
from wardarm.sim.world import ARM_DOF, World, build, turned
from wardarm.training.expert import State

import mujoco  # isort: skip

IMAGE_HEIGHT, IMAGE_WIDTH = 180, 320
"""Training pictures: a quarter of the contract's 720p, which the graph pools 4 x 4 to just this."""
CAMERA = "d455"
_CLOSED_ON = {"cup": 70.0, "bowl": 55.0, "bottle": 170.0, "spoon": 215.0}
"""Finger actuator (0 open .. 255 closed) at which the fingers touch each kind: how they look when holding it."""
_SETTLE_STEPS = 500
_DEPTH_MOST_M = 4.0
_SEED_GRID_M = ((0.30, 0.45, 0.60), (-0.36, -0.12, 0.12, 0.36), (0.10, 0.35))
_FOOT_Z_M = 0.0005
_FROM_TOOL_DOWN = np.asarray(contract.TOOL_DOWN).T


@dataclass(frozen=True)
class Looks:
    """How much light, colour and camera differ from nominal, half-widths of uniform draws."""

    light_shift_m: float = 0.4
    light_gain: tuple[float, float] = (0.60, 1.15)
    surface_gain: tuple[float, float] = (0.75, 1.10)
    surface_shift: float = 0.06
    piece_gain: tuple[float, float] = (0.80, 1.10)
    piece_noise: float = 0.02
    camera_shift_m: float = 0.003
    camera_turn: float = 0.001  # per quaternion component: about 0.1 degrees
    dim_share: float = 0.0
    dim_gain: tuple[float, float] = (0.25, 0.60)
    glass_share: float = 0.0
    glass_alpha: tuple[float, float] = (0.35, 0.70)


WIDE = Looks(camera_shift_m=0.010, camera_turn=0.004, dim_share=0.15, glass_share=0.10)
"""What a careful installer leaves (10 mm, 1 degree), a room at dusk, a cup of glass."""


class Environment:
    """`rng` draws the looks. Raises kinematics.Unreachable from `pose`."""

    def __init__(self, width: int = IMAGE_WIDTH, height: int = IMAGE_HEIGHT, msaa: int = 0) -> None:
        self.world = World(build(dressed=False, width=width, height=height, msaa=msaa))
        self._renderer = Renderer(self.world.model)
        self._view = View(self._renderer, CAMERA, width, height, D455_GROUPS)
        model = self.world.model
        self.camera = model.camera(CAMERA).id
        self._surfaces = [model.geom(n).id for n in ("table", "leaf", "floor", "bed")]
        self._nominal = (
            model.light_pos.copy(), model.light_diffuse.copy(), model.geom_rgba[self._surfaces].copy(),
            model.cam_pos[self.camera].copy(), model.cam_quat[self.camera].copy(),
        )  # fmt: skip
        self._kinematics = Kinematics(config.load("desk").arm)
        self._fingers = [int(model.jnt_qposadr[i]) for i in range(model.njnt) if model.joint(i).name.startswith("g_")]
        self._piece_geoms = {
            n: [i for i in range(model.ngeom) if model.geom(i).name.startswith(f"{n}_")] for n in self.world.pieces
        }
        self._finger_looks = self._settle_fingers()
        self._seeds = self._seed_poses()

    def close(self) -> None:
        self._renderer.close()

    def _settle_fingers(self) -> dict[str, NDArray[np.float64]]:
        """Finger joint angles when open and when closed on each kind, from physics without gravity."""
        model, data = self.world.model, self.world.data
        gravity = model.opt.gravity.copy()
        model.opt.gravity[:] = 0
        looks = {}
        for name, closed in {"open": 0.0, **_CLOSED_ON}.items():
            data.ctrl[self.world.fingers_actuator] = closed
            mujoco.mj_step(model, data, _SETTLE_STEPS)
            looks[name] = data.qpos[self._fingers].copy()
        model.opt.gravity[:] = gravity
        data.ctrl[self.world.fingers_actuator] = 0.0
        return looks

    def _seed_poses(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """(TCP position, joint angles) all over the workspace, for the IK to start near."""
        home = np.array(HOME_Q_RAD)
        seeds = []
        for x in _SEED_GRID_M[0]:
            for y in _SEED_GRID_M[1]:
                for z in _SEED_GRID_M[2]:
                    xyz = np.array([x, y, z])
                    try:
                        seeds.append((xyz, self._kinematics.solve(TcpPose(xyz, np.zeros(3)), home)))
                    except Unreachable:
                        continue
        return seeds

    def solve(self, xyz_m: NDArray[np.float64], rpy_rad: NDArray[np.float64]) -> NDArray[np.float64]:
        """Joint angles (rad) for a pose, from the nearest seed."""
        near = min(self._seeds, key=lambda s: float(np.sum((s[0] - xyz_m) ** 2)))
        return self._kinematics.solve(TcpPose(xyz_m, rpy_rad), near[1])

    def follow(
        self, xyz_m: NDArray[np.float64], rpy_rad: NDArray[np.float64], from_q_rad: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Joint angles (rad) for a pose on the branch of the present ones."""
        return self._kinematics.solve(TcpPose(xyz_m, rpy_rad), from_q_rad)

    def kinematics_pose(self, q_rad: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """TCP position (m) and roll pitch yaw (rad, relative to tool-down) at joint angles."""
        pose = self._kinematics.forward(q_rad)
        return pose.xyz_m, pose.rpy_rad

    def load(self, scene: Scene) -> None:
        """A new scene: everything at rest, arm at home with open fingers."""
        mujoco.mj_resetData(self.world.model, self.world.data)
        self.world.set_arm(HOME_Q_RAD)
        self.world.load(scene)

    def pose(self, state: State, held: SceneObject | None = None, rng: np.random.Generator | None = None) -> None:
        """Put the arm into a state at once; `held` hangs in the fingers, a little off if `rng` is given."""
        q = self.solve(np.array(state[:3]), np.array(state[3:6]))
        kind = held.kind if held else "spoon"
        data = self.world.data
        data.qpos[self._fingers] = self._finger_looks["open"] * state.opening + self._finger_looks[kind] * (
            1 - state.opening
        )
        data.qvel[:] = 0
        if held and state.holding:
            off = rng.normal(0, 0.002, 3) if rng else np.zeros(3)
            tilt = contract.rotation_from_rpy(np.array([state.roll_rad, state.pitch_rad, 0.0])) @ _FROM_TOOL_DOWN
            foot = np.array(state[:3]) + off - tilt @ [0.0, 0.0, GRASP_Z_M[kind]]
            foot[2] = max(_FOOT_Z_M, foot[2])
            self.world.place(held.name, foot.tolist(), held.body_yaw_rad + (state.yaw_rad - held.yaw_rad))
            self._lean(held.name, tilt)
        self.world.set_arm(q)
        data.ctrl[self.world.fingers_actuator] = FINGER_CTRL_MAX * (1 - state.opening)

    def _lean(self, name: str, tilt: NDArray[np.float64]) -> None:
        """Turn a piece that was placed upright: `tilt` is base_R_upright, 3x3."""
        at = int(self.world.model.joint(name).qposadr[0]) + 3
        turn, both = np.zeros(4), np.zeros(4)
        mujoco.mju_mat2Quat(turn, tilt.ravel())
        mujoco.mju_mulQuat(both, turn, self.world.data.qpos[at : at + 4])
        self.world.data.qpos[at : at + 4] = both

    def vary(self, rng: np.random.Generator, looks: Looks | None = None) -> None:
        """Draw light, colours and a slightly moved camera. Call after `load`."""
        v = looks or Looks()
        model, world = self.world.model, self.world
        light_pos, light_diffuse, surfaces, cam_pos, cam_quat = self._nominal
        model.light_pos[:] = light_pos + rng.uniform(-v.light_shift_m, v.light_shift_m, light_pos.shape) * [1, 1, 0.5]
        gain = v.dim_gain if v.dim_share and rng.random() < v.dim_share else v.light_gain
        model.light_diffuse[:] = light_diffuse * rng.uniform(*gain, (len(light_diffuse), 1))
        rgb = surfaces[:, :3] * rng.uniform(*v.surface_gain, (len(surfaces), 1))
        rgb = np.clip(rgb + rng.uniform(-v.surface_shift, v.surface_shift, rgb.shape), 0, 1)
        model.geom_rgba[self._surfaces, :3] = rgb
        for o in world.scene.objects if world.scene else ():
            rgb = np.array(COLORS[o.color]) * rng.uniform(*v.piece_gain) + rng.normal(0, v.piece_noise, 3)
            world.color(o.name, list(np.clip(rgb, 0, 1)))
            if v.glass_share and o.kind == "cup" and rng.random() < v.glass_share:
                model.geom_rgba[self._piece_geoms[o.name], 3] = rng.uniform(*v.glass_alpha)
        quat = cam_quat + rng.normal(0, v.camera_turn, 4)
        model.cam_pos[self.camera] = cam_pos + rng.uniform(-v.camera_shift_m, v.camera_shift_m, 3)
        model.cam_quat[self.camera] = quat / np.linalg.norm(quat)
        mujoco.mj_forward(model, world.data)

    def move_camera(self, shift_m: NDArray[np.float64], turn_rotvec_rad: NDArray[np.float64]) -> None:
        """Displace the camera from where it is: what a knock or a bad mounting does."""
        model = self.world.model
        model.cam_pos[self.camera] += shift_m
        model.cam_quat[self.camera] = turned(model.cam_quat[self.camera], turn_rotvec_rad)
        mujoco.mj_forward(model, self.world.data)

    def camera_pose(self) -> Pose:
        """Where the camera really is, as a calibration without error would say."""
        data = self.world.data
        rotation = data.cam_xmat[self.camera].reshape(3, 3) * [1.0, -1.0, -1.0]  # MuJoCo's camera looks along -z, y up
        return Pose(data.cam_xpos[self.camera].copy(), rotation)

    def refresh(self) -> None:
        """Bring every body to where `world.data.qpos` and the mocap poses say: positions only, for drawing."""
        mujoco.mj_kinematics(self.world.model, self.world.data)
        mujoco.mj_camlight(self.world.model, self.world.data)

    def draw(self) -> NDArray[np.uint8]:
        """The D455's picture, uint8 height x width x 3 RGB; a view of the buffer, valid until the next call."""
        return self._view.draw(self.world.data)

    def depth_m(self) -> NDArray[np.float32]:
        """Depth of what `draw` shows, from the trained view (no knock, no jitter), float32 height x width, m; 0 = none."""
        model, camera = self.world.model, self.camera
        stands = model.cam_pos[camera].copy(), model.cam_quat[camera].copy()
        model.cam_pos[camera], model.cam_quat[camera] = self._nominal[3], self._nominal[4]
        mujoco.mj_camlight(model, self.world.data)
        self._view.draw(self.world.data, depth=True)
        model.cam_pos[camera], model.cam_quat[camera] = stands
        mujoco.mj_camlight(model, self.world.data)
        depth = self._view.depth_m()
        return np.where(depth < _DEPTH_MOST_M, depth, 0).astype(np.float32)

    def advance(
        self,
        from_q_rad: NDArray[np.float64], to_q_rad: NDArray[np.float64], from_opening: float, to_opening: float,
        steps: int,
    ) -> None:  # fmt: skip
        """Physics while joints and fingers are commanded along a straight line, `steps` of world.STEP_S."""
        data, fingers = self.world.data, self.world.fingers_actuator
        for k in range(1, steps + 1):
            share = k / steps
            data.ctrl[:ARM_DOF] = from_q_rad + (to_q_rad - from_q_rad) * share
            data.ctrl[fingers] = FINGER_CTRL_MAX * (1 - (from_opening + (to_opening - from_opening) * share))
            mujoco.mj_step(self.world.model, data)

    def project(self, xyz_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where a point (m, base) is in the picture: (right, down) as shares of width and height."""
        model, data = self.world.model, self.world.data
        x, y, z = data.cam_xmat[self.camera].reshape(3, 3).T @ (xyz_m - data.cam_xpos[self.camera])
        focal = 0.5 / np.tan(np.radians(float(model.cam_fovy[self.camera])) / 2)  # in picture heights
        aspect = self._view.height / self._view.width
        return np.array([x / -z * focal * aspect + 0.5, -y / -z * focal + 0.5])
