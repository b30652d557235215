"""Script functions that ask where the arm is, how fast, and what its kinematics say."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.kinematics import Frame, NoSolution, from_pose, inverse, product, to_pose
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.urscript import Pose, Program, ScriptError, UrList

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

HISTORY_CYCLES = 1000  # ours: two seconds; the manual names no limit


class WhereFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller

    def _attach(self, program: Program) -> None:
        pass

    # --- joints
    def get_actual_joint_positions(self) -> UrList:
        return UrList(self._c.state.q)

    def get_joint_positions(self) -> UrList:
        """Not in the manual any more; the external-control script of Universal Robots' client library calls it."""
        return self.get_actual_joint_positions()

    def get_actual_joint_positions_history(self, steps: int = 0) -> UrList:
        past: deque[Sequence[float]] = self._c.past_q
        if not 0 <= steps < HISTORY_CYCLES:
            raise ScriptError(f"get_actual_joint_positions_history: {steps} steps, 0 to {HISTORY_CYCLES - 1} are kept")
        return UrList(past[-1 - steps] if steps < len(past) else past[0] if past else self._c.state.q)

    def get_actual_joint_speeds(self) -> UrList:
        return UrList(self._c.state.qd)

    def get_actual_joint_accelerations(self) -> UrList:
        return UrList(self._c.servo.qdd)

    def get_target_joint_positions(self) -> UrList:
        return UrList(self._c.servo.bare_q)

    def get_target_joint_speeds(self) -> UrList:
        return UrList(self._c.servo.qd)

    def get_target_joint_accelerations(self) -> UrList:
        return UrList(self._c.servo.qdd)

    # --- tool
    def get_actual_tcp_pose(self) -> Pose:
        return Pose(self._c.tcp_pose)

    def get_target_tcp_pose(self) -> Pose:
        return Pose(self._c.target_tcp_pose)

    def get_actual_tcp_speed(self) -> UrList:
        return UrList(self._c.tcp_speed(self._c.state.q, self._c.state.qd))

    def get_target_tcp_speed(self) -> UrList:
        return UrList(self._c.tcp_speed(self._c.servo.q, self._c.servo.qd))

    def get_target_tcp_pose_along_path(self) -> Pose:
        return Pose(to_pose(product(self._c.kinematics.flange(self._c.servo.bare_q), self._c.tcp)))

    def get_target_tcp_speed_along_path(self) -> UrList:
        return self.get_target_tcp_speed()

    def get_actual_tool_flange_pose(self) -> Pose:
        return Pose(to_pose(self._c.kinematics.flange(self._c.state.q)))

    def get_target_waypoint(self) -> Pose:
        """Where the move that plays will end."""
        path = self._c.servo.path
        law = getattr(path, "law", None)
        q = self._c.servo.bare_q if law is None else law.goal_q
        return Pose(to_pose(product(self._c.kinematics.flange(q), self._c.tcp)))

    # --- kinematics: of the arm with its calibration
    def _offset(self, tcp: Any) -> Frame:
        return self._c.tcp if tcp is None or isinstance(tcp, str) else from_pose(tcp)

    def get_forward_kin(self, q: Any = None, tcp: Any = None) -> Pose:
        return Pose(to_pose(product(self._c.kinematics.flange(self._c.state.q if q is None else q), self._offset(tcp))))

    def _solve(self, x: Any, qnear: Any, tcp: Any) -> list[float]:
        if not isinstance(x, list) or len(x) != 6:
            raise ScriptError("inverse kinematics need a pose")
        near = self._c.servo.q if qnear is None or isinstance(qnear, str) else qnear
        return self._c.kinematics.closest(product(from_pose(x), inverse(self._offset(tcp))), near)

    def get_inverse_kin(
        self,
        x: Any,
        qnear: Any = None,
        maxPositionError: float = 1e-10,
        maxOrientationError: float = 1e-10,
        tcp: Any = None,
    ) -> UrList:
        try:
            return UrList(self._solve(x, qnear, tcp))
        except NoSolution as e:
            raise ScriptError(f"get_inverse_kin: {e}") from e

    def get_inverse_kin_has_solution(
        self,
        pose: Any,
        qnear: Any = None,
        maxPositionError: float = 1e-10,
        maxOrientationError: float = 1e-10,
        tcp: Any = None,
    ) -> bool:
        try:
            self._solve(pose, qnear, tcp)
        except NoSolution:
            return False
        return True

    def get_jacobian(self, q: Any = None, tcp: Any = None) -> UrList:
        jacobian = self._c.kinematics.jacobian(self._c.state.q if q is None else q, self._offset(tcp))
        return UrList(UrList(row) for row in jacobian.tolist())

    def get_jacobian_time_derivative(self, q: Any = None, qd: Any = None, tcp: Any = None) -> UrList:
        """By a central difference along `qd` over 0.2 ms."""
        here = self._c.state.q if q is None else q
        speed = self._c.state.qd if qd is None else qd
        offset, half_s = self._offset(tcp), 1e-4
        ahead, behind = (
            self._c.kinematics.jacobian([a + sign * half_s * v for a, v in zip(here, speed, strict=True)], offset)
            for sign in (1, -1)
        )
        return UrList(UrList(row) for row in ((ahead - behind) / (2 * half_s)).tolist())

    def is_steady(self) -> bool:
        return max(abs(v) for v in self._c.state.qd) < 1e-4

    def is_within_safety_limits(self, pose: Any) -> bool:
        """Reach and joint limits: this controller has no safety planes."""
        try:
            q = self._solve(pose, None, None) if isinstance(pose, Pose) else pose
        except NoSolution:
            return False
        return bool(max(abs(v) for v in q) <= self._c.limits.joint_rad)

    def get_steptime(self) -> float:
        return CYCLE_S

    def time(self, mode: int = 0) -> Any:
        """Since 5.17. 0: controller time since its start; others are the same here, so that runs repeat themselves."""
        from wardarm.sim.urscript import Struct

        ns = self._c.cycle * round(CYCLE_S * 1e9)
        return Struct(m_sec=ns // 1_000_000_000, m_nanosec=ns % 1_000_000_000)

    def random(self) -> float:
        return self._c.random.random()

    # --- an offset on whatever plays
    def path_offset_enable(self) -> None:
        self._c.path_offset.enable(self._c.servo)

    def path_offset_disable(self, a: float = 20) -> None:
        if not 0 < a < math.inf:
            raise ScriptError(f"path_offset_disable: a = {a}, more than 0 is needed")
        self._c.path_offset.disable(self._c.servo)

    def path_offset_set(self, offset: Any, type: int) -> None:
        if type not in (1, 2):
            raise ScriptError(f"path_offset_set: type {type} is not simulated; 1 (base) and 2 (TCP) are")
        self._c.path_offset.set(offset, type)

    def path_offset_get(self, type: int) -> Pose:
        return Pose(self._c.path_offset.applied if type == self._c.path_offset.type else [0.0] * 6)

    def path_offset_set_max_offset(self, transLimit: float, rotLimit: float) -> None:
        self._c.path_offset.limits = (abs(float(transLimit)), abs(float(rotLimit)))

    def path_offset_set_alpha_filter(self, alpha: float) -> None:
        if not 0 <= alpha <= 1:
            raise ScriptError(f"path_offset_set_alpha_filter: {alpha} is outside [0, 1]")
        self._c.path_offset.alpha = float(alpha)

    def position_deviation_warning(self, enabled: bool, threshold: float = 0.8) -> None:
        if not 0 <= threshold <= 1:
            raise ScriptError(f"position_deviation_warning: threshold {threshold} is outside [0, 1]")
        self._c.deviation_warning = float(threshold) if enabled else math.inf
