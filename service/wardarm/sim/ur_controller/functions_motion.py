"""Script functions that move the arm or ask where it is. Those that take time wait cycle by cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.kinematics import (
    Frame,
    NoSolution,
    from_pose,
    inverse,
    product,
    rotation_vector,
    to_pose,
)
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.urscript import Pose, Program, ScriptError, UrList

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

_ROTATION_M = 0.1  # a radian of rotation counts as this many metres along a straight line; our figure


def _profile(distance: float, speed: float, acceleration: float) -> tuple[float, Callable[[float], float]]:
    """A trapezoid from rest to rest: its duration and the distance gone at a time."""
    speed, acceleration = max(speed, 1e-6), max(acceleration, 1e-6)
    rise = min(speed / acceleration, math.sqrt(distance / acceleration))
    speed = rise * acceleration
    total = distance / speed + rise

    def gone(t: float) -> float:
        if t >= total:
            return distance
        if t < rise:
            return 0.5 * acceleration * t * t
        if t < total - rise:
            return speed * (t - rise / 2)
        return distance - 0.5 * acceleration * (total - t) ** 2

    return total, gone


class MotionFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._program: Program | None = None
        self._servo_debt_s = 0.0

    def _attach(self, program: Program) -> None:
        self._program = program

    def _wait(self) -> None:
        assert self._program is not None
        self._program.wait()

    def _flange(self, pose: Sequence[float], tcp: Sequence[float] | str | None = None) -> Frame:
        offset = self._c.tcp if tcp is None or isinstance(tcp, str) else from_pose(tcp)
        return product(from_pose(pose), inverse(offset))

    def _joints(self, goal: Any) -> list[float]:
        if not isinstance(goal, Pose):
            if not isinstance(goal, list) or len(goal) != 6:
                raise ScriptError("joint positions are a list of 6 numbers")
            return [float(v) for v in goal]
        try:
            return self._c.kinematics.joints(self._flange(goal), self._c.servo.q)
        except NoSolution as e:
            raise ScriptError(str(e)) from e

    # --- time
    def sync(self) -> None:
        self._wait()

    def sleep(self, t: float) -> None:
        """Physical time: not stretched by the speed slider."""
        for _ in range(max(1, round(t / CYCLE_S))):
            self._wait()

    # --- servo
    def servoj(
        self, q: Any, a: float = 0, v: float = 0, t: float = 0.002, lookahead_time: float = 0.1, gain: float = 300
    ) -> None:
        if not 0.03 <= lookahead_time <= 0.2:
            raise ScriptError(f"servoj: lookahead_time {lookahead_time} s is outside [0.03, 0.2]")
        if not 100 <= gain <= 2000:
            raise ScriptError(f"servoj: gain {gain} is outside [100, 2000]")
        self._servo_debt_s += t
        self._c.servo.servo(self._joints(q), self._servo_debt_s, lookahead_time)
        while True:
            self._servo_debt_s -= CYCLE_S * self._c.scale
            self._wait()
            if self._servo_debt_s <= 1e-9:
                return

    def servoc(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0) -> None:
        self._c.servo.servo(self._joints(pose), CYCLE_S, 0.1)
        self._wait()

    def _speed(self, qd: Sequence[float], a: float, t: float) -> None:
        c = self._c
        c.servo.speed(qd, a)
        reach_s = max(abs(w - v) for w, v in zip(qd, c.servo.qd, strict=True)) / max(abs(a), 1e-6)
        for _ in range(max(1, round((t if t > 0 else reach_s) / CYCLE_S))):
            self._wait()

    def speedj(self, qd: Sequence[float], a: float = 1.4, t: float = 0) -> None:
        self._speed(qd, a, t)

    def speedl(self, xd: Sequence[float], a: float = 1.2, t: float = 0, aRot: Any = None) -> None:
        import numpy as np

        jacobian = self._c.kinematics.jacobian(self._c.servo.q, self._c.tcp)
        qd = np.linalg.lstsq(jacobian, np.array(xd, float), rcond=1e-6)[0]
        self._speed([float(v) for v in qd], max(a * 4, 1e-6), t)

    def stopj(self, a: float = 2.0) -> None:
        servo = self._c.servo
        servo.brake(a)
        while any(servo.qd):
            self._wait()
        servo.set(servo.q)

    def stopl(self, a: float = 20.0, aRot: Any = None) -> None:
        self.stopj(max(4.0, a))

    # --- moves: from rest to rest; blending radii are ignored
    def _follow(self, distance: float, v: float, a: float, t: float, at: Callable[[float], Sequence[float]]) -> bool:
        """False if something else (a protective stop) moved the target meanwhile: then the move begins anew from there."""
        servo = self._c.servo
        if distance < 1e-9:
            return True
        total, gone = _profile(distance, v, a)
        rate = total / t if t > 0 else 1.0
        passed = 0.0
        while passed < total:
            passed = min(total, passed + CYCLE_S * rate * self._c.scale)
            q = at(gone(passed) / distance)
            servo.path(q)
            self._wait()
            if max(abs(x - y) for x, y in zip(servo.q, q, strict=True)) > 1e-9 and self._c.scale > 0:
                return False
        servo.set(at(1.0))
        return True

    def movej(self, q: Any, a: float = 1.4, v: float = 1.05, t: float = 0, r: float = 0) -> None:
        goal, arrived = self._joints(q), False
        while not arrived:
            start = list(self._c.servo.q)
            arrived = self._follow(
                max(abs(g - s) for s, g in zip(start, goal, strict=True)), v, a, t,
                lambda f, start=start: [s + (g - s) * f for s, g in zip(start, goal, strict=True)],  # type: ignore[misc]
            )  # fmt: skip

    def movel(self, pose: Any, a: float = 1.2, v: float = 0.25, t: float = 0, r: float = 0) -> None:
        kinematics = self._c.kinematics
        goal = self._flange(pose) if isinstance(pose, Pose) else kinematics.flange(self._joints(pose))
        while not self._line(goal, v, a, t):
            pass

    def _line(self, goal: Frame, v: float, a: float, t: float) -> bool:
        c = self._c
        start, still = c.kinematics.flange(c.servo.q), (0.0, 0.0, 0.0)
        turn = rotation_vector(product((*goal[:9], *still), inverse((*start[:9], *still))))
        way = [g - s for s, g in zip(start[9:], goal[9:], strict=True)]
        distance = max(math.hypot(*way), math.hypot(*turn) * _ROTATION_M)

        def at(f: float) -> list[float]:
            turned = product(from_pose((*still, *(v * f for v in turn))), (*start[:9], *still))
            frame = (*turned[:9], *(s + w * f for s, w in zip(start[9:], way, strict=True)))
            try:
                return c.kinematics.joints(frame, c.servo.q)
            except NoSolution as e:
                raise ScriptError(str(e)) from e

        return self._follow(distance, v, a, t, at)

    def movep(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0) -> None:
        self.movel(pose, a, v)

    # --- where it is
    def get_actual_joint_positions(self) -> UrList:
        return UrList(self._c.state.q)

    def get_actual_joint_positions_history(self, steps: int = 0) -> UrList:
        return UrList(self._c.state.q)

    def get_actual_joint_speeds(self) -> UrList:
        return UrList(self._c.state.qd)

    def get_target_joint_positions(self) -> UrList:
        return UrList(self._c.servo.q)

    def get_target_joint_speeds(self) -> UrList:
        return UrList(self._c.servo.qd)

    def get_actual_tcp_pose(self) -> Pose:
        return Pose(self._c.tcp_pose)

    def get_target_tcp_pose(self) -> Pose:
        return Pose(self._c.target_tcp_pose)

    def get_actual_tcp_speed(self) -> UrList:
        return UrList(self._c.tcp_speed(self._c.state.q, self._c.state.qd))

    def get_target_tcp_speed(self) -> UrList:
        return UrList(self._c.tcp_speed(self._c.servo.q, self._c.servo.qd))

    def get_actual_tool_flange_pose(self) -> Pose:
        return Pose(to_pose(self._c.kinematics.flange(self._c.state.q)))

    def get_target_waypoint(self) -> Pose:
        return Pose(self._c.target_tcp_pose)

    def get_forward_kin(self, q: Any = None, tcp: Any = None) -> Pose:
        offset = self._c.tcp if tcp is None or isinstance(tcp, str) else from_pose(tcp)
        return Pose(to_pose(product(self._c.kinematics.flange(self._c.state.q if q is None else q), offset)))

    def get_inverse_kin(
        self,
        x: Any,
        qnear: Any = None,
        maxPositionError: float = 1e-10,
        maxOrientationError: float = 1e-10,
        tcp: Any = None,
    ) -> UrList:
        try:
            return UrList(self._c.kinematics.joints(self._flange(x, tcp), self._c.servo.q if qnear is None else qnear))
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
            self._c.kinematics.joints(self._flange(pose, tcp), self._c.servo.q if qnear is None else qnear)
        except NoSolution:
            return False
        return True

    def get_jacobian(self, q: Any = None, tcp: Any = None) -> UrList:
        offset = self._c.tcp if tcp is None else from_pose(tcp)
        jacobian = self._c.kinematics.jacobian(self._c.state.q if q is None else q, offset)
        return UrList(UrList(float(v) for v in row) for row in jacobian)

    def get_jacobian_time_derivative(self, q: Any = None, qd: Any = None, tcp: Any = None) -> UrList:
        raise ScriptError("get_jacobian_time_derivative is not simulated")

    def get_mass_matrix(self, q: Any = None, include_rotors_inertia: bool = False) -> UrList:
        raise ScriptError("get_mass_matrix is not simulated")

    def get_coriolis_and_centrifugal_torques(self, q: Any = None, qd: Any = None) -> UrList:
        raise ScriptError("get_coriolis_and_centrifugal_torques is not simulated")

    def get_target_joint_accelerations(self) -> UrList:
        return UrList(self._c.servo.qdd)

    def is_steady(self) -> bool:
        return max(abs(v) for v in self._c.state.qd) < 1e-4

    def is_within_safety_limits(self, x: Any) -> bool:
        try:
            q = self._joints(x)
        except ScriptError:
            return False
        return max(abs(v) for v in q) <= 2 * math.pi

    def get_steptime(self) -> float:
        return CYCLE_S
