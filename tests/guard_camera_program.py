"""A room camera that misbehaves on command, for the guard's tests. FILE holds one word, read before each frame.

    python guard_camera_program.py --width 320 --height 180 --fps 15 --control FILE

Words: room, ring (the same four pictures in turn), slow (4 frames/s), flood (as fast as it can), clock (a frozen picture with a clock drawn into it), half (half
frames), wide (frames of another size), loud (10,000 lines a second on standard error), hang, box (something dark in the middle).
With --picture the room is that picture (a .npy file, uint8, of the frame's size).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from guard_room import Room


def send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("width", "height", "fps"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--control", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    args = parser.parse_args()
    width, height, fps = int(args.width), int(args.height), args.fps
    room = Room(width, height)
    if args.picture:
        room.picture = np.load(args.picture).astype(np.float32)
    boxed = room.picture.copy()
    boxed[height // 3 : 2 * height // 3, 2 * width // 5 : 3 * width // 5] = 10
    still = room.frame()
    buffers = [room.frame() for _ in range(4)]
    wide = Room(width + 64, height)
    due, number = time.monotonic(), 0
    while True:
        word = args.control.read_text().strip() if args.control.exists() else "room"
        number += 1
        if word == "hang":
            time.sleep(60)
        elif word == "clock":
            shown = still.copy()
            cv2.putText(shown, f"{number:05d}", (4, height - 4), cv2.FONT_HERSHEY_PLAIN, 0.6, 255, 1)
            send(shown.tobytes())
        elif word == "box":
            send(room.frame(boxed).tobytes())
        elif word == "ring":
            send(buffers[number % len(buffers)].tobytes())
        elif word == "half":
            send(room.frame().tobytes()[: width * height // 2])
        elif word == "wide":
            send(wide.frame().tobytes())
        else:
            send(room.frame().tobytes())
        if word == "loud":
            os.write(
                2,
                b"".join(
                    b"warning %d: buffer underrun in element fdsink0, dropping\n" % i for i in range(int(10000 / fps))
                ),
            )
        if word == "flood":
            due = time.monotonic()
            continue
        due += 1 / (4.0 if word == "slow" else fps)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    np.seterr(all="raise")
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
