"""The expert the policy imitates: a velocity field that takes one piece somewhere, 20 steps a second.

It is memoryless: what it does next depends on the eight state values, the target and the goal alone. So two chunks that
are joined half way agree, whatever happened before, and every state on or off the path has one right answer.

The course: open, go above the piece, descend on it, close in place, lift clear of everything, carry to the goal: the
hand-over pose, a spot on the table (lowered until the piece stands), or over a vessel (tilted). Opening again is not the
policy's: once it says done, `eye` sets down. Positions are the TCP's in base frame (m); angles relative to tool-down (rad).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from wardarm.policy import contract
from wardarm.sim.scenes import GRASP_Z_M, HEIGHT_M, SceneObject

STEP_S = 1 / contract.RATE_HZ
SPEED_M_S = 0.24
"""Cruise: just under the 0.25 m/s of the `ward` and `carry_liquid` profiles, so that the planner seldom slows a chunk."""
NEAR_SPEED_M_S = 0.12
"""Close above a piece: half, so that an image 0.6 s old is at most 72 mm behind."""
CREEP_M_S = 0.02
"""What is left of the speed at a goal; the last step lands on it."""
BRAKE_M_S2 = 0.30
"""Deceleration towards a goal: well under the 0.8 m/s2 of the profiles."""
YAW_RATE_RAD_S = 0.80
YAW_GAIN_PER_S = 2.5
YAW_LAND_RAD = 0.004
GRIP_PER_S = 2.0
"""Opening per second: half a second from open to closed."""

HOVER_M = 0.11
"""Height over the grasp point while not yet above it: open fingers (40 mm past the TCP) pass over a bottle's shoulder."""
DESCEND_WITHIN_M = (0.008, 0.035)
"""Horizontal distance at which the descent is complete / has not begun."""
DESCEND_WITHIN_YAW_RAD = (0.12, 0.45)
DESCEND_WITHIN_CLOSED = (0.05, 0.50)
"""Share closed at which the descent is unaffected / waits: never down onto a piece with closed fingers."""
RISE_FIRST_M = (0.03, 0.08)
"""This far below the wanted height, sideways motion fades: up first, so that no piece is swept away."""
SLOW_WITHIN_M = (0.03, 0.13)
SLOW_BELOW_M = HOVER_M + 0.06
CLOSE_WITHIN_M = 0.0025
CLOSE_WITHIN_YAW_RAD = 0.10
KEEP_CLOSING_WITHIN_M = 0.03
"""Once the fingers have begun to close they finish within this: more than a chunk's p95 error, so a join never reopens."""
OPEN = 0.97

LIFT_CLEARANCE_M = max(HEIGHT_M.values())
"""What is carried goes over the tallest piece that may stand there."""
LIFT_FADE_M = (0.07, 0.005)
"""From this far to this little below the carrying height, up turns into straight towards the hand-over."""
ARRIVING_WITHIN_M = (0.06, 0.16)
LIFT_OFF_M_S = 0.04
LIFT_ACCELERATION_M_S2 = 0.5
TURN_ABOVE_M = 0.06
"""The wrist turns back to 0 only this far above the grasp height."""
DONE_WITHIN_M = 0.008
DONE_WITHIN_YAW_RAD = 0.06


class State(NamedTuple):
    """Planned state: TCP (m, base), angles relative to tool-down (rad), opening 0 closed .. 1 open, holding or not."""

    x_m: float
    y_m: float
    z_m: float
    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    opening: float
    holding: bool


class Target(NamedTuple):
    """Where a piece stands on the table (m, base), the tool yaw that grasps it (rad), and its kind."""

    x_m: float
    y_m: float
    yaw_rad: float
    kind: str

    @property
    def grasp_z_m(self) -> float:
        return GRASP_Z_M[self.kind]

    @property
    def carry_z_m(self) -> float:
        """TCP height at which the piece hangs clear of all others; at most 10 mm under the hand-over pose."""
        return min(self.grasp_z_m + LIFT_CLEARANCE_M, contract.HAND_OVER_M[2] - 0.010)


class Goal(NamedTuple):
    """Where what is held goes: TCP (m, base), pitch there (rad, 0 upright). `place`: lowered onto the table there."""

    x_m: float
    y_m: float
    z_m: float
    pitch_rad: float = 0.0
    place: bool = False


