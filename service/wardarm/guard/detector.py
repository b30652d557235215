"""What is in this view that was not there when it was learnt? One Gaussian a pixel, kept here because each pixel
must be frozen, learnt and forgotten on its own.

- A pixel never learns while something is detected at or near it: a person who stands still stays detected.
- A pixel under our own arm never learns; what the arm uncovers for the first time is learnt like at start-up.
- A large change (light, a covered lens, someone right at the camera) is VIEW_CHANGED, and nothing at all is learnt
  until the view is again what it was.
- Every rule is monotone: more foreground is never less of a detection.

Frames are uint8 grey of any size; work is done at about 320 pixels wide, where averaging halves the sensor's noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Guard, RoomCamera
from wardarm.guard import zones

Grey = NDArray[np.uint8]
Floats = NDArray[np.float32]

WORK_WIDTH = 320
SIGMAS = 5.0  # a pixel differs when it is this many standard deviations off (MOG2's usual 25 is this, squared)
DIFFERENCE_MIN, DIFFERENCE_MAX = 12.0, 40.0  # grey levels; below 12, 5 % lamp flicker on a white wall would count
ADAPT_S = 60.0  # time constant at which an undisturbed pixel follows daylight
CLEAR_S = 1.0  # a view must stay clear for this long before it counts as clear
MOVING_DIFFERENCE = 25.0  # grey levels from one frame to the next that count as motion while a view is learnt
STRONG = 3  # a blob of so many smallest areas counts in its first frame, a smaller one in its second
COVERED = 0.35  # contrast below this share of the learnt view's: the lens is covered
TOUCH_PX = 7  # work pixels; pieces of foreground this close to our own arm are added up


class ViewState(Enum):
    LEARNING = "learning"
    CLEAR = "clear"
    INTRUDER = "intruder"
    VIEW_CHANGED = "view changed"


@dataclass(frozen=True)
class Finding:
    """What one frame showed. Areas are percent of the frame, boxes (x, y, width, height) in frame pixels."""

    state: ViewState
    zone_percent: float  # largest piece of foreground inside the zone
    changed_percent: float  # foreground of everything that is not our own arm
    boxes: tuple[tuple[int, int, int, int], ...]
    detail: str


def work_size(guard: Guard) -> tuple[int, int]:
    """Width and height at which a view is examined."""
    factor = max(1, round(guard.width / WORK_WIDTH))
    return guard.width // factor, guard.height // factor


class Detector:
    """One view. Call `update` with each frame, in order."""

    def __init__(self, guard: Guard, camera: RoomCamera) -> None:
        self.guard, self.name = guard, camera.name
        self.size = work_size(guard)
        self.zone = zones.mask(camera.keep_out, guard, self.size)
        self.min_px = guard.min_area_percent / 100 * self.size[0] * self.size[1]
        self.clear_frames = max(3, math.ceil(CLEAR_S * guard.fps))
        self.adapt = 1 / (ADAPT_S * guard.fps)
        self.kernel = np.ones((3, 3), np.uint8)
        self.foreground: Grey = np.zeros(self.size[::-1], np.uint8)  # of the last frame, our own arm left out
        self.relearn()

    def relearn(self) -> None:
        """Forget the view: what the next `guard.warmup_frames` still frames show is the new normal."""
        shape = self.size[::-1]
        self.mean: Floats = np.zeros(shape, np.float32)
        self.variance: Floats = np.zeros(shape, np.float32)
        self.seen: Floats = np.zeros(shape, np.float32)  # frames learnt, a pixel; known from warmup_frames on
        self.contrast = 0.0
        self.still_frames = 0
        self.previous: Floats | None = None
        self.had_arm = False
        self.state = ViewState.LEARNING
        self._weak_frames = 0
        self._clear_run = 0

    def update(self, frame: Grey, own_arm: Grey | None) -> Finding:
        """`frame`: uint8 (guard.height, guard.width). `own_arm`: uint8 at work size, 255 where our arm may be, or
        None as long as nobody knows where it is."""
        small = cv2.resize(frame, self.size, interpolation=cv2.INTER_AREA).astype(np.float32)
        arm = own_arm if own_arm is not None else np.zeros(self.size[::-1], np.uint8)
        if own_arm is not None and not self.had_arm:
            self.seen[own_arm > 0] = 0  # the arm itself may have been learnt as part of the room
            self.had_arm = True
        if self.state is ViewState.LEARNING:
            return self._learn_view(small, arm)
        return self._examine(small, arm)

    def _learn_view(self, small: Floats, arm: Grey) -> Finding:
        previous, self.previous = self.previous, small
        if previous is not None:
            off = np.maximum(np.abs(small - previous), np.abs(small - self.mean) * (self.seen > 0))
            moved = self._opened(off > MOVING_DIFFERENCE, arm)
            largest, boxes = self._pieces(moved)
            if largest >= self.min_px:
                self.still_frames = 0
                self.seen[:] = 0
                return Finding(
                    ViewState.LEARNING, 0, _percent(moved), boxes, "something moves; clear the room while it is learnt"
                )
        self._learn(small, arm == 0)
        self.still_frames += 1
        if self.still_frames >= self.guard.warmup_frames:
            self.state = ViewState.CLEAR
            self.contrast = self._contrast(self.mean)
            return Finding(self.state, 0, 0, (), "")
        return Finding(self.state, 0, 0, (), f"learning the view, {self.still_frames}/{self.guard.warmup_frames}")

    def _learn(self, small: Floats, where: NDArray[np.bool_]) -> None:
        """Mean and variance, each pixel at its own rate: 1/n while it is new, slow once it is known."""
        rate = np.where(self.seen < self.guard.warmup_frames, 1 / (self.seen + 1), np.float32(self.adapt))
        rate *= where
        off = small - self.mean
        self.mean += rate * off
        self.variance += rate * ((1 - rate) * off * off - self.variance)
        self.seen += where & (self.seen < self.guard.warmup_frames)

    def _contrast(self, picture: Floats) -> float:
        """Standard deviation, grey levels, of a picture so coarse (40 x 22) that sensor noise does not count."""
        coarse = (self.size[0] // 8, self.size[1] // 8)
        return float(cv2.resize(picture, coarse, interpolation=cv2.INTER_AREA).std())

    def _opened(self, flags: NDArray[np.bool_], arm: Grey) -> Grey:
        """Flagged pixels outside the arm, single specks of noise removed; 255 where set."""
        grey = np.where(arm > 0, 0, flags.view(np.uint8) * np.uint8(255)).astype(np.uint8)
        return np.asarray(cv2.morphologyEx(grey, cv2.MORPH_OPEN, self.kernel), np.uint8)

    def _pieces(self, flags: Grey, smallest_px: float = 0.0) -> tuple[int, tuple[tuple[int, int, int, int], ...]]:
        """Area of the largest connected piece (work pixels), and the boxes (frame pixels) of those that count."""
        if not cv2.countNonZero(flags):
            return 0, ()
        _, _, stats, _ = cv2.connectedComponentsWithStats(flags, connectivity=8)
        areas = stats[1:, cv2.CC_STAT_AREA]
        sx, sy = self.guard.width / self.size[0], self.guard.height / self.size[1]
        boxes = tuple(
            (round(x * sx), round(y * sy), round(w * sx), round(h * sy))
            for x, y, w, h, area in stats[1:]
            if area >= max(smallest_px, self.min_px)
        )
        return int(areas.max()), boxes

    def _frozen(self, flags: Grey) -> NDArray[np.bool_]:
        """Pixels that may not learn: the box round every piece that could be part of a person, and a margin."""
        out = np.zeros(flags.shape, bool)
        if not cv2.countNonZero(flags):
            return out
        margin = self.size[0] // 20
        count, _, stats, _ = cv2.connectedComponentsWithStats(flags, connectivity=8)
        for x, y, w, h, area in stats[1:count]:
            if area >= self.min_px / 4:
                out[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin] = True
        return out

    def _zone_px(self, fore: Grey, arm: Grey) -> float:
        """Foreground in the zone: the largest piece, or half of all pieces that touch our arm together: somebody
        behind it is cut in parts, and slivers at its outline must not add up to a person."""
        inside = cv2.bitwise_and(fore, self.zone)
        largest, _ = self._pieces(inside)
        if not largest or not cv2.countNonZero(arm):
            return float(largest)
        near = cv2.dilate(arm, np.ones((TOUCH_PX, TOUCH_PX), np.uint8))
        _, labels, stats, _ = cv2.connectedComponentsWithStats(inside, connectivity=8)
        touching = np.unique(labels[(near > 0) & (inside > 0)])
        together = int(stats[touching, cv2.CC_STAT_AREA].sum())
        return max(float(largest), together / 2)

    def _examine(self, small: Floats, arm: Grey) -> Finding:
        known = self.seen >= self.guard.warmup_frames
        limit = np.clip(SIGMAS * np.sqrt(self.variance), DIFFERENCE_MIN, DIFFERENCE_MAX)
        fore = self._opened((np.abs(small - self.mean) > limit) & known, arm)
        self.foreground = fore
        free = arm == 0
        visible = max(1, int(np.count_nonzero(known & free)))
        changed_percent = 100 * cv2.countNonZero(fore) / visible
        zone_px = self._zone_px(fore, arm)
        covered = self._contrast(small) < COVERED * self.contrast
        changed = bool(changed_percent >= self.guard.change_percent or covered)
        self._weak_frames = self._weak_frames + 1 if zone_px >= self.min_px else 0
        person = bool(zone_px >= STRONG * self.min_px or self._weak_frames >= 2)
        self._decide(changed, person, changed_percent, covered)
        if self.state is not ViewState.VIEW_CHANGED:
            self._learn(small, free & ~self._frozen(fore))
        _, boxes = self._pieces(fore)
        percent = 100 * zone_px / (self.size[0] * self.size[1])
        return Finding(self.state, percent, changed_percent, boxes, self._detail(percent, changed_percent, covered))

    def _decide(self, changed: bool, person: bool, changed_percent: float, covered: bool) -> None:
        back = changed_percent < self.guard.change_percent / 4 and not covered
        if changed:
            self.state, self._clear_run = ViewState.VIEW_CHANGED, 0
        elif self.state is ViewState.VIEW_CHANGED and not back:
            self._clear_run = 0
        elif person:
            # after a large change the view has to settle first; until then its reason stays
            if self.state is not ViewState.VIEW_CHANGED or self._clear_run >= self.clear_frames:
                self.state = ViewState.INTRUDER
            self._clear_run = 0 if self.state is ViewState.INTRUDER else self._clear_run + 1
        elif self._weak_frames == 0:
            self._clear_run += 1
            if self._clear_run >= self.clear_frames:
                self.state = ViewState.CLEAR

    def _detail(self, zone_percent: float, changed_percent: float, covered: bool) -> str:
        if self.state is ViewState.INTRUDER:
            return f"in the zone: {zone_percent:.1f} % of the frame" if zone_percent > 0 else "just left the zone"
        if self.state is ViewState.VIEW_CHANGED:
            return "the lens is covered" if covered else f"{changed_percent:.0f} % of the view changed"
        return ""


def _percent(flags: Grey) -> float:
    return 100 * float(np.count_nonzero(flags)) / flags.size
