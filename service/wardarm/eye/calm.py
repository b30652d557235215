"""Chunks never follow one another at the pace at which a full cup sloshes.

Where a chunk takes over from another the motion changes a little. A cup 60 to 90 mm wide has its first mode at 3.2 to
3.9 Hz (`wardarm.ops.slosh`): changes 0.22 to 0.34 s apart would each push the wave that the last one raised. While liquid is
carried the next chunk is asked for before that time or after it. Joins lie a steady time after their questions, so what
holds for the questions holds for the joins.
"""

from __future__ import annotations

from wardarm.config import Config

SLOSH_PERIOD_S = (0.22, 0.34)
LIQUID_PROFILE = "carry_liquid"


class Calm:
    """`allows(profile, since_last_s)`: whether a chunk may be asked for so long after the last, on the controller's clock."""

    def __init__(self, config: Config) -> None:
        names = list(config.profiles)
        self._liquid = names.index(LIQUID_PROFILE) if LIQUID_PROFILE in names else None

    def allows(self, profile: int, since_last_s: float) -> bool:
        low, high = SLOSH_PERIOD_S
        return profile != self._liquid or not low < since_last_s < high
