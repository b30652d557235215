"""Script functions that move the arm. Those that take time wait cycle by cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.kinematics import Frame, NoSolution, from_pose, inverse, product
from wardarm.sim.ur_controller.modes import CYCLE_S, SafetyMode
from wardarm.sim.ur_controller.motion import (
    TOOL_M_S,
    TOOL_M_S2,
    TURN_M,
    JointLaw,
    Law,
    MovePath,
    Profile,
    ToolLaw,
    circle,
    corner,
    line,
    tool_turn,
)
from wardarm.sim.ur_controller.motion_arguments import effort, not_negative, positive, share, six
from wardarm.sim.ur_controller.servo import ACCELERATION_MAX
from wardarm.sim.ur_controller.tool_speed import ToolSpeedPath
from wardarm.sim.urscript import Pose, Program, ScriptError, UrList, to_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

_STANDING = 1e-9  # m or rad: a move shorter than this is none
SLEEP_MAX_S = 1e6
_GENTLER_TRIES = 4  # of a smaller acceleration, until a move takes longer as a whole
_WITHIN = 0.965  # of the TCP's limit that a move keeps to: the limit has a tolerance; our figure
OPTIMOVEL_M_S, OPTIMOVEL_M_S2 = 1.0, 10.0  # the tool's maximum for optimovel's shares; our figures

MakeLaw = Callable[[Sequence[float], MovePath | None], Law | None]


def _unattached() -> None:
    raise RuntimeError("no program is attached")


class MotionFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._program: Program | None = None
        self._wait: Callable[[], None] = _unattached
        self._servo_debt_s = 0.0

    def _attach(self, program: Program) -> None:
        self._program = program
        self._wait = program.wait

    # --- arguments
    def _tcp_goal(self, goal: Any) -> Frame:
        """Where the TCP is to go: a pose, or joint positions."""
        if isinstance(goal, Pose):
            return from_pose(goal)
        return product(self._c.kinematics.flange(six(goal)), self._c.tcp)

    def _joint_goal(self, goal: Any, near: Sequence[float]) -> list[float]:
        if not isinstance(goal, Pose):
            return six(goal)
        try:
            return self._c.kinematics.closest(product(from_pose(goal), inverse(self._c.tcp)), near)
        except NoSolution as e:
            raise ScriptError(str(e)) from e

    # --- time
    def sync(self) -> None:
        self._wait()

    def sleep(self, t: float) -> None:
        """Physical time: not stretched by the speed slider."""
        if not 0 <= t <= SLEEP_MAX_S:
            raise ScriptError(f"sleep: {t} s is not possible")
        assert self._program is not None
        left = max(1, round(t / CYCLE_S))

        def over() -> bool:
            nonlocal left
            left -= 1
            return left <= 0

        self._program.wait_for(over)

    # --- servo and speed
    def servoj(
        self, q: Any, a: float = 0, v: float = 0, t: float = 0.002, lookahead_time: float = 0.1, gain: float = 300
    ) -> None:
        if not 0.03 <= lookahead_time <= 0.2:
            raise ScriptError(f"servoj: lookahead_time {lookahead_time} s is outside [0.03, 0.2]")
        if not 100 <= gain <= 2000:
            raise ScriptError(f"servoj: gain {gain} is outside [100, 2000]")
        if not 0 < t < math.inf:
            raise ScriptError(f"servoj: t = {to_text(t)} s, more than 0 is needed")
        c = self._c
        if c.freedrive:
            self._free()
        self._servo_debt_s += t
        goal = q if q.__class__ is UrList and len(q) == 6 and _plain(q) else self._joint_goal(q, c.servo.q)
        c.servo.servo(goal, self._servo_debt_s, lookahead_time)
        while True:
            self._servo_debt_s -= CYCLE_S * c.scale
            self._wait()
            if self._servo_debt_s <= 1e-9:
                return

    def speedj(self, qd: Sequence[float], a: float = 1.4, t: float = 0) -> None:
        goal, a, t = six(qd), positive("speedj", "a", a), not_negative("speedj", "t", t)
        servo = self._c.servo
        self._free()
        servo.speed(goal, a)
        if t > 0:
            return self._for(t)
        while not servo.speed_reached:
            self._wait()
        return self._wait()

    def speedl(self, xd: Sequence[float], a: float = 1.2, t: float = 0, aRot: Any = None) -> None:
        t = not_negative("speedl", "t", t)
        path = self._tool_speed("speedl", six(xd), a, aRot)
        if t > 0:
            return self._for(t)
        self._wait()
        while not path.reached and self._c.servo.path is path:
            self._wait()
        return None

    def _for(self, t: float) -> None:
        """Program time: the speed slider stretches it (external_control.urscript's splines count on that)."""
        while True:
            t -= CYCLE_S * self._c.scale
            self._wait()
            if t <= 1e-9:
                return

    def _tool_speed(self, function: str, goal: Sequence[float], a: float, a_turn: Any) -> ToolSpeedPath:
        a = positive(function, "a", a)
        if a_turn is not None and not isinstance(a_turn, str):  # the manual's default is the text 'a'
            a_turn = positive(function, "aRot", a_turn)
        self._free()
        c = self._c
        servo = c.servo
        if isinstance(servo.path, ToolSpeedPath):
            now: Sequence[float] = servo.path.twist.tolist()
        else:
            now = c.tcp_speed(servo.bare_q, servo.qd)
        turn = a_turn if isinstance(a_turn, float) else a
        path = ToolSpeedPath(c.kinematics, c.tcp, servo.bare_q, now, goal, a, turn)
        servo.follow(path)
        return path

    def stopj(self, a: float = 2.0) -> None:
        self._c.servo.brake(positive("stopj", "a", a))
        self._until_rest()

    def stopl(self, a: float = 20.0, aRot: Any = None) -> None:
        positive("stopl", "a", a)
        if any(self._c.servo.qd):
            self._tool_speed("stopl", [0.0] * 6, a, aRot)
        self._until_rest()

    def _until_rest(self) -> None:
        servo = self._c.servo
        while any(servo.qd):
            self._wait()
        if servo.path is None:
            servo.settle()

    # --- moves
    def _free(self) -> None:
        if self._c.freedrive:
            raise ScriptError("the robot is in freedrive: end_freedrive_mode comes first")

    def _play(self, make: MakeLaw, r: float) -> None:
        """From where the arm stands (or blends out of the move before) along a law to its end, or to within `r` of it.

        What stops the arm on the way (a protective stop, a jog) makes the move begin anew from there, once the program
        goes on.
        """
        if not 0 <= r < 10:
            raise ScriptError(f"the blend radius {r} m is not possible")
        servo = self._c.servo
        while True:
            self._free()
            if servo.path is not None and servo.path.done:
                servo.settle()
            before = servo.path if isinstance(servo.path, MovePath) and servo.path.blend_m > 0 else None
            if servo.path is not None and before is None:
                if isinstance(servo.path, MovePath):
                    raise ScriptError("another thread is already controlling the robot")
                self.stopj(ACCELERATION_MAX / 10)
            elif before is None and any(servo.qd):
                self._c.note("a move began while the arm was not at rest: it stops first")
                self.stopj(ACCELERATION_MAX / 10)
            try:
                law = make(servo.bare_q if before is None else before.law.goal_q, before)
            except NoSolution as e:  # of a tool's path; movej to such a pose is a runtime error
                self._c.safety.protective_stop(self._c.time_s, f"the end of the path cannot be reached: {e}")
                self._wait()
                continue
            if law is None:
                return
            if before is not None and self._overlap(before, law, r):
                self._c.note("Overlapping Blends: a move was skipped")
                return
            if self._follow(law, before, r):
                return

    def _overlap(self, before: MovePath, law: Law, r: float) -> bool:
        start = product(self._c.kinematics.flange(before.law.goal_q), self._c.tcp)[9:]
        return r > 0 and math.dist(start, law.goal) < before.blend_m + r

    def _follow(self, law: Law, before: MovePath | None, r: float) -> bool:
        """False if something else stopped it."""
        servo = self._c.servo
        if before is not None and not law.takes_over:
            path = before
            path.add(law)
            path.blend_m = 0.0
        else:
            limits, reduced = self._c.limits, self._c.safety.mode is SafetyMode.REDUCED
            most_m_s = limits.reduced_tcp_m_s if reduced else limits.tcp_m_s
            path = MovePath(law, servo.bare_q, _WITHIN * most_m_s)
            servo.follow(path)
        try:
            while not law.done:
                self._wait()
                if servo.path is not path:
                    return law.done
                if r > 0 and law.left_m() <= r and not law.done:
                    path.blend_m = r
                    return True
        except BaseException:  # the thread was killed: nobody controls the arm any more
            if servo.path is path:
                servo.brake(ACCELERATION_MAX)
            raise
        return True

    def movej(self, q: Any, a: float = 1.4, v: float = 1.05, t: float = 0, r: float = 0) -> None:
        c = self._c
        a, v, t = effort("movej", a, v, t)

        def make(start: Sequence[float], _: MovePath | None) -> Law | None:
            goal = self._joint_goal(q, start)
            for joint, angle in enumerate(goal):
                if abs(angle) > c.limits.joint_rad:
                    limit = math.degrees(c.limits.joint_rad)
                    raise ScriptError(
                        f"joint {joint} cannot go to {math.degrees(angle):.0f} deg: its limit is {limit:.0f}"
                    )
            if max(abs(g - s) for s, g in zip(start, goal, strict=True)) < _STANDING:
                return None
            return JointLaw(c.kinematics, c.tcp, start, goal, v, a, t)

        self._play(make, r)

    def movel(self, pose: Any, a: float = 1.2, v: float = 0.25, t: float = 0, r: float = 0) -> None:
        goal = self._tcp_goal(pose)
        a, v, t = effort("movel", a, v, t)

        def make(start: Sequence[float], _: MovePath | None) -> Law | None:
            return self._tool_law(start, goal, line(self._tcp(start)[9:], goal[9:]), a, v, t)

        self._play(make, r)

    def _tcp(self, q: Sequence[float]) -> Frame:
        return product(self._c.kinematics.flange(q), self._c.tcp)

    def _tool_law(
        self, start: Sequence[float], goal: Frame, curve: tuple[Any, float], a: float, v: float, t: float = 0.0,
        v0: float = 0.0, turn: Sequence[float] | None = None,
    ) -> ToolLaw | None:  # fmt: skip
        point, length = curve
        angle = math.hypot(*(tool_turn(self._tcp(start), goal) if turn is None else turn))
        distance = max(length, angle * TURN_M)
        if distance < _STANDING:
            return None
        c = self._c
        profile = Profile.within(distance, v, a, t, v0, (TOOL_M_S, TOOL_M_S2))
        law = ToolLaw(c.kinematics, c.tcp, start, goal, point, length, profile, turn)
        for _ in range(_GENTLER_TRIES):
            if (share_of_limit := law.effort()) <= 1.001:
                return law
            if t <= 0:
                a = min(a, TOOL_M_S2) / share_of_limit
                law.profile = Profile.within(distance, v, a, t, v0, (TOOL_M_S, TOOL_M_S2))
            else:
                law.profile.stretch(math.sqrt(share_of_limit))
        law.profile.stretch(math.sqrt(max(1.0, law.effort())))
        return law

    def movep(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0) -> None:
        self._movep("movep", pose, a, v, r)

    def _movep(self, function: str, pose: Any, a: float, v: float, r: float) -> None:
        goal = self._tcp_goal(pose)
        a, v, _ = effort(function, a, v)

        def make(start: Sequence[float], before: MovePath | None) -> Law | None:
            if before is None or not isinstance(before.law, ToolLaw):
                return self._tool_law(start, goal, line(self._tcp(start)[9:], goal[9:]), a, v)
            here = list(self._c.servo.bare_q)
            curve = corner(self._tcp(here)[9:], before.law.goal, goal[9:])
            speed = before.law.profile.speed(before.law.passed_s)
            law = self._tool_law(here, goal, curve, a, v, v0=speed)
            if law is not None:
                law.takes_over = True
            return law

        self._play(make, r)

    def movec(self, pose_via: Any, pose_to: Any, a: float = 1.2, v: float = 0.25, r: float = 0, mode: int = 0) -> None:
        if mode not in (0, 1):
            raise ScriptError(f"movec: mode {mode}, expected 0 (unconstrained) or 1 (fixed)")
        via, goal = self._tcp_goal(pose_via), self._tcp_goal(pose_to)
        a, v, _ = effort("movec", a, v)

        def make(start: Sequence[float], _: MovePath | None) -> Law | None:
            here = self._tcp(start)
            try:
                point, length, turn = circle(here[9:], via[9:], goal[9:])
            except ValueError as e:
                raise ScriptError(f"movec: {e}") from e
            end = goal
            if mode == 1:
                turned = product(from_pose((0.0, 0.0, 0.0, *turn)), (*here[:9], 0.0, 0.0, 0.0))
                end = (*turned[:9], *goal[9:])
            return self._tool_law(start, end, (point, length), a, v, turn=turn if mode == 1 else None)

        self._play(make, r)

    def servoc(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0) -> None:
        """As movep, and at least one cycle long: it is called over and over with poses that lie close together."""
        cycle = self._c.cycle
        self._movep("servoc", pose, a, v, r)
        if self._c.cycle == cycle:
            self._wait()

    def optimovej(self, goal: Any, a: float = 0.3, v: float = 0.3, r: float = 0) -> None:
        self._c.note("optimovej is played as movej with the trapezoid of these shares of 40 rad/s2 and 180 deg/s")
        self.movej(goal, share(a, "a") * ACCELERATION_MAX, share(v, "v") * math.pi, 0, r)

    def optimovel(self, goal: Any, a: float = 0.3, v: float = 0.3, r: float = 0) -> None:
        self._c.note(
            "optimovel is played as movel with a trapezoid within these shares of what the joints and the TCP may"
        )
        shares = share(a, "a"), share(v, "v")
        end = self._tcp_goal(goal)

        def make(start: Sequence[float], _: MovePath | None) -> Law | None:
            curve = line(self._tcp(start)[9:], end[9:])
            law = self._tool_law(start, end, curve, 1.0, 1.0)
            if law is None:
                return None
            steep = law.steepest()  # rad of the fastest joint per m along the line
            fastest = shares[1] * min(OPTIMOVEL_M_S, math.pi / steep)
            return self._tool_law(start, end, curve, shares[0] * min(OPTIMOVEL_M_S2, ACCELERATION_MAX / steep), fastest)

        self._play(make, r)


def _plain(q: Sequence[Any]) -> bool:
    """Six finite numbers, for certain; False: to be looked at. servoj comes every cycle."""
    a, b, c, d, e, f = q
    total = a + b + c + d + e + f
    return total.__class__ is float and total - total == 0.0
