"""The figures of one cell, from the controller's record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm, LimitProfile
from wardarm.ops import limits

REST_RAD_S = 0.002
_TOUCHES = 3  # samples: a third difference reaches this far, so just before a ramp it shows the ramp's own jerk
_STAYS_S = 0.1  # at rest means: and still at rest this long after


@dataclass(frozen=True)
class Stop:
    """From a fault (controller time `fault_s`) to rest. `rest_s` None: it did not come to rest in the record.

    `plan_ratio`: samples whose differences touch no sample of a ramp; `bare_plan_ratio`: also those just before one.
    """

    speed_mm_s: float
    rest_s: float | None
    path_mm: float
    plan_ratio: float
    bare_plan_ratio: float
    stop_ratio: float
    worst: str
    gaps: int


def stop(samples: NDArray[Any], fault_s: float, arm: Arm, profile: LimitProfile) -> Stop:
    """`samples`: from before the fault until after rest."""
    t = samples["timestamp"]
    position, _ = limits.forward(np.asarray(samples["target_q"], float), arm)
    at = int(np.searchsorted(t, fault_s))
    before = max(at - 10, 0)
    speed = 0.0
    if at > before and t[at - 1] > t[before]:
        speed = float(np.linalg.norm(position[at - 1] - position[before]) / (t[at - 1] - t[before]))
    busy = np.abs(samples["target_qd"]).max(1) > REST_RAD_S
    rest = _rest(t, busy, at)
    motion = limits.motion(samples, arm)
    bare = limits.ratios(motion, profile)
    reach = np.convolve(motion.stop, np.ones(2 * _TOUCHES + 1), "same") > 0
    ratios = limits.ratios(replace(motion, stop=reach), profile)
    end = len(t) if rest is None else rest + 1
    path = float(np.linalg.norm(np.diff(position[max(at - 1, 0) : end], axis=0), axis=1).sum())
    return Stop(
        round(speed * 1e3, 1), None if rest is None else round(float(t[rest]) - fault_s, 4), round(path * 1e3, 2),
        round(ratios.plan, 4), round(bare.plan, 4), round(ratios.stop, 4), ratios.which, motion.gaps,
    )  # fmt: skip


def _rest(t: NDArray[Any], busy: NDArray[Any], at: int) -> int | None:
    """Index of the first sample at rest that stays so."""
    i = at
    while i < len(t):
        later = np.flatnonzero(busy[i:])
        if busy[i]:
            quiet = np.flatnonzero(~busy[i:])
            if not len(quiet):
                return None
            i += int(quiet[0])
            continue
        if not len(later) or t[i + later[0]] - t[i] > _STAYS_S:
            return i
        i += int(later[0])
    return None


def quiet_from(samples: NDArray[Any], since_s: float) -> float:
    """Controller time of the first rest at or after `since_s`; the record's end if there is none."""
    t = samples["timestamp"]
    busy = np.abs(samples["target_qd"]).max(1) > REST_RAD_S
    rest = _rest(t, busy, int(np.searchsorted(t, since_s)))
    return float(t[-1] if rest is None else t[rest])


def moved_mm(samples: NDArray[Any], arm: Arm) -> float:
    """The largest distance of the TCP from where the record begins."""
    if len(samples) < 2:
        return 0.0
    position, _ = limits.forward(np.asarray(samples["target_q"], float), arm)
    return round(float(np.linalg.norm(position - position[0], axis=1).max()) * 1e3, 3)
