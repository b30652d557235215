"""Where a fetched thing is set down, and whether what was let go stands: what eye looks at before and after.

Both looks are from home, by depth (`heights`). Without depth, or without knowing where the camera is, nothing is looked at
and nothing is claimed: `StepMachine.table` is None then.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from wardarm.eye.follow import StepEnded, Ticks
from wardarm.eye.heights import FOOT_M, LEVEL_M, Sight, free_place
from wardarm.shm.layouts import StepState

if TYPE_CHECKING:
    from wardarm.eye.steps import StepMachine

log = logging.getLogger("wardarm.eye")

LOOK_S = 5.0  # a camera gives a pair of pictures well within this, or says itself that it is lost
SAME_HEIGHT_M = 0.009  # a cup on its side is 12 mm lower than one that stands
BELOW_GRASP_M = 0.035  # what is between the fingers reaches up to about where they closed
LOWEST_M = 0.006
TALL_M = 0.12  # what is held out hangs this high above the leaf
HELD_OUT_CLEAR_M = 0.10


class LetGo(NamedTuple):
    """Where something was let go (m, base frame), how high the fingers had closed on it, and where that was."""

    x_m: float
    y_m: float
    grasp_z_m: float
    taken_at: tuple[float, float] | None


def look(m: StepMachine, after_ns: int) -> Ticks[Sight | None]:
    """A look by a picture captured after `after_ns`; None where there is no depth. Raises StepEnded if none comes."""
    if m.table is None or not m.table.has_depth:
        return None
    until_s = time.monotonic() + LOOK_S
    while time.monotonic() < until_s:
        sight = m.table.look(after_ns)
        if sight is not None:
            return sight
        yield
    raise StepEnded(
        StepState.FAILED if m.let_go_at is not None else m.follower.ending(),
        f"no picture with depth within {LOOK_S:.0f} s: it is not known how the table looks; please look",
    )


def choose(m: StepMachine) -> Ticks[None]:
    """Before a fetch, from home: the free place on the leaf, kept in `m.spot`. Raises StepEnded if there is none."""
    poses = m.config.poses
    m.spot, m.before = poses.leaf, None
    sight = yield from look(m, time.monotonic_ns())
    if sight is None:
        return
    m.before = sight
    level_m = _level(m, sight)
    if math.isnan(level_m):
        raise StepEnded(
            StepState.REFUSED,
            "the leaf where it would be set down is not seen: take away what covers it, or clean the lens",
        )
    if abs(level_m) > LEVEL_M:
        raise StepEnded(
            StepState.REFUSED,
            f"the leaf where it would be set down is {level_m * 1e3:+.0f} mm off the height of the table "
            f"(limit {LEVEL_M * 1e3:.0f} mm): take away what covers it",
        )
    spot = free_place(sight.heights, poses.leaf, poses.leaf_room, level_m)
    if spot is None:
        raise StepEnded(
            StepState.REFUSED,
            "there is no free place on the leaf where it would be set down: clear the leaf, then ask again",
        )
    if spot != poses.leaf:
        log.info("set down beside", extra={"x_m": round(spot[0], 3), "y_m": round(spot[1], 3)})
    m.spot = spot


def remember(m: StepMachine) -> Ticks[None]:
    """How the table looks before something is taken from it."""
    m.before = yield from look(m, time.monotonic_ns())


def clear_to_hold_out(m: StepMachine) -> Ticks[None]:
    """Before a hand-over, from home: nothing tall stands where the thing will be held out."""
    m.before = sight = yield from look(m, time.monotonic_ns())
    if sight is None:
        return
    x, y = m.config.poses.hand_over[:2]
    if sight.heights.top_m(x, y, radius_m=HELD_OUT_CLEAR_M) > TALL_M:
        raise StepEnded(
            StepState.REFUSED, "something tall stands where it would be held out: take it away, then ask again"
        )


def stands(m: StepMachine, after_ns: int) -> Ticks[None]:
    """After something was let go at `m.let_go_at` and the arm is home: whether it stands there. Raises StepEnded if not."""
    where, before = m.let_go_at, m.before
    now = (yield from look(m, after_ns)) if where is not None else None
    m.let_go_at = m.before = None
    if where is None or now is None:
        return
    x, y, grasp_z_m, taken_at = where
    level_m = now.heights.level_m(x, y, (2 * FOOT_M, 2 * FOOT_M))
    top_m = now.heights.top_m(x, y, level_m if abs(level_m) <= LEVEL_M else 0.0)
    was_m = before.heights.top_m(*taken_at) if before is not None and taken_at is not None else math.nan
    least_m, most_m, wanted = was_m - SAME_HEIGHT_M, was_m + SAME_HEIGHT_M, f"{was_m * 1e3:.0f} mm"
    if not was_m > LOWEST_M:  # NaN too: it had been moved, or was not seen
        least_m, most_m = max(LOWEST_M, grasp_z_m - BELOW_GRASP_M), math.inf
        wanted = f"at least {least_m * 1e3:.0f} mm"
    if least_m <= top_m <= most_m:
        return
    if top_m > LOWEST_M:
        raise StepEnded(
            StepState.FAILED,
            f"it was let go but does not stand as it should: what is there is {top_m * 1e3:.0f} mm high, "
            f"expected is {wanted}; please look",
        )
    if before is not None and now.differs(before, x, y, max(grasp_z_m, LOWEST_M)):
        log.warning("no depth of what was set down", extra={"x_m": round(x, 3), "y_m": round(y, 3)})
        return  # glass: the picture shows it, depth does not
    raise StepEnded(
        StepState.FAILED, "it was let go but does not stand as it should: nothing is seen there; please look"
    )


def _level(m: StepMachine, sight: Sight) -> float:
    poses = m.config.poses
    half = (poses.leaf_room[0] + FOOT_M, poses.leaf_room[1] + FOOT_M / 2)
    return sight.heights.level_m(*poses.leaf, half)
