"""One picture a room view, as guard sees it: the zone, where it expects our own arm, what it found.

    python -m wardarm.guard.preview --config FILE --out DIR

Look at these before the first motion and after every change in the room. Green: keep-out zone; yellow: warn; grey:
authorised; black: mask. Blue: where our own arm may be, left out. Red: what was not there when the view was learnt. A camera that serves one program at a time (CSI,
most V4L2) needs guard stopped first.
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

from wardarm import config as configuration
from wardarm.config import Config, ConfigError
from wardarm.gate.words import BlockWatch
from wardarm.guard import zones
from wardarm.guard.detector import ViewState
from wardarm.guard.main import View, check
from wardarm.guard.silhouette import ArmTrack
from wardarm.shm.layouts import BlockKind

LOOK_S = 2.0  # after every view is learnt, so that whoever should be seen can be
GREEN, BLUE, RED, WHITE = (80, 220, 80), (255, 160, 40), (60, 60, 255), (255, 255, 255)  # BGR
COLORS = {"keep_out": GREEN, "warn": (40, 200, 240), "authorised": (200, 200, 200), "mask": (20, 20, 20)}


STATE_COLORS = {
    ViewState.CLEAR: GREEN, ViewState.LEARNING: WHITE, ViewState.INTRUDER: RED, ViewState.VIEW_CHANGED: (40, 160, 255),
}  # fmt: skip


def draw(view: View) -> NDArray[np.uint8]:
    """The view's last frame with its overlay, uint8 BGR at guard.width x guard.height."""
    guard = view.detector.guard
    size = (guard.width, guard.height)
    if view.frame is None:
        picture = np.zeros((guard.height, guard.width, 3), np.uint8)
    else:
        picture = np.asarray(cv2.cvtColor(view.frame.grey, cv2.COLOR_GRAY2BGR), np.uint8)
    found = cv2.resize(view.detector.foreground, size, interpolation=cv2.INTER_NEAREST) > 0
    picture[found] = picture[found] // 2 + np.array(RED, np.uint8) // 2
    if view.arm_mask is not None:
        mask = cv2.resize(view.arm_mask, size, interpolation=cv2.INTER_NEAREST)
        outlines, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outlines, -1, BLUE, 1)
    for zone in zones.of(view.camera):
        corners = np.rint(np.array(zone.polygon)).astype(np.int32)
        cv2.polylines(picture, [corners], True, COLORS[zone.kind], 1, cv2.LINE_AA)
        x, y = corners[0]
        label = f"{zone.kind} {zone.name}".strip()
        cv2.putText(
            picture, label, (int(x) + 3, int(y) - 3), cv2.FONT_HERSHEY_SIMPLEX, 0.4, COLORS[zone.kind], 1, cv2.LINE_AA
        )
    for x, y, w, h in view.finding.boxes:
        cv2.rectangle(picture, (x, y), (x + w, y + h), RED, 1)
    colour = RED if view.program.lost else STATE_COLORS[view.finding.state]
    return banner(picture, caption(view), colour)


def banner(picture: NDArray[np.uint8], text: str, colour: tuple[int, int, int]) -> NDArray[np.uint8]:
    """The picture under a dark line of text that begins with a square of the state's colour; what each colour means stands
    below it. In place."""
    height, width = picture.shape[:2]
    scale = max(0.4, min(0.7, width / 1400))
    bar = round(44 * scale)
    for top, bottom in ((0, bar), (height - bar, height)):
        picture[top:bottom] = picture[top:bottom] // 5
    cv2.rectangle(picture, (5, bar // 2 - 5), (15, bar // 2 + 5), colour, -1)
    fits = max(10, int((width - 30) / (17 * scale)))
    cv2.putText(picture, text if len(text) <= fits else f"{text[: fits - 3]}...", (22, bar // 2 + round(10 * scale)),
                cv2.FONT_HERSHEY_SIMPLEX, scale, WHITE, 1, cv2.LINE_AA)  # fmt: skip
    x = 6
    for name, key in (*((k.replace("_", " "), c) for k, c in COLORS.items()), ("our arm", BLUE), ("detected", RED)):
        cv2.putText(picture, name, (x, height - bar // 2 + round(10 * scale)), cv2.FONT_HERSHEY_SIMPLEX, 0.9 * scale,
                    WHITE if name == "mask" else key, 1, cv2.LINE_AA)  # fmt: skip
        x += round((len(name) + 2) * 17 * scale)
    return picture


def caption(view: View) -> str:
    """Name and state in one line."""
    if view.program.lost:
        return f"{view.camera.name}: lost, {view.program.fault}"
    if not view.silhouette.placed:
        mask = "camera_pos not set: our arm is not masked"
    else:
        mask = "our arm masked" if view.arm_mask is not None else "no arm status: our arm is not masked"
    return f"{view.camera.name}: {view.finding.state.value}; {mask}"


def preview(config: Config, file: Path, out: Path, limit_s: float) -> list[View]:
    """Run every camera until all views are learnt and LOOK_S longer, or for `limit_s`; write `<out>/<name>.png`."""
    check(config, file)
    cv2.setNumThreads(1)
    views = [View(config, camera, file) for camera in config.guard.cameras]
    track, arm = ArmTrack(1 / config.guard.fps), BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix)
    now = time.monotonic()
    end, learnt_s = now + limit_s, 0.0
    try:
        while now < end and not (learnt_s and now > learnt_s + LOOK_S):
            select.select([fd for view in views for fd in view.program.fds], [], [], 0.02)
            status = arm.latest()
            if status is not None:
                track.add(status.data)
            for view in views:
                view.look(time.monotonic_ns(), track)
            now = time.monotonic()
            ready = all(not v.program.lost and v.finding.state is not ViewState.LEARNING for v in views)
            learnt_s = (learnt_s or now) if ready else 0.0
        out.mkdir(parents=True, exist_ok=True)
        for view in views:
            cv2.imwrite(str(out / f"{view.camera.name}.png"), draw(view))
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
