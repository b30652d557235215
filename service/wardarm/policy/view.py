"""Where the camera is: a picture brought to the view the policy was trained on, and whether the camera has moved.

Two ways to see that it moved, at rest before a task: the table's plane in the depth picture (height and tilt, whatever
lies on it), and the picture's edges against a reference view (what the plane cannot see: shifts along the table, a turn
about the vertical).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract

Array = NDArray[np.float64]
PLANE_Z_M = 0.03
"""Rectification is exact at this height: the middle of low tableware. A cup's rim, 60 mm higher, is off by 2 mm when the
camera stands 30 mm away."""
MOVED_M, MOVED_RAD = 0.005, math.radians(0.5)
_LOOK_WIDTH = 640
_ECC_STEPS, _ECC_EPSILON = 60, 1e-5
_BLUR = 5
_AGREE_MIN = 0.5
"""Correlation of the edges below which two pictures do not show the same place."""
_TABLE_M = ((0.20, 0.74), (-0.44, 0.44))
_INLIER_M = 0.006
_DEPTH_STRIDE = 8
_MIN_POINTS = 300


@dataclass(frozen=True)
class Pose:
    """`base_T_camera`: the optical centre (m, base) and base_R_camera, x right, y down, z along the axis."""

    position_m: Array
    rotation: Array

    @staticmethod
    def trained() -> Pose:
        return Pose(*contract.camera_pose())


@dataclass(frozen=True)
class Optics:
    """Of a depth camera: 3x3 intrinsics of colour and depth, pixels; where depth's optical centre is in colour's frame
    (rotation 3x3, translation m); metres a unit of the depth picture."""

    k: Array
    depth_k: Array
    depth_rotation: Array
    depth_position_m: Array
    depth_unit_m: float

    def depth_pose(self, pose: Pose) -> Pose:
        """Where depth's optical centre is in the base frame, if colour's is at `pose`."""
        return Pose(pose.position_m + pose.rotation @ self.depth_position_m, pose.rotation @ self.depth_rotation)


@dataclass(frozen=True)
class Moved:
    """How far the camera seems to be from where it should, and by which sign. `seen`: in words."""

    shift_m: float
    turn_rad: float
    seen: str

    @property
    def moved(self) -> bool:
        return self.shift_m > MOVED_M or self.turn_rad > MOVED_RAD


def intrinsics(width: int = contract.IMAGE_WIDTH, height: int = contract.IMAGE_HEIGHT) -> Array:
    """3x3 of the trained view, pixels."""
    focal = 0.5 * height / math.tan(math.radians(contract.CAMERA_FOVY_DEG) / 2)
    return np.array([[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]])


def _onto(k: Array, pose: Pose, z_m: float) -> Array:
    """3x3: (x, y, 1) on the plane at `z_m` (base) -> pixel."""
    r = pose.rotation.T
    return np.asarray(k @ np.column_stack([r[:, 0], r[:, 1], r @ (np.array([0.0, 0.0, z_m]) - pose.position_m)]))


class Rectifier:
    """Draws pictures of a calibrated camera as the trained camera would see them. `k`: its intrinsics, default the D455's
    as in the contract."""

    def __init__(self, pose: Pose, k: Array | None = None) -> None:
        own = intrinsics() if k is None else k
        self._to_own = _onto(own, pose, PLANE_Z_M) @ np.linalg.inv(_onto(intrinsics(), Pose.trained(), PLANE_Z_M))
        self.needed = not np.allclose(self._to_own / self._to_own[2, 2], np.eye(3), atol=1e-6)

    def __call__(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """uint8 720 x 1280 x 3 -> the same from the trained view; itself where nothing is to be done."""
        if not self.needed:
            return image
        import cv2

        size = (contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        warped: Any = cv2.warpPerspective(image, self._to_own, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(warped, np.uint8)


def table_plane(depth_m: NDArray[np.float32], pose: Pose, k: Array | None = None) -> Moved:
    """How far the table in the depth picture (H x W, m, 0 = none) is from z = 0 if the camera stands at `pose`.

    Raises ValueError if too little of the table is seen.
    """
    own = intrinsics(depth_m.shape[1], depth_m.shape[0]) if k is None else k
    v, u = np.mgrid[0 : depth_m.shape[0] : _DEPTH_STRIDE, 0 : depth_m.shape[1] : _DEPTH_STRIDE]
    z = depth_m[v, u].astype(np.float64)
    rays = np.stack([(u - own[0, 2]) / own[0, 0], (v - own[1, 2]) / own[1, 1], np.ones_like(z)], -1)
    points = (rays * z[..., None]) @ pose.rotation.T + pose.position_m
    (x0, x1), (y0, y1) = _TABLE_M
    inside = (z > 0.2) & (points[..., 0] > x0) & (points[..., 0] < x1) & (points[..., 1] > y0) & (points[..., 1] < y1)
    inside &= np.abs(points[..., 2]) < 0.06
    p = points[inside]
    normal, height = np.array([0.0, 0.0, 1.0]), 0.0
    for _ in range(8):
        off = (p - [0.47, 0.0, 0.0]) @ normal - height
        near = p[np.abs(off - np.median(off)) < _INLIER_M] if len(p) else p
        if len(near) < _MIN_POINTS:
            raise ValueError(
                f"only {len(near)} depth points on the table, {_MIN_POINTS} are needed: clear the table or clean the lens"
            )
        a = np.column_stack([near[:, 0] - 0.47, near[:, 1], np.ones(len(near))])
        (sx, sy, c), *_ = np.linalg.lstsq(a, near[:, 2], rcond=None)
        normal = np.array([-sx, -sy, 1.0]) / math.sqrt(sx * sx + sy * sy + 1)
        height = float(c * normal[2])
    tilt = float(math.acos(min(1.0, normal[2])))
    return Moved(
        abs(height),
        tilt,
        f"the table is {height * 1e3:+.1f} mm and {math.degrees(tilt):.2f} deg off",
    )


class ReferenceView:
    """The picture of the empty-handed arm at home when the camera was calibrated, to compare later ones with."""

    def __init__(self, image: NDArray[np.uint8]) -> None:
        self._scale = _LOOK_WIDTH / image.shape[1]
        self._edges = self._look(image)
        k = intrinsics(_LOOK_WIDTH, round(image.shape[0] * self._scale))
        self._to_pixel = _onto(k, Pose.trained(), 0.0)
        (x0, x1), (y0, y1) = _TABLE_M
        grid = np.stack(np.meshgrid(np.linspace(x0, x1, 5), np.linspace(y0, y1, 5)), -1).reshape(-1, 2)
        self._table = np.column_stack([grid, np.ones(len(grid))])
        self._focal = float(k[0, 0])

    def _look(self, image: NDArray[np.uint8]) -> NDArray[np.float32]:
        import cv2

        small = cv2.resize(image, None, fx=self._scale, fy=self._scale, interpolation=cv2.INTER_AREA)
        grey = cv2.GaussianBlur(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), (_BLUR, _BLUR), 0).astype(np.float32)
        steep = cv2.magnitude(cv2.Sobel(grey, cv2.CV_32F, 1, 0), cv2.Sobel(grey, cv2.CV_32F, 0, 1))
        return np.asarray(np.minimum(steep / (float(np.quantile(steep, 0.98)) + 1e-6), 1.0), np.float32)

    def compare(self, image: NDArray[np.uint8]) -> Moved:
        """Largest displacement of the table top in the picture, as mm on the table and as an angle at the camera."""
        import cv2

        edges = self._look(image)
        warp = np.eye(3, dtype=np.float32)
        criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, _ECC_STEPS, _ECC_EPSILON)
        try:
            agree, warp = cv2.findTransformECC(self._edges, edges, warp, cv2.MOTION_HOMOGRAPHY, criteria, None, _BLUR)
        except cv2.error:
            agree = 0.0
        if agree < _AGREE_MIN:
            return Moved(
                math.inf, math.inf, f"the picture does not resemble the reference view (agreement {agree:.2f})"
            )
        before = self._table @ self._to_pixel.T
        pixel = before / before[:, 2:]
        after = pixel @ warp.T.astype(np.float64)
        after /= after[:, 2:]
        back = after @ np.linalg.inv(self._to_pixel).T
        metres = np.linalg.norm(back[:, :2] / back[:, 2:] - self._table[:, :2], axis=1)
        shift, turn = (
            float(np.median(metres)),
            float(np.median(np.linalg.norm((after - pixel)[:, :2], axis=1))) / self._focal,
        )
        return Moved(
            shift, turn, f"its edges are {shift * 1e3:.1f} mm off ({math.degrees(turn):.2f} deg at the camera)"
        )
