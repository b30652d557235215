"""What the controller drives: joints that follow a target. The bedside's is MuJoCo, `KinematicPlant` needs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from operator import add, sub
from typing import NamedTuple, Protocol

Six = Sequence[float]


class PlantState(NamedTuple):
    """After one cycle. Base frame; rad, rad/s, N, Nm, A. A tuple: one is made every cycle."""

    q: Six
    qd: Six
    tcp_force: Six = (0.0,) * 6
    current: Six = (0.0,) * 6


class Plant(Protocol):
    """Six joints. `step` advances 2 ms."""

    def reset(self, q: Six) -> PlantState: ...

    def step(self, q_target: Six, qd_target: Six) -> PlantState: ...


class KinematicPlant:
    """Perfect joints that follow their target through a first-order lag.

    34 ms is what a UR e-Series arm lags behind servoj with a short look-ahead: the controller's model leaves that lag
    to the plant (`servo.DRIVE_LAG_S`), so a plant must have it.
    """

    def __init__(self, q: Six, lag_s: float = 0.034, cycle_s: float = 0.002) -> None:
        self._follow = 1.0 if lag_s <= 0 else cycle_s / (lag_s + cycle_s)
        self._cycle_s = cycle_s
        self._q = [float(v) for v in q]

    def reset(self, q: Six) -> PlantState:
        self._q = [float(v) for v in q]
        return PlantState(tuple(self._q), (0.0,) * 6)

    def step(self, q_target: Six, qd_target: Six) -> PlantState:
        follow, cycle_s = self._follow, self._cycle_s
        moved = [left * follow for left in map(sub, q_target, self._q)]
        self._q = list(map(add, self._q, moved))
        return PlantState(tuple(self._q), tuple([m / cycle_s if abs(m) > 1e-12 else 0.0 for m in moved]))
