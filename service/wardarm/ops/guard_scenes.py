"""Made-up rooms for the guard's bench: furniture, sensor noise, a walker, a flickering lamp, a curtain, a screen.

As a program it is a room camera: raw GRAY8 frames at a steady rate, made beforehand, so that what it costs is the
writing. With `--walk-s` somebody walks in every so often; `--log` gets a line for each frame of them that has a part of them
in the zone, once it was written: number of the `walk` and of the `frame` in it, `percent` of the zone that they cover,
`exposed_ns` (before it is written), `sent_ns` (after), and how late this program was with it (`late_ms`).

    python -m wardarm.ops.guard_scenes --width 1280 --height 720 --fps 15 --log FILE --walk-s 3
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

Grey = NDArray[np.uint8]
Floats = NDArray[np.float32]
NOISE_GREY = 3.0
PERSON_PERCENT = 0.5  # of the zone
WALK_FRAMES_S = 1.0  # how long a walk lasts in the picture
PERSON_HEIGHT = 0.42  # of the frame's height: somebody at 4 m from a camera of 54 degrees
WALK_M_S, PERSON_M = 1.4, 1.75
FROZEN_S = 2.0
WARM_S = 5.0  # nobody walks before: the view is learnt
_STILL = 12  # different frames of the empty room


class Room:
    """Pictures of one room, float32 (height, width), and frames of them with fresh noise."""

    def __init__(self, width: int, height: int, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.width, self.height = width, height
        coarse = self.rng.uniform(70, 190, (9, 16)).astype(np.float32)
        picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
        for _ in range(14):
            x, y = int(self.rng.integers(0, width)), int(self.rng.integers(0, height))
            w, h = int(self.rng.integers(width // 32, width // 5)), int(self.rng.integers(height // 18, height // 4))
            cv2.rectangle(picture, (x, y), (x + w, y + h), float(self.rng.uniform(40, 220)), -1)
        self.picture: Floats = np.clip(picture, 20, 235).astype(np.float32)
        self._noise = self.rng.normal(0, NOISE_GREY, (height * 2, width * 2)).astype(np.float32)

    def frame(self, picture: Floats | None = None, gain: float = 1.0) -> Grey:
        """A picture as a sensor sees it: times `gain`, with noise."""
        y, x = int(self.rng.integers(0, self.height)), int(self.rng.integers(0, self.width))
        base = self.picture if picture is None else picture
        noisy = base * np.float32(gain) + self._noise[y : y + self.height, x : x + self.width]
        return np.asarray(np.clip(noisy + 0.5, 0, 255), np.uint8)

    def person(self, x: float, y: float, picture: Floats | None = None, grey: float = 12.0) -> Floats:
        """Somebody standing with feet at (x, y) pixels, in front of the room or of `picture`."""
        out: Floats = (self.picture if picture is None else picture).copy()
        h = PERSON_HEIGHT * self.height
        for centre, axes, shade in (
            ((x, y - 0.9 * h), (0.07 * h, 0.09 * h), grey + 15),
            ((x, y - 0.6 * h), (0.15 * h, 0.24 * h), grey),
            ((x - 0.06 * h, y - 0.2 * h), (0.06 * h, 0.21 * h), grey + 5),
            ((x + 0.06 * h, y - 0.2 * h), (0.06 * h, 0.21 * h), grey + 5),
        ):
            cv2.ellipse(
                out, (round(centre[0]), round(centre[1])), (round(axes[0]), round(axes[1])), 0, 0, 360, float(shade), -1
            )
        return out

    def walk_px_s(self) -> float:
        """Pixels a second of somebody who walks across the view."""
        return WALK_M_S / PERSON_M * PERSON_HEIGHT * self.height


def zone(width: int, height: int) -> list[tuple[float, float]]:
    """The bench's keep-out zone: the right five eighths of the frame, below a strip of wall."""
    left, top = round(0.375 * width), round(0.15 * height)
    return [(left, top), (width, top), (width, height), (left, height)]


def _covered_percent(room: Room, picture: Floats) -> float:
    """Share of the zone that differs from the empty room by more than noise."""
    corners = np.array(zone(room.width, room.height), np.int32)
    (x0, y0), (x1, y1) = corners.min(0), corners.max(0)
    off = np.abs(picture[y0:y1, x0:x1] - room.picture[y0:y1, x0:x1]) > 4 * NOISE_GREY
    return 100 * float(off.mean())


def _send(frame: Grey) -> None:
    view = memoryview(frame.tobytes())
    while view:
        view = view[os.write(sys.stdout.fileno(), view) :]


def _note(log: Path, fact: dict[str, float]) -> None:
    with log.open("a", encoding="utf-8") as f:
        f.write(json.dumps(fact) + "\n")


def produce(
    width: int,
    height: int,
    fps: float,
    log: Path | None,
    walk_s: float,
    first_s: float,
    seed: int,
    freeze_s: float = 0.0,
) -> None:
    """Write frames until nobody reads them. `freeze_s`: after so long one frame is repeated for FROZEN_S, again and again."""
    room, parent = Room(width, height, seed), os.getppid()
    still = [room.frame() for _ in range(_STILL)]
    walk: list[tuple[Grey, float]] = []
    if walk_s > 0:
        for i in range(int(WALK_FRAMES_S * fps)):
            picture = room.person(
                0.375 * width - 0.2 * PERSON_HEIGHT * height + room.walk_px_s() * i / fps, 0.92 * height
            )
            walk.append((room.frame(picture), _covered_percent(room, picture)))
    due = time.monotonic()
    # by the machine's clock, so that several cameras keep their turns however long each took to start
    next_walk = (math.ceil((due + WARM_S - first_s) / walk_s) * walk_s + first_s) if walk_s > 0 else math.inf
    step, number, walks = -1, 0, 0
    next_freeze, frozen = due + freeze_s, still[0]
    while os.getppid() == parent:
        if walk and step < 0 and due >= next_walk:
            step, walks, next_walk = 0, walks + 1, next_walk + walk_s
        frame, percent = walk[step] if 0 <= step < len(walk) else (still[number % _STILL], 0.0)
        shown = step
        step = step + 1 if 0 <= step < len(walk) else -1
        if freeze_s and due >= next_freeze:
            if frame is not frozen and due - next_freeze < 1 / fps and log is not None:
                _note(log, {"frozen_ns": time.monotonic_ns()})
            frame = frozen
            if due >= next_freeze + FROZEN_S:
                next_freeze = due + freeze_s
        else:
            frozen = frame
        number += 1
        exposed_ns = time.monotonic_ns()
        _send(frame)
        if percent > 0 and log is not None:
            _note(log, {
                "walk": walks, "frame": shown, "percent": round(percent, 2), "exposed_ns": exposed_ns,
                "sent_ns": time.monotonic_ns(), "late_ms": round(exposed_ns * 1e-6 - due * 1e3, 1),
            })  # fmt: skip
        due += 1 / fps
        time.sleep(max(0.0, due - time.monotonic()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm.ops.guard_scenes", description="a made-up room camera on stdout")
    for name in ("width", "height"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--fps", type=float, required=True)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--walk-s", type=float, default=0.0, help="somebody walks in so often; 0: never")
    parser.add_argument("--first-s", type=float, default=6.0, help="how far into each of these times, by the clock")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--freeze-s", type=float, default=0.0, help="one frame is repeated so often; 0: never")
    args = parser.parse_args()
    produce(args.width, args.height, args.fps, args.log, args.walk_s, args.first_s, args.seed, args.freeze_s)


if __name__ == "__main__":
    main()
