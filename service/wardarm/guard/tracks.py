"""Blobs followed from frame to frame, so that one person is one event however often their outline flickers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Box = tuple[int, int, int, int]  # x, y, width, height; pixels of the frame
KEEP_S = 1.0  # a blob that is gone for longer is another one when it comes back
NEAR = 1.0  # of the box's larger side: how far a blob may get from one frame to the next


@dataclass
class Track:
    """`first_s`, `last_s`: times of the frames in which it was seen first and last."""

    number: int
    box: Box
    first_s: float
    last_s: float
    frames: int = 1


class Tracks:
    """Call `update` with each frame's boxes; `new` are the tracks that began with it."""

    def __init__(self) -> None:
        self.living: list[Track] = []
        self.ended: list[Track] = []
        self.count = 0

    def update(self, boxes: Sequence[Box], at_s: float) -> list[Track]:
        """`at_s`: time of this frame. Returns the tracks that began with it."""
        for track in [t for t in self.living if at_s - t.last_s > KEEP_S]:
            self.living.remove(track)
            self.ended.append(track)
        free, new = list(self.living), []
        for box in sorted(boxes, key=lambda b: -b[2] * b[3]):
            near = min(free, key=lambda t: _apart(t.box, box), default=None)
            if near is not None and _apart(near.box, box) <= NEAR * max(*near.box[2:], *box[2:]):
                free.remove(near)
                near.box, near.last_s, near.frames = box, at_s, near.frames + 1
                continue
            self.count += 1
            new.append(Track(self.count, box, at_s, at_s))
        self.living += new
        return new


def _apart(a: Box, b: Box) -> float:
    """Pixels between two boxes' middles, less what they overlap; 0 if one holds the other's middle."""
    dx = abs(a[0] + a[2] / 2 - b[0] - b[2] / 2) - max(a[2], b[2]) / 2
    dy = abs(a[1] + a[3] / 2 - b[1] - b[3] / 2) - max(a[3], b[3]) / 2
    return float(max(0.0, dx, dy))
