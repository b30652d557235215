"""The page of `wardarm plot trajectory`: what is drawn, not what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm, LimitProfile
from wardarm.ops import limits, slosh
from wardarm.ops.plot_trajectory import Shown

Array = NDArray[np.float64]
INK, SOFT, GRID, LIMIT, STOP, FILL = "#20313f", "#6b7c88", "#e3e8ec", "#c0392b", "#f2c879", "#dcebf1"
LINES = ("#1f6f8b", "#d2691e", "#4a8c4a")
FREEBOARD_MM = 8.0  # docs/motion_figures.md: a cup filled to a centimetre below its rim keeps 2 mm
_MARGIN_S = 0.3


def draw(shown: Shown, numbers: dict[str, Any], row: LimitProfile, arm: Arm, out: Path) -> None:
    """Write the page (.png, .pdf or .svg)."""
    motion = limits.motion(shown.samples, arm)
    moving = np.flatnonzero(motion.tcp[0] > 1e-3)
    first, last = (int(moving[0]), int(moving[-1])) if len(moving) else (0, len(motion.t_s) - 1)
    margin = round(_MARGIN_S / limits.CYCLE_S)
    part = slice(max(0, first - margin), min(len(motion.t_s), last + margin))
    t = motion.t_s[part] - motion.t_s[first]
    style = {
        "font.family": ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP"], "font.size": 9, "text.color": INK,
        "axes.edgecolor": SOFT, "axes.labelcolor": INK, "xtick.color": SOFT, "ytick.color": SOFT, "axes.grid": True,
        "grid.color": GRID, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with plt.rc_context(style):
        figure = plt.figure(figsize=(8.27, 11.69), dpi=130)  # A4
        grid = figure.add_gridspec(
            8, 2, height_ratios=(2.5, 0.28, 1, 1, 1, 1, 1, 1), hspace=0.32, wspace=0.22,
            left=0.11, right=0.95, top=0.868, bottom=0.045,
        )  # fmt: skip
        _heading(figure, shown, numbers)
        position = motion.position_m * 1e3
        _above(figure.add_subplot(grid[0, 0]), shown, position[part])
        _aside(figure.add_subplot(grid[0, 1]), shown, position[part])
        axes = [figure.add_subplot(grid[2 + k, :]) for k in range(6)]
        for k, name in enumerate("xyz"):
            axes[0].plot(t, position[part, k], color=LINES[k], lw=1.3, label=name)
        axes[0].set_ylabel("position, mm")
        axes[0].legend(loc="upper left", bbox_to_anchor=(0.0, 1.3), ncols=3, frameon=False, handlelength=1.2)
        for axis, label, series, limit in (
            (axes[1], "speed, m/s", motion.tcp[0], row.tcp_m_s),
            (axes[2], "acceleration, m/s²", motion.tcp[1], row.tcp_m_s2),
            (axes[3], "jerk, m/s³", motion.tcp[2], row.tcp_m_s3),
        ):
            _against(axis, t, series[part], limit, label, f"limit {limit:g}")
            if axis is not axes[1]:
                axis.plot(t, np.where(motion.stop[part], limit * row.stop_factor, np.nan), color=LIMIT, lw=1.0, ls=":")
        _joints(axes[4], t, motion, part, row)
        rise = slosh.rise_mm(np.asarray(shown.samples["target_q"], np.float64), arm)[part]
        _against(axes[5], t, rise, FREEBOARD_MM, "full cup:\nrise at rim, mm", f"aim {FREEBOARD_MM:g} mm")
        for axis in axes:
            axis.set_xlim(t[0], t[-1])
            low, high = axis.get_ylim()
            axis.fill_between(t, low, high, where=motion.stop[part], color=STOP, alpha=0.35, lw=0)
            axis.set_ylim(low, high)
            axis.yaxis.set_label_coords(-0.062, 0.5)
        for axis in axes[:-1]:
            axis.tick_params(labelbottom=False)
        axes[-1].set_xlabel("seconds from first motion")
        if motion.stop[part].any():
            figure.text(0.95, 0.008, "shaded: ramp to rest; dotted: its limits", ha="right", fontsize=8, color=SOFT)
        figure.savefig(out)
        plt.close(figure)


def _heading(figure: Any, shown: Shown, numbers: dict[str, Any]) -> None:
    figure.text(0.10, 0.962, shown.title.capitalize(), fontsize=17, weight="bold")
    figure.text(0.10, 0.944, f"{shown.source}   ·   profile {numbers['profile']}   ·   TCP in base frame", color=SOFT)
    said = [
        (f"{numbers['seconds']:.1f} s", "of motion"),
        (f"{100 * max(numbers['max_ratio_plan'], 0):.0f} %", "of the nearest limit"),
        (f"{numbers['tcp_m_s'] * 100:.0f} cm/s", "fastest"),
        (f"{numbers['slosh_mm']:.1f} mm", "rise in a full cup"),
    ]
    if numbers["max_ratio_stop"]:
        said.insert(2, (f"{100 * numbers['max_ratio_stop']:.0f} %", "of the stop limits"))
    for k, (value, what) in enumerate(said):
        x = 0.10 + 0.85 * k / len(said)
        beyond = "%" in value and float(value.split()[0]) > 100
        figure.text(x, 0.914, value, fontsize=13, weight="bold", color=LIMIT if beyond else LINES[0])
        figure.text(x, 0.899, what, fontsize=8, color=SOFT)


def _above(axis: Any, shown: Shown, position_mm: Array) -> None:
    _path(axis, shown, position_mm, lambda p: (p[:, 0], p[:, 1]))
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xlabel("x, mm")
    axis.set_ylabel("y, mm")
    axis.set_title("path seen from above", fontsize=9, color=INK, loc="left")
    axis.legend(loc="best", frameon=False, fontsize=7.5, handlelength=1.4)


def _aside(axis: Any, shown: Shown, position_mm: Array) -> None:
    """Height along the way: each point's length along the moved path is that of the nearest sample."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(position_mm, axis=0), axis=1))])

    def place(points: Array) -> tuple[Array, Array]:
        if points is position_mm:
            return along, points[:, 2]
        gaps = np.linalg.norm(points[:, None] - position_mm[None, ::10], axis=2)
        return along[::10][gaps.argmin(1)], points[:, 2]

    _path(axis, shown, position_mm, place)
    axis.set_xlabel("way gone, mm")
    axis.set_ylabel("height z, mm")
    axis.set_title("height along the way", fontsize=9, color=INK, loc="left")


