"""`wardarm bench postproc`: planner time, limits, smoothing, seams, stands and ramps on reaches with a policy's noise.

The reaches of `bench_reaches`, followed as the arm would: a new chunk every 0.4 s, joined 0.3 s ahead, until the reach
is done. Every accepted trajectory passes the independent check, and its motion as the player puts it out (knots after
rounding to the wire's integers, every 2 ms) is differentiated by `ops.limits`. docs/motion.md says what each field is.

    python -m wardarm.ops.bench_postproc --json [--reaches 220] [--seed 1] [--profile ward]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from wardarm import _native
from wardarm import config as configuration
from wardarm.arm.params import write_envelope_params, write_planner_params
from wardarm.arm.wire import encode_trajectory
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.ops import bench_reaches as shapes
from wardarm.ops import limits
from wardarm.shm.layouts import TRAJECTORY, PlanStatus

Array = NDArray[np.float64]
PERIOD_S, AHEAD_S = 0.4, 0.3
LEFT_ROWS = 10  # of a reach, half a second: not asked for anew
CYCLE_S = 0.002
# Path time that a ramp to rest takes, in its durations: the integral of a rate that a trapezoid brakes, growing over
# half of the ramp, held, fading over the last 35 % (docs/motion.md, section 4).
RAMP_GONE = 0.52826
HOME_RAD = np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5])
_SAMPLES = np.dtype([("timestamp", "f8"), ("target_q", "f8", 6), ("output_int_register_12", "i4")])


@dataclass
class Figures:
    """What was collected, one number a plan or a seam."""

    plan_us: list[float] = field(default_factory=list)
    ratio: list[float] = field(default_factory=list)
    check_ratio: list[float] = field(default_factory=list)
    difference_ratio: list[float] = field(default_factory=list)
    stop_ratio: list[float] = field(default_factory=list)
    ramp_s: list[float] = field(default_factory=list)
    ramp_mm: list[float] = field(default_factory=list)
    jitter_deg: list[float] = field(default_factory=list)
    deviation_mm: list[float] = field(default_factory=list)
    stand_mm: list[float] = field(default_factory=list)
    sparc: list[tuple[float, float]] = field(default_factory=list)  # ours, minimum jerk's
    derating_pct: list[float] = field(default_factory=list)
    seams: int = 0
    joined: int = 0
    unchecked: int = 0  # accepted by the planner, refused by the check
    refusals: dict[str, int] = field(default_factory=dict)
    jump: list[Array] = field(default_factory=list)  # largest |dq|, |dqd|, |dqdd| at a seam


class Bench:
    def __init__(self, folder: Path, profile: str, config: str = "desk") -> None:
        """`config`: as `wardarm run` takes it. Raises ConfigError, for an unknown profile too."""
        self.config = configuration.load(config, {"profile": profile})
        write_planner_params(self.config, folder / "planner.params")
        write_envelope_params(self.config, folder / "envelope.params")
        self.planner = _native.Planner(str(folder / "planner.params"))
        self.envelope = _native.Envelope(str(folder / "envelope.params"))
        self.profile, self.limits = self.config.profile_index(), self.config.limits
        self.kinematics = Kinematics(self.config.arm)
        home = self.config.poses.home
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        self.home = self.kinematics.solve(pose, HOME_RAD)
        self.figures = Figures()

    def follow(self, rng: np.random.Generator, closes: bool) -> None:
        """One reach out and along, replanned to its end. A chunk that is refused leaves the motion as it was."""
        f = self.figures
        rows = shapes.reach(rng, self.kinematics.forward(self.home).six, closes)
        chunk = shapes.chunk(rows, 0, None, rng, self.profile)
        now = self._plan(chunk, self.home, None, 1.0)
        join_s = PERIOD_S + AHEAD_S
        while now is not None and chunk.row < len(rows) - LEFT_ROWS:
            if join_s > float(now["duration_s"]) - 0.1:
                return
            q, qd, qdd, opening = _state_at(now, join_s)
            start = self.kinematics.forward(q).six
            f.seams += 1
            chunk = shapes.chunk(rows, chunk.row, (start, opening), rng, self.profile)
            new = self._plan(chunk, q, (qd, qdd), opening)
            if new is None:
                join_s += PERIOD_S
                continue
            f.joined += 1
            first, names = new["knots"][0], ("q_rad", "qd_rad_s", "qdd_rad_s2")
            state = zip(names, (q, qd, qdd), strict=True)
            f.jump.append(np.array([np.abs(np.asarray(first[name]) - value).max() for name, value in state]))
            now, join_s = new, PERIOD_S

    def _plan(self, chunk: shapes.Chunk, q: Array, moving: tuple[Array, Array] | None, opening: float) -> Any | None:
        f = self.figures
        qd, qdd = moving or (np.zeros(6), np.zeros(6))
        raw = chunk.noisy.tobytes()
        began = time.perf_counter_ns()
        answer = self.planner.plan(raw, q, qd, qdd, opening=opening)
        f.plan_us.append((time.perf_counter_ns() - began) * 1e-3)
        out = np.frombuffer(answer, TRAJECTORY)[0]
        status = PlanStatus(int(out["status"]))
        if status is not PlanStatus.OK:
            f.refusals[status.name] = f.refusals.get(status.name, 0) + 1
            return None
        knots, ramp_s = _table(out), float(out["ramp_s"])
        wire = encode_trajectory(1, 0, 0.0, ramp_s, float(out["duration_s"]), 0.0, knots)[1]
        verdict = self.envelope.check(wire, ramp_s, self.profile)
        f.unchecked += not verdict["ok"]
        f.ratio.append(float(out["max_ratio_plan"]))
        f.check_ratio.append(verdict["max_ratio_plan"])
        f.stop_ratio.append(verdict["max_ratio_stop"])
        f.ramp_s.append(ramp_s)
        self._shape(out, wire)
        if moving is None:
            clean = np.frombuffer(self.planner.plan(chunk.clean.tobytes(), q, qd, qdd), TRAJECTORY)[0]
            f.jitter_deg.append(shapes.jitter_deg(_points(out)[:, 3:], _points(clean)[:, 3:]))
            full = np.frombuffer(self.planner.plan(raw, q, qd, qdd, stops=False), TRAJECTORY)[0]
            if PlanStatus(int(full["status"])) is PlanStatus.OK:
                f.derating_pct.append(100 * (float(out["duration_s"]) / float(full["duration_s"]) - 1))
        return out

    def _shape(self, out: Any, wire: Array) -> None:
        """Of the motion that the player puts out: limits by finite differences, deviation, stand, ramp, smoothness."""
        f = self.figures
        rows = _native.sample(wire, CYCLE_S)
        samples = np.zeros(len(rows), _SAMPLES)
        samples["timestamp"], samples["target_q"] = rows[:, 0], rows[:, 1:7]
        motion = limits.motion(samples, self.config.arm)
        f.difference_ratio.append(limits.ratios(motion, self.limits).plan)
        tcp = motion.position_m
        count = int(out["point_count"])
        f.deviation_mm.append(shapes.deviation_mm(_points(out)[:count, :3], tcp[::5]))
        stand = shapes.stand_mm(tcp, rows[:, 19], CYCLE_S)
        if stand is not None:
            f.stand_mm.append(stand)
        way = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(tcp, axis=0), axis=1))])
        ahead = np.minimum(np.arange(len(way)) + round(RAMP_GONE * float(out["ramp_s"]) / CYCLE_S), len(way) - 1)
        f.ramp_mm.append(float((way[ahead] - way).max()) * 1e3)
        speed = motion.tcp[0]
        ideal = shapes.minimum_jerk_speed(float(out["duration_s"]), CYCLE_S)
        f.sparc.append((shapes.sparc(speed, CYCLE_S), shapes.sparc(ideal, CYCLE_S)))


def _table(out: Any) -> Array:
    return np.ascontiguousarray(out["knots"][: int(out["knot_count"])]).view(np.float64).reshape(-1, 20)


def _points(out: Any) -> Array:
    return np.stack([out["points"][n] for n in out["points"].dtype.names], 1).astype(float)


def _state_at(trajectory: Any, t_s: float) -> tuple[Array, Array, Array, float]:
    rows = _native.sample(_table(trajectory), CYCLE_S)
    row = rows[min(round(t_s / CYCLE_S), len(rows) - 1)]
    return row[1:7].copy(), row[7:13].copy(), row[13:19].copy(), float(row[19])


def _p(values: list[float], q: float) -> float:
    return round(float(np.percentile(values, q)), 4) if values else 0.0


def _two(values: list[float], high: float = 100) -> dict[str, float]:
    return {"p50": _p(values, 50), "max" if high == 100 else f"p{high:g}": _p(values, high)}


def run(reaches: int, seed: int, profile: str, config: str = "desk") -> dict[str, Any]:
    """The object of `wardarm bench postproc --json`."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), profile, config)
        rng = np.random.default_rng(seed)
        for number in range(reaches):
            bench.follow(rng, closes=number % 2 == 1)
    f = bench.figures
    knots = np.zeros((64, 20))
    knots[:, 0] = np.arange(64) * 0.05
    began = time.perf_counter_ns()
    count = sum(len(_native.sample(knots, CYCLE_S)) for _ in range(20))
    sample_ns = (time.perf_counter_ns() - began) / count
    jumps = np.array(f.jump) if f.jump else np.zeros((1, 3))
    ours, ideal = np.array(f.sparc).T if f.sparc else np.zeros((2, 1))
    return {
        "profile": profile,
        "plans": len(f.plan_us),
        "plan_us": _two(f.plan_us, 99),
        "sample_ns": round(sample_ns, 1),
        "max_limit_ratio": max(_p(f.ratio, 100), _p(f.difference_ratio, 100), _p(f.check_ratio, 100)),
        "limit_ratio": {
            "planner": _p(f.ratio, 100),
            "check": _p(f.check_ratio, 100),
            "differences_500_hz": _p(f.difference_ratio, 100),
        },
        "max_stop_ratio": _p(f.stop_ratio, 100),
        "jitter_deg_peak": _p(f.jitter_deg, 100),
        "path_deviation_mm": {**_two(f.deviation_mm), "p95": _p(f.deviation_mm, 95)},
        "stand_mm": {"count": len(f.stand_mm), "p99": _p(f.stand_mm, 99), "max": _p(f.stand_mm, 100)},
        "seam": {
            "count": f.seams,
            "accepted_pct": round(100 * f.joined / max(f.seams, 1), 2),
            "fallbacks": f.seams - f.joined,
            "dq_max": float(jumps[:, 0].max()),
            "dqd_max": float(jumps[:, 1].max()),
            "dqdd_max": float(jumps[:, 2].max()),
        },
        "ramp_s": _two(f.ramp_s),
        "ramp_path_mm": _two(f.ramp_mm),
        "sparc": {"p50": round(float(np.median(ours)), 3), "minimum_jerk_p50": round(float(np.median(ideal)), 3)},
        "derating_cost_pct": {
            "mean": round(float(np.mean(f.derating_pct or [0.0])), 2),
            "max": _p(f.derating_pct, 100),
        },
        "refused_by_check": f.unchecked,
        "refusals": f.refusals,
        "seed": seed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="wardarm bench postproc", description="figures of the postprocessor")
    parser.add_argument("--reaches", type=int, default=220)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="ward")
    parser.add_argument("--config", default="desk", help="a TOML file, or 'desk' / 'thor'")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    try:
        figures = run(args.reaches, args.seed, args.profile, args.config)
    except configuration.ConfigError as e:
        print(f"bench postproc: {e}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(figures))
        return 0
    table = Table(title=f"postprocessor, profile {args.profile}, {figures['plans']} plans", show_header=False)
    for key, value in figures.items():
        table.add_row(key, json.dumps(value))
    Console().print(table, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
