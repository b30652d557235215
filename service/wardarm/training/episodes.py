"""One task in closed loop and lock-step: the world waits for each inference, then applies a fixed delay.

Time is the world's own: a chunk asked for at t is joined at t + delay, and the next is asked for a period later, so
the outcome does not depend on how fast this computer is. Physics, collisions and grasp are MuJoCo's; the chunk is
followed as it is (postprocessor and player add their own limits on the real path).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wardarm.kinematics import Unreachable
from wardarm.policy import contract
from wardarm.sim.scenes import GRASP_Z_M, Scene
from wardarm.sim.world import STEP_S
from wardarm.training.environment import Environment
from wardarm.training.expert import State
from wardarm.training.onnx_policy import Chunk
from wardarm.training.tasks import Task, TaskKind

TICK_S = 1 / contract.RATE_HZ
PHYSICS_STEPS = round(TICK_S / STEP_S)
LIMIT_S = 18.0
SETTLE_S = 0.4
"""After `done` was said twice the episode goes on this long: the piece must stay in the fingers."""
CLOSING_BELOW = 0.9
GROUNDED_WITHIN_M = 0.05
"""A grasp within this of the piece was meant for it: pieces stand at least 125 mm apart."""
LIFTED_M, AT_GOAL_M, PIECE_AT_GOAL_M, PIECE_HIGH_M = 0.10, 0.05, 0.08, 0.12
END_WITHIN_M, END_WITHIN_RAD = 0.015, math.radians(5)
"""Pouring and putting back end this close to where they should."""
BESIDE_WITHIN_M = (0.08, 0.22)
"""Middle to middle: closer is on top of each other, farther is not beside."""
OPEN_S, RISE_S, RISE_M = 0.6, 1.2, 0.10
"""What `eye` does once the policy says done at a spot on the table: open, rise."""


_NOTHING = np.zeros((0, 0, 3), np.uint8)
"""The picture for a policy that does not look."""


class Policy(Protocol):
    def infer(self, image: NDArray[np.uint8], text: str, state: NDArray[np.float32]) -> Chunk: ...


@dataclass(frozen=True)
class Timing:
    """Replan every `period_s`; a chunk's point 0 is `delay_s` after its picture."""

    period_s: float = 0.4
    delay_s: float = 0.3


@dataclass(frozen=True)
class Nudge:
    """Someone moves the piece meant while the arm is under way."""

    at_s: float
    shift_m: tuple[float, float]


@dataclass
class Outcome:
    """One episode. Errors are against the piece where it really stood when the fingers began to close."""

    text: str
    kind: str
    task: TaskKind = "fetch"
    success: bool = False
    end_error_mm: float | None = None  # of the piece (placed) or the TCP (pouring) against the goal
    end_angle_deg: float | None = None
    slip_deg: float | None = None  # how far a bottle leans otherwise than the fingers that hold it
    grounded: bool | None = None  # None: the fingers never closed
    grasp_error_mm: float | None = None
    grasp_height_error_mm: float | None = None
    grasp_yaw_error_deg: float | None = None
    valid_first: float = 0.0
    done_s: float | None = None
    done_away: bool = False  # `done` was said twice although the arm was not at the hand-over pose
    others_moved_mm: float = 0.0
    top_speed_m_s: float = 0.0
    unreachable: int = 0
    end_s: float = 0.0
    joins_mm: list[float] = field(default_factory=list)  # disagreement of successive chunks 0.4 s after the join

    @property
    def fetched(self) -> bool:
        return self.success


class _Plan:
    """A chunk that starts at `start_s`; linear between its points, at rest after its end."""

    def __init__(self, start_s: float, points: NDArray[np.float64], opening: NDArray[np.float64]) -> None:
        self.start_s, self._points, self._opening = start_s, points, opening

    def at(self, t_s: float) -> tuple[NDArray[np.float64], float]:
        k = min(max((t_s - self.start_s) / TICK_S, 0.0), len(self._points) - 1.0)
        i = int(k)
        j, share = min(i + 1, len(self._points) - 1), k - i
        opening = self._opening[i] * (1 - share) + self._opening[j] * share
        return self._points[i] * (1 - share) + self._points[j] * share, contract.snap_grip(float(opening))


