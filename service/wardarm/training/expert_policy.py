"""The expert in the policy's place: it knows where the piece stood, and shows what physics allows at best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.training import expert
from wardarm.training.expert import HAND_OVER, Goal, State, Target
from wardarm.training.onnx_policy import Chunk


class ExpertPolicy:
    """`off_m` aims that far (x, y, z) beside the true grasp point: how much error a grasp forgives."""

    looks = False

    def __init__(
        self, target: Target, off_m: tuple[float, float, float] = (0.0, 0.0, 0.0), goal: Goal = HAND_OVER
    ) -> None:
        self._target, self._off, self._goal = target, np.array(off_m), goal

    def infer(self, image: NDArray[np.uint8], text: str, state: NDArray[np.float32]) -> Chunk:
        """The expert's next 64 points from `state`; picture and text are not needed."""
        angles = contract.rpy_from_rotation(contract.rotation_from_rotvec(state[3:6].astype(np.float64)))
        x, y, z = (state[:3].astype(np.float64) - self._off * (1 - state[7])).tolist()
        roll, pitch, yaw = angles.tolist()
        now = State(x, y, z, roll, pitch, yaw, float(state[6]), bool(state[7] > 0.5))
        path = expert.roll_out(now, self._target, contract.HORIZON - 1, self._goal)
        points = np.array([s[:6] for s in path])
        approaching = np.array([not s.holding for s in path])
        points[:, :3] += self._off * approaching[:, None]
        return Chunk(points, np.array([s.opening for s in path]), 1.0, float(expert.done(now, self._goal)))
