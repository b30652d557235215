"""What goes into the policy and what comes out: names, shapes, units and frames, in one place.

The exporter, both model configurations, `eye` and the simulated scenes take every such number from here; a test
holds them equal. `python -m wardarm.policy.contract` prints it with units.

Frames: base is the UR5e's own base frame (DH frame 0), metres. An orientation is
`R = Rz(yaw) Ry(pitch) Rx(roll) TOOL_DOWN`, rotations about base axes, so roll = pitch = yaw = 0 is the gripper
pointing straight down.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

VERSION = 1
MODEL = "groot_n15"
MAX_BATCH = 4
HORIZON = 64  # points of a chunk
RATE_HZ = 20.0  # 63 intervals = 3.15 s
TOKENS = 128
IMAGE_HEIGHT, IMAGE_WIDTH = 720, 1280
CHUNK_S = (HORIZON - 1) / RATE_HZ

# The model's box, base frame, m: -1 is LOW and +1 is HIGH.
LOW = (0.0, -0.6, -0.05)
HIGH = (1.0, 0.6, 0.75)
ANGLE_SCALE_RAD = math.pi  # an angle of +-1 is +-180 degrees
TOOL_DOWN = ((0.0, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, -1.0))  # rows; base_R_tcp with the gripper straight down
HAND_OVER_M = (0.48, 0.50, 0.34)  # where the policy carries what it fetched; tool-down
# The view it was trained on: the camera's optical centre and the point its axis passes through, base frame, m.
CAMERA_POSITION_M = (1.08, 0.0, 0.74)
CAMERA_LOOK_AT_M = (0.46, 0.0, 0.03)
CAMERA_FOVY_DEG = 58.0
# The planned state is this far ahead of the frame in training.
DELAY_MIN_S, DELAY_MAX_S = 0.1, 0.6
# An opening below / above counts as closed / open. The policy's closing and opening both take 0.5 s.
GRIP_CLOSED, GRIP_OPEN = 0.06, 0.94


@dataclass(frozen=True)
class Tensor:
    """`shape` is without the batch dimension; `triton` is the type's name there."""

    name: str
    triton: str
    shape: tuple[int, ...]
    meaning: str

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype({"UINT8": np.uint8, "INT32": np.int32, "FP32": np.float32, "FP16": np.float16}[self.triton])

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def description(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.triton, "shape": list(self.shape), "meaning": self.meaning}


INPUTS = (
    Tensor("image", "UINT8", (IMAGE_HEIGHT, IMAGE_WIDTH, 3), "D455 colour, RGB, rectified to the trained view"),
    Tensor("input_ids", "INT32", (TOKENS,), "tokens of one step's normalised instruction, then zeros"),
    Tensor("attention_mask", "INT32", (TOKENS,), "1 where input_ids is a token"),
    Tensor(
        "robot_state", "FP32", (8,),
        "planned state at the join time: TCP x y z (m, base), rotation vector (rad), opening 0..1, holding 0/1",
    ),
)  # fmt: skip
OUTPUTS = (
    Tensor(
        "output_traj", "FP16", (HORIZON, 6),
        "x y z roll pitch yaw, normalised to [-1, 1]; 20 Hz, point 0 at the join time",
    ),
    Tensor("output_grip", "FP16", (HORIZON,), "gripper opening, 0 closed .. 1 open"),
    Tensor("output_valid", "FP16", (1,), "probability that the instruction names something that is there; ask at home"),
    Tensor("output_done", "FP16", (1,), "probability that the step is finished; only with gripper and arm agreeing"),
)  # fmt: skip


def normalise(points: Array) -> Array:
    """x y z (m) roll pitch yaw (rad), shape (..., 6) -> the model's numbers in [-1, 1] (not clipped)."""
    low, high = np.asarray(LOW), np.asarray(HIGH)
    return np.concatenate([(points[..., :3] - low) / (high - low) * 2 - 1, points[..., 3:6] / ANGLE_SCALE_RAD], -1)


def denormalise(values: NDArray[Any]) -> Array:
    """The inverse of `normalise`: shape (..., 6) in [-1, 1] -> m and rad, float64."""
    v = np.asarray(values, np.float64)
    low, high = np.asarray(LOW), np.asarray(HIGH)
    return np.concatenate([(v[..., :3] + 1) / 2 * (high - low) + low, v[..., 3:6] * ANGLE_SCALE_RAD], -1)


