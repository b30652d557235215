"""Guard may say *go on, but gently* (somebody in a warn zone, attended mode): new chunks are then slower.

From rest and once the arm is slow, the whole profile `guard.slow_profile` is in force. An arm that moves faster than that
profile allows cannot join it: its next chunks are the same path at a fraction of the speed, still in the step's own
profile, until it can. In: guard's word. Nothing here is waited for: a late word drops the permit by itself.
"""

from __future__ import annotations

import numpy as np

from wardarm.config import Config
from wardarm.eye.planned import Planned
from wardarm.gate.words import WordBoard
from wardarm.kinematics import Kinematics
from wardarm.shm.layouts import ProcessId

WITHIN = 0.9  # of the gentle profile's limits: what a join may have, so that the planner has room to go on


class Gentle:
    """`asked()` once a chunk; `scale` and `profile` say how it is made."""

    def __init__(self, config: Config, kinematics: Kinematics) -> None:
        self.kinematics = kinematics
        self.index = config.profile_index(config.guard.slow_profile)
        self.profiles = list(config.profiles.values())
        deadline_s = config.gate.word_deadline_ms * 1e-3
        self._board = WordBoard([ProcessId.GUARD] if config.guard.enabled else [], config.shm.prefix, deadline_s)

    def asked(self) -> bool:
        return any(self._board.hear(p).slow for p in self._board.processes)

    def scale(self, profile: int) -> float:
        """Share of the speed that a chunk of this profile keeps; 1 if nobody asked for gentleness."""
        return min(1.0, self.profiles[self.index].tcp_m_s / self.profiles[profile].tcp_m_s) if self.asked() else 1.0

    def profile(self, profile: int, planned: Planned) -> int:
        """The profile for a chunk that joins there: the gentle one as soon as the plan is within it."""
        return self.index if self.asked() and self._fits(planned) else profile

    def _fits(self, planned: Planned) -> bool:
        limits = self.profiles[self.index]
        jacobian = self.kinematics.jacobian(planned.q_rad)
        velocity, acceleration = jacobian @ planned.qd_rad_s, jacobian @ planned.qdd_rad_s2
        return bool(
            np.linalg.norm(velocity[:3]) <= WITHIN * limits.tcp_m_s
            and np.linalg.norm(velocity[3:]) <= WITHIN * np.radians(limits.tcp_deg_s)
            and np.linalg.norm(acceleration[:3]) <= WITHIN * limits.tcp_m_s2
            and np.linalg.norm(acceleration[3:]) <= WITHIN * np.radians(limits.tcp_deg_s2)
            and np.abs(planned.qd_rad_s).max() <= WITHIN * np.radians(limits.joint_deg_s)
            and np.abs(planned.qdd_rad_s2).max() <= WITHIN * np.radians(limits.joint_deg_s2)
        )
