"""The slosh model against what physics says of a cup, and motions against each other."""

from __future__ import annotations

import numpy as np
import pytest
from postproc_cases import Array
from scipy.integrate import solve_ivp
from wardarm.config import Config
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.ops.slosh import G_M_S2, MODES, Cup, lateral_m_s2, rise_mm

STEP_S = 0.002


def sideways(along: Array) -> Array:
    return np.stack([along, np.zeros_like(along)], 1)


def test_a_cup_of_seventy_millimetres_sloshes_at_three_point_six_hertz() -> None:
    assert Cup().frequency_hz == pytest.approx(3.6, abs=0.05)
    assert 0.004 < Cup().zeta < 0.01  # water, from viscosity alone


def test_a_steady_push_tilts_the_surface_as_gravity_does() -> None:
    """Slowly raised to 1 m/s2 the surface leans by a/g: the modes that are left out hold 6 % of it."""
    rise = Cup().rise_m(sideways(np.minimum(np.arange(20_000) * STEP_S / 20, 1.0)), STEP_S)
    share = sum(2 / (x * x - 1) for x in MODES)
    assert rise[-1] == pytest.approx(share * 0.035 / G_M_S2, rel=0.01)
    assert share > 0.93


def test_the_filter_is_the_equation() -> None:
    """The same mode, integrated by scipy."""
    cup, t = Cup(), np.arange(2000) * STEP_S
    push = np.where(t < 0.3, np.sin(np.pi * t / 0.3) ** 2, 0.0)
    total = np.zeros_like(t)
    for mode, x in enumerate(MODES):
        w, z = cup.omega(mode), cup.zeta

        def motion(at: float, k: Array, w: float = w, z: float = z) -> list[float]:
            return [k[1], w * w * (np.interp(at, t, push) / G_M_S2 - k[0]) - 2 * z * w * k[1]]

        solved = solve_ivp(motion, (0, t[-1]), [0, 0], t_eval=t, rtol=1e-8, atol=1e-12, max_step=STEP_S)
        total += 2 * cup.radius_m / (x * x - 1) * solved.y[0]
    np.testing.assert_allclose(cup.rise_m(sideways(push), STEP_S), np.abs(total), atol=2e-5)


def test_a_ripple_at_the_cups_own_frequency_is_worst() -> None:
    t = np.arange(4000) * STEP_S
    peak = {hz: Cup().rise_m(sideways(0.07 * np.sin(2 * np.pi * hz * t)), STEP_S).max() for hz in (1.8, 2.5, 3.61, 5.0)}
    assert max(peak, key=peak.__getitem__) == 3.61
    assert peak[3.61] > 10 * peak[2.5]


def test_a_tilted_cup_that_stands_feels_gravity_and_an_upright_one_nothing() -> None:
    config = Config()
    kinematics = Kinematics(config.arm)
    near = np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5])
    upright = kinematics.solve(TcpPose(np.array([0.45, 0.0, 0.3]), np.zeros(3)), near)
    tilted = kinematics.solve(TcpPose(np.array([0.45, 0.0, 0.3]), np.radians([0, 10.0, 0])), upright)
    assert np.abs(lateral_m_s2(np.repeat(upright[None], 9, 0), config.arm)).max() < 1e-6
    felt = np.linalg.norm(lateral_m_s2(np.repeat(tilted[None], 9, 0), config.arm), axis=1)
    np.testing.assert_allclose(felt, G_M_S2 * np.sin(np.radians(10)), rtol=1e-6)
    still = rise_mm(np.repeat(tilted[None], 50, 0), config.arm)
    assert still.max() < 1e-6, "a cup that is held tilted has a level surface: nothing rises"
