"""Where our own arm is in a room view: capsules round the links, from the joint angles the controller reports,
projected into the camera. Generous on purpose (MARGIN_M, a time window): the price is that somebody exactly behind
the arm is seen only where they stand out from it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm, ConfigError, Guard, RoomCamera
from wardarm.kinematics import Kinematics
from wardarm.shm.layouts import ArmState, Holding

Floats = NDArray[np.float64]

# UR5e: tube and joint-housing radii from its outline drawing, rounded up to 5 mm; lateral offsets of the two tubes.
BASE_RADIUS_M = 0.080
UPPER_ARM_RADIUS_M = 0.075
FOREARM_RADIUS_M = 0.065
WRIST_RADIUS_M = 0.055
UPPER_ARM_OFFSET_M = 0.138
FOREARM_OFFSET_M = 0.007
HOUSING_M = 0.065  # a joint housing reaches this far beyond its axis
GRIPPER_RADIUS_M = 0.085  # half of a two-finger gripper's width, fingers open
FINGER_BEYOND_TCP_M = 0.03
HELD_RADIUS_M = 0.14  # a held bottle or cup in any attitude, about the TCP
MARGIN_M = 0.03  # dress pack, calibration of the camera's place, what capsules leave out
NEAR_M = 0.10  # closer to the lens than this nothing is projected
RIM_POINTS = 16
WINDOW_S = 0.15  # exposure to arrival, on top of one frame period
HISTORY_S = 2.0
SAME_POSE_RAD = 0.004
POSES_A_FRAME = 4


@dataclass(frozen=True)
class ArmPose:
    """Joint angles `q_rad` (6,) at `stamp_ns` (CLOCK_MONOTONIC)."""

    stamp_ns: int
    q_rad: Floats
    holding: bool


def capsules(kinematics: Kinematics, pose: ArmPose) -> tuple[Floats, Floats]:
    """Segment ends (n, 2, 3) in the base frame and radii (n,), metres, margin included."""
    t = np.stack(kinematics.frames(pose.q_rad))  # DH frames 0..6, then the TCP
    p, z = t[:, :3, 3], t[:, :3, 2]
    shoulder, elbow, wrist = p[1] + UPPER_ARM_OFFSET_M * z[1], p[2] + UPPER_ARM_OFFSET_M * z[2], p[3]
    fore_a, fore_b = p[2] + FOREARM_OFFSET_M * z[2], wrist + FOREARM_OFFSET_M * z[2]
    tcp = p[7]
    approach = (tcp - p[6]) / max(1e-9, float(np.linalg.norm(tcp - p[6])))
    rows: list[tuple[Floats, Floats, float]] = [
        (p[0], p[1], BASE_RADIUS_M),
        (p[1] - HOUSING_M * z[1], shoulder + HOUSING_M * z[1], UPPER_ARM_RADIUS_M),
        (shoulder, elbow, UPPER_ARM_RADIUS_M),
        (fore_a - HOUSING_M * z[2], elbow + HOUSING_M * z[2], FOREARM_RADIUS_M),
        (fore_a, fore_b, FOREARM_RADIUS_M),
        (fore_b - HOUSING_M * z[2], p[4] + HOUSING_M * z[3], WRIST_RADIUS_M),
        (p[4], p[5] + HOUSING_M * z[4], WRIST_RADIUS_M),
        (p[5], p[6], WRIST_RADIUS_M),
        (p[6], tcp + FINGER_BEYOND_TCP_M * approach, GRIPPER_RADIUS_M),
    ]
    if pose.holding:
        rows.append((tcp, tcp, HELD_RADIUS_M))
    return np.array([row[:2] for row in rows]), np.array([row[2] for row in rows]) + MARGIN_M


class Silhouette:
    """Projects the arm into one view; a pinhole with its principal point in the middle."""

    def __init__(self, arm: Arm, guard: Guard, camera: RoomCamera, size: tuple[int, int]) -> None:
        """`size`: width and height of the masks. Raises ConfigError for a camera that looks straight up or down
        along its own position."""
        self.kinematics, self.size = Kinematics(arm), size
        self.lamps, self.shadow_z = np.array(guard.lamps, np.float64).reshape(-1, 3), guard.shadow_z
        self.position = np.array(camera.camera_pos, np.float64)
        forward = np.array(camera.camera_look, np.float64) - self.position
        distance = float(np.linalg.norm(forward))
        self.placed = distance > 0
        if not self.placed:
            return
        forward /= distance
        right = np.cross(forward, (0, 0, 1))
        if np.linalg.norm(right) < 1e-6:  # straight down or up: the top of the picture is base x, as cameras are hung
            right = np.cross(forward, (1, 0, 0))
        right /= np.linalg.norm(right)
        down, roll = np.cross(forward, right), np.radians(camera.roll_deg)
        right, down = np.cos(roll) * right + np.sin(roll) * down, np.cos(roll) * down - np.sin(roll) * right
        self.axes = np.stack([right, down, forward])  # camera x right, y down, z out
        if abs(size[0] / size[1] - guard.width / guard.height) > 0.02:
            raise ConfigError(f"guard: {size[0]} x {size[1]} has not the shape of {guard.width} x {guard.height}")
        self.focal_px = size[1] / 2 / np.tan(np.radians(camera.fovy_deg) / 2)

    def project(self, points: Floats) -> Floats:
        """(n, 3) base frame, m -> (n, 2) pixels of `size`; points nearer than NEAR_M become NaN."""
        x, y, z = ((points - self.position) @ self.axes.T).T
        depth = np.where(z > NEAR_M, z, np.nan)
        u = self.focal_px * x / depth + self.size[0] / 2
        v = self.focal_px * y / depth + self.size[1] / 2
        return np.stack([u, v], 1)

    def mask(self, poses: list[ArmPose]) -> NDArray[np.uint8]:
        """255 where the arm may be in any of the poses; uint8, (height, width) of `size`."""
        out = np.zeros(self.size[::-1], np.uint8)
        if not poses:
            return out
        ends, radii = self._arm(poses)
        self._fill(out, _rims(self.position, ends.reshape(-1, 3), np.repeat(radii, 2), self.axes[1]), len(radii))
        return out

    def shadow(self, poses: list[ArmPose]) -> NDArray[np.uint8] | None:
        """255 where the arm's shadow may fall on `guard.shadow_z`, from every lamp; None without lamps or poses."""
        if not len(self.lamps) or not poses:
            return None
        out = np.zeros(self.size[::-1], np.uint8)
        ends, radii = self._arm(poses)
        for lamp in self.lamps:
            rims = _rims(lamp, ends.reshape(-1, 3), np.repeat(radii, 2), np.array([1.0, 0.0, 0.0]))
            for height in self.shadow_z:
                below = np.maximum(
                    lamp[2] - rims[..., 2], NEAR_M
                )  # what is at the lamp throws it everywhere: cut there
                way = (lamp[2] - height) / below
                self._fill(out, lamp + (rims - lamp) * np.maximum(way, 1.0)[..., None], len(radii))
        return out

    def _arm(self, poses: list[ArmPose]) -> tuple[Floats, Floats]:
        parts = [capsules(self.kinematics, pose) for pose in poses]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _fill(self, out: NDArray[np.uint8], rims: Floats, count: int) -> None:
        """Each capsule's outline, from the rims of its two ends: (2 * count, RIM_POINTS, 3), base frame."""
        pixels = self.project(rims.reshape(-1, 3)).reshape(count, 2 * RIM_POINTS, 2)
        whole = np.asarray(np.isfinite(pixels).all((1, 2)))
        outline = np.rint(np.clip(np.nan_to_num(pixels), -4000, 4000)).astype(np.int32)
        for i, points in enumerate(outline):
            if not whole[i]:  # part of this capsule is at the lens or behind it
                points = points[np.isfinite(pixels[i]).all(1)]
            if len(points) >= 3:
                cv2.fillConvexPoly(out, cv2.convexHull(points), 255)


