"""`wardarm calibrate camera`: where the bedside camera stands in the robot's base frame, and how the table looks from there.

Printed ArUco markers (dictionary 4x4, 50) lie on the table at measured places, in a TOML file as for the room cameras.
The lens is the camera's own (its intrinsics), so the pose alone is searched. Depth, which knows nothing of the markers,
must then find the table at z = 0: a wrong measure, a wrong marker or a bent bracket is refused here and not at the bed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.place import CameraPlace
from wardarm.eye.realsense import RealSense
from wardarm.guard.calibrate import NotCalibrated, find_markers
from wardarm.policy.view import Moved, Optics, Pose, Rectifier, table_plane
from wardarm.shm import ring

LIMIT_PX = 1.5  # root mean square at 1280 pixels of width: 1 mm on the table, from 0.8 m
MARKERS_MIN = 3
FRAMES = 15  # the depth of one picture has holes and noise: the median of so many
MEASURED_M, MEASURED_RAD = 0.030, np.radians(3.0)
"""As far from the trained view the policy was measured to work; further, it is told."""


@dataclass(frozen=True)
class Seen:
    """One look: colour UINT8 RGB H x W x 3; depth float32 H x W, m, 0 = none; the lenses."""

    colour: NDArray[np.uint8]
    depth_m: NDArray[np.float32]
    optics: Optics


def look(config: Config, limit_s: float = 20.0) -> Seen:
    """Open the configured camera, in blocks of this process's own, and look. Raises NotCalibrated."""
    prefix = f"place{os.getpid()}_"
    c = config.camera
    region = FrameRegion(prefix, c.width, c.height, c.slots)
    board = FrameBoard(region, prefix)
    camera = RealSense(config, board)
    depths: list[NDArray[np.uint16]] = []
    colour: NDArray[np.uint8] | None = None
    number, end = 0, time.monotonic() + limit_s
    camera.start()
    try:
        while len(depths) < FRAMES:
            if time.monotonic() > end:
                raise NotCalibrated(
                    camera.error or f"camera '{c.source}': {len(depths)} of {FRAMES} pictures in {limit_s:g} s"
                )
            time.sleep(0.01)
            frame = board.pin_latest()
            if frame is None:
                continue
            if frame.number != number:
                number = frame.number
                colour, depth = region.colour(frame.slot).copy(), region.depth(frame.slot).copy()
                depths.append(depth)
            board.unpin(frame)
    finally:
        camera.stop()
        for block in ring.SHM.glob(f"{prefix}*"):
            block.unlink(missing_ok=True)
    optics = camera.optics
    if colour is None or optics is None or not any(d.any() for d in depths):
        raise NotCalibrated(f"camera '{c.source}': it gives no depth; the table cannot be checked")
    stack = np.where(np.stack(depths) > 0, np.stack(depths).astype(np.float32), np.nan)
    there = np.isfinite(stack).sum(0) * 2 > len(depths)
    middle = np.zeros(there.shape, np.float32)
    middle[there] = np.nanmedian(stack[:, there], axis=0)
    return Seen(colour, middle * np.float32(optics.depth_unit_m), optics)


def pose_from_markers(grey: NDArray[np.uint8], markers: dict[int, NDArray[np.float64]], k: NDArray[np.float64]) -> Pose:
    """From corners (4, 3), m, base frame, by marker number. Raises NotCalibrated."""
    seen = {i: c for i, c in find_markers(grey).items() if i in markers}
    if len(seen) < MARKERS_MIN:
        raise NotCalibrated(
            f"{len(seen)} of the {len(markers)} markers are seen ({sorted(seen) or 'none'}); at least {MARKERS_MIN} are needed: "
            "flat, with a white rim, in the picture, and of dictionary 4x4_50"
        )
    points = np.concatenate([markers[i] for i in seen])
    pixels = np.concatenate([seen[i] for i in seen])
    found, turn, shift = cv2.solvePnP(points, pixels, k, None, flags=cv2.SOLVEPNP_SQPNP)
    if found:
        turn, shift = cv2.solvePnPRefineLM(points, pixels, k, None, turn, shift)
    projected: Any = cv2.projectPoints(points, turn, shift, k, None)[0][:, 0] if found else np.full_like(pixels, np.inf)
    errors = np.linalg.norm(projected - pixels, axis=1)
    rms, limit = float(np.sqrt(np.mean(errors**2))), LIMIT_PX * grey.shape[1] / 1280
    if not rms <= limit:
        worst = list(seen)[int(errors.argmax()) // 4]
        raise NotCalibrated(
            f"the markers do not fit one camera: {rms:.1f} px, limit {limit:.1f}; marker {worst} is off by {errors.max():.1f} px: "
            "measure its place, size and turn again"
        )
    rotation = np.asarray(cv2.Rodrigues(turn)[0]).T
    return Pose(-rotation @ shift.ravel(), rotation)


def from_trained(pose: Pose) -> Moved:
    """How far a pose is from where the model was trained."""
    trained = Pose.trained()
    shift = float(np.linalg.norm(pose.position_m - trained.position_m))
    cosine = (np.trace(trained.rotation.T @ pose.rotation) - 1) / 2
    turn = float(np.arccos(np.clip(cosine, -1, 1)))
    return Moved(shift, turn, f"{shift * 1e3:.0f} mm and {np.degrees(turn):.1f} deg from where the model was trained")


def calibrate(seen: Seen, markers: dict[int, NDArray[np.float64]] | None, say: Callable[[str], None]) -> CameraPlace:
    """The place from one look. `markers` None: the camera stands where the model was trained. Raises NotCalibrated."""
    if markers is None:
        pose = Pose.trained()
    else:
        pose = pose_from_markers(cv2.cvtColor(seen.colour, cv2.COLOR_RGB2GRAY), markers, seen.optics.k)
    try:
        table = table_plane(seen.depth_m, seen.optics.depth_pose(pose), seen.optics.depth_k)
    except ValueError as e:
        raise NotCalibrated(str(e)) from e
    if table.moved:
        raise NotCalibrated(
            f"depth says {table.seen}; is z = 0 the table top, and are the markers where the file says?"
        )
    away = from_trained(pose)
    say(f"camera: {away.seen}; depth: {table.seen}")
    if away.shift_m > MEASURED_M or away.turn_rad > MEASURED_RAD:
        say(
            f"the shipped model was measured up to {MEASURED_M * 1e3:.0f} mm and {np.degrees(MEASURED_RAD):.0f} deg: "
            "mount it nearer, or run wardarm eval with your own model"
        )
    return CameraPlace(pose, seen.optics, Rectifier(pose, seen.optics.k)(seen.colour).copy())