def rotation_from_rpy(rpy_rad: Array) -> Array:
    """roll pitch yaw relative to tool-down -> base_R_tcp, 3x3."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy_rad), np.sin(rpy_rad)
    relative: Array = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    return np.asarray(relative @ np.asarray(TOOL_DOWN))


def rpy_from_rotation(rotation: Array) -> Array:
    """base_R_tcp, 3x3 -> roll pitch yaw (rad) relative to tool-down; pitch in [-pi/2, pi/2]."""
    r = rotation @ np.asarray(TOOL_DOWN).T
    return np.array(
        [math.atan2(r[2, 1], r[2, 2]), math.asin(min(1.0, max(-1.0, -r[2, 0]))), math.atan2(r[1, 0], r[0, 0])]
    )


def rotation_from_rotvec(rotvec_rad: Array) -> Array:
    """Rotation vector (rad) -> 3x3 (Rodrigues)."""
    angle = float(np.linalg.norm(rotvec_rad))
    if angle < 1e-12:
        return np.eye(3)
    x, y, z = rotvec_rad / angle
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + math.sin(angle) * k + (1 - math.cos(angle)) * (k @ k))


def rotvec_from_rotation(rotation: Array) -> Array:
    """3x3 -> rotation vector (rad), angle in [0, pi].

    Tool-down is a turn by pi, where the vector and its negative are the same rotation: within 0.02 rad of pi the
    sign with the largest component positive is taken. The graph converts to 6D first, so either sign serves.
    """
    r = rotation
    # quaternion by the largest of w, x, y, z: exact at an angle of pi, where the antisymmetric part vanishes
    squares = np.array(
        [1 + r[0, 0] + r[1, 1] + r[2, 2], 1 + r[0, 0] - r[1, 1] - r[2, 2],
         1 - r[0, 0] + r[1, 1] - r[2, 2], 1 - r[0, 0] - r[1, 1] + r[2, 2]]
    )  # fmt: skip
    i = int(np.argmax(squares))
    n = 2 * math.sqrt(squares[i])
    w, x, y, z = (
        (n / 4, (r[2, 1] - r[1, 2]) / n, (r[0, 2] - r[2, 0]) / n, (r[1, 0] - r[0, 1]) / n),
        ((r[2, 1] - r[1, 2]) / n, n / 4, (r[0, 1] + r[1, 0]) / n, (r[0, 2] + r[2, 0]) / n),
        ((r[0, 2] - r[2, 0]) / n, (r[0, 1] + r[1, 0]) / n, n / 4, (r[1, 2] + r[2, 1]) / n),
        ((r[1, 0] - r[0, 1]) / n, (r[0, 2] + r[2, 0]) / n, (r[1, 2] + r[2, 1]) / n, n / 4),
    )[i]
    if w < 0:
        w, x, y, z = -w, -x, -y, -z
    axis = np.array([x, y, z])
    s = float(np.linalg.norm(axis))
    if s < 1e-12:
        return np.zeros(3)
    angle = 2 * math.atan2(s, w)
    vector = axis / s * angle
    if angle > math.pi - 0.02 and vector[np.argmax(np.abs(vector))] < 0:
        vector = -axis / s * (2 * math.pi - angle)
    return np.asarray(vector)


def robot_state(xyz_m: Array, rpy_rad: Array, opening: float, holding: bool) -> NDArray[np.float32]:
    """The input `robot_state`, shape (8,), FP32, from a TCP position, angles relative to tool-down and the fingers."""
    rotvec = rotvec_from_rotation(rotation_from_rpy(rpy_rad))
    return np.concatenate([xyz_m, rotvec, [opening, float(holding)]]).astype(np.float32)


def snap_grip(opening: float) -> float:
    """An opening as the fingers understand it: nearly closed is closed, nearly open is open."""
    return 0.0 if opening < GRIP_CLOSED else 1.0 if opening > GRIP_OPEN else float(opening)


def camera_pose() -> tuple[Array, Array]:
    """(position (m), base_R_camera with x right, y down, z along the optical axis) of the trained view."""
    position = np.asarray(CAMERA_POSITION_M)
    z = np.asarray(CAMERA_LOOK_AT_M) - position
    z /= np.linalg.norm(z)
    x = np.cross(z, [0.0, 0.0, 1.0])
    x /= np.linalg.norm(x)
    return position, np.stack([x, np.cross(z, x), z], 1)


def description() -> dict[str, Any]:
    """The whole contract as plain data: what the hash is taken over and what is printed."""
    return {
        "version": VERSION,
        "model": MODEL,
        "max_batch": MAX_BATCH,
        "inputs": [t.description() for t in INPUTS],
        "outputs": [t.description() for t in OUTPUTS],
        "horizon_points": HORIZON,
        "rate_hz": RATE_HZ,
        "box_low_m": list(LOW),
        "box_high_m": list(HIGH),
        "angle_scale_rad": ANGLE_SCALE_RAD,
        "orientation": "R = Rz(yaw) Ry(pitch) Rx(roll) tool_down, rotations about base axes",
        "tool_down_rows": [list(row) for row in TOOL_DOWN],
        "hand_over_m": list(HAND_OVER_M),
        "camera_position_m": list(CAMERA_POSITION_M),
        "camera_look_at_m": list(CAMERA_LOOK_AT_M),
        "camera_fovy_deg": CAMERA_FOVY_DEG,
        "delay_s": [DELAY_MIN_S, DELAY_MAX_S],
        "grip_closed_below": GRIP_CLOSED,
        "grip_open_above": GRIP_OPEN,
    }


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def contract_sha256() -> str:
    """Over everything but the explanatory texts: a better wording is not another contract."""
    data = description()
    for t in (*data["inputs"], *data["outputs"]):
        del t["meaning"]
    return _digest(data)


def box_sha256() -> str:
    return _digest([list(LOW), list(HIGH), ANGLE_SCALE_RAD, [list(row) for row in TOOL_DOWN]])


def parameters(tokenizer: Path) -> dict[str, str]:
    """What a model configuration must carry in `parameters`; `eye` refuses a server that says otherwise."""
    return {
        "contract_sha256": contract_sha256(),
        "tokenizer_sha256": hashlib.sha256(tokenizer.read_bytes()).hexdigest(),
        "box_sha256": box_sha256(),
    }


def main() -> None:
    print(json.dumps(description() | {"contract_sha256": contract_sha256(), "box_sha256": box_sha256()}, indent=2))


if __name__ == "__main__":
    main()