def _rims(origin: Floats, centres: Floats, radii: Floats, across: Floats) -> Floats:
    """The circles in which spheres' outlines are seen from `origin`: (n, RIM_POINTS, 3), base frame. `across`: any
    direction that is not the line of sight."""
    ray = centres - origin
    distance = np.maximum(np.linalg.norm(ray, axis=1), radii * 1.01)[:, None]
    ray /= distance
    side = np.cross(ray, across)
    side /= np.maximum(1e-9, np.linalg.norm(side, axis=1))[:, None]
    up = np.cross(side, ray)
    r = radii[:, None]
    middle = centres - ray * r**2 / distance
    rim = r * np.sqrt(1 - (r / distance) ** 2)
    angle = np.linspace(0, 2 * np.pi, RIM_POINTS, endpoint=False)[None, :, None]
    circle = np.cos(angle) * side[:, None] + np.sin(angle) * up[:, None]
    return np.asarray(middle[:, None] + rim[:, None] * circle)


class ArmTrack:
    """The arm's recent poses: a frame is masked with where the arm was when it was exposed, not where it is now."""

    def __init__(self, frame_period_s: float) -> None:
        self.window_ns = int((frame_period_s + WINDOW_S) * 1e9)
        self.poses: deque[ArmPose] = deque()

    def add(self, status: np.void) -> None:
        """`status`: an ArmStatus payload. One that says OFFLINE carries no pose and is left out."""
        stamp = int(status["stamp_ns"])
        if int(status["state"]) == ArmState.OFFLINE or stamp == 0 or not np.isfinite(status["q_rad"]).all():
            return
        if self.poses and self.poses[-1].stamp_ns >= stamp:
            return
        self.poses.append(ArmPose(stamp, np.array(status["q_rad"]), int(status["holding"]) != Holding.NO))
        while len(self.poses) > 1 and self.poses[0].stamp_ns < stamp - HISTORY_S * 1e9:
            self.poses.popleft()

    def during(self, arrival_ns: int) -> list[ArmPose]:
        """Poses between a frame's earliest exposure and its arrival, thinned to what differs, at most POSES_A_FRAME;
        the last one known if nothing newer came (an arm whose status stopped is masked where it was). Empty: unknown."""
        if not self.poses:
            return []
        inside = [p for p in self.poses if arrival_ns - self.window_ns <= p.stamp_ns <= arrival_ns]
        older = [p for p in self.poses if p.stamp_ns < arrival_ns - self.window_ns]
        inside = older[-1:] + inside or [self.poses[0]]
        kept = [inside[0]] + [b for a, b in pairwise(inside) if _differ(a, b)]
        if len(kept) <= POSES_A_FRAME:
            return _distinct(kept)
        picks = np.linspace(0, len(kept) - 1, POSES_A_FRAME).round().astype(int)
        return _distinct([kept[i] for i in picks] + [inside[-1]])


def _differ(a: ArmPose, b: ArmPose) -> bool:
    return a.holding != b.holding or bool(np.abs(a.q_rad - b.q_rad).max() > 1e-5)


def _distinct(poses: list[ArmPose]) -> list[ArmPose]:
    out: list[ArmPose] = []
    for pose in poses:
        if not any(p.holding == pose.holding and np.abs(p.q_rad - pose.q_rad).max() < SAME_POSE_RAD for p in out):
            out.append(pose)
    return out