def run_episode(
    env: Environment,
    policy: Policy,
    scene: Scene,
    task: Task,
    text: str,
    start: State,
    timing: Timing | None = None,
    nudge: Nudge | None = None,
) -> Outcome:
    """Carry out `task` with `text`. `env` has the scene loaded, its looks drawn and the arm posed at `start`."""
    timing = timing or Timing()
    looks = getattr(policy, "looks", True)
    target = task.piece
    world, result = env.world, Outcome(text, target.kind, task.kind)
    others = {o.name: np.array([o.x_m, o.y_m]) for o in scene.objects if o.name != target.name}
    height_before = float(world.piece_pos(target.name)[2])
    q = world.data.qpos[:6].copy()
    plan = _Plan(0.0, np.tile(np.array(start[:6]), (2, 1)), np.array([start.opening] * 2))
    opening, lifted_m, saying_done, tick, asked = start.opening, 0.0, 0, 0, 0
    coming: tuple[_Plan, Chunk] | None = None
    done_at: float | None = None
    while (t := tick * TICK_S) < LIMIT_S and (done_at is None or t <= done_at + SETTLE_S):
        if t >= asked * timing.period_s - 1e-6:
            six, planned_opening = plan.at(t + timing.delay_s)
            state = contract.robot_state(six[:3], six[3:], planned_opening, planned_opening == 0.0)
            chunk = policy.infer(env.draw() if looks else _NOTHING, text, state)
            coming = (_Plan(t + timing.delay_s, chunk.points, chunk.opening), chunk)
            result.top_speed_m_s = max(result.top_speed_m_s, chunk.top_speed_m_s)
            result.valid_first = chunk.valid if asked == 0 else result.valid_first
            asked += 1
        if coming and t >= coming[0].start_s - 1e-6:
            new, chunk = coming
            coming = None
            if asked > 1:
                apart = new.at(t + 0.4)[0][:3] - plan.at(t + 0.4)[0][:3]
                result.joins_mm.append(float(np.linalg.norm(apart)) * 1e3)
            plan, saying_done = new, saying_done + 1 if chunk.done > 0.5 else 0
            if saying_done == 2 and done_at is None:
                done_at = t
        if nudge and abs(t - nudge.at_s) < TICK_S / 2:
            x, y, z = world.piece_pos(target.name)
            world.place(target.name, (x + nudge.shift_m[0], y + nudge.shift_m[1], z), target.body_yaw_rad)
        six, wanted_opening = plan.at(t + TICK_S)
        if wanted_opening < CLOSING_BELOW and result.grounded is None:
            _note_grasp(result, six, world.piece_pos(target.name), task)
        try:
            to_q = env.follow(six[:3], six[3:], q)
        except Unreachable:
            to_q, result.unreachable = q, result.unreachable + 1
        env.advance(q, to_q, opening, wanted_opening, PHYSICS_STEPS)
        q, opening, tick = to_q, wanted_opening, tick + 1
        lifted_m = max(lifted_m, float(world.piece_pos(target.name)[2]) - height_before)
    at_goal = float(np.linalg.norm(world.tcp()[0] - np.array(task.goal[:3]))) < AT_GOAL_M
    result.done_s, result.done_away, result.end_s = done_at, done_at is not None and not at_goal, tick * TICK_S
    if task.goal.place and done_at is not None:
        _let_go(env, q)
    result.others_moved_mm = max(
        (float(np.linalg.norm(world.piece_pos(n)[:2] - p)) * 1e3 for n, p in others.items()), default=0.0
    )
    result.success = bool(lifted_m > LIFTED_M * (0.5 if task.goal.place else 1)) and _as_asked(env, task, result)
    return result


def _let_go(env: Environment, q_rad: NDArray[np.float64]) -> None:
    """Open the fingers where they are and rise straight up."""
    env.advance(q_rad, q_rad, 0.0, 1.0, round(OPEN_S / STEP_S))
    position, rotation = env.kinematics_pose(q_rad)
    steps = round(RISE_S / TICK_S)
    for k in range(1, steps + 1):
        to_q = env.follow(position + np.array([0.0, 0.0, RISE_M * k / steps]), rotation, q_rad)
        env.advance(q_rad, to_q, 1.0, 1.0, PHYSICS_STEPS)
        q_rad = to_q


def _as_asked(env: Environment, task: Task, result: Outcome) -> bool:
    """Whether the world is as the sentence wanted it. Notes how far off the end is."""
    world, goal = env.world, task.goal
    tcp, rotation = world.tcp()
    piece = world.piece_pos(task.piece.name)
    if not goal.place and not goal.pitch_rad:
        at_goal = float(np.linalg.norm(tcp - np.array(contract.HAND_OVER_M))) < AT_GOAL_M
        aside = float(np.linalg.norm(piece[:2] - np.array(contract.HAND_OVER_M)[:2]))
        return bool(at_goal and aside < PIECE_AT_GOAL_M and piece[2] > PIECE_HIGH_M)
    if goal.pitch_rad:
        wanted = contract.rotation_from_rpy(np.array([0.0, goal.pitch_rad, 0.0]))
        turn = float(np.linalg.norm(contract.rotvec_from_rotation(rotation @ wanted.T)))
        off = float(np.linalg.norm(tcp - np.array(goal[:3])))
        foot = tcp + rotation[:, 2] * GRASP_Z_M[task.piece.kind]
        held = float(np.linalg.norm(piece - foot)) < AT_GOAL_M
        result.end_error_mm, result.end_angle_deg = off * 1e3, math.degrees(turn)
        result.slip_deg = math.degrees(abs(world.piece_tilt_rad(task.piece.name) - abs(goal.pitch_rad)))
        return bool(off < END_WITHIN_M and turn < END_WITHIN_RAD and held)
    off = float(np.hypot(*(piece[:2] - np.array(goal[:2]))))
    lean = 0.0 if task.piece.kind == "spoon" else world.piece_tilt_rad(task.piece.name)
    result.end_error_mm, result.end_angle_deg = off * 1e3, math.degrees(lean)
    stands = lean < END_WITHIN_RAD and abs(float(piece[2])) < END_WITHIN_M
    if task.kind == "put" and task.other is not None:
        apart = float(np.hypot(*(piece[:2] - world.piece_pos(task.other.name)[:2])))
        return bool(stands and BESIDE_WITHIN_M[0] < apart < BESIDE_WITHIN_M[1])
    return bool(stands and off < END_WITHIN_M)


def _note_grasp(result: Outcome, six: NDArray[np.float64], piece: NDArray[np.float64], task: Task) -> None:
    target = task.piece
    error_m = math.hypot(six[0] - piece[0], six[1] - piece[1])
    result.grounded = error_m < GROUNDED_WITHIN_M
    result.grasp_error_mm = error_m * 1e3
    result.grasp_height_error_mm = (float(six[2]) - GRASP_Z_M[target.kind]) * 1e3
    result.grasp_yaw_error_deg = abs(math.degrees(float(six[5]) - target.yaw_rad))
