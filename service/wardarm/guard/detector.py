"""What is in this view that was not there when it was learnt? One Gaussian a pixel, kept here because each pixel
must be frozen, learnt and forgotten on its own.

- A pixel never learns while something is detected at or near it: a person who stands still stays detected.
- A pixel under our own arm never learns; what the arm uncovers for the first time is learnt like at start-up.
- A large change (light, a covered lens, someone right at the camera) is VIEW_CHANGED, and nothing at all is learnt
  until the view is again what it was.
- Every rule is monotone: more foreground is never less of a detection.
- In an authorised zone (the bed) only what reaches lower in the picture outside of it counts: who stands in front of
  the bed is not hidden by it. In a mask (a screen, a window) nothing is seen.

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
EDGE = 0.25  # of the smallest area: so much of a whole person inside the zone is enough
COVERED = 0.35  # contrast below this share of the learnt view's: the lens is covered
TOUCH_PX = 7  # work pixels; pieces of foreground this close to our own arm are added up
SHADOW_MIN = 0.4  # a shadow leaves at least this share of the light: lamps are several, walls reflect
SUDDEN = 0.5  # of guard.change_percent: so much more from one frame to the next is no person walking


class ViewState(Enum):
    LEARNING = "learning"
    CLEAR = "clear"
    INTRUDER = "intruder"
    VIEW_CHANGED = "view changed"


@dataclass(frozen=True)
class Finding:
    """What one frame showed. Areas are percent of the frame, boxes (x, y, width, height) in frame pixels."""

    state: ViewState
    zone_percent: float  # largest piece of foreground inside a keep-out zone
    changed_percent: float  # foreground of everything that is not our own arm
    boxes: tuple[tuple[int, int, int, int], ...]
    detail: str
    warned: bool = False  # somebody in a warn zone, or a moment ago
    warn_percent: float = 0.0
    zone: str = ""  # name of the keep-out zone, if it has one


@dataclass
class _Watch:
    """One zone and how long something small has been in it."""

    area: zones.Area
    weak_frames: int = 0
    px: float = 0.0

    def look(self, px: float, needed_frames: int) -> bool:
        """True if this is a person: large at once, small after `needed_frames`."""
        self.px = px
        self.weak_frames = self.weak_frames + 1 if px >= self.area.min_px else 0
        return px >= STRONG * self.area.min_px or self.weak_frames >= needed_frames


class _Blobs:
    """Connected pieces of foreground. `areas[i]`: work pixels of label i; 0 of label 0, which is no piece. `rectangles[i]`
    round each: x, y, width, height, work pixels."""

    def __init__(self, fore: Grey) -> None:
        _, self.labels, stats, _ = cv2.connectedComponentsWithStats(fore, connectivity=8)
        self.areas = stats[:, cv2.CC_STAT_AREA].copy()
        self.areas[0] = 0
        self.rectangles = stats[:, : cv2.CC_STAT_AREA]

    def larger(self, px: float) -> list[tuple[int, int, int, int]]:
        """Rectangles of the pieces of at least so many work pixels, more than none."""
        return [(int(x), int(y), int(w), int(h)) for x, y, w, h in self.rectangles[self.areas >= max(1.0, px)]]

    def inside(self, zone: Grey) -> NDArray[np.int64]:
        """Pixels of each piece inside a zone."""
        out = np.bincount(self.labels[zone > 0], minlength=len(self.areas))
        out[0] = 0
        return out


def work_size(guard: Guard) -> tuple[int, int]:
    """Width and height at which a view is examined."""
    factor = max(1, round(guard.width / WORK_WIDTH))
    return guard.width // factor, guard.height // factor


class Detector:
    """One view. Call `update` with each frame, in order."""

    def __init__(self, guard: Guard, camera: RoomCamera) -> None:
        self.guard, self.name = guard, camera.name
        self.size = work_size(guard)
        self.watches = [_Watch(area) for area in zones.areas(camera, guard, self.size)]
        self.hidden = self._all_of(camera, "mask")
        self._beds = [(z, zones.mask(z.polygon, guard, self.size)) for z in zones.of(camera) if z.kind == "authorised"]
        self.min_px = min(
            [guard.min_area_percent / 100 * self.size[0] * self.size[1]] + [w.area.min_px for w in self.watches]
        )
        self.clear_frames = max(3, math.ceil(CLEAR_S * guard.fps))
        self.adapt = 1 / (ADAPT_S * guard.fps)
        self.kernel = np.ones((3, 3), np.uint8)
        self.foreground: Grey = np.zeros(self.size[::-1], np.uint8)  # of the last frame, our own arm left out
        self.relearn()

    def _all_of(self, camera: RoomCamera, kind: str) -> Grey:
        out = np.zeros(self.size[::-1], np.uint8)
        for zone in zones.of(camera):
            if zone.kind == kind:
                out |= zones.mask(zone.polygon, self.guard, self.size)
        return out

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
        for watch in self.watches:
            watch.weak_frames = 0
        self._clear_run = 0
        self._warn_run = self.clear_frames
        self._changed_before = 0.0

    def update(self, frame: Grey, own_arm: Grey | None, minute: int = -1, own_shadow: Grey | None = None) -> Finding:
        """`frame`: uint8 (guard.height, guard.width). `own_arm`: uint8 at work size, 255 where our arm may be, or
        None as long as nobody knows where it is; `own_shadow`: where its shadow may fall. `minute` of the day, local
        time, for zones with times; -1: now."""
        small = cv2.resize(frame, self.size, interpolation=cv2.INTER_AREA).astype(np.float32)
        arm = own_arm if own_arm is not None else np.zeros(self.size[::-1], np.uint8)
        self._shadow = own_shadow
        self._minute = minute if minute >= 0 else zones.minute_of_day()
        if own_arm is not None and not self.had_arm:
            self.seen[(own_arm if own_shadow is None else own_arm | own_shadow) > 0] = (
                0  # the arm itself may have been learnt as part of the room
            )
            self.had_arm = True
        if self.state is ViewState.LEARNING:
            return self._learn_view(small, arm)
        return self._examine(small, arm)

    def quiet_for_a_person(self) -> None:
        """Somebody else (the second opinion) still sees a person: the view does not become clear yet."""
        if self.state is not ViewState.LEARNING:
            self._clear_run = 0

    def _learn_view(self, small: Floats, arm: Grey) -> Finding:
        previous, self.previous = self.previous, small
        if previous is not None:
            off = np.maximum(np.abs(small - previous), np.abs(small - self.mean) * (self.seen > 0))
            moved = self._opened(off > MOVING_DIFFERENCE, arm)
            boxes = self._boxes(_Blobs(moved))
            if boxes:
                self.still_frames = 0
                self.seen[:] = 0
                return Finding(
                    ViewState.LEARNING, 0, _percent(moved), boxes, "something moves; clear the room while it is learnt"
                )
        self._learn(small, (arm == 0) if self._shadow is None else (arm | self._shadow) == 0)
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
        grey = np.where((arm | self.hidden) > 0, 0, flags.view(np.uint8) * np.uint8(255)).astype(np.uint8)
        return np.asarray(cv2.morphologyEx(grey, cv2.MORPH_OPEN, self.kernel), np.uint8)

    def _boxes(self, blobs: _Blobs) -> tuple[tuple[int, int, int, int], ...]:
        """Of the pieces that could be a person; frame pixels."""
        sx, sy = self.guard.width / self.size[0], self.guard.height / self.size[1]
        return tuple(
            (round(x * sx), round(y * sy), round(w * sx), round(h * sy)) for x, y, w, h in blobs.larger(self.min_px)
        )

    def _frozen(self, blobs: _Blobs) -> NDArray[np.bool_]:
        """Pixels that may not learn: the box round every piece that could be part of a person, and a margin."""
        out = np.zeros(blobs.labels.shape, bool)
        margin = self.size[0] // 20
        for x, y, w, h in blobs.larger(self.min_px / 4):
            out[max(0, y - margin) : y + h + margin, max(0, x - margin) : x + w + margin] = True
        return out

    def not_in_bed(self, fore: Grey, minute: int) -> Grey:
        """Foreground without what lies in an authorised zone. A blob's pixels there still count above the lowest
        pixel that it has outside: that person stands in front of the bed, or beside it."""
        beds = [mask for zone, mask in self._beds if zones.active(zone.start, zone.end, minute)]
        if not beds:
            return fore
        bed = np.asarray(np.bitwise_or.reduce(beds), np.uint8) > 0
        if not (bed & (fore > 0)).any():
            return fore
        out = fore.copy()
        count, labels, stats, _ = cv2.connectedComponentsWithStats(fore, connectivity=8)
        for i in range(1, count):
            x, y, w, h = stats[i][:4]
            part = (slice(y, y + h), slice(x, x + w))
            blob, inside = labels[part] == i, bed[part]
            rows = np.flatnonzero((blob & ~inside).any(1))
            below = rows[-1] + 1 if len(rows) else 0
            out[part][below:][(blob & inside)[below:]] = 0
        return out

    def _zone_px(self, blobs: _Blobs, arm: Grey, area: zones.Area) -> float:
        """Foreground in the zone that counts, work pixels: the blob with the largest part inside; the whole of a blob
        that is a person's size and has EDGE of the smallest area inside (they walk in: the rest follows); or half of
        all pieces at our own arm together: somebody behind it is cut in parts, and slivers at its outline must not add
        up to a person."""
        inside = blobs.inside(area.pixels)
        if not inside.any():
            return 0.0
        whole = np.minimum(blobs.areas, STRONG * area.min_px)
        walks_in = (blobs.areas >= area.min_px) & (inside >= EDGE * area.min_px)
        largest = float(max(inside.max(), (whole * walks_in).max()))
        if not cv2.countNonZero(arm):
            return largest
        near = cv2.dilate(arm, np.ones((TOUCH_PX, TOUCH_PX), np.uint8))
        touching = np.unique(blobs.labels[(near > 0) & (area.pixels > 0) & (blobs.labels > 0)])
        return max(largest, float(inside[touching].sum()) / 2)

    def _examine(self, small: Floats, arm: Grey) -> Finding:
        known = self.seen >= self.guard.warmup_frames
        limit = np.clip(SIGMAS * np.sqrt(self.variance), DIFFERENCE_MIN, DIFFERENCE_MAX)
        differs = (np.abs(small - self.mean) > limit) & known
        free = (arm | self.hidden) == 0
        if self._shadow is not None:
            # our own shadow only darkens, and only so much; what is darker there, or lighter, is something else
            differs &= ~((self._shadow > 0) & (small < self.mean) & (small > SHADOW_MIN * self.mean))
            free &= self._shadow == 0
        fore = self._opened(differs, arm)
        self.foreground = fore
        visible = max(1, int(np.count_nonzero(known & free)))
        changed_percent = 100 * cv2.countNonZero(fore) / visible
        covered = self._contrast(small) < COVERED * self.contrast
        sudden = changed_percent - self._changed_before >= SUDDEN * self.guard.change_percent
        self._changed_before = changed_percent
        changed = bool(changed_percent >= self.guard.change_percent or covered or sudden)
        pieces, counted = _Blobs(fore), self.not_in_bed(fore, self._minute)
        blobs = pieces if counted is fore else _Blobs(counted)
        person = self._watch("keep_out", blobs, arm)
        warned = self._watch("warn", blobs, arm)
        self._decide(changed, person, changed_percent, covered)
        self._warn_run = 0 if warned else self._warn_run + 1
        if self.state is not ViewState.VIEW_CHANGED:
            self._learn(small, free & ~self._frozen(pieces))
        in_zone = max((w for w in self.watches if w.area.kind == "keep_out"), key=lambda w: w.px)
        in_warn = max((w.px for w in self.watches if w.area.kind == "warn"), default=0.0)
        to_percent = 100 / (self.size[0] * self.size[1])
        percent = in_zone.px * to_percent
        return Finding(
            self.state, percent, changed_percent, self._boxes(pieces), self._detail(percent, changed_percent, covered, in_zone.area.name),
            self._warn_run < self.clear_frames, in_warn * to_percent, in_zone.area.name,
        )  # fmt: skip

    def _watch(self, kind: str, blobs: _Blobs, arm: Grey) -> bool:
        """True if there is a person in any zone of this kind that is active now."""
        found = False
        for watch in self.watches:
            if watch.area.kind != kind:
                continue
            on = zones.active(watch.area.start, watch.area.end, self._minute)
            px = self._zone_px(blobs, arm, watch.area) if on else 0.0
            needed = max(2, 1 + math.ceil(watch.area.dwell_s * self.guard.fps))
            found |= watch.look(px, needed)
        return found

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
        elif not any(w.weak_frames for w in self.watches if w.area.kind == "keep_out"):
            self._clear_run += 1
            if self._clear_run >= self.clear_frames:
                self.state = ViewState.CLEAR

    def _detail(self, zone_percent: float, changed_percent: float, covered: bool, zone: str) -> str:
        if self.state is ViewState.INTRUDER:
            where = f"in the zone{f' {zone}' if zone else ''}"
            return f"{where} ({zone_percent:.1f} %)" if zone_percent > 0 else "just left the zone"
        if self.state is ViewState.VIEW_CHANGED:
            return "the lens is covered" if covered else f"{changed_percent:.0f} % of the view changed"
        return ""


def _percent(flags: Grey) -> float:
    return 100 * float(np.count_nonzero(flags)) / flags.size
