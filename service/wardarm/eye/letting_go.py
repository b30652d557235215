"""How eye lets go of what it holds: on the leaf, straight down, or in a person's hand. All open, and wait until it is so."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from wardarm.eye import leaf
from wardarm.eye.follow import StepEnded, Ticks
from wardarm.eye.planned import Planned
from wardarm.eye.scripted import Fingers, Line, lifted, via_travel
from wardarm.kinematics import TcpPose
from wardarm.shm.layouts import Holding, StepState

if TYPE_CHECKING:
    from wardarm.eye.steps import StepMachine

RELEASE_S = 2.0  # the gripper reports open within this
SET_DOWN_GAP_M = 0.002  # opened this much above the height of the grasp: the thing is not pressed down
_OPEN = 0.8


def on_leaf(m: StepMachine) -> Ticks[None]:
    """Over to the place that was chosen, down to the height of the grasp, open."""
    x, y = m.spot
    if m.motion.holding is Holding.NO:
        if _released(m):
            note(m, x, y)
            return  # a hold came after the fingers had opened
        raise StepEnded(StepState.FAILED, "the fingers lost it before it was set down")
    if m.grasp is None:
        raise StepEnded(
            StepState.FAILED,
            "the height at which it was grasped is not known; it is still held: lower it by hand or with set down",
        )
    m.report.state, m.report.fraction = StepState.SETTING_DOWN, 0.7
    z = m.grasp.z_m + SET_DOWN_GAP_M

    def legs(plan: Planned) -> list[Line | Fingers]:
        down = TcpPose(np.array([x, y, z]), np.array([0.0, 0.0, plan.pose.rpy_rad[2]]))
        return [*via_travel(plan.pose, down, m.config.poses.travel_z), Fingers(1.0)]

    yield from m.follower.script(legs)
    yield from until_released(m)
    note(m, x, y)


def straight_down(m: StepMachine) -> Ticks[None]:
    """Where it is: down to the height of the grasp, open."""
    if m.grasp is None:
        return
    m.report.state, m.report.fraction = StepState.SETTING_DOWN, 0.3
    z = m.grasp.z_m + SET_DOWN_GAP_M
    script = yield from m.follower.script(lambda plan: [Line(lifted(plan.pose, z)), Fingers(1.0)])
    yield from until_released(m)
    note(m, float(script.end.xyz_m[0]), float(script.end.xyz_m[1]))


def in_a_hand(m: StepMachine) -> Ticks[None]:
    """Open where it is: a person has a hand under it."""
    m.report.state = StepState.SETTING_DOWN
    yield from m.follower.script(lambda _plan: [Fingers(1.0)])
    yield from until_released(m)
    m.grasp = None


def note(m: StepMachine, x_m: float, y_m: float) -> None:
    """The fingers have opened over (x, y), base frame: it is looked at from home whether it stands there."""
    if m.grasp is not None:
        taken = m.grasp.pose.xyz_m if m.grasp.pose is not None else None
        taken_at = (float(taken[0]), float(taken[1])) if taken is not None else None
        m.let_go_at = leaf.LetGo(x_m, y_m, m.grasp.z_m, taken_at)
    m.grasp = None


def until_released(m: StepMachine) -> Ticks[None]:
    """Raises StepEnded if the gripper does not open."""
    until_s = time.monotonic() + RELEASE_S
    while m.motion.holding is Holding.YES or not _released(m):
        if time.monotonic() > until_s:
            raise StepEnded(StepState.FAILED, f"the fingers did not open within {RELEASE_S:.0f} s; look at the gripper")
        yield


def _released(m: StepMachine) -> bool:
    return float(m.motion.status["grip_opening"]) > _OPEN
