"""What one motion looked like from the controller's own samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.ops import limits, slosh
from wardarm.sim.ur_controller.modes import CYCLE_S, SafetyMode

Array = NDArray[np.float64]
CRUISE_M_S = 0.10
"""A dip is looked for where the arm moves faster than this before and after the seam."""
BEFORE_S, AFTER_S = 0.05, 0.40
_AHEAD = 2  # samples before a ramp whose central difference of jerk already reaches into it
_SAMPLE = np.dtype([("timestamp", "<f8"), ("target_q", "<f8", 6), ("output_int_register_12", "<i4")])


@dataclass(frozen=True)
class Record:
    """Ratios are value / limit of the profile's plan row (`stop`: of its stop row), largest of joints, TCP and turning."""

    seconds: float
    speed_ratio: float
    acceleration_ratio: float
    jerk_ratio: float
    stop_ratio: float
    jerk_rms_m_s3: float
    following_error_deg: float
    slosh_mm: float | None
    seam_dips_pct: list[float]
    protective_stops: int
    seams: int


def samples(history: NDArray[Any]) -> NDArray[Any]:
    """The simulated controller's history as `limits.motion` and the plots take it."""
    rows = np.zeros(len(history), _SAMPLE)
    rows["timestamp"] = history["cycle"] * CYCLE_S
    rows["target_q"] = history["target_q_rad"]
    rows["output_int_register_12"] = history["ints"][:, 0].astype(int)
    return rows


def measure(history: NDArray[Any], seams_s: list[float], profile: str, config: Config, carries: bool) -> Record:
    """`seams_s`: controller times at which one chunk took over from another."""
    row = config.profiles[profile]
    motion = limits.motion(samples(history), config.arm)
    rad = np.pi / 180
    caps = (
        (row.joint_deg_s * rad, row.tcp_m_s, row.tcp_deg_s * rad),
        (row.joint_deg_s2 * rad, row.tcp_m_s2, row.tcp_deg_s2 * rad),
        (row.joint_deg_s3 * rad, row.tcp_m_s3, row.tcp_deg_s3 * rad),
    )
    ratio = [
        np.maximum.reduce([np.abs(motion.joint[k]).max(1) / joint, motion.tcp[k] / tcp, motion.turn[k] / turn])
        for k, (joint, tcp, turn) in enumerate(caps)
    ]
    stop = motion.stop.copy()
    for sooner in range(1, _AHEAD + 1):
        stop[:-sooner] |= motion.stop[sooner:]
    plan = ~stop
    moving = motion.tcp[0] > 0.005
    off = np.abs(history["target_q_rad"] - history["q_rad"]).max()
    stopped = history["safety_mode"] != SafetyMode.NORMAL
    return Record(
        seconds=float(moving.sum()) * CYCLE_S,
        speed_ratio=_largest(ratio[0], plan),
        acceleration_ratio=_largest(ratio[1], plan),
        jerk_ratio=_largest(ratio[2], plan),
        stop_ratio=max(_largest(ratio[0], stop), *(_largest(r, stop) / row.stop_factor for r in ratio[1:])),
        jerk_rms_m_s3=float(np.sqrt(np.mean(motion.tcp[2][moving] ** 2))) if moving.any() else 0.0,
        following_error_deg=float(np.degrees(off)),
        slosh_mm=float(slosh.rise_mm(history["q_rad"], config.arm).max()) if carries else None,
        seam_dips_pct=_dips(motion.t_s, motion.tcp[0], seams_s),
        protective_stops=int((np.diff(stopped.astype(int)) == 1).sum()),
        seams=len(seams_s),
    )


def _largest(values: Array, where: NDArray[np.bool_]) -> float:
    return float(values[where].max(initial=0.0))


def _dips(t_s: Array, speed_m_s: Array, seams_s: list[float]) -> list[float]:
    """How far the TCP's speed falls below that at both ends of the time around a seam, per cent of the smaller."""
    dips = []
    for seam_s in seams_s:
        first, last = np.searchsorted(t_s, (seam_s - BEFORE_S, seam_s + AFTER_S))
        if first == 0 or last >= len(t_s):
            continue
        around = min(speed_m_s[first], speed_m_s[last])
        if around > CRUISE_M_S:
            dips.append(100 * max(0.0, 1 - float(speed_m_s[first:last].min()) / float(around)))
    return dips
