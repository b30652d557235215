"""Judges recorded RTDE samples against a limit profile, apart from the planner: finite differences and own FK.

Joint and TCP speed, acceleration and jerk come from `target_q` by central differences over 2 ms samples; the TCP's
pose from the DH parameters; its angular speed from the rotation between samples. Samples of a ramp to rest (the
player's state 3, and the servo's lag after it) are held against the stop row, all others against the plan row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm, LimitProfile

Array = NDArray[np.float64]
CYCLE_S = 0.002
RAMPING = 3  # the player's state register
_REACH_SAMPLES = 3  # of the jerk of turning, the widest difference, to either side
_SETTLE_SAMPLES = 60  # the servo's lag: a ramp shows in target_q up to this many cycles after the state left it


@dataclass(frozen=True)
class Motion:
    """Per sample: t (s), rate of change of joints (rad) and TCP (m, rad), and whether it belongs to a ramp to rest."""

    t_s: Array
    joint: tuple[Array, Array, Array]  # (N,6) speed, acceleration, jerk: rad/s, /s2, /s3
    tcp: tuple[Array, Array, Array]  # (N,) m/s, /s2, /s3
    turn: tuple[Array, Array, Array]  # (N,) rad/s, /s2, /s3
    position_m: Array  # (N,3)
    stop: NDArray[np.bool_]
    gaps: int  # places where a sample was missing; differences never cross one


@dataclass(frozen=True)
class Ratios:
    """Largest value / limit, plan and stop apart; `which` names the largest of all."""

    plan: float
    stop: float
    which: str
    at_s: float

    @property
    def largest(self) -> float:
        return max(self.plan, self.stop)


def forward(q_rad: Array, arm: Arm) -> tuple[Array, Array]:
    """TCP position (N,3) m and rotation (N,3,3) in base, from joint angles (N,6)."""
    pose = np.broadcast_to(np.eye(4), (len(q_rad), 4, 4)).copy()
    for joint in range(6):
        c, s = np.cos(q_rad[:, joint]), np.sin(q_rad[:, joint])
        ca, sa = np.cos(arm.dh_alpha[joint]), np.sin(arm.dh_alpha[joint])
        link = np.zeros((len(q_rad), 4, 4))
        link[:, 0] = np.stack([c, -s * ca, s * sa, arm.dh_a[joint] * c], 1)
        link[:, 1] = np.stack([s, c * ca, -c * sa, arm.dh_a[joint] * s], 1)
        link[:, 2] = np.array([0, sa, ca, arm.dh_d[joint]])
        link[:, 3, 3] = 1
        pose = pose @ link
    tool = np.eye(4)
    tool[:3, 3] = arm.tcp[:3]
    tool[:3, :3] = _rotation(np.array(arm.tcp[3:], float))
    pose = pose @ tool
    return pose[:, :3, 3], pose[:, :3, :3]


def _rotation(vector: Array) -> Array:
    angle = float(np.linalg.norm(vector))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross)


def _turn_vectors(rotation: Array) -> Array:
    """Rotation from each sample to the next as a vector in base (N-1,3), rad. Small angles by construction."""
    step = rotation[1:] @ np.swapaxes(rotation[:-1], 1, 2)
    vector = np.stack([step[:, 2, 1] - step[:, 1, 2], step[:, 0, 2] - step[:, 2, 0], step[:, 1, 0] - step[:, 0, 1]], 1)
    return np.asarray(vector / 2)


def motion(samples: NDArray[Any], arm: Arm, cycle_s: float = CYCLE_S) -> Motion:
    """Derivatives of the recorded target. `samples`: what `rtde_log` writes. Raises ValueError where one is no number."""
    t = np.asarray(samples["timestamp"], float)
    q = np.asarray(samples["target_q"], float)
    bad_rows = np.flatnonzero(~(np.isfinite(q).all(1) & np.isfinite(t)))
    if len(bad_rows):
        raise ValueError(f"sample {bad_rows[0]}: timestamp or target_q is not a finite number")
    position, rotation = forward(q, arm)
    gap = np.abs(np.diff(t) - cycle_s) > 0.25 * cycle_s
    bad = np.zeros(len(t), bool)  # a difference that touches a gap: of position over up to 4 samples, of turning over 5
    for k in range(-4, 5):
        near = np.flatnonzero(gap) + 1 + k
        bad[near[(near >= 0) & (near < len(t))]] = True

    def derivatives(x: Array) -> tuple[Array, Array, Array]:
        v, a, j = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        v[1:-1] = (x[2:] - x[:-2]) / (2 * cycle_s)
        a[1:-1] = (x[2:] - 2 * x[1:-1] + x[:-2]) / cycle_s**2
        j[2:-2] = (x[4:] - 2 * x[3:-1] + 2 * x[1:-3] - x[:-4]) / (2 * cycle_s**3)
        for d in (v, a, j):
            d[bad] = 0
        return v, a, j

    joint = derivatives(q)
    tv, ta, tj = derivatives(position)
    omega = np.zeros_like(position)
    omega[:-1] = _turn_vectors(rotation) / cycle_s
    w, wa, _ = derivatives(omega)
    turn_a, turn_j = w, wa  # first and second derivative of the angular velocity
    for d in (turn_a, turn_j):
        d[-2:] = 0  # the last sample has no turn to a next one: a record may end in motion
    omega[bad] = 0
    ramping = np.asarray(samples["output_int_register_12"]) == RAMPING
    stop = ramping.copy()
    for at in np.flatnonzero(~ramping[:-1] & ramping[1:]):  # differences just before a ramp already reach into it
        stop[max(0, at + 1 - _REACH_SAMPLES) : at + 1] = True
    for at in np.flatnonzero(ramping[:-1] & ~ramping[1:]):
        stop[at : at + _SETTLE_SAMPLES] = True
    return Motion(
        t,
        joint,
        (_norm(tv), _norm(ta), _norm(tj)),
        (_norm(omega), _norm(turn_a), _norm(turn_j)),
        position,
        stop,
        int(gap.sum()),
    )


def _norm(x: Array) -> Array:
    return np.asarray(np.linalg.norm(x, axis=1))


def ratios(m: Motion, profile: LimitProfile) -> Ratios:
    """Largest value / limit of the profile's row; a stop may use `stop_factor` times a and j, never more speed."""
    rad = np.pi / 180
    rows: list[tuple[str, Array, float, int]] = []
    joint = (profile.joint_deg_s, profile.joint_deg_s2, profile.joint_deg_s3)
    tcp = (profile.tcp_m_s, profile.tcp_m_s2, profile.tcp_m_s3)
    turn = (profile.tcp_deg_s, profile.tcp_deg_s2, profile.tcp_deg_s3)
    for order, name in enumerate(("speed", "acceleration", "jerk")):
        rows.append((f"joint {name}", np.abs(m.joint[order]).max(1), joint[order] * rad, order))
        rows.append((f"TCP {name}", m.tcp[order], tcp[order], order))
        rows.append((f"TCP angular {name}", m.turn[order], turn[order] * rad, order))
    plan, stop, which, at_s = 0.0, 0.0, "", 0.0
    for name, value, limit, order in rows:
        in_plan = np.where(m.stop, 0, value) / limit
        in_stop = np.where(m.stop, value, 0) / (limit * (profile.stop_factor if order else 1.0))
        for kind, series in (("plan", in_plan), ("stop", in_stop)):
            top = int(series.argmax()) if len(series) else 0
            if len(series) and series[top] > max(plan, stop):
                which, at_s = f"{kind}: {name}", float(m.t_s[top])
        plan, stop = max(plan, float(in_plan.max(initial=0))), max(stop, float(in_stop.max(initial=0)))
    return Ratios(plan, stop, which, at_s)