def _path(axis: Any, shown: Shown, position_mm: Array, place: Any) -> None:
    if shown.raw_mm is not None:
        axis.plot(*place(shown.raw_mm), "o", ms=3.2, mfc="none", mec=LINES[1], mew=0.8, label="model's points")
    if shown.smooth_mm is not None:
        axis.plot(*place(shown.smooth_mm), color=SOFT, lw=3.2, alpha=0.35, label="smoothed path")
    axis.plot(*place(position_mm), color=LINES[0], lw=1.3, label="motion")
    x, y = place(position_mm)
    axis.plot(x[:1], y[:1], "o", ms=6, color=LINES[2], label="start")
    axis.plot(x[-1:], y[-1:], "s", ms=6, color=INK, label="end")


def _against(axis: Any, t: Array, series: Array, limit: float, label: str, text: str) -> None:
    top = max(limit * 1.3, float(series.max(initial=0.0)) * 1.1)
    axis.fill_between(t, 0, series, color=FILL, lw=0)
    axis.plot(t, series, color=LINES[0], lw=1.1)
    axis.axhline(limit, color=LIMIT, lw=1.0, ls=(0, (5, 3)))
    axis.text(t[-1], limit, f"{text} ", color=LIMIT, va="bottom", ha="right", fontsize=8)
    axis.set_ylabel(label)
    axis.set_ylim(0, top)


def _joints(axis: Any, t: Array, motion: limits.Motion, part: slice, row: LimitProfile) -> None:
    caps = (row.joint_deg_s, row.joint_deg_s2, row.joint_deg_s3)
    top = 1.3
    for k, name in enumerate(("speed", "acceleration", "jerk")):
        share = np.degrees(np.abs(motion.joint[k][part]).max(1)) / caps[k]
        axis.plot(t, share * 100, color=LINES[k], lw=1.0, label=name)
        top = max(top, float(share.max(initial=0.0)) * 1.1)
    axis.axhline(100, color=LIMIT, lw=1.0, ls=(0, (5, 3)))
    axis.set_ylabel("fastest joint,\n% of limit")
    axis.set_ylim(0, top * 100)
    axis.legend(loc="upper left", bbox_to_anchor=(0.0, 1.3), ncols=3, frameon=False, handlelength=1.2)
