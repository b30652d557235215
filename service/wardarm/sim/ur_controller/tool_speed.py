"""The tool at a speed: what speedl and stopl play, cycle by cycle. Lengths in m, angles in rad, time in s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wardarm.sim.ur_controller.kinematics import Frame, Kinematics, NoSolution
from wardarm.sim.ur_controller.motion import Joints


class ToolSpeedPath:
    """speedl and stopl: the tool accelerates straight to `goal` (m/s, rad/s, base frame) and goes on. Never done."""

    def __init__(
        self, kinematics: Kinematics, tool: Frame, q: Sequence[float], twist: Sequence[float], goal: Sequence[float],
        a: float, a_turn: float,
    ) -> None:  # fmt: skip
        self._kinematics, self._tool = kinematics, tool
        self._q, self.twist = np.array(q, float), np.array(twist, float)
        self._goal = np.array(goal, float)
        self._a, self._a_turn = max(abs(a), 1e-6), max(abs(a_turn), 1e-6)
        self.done = self.reached = False

    def advance(self, dt_s: float) -> Joints:
        self.reached = _approach(self.twist[:3], self._goal[:3], self._a * dt_s)
        self.reached &= _approach(self.twist[3:], self._goal[3:], self._a_turn * dt_s)
        if self.reached and not self.twist.any():
            self.done = True
            return self._q.tolist()  # type: ignore[no-any-return]
        half_way = self._q + self._speed(self._q) * (dt_s / 2)
        self._q = self._q + self._speed(half_way) * dt_s
        return self._q.tolist()  # type: ignore[no-any-return]

    def _speed(self, q: np.ndarray) -> np.ndarray:
        """Joint speeds that move the tool so."""
        try:
            return np.linalg.solve(self._kinematics.jacobian(q.tolist(), self._tool), self.twist)
        except np.linalg.LinAlgError as e:
            raise NoSolution("the tool cannot move on from here: singularity") from e


def _approach(now: np.ndarray, goal: np.ndarray, most: float) -> bool:
    """Bring a vector up to `most` closer to its goal, in place. Says whether it is there."""
    left = goal - now
    size = float(np.linalg.norm(left))
    if size <= most:
        now[:] = goal
        return True
    now += left * (most / size)
    return False
