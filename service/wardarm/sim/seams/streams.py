"""The two usual ways to execute chunks: a stream of servoj set-points at 500 Hz, interpolated between the points.

*Linear*: the newest chunk, from its own time on, straight lines in joint space between its points. *Ensemble*: at each of
the points' times the weighted mean of all chunks that reach it, weights exp(-0.01 i), i = 0 the oldest (Zhao et al.,
"Learning Fine-Grained Bimanual Manipulation with Low-Cost Hardware", 2023, and lerobot's ACT), then the same lines.
Both take a chunk's point k as meant for 50 ms k after the question, so what passed while the model computed is left out
(real-time chunking without it jumps back). servoj has ur_rtde's example values: look-ahead 0.1 s, gain 300.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import _native
from wardarm.arm.params import write_planner_params
from wardarm.config import Config
from wardarm.kinematics import Kinematics, TcpPose, rotvec_from_pose
from wardarm.policy import contract
from wardarm.sim.seams.course import Course, Policy
from wardarm.sim.seams.ours import simulation
from wardarm.sim.ur_controller.modes import CYCLE_S

Array = NDArray[np.float64]
SCRIPT = """def stream():
  while True:
    q = [read_input_float_register(24), read_input_float_register(25), read_input_float_register(26),
         read_input_float_register(27), read_input_float_register(28), read_input_float_register(29)]
    servoj(q, t=0.002, lookahead_time=0.1, gain=300)
  end
end
"""
FIRST_REGISTER = 24
AGE = 0.01  # of the ensemble's weights
LONGEST_S, AFTER_DONE_S = 20.0, 0.7


class Streams:
    """`ensemble`: temporal ensembling; else the newest chunk alone."""

    def __init__(self, config: Config, folder: Path, ensemble: bool) -> None:
        self.config, self.kinematics, self.ensemble = config, Kinematics(config.arm), ensemble
        write_planner_params(config, folder / "planner.params")
        self.planner = _native.Planner(str(folder / "planner.params"))  # for its inverse kinematics

    def run(self, course: Course, policy: Policy) -> tuple[NDArray[Any], list[float]]:
        """The controller's history and the times at which a chunk took over."""
        with simulation(course, self.config) as sim:
            targets, seams_s = self._targets(course, policy)
            registers = sim.controller.input_doubles
            registers[FIRST_REGISTER : FIRST_REGISTER + 6] = targets[0].tolist()
            sim.load(SCRIPT, 5)
            sim.forget()
            began_s = sim.time_s
            for q in targets:
                registers[FIRST_REGISTER : FIRST_REGISTER + 6] = q.tolist()
                sim.step()
            return sim.history, [began_s + s for s in seams_s]

    def _targets(self, course: Course, policy: Policy) -> tuple[Array, list[float]]:
        """Set-points (N, 6), one a cycle, and the times of the seams. The model is told where the stream is."""
        per_point = round(1 / contract.RATE_HZ / CYCLE_S)
        chunks: list[tuple[int, Array, Array]] = []  # first point's number on the common 20 Hz grid, joints, openings
        pending: tuple[int, int, Array, Array] | None = None
        q, opening = course.start_q_rad, course.opening
        targets, seams_s, last_ask, done_at = [q], [], -(10**6), None
        point, a, b = 0, q, q
        for cycle in range(round(LONGEST_S / CYCLE_S)):
            if cycle % per_point == 0:
                point = cycle // per_point
                if pending is None and cycle - last_ask >= course.period_s / CYCLE_S:
                    answer = policy.ask(self.kinematics.forward(q).six, opening)
                    if answer.done and done_at is None:
                        done_at = cycle
                    joints = self._joints(answer.points, q)
                    pending = (cycle + round(answer.delay_s / CYCLE_S), point, joints, answer.grip)
                    last_ask = cycle
                if pending is not None and cycle >= pending[0]:
                    if chunks:
                        seams_s.append(cycle * CYCLE_S)
                        chunks.append(pending[1:])
                    else:  # the arm stood and waited: nothing of the first chunk has passed
                        chunks.append((point, *pending[2:]))
                    pending = None
                a = b
                b, opening = self._next(chunks, point + 1, b, opening)
            q = a + (b - a) * ((cycle % per_point + 1) / per_point)
            targets.append(q)
            if done_at is not None and cycle - done_at > AFTER_DONE_S / CYCLE_S:
                break
        return np.array(targets), seams_s

    def _next(
        self, chunks: list[tuple[int, Array, Array]], point: int, q: Array, opening: float
    ) -> tuple[Array, float]:
        """Joints and opening for a number on the common grid; as before where no chunk reaches."""
        reaching = [(joints[point - first], grip[point - first]) for first, joints, grip in chunks
                    if point - first < len(joints)]  # fmt: skip
        if not reaching:
            return q, opening
        if not self.ensemble:
            return reaching[-1]
        weight = np.exp(-AGE * np.arange(len(reaching)))
        joints = np.array([r[0] for r in reaching])
        return np.asarray(weight @ joints / weight.sum()), float(reaching[-1][1])

    def _joints(self, points: Array, near: Array) -> Array:
        rows = []
        for row in points:
            found = self.planner.ik(rotvec_from_pose(TcpPose(row[:3], row[3:])), near)
            near = near if found is None else found  # out of reach: as before
            rows.append(near)
        return np.array(rows)
