"""Movements that no model makes: homing, parking, setting down, retreat, as chunks like the model's.

A script is a path in nominal time: straight lines between TCP poses, each from rest to rest, and pauses in which the
fingers open or close. A chunk is the window of 3.15 s from some nominal time on; the loop asks for the next window
the way it asks the model. Each passes the same planner, check, permit and player.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.config import LimitProfile
from wardarm.eye.planned import Planned
from wardarm.kinematics import TcpPose
from wardarm.policy import contract

Array = NDArray[np.float64]

SPEED_M_S = 0.20  # peak along a line
TURN_RAD_S = 0.5  # peak
STOP_S = 0.7  # from 0.25 m/s at 0.7 m/s2: below the ward's 0.8
GRIP_S = 0.6  # a 2-finger 85 mm gripper takes 0.5 s end to end at the speed we ask for
RAMP_S = 0.5  # to full speed, a smooth step: 0.6 m/s2 and 4.8 m/s3 at 0.2 m/s, within the ward's 0.8 and 6
UPRIGHT_S = 0.6
UPRIGHT_SHARE = 0.9  # of the limits: the turning that was under way adds to it
_SHORT_M, _SHORT_RAD = 0.002, 0.01
_BODY_M = 0.1  # weighs radians against metres when looking for a place on the path


@dataclass(frozen=True)
class Line:
    """Straight to a pose, from rest to rest."""

    to: TcpPose


@dataclass(frozen=True)
class Fingers:
    """Standing still while the fingers go to an opening, 0..1."""

    opening: float
    pause_s: float = GRIP_S


@dataclass(frozen=True)
class _Piece:
    start_s: float
    end_s: float
    a: Array  # x y z roll pitch yaw
    b: Array
    grip: float


class Script:
    """A path in nominal time, 0 to `duration_s`."""

    def __init__(self, start: TcpPose, opening: float, legs: Sequence[Line | Fingers]) -> None:
        self._pieces: list[_Piece] = []
        at, grip, t = start.six, opening, 0.0
        for leg in legs:
            if isinstance(leg, Fingers):
                grip, to, lasts = leg.opening, at, leg.pause_s
            else:
                to = leg.to.six
                to = np.concatenate([to[:3], at[3:] + _wrap(to[3:] - at[3:])])
                way_m, turn_rad = float(np.linalg.norm(to[:3] - at[:3])), float(np.abs(to[3:] - at[3:]).max())
                if way_m < _SHORT_M and turn_rad < _SHORT_RAD:
                    continue  # as good as there
                lasts = RAMP_S + max(way_m / SPEED_M_S, turn_rad / TURN_RAD_S, RAMP_S)
            self._pieces.append(_Piece(t, t + lasts, at, to, grip))
            at, t = to, t + lasts
        self.duration_s = t
        self.end = TcpPose(at[:3].copy(), _wrap(at[3:]))
        self.end_opening = grip
        self._start = (start.six, opening)

    def at(self, t_s: float) -> tuple[Array, float]:
        """(x y z (m) roll pitch yaw (rad), opening) at a nominal time; before and after it stands still."""
        if not self._pieces:
            return self._start
        piece = next((p for p in self._pieces if t_s < p.end_s), self._pieces[-1])
        way = _way(t_s - piece.start_s, piece.end_s - piece.start_s)
        return piece.a + (piece.b - piece.a) * way, piece.grip

    def chunk(self, from_s: float) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
        """(traj FP16 (64, 6) in [-1, 1], grip FP16 (64,)) from a nominal time on.

        Raises ValueError if a pose is outside the model's box: it cannot be said in a chunk.
        """
        samples = [self.at(from_s + k / contract.RATE_HZ) for k in range(contract.HORIZON)]
        poses = np.stack([pose for pose, _ in samples])
        poses[:, 3:] = _wrap(poses[:, 3:])
        values = contract.normalise(poses)
        if np.abs(values).max() > 1:
            k = int(np.abs(values).max(1).argmax())
            raise ValueError(
                f"scripted pose {np.round(poses[k, :3], 3).tolist()} m is outside the box "
                f"{list(contract.LOW)} .. {list(contract.HIGH)} m: change [poses] in the configuration"
            )
        return values.astype(np.float16), np.array([g for _, g in samples], np.float16)

    def find(self, pose: TcpPose, opening: float, from_s: float, to_s: float) -> float:
        """The latest nominal time in [from_s, to_s] at which the script is where the plan is (nearest place).

        The planner may stretch time, never shorten it: so the place decides, and in a pause the clock.
        """
        times = np.arange(from_s, max(to_s, from_s) + 1e-9, 0.01)
        here = pose.six
        cost = np.empty(len(times))
        for i, t in enumerate(times):
            there, grip = self.at(float(t))
            cost[i] = float(np.linalg.norm(there[:3] - here[:3]))
            cost[i] += _BODY_M * float(np.abs(_wrap(there[3:] - here[3:])).max()) + 0.02 * abs(grip - opening)
        return float(times[np.flatnonzero(cost <= cost.min() + 5e-4)[-1]])


def _way(t_s: float, lasts_s: float) -> float:
    """The share of a line that is behind at `t_s`: speed up as a smooth step over RAMP_S, cruise, slow down alike."""
    if t_s <= 0 or lasts_s <= 0:
        return 0.0
    if t_s >= lasts_s:
        return 1.0
    if t_s > lasts_s / 2:
        return 1.0 - _way(lasts_s - t_s, lasts_s)
    cruise = 1 / (lasts_s - RAMP_S)  # shares a second
    if t_s >= RAMP_S:
        return cruise * (t_s - RAMP_S / 2)
    u = t_s / RAMP_S
    return cruise * RAMP_S * u * u * u * (1 - u / 2)


def _wrap(angle_rad: Array) -> Array:
    return (angle_rad + np.pi) % (2 * np.pi) - np.pi


def lifted(pose: TcpPose, z_m: float) -> TcpPose:
    return TcpPose(np.array([pose.xyz_m[0], pose.xyz_m[1], z_m]), pose.rpy_rad)


def via_travel(start: TcpPose, goal: TcpPose, travel_z_m: float) -> list[Line]:
    """Up to travel height, across at or above it, down to the goal: nothing on the table is swept."""
    if np.linalg.norm(goal.xyz_m[:2] - start.xyz_m[:2]) < 0.005:
        return [Line(goal)]
    rise, fall = (lifted(pose, max(travel_z_m, float(pose.xyz_m[2]))) for pose in (start, goal))
    return [Line(rise), Line(TcpPose(fall.xyz_m, goal.rpy_rad)), Line(goal)]


def stop(plan: Planned, velocity: Array) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """A chunk that goes on in the direction of motion for a few centimetres and stands: for a step that was dropped.

    `velocity`: TCP m/s and rad/s about base axes at the plan, shape (6,). The speed falls as (1 - t / STOP_S)^2.
    Fingers keep their opening.
    """
    u = np.minimum(np.arange(contract.HORIZON) / contract.RATE_HZ / STOP_S, 1.0)[:, None]
    way_s = STOP_S * (u - u * u + u * u * u / 3)
    poses = np.empty((contract.HORIZON, 6))
    poses[:, :3] = plan.pose.xyz_m + way_s * velocity[:3]
    start = contract.rotation_from_rpy(plan.pose.rpy_rad)
    for k in range(contract.HORIZON):
        turned = contract.rotation_from_rotvec(way_s[k, 0] * velocity[3:]) @ start
        poses[k, 3:] = contract.rpy_from_rotation(turned)
    values = np.clip(contract.normalise(poses), -1, 1)
    return values.astype(np.float16), np.full(contract.HORIZON, contract.snap_grip(plan.opening), np.float16)


def upright(plan: Planned, velocity: Array, limits: LimitProfile) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """As `stop`, and the tool is turned until what it holds stands upright: for a pause while something leans.

    As fast as the profile's turning limits allow, never faster than UPRIGHT_S. Shapes as of `stop`.
    """
    traj, grip = stop(plan, velocity)
    values = contract.denormalise(traj.astype(np.float64))
    u = np.minimum(np.arange(contract.HORIZON) / contract.RATE_HZ / upright_s(plan.pose, limits), 1.0)
    values[:, 3:5] *= (1 - u**3 * (10 - 15 * u + 6 * u * u))[:, None]
    return contract.normalise(values).astype(np.float16), grip


def tilt_rad(pose: TcpPose) -> float:
    """How far the tool leans from straight down."""
    return float(np.arccos(np.clip(-contract.rotation_from_rpy(pose.rpy_rad)[2, 2], -1.0, 1.0)))


def upright_s(pose: TcpPose, limits: LimitProfile) -> float:
    """How long turning it upright takes: the peaks of a smooth step of fifth order within the limits, s."""
    tilt = tilt_rad(pose)
    speed, acceleration, jerk = (
        np.radians(v) * UPRIGHT_SHARE for v in (limits.tcp_deg_s, limits.tcp_deg_s2, limits.tcp_deg_s3)
    )
    return float(
        max(UPRIGHT_S, 1.875 * tilt / speed, (5.774 * tilt / acceleration) ** 0.5, (60 * tilt / jerk) ** (1 / 3))
    )
