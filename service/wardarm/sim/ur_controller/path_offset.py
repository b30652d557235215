"""`path_offset_*`: an offset of the TCP that is added to whatever the program plays."""

from __future__ import annotations

from collections.abc import Sequence

from wardarm.sim.ur_controller.kinematics import Frame, Kinematics, from_pose, inverse, product
from wardarm.sim.ur_controller.servo import Servo

BASE, TCP = 1, 2


class PathOffset:
    """Limits and filter outlive enabling and disabling (URScript manual, path_offset_enable). m and rad."""

    def __init__(self, kinematics: Kinematics) -> None:
        self._kinematics = kinematics
        self.tool: Frame = from_pose((0.0,) * 6)
        self.wanted = [0.0] * 6
        self.applied = [0.0] * 6
        self.type = BASE
        self.limits = (0.1, 0.52)
        self.alpha = 1.0
        self._before = [0.0] * 6
        self._near: list[float] = []
        self._near_before: list[float] = []

    def enable(self, servo: Servo) -> None:
        self.wanted, self.applied, self._before = [0.0] * 6, [0.0] * 6, [0.0] * 6
        self._near = self._near_before = list(servo.q)
        servo.offset = self

    def disable(self, servo: Servo) -> None:
        """The arm stays where the offset has brought it."""
        servo.set(servo.q)

    def hold(self) -> None:
        """Stay where the offset has brought the arm: what was asked for beyond is dropped."""
        self.wanted = list(self.applied)

    def revert(self) -> None:
        self.applied, self._near = self._before, self._near_before
        self.hold()

    def set(self, offset: Sequence[float], type_: int) -> None:
        metres, radians = self.limits
        limits = [metres] * 3 + [radians] * 3
        self.wanted = [max(-most, min(most, float(v))) for v, most in zip(offset, limits, strict=True)]
        self.type = type_

    def apply(self, q: Sequence[float], on: bool) -> list[float]:
        """The joint target with the offset, filtered one cycle further if `on`. Raises NoSolution."""
        self._before, self._near_before = self.applied, self._near
        if on:
            self.applied = [b + self.alpha * (w - b) for b, w in zip(self.applied, self.wanted, strict=True)]
        if not any(self.applied):
            self._near = list(q)
            return self._near
        flange, shift = self._kinematics.flange(q), from_pose(self.applied)
        tcp = product(flange, self.tool)
        if self.type == TCP:
            moved = product(tcp, shift)
        else:
            turned = product((*shift[:9], 0.0, 0.0, 0.0), (*tcp[:9], 0.0, 0.0, 0.0))
            moved = (*turned[:9], *(a + b for a, b in zip(tcp[9:], shift[9:], strict=True)))
        self._near = self._kinematics.joints(product(moved, inverse(self.tool)), self._near or q)
        return self._near
