"""Which trajectories may go to the player: the rules before the envelope check, as a pure function.

The player checks again what it can (whole message, checksum, order, join, continuity); nothing here relies on that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from wardarm.shm.layouts import MAX_KNOTS, ArmState, PlanStatus, RefusalReason

# A join carries on the old motion; what is left over is the wire's rounding (1e-8 rad, 1e-7 rad/s, 1e-6 rad/s2) and the
# join time's (1 us, at 2 rad/s).
JOIN_Q_RAD = 1e-5
JOIN_QD_RAD_S = 1e-4
JOIN_QDD_RAD_S2 = 1e-3
# From rest: the commanded position is where servoj stands; the player demands the same.
START_TARGET_RAD = 1e-3

Vector = npt.NDArray[np.float64]


class Refused(Exception):
    """A trajectory that will not be played: reason and plain words."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(f"{reason.name}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class ArmNow:
    """What a trajectory is held against. `path_s` is the player's path time now, `load_s` what loading one takes."""

    state: ArmState
    plan_epoch: int
    playing_id: int
    path_s: float
    load_s: float
    loading: bool
    actual_q: Vector
    target_q: Vector
    start_tolerance_rad: float
    playing_knots: npt.NDArray[np.void] | None = None


def quintic(knots: npt.NDArray[np.void], t_s: float) -> tuple[Vector, Vector, Vector]:
    """q, qd, qdd (6 each; rad, s) of the quintics through the knots at `t_s`, clamped to their range."""
    times = knots["t_s"]
    i = int(np.clip(np.searchsorted(times, t_s, side="right") - 1, 0, len(times) - 2))
    a, b = knots[i], knots[i + 1]
    h = float(b["t_s"] - a["t_s"])
    u = min(max((t_s - float(a["t_s"])) / h, 0.0), 1.0)
    p0, v0, a0 = a["q_rad"], a["qd_rad_s"] * h, a["qdd_rad_s2"] * h * h
    p1, v1, a1 = b["q_rad"], b["qd_rad_s"] * h, b["qdd_rad_s2"] * h * h
    d = p1 - p0
    c3 = 10 * d - 6 * v0 - 4 * v1 - 1.5 * a0 + 0.5 * a1
    c4 = -15 * d + 8 * v0 + 7 * v1 + 1.5 * a0 - a1
    c5 = 6 * d - 3 * v0 - 3 * v1 - 0.5 * a0 + 0.5 * a1
    q = p0 + u * (v0 + u * (a0 / 2 + u * (c3 + u * (c4 + u * c5))))
    qd = (v0 + u * (a0 + u * (3 * c3 + u * (4 * c4 + u * 5 * c5)))) / h
    qdd = (a0 + u * (6 * c3 + u * (12 * c4 + u * 20 * c5))) / (h * h)
    return q, qd, qdd


def _apart(a: Vector, b: Vector) -> float:
    return float(np.max(np.abs(a - b)))


def admit(trajectory: Any, now: ArmNow) -> None:
    """Return if the trajectory (a TRAJECTORY record) may be checked and sent. Raises Refused."""
    status = int(trajectory["status"])
    if status != PlanStatus.OK:
        raise Refused(RefusalReason.PLAN, f"postproc: {PlanStatus(status).name if status <= 12 else status}")
    if int(trajectory["plan_epoch"]) != now.plan_epoch:
        raise Refused(RefusalReason.EPOCH, f"made under epoch {int(trajectory['plan_epoch'])}, now {now.plan_epoch}")
    count = int(trajectory["knot_count"])
    if not 2 <= count <= MAX_KNOTS:
        raise Refused(RefusalReason.PLAN, f"knot_count = {count}, not within 2..{MAX_KNOTS}")
    knots = trajectory["knots"][:count]
    numbers = np.concatenate([knots[n].ravel() for n in ("t_s", "q_rad", "qd_rad_s", "qdd_rad_s2", "grip")])
    if not np.isfinite(numbers).all() or not (np.diff(knots["t_s"]) > 0).all() or knots["t_s"][0] != 0:
        raise Refused(RefusalReason.PLAN, "a knot is not finite, or the knot times do not rise from 0")
    if np.max(np.abs(knots["qd_rad_s"][-1])) > 1e-6 or np.max(np.abs(knots["qdd_rad_s2"][-1])) > 1e-5:
        raise Refused(RefusalReason.DISCONTINUOUS, "does not end at rest")
    if now.loading:
        raise Refused(RefusalReason.NOT_READY, "another trajectory is being loaded")
    if int(trajectory["join_trajectory_id"]):
        _joins(trajectory, knots, now)
    else:
        _starts(knots, now)


def _joins(trajectory: Any, knots: npt.NDArray[np.void], now: ArmNow) -> None:
    join_id, join_s = int(trajectory["join_trajectory_id"]), float(trajectory["join_path_s"])
    if now.playing_id != join_id or now.playing_knots is None:
        raise Refused(RefusalReason.UNKNOWN_JOIN, f"joins {join_id}, playing is {now.playing_id}")
    if now.state is not ArmState.RUNNING:
        raise Refused(RefusalReason.NOT_READY, f"the arm is {now.state.name}")
    left_s = join_s - now.path_s
    if left_s <= now.load_s:
        raise Refused(RefusalReason.LATE, f"joins in {left_s * 1e3:.0f} ms, loading takes {now.load_s * 1e3:.0f} ms")
    if join_s > float(now.playing_knots["t_s"][-1]):
        raise Refused(RefusalReason.UNKNOWN_JOIN, f"joins at {join_s:.3f} s, beyond the end of what plays")
    q, qd, qdd = quintic(now.playing_knots, join_s)
    steps = (
        ("q", _apart(q, knots["q_rad"][0]), JOIN_Q_RAD, "rad"),
        ("qd", _apart(qd, knots["qd_rad_s"][0]), JOIN_QD_RAD_S, "rad/s"),
        ("qdd", _apart(qdd, knots["qdd_rad_s2"][0]), JOIN_QDD_RAD_S2, "rad/s2"),
    )
    for name, step, limit, unit in steps:
        if step > limit:
            raise Refused(
                RefusalReason.DISCONTINUOUS, f"{name} steps by {step:.2g} {unit} at the join, limit {limit:g}"
            )


def _starts(knots: npt.NDArray[np.void], now: ArmNow) -> None:
    if now.state is not ArmState.READY:
        raise Refused(RefusalReason.NOT_READY, f"the arm is {now.state.name}")
    if np.max(np.abs(knots["qd_rad_s"][0])) > 1e-6:
        raise Refused(RefusalReason.START, "does not start at rest")
    start = knots["q_rad"][0]
    for name, q, limit in (
        ("actual", now.actual_q, now.start_tolerance_rad),
        ("target", now.target_q, START_TARGET_RAD),
    ):
        off = _apart(start, q)
        if off > limit:
            raise Refused(RefusalReason.START, f"starts {off:.4f} rad from {name}_q, limit {limit:g}")
