"""`wardarm calibrate room NAME`: where a room camera hangs in the robot's base frame, from what it sees.

Two ways, both with printed ArUco markers (dictionary 4x4, 50):

- **on the gripper**: one marker that the arm carries to at least MIN_POINTS places by the pendant; each time the arm stands
  still the middle of the marker and the TCP that the controller reports are taken as a pair. No measuring tape at all.
- **in the room**: markers at measured places, in a TOML file:

      [[marker]]
      id = 3
      size_m = 0.15                     # edge of the black square
      pos = [0.62, -0.40, 0.001]        # its middle, base frame, m
      rpy_deg = [0, 0, 90]              # from "lying on the table, its top towards +y": Rz(yaw) Ry(pitch) Rx(roll)

Out: `camera_pos`, `camera_look`, `roll_deg`, `fovy_deg` for the configuration, and the error in pixels. Above the limit
nothing is printed to copy: a wrong place would mask a person and show the arm. The lens is taken as one without
distortion, its axis in the middle of the picture, as the masks are.
"""

from __future__ import annotations

import select
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from wardarm.config import Config, ConfigError, RoomCamera
from wardarm.gate.words import BlockWatch
from wardarm.guard.camera import CameraProgram
from wardarm.kinematics import Kinematics
from wardarm.shm.layouts import BlockKind

Floats = NDArray[np.float64]
Grey = NDArray[np.uint8]
MIN_POINTS = 6
LIMIT_PX = 3.0  # root mean square at 640 pixels of width: about 2 cm at 3 m, less than the mask's margin
SPREAD_MIN = 0.12  # of the frame's width: points closer together say nothing about the lens
STILL_S, APART_M = 0.6, 0.05
_FOVS_DEG = np.arange(25.0, 111.0, 5.0)


class NotCalibrated(ValueError):
    """No place that can be relied on; the text says why and what to do."""


@dataclass(frozen=True)
class Pair:
    """A point of the base frame, m, and where the camera sees it, pixels."""

    point: tuple[float, float, float]
    pixel: tuple[float, float]


@dataclass(frozen=True)
class Place:
    """What the configuration needs, and how well it fits: root mean square and largest error, pixels."""

    camera_pos: tuple[float, float, float]
    camera_look: tuple[float, float, float]
    roll_deg: float
    fovy_deg: float
    rms_px: float
    max_px: float
    pairs: int

    def toml(self) -> str:
        """Lines to copy into `[[guard.cameras]]`."""
        pos, look = ([round(v, 3) for v in p] for p in (self.camera_pos, self.camera_look))
        return f"camera_pos = {pos}\ncamera_look = {look}\nroll_deg = {self.roll_deg:.2f}\nfovy_deg = {self.fovy_deg:.1f}\n"


def find_markers(grey: Grey) -> dict[int, Floats]:
    """Marker number -> its corners (4, 2) in pixels, from the top left, clockwise."""
    parameters = cv2.aruco.DetectorParameters()
    parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    detector = cv2.aruco.ArucoDetector(cv2.aruco.getPredefinedDictionary(cv2.aruco.DICT_4X4_50), parameters)
    corners, ids, _ = detector.detectMarkers(grey)
    return (
        {} if ids is None else {int(i): np.asarray(c[0], np.float64) for i, c in zip(ids.ravel(), corners, strict=True)}
    )


def measured_markers(file: Path) -> dict[int, Floats]:
    """Marker number -> its corners (4, 3) in the base frame, m. Raises NotCalibrated."""
    try:
        rows = tomllib.loads(file.read_text("utf-8"))["marker"]
        out = {}
        for row in rows:
            half = float(row["size_m"]) / 2
            flat = np.array([[-half, half, 0], [half, half, 0], [half, -half, 0], [-half, -half, 0]])
            roll, pitch, yaw = np.radians(row.get("rpy_deg", (0, 0, 0)))
            turn = (
                cv2.Rodrigues(np.array([0, 0, yaw]))[0]
                @ cv2.Rodrigues(np.array([0, pitch, 0]))[0]
                @ cv2.Rodrigues(np.array([roll, 0, 0]))[0]
            )
            out[int(row["id"])] = flat @ turn.T + np.array(row["pos"], float)
        return out
    except (OSError, KeyError, TypeError, ValueError, tomllib.TOMLDecodeError) as e:
        raise NotCalibrated(f"{file}: {type(e).__name__}: {e}; see 'wardarm calibrate room --help' for its form") from e


