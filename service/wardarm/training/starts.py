"""Arm states to begin from: about home, anywhere in the workspace, around a piece."""

from __future__ import annotations

import math

import numpy as np

from wardarm.sim.scenes import REACH_M
from wardarm.training.expert import HAND_OVER, Goal, State, Target

HOME_M = (0.30, 0.0, 0.42)
"""TCP at home, as `poses.home` of the configuration."""
_HOME_SPREAD_M = ((-0.05, 0.06), (-0.08, 0.08), (-0.05, 0.05))
_HOME_YAW_RAD = 0.3
_SPACE_M = ((0.27, 0.66), (-0.42, 0.50), (0.14, 0.48))
_TILT_RAD = 0.03
"""Roll and pitch of states off the path: the planner keeps the tool down to about 2 degrees."""
_LOWEST_HELD_M = 0.03
_LEAN_WITHIN_M = 0.04


def near_home(rng: np.random.Generator) -> State:
    x, y, z = (h + float(rng.uniform(*s)) for h, s in zip(HOME_M, _HOME_SPREAD_M, strict=True))
    return State(x, y, z, 0.0, 0.0, float(rng.uniform(-_HOME_YAW_RAD, _HOME_YAW_RAD)), 1.0, False)


def anywhere(rng: np.random.Generator, holding: bool = False, target: Target | None = None) -> State:
    """In the free space over table and bed edge; holding, at least 30 mm above where `target` was grasped."""
    while True:
        x, y, z = (float(rng.uniform(*limits)) for limits in _SPACE_M)
        if REACH_M[0] + 0.02 < math.hypot(x, y) < REACH_M[1]:
            break
    if holding and target:
        z = max(z, target.grasp_z_m + _LOWEST_HELD_M)
    roll, pitch = (float(v) for v in rng.normal(0, _TILT_RAD, 2))
    return State(x, y, z, roll, pitch, float(rng.uniform(-1, 1)), 0.0 if holding else 1.0, holding)


def above(rng: np.random.Generator, target: Target) -> State:
    """Open fingers within 20 cm above a piece, a little to the side."""
    dx, dy, roll, pitch = (float(v) for v in rng.normal(0, 0.02, 4))
    return State(
        target.x_m + dx, target.y_m + dy, target.grasp_z_m + float(rng.uniform(0, 0.2)), roll, pitch,
        target.yaw_rad + float(rng.normal(0, 0.15)), 1.0, False,
    )  # fmt: skip


def half_open(rng: np.random.Generator, target: Target) -> State:
    """Fingers closed on nothing somewhere above a piece: they must open before going down."""
    dx, dy = (float(v) for v in rng.normal(0, 0.05, 2))
    return State(
        target.x_m + dx, target.y_m + dy, target.grasp_z_m + float(rng.uniform(0.05, 0.25)), 0.0, 0.0,
        target.yaw_rad + float(rng.normal(0, 0.15)), float(rng.uniform(0, 0.9)), False,
    )  # fmt: skip


def arriving(rng: np.random.Generator, target: Target, goal: Goal) -> State:
    """Holding, within some centimetres of where it goes, leaning as far as it may there."""
    if goal == HAND_OVER:
        return anywhere(rng, True, target)
    dx, dy = (float(v) for v in rng.normal(0, 0.03, 2))
    z = goal.z_m + float(rng.uniform(0.0, 0.14))
    pitch = goal.pitch_rad * float(rng.uniform(0, 1)) if math.hypot(dx, dy) < _LEAN_WITHIN_M else 0.0
    return State(goal.x_m + dx, goal.y_m + dy, z, 0.0, pitch, float(rng.normal(0, 0.15)), 0.0, True)
