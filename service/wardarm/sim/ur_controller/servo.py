"""The joint target: what the controller asks of its drives every 2 ms, and how it brakes.

servoj: URScript's look-ahead smooths and delays. The drive's own lag (`DRIVE_LAG_S`, in the plant) is the first part
of that delay; only what a longer look-ahead adds is filtered here. So a script with a look-ahead of 30 ms sees its own
law in `target_q`, and the arm 34 ms later. `gain` is accepted and not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from wardarm.sim.ur_controller.kinematics import NoSolution
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.motion import Path

DRIVE_LAG_S = 0.030
ACCELERATION_MAX = 40.0  # rad/s2, ur_rtde's ceiling for any acceleration argument
_HOLD, _SERVO, _SPEED, _BRAKE, _PATH = range(5)


class Offset(Protocol):
    """Added to the target of whatever plays."""

    def apply(self, q: Sequence[float], on: bool) -> list[float]:
        """The joint target with the offset, one cycle later; `on`: it may change. Raises NoSolution."""
        ...

    def revert(self) -> None:
        """What the last `apply` gave was not taken: the offset stays as it was before."""
        ...


class Servo:
    """Joint target of six joints: `q` rad, `qd` rad/s, `qdd` rad/s2."""

    def __init__(self, q: Sequence[float]) -> None:
        self.q = [float(v) for v in q]
        self.qd = [0.0] * 6
        self.qdd = [0.0] * 6
        self._mode = _HOLD
        self._goal = self.q
        self._reference = self.q
        self._left_s = 0.0
        self._filter_s = 0.0
        self._ramp: _SpeedRamp | None = None
        self._scale, self._even, self._offset_asked = 1.0, False, False
        self._acceleration = 0.0
        self.limit_rad_s = math.inf
        """Faster than this a drive does not turn: a target that asks for it is not taken, and `fault` says so."""
        self.path: Path | None = None
        """What moves the arm along a law: moves and tool speeds."""
        self.fault = ""
        """Why the arm could not follow its path; the controller makes a protective stop of it."""
        self.jumped = False
        """Whether that fault is a target beyond the drives' speed."""
        self.offset: Offset | None = None
        """What `path_offset_set` adds to the target, cycle by cycle."""
        self.bare_q = self.q
        """The target without that offset: where programs believe it is."""

    @property
    def at_rest(self) -> bool:
        return self._mode in (_HOLD, _SERVO) and not any(self.qd)

    def set(self, q: Sequence[float]) -> None:
        """Take these positions as they are, at rest, without an offset (power off, moved by hand)."""
        self.q = self.bare_q = [float(v) for v in q]
        self.offset = None
        self.settle()

    def settle(self) -> None:
        """At rest where the target is. A path that has ended: without this that shows a cycle later."""
        self.qd, self.qdd = [0.0] * 6, [0.0] * 6
        self._mode, self._reference, self.path = _HOLD, self.bare_q, None

    def servo(self, goal: Sequence[float], time_s: float, lookahead_s: float) -> None:
        """Reach `goal` in `time_s` of program time."""
        if self._mode != _SERVO:
            self._reference = self.bare_q
            self._mode, self.path = _SERVO, None
        self._goal = list(goal)
        self._left_s = time_s
        self._filter_s = max(0.0, lookahead_s - DRIVE_LAG_S)

    def speed(self, qd: Sequence[float], acceleration: float) -> None:
        """Accelerate to `qd` and go on, both in program time: the leading joint with `acceleration`, rad/s2."""
        if self._ramp is not None and self._mode == _SPEED:
            now = self._ramp.qd
        else:
            now = [v / self._scale for v in self.qd] if self._scale > 0 else [0.0] * 6
        self._ramp = _SpeedRamp(now, qd, min(acceleration, ACCELERATION_MAX))
        self._mode, self.path = _SPEED, None

    @property
    def speed_reached(self) -> bool:
        """Whether what `speed` asked for is reached, or is not asked for any more."""
        return self._mode != _SPEED or self._ramp is None or self._ramp.reached

    def brake(self, deceleration: float) -> None:
        """Come to rest along the present direction."""
        if any(self.qd):
            self._acceleration, self._mode, self.path = min(deceleration, ACCELERATION_MAX), _BRAKE, None
        else:
            self.settle()

    def follow(self, path: Path) -> None:
        """Play a path until it is done or something else is asked for."""
        self.path, self._mode = path, _PATH

    def step(self, scale: float) -> None:
        """One cycle; `scale` is the share of program time that passes in it.

        A target that no drive can follow is not taken: `fault` says why, and the arm brakes from the speed it has.
        """
        q0, qd0, bare0 = self.q, self.qd, self.bare_q
        self._even, self._scale, self._offset_asked = scale == self._scale, scale, False
        try:
            self._advance(scale)
            if max(self.qd) <= self.limit_rad_s and min(self.qd) >= -self.limit_rad_s:
                return
            self.fault, self.jumped = self._too_fast(), True
        except NoSolution as e:
            self.fault, self.jumped = str(e), False
        self.q, self.qd, self.bare_q = q0, qd0, bare0
        if self.offset is not None and self._offset_asked:
            self.offset.revert()
        self.brake(ACCELERATION_MAX)
        try:
            self._advance(0.0)
        except NoSolution:  # not even its way of braking can be followed with the offset
            self.q, self.bare_q = q0, bare0
            self.settle()

    def _too_fast(self) -> str:
        joint = max(range(6), key=lambda j: abs(self.qd[j]))
        speed, limit = math.degrees(abs(self.qd[joint])), math.degrees(self.limit_rad_s)
        return f"joint {joint} at {speed:.0f} deg/s, limit {limit:.0f}"

    def _advance(self, scale: float) -> None:
        """Raises NoSolution where the arm cannot follow its path or its offset."""
        if self.offset is None:
            self._step(scale)
            self.bare_q = self.q
            return
        q0, qd0 = self.q, self.qd
        self.q = self.bare_q
        self._step(scale)
        self.bare_q, self._offset_asked = self.q, True
        self.q = self.offset.apply(self.bare_q, scale > 0)
        self._move_from(q0, qd0)

    def _move_from(self, q0: Sequence[float], qd0: Sequence[float]) -> None:
        """Speed and acceleration of the step from `q0` and `qd0` to the target."""
        self.qd = _rate(q0, self.q)
        self.qdd = _rate(qd0, self.qd)

    def _step(self, scale: float) -> None:
        q0, qd0, mode = self.q, self.qd, self._mode
        if mode == _HOLD:
            if any(self.qdd):
                self.qdd = [0.0] * 6
            return
        if mode == _PATH and not self._path_step(scale):
            mode = self._mode
        if mode == _SERVO:
            self._servo_step(q0, scale)
        elif mode == _SPEED and self._ramp is not None:
            even = self._ramp.advance(CYCLE_S * scale) and self._even
            self.qd = [v * scale for v in self._ramp.qd]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
            if even:  # without the rounding of a difference
                self.qdd = [a * scale * scale for a in self._ramp.qdd]
                return
        elif mode == _BRAKE:
            fastest = max(abs(v) for v in qd0)
            keep = max(0.0, 1.0 - self._acceleration * CYCLE_S / fastest) if fastest > 0 else 0.0
            self.qd = [v * keep for v in qd0]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
            if keep == 0.0:
                self._mode, self._reference = _HOLD, self.q
        if mode in (_SERVO, _PATH, _HOLD):
            self._move_from(q0, qd0)
        else:
            self.qdd = [(b - a) / CYCLE_S for a, b in zip(qd0, self.qd, strict=True)]

    def _servo_step(self, q0: list[float], scale: float) -> None:
        passed = CYCLE_S * scale
        if self._left_s > passed + 1e-12:
            share = passed / self._left_s
            self._reference = [r + (g - r) * share for r, g in zip(self._reference, self._goal, strict=True)]
            self._left_s -= passed
        else:
            self._reference, self._left_s = self._goal, 0.0
        if self._filter_s > CYCLE_S:
            k = 1.0 - math.exp(-CYCLE_S / self._filter_s)
            self.q = [a + (r - a) * k for a, r in zip(q0, self._reference, strict=True)]
        else:
            self.q = self._reference

    def _path_step(self, scale: float) -> bool:
        """False if the path is over: then another mode has taken its place. Raises NoSolution."""
        path = self.path
        if path is None or path.done:  # it ended in the cycle before: at rest from now on
            self._mode, self._reference, self.path = _HOLD, self.q, None
            return False
        self.q = path.advance(CYCLE_S * scale)
        return True


