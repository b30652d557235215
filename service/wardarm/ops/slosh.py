"""How far a drink climbs the wall of its cup while the arm moves it: a linear model.

An upright circular cup, potential flow, antisymmetric modes n = 1, 2, 3 in two horizontal directions. Lateral
acceleration a of the cup, gravity's share from a tilt included, drives each mode:

    w_n^2 = g x_n / R tanh(x_n h / R)      k_n'' + 2 z w_n k_n' + w_n^2 k_n = w_n^2 a / g
    rise at the wall = sum_n 2 R / (x_n^2 - 1) k_n        (a steady a gives R a / g; three modes 94 % of it)

x_n: zeros of J_1' (1.8412, 5.3314, 8.5363). Modes and rise: Abramson (ed.), "The Dynamic Behavior of Liquids in Moving
Containers", NASA SP-106, 1966, chapter 2; Ibrahim, "Liquid Sloshing Dynamics", Cambridge 2005. Damping of the first
mode, from viscosity at the wall (Mikishev and Dorozhkin; Dodge, "The New Dynamic Behavior of Liquids in Moving
Containers", SwRI 2000):

    z = 0.79 sqrt(nu / sqrt(g R^3)) [1 + 0.318 / sinh(1.84 h/R) (1 + (1 - h/R) / cosh(1.84 h/R))]

0.56 % for water in a cup 70 mm wide, used for all modes. What the rim and the film above it take from the wave in a
small cup comes on top and is left out: less damping is the harder case. The model ends where a wave
breaks, and does not know rotation of the surface (swirl) near resonance with large amplitudes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import cont2discrete, lfilter

from wardarm.config import Arm
from wardarm.ops.limits import CYCLE_S, forward

Array = NDArray[np.float64]
G_M_S2 = 9.80665
MODES = (1.8412, 5.3314, 8.5363)
WATER_M2_S = 1.0e-6  # kinematic viscosity at 20 degrees C
SETTLE_S = 1.5  # after the arm stands the surface still rises and falls
_TOOL_DOWN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


@dataclass(frozen=True)
class Cup:
    """A filled cup, upright in the fingers: inner radius and depth of liquid in m, kinematic viscosity in m2/s."""

    radius_m: float = 0.035
    depth_m: float = 0.070
    viscosity_m2_s: float = WATER_M2_S
    damping: float | None = None
    """Share of critical damping of every mode; None: from viscosity."""

    def omega(self, mode: int = 0) -> float:
        """Natural frequency of a mode, rad/s."""
        x = MODES[mode]
        return math.sqrt(G_M_S2 * x / self.radius_m * math.tanh(x * self.depth_m / self.radius_m))

    @property
    def frequency_hz(self) -> float:
        """Of the first mode."""
        return self.omega() / (2 * math.pi)

    @property
    def zeta(self) -> float:
        if self.damping is not None:
            return self.damping
        deep = self.depth_m / self.radius_m
        reynolds = self.viscosity_m2_s / math.sqrt(G_M_S2 * self.radius_m**3)
        bottom = 1 + 0.318 / math.sinh(1.84 * deep) * (1 + (1 - deep) / math.cosh(1.84 * deep))
        return 0.79 * math.sqrt(reynolds) * bottom

    def rise_m(self, lateral_m_s2: Array, step_s: float = CYCLE_S) -> Array:
        """Rise at the wall, shape (N,), of the highest point round the rim, from lateral acceleration (N, 2) in m/s2.

        At rest before the first sample. Acceleration is taken as linear between samples.
        """
        surface = np.zeros(lateral_m_s2.shape)
        for mode, x in enumerate(MODES):
            w, z = self.omega(mode), self.zeta
            plant = ([w * w / G_M_S2], [1.0, 2 * z * w, w * w])
            top, bottom, _ = cont2discrete(plant, step_s, method="foh")
            surface += 2 * self.radius_m / (x * x - 1) * lfilter(np.ravel(top), bottom, lateral_m_s2, axis=0)
        return np.asarray(np.linalg.norm(surface, axis=1))


CUP = Cup()


def lateral_m_s2(q_rad: Array, arm: Arm, step_s: float = CYCLE_S) -> Array:
    """What a cup held upright at the TCP feels sideways, (N, 2) m/s2 in the cup's frame, from joints (N, 6).

    Central differences of the TCP's position; gravity enters through the tool's tilt. The first and last rows stand.
    """
    position, rotation = forward(q_rad, arm)
    acceleration = np.zeros_like(position)
    acceleration[1:-1] = (position[2:] - 2 * position[1:-1] + position[:-2]) / step_s**2
    cup = rotation @ _TOOL_DOWN.T  # the cup's axis is up when the tool points down
    felt = acceleration + np.array([0.0, 0.0, G_M_S2])
    return np.asarray(np.einsum("nij,ni->nj", cup, felt)[:, :2])


def rise_mm(q_rad: Array, arm: Arm, cup: Cup = CUP, step_s: float = CYCLE_S, settle_s: float = SETTLE_S) -> Array:
    """Rise at the wall in mm while joints (N, 6) move, and `settle_s` after them: shape (N + settle,).

    A tilt that the motion starts with is taken as settled: the surface is level then.
    """
    still = np.repeat(q_rad[-1:], round(settle_s / step_s), axis=0)
    lateral = lateral_m_s2(np.concatenate([q_rad, still]), arm, step_s)
    return cup.rise_m(lateral - lateral[0], step_s) * 1e3
