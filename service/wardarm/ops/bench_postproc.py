"""`wardarm bench postproc`: planner time, limits, smoothing, seams and ramps on reaches with the noise of a policy.

A reach: a minimum-jerk movement between two random points of the workspace at up to 0.35 m/s (faster than the `ward`
profile allows), +-2 mm and +-0.8 degrees of uniform noise on every point but the first, FP16. Each is followed as the
arm would: a new chunk every 0.4 s, joined 0.3 s ahead, until the reach is done. Every accepted trajectory passes the
independent check. Only what is measured is printed; optimum, derating and slosh are not measured yet.

    python -m wardarm.ops.bench_postproc --json [--reaches 40] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
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
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.policy import contract
from wardarm.shm.layouts import RAW_CHUNK, TRAJECTORY, PlanStatus

Array = NDArray[np.float64]
PERIOD_S, AHEAD_S = 0.4, 0.3
NOISE_M, NOISE_RAD = 0.002, np.radians(0.8)
SPEED_M_S, TURN_RAD_S = 0.35, 0.8
_SAMPLE_S = 0.002


@dataclass
class Figures:
    """What was collected, one number a plan or a seam."""

    plan_us: list[float] = field(default_factory=list)
    ratio: list[float] = field(default_factory=list)
    stop_ratio: list[float] = field(default_factory=list)
    ramp_s: list[float] = field(default_factory=list)
    ramp_mm: list[float] = field(default_factory=list)
    jitter_deg: list[float] = field(default_factory=list)
    deviation_mm: list[float] = field(default_factory=list)
    seams: int = 0
    joined: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    jump: list[Array] = field(default_factory=list)  # largest |dq|, |dqd|, |dqdd| at a seam


class Bench:
    def __init__(self, folder: Path, profile: str) -> None:
        config = configuration.load("desk", {"profile": profile})
        write_planner_params(config, folder / "planner.params")
        write_envelope_params(config, folder / "envelope.params")
        self.planner = _native.Planner(str(folder / "planner.params"))
        self.envelope = _native.Envelope(str(folder / "envelope.params"))
        self.profile = config.profile_index()
        self.kinematics = Kinematics(config.arm)
        home = config.poses.home
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        self.home = self.kinematics.solve(pose, np.radians([153.5, -117.9, 97.4, -69.5, -90.0, -116.5]))
        self.figures = Figures()

    def follow(self, rng: np.random.Generator) -> None:
        """One reach out and along, replanned to its end."""
        reach = _reach(rng, self.kinematics.forward(self.home).six)
        now = self._plan(*_chunk(reach, 0.0, None, rng, self.profile), self.home, None)
        at_s = 0.0
        while now is not None and at_s < len(reach) / contract.RATE_HZ - 0.5:
            join_s = PERIOD_S + AHEAD_S if at_s == 0 else PERIOD_S
            if join_s > float(now["duration_s"]) - 0.1:
                return
            at_s += join_s
            state = _state_at(now, join_s)
            start = self.kinematics.forward(state[0]).six
            self.figures.seams += 1
            new = self._plan(*_chunk(reach, at_s, start, rng, self.profile), *state)
            if new is None:
                return
            self.figures.joined += 1
            first = new["knots"][0]
            self.figures.jump.append(
                np.array(
                    [
                        np.abs(np.asarray(first[name]) - value).max()
                        for name, value in zip(("q_rad", "qd_rad_s", "qdd_rad_s2"), state, strict=True)
                    ]
                )
            )
            now = new

    def _plan(
        self, chunk: Any, clean: Array | None, q: Array, qd: Array | None, qdd: Array | None = None
    ) -> Any | None:
        zero, f = np.zeros(6), self.figures
        raw = chunk.tobytes()
        began = time.perf_counter_ns()
        answer = self.planner.plan(raw, q, zero if qd is None else qd, zero if qdd is None else qdd)
        f.plan_us.append((time.perf_counter_ns() - began) * 1e-3)
        out = np.frombuffer(answer, TRAJECTORY)[0]
        status = PlanStatus(int(out["status"]))
        if status is not PlanStatus.OK:
            f.refusals[status.name] = f.refusals.get(status.name, 0) + 1
            return None
        knots = np.ascontiguousarray(out["knots"][: int(out["knot_count"])]).view(np.float64).reshape(-1, 20)
        verdict = self.envelope.check(knots, float(out["ramp_s"]), self.profile)
        f.ratio.append(verdict["max_ratio_plan"])
        f.stop_ratio.append(verdict["max_ratio_stop"])
        f.ramp_s.append(float(out["ramp_s"]))
        self._shape(out, knots, clean)
        return out

    def _shape(self, out: Any, knots: Array, clean: Array | None) -> None:
        f = self.figures
        rows = _native.sample(knots, _SAMPLE_S)
        tcp = np.array([self.kinematics.forward(q).xyz_m for q in rows[::10, 1:7]])
        speed = np.linalg.norm(np.diff(tcp, axis=0), axis=1) / (10 * _SAMPLE_S)
        f.ramp_mm.append(float(speed.max(initial=0)) * float(out["ramp_s"]) / 2 * 1e3)  # the rate's mean is a half
        smooth = np.stack([out["points"][n] for n in out["points"].dtype.names], 1).astype(float)
        if clean is not None:
            f.jitter_deg.append(_jitter(smooth[:, 3:] - np.degrees(clean[:, 3:])))
        gaps = np.linalg.norm(smooth[:, None, :3] * 1e-3 - tcp[None], axis=2).min(1)
        reached = gaps[: max(2, int(len(gaps) * 0.9))]  # the tail that was not reached is no deviation
        f.deviation_mm.append(float(reached.max()) * 1e3)


def _reach(rng: np.random.Generator, home: Array) -> Array:
    """Pose rows (N, 6) at 20 Hz from home to a random point and on to another."""
    rows = [home]
    for _ in range(2):
        goal = np.array(
            [rng.uniform(0.33, 0.6), rng.uniform(-0.35, 0.35), rng.uniform(0.1, 0.4), 0, 0, rng.uniform(-1, 1)]
        )
        length = float(np.linalg.norm(goal[:3] - rows[-1][:3]))
        seconds = 1.875 * max(
            length / SPEED_M_S, abs(goal[5] - rows[-1][5]) / TURN_RAD_S
        )  # minimum jerk: peak 1.875 x mean
        count = max(int(seconds * contract.RATE_HZ), 12)
        u = np.linspace(0, 1, count + 1)[1:, None]
        rows += list(rows[-1] + (10 * u**3 - 15 * u**4 + 6 * u**5) * (goal - rows[-1]))
    return np.array(rows)


def _chunk(
    reach: Array, at_s: float, start: Array | None, rng: np.random.Generator, profile: int
) -> tuple[Any, Array | None]:
    """What a policy would say `at_s` into the reach, from the planned pose `start`; then standing.

    Second, for a start from rest, the same without noise: under way nobody knows what is noise and what is steering.
    """
    first = 0
    if start is not None:
        near = int(at_s * contract.RATE_HZ)
        window = reach[max(0, near - 25) : near + 25, :3]
        first = max(0, near - 25) + int(np.linalg.norm(window - start[:3], axis=1).argmin())
    at = np.minimum(np.arange(first, first + contract.HORIZON), len(reach) - 1)
    points = reach[at].copy()
    if start is not None:  # a policy steers back to its path over the first half second
        points += np.exp(-np.arange(contract.HORIZON) / 10)[:, None] * (start - points[0])
    noise = rng.uniform(-1, 1, points.shape) * np.array([NOISE_M] * 3 + [NOISE_RAD] * 3)
    noise[0] = 0
    chunk = np.zeros((), RAW_CHUNK)
    chunk["id"], chunk["profile"] = 1, profile
    chunk["traj"] = contract.normalise(points + noise).astype(np.float16).reshape(-1).view(np.uint16)
    chunk["grip"] = np.ones(contract.HORIZON, np.float16).view(np.uint16)
    return chunk, points if start is None else None


def _state_at(trajectory: Any, t_s: float) -> tuple[Array, Array, Array]:
    knots = np.ascontiguousarray(trajectory["knots"][: int(trajectory["knot_count"])]).view(np.float64).reshape(-1, 20)
    rows = _native.sample(knots, _SAMPLE_S)
    row = rows[min(round(t_s / _SAMPLE_S), len(rows) - 1)]
    return row[1:7].copy(), row[7:13].copy(), row[13:19].copy()


def _jitter(degrees: Array) -> float:
    """Peak of what is left of a 20 Hz error, degrees, without its mean over half a second: about what is above 2 Hz."""
    window = np.ones(11) / 11
    slow = np.stack([np.convolve(column, window, "valid") for column in degrees.T], 1)
    return float(np.abs(degrees[5:-5] - slow).max())


def _p(values: list[float], q: float) -> float:
    return round(float(np.percentile(values, q)), 4)


def run(reaches: int, seed: int, profile: str) -> dict[str, Any]:
    """The object of `wardarm bench postproc --json`."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), profile)
        rng = np.random.default_rng(seed)
        for _ in range(reaches):
            bench.follow(rng)
    f = bench.figures
    knots = np.zeros((64, 20))
    knots[:, 0] = np.arange(64) * 0.05
    began = time.perf_counter_ns()
    count = len(_native.sample(knots, _SAMPLE_S))
    sample_ns = (time.perf_counter_ns() - began) / count
    jumps = np.array(f.jump) if f.jump else np.zeros((1, 3))
    return {
        "profile": profile,
        "plans": len(f.plan_us),
        "plan_us": {"p50": _p(f.plan_us, 50), "p99": _p(f.plan_us, 99)},
        "sample_ns": round(sample_ns, 1),
        "max_limit_ratio": _p(f.ratio, 100),
        "max_stop_ratio": _p(f.stop_ratio, 100),
        "jitter_deg_peak": _p(f.jitter_deg, 100),
        "path_deviation_mm": {"p50": _p(f.deviation_mm, 50), "max": _p(f.deviation_mm, 100)},
        "seam": {
            "count": f.seams,
            "accepted_pct": round(100 * f.joined / max(f.seams, 1), 2),
            "dq_max": float(jumps[:, 0].max()),
            "dqd_max": float(jumps[:, 1].max()),
            "dqdd_max": float(jumps[:, 2].max()),
        },
        "ramp_s": {"p50": _p(f.ramp_s, 50), "max": _p(f.ramp_s, 100)},
        "ramp_path_mm": {"p50": _p(f.ramp_mm, 50), "max": _p(f.ramp_mm, 100)},
        "refusals": f.refusals,
        "seed": seed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm bench postproc", description="figures of the postprocessor")
    parser.add_argument("--reaches", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="ward")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = run(args.reaches, args.seed, args.profile)
    if args.json:
        print(json.dumps(figures))
        return
    table = Table(title=f"postprocessor, profile {args.profile}, {figures['plans']} plans", show_header=False)
    for key, value in figures.items():
        table.add_row(key, json.dumps(value))
    Console().print(table, highlight=False)


if __name__ == "__main__":
    main()
