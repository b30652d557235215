"""Steps beyond a fetch: put beside, put back, pour, hand over. The policy brings, a script lets go.

Each begins as a fetch does (home, `valid`, grasp, carry) and is refused unless the served weights say in their
configuration that they were trained for it. A spot on the table is only opened over when the plan is where the piece was
grasped, in height: otherwise it would fall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wardarm.eye import leaf, letting_go
from wardarm.eye.follow import StepEnded, Ticks
from wardarm.eye.planned import Planned
from wardarm.eye.scripted import Fingers, Line, lifted, via_travel
from wardarm.kinematics import TcpPose
from wardarm.shm.layouts import Holding, StepKind, StepState

if TYPE_CHECKING:
    from wardarm.eye.steps import StepMachine

KINDS = frozenset({StepKind.PUT, StepKind.PUT_BACK, StepKind.POUR, StepKind.HAND_OVER})
LET_GO_WITHIN_M = 0.015
"""The plan's height against that of the grasp, before the fingers open."""
POUR_S = 3.0
RIGHT_UP_M = 0.13
"""The bottle is righted this much higher than it poured: its foot clears the vessel."""


def flow(m: StepMachine, kind: StepKind) -> Ticks[None]:
    """One step of `kind`, from its first look to home. Goes on in the phase it was in after a hold."""
    from wardarm.eye.steps import Phase

    yield from m._arm_known()
    m._demand_known_fingers()
    tokens = m._tokens()
    if m._phase is Phase.START:
        if m.motion.holding is Holding.YES:
            raise StepEnded(StepState.REFUSED, "the fingers hold something already: set it down or release it first")
        yield from m._home(StepState.MOVING)
        yield from m._ask_valid(tokens)
        yield from leaf.clear_to_hold_out(m) if kind is StepKind.HAND_OVER else leaf.remember(m)
        m.report.grasp_attempts = 1
        m._phase = Phase.FETCHING
    if m._phase is Phase.FETCHING:
        there = None if kind is StepKind.HAND_OVER else lambda: _brought(m)
        yield from m._grasp_and_carry(tokens, there)
        m._phase = Phase.SETTING_DOWN
    if m._phase is Phase.SETTING_DOWN:
        if kind is StepKind.HAND_OVER:
            return  # held out, at rest: a person's word releases it, or sets it down
        m.report.state, m.report.fraction = StepState.SETTING_DOWN, 0.7
        yield from (_pour_and_return(m) if kind is StepKind.POUR else _let_go(m))
        m._phase = Phase.RETURNING
    yield from m._home_and_look()


def _brought(m: StepMachine) -> bool | None:
    """As StepMachine._fetched, wherever the goal is: done said twice, something held, the plan standing still."""
    now = m.motion.now()
    if now is None:
        return None
    said = m._said_done(now)
    return said if said is not True or m.motion.still() else None


def _let_go(m: StepMachine) -> Ticks[None]:
    now = m.motion.now()
    if m.motion.holding is Holding.YES:
        if m.grasp is None or now is None:
            raise StepEnded(StepState.FAILED, "the height of the grasp is not known; it is still held: use set down")
        off_m = float(now.pose.xyz_m[2]) - m.grasp.z_m
        if abs(off_m) > LET_GO_WITHIN_M:
            raise StepEnded(
                StepState.FAILED,
                f"it would be let go {off_m * 1e3:.0f} mm above where it stood, limit {LET_GO_WITHIN_M * 1e3:.0f} mm; "
                "it is still held: use set down",
            )
    z_m = m.config.poses.travel_z
    script = yield from m.follower.script(
        lambda plan: [Fingers(1.0), Line(lifted(plan.pose, max(z_m, float(plan.pose.xyz_m[2]))))]
    )
    yield from letting_go.until_released(m)
    letting_go.note(m, float(script.end.xyz_m[0]), float(script.end.xyz_m[1]))


def _pour_and_return(m: StepMachine) -> Ticks[None]:
    """Lean for a while, right the bottle, stand it where it was taken."""
    if m.motion.holding is Holding.NO:
        raise StepEnded(StepState.FAILED, "the fingers lost the bottle")
    grasp = m.grasp
    if grasp is None or grasp.pose is None:
        raise StepEnded(StepState.FAILED, "where the bottle stood is not known; it is still held: use set down")
    x, y = float(grasp.pose.xyz_m[0]), float(grasp.pose.xyz_m[1])

    def legs(plan: Planned) -> list[Line | Fingers]:
        yaw = float(plan.pose.rpy_rad[2])
        upright = TcpPose(plan.pose.xyz_m + np.array([0.0, 0.0, RIGHT_UP_M]), np.array([0.0, 0.0, yaw]))
        back = TcpPose(np.array([x, y, grasp.z_m + letting_go.SET_DOWN_GAP_M]), upright.rpy_rad)
        leaning = abs(float(plan.pose.rpy_rad[1])) > np.radians(10)
        first: list[Line | Fingers] = [Fingers(0.0, POUR_S), Line(upright)] if leaning else []
        begin = upright if leaning else plan.pose
        return [*first, *via_travel(begin, back, m.config.poses.travel_z), Fingers(1.0)]

    yield from m.follower.script(legs)
    yield from letting_go.until_released(m)
    letting_go.note(m, x, y)
