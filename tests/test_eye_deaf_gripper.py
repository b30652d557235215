"""A gripper that does not carry out every second command: tried again or said, and nothing falls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from eye_bedside import THING, Bedside, near, running
from wardarm.shm.layouts import Holding, StepKind, StepState


@pytest.fixture
def bedside() -> Iterator[Bedside]:
    with running() as made:
        yield made


class Deaf:
    """Stands between the commanded opening and the fingers. `deaf_to` 0 or 1: the first command is missed, or the second."""

    def __init__(self, bedside: Bedside, deaf_to: int) -> None:
        self.arm, self._move = bedside.arm, bedside.arm._fingers
        self.heard = self.last = self.arm.target
        self.count, self.deaf_to, self.missed = 0, deaf_to, 0
        self.arm._fingers = self.fingers  # type: ignore[method-assign]
        self._publish = self.arm._status.publish
        self.arm._status.publish = self.publish  # type: ignore[method-assign]

    def publish(self, status: Any) -> None:
        """A gripper says whether it moves to where it was last told to, as it understood it."""
        held = self.arm.holding is Holding.YES
        status["grip_moving"] = abs(self.heard - self.arm.opening) > 1e-6 and not (held and self.arm.opening <= 0.4)
        self._publish(status)

    def fingers(self, dt_s: float) -> None:
        wanted = self.arm.target
        if wanted != self.last:
            if (wanted < 0.5) != (self.last < 0.5):  # to close, or to open: one command
                self.missed += self.count % 2 == self.deaf_to
                self.count += 1
            self.last = wanted
        if self.count % 2 != (self.deaf_to + 1) % 2 or not self.count:
            self.heard = wanted
        self.arm.target = self.heard
        self._move(dt_s)
        self.arm.target = wanted


@pytest.mark.parametrize("deaf_to", [0, 1], ids=["close is missed", "open is missed"])
def test_a_missed_command_is_tried_again_or_said_and_nothing_falls(bedside: Bedside, deaf_to: int) -> None:
    bedside.arm.thing_at = near(THING)
    deaf = Deaf(bedside, deaf_to)
    bedside.order(StepKind.FETCH)
    report = bedside.finish(60)
    assert deaf.missed > 0
    if report.state is StepState.FAILED:
        assert "gripper" in report.reason or "closed on nothing" in report.reason
    else:
        assert report.state is StepState.DONE
        assert report.grasp_attempts > 1
    bedside.run(lambda: bedside.motion.ready)
    path = np.array(bedside.arm.path)
    let_go = np.flatnonzero((path[:-1, 4] == Holding.YES) & (path[1:, 4] == Holding.NO))
    for i in let_go:  # only where it stands: as high as it was grasped
        assert path[i, 2] == pytest.approx(THING[2], abs=0.006)