def _rate(before: Sequence[float], now: Sequence[float]) -> list[float]:
    """Change of six numbers in a cycle, per second."""
    a, b, c, d, e, f = before
    u, v, w, x, y, z = now
    return [
        (u - a) / CYCLE_S, (v - b) / CYCLE_S, (w - c) / CYCLE_S, (x - d) / CYCLE_S, (y - e) / CYCLE_S, (z - f) / CYCLE_S,
    ]  # fmt: skip


class _SpeedRamp:
    """Joint speeds in program time: straight to a goal, the leading joint with `a`, rad/s2."""

    def __init__(self, now: Sequence[float], goal: Sequence[float], a: float) -> None:
        self.qd, self._goal = list(now), list(goal)
        left = [g - v for g, v in zip(goal, now, strict=True)]
        most = max(abs(v) for v in left)
        self._left_s = most / a
        self.qdd = [v * a / most for v in left] if most > 0 else [0.0] * 6

    @property
    def reached(self) -> bool:
        return self._left_s <= 0.0

    def advance(self, dt_s: float) -> bool:
        """Says whether it accelerated all the time."""
        left = self._left_s
        if left > dt_s * (1 + 1e-9):
            self.qd = [v + a * dt_s for v, a in zip(self.qd, self.qdd, strict=True)]
            self._left_s = left - dt_s
            return True
        self.qd, self._left_s = self._goal, 0.0
        return left >= dt_s * (1 - 1e-9) and left > 0.0
