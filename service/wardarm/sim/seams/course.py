"""What is to be done, and a policy for it: the expert's chunks with the errors and delays of a model.

A fetch (profile `ward`): from home above a piece, down, close, lift, to the hand-over. A carry (profile
`carry_liquid`): with a full cup in the fingers from its place on the table to the hand-over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.policy import contract
from wardarm.training import expert
from wardarm.training.expert import State, Target

Array = NDArray[np.float64]
NOISE_M, NOISE_RAD = 0.002, np.radians(0.8)
"""Uniform, every point but the first, as in `wardarm bench postproc`."""
DRIFT_M = 0.003
"""Each chunk bends away from the one before by so much at its end, one sigma and axis: two pictures, two answers."""
DELAY_S = (0.1, 0.6)
"""From the question to the chunk, drawn once a motion; +-20 % from chunk to chunk."""
_LOWEST_M = 0.007
_HOME_NEAR_DEG = (153.5, -117.9, 97.4, -69.5, -90.0, -116.5)


@dataclass(frozen=True)
class Course:
    """One motion. `start_q_rad` (6,), at rest; `opening` 0 closed .. 1 open."""

    number: int
    profile: str
    start_q_rad: Array
    opening: float
    target: Target
    delay_s: float
    period_s: float

    @property
    def carries(self) -> bool:
        return self.opening < 0.5


@dataclass(frozen=True)
class Answer:
    """Points (64, 6): x y z (m), roll pitch yaw (rad); openings (64,)."""

    points: Array
    grip: Array
    delay_s: float
    done: bool


class Policy:
    """`ask` gives the n-th answer of a course: the same n, the same errors, whoever asks."""

    def __init__(self, course: Course, noise: float = 1.0) -> None:
        self.course, self.noise = course, noise
        self.asked = 0

    def ask(self, six: Array, opening: float) -> Answer:
        """From where the arm will be (or is): TCP six and opening."""
        rng = np.random.default_rng((self.course.number, self.asked))
        self.asked += 1
        x, y, z, roll, pitch, yaw = six.tolist()
        now = State(x, y, z, roll, pitch, yaw, opening, opening <= contract.GRIP_CLOSED)
        path = expert.roll_out(now, self.course.target, contract.HORIZON - 1)
        points = np.array([s[:6] for s in path])
        error = rng.uniform(-1, 1, points.shape) * np.array([NOISE_M] * 3 + [NOISE_RAD] * 3)
        error[:, :3] += np.linspace(0, 1, len(points))[:, None] * rng.normal(0, DRIFT_M, 3)
        error[0] = 0
        points += self.noise * error
        points[:, 2] = np.maximum(points[:, 2], _LOWEST_M)
        grip = np.array([contract.snap_grip(s.opening) for s in path])
        delay_s = self.course.delay_s * (1 + rng.uniform(-0.2, 0.2))
        return Answer(points, grip, delay_s, expert.done(now))


def courses(count: int, seed: int, config: Config, only_carries: bool = False) -> list[Course]:
    """Every second one a carry, or all of them."""
    rng, kinematics = np.random.default_rng(seed), Kinematics(config.arm)
    near = np.radians(np.array(_HOME_NEAR_DEG))
    x, y, z, *angles = config.poses.home
    home = kinematics.solve(TcpPose(np.array([x, y, z]), np.radians(angles)), near)
    made = []
    for number in range(count):
        target = Target(float(rng.uniform(0.33, 0.62)), float(rng.uniform(-0.36, 0.20)), 0.0, "cup")
        carries = only_carries or number % 2 == 1
        start = home
        if carries:
            start = kinematics.solve(TcpPose(np.array([*target[:2], target.grasp_z_m]), np.zeros(3)), home)
        made.append(
            Course(
                number,
                "carry_liquid" if carries else "ward",
                start,
                0.0 if carries else 1.0,
                target,
                float(rng.uniform(*DELAY_S)),
                config.eye.period_s,
            )
        )
    return made
