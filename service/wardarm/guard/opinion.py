"""A second opinion: does a person detector (OpenCV's HOG) see a person, too?

It runs in a thread of its own, at most twice a second and gently, so that it never delays a word. It may add to a hold
(`label` puts what it sees into the text; with `require` a view is not clear before it has looked and seen nobody in a
keep-out zone). It can never end one: HOG misses people who sit, bend, or are cut by the picture's edge.
"""

from __future__ import annotations

import logging
import os
import threading

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import RoomCamera

Grey = NDArray[np.uint8]
Box = tuple[int, int, int, int]
log = logging.getLogger("wardarm.guard")
EVERY_S = 0.5
FRESH_S = 2.0  # an older opinion is none
NICE = 15
HEIGHT_PX = 480  # HOG knows people of 96 px and more: smaller frames are enlarged to this height
SCORE_MIN = 0.5  # of the SVM; people in Debian's vtest.avi score 0.5 to 3


class Hog:
    """`find` takes about 0.1 s a frame on one core at HEIGHT_PX; smaller frames are enlarged to `height_px`."""

    def __init__(self, height_px: int = HEIGHT_PX) -> None:
        self._height_px = height_px
        self._hog = cv2.HOGDescriptor()
        self._hog.setSVMDetector(cv2.HOGDescriptor.getDefaultPeopleDetector())

    def find(self, grey: Grey) -> list[Box]:
        """Boxes (x, y, width, height) of people, pixels of the frame."""
        scale = max(1.0, self._height_px / grey.shape[0])
        large = cv2.resize(grey, None, fx=scale, fy=scale) if scale > 1 else grey
        boxes, scores = self._hog.detectMultiScale(large, winStride=(8, 8), scale=1.08)
        return [
            (int(x / scale), int(y / scale), int(w / scale), int(h / scale))
            for (x, y, w, h), score in zip(boxes, np.ravel(scores), strict=True)
            if score >= SCORE_MIN
        ]


def in_zone(box: Box, camera: RoomCamera) -> bool:
    """The middle of the box's lower edge, where a person stands, lies in a keep-out zone."""
    foot = (box[0] + box[2] / 2, box[1] + 0.95 * box[3])
    polygons = [camera.keep_out] if camera.keep_out else []
    polygons += [z.polygon for z in camera.zones if z.kind == "keep_out"]
    return any(cv2.pointPolygonTest(np.array(p, np.float32), foot, False) >= 0 for p in polygons)


class SecondOpinion:
    """One camera's. `offer` frames, read `label` and `agrees`; a thread that failed has no opinion, and says so once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.boxes: list[Box] = []
        self.at_ns = 0  # of the frame that `boxes` are from
        self.failed = False
        self._frame: Grey | None = None
        self._frame_ns = self._offered_ns = 0
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"opinion {name}", daemon=True)
        self._thread.start()

    def offer(self, grey: Grey, now_ns: int) -> None:
        """Copied and looked at later, if the thread has nothing else to do."""
        if self._wake.is_set() or (now_ns - self._offered_ns) * 1e-9 < EVERY_S:
            return
        self._frame, self._frame_ns, self._offered_ns = grey.copy(), now_ns, now_ns
        self._wake.set()

    def _run(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            hog = Hog()
            while True:
                self._wake.wait()
                assert self._frame is not None
                self.boxes, self.at_ns = hog.find(self._frame), self._frame_ns
                self._wake.clear()
        except cv2.error as e:
            self.failed = True
            log.error("the person detector failed; the other rules go on", extra={"camera": self.name, "why": str(e)})

    def fresh(self, now_ns: int) -> bool:
        return self.at_ns > 0 and (now_ns - self.at_ns) * 1e-9 < FRESH_S

    def label(self, now_ns: int) -> str:
        """What it sees, in words; "" while it has no fresh opinion."""
        if not self.fresh(now_ns):
            return ""
        return f"{len(self.boxes)} seen as a person" if self.boxes else "not seen as a person"

    def agrees(self, camera: RoomCamera, since_ns: int) -> bool:
        """It has looked at a frame later than `since_ns` and seen nobody in a keep-out zone, however long that took it; or it
        has failed: then the other rules go on without it."""
        return self.failed or (self.at_ns > since_ns and not any(in_zone(b, camera) for b in self.boxes))
