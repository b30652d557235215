"""What the controller's safety system watches while the arm moves: speed, range and deviation of its targets.

It runs in every cycle, so it first asks what costs little: whether the joints' speeds can have brought the TCP to its limit
at all, and whether any joint is near one of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import sub
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.kinematics import Frame, product
from wardarm.sim.ur_controller.modes import CYCLE_S, SafetyMode
from wardarm.sim.ur_controller.safety import BRAKE_CATEGORY_0, OFF_ITS_PATH

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller


class Supervisor:
    """Of one controller. `check` comes once a cycle, after the plant: a target beyond a limit is a protective stop."""

    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._before: Sequence[float] | None = None
        """The target of the cycle before, rad; None while the arm stands."""
        self._tool: Frame = ()
        self._reach_m: Sequence[float] = ()
        """Of `_tool` from each joint at most: the lengths of all links beyond it."""

    def check(self) -> None:
        c, before, self._before = self._c, self._before, None
        q, qd = c.servo.q, c.servo.qd
        if not any(qd) or not c.safety.may_move or not self._positions(q, qd):
            return
        self._before = q
        if before is not None:
            self._tool_speed(before, q, qd)

    def _tool_speed(self, before: Sequence[float], q: Sequence[float], qd: Sequence[float]) -> None:
        c = self._c
        if c.tcp is not self._tool:
            self._tool, self._reach_m = c.tcp, _reach_m(c.kinematics.dh.a, c.kinematics.dh.d, c.tcp)
        limits = c.limits
        most = limits.reduced_tcp_m_s if c.safety.mode is SafetyMode.REDUCED else limits.tcp_m_s
        r0, r1, r2, r3, r4, r5 = self._reach_m
        v0, v1, v2, v3, v4, v5 = qd
        if r0 * abs(v0) + r1 * abs(v1) + r2 * abs(v2) + r3 * abs(v3) + r4 * abs(v4) + r5 * abs(v5) < most:
            return
        was = product(c.kinematics.flange(before), c.tcp)
        speed = math.dist(c.target_tcp_frame[9:], was[9:]) / CYCLE_S
        if speed > most:
            c.safety.protective_stop(c.time_s, f"TCP at {speed:.2f} m/s, limit {most:.2f}")

    def _positions(self, q: Sequence[float], qd: Sequence[float]) -> bool:
        """Targets that can still stop within the joints' range, joints close to their targets."""
        c = self._c
        limits = c.limits
        inside = limits.joint_rad - _stopping_rad(limits.joint_rad_s)
        if (max(q) > inside or min(q) < -inside) and not self._in_range(q, qd):
            return False
        away = list(map(sub, q, c.state.q))
        off = max(max(away), -min(away))
        if off > limits.deviation_rad:
            limit = math.degrees(limits.deviation_rad)
            text = f"a joint is {math.degrees(off):.0f} deg from its target, limit {limit:.0f}"
            c.safety.protective_stop(c.time_s, text, OFF_ITS_PATH)
            return False
        if off > limits.deviation_rad * c.deviation_warning:
            c.note(f"position deviation: a joint is {math.degrees(off):.1f} deg from its target")
        return True

    def _in_range(self, q: Sequence[float], qd: Sequence[float]) -> bool:
        """A target that comes back is no violation."""
        c = self._c
        limit = c.limits.joint_rad
        for joint, (target, speed) in enumerate(zip(q, qd, strict=True)):
            if abs(target) + _stopping_rad(abs(speed)) > limit and target * speed > 0:
                text = (
                    f"joint {joint} at {math.degrees(target):.1f} deg cannot stop before its limit, "
                    f"{math.degrees(limit):.0f} deg"
                )
                c.safety.protective_stop(c.time_s, text)
                return False
        return True


def _stopping_rad(rad_s: float) -> float:
    """How far a joint at that speed still goes, the cycle included in which it is told to stop."""
    return rad_s * CYCLE_S + rad_s * rad_s / (2 * BRAKE_CATEGORY_0)


def _reach_m(a: Sequence[float], d: Sequence[float], tool: Frame) -> list[float]:
    """Of the tool from each of the joints of a chain (DH lengths, m) at most."""
    links = [math.hypot(x, y) for x, y in zip(a, d, strict=True)]
    return [sum(links[joint:]) + math.hypot(*tool[9:]) for joint in range(len(links))]
