"""A near-optimum to hold a planned motion against: the fastest timing of the same path within the same limits.

The path is the planned motion itself, q(s), s in seconds of the plan, so that the plan is the timing s(t) = t and the
optimum is never slower. Unknown are b = (ds/dt)^2 and a = d2s/dt2 at the nodes of a grid that has the plan's knots among
them; a is linear between nodes, b quadratic. With q1, q2, q3 for derivatives by s

    qd = q1 sqrt(b)      qdd = q2 b + q1 a      qddd = (q3 b + 3 q2 a + q1 da/ds) sqrt(b)      db/ds = 2 a

Speed bounds b, acceleration is linear in (b, a), and the jerk bound q3 b + 3 q2 a + q1 da/ds <= j b^(-1/2) is replaced by
the tangent of its convex right-hand side at the last b: that never allows too much. Norms (TCP, turning) get a tangent
plane at the last solution, again each round. Each round is a linear program (HiGHS) that lowers the linearised
duration within a trust region; the start is b = 1, the plan. It ends in a local optimum, jerk-limited: the
acceleration-only bound of toppra lies below it. `largest_ratio` says how well it keeps its limits between the nodes.

What stays out: the ramp to rest (a stop from everywhere within the stop limits) is no constraint here, and the path's
shape is not improved.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from numpy.polynomial import chebyshev
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import linprog

from wardarm.config import Arm, LimitProfile
from wardarm.eye.planned import quintic
from wardarm.kinematics import Kinematics

Array = NDArray[np.float64]
_MOMENTS = 9  # a knot interval's twist is a polynomial through so many Chebyshev points
_ROUNDS = 24
_DONE = 3e-4  # relative gain of a round
_SHRINK, _GROW = 0.35, 2.0  # trust region: b stays within these shares of the last one
_RATE_MOST = 3.0  # ds/dt
_LEAST = 1e-6
_WITHIN = (0.0, 0.5, 1.0)  # of an interval between nodes: where jerk is held
_KEPT_ROUNDS = 4  # of tangent planes
_GROUPS = ((slice(6, 9), 1), (slice(9, 12), 2))  # columns of TCP and turning, and their bound


@dataclass(frozen=True)
class Bounds:
    """Speed, acceleration, jerk of joints (each), TCP (norm) and turning (norm): rad or m, s."""

    joint: tuple[float, float, float]
    tcp: tuple[float, float, float]
    turn: tuple[float, float, float]

    @classmethod
    def of(cls, profile: LimitProfile, share: float = 1.0) -> Bounds:
        p, rad = profile, np.pi / 180 * share
        return cls(
            (p.joint_deg_s * rad, p.joint_deg_s2 * rad, p.joint_deg_s3 * rad),
            (p.tcp_m_s * share, p.tcp_m_s2 * share, p.tcp_m_s3 * share),
            (p.tcp_deg_s * rad, p.tcp_deg_s2 * rad, p.tcp_deg_s3 * rad),
        )

    def ratio(self, rows: Array, order: int) -> Array:
        """Largest value / limit of each row: six joints, TCP x y z, turning x y z. Order 0 speed .. 2 jerk."""
        return np.asarray(
            np.maximum.reduce([
                np.abs(rows[:, :6]).max(1) / self.joint[order],
                np.linalg.norm(rows[:, 6:9], axis=1) / self.tcp[order],
                np.linalg.norm(rows[:, 9:], axis=1) / self.turn[order],
            ])
        )  # fmt: skip


@dataclass(frozen=True)
class Optimum:
    """`s` (N,) s of the plan, `b` (N,) and `a` (N,) there. `largest_ratio`: value / limit between the nodes too."""

    duration_s: float
    rounds: int
    largest_ratio: float
    s: Array
    b: Array
    a: Array


class PathShape:
    """q(s), TCP and turning of a planned motion with their derivatives by s, from both sides of every knot.

    `knots`: (N, 20) as the player has them. In each interval the joints are the player's quintic, and J(q) q1 is a
    polynomial through Chebyshev points of the interval.
    """

    def __init__(self, knots: Array, arm: Arm) -> None:
        kinematics = Kinematics(arm)
        self.t = knots[:, 0]
        moments = (np.cos(np.pi * (2 * np.arange(_MOMENTS) + 1) / (2 * _MOMENTS)) + 1) / 2
        self._speed: list[Array] = []  # Chebyshev coefficients of (q1, TCP, turning), an interval each
        for left, right in pairwise(knots):
            h = float(right[0] - left[0])
            rows = []
            for x in moments:
                q, qd, _ = quintic(
                    h, float(x) * h, (left[1:7], left[7:13], left[13:19]), (right[1:7], right[7:13], right[13:19])
                )
                rows.append(np.concatenate([qd, kinematics.jacobian(q) @ qd]))
            self._speed.append(np.asarray(chebyshev.chebfit(2 * moments - 1, np.array(rows), _MOMENTS - 1)))

    def within(self, interval: int, x: Array) -> tuple[Array, Array, Array]:
        """First, second and third derivative by s at shares `x` (0..1) of an interval: (len(x), 12) each."""
        c, scale = self._speed[interval], 2 / (self.t[interval + 1] - self.t[interval])
        first, second, third = (
            np.asarray(chebyshev.chebval(2 * x - 1, chebyshev.chebder(c, k) if k else c)).T * scale**k for k in range(3)
        )
        return first, second, third


def fastest(knots: Array, arm: Arm, bounds: Bounds, place_s: Array | None = None, per_knot: int = 3) -> Optimum:
    """The fastest timing of the motion through `knots` (N, 20).

    `place_s`: (N,) where on the model's own 20 Hz timing each knot is: the timing is then never faster than the model's.
    None: no such bound. `per_knot`: nodes a knot interval.
    """
    program = _Program(PathShape(knots, arm), bounds, per_knot, None if place_s is None else _pace(knots, place_s))
    b, a = np.ones(program.n), np.zeros(program.n)
    duration_s, used = program.duration_s(b), 0
    shrink, grow = _SHRINK, _GROW
    while used < _ROUNDS:
        used += 1
        better = program.improve(b, a, shrink, grow)
        gain = -1.0 if better is None else duration_s - program.duration_s(better[0])
        if better is not None and gain > 0:
            (b, a), duration_s = better, duration_s - gain
        if gain < _DONE * duration_s:
            shrink, grow = 1 - (1 - shrink) / 2, 1 + (grow - 1) / 2
            if grow < 1.1:
                break
    return Optimum(duration_s, used, program.largest_ratio(b, a), program.s, b, a)


def _pace(knots: Array, place_s: Array) -> PchipInterpolator:
    """How much of the model's time passes a second of the plan."""
    return PchipInterpolator(knots[:, 0], np.maximum.accumulate(place_s)).derivative()


