"""The rendered room with nobody in it while the arm works: does guard hold it? A part of `wardarm bench guard`.

The three room views of the desk's configuration, drawn as process `views` draws them (meshes, lamps, sensor noise, a lamp
that flickers by 5 %), one detector each, our own arm left out by its joint angles. The arm goes from pose to pose at the
profile's speed. Frames have their own time: ten minutes of them take as long as drawing them takes.

    python -m wardarm.sim.empty_room --seconds 600 --json
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Iterator
from itertools import cycle, pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm import config as configuration
from wardarm.guard.detector import Detector, ViewState, work_size
from wardarm.guard.silhouette import ArmPose, Silhouette
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.sim import robot, scenes
from wardarm.sim.pictures import PictureReader
from wardarm.sim.views import Views

CARRY_M = (  # TCP places of a fetch: home, over the table, down to a cup, up, to the leaf, down, home
    (0.30, 0.0, 0.42), (0.45, -0.30, 0.34), (0.45, -0.30, 0.12), (0.45, -0.30, 0.34), (0.48, 0.50, 0.34),
    (0.48, 0.50, 0.20), (0.48, 0.50, 0.34), (0.40, -0.10, 0.15), (0.40, -0.10, 0.40),
)  # fmt: skip
FLICKER = 0.05


def work(step_m: float, arm: configuration.Arm) -> Iterator[NDArray[np.float64]]:
    """Joint angles, one a frame, for ever."""
    solve, q = Kinematics(arm), np.array(robot.HOME_Q_RAD)
    for start, end in pairwise(cycle(CARRY_M)):
        span = np.subtract(end, start)
        for part in np.linspace(0, 1, max(2, int(np.linalg.norm(span) / step_m)))[1:]:
            q = solve.solve(TcpPose(start + part * span, np.zeros(3)), q)
            yield q


def run(seconds: float) -> dict[str, Any]:
    """Raises NoRenderer."""
    cv2.setNumThreads(1)
    config = configuration.load("desk")
    guard = config.guard
    prefix = f"empty{secrets.token_hex(4)}_"
    views = Views(prefix)
    try:
        views.world.load(scenes.demo_scene(7))
        views.draw_rooms(1)
        pictures = {c.name: PictureReader(prefix, f"room_{c.name}") for c in guard.cameras}
        silhouettes = {c.name: Silhouette(config.arm, guard, c, work_size(guard)) for c in guard.cameras}
        detectors = {c.name: Detector(guard, c) for c in guard.cameras}
        holds = dict.fromkeys(detectors, 0)
        largest = dict.fromkeys(detectors, 0.0)
        before = np.array(robot.HOME_Q_RAD)
        for number, q in enumerate(work(config.limits.tcp_m_s / guard.fps, config.arm)):
            if number >= seconds * guard.fps + guard.warmup_frames:
                break
            learning = any(d.state is ViewState.LEARNING for d in detectors.values())
            shown = np.array(robot.HOME_Q_RAD) if learning else q
            views.world.set_arm(shown)
            views.world.set_light(1.0 if learning else 1 + FLICKER * float(np.sin(0.7 * number)))
            views.draw_rooms(number + 2)
            for name, detector in detectors.items():
                picture = pictures[name].latest()
                if picture is None:
                    raise RuntimeError(f"no picture of view {name}")
                mask = silhouettes[name].mask([ArmPose(1, before, False), ArmPose(2, shown, False)])
                was = detector.state
                found = detector.update(picture.pixels.reshape(guard.height, guard.width), mask, minute=0)
                holds[name] += was is ViewState.CLEAR and found.state is not ViewState.CLEAR
                largest[name] = max(largest[name], found.zone_percent)
            before = shown
        return {
            "seconds": seconds, "fps": guard.fps, "frames": (number - guard.warmup_frames) * len(detectors), "holds": sum(holds.values()),
            "holds_by_view": holds, "largest_in_zone_percent": {n: round(v, 3) for n, v in largest.items()},
            "smallest_that_counts_percent": guard.min_area_percent, "simulated": True,
        }  # fmt: skip
    finally:
        views.close()


def main() -> int:
    from wardarm.sim.renderer import NoRenderer

    os.environ.setdefault("MUJOCO_GL", "egl")
    parser = argparse.ArgumentParser(
        prog="python -m wardarm.sim.empty_room", description="an empty room, an arm at work"
    )
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    args = parser.parse_args()
    try:
        figures = run(args.seconds)
    except NoRenderer as e:
        print(e, file=sys.stderr)
        return 1
    print(json.dumps(figures) if args.json else json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
