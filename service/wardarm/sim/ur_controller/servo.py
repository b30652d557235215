"""The joint target: what the controller asks of its drives every 2 ms, and how it brakes.

servoj: URScript's look-ahead smooths and delays. The drive's own lag (`DRIVE_LAG_S`, in the plant) is the first part
of that delay; only what a longer look-ahead adds is filtered here. So a script with a look-ahead of 30 ms sees its own
law in `target_q`, and the arm 34 ms later. `gain` is accepted and not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wardarm.sim.ur_controller.kinematics import NoSolution
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.motion import Path

DRIVE_LAG_S = 0.030
ACCELERATION_MAX = 40.0  # rad/s2, ur_rtde's ceiling for any acceleration argument
_HOLD, _SERVO, _SPEED, _BRAKE, _PATH = range(5)


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
        self._speed = [0.0] * 6
        self._acceleration = 0.0
        self.path: Path | None = None
        """What moves the arm along a law: moves and tool speeds."""
        self.fault = ""
        """Why the arm could not follow its path; the controller makes a protective stop of it."""
        self.offset: Callable[[Sequence[float]], list[float]] | None = None
        """What `path_offset_set` adds to the target, cycle by cycle."""
        self.bare_q = self.q
        """The target without that offset: where programs believe it is."""

    @property
    def at_rest(self) -> bool:
        return self._mode in (_HOLD, _SERVO) and not any(self.qd)

    def set(self, q: Sequence[float]) -> None:
        """Take these positions as they are, at rest (power off, moved by hand)."""
        self.q = self.bare_q = [float(v) for v in q]
        self.qd, self.qdd = [0.0] * 6, [0.0] * 6
        self._mode, self._reference, self.path = _HOLD, self.q, None

    def settle(self) -> None:
        """A path that has ended leaves the arm at rest; without this that shows a cycle later."""
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
        self._speed, self._acceleration, self._mode = list(qd), min(abs(acceleration), ACCELERATION_MAX), _SPEED
        self.path = None

    def brake(self, deceleration: float) -> None:
        """Come to rest along the present direction."""
        if any(self.qd):
            self._acceleration, self._mode, self.path = min(abs(deceleration), ACCELERATION_MAX), _BRAKE, None
        else:
            self.set(self.q)

    def follow(self, path: Path) -> None:
        """Play a path until it is done or something else is asked for."""
        self.path, self._mode = path, _PATH

    def step(self, scale: float) -> None:
        """One cycle; `scale` is the share of program time that passes in it."""
        if self.offset is None:
            self._step(scale)
            self.bare_q = self.q
            return
        q0, qd0 = self.q, self.qd
        self.q = self.bare_q
        self._step(scale)
        self.bare_q = self.q
        try:
            self.q = self.offset(self.bare_q)
        except NoSolution as e:
            self.fault, self.q = str(e), q0
        self.qd = [(b - a) / CYCLE_S for a, b in zip(q0, self.q, strict=True)]
        self.qdd = [(b - a) / CYCLE_S for a, b in zip(qd0, self.qd, strict=True)]

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
        elif mode == _SPEED:
            most = self._acceleration * CYCLE_S
            self.qd = [v + max(-most, min(most, w * scale - v)) for v, w in zip(qd0, self._speed, strict=True)]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
        elif mode == _BRAKE:
            fastest = max(abs(v) for v in qd0)
            keep = max(0.0, 1.0 - self._acceleration * CYCLE_S / fastest) if fastest > 0 else 0.0
            self.qd = [v * keep for v in qd0]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
            if keep == 0.0:
                self._mode, self._reference = _HOLD, self.q
        if mode in (_SERVO, _PATH, _HOLD):
            self.qd = [(b - a) / CYCLE_S for a, b in zip(q0, self.q, strict=True)]
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
        """False if the path is over or cannot be followed: then another mode has taken its place."""
        path = self.path
        if path is None or path.done:  # it ended in the cycle before: at rest from now on
            self._mode, self._reference, self.path = _HOLD, self.q, None
            return False
        try:
            self.q = path.advance(CYCLE_S * scale)
        except NoSolution as e:
            self.fault = str(e)
            self._acceleration, self._mode, self.path = ACCELERATION_MAX, _BRAKE, None
            return False
        return True