class _Program:
    """The linear program of one round: columns b then a, a row a node or a moment of an interval between nodes."""

    def __init__(self, path: PathShape, bounds: Bounds, per_knot: int, pace: PchipInterpolator | None) -> None:
        self.path, self.bounds, self.per_knot = path, bounds, per_knot
        shares = np.arange(per_knot + 1) / per_knot
        inside = path.t[:-1, None] + np.diff(path.t)[:, None] * shares[:-1]
        self.s = np.append(inside.ravel(), path.t[-1])
        self.h, n = np.diff(self.s), len(self.s)
        self.n = n
        eye = sp.eye(n, format="csr")
        left, right = eye[:-1], eye[1:]
        change = right - left
        self.consistent = sp.hstack([change, -sp.diags(self.h) @ (left + right)])
        self.roots, self.jerk = (
            [],
            [],
        )  # b, and jerk / sqrt(b) of 12 columns, at _WITHIN of every interval between nodes
        for x in _WITHIN:
            pieces = [path.within(k, shares[:-1] + x / per_knot) for k in range(len(path.t) - 1)]
            q1, q2, q3 = (np.concatenate([p[d] for p in pieces]) for d in range(3))
            if x == 0.0:
                first, second = (
                    np.concatenate([d, path.within(len(pieces) - 1, np.ones(1))[k]]) for k, d in enumerate((q1, q2))
                )
            b = sp.hstack([(1 - x) * left + x * right, sp.diags(self.h * (x * x - x)) @ change], "csr")
            a = sp.hstack([sp.csr_matrix((n - 1, n)), (1 - x) * left + x * right], "csr")
            da = sp.hstack([sp.csr_matrix((n - 1, n)), sp.diags(1 / self.h) @ change], "csr")
            self.roots.append(b)
            self.jerk.append([
                sp.diags(q3[:, c]) @ b + sp.diags(3 * q2[:, c]) @ a + sp.diags(q1[:, c]) @ da for c in range(12)
            ])  # fmt: skip
        self.acceleration = [sp.hstack([sp.diags(second[:, c]), sp.diags(first[:, c])], "csr") for c in range(12)]
        rate = 1 / np.maximum(bounds.ratio(first, 0), 1 / _RATE_MOST)
        if pace is not None:
            rate = np.minimum(rate, np.maximum(1 / np.maximum(pace(self.s), 1e-2), 1.0))
        self.most = rate**2
        self.planes: list[list[tuple[sp.csr_matrix, float, int]]] = []

    def duration_s(self, b: Array) -> float:
        rate = np.sqrt(b)
        return float(np.sum(2 * self.h / (rate[:-1] + rate[1:])))

    def improve(self, b: Array, a: Array, shrink: float, grow: float) -> tuple[Array, Array] | None:
        """One round from (b, a); None if the solver finds nothing."""
        x = np.concatenate([b, a])
        tangents = []
        for root in self.roots:
            there = np.maximum(root @ x, _LEAST)
            tangents.append((sp.diags(-0.5 * there**-1.5) @ root, 1.5 * there**-0.5))
        rows: list[sp.csr_matrix] = []
        most: list[Array] = []
        for c in range(6):
            for sign in (1.0, -1.0):
                rows.append(sign * self.acceleration[c])
                most.append(np.full(self.n, self.bounds.joint[1]))
                for end, (slope, level) in enumerate(tangents):
                    rows.append(sign * self.jerk[end][c] - self.bounds.joint[2] * slope)
                    most.append(self.bounds.joint[2] * level)
        self._add_planes(x)
        for matrix, limit, end in (plane for planes in self.planes for plane in planes):
            if end < 0:
                rows.append(matrix)
                most.append(np.full(matrix.shape[0], limit))
            else:
                rows.append(matrix - limit * tangents[end][0])
                most.append(limit * tangents[end][1])
        weight = np.maximum(b, _LEAST) ** -1.5
        low, high = b * shrink, np.maximum(np.minimum(b * grow, self.most), b)
        free = np.full(self.n, np.inf)
        free[[0, 1, -2, -1]] = 0.0  # next to rest every limit but one vanishes: uniform there
        found = linprog(
            np.concatenate([-weight / weight.max(), np.zeros(self.n)]),
            A_ub=sp.vstack(rows, format="csr"), b_ub=np.concatenate(most),
            A_eq=self.consistent, b_eq=np.zeros(self.n - 1),
            bounds=np.stack([np.concatenate([low, -free]), np.concatenate([high, free])], 1), method="highs-ipm",
        )  # fmt: skip
        if found.x is None or found.status != 0:
            return None
        return np.maximum(found.x[: self.n], _LEAST), found.x[self.n :]

    def _add_planes(self, x: Array) -> None:
        """A tangent plane of each norm at the present values: n . (M x) <= limit."""
        planes = []
        for columns, which in _GROUPS:
            bound = (self.bounds.joint, self.bounds.tcp, self.bounds.turn)[which]
            for end, matrices in enumerate((*self.jerk, self.acceleration)):
                value = np.stack([m @ x for m in matrices[columns]], 1)
                direction = value / np.maximum(np.linalg.norm(value, axis=1), 1e-9)[:, None]
                plane = sum(sp.diags(direction[:, k]) @ m for k, m in enumerate(matrices[columns]))
                of_jerk = end < len(self.jerk)
                planes.append((sp.csr_matrix(plane), bound[2] if of_jerk else bound[1], end if of_jerk else -1))
        self.planes = [*self.planes, planes][-_KEPT_ROUNDS:]

    def largest_ratio(self, b: Array, a: Array) -> float:
        """Of every quantity at five moments of every interval between nodes."""
        worst, x = 0.0, np.linspace(0, 1, 5)
        for i, h in enumerate(self.h):
            knot, part = divmod(i, self.per_knot)
            q1, q2, q3 = self.path.within(knot, (part + x) / self.per_knot)
            da = (a[i + 1] - a[i]) / h
            there = np.maximum(b[i] + 2 * a[i] * x * h + da * (x * h) ** 2, 0)[:, None]
            rate, ahead = np.sqrt(there), (a[i] + da * x * h)[:, None]
            for order, rows in enumerate(
                (q1 * rate, q2 * there + q1 * ahead, (q3 * there + 3 * q2 * ahead + q1 * da) * rate)
            ):
                worst = max(worst, float(self.bounds.ratio(rows, order).max()))
        return worst
