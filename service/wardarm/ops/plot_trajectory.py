"""`wardarm plot trajectory FILE`: one motion on one page, for people who decide whether an arm may move beside a bed.

FILE is one of

- an RTDE record (`rtde.npy` of a demo, `wardarm.ops.rtde_log`): what the controller was really asked for,
- a chunk (`.json` or `.npz`): what a model said. JSON: {"points": 64 x [x, y, z (m), roll, pitch, yaw (deg)], "grip": 64
  openings 0..1}; `.npz`: the same arrays by name. `grip` may be left out. The planner plans it from rest at its first
  point; the motion is the plan. Or a RawChunk block as it lies in shared memory (`.bin`).

Position, speed, acceleration and jerk of the TCP with the profile's limits, the joints' shares of theirs, the model's raw
points and the smoothed path, and what a full cup would do (`wardarm.ops.slosh`).
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import _native
from wardarm.arm.params import write_planner_params
from wardarm.config import Config
from wardarm.kinematics import Kinematics, TcpPose, Unreachable
from wardarm.ops import limits, slosh
from wardarm.policy import contract
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY, PlanStatus

Array = NDArray[np.float64]
RECORD_FIELDS = ("timestamp", "target_q", "output_int_register_12")
_NEAR_DEG = (153.5, -117.9, 97.4, -69.5, -90.0, -116.5)  # the branch the arm stands on at its home pose


class NotATrajectory(ValueError):
    """The file is none of the known kinds, or what it says cannot be planned; the text says which and why."""


@dataclass(frozen=True)
class Shown:
    """`samples`: as `limits.motion` takes them. `raw_mm`, `smooth_mm`: (N, 3) of the model, or None for a record."""

    title: str
    source: str
    samples: NDArray[Any]
    raw_mm: Array | None
    smooth_mm: Array | None
    ramp_s: float | None


def read(file: Path, config: Config) -> Shown:
    """Raises NotATrajectory; OSError if the file cannot be read."""
    if file.suffix == ".npy":
        return _record(file)
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as arrays:
            given: dict[str, Any] = {name: arrays[name] for name in arrays.files}
    elif file.suffix == ".json":
        try:
            given = json.loads(file.read_text())
        except ValueError as e:
            raise NotATrajectory(f"{file}: not JSON: {e}") from e
    elif file.suffix == ".bin":
        block = file.read_bytes()
        if len(block) != RAW_CHUNK.itemsize:
            raise NotATrajectory(f"{file}: {len(block)} bytes; a RawChunk has {RAW_CHUNK.itemsize}")
        return _plan(np.frombuffer(block, RAW_CHUNK)[0], file.name, config)
    else:
        raise NotATrajectory(f"{file}: expected .npy (RTDE record), .json, .npz or .bin (chunk)")
    return _plan(_chunk(given, file, config), file.name, config)


def _record(file: Path) -> Shown:
    samples = np.load(file, allow_pickle=False)
    missing = [name for name in RECORD_FIELDS if name not in (samples.dtype.names or ())]
    if missing:
        raise NotATrajectory(f"{file}: an RTDE record has {', '.join(RECORD_FIELDS)}; missing: {', '.join(missing)}")
    if len(samples) < 10:
        raise NotATrajectory(f"{file}: {len(samples)} samples; at least 10 are needed")
    finite = np.isfinite(samples["target_q"]).all(1) & np.isfinite(samples["timestamp"])
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise NotATrajectory(f"{file}: sample {row}: timestamp or target_q is not a finite number")
    moving = np.flatnonzero(np.abs(np.diff(samples["target_q"], axis=0)).max(1) > 1e-6)
    if not len(moving):
        raise NotATrajectory(f"{file}: {len(samples)} samples, and the arm stands in all of them")
    part = samples[max(0, moving[0] - 100) : moving[-1] + 200]
    return Shown("recorded motion", file.name, part, None, None, None)


def _chunk(given: dict[str, Any], file: Path, config: Config) -> np.void:
    if "points" not in given:
        raise NotATrajectory(f"{file}: no 'points'; a chunk has 64 rows of x, y, z (m), roll, pitch, yaw (deg)")
    points = np.asarray(given["points"], np.float64)
    if points.shape != (contract.HORIZON, 6):
        raise NotATrajectory(f"{file}: points have shape {points.shape}, expected ({contract.HORIZON}, 6)")
    grip = np.asarray(given.get("grip", np.ones(contract.HORIZON)), np.float64)
    if grip.shape != (contract.HORIZON,):
        raise NotATrajectory(f"{file}: grip has shape {grip.shape}, expected ({contract.HORIZON},)")
    raw = np.zeros((), RAW_CHUNK)
    raw["id"], raw["profile"] = 1, config.profile_index()
    si = np.concatenate([points[:, :3], np.radians(points[:, 3:])], axis=1)
    raw["traj"] = contract.normalise(si).astype(np.float16).reshape(-1).view(np.uint16)
    raw["grip"] = grip.astype(np.float16).view(np.uint16)
    return raw  # type: ignore[return-value]


def _plan(raw: np.void, name: str, config: Config) -> Shown:
    """The planner's motion from rest at the chunk's first point, at 500 Hz."""
    values = np.asarray(raw["traj"]).view(np.float16).reshape(contract.HORIZON, 6).astype(np.float64)
    if not np.isfinite(values).all():
        point = int(np.argwhere(~np.isfinite(values))[0][0])
        raise NotATrajectory(f"{name}: point {point} is not finite")
    first = contract.denormalise(values[:1])[0]
    kinematics = Kinematics(config.arm)
    x, y, z, *angles = config.poses.home
    try:
        home = kinematics.solve(TcpPose(np.array([x, y, z]), np.radians(angles)), np.radians(np.array(_NEAR_DEG)))
        start = kinematics.solve(TcpPose(first[:3], first[3:]), home)
    except Unreachable as e:
        raise NotATrajectory(f"{name}: the first point cannot be reached: {e}") from e
    with tempfile.TemporaryDirectory() as folder:
        planner = _native.Planner(str(write_planner_params(config, Path(folder) / "planner.params")))
    out = np.frombuffer(planner.plan(raw.tobytes(), start, np.zeros(6), np.zeros(6)), TRAJECTORY)[0]
    if PlanStatus(int(out["status"])) is not PlanStatus.OK:
        reason = bytes(out["reason"]).split(b"\0")[0].decode()
        raise NotATrajectory(f"{name}: the planner refuses it ({PlanStatus(int(out['status'])).name}): {reason}")
    knots = np.ascontiguousarray(out["knots"][: int(out["knot_count"])]).view(np.float64).reshape(-1, 20)
    rows = _native.sample(knots, limits.CYCLE_S)
    still = 150
    samples = np.zeros(
        len(rows) + 2 * still, [("timestamp", "<f8"), ("target_q", "<f8", 6), ("output_int_register_12", "<i4")]
    )
    samples["timestamp"] = np.arange(len(samples)) * limits.CYCLE_S
    samples["target_q"] = np.concatenate(
        [np.repeat(rows[:1, 1:7], still, 0), rows[:, 1:7], np.repeat(rows[-1:, 1:7], still, 0)]
    )
    count = int(out["point_count"])
    return Shown(
        "planned motion", name, samples, _positions(out["raw_points"], 64), _positions(out["points"], count),
        float(out["ramp_s"]),
    )  # fmt: skip


def _positions(points: Any, count: int) -> Array:
    names = points.dtype.names[:3]
    return np.stack([points[n][:count] for n in names], 1).astype(np.float64)


def figures(shown: Shown, config: Config, profile: str) -> dict[str, Any]:
    """The numbers of the page."""
    motion = limits.motion(shown.samples, config.arm)
    row = config.profiles[profile]
    ratios = limits.ratios(motion, row)
    rise = slosh.rise_mm(np.asarray(shown.samples["target_q"], np.float64), config.arm)
    moving = np.flatnonzero(motion.tcp[0] > 1e-3)
    return {
        "file": shown.source,
        "kind": shown.title,
        "profile": profile,
        "seconds": round(float((moving[-1] - moving[0]) * limits.CYCLE_S), 3) if len(moving) else 0.0,
        "max_ratio_plan": round(ratios.plan, 4),
        "max_ratio_stop": round(ratios.stop, 4),
        "which": ratios.which,
        "tcp_m_s": round(float(motion.tcp[0].max()), 4),
        "tcp_m_s2": round(float(motion.tcp[1].max()), 3),
        "tcp_m_s3": round(float(motion.tcp[2].max()), 2),
        "slosh_mm": round(float(rise.max()), 2),
        "rtde_gaps": motion.gaps,
    }
