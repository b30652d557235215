"""Chunks and arms for the postprocessor's tests: an expert-like reach, noise as a policy has it, and the real configuration."""

from __future__ import annotations

import math
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation
from wardarm import _native
from wardarm.arm.params import write_envelope_params, write_planner_params
from wardarm.config import Config
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY

Array = NDArray[np.float64]
LOW, HIGH = np.array([0.0, -0.6, -0.05]), np.array([1.0, 0.6, 0.75])
TOOL_DOWN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
HOME_DEG = np.array([26.4, -62.2, -97.4, -110.5, 90.0, -63.6])  # a branch with the elbow up, tool down at poses.home
WARD, CARRY_LIQUID, PATIENT, FAST = range(4)


def program() -> str:
    """The wardarm-postproc to test: beside the interpreter, on the path, or in build/cpp."""
    built = Path(__file__).parents[1] / "build" / "cpp" / "wardarm-postproc"
    found = shutil.which("wardarm-postproc", path=f"{built.parent}{os.pathsep}{Path(sys.executable).parent}")
    assert found, "wardarm-postproc is not built: cmake --build build/cpp"
    return found


def pose_of(xyz: Array, rpy: Array) -> Array:
    """TCP pose (m, rotation vector) of a point in base, angles (rad) relative to tool-down."""
    turn = Rotation.from_matrix(Rotation.from_euler("xyz", rpy).as_matrix() @ TOOL_DOWN)
    return np.concatenate([xyz, turn.as_rotvec()])


def rpy_of(pose: Array) -> Array:
    return Rotation.from_matrix(Rotation.from_rotvec(pose[3:]).as_matrix() @ TOOL_DOWN.T).as_euler("xyz")


def raw_chunk(points: Array, grip: Array, profile: int = WARD, chunk_id: int = 1) -> np.void:
    """A RawChunk of 64 rows x y z (m) roll pitch yaw (rad)."""
    chunk = np.zeros((), RAW_CHUNK)
    chunk["id"], chunk["profile"] = chunk_id, profile
    rows = np.concatenate([(points[:, :3] - LOW) / (HIGH - LOW) * 2 - 1, points[:, 3:] / math.pi], axis=1)
    chunk["traj"] = rows.astype(np.float16).view(np.uint16).reshape(chunk["traj"].shape)
    chunk["grip"] = grip.astype(np.float16).view(np.uint16)
    return chunk  # type: ignore[return-value]


def knot_table(trajectory: np.void) -> Array:
    k = trajectory["knots"][: int(trajectory["knot_count"])]
    columns = [k["t_s"], k["q_rad"], k["qd_rad_s"], k["qdd_rad_s2"], k["grip"]]
    return np.ascontiguousarray(np.column_stack(columns))


def reason(trajectory: np.void) -> str:
    return bytes(trajectory["reason"]).split(b"\0")[0].decode()


@dataclass
class Bench:
    """Planner and independent check of one configuration."""

    config: Config
    planner_file: Path
    envelope_file: Path

    @classmethod
    def make(cls, folder: Path, config: Config | None = None) -> Bench:
        config = config or Config()
        return cls(
            config,
            write_planner_params(config, folder / "planner.params"),
            write_envelope_params(config, folder / "envelope.params"),
        )

    def __post_init__(self) -> None:
        self.planner = _native.Planner(str(self.planner_file))
        self.envelope = _native.Envelope(str(self.envelope_file))

    def plan(
        self, chunk: np.void, q: Array, qd: Array | None = None, qdd: Array | None = None, opening: float = -1.0
    ) -> np.void:
        """`opening`: what the fingers were told last; below 0: the chunk's first."""
        zero = np.zeros(6)
        rates = (zero if qd is None else qd, zero if qdd is None else qdd)
        out = self.planner.plan(chunk.tobytes(), q, *rates, opening=opening)
        return np.frombuffer(out, TRAJECTORY)[0]  # type: ignore[no-any-return]

    def home(self) -> Array:
        x, y, z, *angles = self.config.poses.home
        q = self.planner.ik(pose_of(np.array([x, y, z]), np.radians(angles)), np.radians(HOME_DEG))
        assert q is not None
        return q

    def tcp(self, q: Array) -> Array:
        return self.planner.fk(np.ascontiguousarray(q))


