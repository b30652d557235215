"""The arm's mass matrix and what follows from it, with every link as a mass point at its centre of gravity.

Masses and centres: universal-robots.com, "DH parameters for calculations of kinematics and dynamics", UR5e. The links'
own inertias and the rotors are left out (ours): diagonal elements of the wrist are too small.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wardarm.sim.ur_controller.kinematics import IDENTITY, Kinematics, from_pose, product

MASS_KG = (3.761, 8.058, 2.846, 1.37, 1.3, 0.365)
CENTRE_M = (
    (0.0, -0.02561, 0.00193), (0.2125, 0.0, 0.11336), (0.15, 0.0, 0.0265), (0.0, -0.0018, 0.01634),
    (0.0, 0.0018, 0.01634), (0.0, 0.0, -0.001159),
)  # fmt: skip
_STEP_RAD = 1e-5


class Dynamics:
    """`payload_cog` in the flange frame, m."""

    def __init__(self, kinematics: Kinematics, payload_kg: float, payload_cog: Sequence[float]) -> None:
        self._kinematics = kinematics
        self._payload = (payload_kg, tuple(payload_cog))

    def mass_matrix(self, q: Sequence[float]) -> np.ndarray:
        """6x6, kg m2."""
        links = self._kinematics.links(q)
        points = list(zip(MASS_KG, CENTRE_M, range(6), strict=True))
        points.append((self._payload[0], self._payload[1], 5))  # type: ignore[arg-type]
        bases = [IDENTITY, *links[:-1]]
        total = np.zeros((6, 6))
        for mass, centre, link in points:
            at = np.array(product(links[link], from_pose((*centre, 0.0, 0.0, 0.0)))[9:])
            jacobian = np.zeros((3, 6))
            for j in range(link + 1):
                frame = bases[j]
                jacobian[:, j] = np.cross((frame[2], frame[5], frame[8]), at - np.array(frame[9:]))
            total += mass * jacobian.T @ jacobian
        return total

    def coriolis(self, q: Sequence[float], qd: Sequence[float]) -> np.ndarray:
        """Nm, by central differences of the mass matrix."""
        here, speed = np.array(q, float), np.array(qd, float)
        torques = np.zeros(6)
        for j in range(6):
            step = np.zeros(6)
            step[j] = _STEP_RAD
            change = self.mass_matrix((here + step).tolist()) - self.mass_matrix((here - step).tolist())
            change /= 2 * _STEP_RAD
            torques += change @ speed * speed[j]
            torques[j] -= 0.5 * float(speed @ change @ speed)
        return torques
