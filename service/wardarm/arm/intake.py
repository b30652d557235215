"""Trajectories on their way in: each published one once, through every check, to the bytes for the player."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from wardarm.arm.admit import ArmNow, Refused, admit, quintic
from wardarm.arm.check import Check
from wardarm.arm.wire import WireError, encode_trajectory
from wardarm.gate.words import BlockWatch
from wardarm.shm.layouts import KNOT, BlockKind, RefusalReason


class TrajectoryFeed:
    """`groot_traj`, generation by generation. What lies there at the first look was made for an earlier arm."""

    def __init__(self, prefix: str) -> None:
        self._block = BlockWatch(BlockKind.TRAJECTORY, prefix)
        self._generation: int | None = None
        self._files = 0

    def new(self) -> Iterator[Any]:
        """TRAJECTORY records published since the last call, oldest first; what the ring has overwritten is left out."""
        reader = self._block.reader()
        if reader is None:
            return
        newest = reader.generation
        if self._generation is None:
            self._generation, self._files = newest, self._block.replaced_count
        if self._files != self._block.replaced_count:
            self._generation, self._files = 0, self._block.replaced_count
        for generation in range(max(self._generation, newest - reader.slots) + 1, newest + 1):
            slot = reader.at(generation)
            if slot is not None:
                yield slot.data
        self._generation = newest


def checked(trajectory: Any, now: ArmNow, check: Check) -> tuple[npt.NDArray[np.void], bytes]:
    """Admission, rounding to the wire, the independent check of the rounded knots. Returns those and the message.

    Raises Refused.
    """
    admit(trajectory, now)
    count = int(trajectory["knot_count"])
    join_id, join_s = int(trajectory["join_trajectory_id"]), float(trajectory["join_path_s"])
    ramp_s, duration_s = float(trajectory["ramp_s"]), float(trajectory["duration_s"])
    table = np.ascontiguousarray(trajectory["knots"][:count]).view(np.float64).reshape(count, -1)
    try:
        message, rounded = encode_trajectory(
            int(trajectory["id"]), join_id, join_s, ramp_s, duration_s, float(trajectory["payload_kg"]), table
        )
    except WireError as e:
        raise Refused(RefusalReason.PLAN, str(e)) from e
    knots = np.ascontiguousarray(rounded).view(KNOT).reshape(-1)
    start = None
    if join_id and now.playing_knots is not None:
        start = np.concatenate(quintic(now.playing_knots, join_s))
    check.demand(knots, ramp_s, int(trajectory["profile"]), start, float(trajectory["payload_kg"]))
    return knots, message
