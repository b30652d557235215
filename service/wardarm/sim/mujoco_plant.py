"""The bedside's plant: the arm's joints and the gripper's fingers in MuJoCo, moved by their servos and by contact.

Two milliseconds a step. Speeds, lag and forces come out of the physics; nothing is put where it should be.
"""

from __future__ import annotations

import mujoco
import numpy as np

from wardarm.sim import robot
from wardarm.sim.gripper import AT_REQUEST, MOVING, STOPPED_CLOSING, STOPPED_OPENING
from wardarm.sim.judge import Judge
from wardarm.sim.plant import PlantState, Six
from wardarm.sim.world import ARM_DOF, World

# Robotiq 2F-85 data sheet: stroke 85 mm, closing speed 20..150 mm/s, grip force 20..235 N
_STROKE_MM, _SPEED_MM_S, _FORCE_N = 85.0, (20.0, 150.0), (20.0, 235.0)
_PAD_N_PER_ACTUATOR_NM = 9.8
"""Force of one pad for each Nm of the model's finger actuator: measured on the model, squeezing a cup."""
_STALLED_RAD_S, _STALLED_S = 0.02, 0.06
_ARRIVED = 0.04
"""Share of the stroke within which fingers have arrived: closed on nothing, the model's stop 2 % short."""

_NO_FORCE: Six = (0.0,) * 6


class Fingers:
    """The gripper as `gripper.GripperDevice`: an opening approached at a set speed, with a limited force.

    Openings are 1 (85 mm) to 0 (closed). Fingers that stand still short of where they were sent hold something.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self._force_nm = world.model.actuator_forcerange[world.fingers_actuator]
        self._dof = int(world.model.jnt_dofadr[world.model.joint(robot.FINGER_JOINT).id])
        self._target = self._ramp = 1.0
        self._still_s, self._closing = 0.0, False
        self.set_target(1.0, 255, 80)

    def set_target(self, opening: float, speed: int, force: int) -> None:
        """Go to an opening, 0..1, with Robotiq's speed and force, 0..255."""
        if opening != self._target:
            self._closing, self._still_s = opening < self._target, 0.0
        self._target = min(1.0, max(0.0, opening))
        self._speed_1_s = (_SPEED_MM_S[0] + speed / 255 * (_SPEED_MM_S[1] - _SPEED_MM_S[0])) / _STROKE_MM
        limit_nm = (_FORCE_N[0] + force / 255 * (_FORCE_N[1] - _FORCE_N[0])) / _PAD_N_PER_ACTUATOR_NM
        self._force_nm[:] = [-limit_nm, limit_nm]

    def advance(self, dt_s: float) -> None:
        """Before each physics step: move the servo's set point on."""
        step = self._speed_1_s * dt_s
        self._ramp += max(-step, min(step, self._target - self._ramp))
        data = self.world.data
        data.ctrl[self.world.fingers_actuator] = (1 - self._ramp) * robot.FINGER_CTRL_MAX
        moving = abs(float(data.qvel[self._dof])) > _STALLED_RAD_S
        self._still_s = 0.0 if moving or self._ramp != self._target else self._still_s + dt_s

    def state(self) -> tuple[float, int]:
        """Opening as the fingers stand, and Robotiq's OBJ."""
        opening = self.world.opening()
        if self._still_s < _STALLED_S:
            return opening, MOVING
        if abs(opening - self._target) <= _ARRIVED:
            return opening, AT_REQUEST
        return opening, STOPPED_CLOSING if self._closing else STOPPED_OPENING


class MujocoPlant:
    """`plant.Plant` on a `World`. A judge, if given, sees every step."""

    def __init__(self, world: World, judge: Judge | None = None) -> None:
        self.world, self.judge = world, judge
        self.fingers = Fingers(world)
        m = world.model
        self._root = int(m.body_rootid[m.body("base").id])
        self._links = np.flatnonzero(m.body_rootid == self._root)
        self._of_arm = m.body_rootid[m.geom_bodyid] == self._root

    def reset(self, q: Six) -> PlantState:
        """Joints there at once, at rest."""
        self.world.set_arm(q)
        return self._state()

    def step(self, q_target: Six, qd_target: Six) -> PlantState:
        """Two milliseconds of physics towards `q_target` (rad). `qd_target` is not fed forward: a real arm lags."""
        d = self.world.data
        d.ctrl[:ARM_DOF] = q_target
        self.fingers.advance(self.world.model.opt.timestep)
        mujoco.mj_step(self.world.model, d)
        if self.judge is not None:
            self.judge.observe()
        return self._state()

    def _state(self) -> PlantState:
        d = self.world.data
        return PlantState(tuple(d.qpos[:ARM_DOF].tolist()), tuple(d.qvel[:ARM_DOF].tolist()), self._tcp_force())

    def _tcp_force(self) -> Six:
        """What the world outside pushes the arm with, at the TCP: N and Nm, base frame."""
        d = self.world.data
        one, other = self._of_arm[d.contact.geom].T
        if not (one ^ other).any():  # its own parts against each other push it nowhere
            return _NO_FORCE
        mujoco.mj_rnePostConstraint(self.world.model, d)
        torque_force = d.cfrc_ext[self._links].sum(0)  # about the arm's centre of mass
        if not torque_force.any():
            return _NO_FORCE
        (tx, ty, tz), (fx, fy, fz) = torque_force[:3].tolist(), torque_force[3:].tolist()
        x, y, z = (d.site_xpos[self.world.tcp_site] - d.subtree_com[self._root]).tolist()
        return (fx, fy, fz, tx - (y * fz - z * fy), ty - (z * fx - x * fz), tz - (x * fy - y * fx))