HAND_OVER = Goal(*contract.HAND_OVER_M)
SET_DOWN_GAP_M = 0.002
"""A piece is let go this far above the height of its grasp, as `eye` does: it is not pressed down."""
POUR_PITCH_RAD = math.radians(-60)
"""The wrist leans back towards the arm's foot; a bottle then leans 60 degrees with its mouth over the vessel."""
POUR_Z_M = 0.21
"""TCP height while pouring: the bottle's lower end stays 10 mm above the rim of a cup that stands beside the vessel."""
MOUTH_AHEAD_M = 0.024
"""The bottle's mouth, 28 mm beyond the TCP, lies this far towards the arm's foot when it leans 60 degrees."""
UPRIGHT_CLEAR_M = 0.13
"""So much higher does a bottle arrive over its vessel while it is still upright."""
TILT_WITHIN_M = (0.015, 0.06)
TILT_HOVER_RAD = (0.15, 0.9)
TILT_RATE_RAD_S = 0.45
"""Under the 30 deg/s of the `carry_liquid` profile."""
LOWER_WITHIN_M = (0.010, 0.050)
"""Horizontal distance to the goal at which what is held is fully lowered / still at carrying height."""


def place_goal(x_m: float, y_m: float, kind: str) -> Goal:
    """Stand a held piece on the table at (x, y)."""
    return Goal(x_m, y_m, GRASP_Z_M[kind] + SET_DOWN_GAP_M, 0.0, True)


def pour_goal(vessel: SceneObject) -> Goal:
    """The bottle's mouth over the middle of a vessel."""
    return Goal(vessel.x_m + MOUTH_AHEAD_M, vessel.y_m, POUR_Z_M, POUR_PITCH_RAD)


def target_of(piece: SceneObject) -> Target:
    return Target(piece.x_m, piece.y_m, piece.yaw_rad, piece.kind)


def smoothstep(value: float, zero: float, one: float) -> float:
    """0 at `zero`, 1 at `one` (either order), level at both ends."""
    t = min(1.0, max(0.0, (value - zero) / (one - zero)))
    return t * t * (3 - 2 * t)


def _turned(angle_rad: float, goal_rad: float, most_rad_s: float = YAW_RATE_RAD_S) -> float:
    """One step towards an angle, at a limited rate."""
    error = goal_rad - angle_rad
    rate = max(-most_rad_s, min(most_rad_s, YAW_GAIN_PER_S * error))
    if abs(error) < YAW_LAND_RAD:
        return goal_rad
    return angle_rad + rate * STEP_S


def _braking(distance_m: float, deceleration_m_s2: float = BRAKE_M_S2) -> float:
    return CREEP_M_S + math.sqrt(2 * deceleration_m_s2 * distance_m)


def step(state: State, target: Target, goal: Goal = HAND_OVER) -> State:
    """The state 50 ms later. Never faster than SPEED_M_S, never lower than the lower of here and the grasp height."""
    if not state.holding:
        return _approach(state, target)
    return _carry(state, target) if goal == HAND_OVER else _deliver(state, target, goal)


def _approach(s: State, target: Target) -> State:
    dx, dy = target.x_m - s.x_m, target.y_m - s.y_m
    aside, above = math.hypot(dx, dy), s.z_m - target.grasp_z_m
    away = math.hypot(aside, above)
    yaw_error = abs(target.yaw_rad - s.yaw_rad)
    begins = s.opening >= OPEN and away < CLOSE_WITHIN_M and yaw_error < CLOSE_WITHIN_YAW_RAD
    if begins or (s.opening < OPEN and away < KEEP_CLOSING_WITHIN_M):
        opening = s.opening - GRIP_PER_S * STEP_S
        closed = opening <= 1e-6
        return s._replace(opening=0.0 if closed else opening, holding=closed)
    turned = s._replace(
        roll_rad=_turned(s.roll_rad, 0.0),
        pitch_rad=_turned(s.pitch_rad, 0.0),
        yaw_rad=_turned(s.yaw_rad, target.yaw_rad),
        opening=min(1.0, s.opening + GRIP_PER_S * STEP_S),
    )
    hover = HOVER_M * max(
        smoothstep(aside, *DESCEND_WITHIN_M),
        smoothstep(yaw_error, *DESCEND_WITHIN_YAW_RAD),
        smoothstep(1 - s.opening, *DESCEND_WITHIN_CLOSED),
    )
    ez = hover - above
    sideways = min(1.0, max(0.1, (RISE_FIRST_M[1] - ez) / (RISE_FIRST_M[1] - RISE_FIRST_M[0])))
    ex, ey = dx * sideways, dy * sideways
    length = math.sqrt(ex * ex + ey * ey + ez * ez)
    if length < 1e-9:
        return turned
    to_go = aside if above < SLOW_BELOW_M else math.hypot(aside, above - HOVER_M)
    cap = NEAR_SPEED_M_S + (SPEED_M_S - NEAR_SPEED_M_S) * smoothstep(to_go, *SLOW_WITHIN_M)
    speed = min(cap, _braking(aside + abs(above)))
    if away <= speed * STEP_S and hover < 0.002:
        return turned._replace(x_m=target.x_m, y_m=target.y_m, z_m=target.grasp_z_m)
    share = min(speed * STEP_S, length) / length
    return turned._replace(x_m=s.x_m + ex * share, y_m=s.y_m + ey * share, z_m=s.z_m + ez * share)


