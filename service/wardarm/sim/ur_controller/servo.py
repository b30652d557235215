"""The joint target: what the controller asks of its drives every 2 ms, and how it brakes.

servoj: URScript's look-ahead smooths and delays. The drive's own lag (`DRIVE_LAG_S`, in the plant) is the first part
of that delay; only what a longer look-ahead adds is filtered here. So a script with a look-ahead of 30 ms sees its own
law in `target_q`, and the arm 34 ms later. `gain` is accepted and not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wardarm.sim.ur_controller.modes import CYCLE_S

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

    @property
    def at_rest(self) -> bool:
        return self._mode in (_HOLD, _SERVO) and not any(self.qd)

    def set(self, q: Sequence[float]) -> None:
        """Take these positions as they are, at rest (power off, moved by hand)."""
        self.q = [float(v) for v in q]
        self.qd, self.qdd = [0.0] * 6, [0.0] * 6
        self._mode, self._reference = _HOLD, self.q

    def servo(self, goal: Sequence[float], time_s: float, lookahead_s: float) -> None:
        """Reach `goal` in `time_s` of program time."""
        if self._mode != _SERVO:
            self._reference = self.q
            self._mode = _SERVO
        self._goal = list(goal)
        self._left_s = time_s
        self._filter_s = max(0.0, lookahead_s - DRIVE_LAG_S)

    def speed(self, qd: Sequence[float], acceleration: float) -> None:
        self._speed, self._acceleration, self._mode = list(qd), min(abs(acceleration), ACCELERATION_MAX), _SPEED

    def brake(self, deceleration: float) -> None:
        """Come to rest along the present direction."""
        if any(self.qd):
            self._acceleration, self._mode = min(abs(deceleration), ACCELERATION_MAX), _BRAKE
        else:
            self.set(self.q)

    def path(self, q: Sequence[float]) -> None:
        """Be there at the end of this cycle (movej and movel, which compute their own law)."""
        self._goal, self._mode = list(q), _PATH

    def step(self, scale: float) -> None:
        """One cycle; `scale` is the share of program time that passes in it."""
        q0, qd0, mode = self.q, self.qd, self._mode
        if mode == _HOLD:
            if any(self.qdd):
                self.qdd = [0.0] * 6
            return
        if mode == _SERVO:
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
        elif mode == _PATH:
            self.q = self._goal
        elif mode == _SPEED:
            most = self._acceleration * CYCLE_S
            self.qd = [v + max(-most, min(most, w * scale - v)) for v, w in zip(qd0, self._speed, strict=True)]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
        else:
            fastest = max(abs(v) for v in qd0)
            keep = max(0.0, 1.0 - self._acceleration * CYCLE_S / fastest) if fastest > 0 else 0.0
            self.qd = [v * keep for v in qd0]
            self.q = [a + v * CYCLE_S for a, v in zip(q0, self.qd, strict=True)]
            if keep == 0.0:
                self._mode, self._reference = _HOLD, self.q
        if mode in (_SERVO, _PATH):
            self.qd = [(b - a) / CYCLE_S for a, b in zip(q0, self.q, strict=True)]
            if mode == _PATH:
                self._mode, self._reference = _BRAKE, self.q  # unless the next cycle brings the next point
                self._acceleration = ACCELERATION_MAX
        self.qdd = [(b - a) / CYCLE_S for a, b in zip(qd0, self.qd, strict=True)]
