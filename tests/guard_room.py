"""A synthetic room for the guard's tests: a textured picture with sensor noise, walkers, an arm drawn from its joint
angles. As a program it is a room camera: raw GRAY8 frames to stdout, told what to do by a file.

    python guard_room.py --width 640 --height 360 --fps 10 --control FILE

FILE holds one word, read before each frame: room, person, frozen, silent, garbage, short, dark, text, exit.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

Grey = NDArray[np.uint8]
NOISE_GREY = 3.0


class Room:
    """Frames of one still room, uint8 (height, width); every frame has fresh noise."""

    def __init__(self, width: int = 640, height: int = 360, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        coarse = self.rng.uniform(70, 190, (9, 16)).astype(np.float32)
        picture = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
        for _ in range(12):  # furniture
            x, y = int(self.rng.integers(0, width)), int(self.rng.integers(0, height))
            w, h = int(self.rng.integers(20, 120)), int(self.rng.integers(20, 80))
            cv2.rectangle(picture, (x, y), (x + w, y + h), float(self.rng.uniform(40, 220)), -1)
        self.picture = np.clip(picture, 20, 235)
        self.noise = self.rng.normal(0, NOISE_GREY, (height * 2, width * 2)).astype(np.float32)

    def frame(self, draw: NDArray[np.float32] | None = None, gain: float = 1.0) -> Grey:
        base = self.picture if draw is None else draw
        height, width = base.shape
        y, x = self.rng.integers(0, height), self.rng.integers(0, width)  # a window of the noise: cheap, never twice
        noisy = base * np.float32(gain) + self.noise[y : y + height, x : x + width]
        return np.clip(noisy + 0.5, 0, 255).astype(np.uint8)

    def with_person(self, x: float, y: float, height_px: float = 150, grey: float = 15) -> NDArray[np.float32]:
        """The room with a standing figure, feet at (x, y) pixels, clothes `grey` with a lighter coat half."""
        out = self.picture.copy()
        h = height_px
        for centre, axes, shade in (
            ((x, y - 0.9 * h), (0.07 * h, 0.09 * h), grey + 15),
            ((x, y - 0.6 * h), (0.15 * h, 0.24 * h), grey),
            ((x - 0.06 * h, y - 0.2 * h), (0.06 * h, 0.21 * h), grey + 5),
            ((x + 0.06 * h, y - 0.2 * h), (0.06 * h, 0.21 * h), grey + 5),
        ):
            cv2.ellipse(out, tuple(map(round, centre)), tuple(map(round, axes)), 0, 0, 360, float(shade), -1)
        return out


def send(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--height", type=int, required=True)
    parser.add_argument("--fps", type=float, required=True)
    parser.add_argument("--control", type=Path, required=True)
    args = parser.parse_args()
    room = Room(args.width, args.height)
    still = room.frame()
    due = time.monotonic()
    while True:
        word = args.control.read_text().strip() if args.control.exists() else "room"
        if word == "exit":
            print("no such device: /dev/video9", file=sys.stderr)
            sys.exit(3)
        if word == "frozen":
            send(still.tobytes())
        elif word == "garbage":
            send(room.rng.bytes(still.size))
        elif word == "short":
            send(room.frame().tobytes()[:-1000])
        elif word == "dark":
            send(room.frame(np.full_like(room.picture, 12)).tobytes())
        elif word == "person":
            send(room.frame(room.with_person(0.5 * args.width, 0.9 * args.height)).tobytes())
        elif word == "text":
            send(b"warning: something to say\n" + room.frame().tobytes())
        elif word != "silent":
            send(room.frame().tobytes())
        due += 1 / args.fps
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
