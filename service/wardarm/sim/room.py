"""A simulated room camera as a camera command: raw GRAY8 frames on stdout until nobody reads them.

    python -m wardarm.sim.room bed --config desk --width 640 --height 360 --fps 5

In: the pictures that `views` draws. Out: width x height bytes a frame, no header. Frames come as they are drawn, at
most `fps` a second; when `views` stops, nothing comes. Ends on SIGTERM, SIGPIPE, or when its parent is gone.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys

import cv2

from wardarm import config as configuration
from wardarm.sim.pictures import PictureFeed
from wardarm.sim.room_views import ROOM_HEIGHT, ROOM_VIEWS, ROOM_WIDTH

EARLY = 0.3  # of a period


class Pace:
    """At most `fps` pictures a second in the long run. One that is a little early counts as in time, and so does the first
    one in time after a late one: to leave that out would cost a whole period."""

    def __init__(self, fps: float) -> None:
        self._period_ns = 1e9 / fps
        self._next_ns = 0.0

    def take(self, stamp_ns: int) -> bool:
        """False for a picture that is too many. `stamp_ns`: of its exposure."""
        if stamp_ns < self._next_ns - EARLY * self._period_ns:
            return False
        late = stamp_ns - self._next_ns > self._period_ns
        self._next_ns = (stamp_ns if late else self._next_ns) + self._period_ns
        return True


def stream(prefix: str, name: str, width: int, height: int, fps: float) -> None:
    """Write frames to stdout for ever."""
    feed, parent, pace = PictureFeed(prefix, f"room_{name}"), os.getppid(), Pace(fps)
    while os.getppid() == parent:
        picture = feed.next(0.5, 0.002)
        if picture is None or not pace.take(picture.stamp_ns):
            continue
        frame = picture.pixels.reshape(ROOM_HEIGHT, ROOM_WIDTH)
        if (height, width) != frame.shape:
            frame = cv2.resize(frame, (width, height), interpolation=cv2.INTER_AREA).astype(frame.dtype)
        view = memoryview(frame.tobytes())
        while view:
            view = view[os.write(sys.stdout.fileno(), view) :]


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm.sim.room", description="a simulated room camera on stdout")
    parser.add_argument("name", choices=[v.name for v in ROOM_VIEWS])
    parser.add_argument("--config", required=True)
    parser.add_argument("--width", type=int, default=ROOM_WIDTH)
    parser.add_argument("--height", type=int, default=ROOM_HEIGHT)
    parser.add_argument("--fps", type=float, default=5.0)
    args = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        stream(configuration.load(args.config).shm.prefix, args.name, args.width, args.height, args.fps)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
