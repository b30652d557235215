"""A model for tests of the steps: knows where one thing is and moves there, closes, and carries it to the hand-over.

Memoryless like the policy: the whole chunk follows from `robot_state`. It has the same face as `wardarm.eye.model.Model`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from wardarm.eye.frames import Frame, FrameBoard
from wardarm.eye.model import Reply, Tokens
from wardarm.eye.planned import Planned
from wardarm.eye.triton import Answer, InferenceError, ServerUnavailable
from wardarm.policy import contract

SPEED_M_S = 0.20


@dataclass
class ExpertModel:
    board: FrameBoard
    thing_m: np.ndarray
    hand_over_m: np.ndarray
    valid: float = 0.98
    latency_s: float = 0.06
    failing: bool = False
    version: int = 1
    error: str = ""
    tasks: frozenset[int] = frozenset()
    states: list[np.ndarray] = field(default_factory=list)
    valid_asked_at: list[np.ndarray] = field(default_factory=list)
    _pending: tuple[Frame, Planned, int] | None = None

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def busy(self) -> bool:
        return self._pending is not None

    def keep_alive(self) -> None: ...

    def ask(self, tokens: Tokens, planned: Planned) -> bool:
        assert tokens[0].shape == (contract.TOKENS,)
        frame = self.board.pin_latest()
        if self.busy or frame is None:
            return False
        self._pending = (frame, planned, time.monotonic_ns())
        return True

    def poll(self) -> Reply | InferenceError | None:
        if self._pending is None or time.monotonic_ns() - self._pending[2] < self.latency_s * 1e9:
            return None
        (frame, planned, asked_ns), self._pending = self._pending, None
        self.board.unpin(frame)
        if self.failing:
            return ServerUnavailable("Triton at nowhere: it is down or restarting")
        self.states.append(planned.robot_state())
        now = time.monotonic_ns()
        traj, grip, done = self._roll(planned)
        answer = Answer(traj, grip, self.valid, done, 1, asked_ns, now, 0.1)
        return Reply(answer, frame, asked_ns, 1.0)

    def _roll(self, planned: Planned) -> tuple[np.ndarray, np.ndarray, float]:
        at, opening = planned.pose.xyz_m.copy(), contract.snap_grip(planned.opening)
        done = float(opening == 0 and np.linalg.norm(at - self.hand_over_m) < 0.01)
        poses, grips = [], []
        for _ in range(contract.HORIZON):
            poses.append(np.concatenate([at, np.zeros(3)]))
            grips.append(opening)
            at, opening = self._next(at, opening)
        return contract.normalise(np.array(poses)).astype(np.float16), np.array(grips, np.float16), done

    def _next(self, at: np.ndarray, opening: float) -> tuple[np.ndarray, float]:
        if opening > 0.0:
            off = self.thing_m - at
            if np.linalg.norm(off) < 0.004:
                return at, max(0.0, opening - 0.1)
            goal = self.thing_m if np.linalg.norm(off[:2]) < 0.01 else self.thing_m + np.array([0, 0, 0.06])
            return _towards(at, goal), 1.0 if opening > 0.94 else min(1.0, opening + 0.1)
        goal = self.hand_over_m
        if at[2] < goal[2] - 0.02 and np.linalg.norm(at[:2] - goal[:2]) > 0.03:
            goal = np.array([at[0], at[1], goal[2]])
        return _towards(at, goal), 0.0


def _towards(at: np.ndarray, goal: np.ndarray) -> np.ndarray:
    off = goal - at
    far = float(np.linalg.norm(off))
    step = min(SPEED_M_S, 0.03 + 2.0 * far) / contract.RATE_HZ
    return goal.copy() if far <= step else at + off / far * step
