"""Laws of motion: where the joints are commanded to be after some program time.

A `Path` is what `Servo.follow` plays, cycle by cycle. `MovePath` plays moves: with a blend the next law begins while
the one before still comes to rest, and their displacements add up, so the corner is cut and the arm never stops.
Lengths in m, angles in rad, time in s of program time (the speed slider
stretches it).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from wardarm.sim.ur_controller.kinematics import (
    Frame,
    Kinematics,
    NoSolution,
    from_pose,
    inverse,
    product,
    rotation_vector,
)
from wardarm.sim.ur_controller.modes import CYCLE_S

Joints = list[float]
_STILL = (0.0, 0.0, 0.0)
JOINT_RAD_S = math.pi
"""What a joint can do (UR5e data sheet). Moves take longer then, as the tests of Universal Robots' client library expect
("Unfeasible time constraints should simply result in speed scaling slowing down the robot")."""
JOINT_RAD_S2 = 40.0
TOOL_M_S, TOOL_M_S2 = 3.0, 150.0
"""What a move can be asked for at most (ur_rtde's limits, rtde_control_interface.h). The TCP's own limit lies lower."""
_SLOWER_TRIES = 6
_GENTLE_M_S2, _PARTS, _KEPT = 2.0, 60, 0.95
"""Along a curve, up to this acceleration no joint comes near its limit away from a singularity; others are looked at, in
so many parts of their time, and keep to that share of it."""
_REACH_M = 1.3  # of the TCP from any joint at most: 0.85 m of arm and a long tool
TURN_M = 0.1  # a radian of rotation counts as this many metres along a straight line; our figure


class Path(Protocol):
    done: bool

    def advance(self, dt_s: float) -> Joints:
        """The joints `dt_s` later. Raises NoSolution where the arm cannot follow."""
        ...


class Profile:
    """Distance over time: from speed `v0` to `v` at `a`, on, and to rest at `a`. `t` > 0 sets the whole time instead.

    If the distance is too short to stop in, the deceleration is what it takes.
    """

    def __init__(self, distance: float, v: float, a: float, t: float = 0.0, v0: float = 0.0) -> None:
        v, a = max(abs(v), 1e-6), max(abs(a), 1e-6)
        self.distance = distance
        fall_a = a
        if v0 * v0 > 2 * a * distance > 0:
            fall_a = v0 * v0 / (2 * distance)
            top = v0
        else:
            top = max(min(v, math.sqrt(a * distance + v0 * v0 / 2)), min(v0, v))
        rise_a = a if top >= v0 else -a
        self._v0, self._rise_a, self._fall_a, self._top = v0, rise_a, fall_a, top
        self._rise_s = abs(top - v0) / a
        rise = (v0 + top) / 2 * self._rise_s
        fall = top * top / (2 * fall_a)
        self._cruise_s = max(0.0, distance - rise - fall) / top if top > 0 else 0.0
        self.total_s = self._rise_s + self._cruise_s + top / fall_a
        self._rate = self.total_s / t if t > 0 and self.total_s > 0 else 1.0
        self.total_s /= self._rate

    @property
    def hardest(self) -> float:
        """Largest acceleration, per s2."""
        return max(abs(self._rise_a), self._fall_a) * self._rate**2

    @property
    def begins_moving(self) -> bool:
        return self._v0 != 0

    def stretch(self, factor: float) -> None:
        """Take so many times as long."""
        self._rate /= factor
        self.total_s *= factor

    @classmethod
    def within(cls, distance: float, v: float, a: float, t: float, v0: float, most: tuple[float, float]) -> Profile:
        """No faster than `most` (speed, acceleration), whatever is asked for: it takes longer then."""
        if t > 0:
            return cls(distance, v, a, max(t, cls(distance, *most).total_s), v0)
        return cls(distance, min(abs(v), most[0]), min(abs(a), most[1]), t, v0)

    def gone(self, t_s: float) -> float:
        """Distance gone."""
        if t_s >= self.total_s:
            return self.distance
        t = t_s * self._rate
        if t < self._rise_s:
            return self._v0 * t + 0.5 * self._rise_a * t * t
        left = self.total_s * self._rate - t
        if left < self._top / self._fall_a:
            return self.distance - 0.5 * self._fall_a * left * left
        return (
            self.distance - 0.5 * self._top * self._top / self._fall_a - self._top * (left - self._top / self._fall_a)
        )

    def speed(self, t_s: float) -> float:
        if t_s >= self.total_s:
            return 0.0
        t = t_s * self._rate
        left = self.total_s * self._rate - t
        value = self._v0 + self._rise_a * t if t < self._rise_s else min(self._top, self._fall_a * left)
        return value * self._rate


class Law(ABC):
    """One move. `tool` is the flange-to-TCP frame, `goal_q` where it ends.

    `takes_over`: it begins where the arm is, at its speed, and replaces the law before instead of adding to it.
    """

    takes_over = False

    def __init__(self, kinematics: Kinematics, tool: Frame, profile: Profile, goal_q: Sequence[float]) -> None:
        self.kinematics, self.tool, self.profile = kinematics, tool, profile
        self.goal_q = [float(v) for v in goal_q]
        self.goal = self.tcp(self.goal_q)[9:]
        self.q = list(self.goal_q)
        self.passed_s = 0.0

    @property
    def done(self) -> bool:
        return self.passed_s >= self.profile.total_s

    def tcp(self, q: Sequence[float]) -> Frame:
        return product(self.kinematics.flange(q), self.tool)

    def left_m(self) -> float:
        """How far the TCP still is from the law's end, as the crow flies."""
        return math.dist(self.tcp(self.q)[9:], self.goal)

    def advance(self, dt_s: float) -> Joints:
        self.passed_s = min(self.profile.total_s, self.passed_s + dt_s)
        self.q = self.goal_q if self.done else self.at(self.profile.gone(self.passed_s))
        return self.q

    @abstractmethod
    def at(self, distance: float) -> Joints:
        """Joint angles, rad, so far along the move."""


class JointLaw(Law):
    """movej: straight in joint space; the leading axis keeps speed and acceleration."""

    def __init__(
        self, kinematics: Kinematics, tool: Frame, start: Sequence[float], goal: Sequence[float], v: float, a: float, t: float
    ) -> None:  # fmt: skip
        length = max(abs(g - s) for s, g in zip(start, goal, strict=True))
        super().__init__(kinematics, tool, Profile.within(length, v, a, t, 0.0, (JOINT_RAD_S, JOINT_RAD_S2)), goal)
        self._start = list(start)

    def at(self, distance: float) -> Joints:
        f = distance / self.profile.distance
        return [s + (g - s) * f for s, g in zip(self._start, self.goal_q, strict=True)]


Shape = Callable[[float], tuple[float, float, float]]
"""Distance along a curve to a point, m."""


class ToolLaw(Law):
    """The TCP along a curve, its rotation evenly from the first to the last, or about `axis` with the curve."""

    def __init__(
        self, kinematics: Kinematics, tool: Frame, start_q: Sequence[float], goal: Frame, point: Shape, length: float,
        profile: Profile, turn: Sequence[float] | None = None,
    ) -> None:  # fmt: skip
        self._back = inverse(tool)
        try:
            goal_q = kinematics.joints(product(goal, self._back), start_q)
        except NoSolution:
            goal_q = kinematics.closest(product(goal, self._back), start_q)
        super().__init__(kinematics, tool, profile, goal_q)
        start = self.tcp(start_q)
        self._rotation: Frame = (*start[:9], *_STILL)
        self._turn = tool_turn(start, goal) if turn is None else turn
        self._point, self._length = point, length
        self.q = list(start_q)
        self._on_path = True

    def at(self, distance: float) -> Joints:
        f = distance / self.profile.distance
        turned = product(from_pose((*_STILL, *(v * f for v in self._turn))), self._rotation)
        frame = (*turned[:9], *self._point(f * self._length))
        return self.kinematics.joints(product(frame, self._back), self.q)

    def effort(self) -> float:
        """Largest joint acceleration as a share of what a joint can do; 0 if it is little for sure. Raises NoSolution.

        Only before the law has begun; not of one that begins in motion.
        """
        profile = self.profile
        if profile.hardest <= _GENTLE_M_S2 or profile.begins_moving:
            return 0.0
        begin, dt_s = self.q, profile.total_s / _PARTS
        before, speed, most = np.array(begin), np.zeros(len(begin)), 0.0
        for i in range(1, _PARTS + 1):
            self.q = self.at(profile.gone(i * dt_s))
            now = np.array(self.q)
            change = (now - before) / dt_s - speed
            most = max(most, float(np.abs(change).max()) * (2.0 if i == 1 else 1.0))
            speed, before = speed + change, now
        self.q = begin
        return max(most, 2.0 * float(np.abs(speed).max())) / dt_s / (_KEPT * JOINT_RAD_S2)  # the last part ends at rest

    def steepest(self) -> float:
        """Most radians of one joint a metre along the path. Raises NoSolution. Only before the law has begun."""
        begin, most, parts = self.q, 1e-9, 40
        step = self.profile.distance / parts
        for i in range(1, parts + 1):
            before, self.q = self.q, self.at(i * step)
            most = max(most, max(abs(a - b) for a, b in zip(self.q, before, strict=True)) / step)
        self.q = begin
        return most

    def advance(self, dt_s: float) -> Joints:
        before = self.q
        q = super().advance(dt_s)
        if self.done and max(abs(a - b) for a, b in zip(q, before, strict=True)) > 0.5:
            self.q = before  # a path that turns by half a turn or more ends where it leads, not close to where it began
            q = self.q = self.goal_q = self.at(self.profile.distance)
        if self.done and max(abs(a - b) for a, b in zip(q, before, strict=True)) > 0.5:
            raise NoSolution("the end of the line lies on another branch of the arm: there is a singularity on the way")
        return q


def tool_turn(start: Frame, goal: Frame) -> tuple[float, float, float]:
    """The rotation vector, in base, that turns one frame into the other."""
    return rotation_vector(product((*goal[:9], *_STILL), inverse((*start[:9], *_STILL))))


def line(start: Sequence[float], goal: Sequence[float]) -> tuple[Shape, float]:
    length = math.dist(start, goal)
    way = [(g - s) / length if length > 0 else 0.0 for s, g in zip(start, goal, strict=True)]
    return lambda s: (start[0] + way[0] * s, start[1] + way[1] * s, start[2] + way[2] * s), length


def corner(start: Sequence[float], waypoint: Sequence[float], goal: Sequence[float]) -> tuple[Shape, float]:
    """From `start` on the way to `waypoint`, round the corner on an arc that touches both lines, and on to `goal`."""
    p, w, g = np.array(start), np.array(waypoint), np.array(goal)
    radius_m, onward = float(np.linalg.norm(w - p)), float(np.linalg.norm(g - w))
    if radius_m < 1e-9 or onward < 1e-9:
        return line(start, goal)
    into, out = (w - p) / radius_m, (g - w) / onward
    bend = math.acos(max(-1.0, min(1.0, float(into @ out))))
    cut = min(radius_m, onward)
    if bend < 1e-6 or bend > math.pi - 1e-3:  # straight on, or back: no arc
        first, a = line(start, waypoint)
        second, b = line(waypoint, goal)
        return lambda s: first(s) if s < a else second(s - a), a + b
    begin = w - into * cut
    r = cut / math.tan(bend / 2)
    centre = begin + r * _towards(into, out)
    arc_m, ahead = r * bend, radius_m - cut
    end = w + out * cut

    def point(s: float) -> tuple[float, float, float]:
        if s < ahead:
            at = p + into * s
        elif s < ahead + arc_m:
            angle = (s - ahead) / r
            at = centre + (begin - centre) * math.cos(angle) + into * r * math.sin(angle)
        else:
            at = end + out * (s - ahead - arc_m)
        return float(at[0]), float(at[1]), float(at[2])

    return point, ahead + arc_m + onward - cut


def _towards(into: np.ndarray, out: np.ndarray) -> np.ndarray:
    side = out - into * float(into @ out)
    return side / float(np.linalg.norm(side))


def circle(
    start: Sequence[float], via: Sequence[float], goal: Sequence[float]
) -> tuple[Shape, float, tuple[float, float, float]]:
    """The arc through three points: point, length, and the rotation vector from start to goal. Raises ValueError."""
    a, b, c = np.array(start), np.array(via), np.array(goal)
    ab, ac = b - a, c - a
    normal = np.cross(ab, ac)
    square = float(normal @ normal)
    if square < 1e-12 * float(ab @ ab) * float(ac @ ac) or square == 0.0:
        raise ValueError("the three points lie on one line")
    centre = a + (np.cross(normal, ab) * float(ac @ ac) + np.cross(ac, normal) * float(ab @ ab)) / (2 * square)
    axis = normal / math.sqrt(square)
    u = a - centre
    radius = float(np.linalg.norm(u))
    v = np.cross(axis, u)
    angle = math.atan2(float((c - centre) @ v), float((c - centre) @ u)) % (2 * math.pi)

    def point(s: float) -> tuple[float, float, float]:
        at = centre + u * math.cos(s / radius) + v * math.sin(s / radius)
        return float(at[0]), float(at[1]), float(at[2])

    x, y, z = (axis * angle).tolist()
    return point, radius * angle, (x, y, z)


class MovePath:
    """Moves, one or several at a time. The last law is the one that plays; those before it still fade out."""

    def __init__(self, law: Law, q: Sequence[float] | None = None, tcp_m_s: float = math.inf) -> None:
        """`q`: where the arm stands; without it the first step may be as long as it likes. `tcp_m_s`: no faster."""
        self.laws = [law]
        self._q = q
        self._most_m = tcp_m_s * CYCLE_S
        self.done = False
        self.blend_m = 0.0
        """Radius with which the last law's end may be blended into the next move."""

    @property
    def law(self) -> Law:
        return self.laws[-1]

    def add(self, law: Law) -> None:
        self.laws.append(law)

    def advance(self, dt_s: float) -> Joints:
        """Less than `dt_s` of the path where a joint would be faster than it can be: the path stays, it takes longer."""
        begun = [(law, law.passed_s, law.q) for law in self.laws]
        before, most = self._q, JOINT_RAD_S * CYCLE_S
        q, share = self._after(dt_s), 1.0
        for _ in range(_SLOWER_TRIES):
            excess = self._excess(before, q, most) if before is not None else 0.0
            if excess <= 1.001:
                break
            share /= excess
            for law, passed_s, was in begun:
                law.passed_s, law.q = passed_s, was
            q = self._after(dt_s * share)
        self._q = q
        self.laws = [law for law in self.laws if not law.done] or self.laws[-1:]
        self.done = self.law.done and len(self.laws) == 1
        return q

    def _excess(self, before: Sequence[float], q: Sequence[float], most: float) -> float:
        """How many times too fast a step is, joints or TCP."""
        steps = [abs(a - b) for a, b in zip(q, before, strict=True)]
        joints = max(steps) / most
        if sum(steps) * _REACH_M <= self._most_m:
            return joints
        return max(joints, math.dist(self.law.tcp(q)[9:], self.law.tcp(before)[9:]) / self._most_m)

    def _after(self, dt_s: float) -> Joints:
        q = list(self.law.advance(dt_s))
        for old in self.laws[:-1]:
            moved = old.advance(dt_s)
            q = [a + b - g for a, b, g in zip(q, moved, old.goal_q, strict=True)]
        return q
