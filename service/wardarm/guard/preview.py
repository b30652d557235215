"""One picture a room view, as guard sees it: the zone, where it expects our own arm, what it found.

    python -m wardarm.guard.preview --config FILE --out DIR

Look at these before the first motion and after every change in the room, and draw a new camera's zones from them: the numbers at
the edges are pixels of the frame. Green: keep-out zone; yellow: warn; grey: authorised; violet, hatched: mask. Blue: where
our own arm may be, left out. Red: what was not there when the view was learnt. A camera that serves one program at a time
(CSI, most V4L2) needs guard stopped first.
"""

from __future__ import annotations

import argparse
import select
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from wardarm import config as configuration
from wardarm.config import Config, ConfigError, RoomCamera
from wardarm.gate.words import BlockWatch
from wardarm.guard import zones
from wardarm.guard.detector import ViewState
from wardarm.guard.main import View, check
from wardarm.guard.picture import LOST, STATES, Sheet, both
from wardarm.guard.silhouette import ArmTrack
from wardarm.shm.layouts import BlockKind

LOOK_S = 2.0  # after every view is learnt, so that whoever should be seen can be


def draw(view: View) -> NDArray[np.uint8]:
    """The view's last frame, drawn by `picture.Sheet`: uint8 RGB."""
    guard = view.detector.guard
    shape = (guard.height, guard.width)
    grey = view.frame.grey if view.frame is not None else np.zeros(shape, np.uint8)
    arm = None
    if view.arm_mask is not None:
        arm = np.asarray(cv2.resize(view.arm_mask, shape[::-1], interpolation=cv2.INTER_NEAREST), np.uint8)
    colour = LOST[0] if view.program.lost else STATES[view.finding.state][0]
    sheet = Sheet(guard, view.camera, arm)
    return sheet.draw(grey, view.detector.foreground, view.finding.boxes, arm, caption(view, languages=2), colour)


def caption(view: View, languages: int = 1) -> str:
    """Name and state in one line."""
    _, zh, en = LOST if view.program.lost else STATES[view.finding.state]
    state = both(zh, en) if languages == 2 else en
    state += f" {view.finding.detail}" if view.finding.state in (ViewState.INTRUDER, ViewState.VIEW_CHANGED) else ""
    if view.program.lost:
        return f"{view.camera.name}: {state}, {view.program.fault}"
    if not view.silhouette.placed:
        mask = "camera_pos not set: our arm is not masked"
    else:
        mask = "our arm masked" if view.arm_mask is not None else "no arm status: our arm is not masked"
    undrawn = "" if _watches(view.camera) else "; no keep_out zone yet: draw one"
    return f"{view.camera.name}: {state}; {mask}{undrawn}"


def _watches(camera: RoomCamera) -> bool:
    return any(zone.kind == "keep_out" for zone in zones.of(camera))


def drawable(config: Config, file: Path) -> list[View]:
    """Every camera as a view, also one that has no keep-out zone yet: this picture is where it is drawn from. Raises
    ConfigError for all else that guard would refuse."""
    whole = [
        (0.0, 0.0),
        (config.guard.width, 0.0),
        (config.guard.width, config.guard.height),
        (0.0, config.guard.height),
    ]
    watched = [c if _watches(c) else c.model_copy(update={"keep_out": whole}) for c in config.guard.cameras]
    stands_in = config.model_copy(update={"guard": config.guard.model_copy(update={"cameras": watched})})
    check(stands_in, file)
    views = [View(stands_in, camera, file) for camera in watched]
    for view, camera in zip(views, config.guard.cameras, strict=True):
        view.camera = camera
    return views


def preview(config: Config, file: Path, out: Path, limit_s: float) -> list[View]:
    """Run every camera until all views are learnt and LOOK_S longer, or for `limit_s`; write `<out>/<name>.png`."""
    views = drawable(config, file)
    cv2.setNumThreads(1)
    track, arm = ArmTrack(1 / config.guard.fps), BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix)

    def hear_arm() -> None:
        status = arm.latest()
        if status is not None:
            track.add(status.data)

    now = time.monotonic()
    end, learnt_s = now + limit_s, 0.0
    try:
        while now < end and not (learnt_s and now > learnt_s + LOOK_S):
            select.select([fd for view in views for fd in view.program.fds], [], [], 0.02)
            for view in views:
                view.look(time.monotonic_ns(), track, hear_arm)
            now = time.monotonic()
            ready = all(not v.program.lost and v.finding.state is not ViewState.LEARNING for v in views)
            learnt_s = (learnt_s or now) if ready else 0.0
        out.mkdir(parents=True, exist_ok=True)
        for view in views:
            Image.fromarray(draw(view)).save(out / f"{view.camera.name}.png")
    finally:
        for view in views:
            view.program.stop()
    return views


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m wardarm.guard.preview", description="What guard sees, as pictures."
    )
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    parser.add_argument("--out", type=Path, required=True, help="folder for one PNG a view")
    parser.add_argument("--seconds", type=float, default=30.0, help="give up on a view that is not learnt by then")
    args = parser.parse_args()
    try:
        views = preview(configuration.load(args.config), Path(args.config), args.out, args.seconds)
    except ConfigError as e:
        print(e, file=sys.stderr)
        return 2
    for view in views:
        print(f"{args.out / view.camera.name}.png  {caption(view)}")
    learnt = all(not v.program.lost and v.finding.state is not ViewState.LEARNING for v in views)
    return 0 if learnt else 1


if __name__ == "__main__":
    sys.exit(main())