def solve(pairs: Sequence[Pair], width: int, height: int, limit_px: float = LIMIT_PX) -> Place:
    """The camera's place from at least MIN_POINTS pairs. Raises NotCalibrated."""
    if len(pairs) < MIN_POINTS:
        raise NotCalibrated(f"{len(pairs)} points; at least {MIN_POINTS} are needed, not all in one plane if possible")
    points, pixels = np.array([p.point for p in pairs], float), np.array([p.pixel for p in pairs], float)
    spread = float(np.linalg.norm(pixels.max(0) - pixels.min(0))) / width
    if spread < SPREAD_MIN:
        raise NotCalibrated(
            f"the points span {100 * spread:.0f} % of the picture; spread them over {100 * SPREAD_MIN:.0f} % or more"
        )
    middle = np.array([width / 2, height / 2])
    best: tuple[float, Floats] | None = None
    for fov in _FOVS_DEG:
        focal = height / 2 / np.tan(np.radians(fov) / 2)
        matrix = np.array([[focal, 0, middle[0]], [0, focal, middle[1]], [0, 0, 1]])
        found, turn, shift = cv2.solvePnP(points, pixels, matrix, None, flags=cv2.SOLVEPNP_SQPNP)
        if not found:
            continue
        start = np.concatenate([turn.ravel(), shift.ravel(), [np.log(focal)]])
        error = float(np.square(_errors(start, points, pixels, middle)).mean())
        if best is None or error < best[0]:
            best = (error, start)
    if best is None:
        raise NotCalibrated("no place explains these points; are the marker's offset and the robot's base right?")
    fit = least_squares(_errors, best[1], args=(points, pixels, middle), loss="linear").x
    errors = np.linalg.norm(_errors(fit, points, pixels, middle).reshape(-1, 2), axis=1)
    rms, limit = float(np.sqrt(np.mean(errors**2))), limit_px * width / 640
    if rms > limit:
        worst = int(errors.argmax())
        raise NotCalibrated(
            f"the points do not fit one camera: {rms:.1f} px (limit {limit:.1f}); the worst is point {worst + 1} at "
            f"{np.round(points[worst], 3).tolist()} m, {errors[worst]:.1f} px off. Measure again, or straighten a wide lens"
        )
    return _place(fit, points, height, rms, float(errors.max()))


def _errors(x: Floats, points: Floats, pixels: Floats, middle: Floats) -> Floats:
    seen = points @ cv2.Rodrigues(x[:3])[0].T + x[3:6]
    depth = np.maximum(seen[:, 2:], 1e-3)
    return np.asarray((np.exp(x[6]) * seen[:, :2] / depth + middle - pixels).ravel())


def _place(x: Floats, points: Floats, height: int, rms: float, largest: float) -> Place:
    axes = cv2.Rodrigues(x[:3])[0]  # rows: right, down, forward in the base frame
    position = -axes.T @ x[3:6]
    forward = axes[2]
    look = position + forward * float(np.mean((points - position) @ forward))
    level = np.cross(forward, (0, 0, 1))
    level /= np.linalg.norm(level)
    roll = np.degrees(np.arctan2(axes[0] @ np.cross(forward, level), axes[0] @ level))
    fovy = float(np.degrees(2 * np.arctan(height / 2 / np.exp(x[6]))))
    to = [tuple(float(v) for v in p) for p in (position, look)]
    return Place(to[0], to[1], float(roll), fovy, rms, largest, len(points))  # type: ignore[arg-type]


def collect(
    config: Config, file: Path, camera: RoomCamera, markers: dict[int, Floats], on_gripper: int | None,
    offset_m: Sequence[float], wanted: int, limit_s: float, say: Callable[[str], None],
) -> list[Pair]:  # fmt: skip
    """Run the camera and take pairs: all measured markers once, or the gripper's marker at `wanted` places."""
    program = CameraProgram(camera, config.guard, file)
    arm, kinematics = BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix), Kinematics(config.arm)
    pairs: list[Pair] = []
    taken: list[Floats] = []
    rest_since = 0.0
    end = time.monotonic() + limit_s
    try:
        while time.monotonic() < end:
            select.select(program.fds, [], [], 0.05)
            frame = program.poll(time.monotonic_ns())
            if frame is None:
                continue
            seen = find_markers(frame.grey)
            if on_gripper is None:
                known = [i for i in seen if i in markers]
                if len(known) == len(markers) or (known and time.monotonic() > end - limit_s / 2):
                    return [Pair(tuple(p), tuple(c)) for i in known for p, c in zip(markers[i], seen[i], strict=True)]
                continue
            slot = arm.latest()
            if slot is None or slot.age_s > 0.5 or not slot.data["at_rest"]:
                rest_since = 0.0
                continue
            rest_since = rest_since or time.monotonic()
            frames = kinematics.frames(np.array(slot.data["q_rad"]))
            point = (frames[7] @ np.array([*offset_m, 1.0]))[:3]
            if time.monotonic() - rest_since < STILL_S or on_gripper not in seen:
                continue
            if all(np.linalg.norm(point - t) > APART_M for t in taken):
                taken.append(point)
                pairs.append(Pair(tuple(point), tuple(seen[on_gripper].mean(0))))
                say(f"place {len(pairs)} of {wanted}: {np.round(point, 3).tolist()} m; move the arm to another place")
                if len(pairs) >= wanted:
                    return pairs
    finally:
        program.stop()
    if program.lost:
        raise NotCalibrated(f"{camera.name}: {program.fault}")
    return pairs


def the_camera(config: Config, name: str) -> RoomCamera:
    """Raises ConfigError naming the cameras there are."""
    for camera in config.guard.cameras:
        if camera.name == name:
            return camera
    raise ConfigError(
        f"{name!r}: the configuration has {', '.join(c.name for c in config.guard.cameras) or 'no camera'}"
    )
