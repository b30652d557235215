"""`trajectory.png`: position, speed, acceleration and jerk of one run against its limit profile, from RTDE samples."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from wardarm.config import LimitProfile
from wardarm.ops.limits import Motion, Ratios

INK, GRID, LIMIT, STOP = "#20313f", "#d9e0e5", "#c0392b", "#e7a33e"
LINES = ("#1f6f8b", "#d2691e", "#4a8c4a")


def trajectory(motion: Motion, profile: LimitProfile, ratios: Ratios, title: str, out: Path) -> None:
    """Write the figure. The moving part of the run is shown, seconds from its first motion."""
    moving = np.flatnonzero(motion.tcp[0] > 1e-3)
    first, last = (int(moving[0]), int(moving[-1])) if len(moving) else (0, len(motion.t_s) - 1)
    part = slice(max(0, first - 250), last + 250)
    t = motion.t_s[part] - motion.t_s[first]
    plt.rcParams.update(
        {"font.family": ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP"], "axes.edgecolor": GRID}
    )
    figure, axes = plt.subplots(4, 1, figsize=(11, 10), sharex=True, constrained_layout=True)
    for k, name in enumerate("xyz"):
        axes[0].plot(t, motion.position_m[part, k] * 1e3, color=LINES[k], lw=1.4, label=name)
    axes[0].set_ylabel("TCP position, mm")
    axes[0].legend(loc="upper right", ncols=3, frameon=False)
    rows = (
        ("TCP speed, m/s", motion.tcp[0], profile.tcp_m_s),
        ("TCP acceleration, m/s²", motion.tcp[1], profile.tcp_m_s2),
        ("TCP jerk, m/s³", motion.tcp[2], profile.tcp_m_s3),
    )
    for axis, (label, series, limit) in zip(axes[1:], rows, strict=True):
        axis.plot(t, series[part], color=INK, lw=1.1)
        axis.axhline(limit, color=LIMIT, lw=1.2, ls="--")
        axis.text(t[-1], limit, " limit", color=LIMIT, va="bottom", ha="right", fontsize=9)
        axis.set_ylabel(label)
        axis.set_ylim(0, limit * 1.25)
        axis.fill_between(t, 0, limit * 1.25, where=motion.stop[part], color=STOP, alpha=0.25, lw=0)
    since = "time from first motion, s" if len(moving) else "time, s; nothing moved"
    axes[-1].set_xlabel(f"{since} (controller's clock)")
    for axis in axes:
        axis.grid(color=GRID, lw=0.7)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{title} · simulated arm\nlargest value / limit: {ratios.plan:.3f} planned"
        + (f", {ratios.stop:.3f} in a stop" if ratios.stop else ""),
        fontsize=12,
        color=INK,
    )
    figure.savefig(out, dpi=110)
    plt.close(figure)
