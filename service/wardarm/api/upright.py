"""A pause while what is held leans: it is set upright first, so that nothing is poured out.

Only for a person's Pause: Stop, a lost lease, somebody in a zone and everything of the robot's own stop along the path
at once. For as long as it takes the word stays true, so every other cause still stops the arm.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wardarm.api.board import Picture
from wardarm.policy.contract import rotation_from_rotvec
from wardarm.shm.layouts import ArmState, Holding

LEANS_RAD, UPRIGHT_RAD = np.radians(10.0), np.radians(3.0)
"""A cup that leans by 10 degrees begins to spill (profile `carry_liquid`); within 3 it stands."""
MOST_S = 3.0
"""Then the pause stops the arm as it is. A join is up to 0.6 s ahead, and from 60 degrees it takes 2.1 s at 60 deg/s."""
BEGINS_S = 1.0
"""It has visibly begun by then (a join is at most 0.6 s ahead), or the pause waits no longer."""
_STANDS_RAD_S = 0.01


def tilt_rad(arm: Any) -> float:
    """How far the tool leans from straight down, by the controller's own TCP pose."""
    return float(np.arccos(np.clip(-rotation_from_rotvec(np.asarray(arm["tcp_pose"][3:], float))[2, 2], -1.0, 1.0)))


def wanted(picture: Picture) -> bool:
    """Something known is held, it leans, and the arm is under way: the one case in which a pause may wait."""
    arm = picture.arm
    return (
        arm is not None
        and int(arm["state"]) == ArmState.RUNNING
        and int(arm["hold_count"]) == 0
        and int(arm["holding"]) == Holding.YES
        and tilt_rad(arm) > LEANS_RAD
    )


def over(picture: Picture, waited_s: float, leant_rad: float) -> bool:
    """It stands upright and still, the arm has stopped for another reason, nobody sets it upright, or it takes too long.

    `leant_rad`: how far it leant when the pause was pressed.
    """
    arm = picture.arm
    if arm is None or int(arm["state"]) != ArmState.RUNNING or int(arm["holding"]) != Holding.YES or waited_s > MOST_S:
        return True
    tilt = tilt_rad(arm)
    if waited_s > BEGINS_S and tilt > leant_rad - UPRIGHT_RAD:
        return True
    still = float(np.abs(arm["target_qd_rad_s"]).max()) < _STANDS_RAD_S
    return still and tilt < UPRIGHT_RAD
