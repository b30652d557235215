"""Script functions for payload, TCP, forces, freedrive and messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.dynamics import Dynamics
from wardarm.sim.ur_controller.kinematics import from_pose, inverse, product, to_pose
from wardarm.sim.ur_controller.safety import ASKED_FOR
from wardarm.sim.urscript import Pose, Program, ScriptError, UrList, numbers, people_text, to_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PAYLOAD_MAX_KG = 5.0  # UR5e data sheet
CONTACT_N = 10.0  # force at the TCP that counts as a contact; our figure


class ToolFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._program: Program | None = None

    def _attach(self, program: Program) -> None:
        self._program = program
        if not program.compiled.secondary:
            program.at_end.append(self._over)

    def _over(self) -> None:
        """What a program has switched on ends with it (URScript manual, end_force_mode)."""
        self._c.freedrive = False
        self._c.servo.offset = None

    # --- payload and TCP
    def set_payload(self, m: float, cog: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        if not 0 <= m <= PAYLOAD_MAX_KG:
            raise ScriptError(f"set_payload: {m} kg is outside the UR5e's 0 to {PAYLOAD_MAX_KG:g} kg")
        at = numbers(UrList(cog), 3, "set_payload: centre of gravity")
        self._c.payload_kg, self._c.payload_cog = float(m), at

    def set_target_payload(
        self, m: float, cog: Sequence[float] = (0.0, 0.0, 0.0), inertia: Any = None, transition_time: float = 0
    ) -> None:
        about = [0.0] * 6 if inertia is None else numbers(inertia, 6, "set_target_payload: inertia")
        self.set_payload(m, cog)
        self._c.payload_inertia = about

    def set_payload_mass(self, m: float) -> None:
        self.set_payload(m, self._c.payload_cog)

    def set_payload_cog(self, CoG: Sequence[float]) -> None:
        self.set_payload(self._c.payload_kg, CoG)

    def get_target_payload(self) -> float:
        return self._c.payload_kg

    def get_target_payload_mass(self) -> float:
        return self._c.payload_kg

    def get_target_payload_cog(self) -> UrList:
        return UrList(self._c.payload_cog)

    def get_target_payload_inertia(self) -> UrList:
        return UrList(self._c.payload_inertia)

    def set_tcp(self, pose: Sequence[float], tcp_name: str = "") -> None:
        self._c.set_tcp(numbers(pose, 6, "set_tcp"))

    def get_tcp_offset(self) -> Pose:
        return Pose(self._c.tcp_offset)

    def set_gravity(self, d: Sequence[float]) -> None:
        self._c.gravity = numbers(d, 3, "set_gravity")

    def get_gravity(self) -> UrList:
        return UrList(self._c.gravity)

    def set_base_acceleration(self, a: Sequence[float]) -> None:
        self._c.base_acceleration = numbers(a, 3, "set_base_acceleration")

    def get_base_acceleration(self) -> UrList:
        return UrList(self._c.base_acceleration)

    # --- forces: measured by the plant
    def get_tcp_force(self) -> UrList:
        return UrList(self._c.state.tcp_force)

    def force(self) -> float:
        return float(sum(v * v for v in self._c.state.tcp_force[:3]) ** 0.5)

    def get_joint_torques(self) -> UrList:
        """What the tool's wrench asks of the joints: friction and dynamics are not modelled."""
        jacobian = self._c.kinematics.jacobian(self._c.state.q, self._c.tcp)
        return UrList((-jacobian.T @ list(self._c.state.tcp_force)).tolist())

    def tool_contact(self, direction: Sequence[float] = (0.0,) * 6) -> int:
        """1 while the TCP is pushed with more than 10 N against `direction` (any, if it is zero), else 0."""
        force, way = self._c.state.tcp_force[:3], direction[:3]
        length = math.hypot(*way)
        against = -sum(f * w for f, w in zip(force, way, strict=True)) / length if length > 0 else math.hypot(*force)
        return int(against > CONTACT_N)

    # --- dynamics: links as mass points
    def get_mass_matrix(self, q: Any = None, include_rotors_inertia: bool = False) -> UrList:
        return UrList(UrList(row) for row in self._dynamics().mass_matrix(self._c.state.q if q is None else q).tolist())

    def get_coriolis_and_centrifugal_torques(self, q: Any = None, qd: Any = None) -> UrList:
        here, speed = self._c.state.q if q is None else q, self._c.state.qd if qd is None else qd
        return UrList(self._dynamics().coriolis(here, speed).tolist())

    def _dynamics(self) -> Dynamics:
        return Dynamics(self._c.kinematics, self._c.payload_kg, self._c.payload_cog)

    # --- freedrive: nothing moves by itself; the simulation's `inject jog` is the hand
    def freedrive_mode(self, freeAxes: Any = None, feature: Any = None) -> None:
        self._c.freedrive = True
        self._c.servo.brake(10.0)
        self._c.note("freedrive: the arm moves by 'inject jog' only")

    def freedrive_mode_no_incorrect_payload_check(self) -> None:
        self.freedrive_mode()

    def teach_mode(self) -> None:
        self.freedrive_mode()

    def end_freedrive_mode(self) -> None:
        self._c.freedrive = False

    def end_teach_mode(self) -> None:
        self._c.freedrive = False

    def get_freedrive_status(self) -> int:
        """0 normal, 1 near a singularity, 2 too close: by the Jacobian's smallest singular value, ours."""
        import numpy as np

        least = float(np.linalg.svd(self._c.kinematics.jacobian(self._c.state.q, self._c.tcp), compute_uv=False)[-1])
        return 2 if least < 0.01 else 1 if least < 0.03 else 0

    def set_pos(self, q: Sequence[float]) -> None:
        """The simulated robot is there at once, at rest."""
        goal = numbers(q, 6, "set_pos")
        self._c.move_by_hand([v - now for v, now in zip(goal, self._c.state.q, strict=True)])

    # --- messages and stops
    def textmsg(self, s1: Any, s2: Any = "") -> None:
        self._c.note("textmsg: " + people_text(to_text(s1) + to_text(s2)))

    def popup(
        self, s: Any, title: str = "Popup", warning: bool = False, error: bool = False, blocking: bool = False
    ) -> None:
        """A blocking one holds the thread until the dashboard's `close popup`."""
        c = self._c
        c.note("popup " + people_text(f"{to_text(title)}: {to_text(s)}"))
        if not blocking:
            return
        assert self._program is not None
        c.popup_open = True
        while c.popup_open:
            self._program.wait()

    def protective_stop(self) -> None:
        self._c.safety.protective_stop(self._c.time_s, "asked for by the program", ASKED_FOR)

    def powerdown(self) -> None:
        self._c.safety.power_off()

    # --- frames: the world model's base and tool only
    def get_pose(self, name: str, rel_name: str = "base", ref_name: str = "") -> Pose:
        frames = {
            "base": from_pose((0.0,) * 6), "world": from_pose((0.0,) * 6),
            "flange": self._c.kinematics.flange(self._c.state.q), "tcp": self._c.tcp_frame,
        }  # fmt: skip
        for wanted in (name, rel_name):
            if wanted not in frames:
                raise ScriptError(f"get_pose: no frame {wanted!r}; the simulated world has {', '.join(frames)}")
        return Pose(to_pose(product(inverse(frames[rel_name]), frames[name])))