def _carry(s: State, target: Target) -> State:
    hx, hy, hz = contract.HAND_OVER_M
    dx, dy, dz = hx - s.x_m, hy - s.y_m, hz - s.z_m
    distance, above = math.sqrt(dx * dx + dy * dy + dz * dz), s.z_m - target.grasp_z_m
    turned = s._replace(
        roll_rad=_turned(s.roll_rad, 0.0),
        pitch_rad=_turned(s.pitch_rad, 0.0),
        yaw_rad=_turned(s.yaw_rad, 0.0) if above > TURN_ABOVE_M else s.yaw_rad,
        opening=0.0,
    )
    speed = min(SPEED_M_S, LIFT_OFF_M_S + math.sqrt(2 * LIFT_ACCELERATION_M_S2 * max(0.0, above)), _braking(distance))
    if distance <= max(speed * STEP_S, 1e-6):
        return turned._replace(x_m=hx, y_m=hy, z_m=hz)
    carry = target.carry_z_m
    straight = max(
        smoothstep(s.z_m, carry - LIFT_FADE_M[0], carry - LIFT_FADE_M[1]),
        1 - smoothstep(math.hypot(dx, dy), *ARRIVING_WITHIN_M),
    )
    ex, ey, ez = dx / distance * straight, dy / distance * straight, dz / distance * straight + (1 - straight)
    share = speed * STEP_S / math.sqrt(ex * ex + ey * ey + ez * ez)
    return turned._replace(x_m=s.x_m + ex * share, y_m=s.y_m + ey * share, z_m=s.z_m + ez * share)


def _deliver(s: State, target: Target, goal: Goal) -> State:
    """Lift clear, across at carrying height, then down onto the spot, or down and over beside the vessel."""
    dx, dy = goal.x_m - s.x_m, goal.y_m - s.y_m
    aside, above = math.hypot(dx, dy), s.z_m - target.grasp_z_m
    pitch = goal.pitch_rad * (1 - smoothstep(aside, *TILT_WITHIN_M))
    low_among_others = above < TURN_ABOVE_M and aside > LOWER_WITHIN_M[1]
    turned = s._replace(
        roll_rad=_turned(s.roll_rad, 0.0, TILT_RATE_RAD_S),
        pitch_rad=_turned(s.pitch_rad, pitch, TILT_RATE_RAD_S),
        yaw_rad=s.yaw_rad if low_among_others else _turned(s.yaw_rad, 0.0),
        opening=0.0,
    )
    if goal.pitch_rad:
        hover = UPRIGHT_CLEAR_M * max(
            smoothstep(aside, *LOWER_WITHIN_M), smoothstep(abs(goal.pitch_rad - s.pitch_rad), *TILT_HOVER_RAD)
        )
    else:
        hover = (target.carry_z_m - goal.z_m) * max(
            smoothstep(aside, *LOWER_WITHIN_M), smoothstep(abs(s.yaw_rad), *DESCEND_WITHIN_YAW_RAD)
        )
    ez = goal.z_m + hover - s.z_m
    sideways = min(1.0, max(0.0, (RISE_FIRST_M[1] - ez) / (RISE_FIRST_M[1] - RISE_FIRST_M[0])))
    ex, ey = dx * sideways, dy * sideways
    length = math.sqrt(ex * ex + ey * ey + ez * ez)
    if length < 1e-6:
        return turned
    lift = LIFT_OFF_M_S + math.sqrt(2 * LIFT_ACCELERATION_M_S2 * max(0.0, above))
    near = NEAR_SPEED_M_S + (SPEED_M_S - NEAR_SPEED_M_S) * smoothstep(aside, *SLOW_WITHIN_M)
    speed = min(near, lift if ez > 0 else near, _braking(aside + abs(goal.z_m - s.z_m)))
    share = min(speed * STEP_S, length) / length
    return turned._replace(x_m=s.x_m + ex * share, y_m=s.y_m + ey * share, z_m=s.z_m + ez * share)


def done(state: State, goal: Goal = HAND_OVER) -> bool:
    """At the goal with the piece: the policy's part of the step is finished."""
    return (
        state.holding
        and math.dist(state[:3], goal[:3]) < DONE_WITHIN_M
        and abs(state.yaw_rad) < DONE_WITHIN_YAW_RAD
        and abs(state.pitch_rad - goal.pitch_rad) < DONE_WITHIN_YAW_RAD
    )


def roll_out(state: State, target: Target, steps: int, goal: Goal = HAND_OVER) -> list[State]:
    """`steps` + 1 states, 50 ms apart, the first being `state`."""
    states = [state]
    for _ in range(steps):
        states.append(step(states[-1], target, goal))
    return states