def line(start: Array, end: Array, speed_m_s: float = 0.2) -> Array:
    """64 points from one pose row to another at a constant speed, then standing: a chunk that starts at cruise."""
    length = float(np.linalg.norm(end[:3] - start[:3]))
    share = np.minimum(np.arange(64) * 0.05 * speed_m_s / max(length, 1e-9), 1.0)
    return start + share[:, None] * (end - start)


@dataclass
class Fetch:
    """A memoryless 20 Hz velocity field that fetches something: above it, down, close in place, up, to the hand-over."""

    target: Array  # x y z (m) of the grasp
    yaw: float = 0.0
    speed_m_s: float = 0.24
    hand_over: tuple[float, float, float] = (0.48, 0.50, 0.34)

    def step(self, s: Array) -> Array:
        """One 50 ms step of x y z roll pitch yaw opening holding."""
        out = s.copy()
        if s[7] < 0.5:
            gap = self.target - s[:3]
            flat = float(np.hypot(gap[0], gap[1]))
            if s[6] < 0.97 or (np.linalg.norm(gap) < 0.0025 and abs(self.yaw - s[5]) < 0.1):
                out[6] = max(0.0, s[6] - 0.1)
                out[7] = float(out[6] <= 1e-6)
                return out
            above = 0.11 * max(_smooth(flat, 0.008, 0.035), _smooth(abs(self.yaw - s[5]), 0.12, 0.45))
            gap[2] += above
            rest = flat + abs(s[2] - self.target[2])
            speed = min(self.speed_m_s, 0.02 + math.sqrt(0.6 * rest))
            out[5] += np.clip(2.5 * (self.yaw - s[5]), -0.8, 0.8) * 0.05
        else:
            gap = np.array(self.hand_over) - s[:3]
            rise = _smooth(s[2], self.target[2] + 0.1, self.target[2] + 0.2)
            if rise < 1.0 and np.hypot(gap[0], gap[1]) > 0.1:
                gap = gap / np.linalg.norm(gap) * rise + np.array([0.0, 0.0, 1.0 - rise])
            near = float(np.linalg.norm(np.array(self.hand_over) - s[:3]))
            speed = min(self.speed_m_s, 0.04 + math.sqrt(max(0.0, s[2] - self.target[2])), 0.02 + math.sqrt(0.6 * near))
        distance = float(np.linalg.norm(gap))
        if distance > 1e-9:
            out[:3] += gap * min(1.0, speed * 0.05 / distance)
        return out

    def chunk(self, state: Array, rng: np.random.Generator, profile: int, chunk_id: int = 1) -> np.void:
        """64 points from `state`, +-2 mm and +-0.8 deg off each, drifting by up to a few mm; point 0 exact."""
        rows = [state]
        for _ in range(63):
            rows.append(self.step(rows[-1]))
        points = np.array(rows)
        points[1:, :3] += rng.uniform(-0.002, 0.002, (63, 3))
        points[1:, 3:6] += np.radians(rng.uniform(-0.8, 0.8, (63, 3)))
        points[:, :3] += np.linspace(0, 1, 64)[:, None] * rng.normal(0, 0.003, 3)
        points[:, 2] = np.maximum(points[:, 2], 0.007)
        return raw_chunk(points[:, :6], points[:, 6], profile, chunk_id)


def _smooth(x: float, low: float, high: float) -> float:
    u = min(1.0, max(0.0, (x - low) / (high - low)))
    return u * u * (3 - 2 * u)
