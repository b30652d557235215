"""`wardarm bench optimum`: how much longer our motions take than the fastest on the same path within the same limits.

A motion: the first chunk of a bench reach (`bench_reaches`: minimum jerk at up to 0.35 m/s, noise of a policy), from rest
to rest, planned *paced* (never faster than the model's own 20 Hz timing) and *free* (as fast as the limits allow).

    over_optimum_pct     plan against the optimum (`wardarm.ops.optimum`) under the same derated limits: without the rule
                         that the profile's longest ramp must stop the arm within the stop limits from everywhere
    derating_cost_pct    what that rule and the planner's margins to the limits add: the plan that the arm runs against
                         the optimum under the full limits of the profile, less over_optimum_pct

A second of computing a motion and more; `--motions` says how many a mode.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from wardarm import _native
from wardarm import config as configuration
from wardarm.arm.params import write_planner_params
from wardarm.config import Config
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.ops import bench_reaches
from wardarm.ops.optimum import Bounds, Optimum, fastest
from wardarm.policy import contract
from wardarm.shm.layouts import TRAJECTORY, PlanStatus

Array = NDArray[np.float64]
MODES = (("ward", False), ("fast", False), ("ward", True), ("fast", True))
GOAL = 0.995
"""Of every limit: what the planner aims at, so that its final check on a finer grid stays below 1."""
PLACE = np.linspace(0, 1, contract.HORIZON)
"""The fingers open along the chunk, so slowly that the arm need not wait: a knot's opening tells its place on the chunk."""
END_S = 0.5
HOME_Q_DEG = (153.5, -117.9, 97.4, -69.5, -90.0, -116.5)


@dataclass
class Mode:
    over_pct: list[float] = field(default_factory=list)
    derating_pct: list[float] = field(default_factory=list)
    plan_s: list[float] = field(default_factory=list)
    optimum_ratio: list[float] = field(default_factory=list)
    lost_ms: list[Array] = field(default_factory=list)  # in the first and last END_S of the plan, and between
    refused: list[str] = field(default_factory=list)


class Comparison:
    """Planner and optimum of one profile."""

    def __init__(self, profile: str) -> None:
        self.config: Config = configuration.load("desk", {"profile": profile})
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "planner.params"
            write_planner_params(self.config, file)
            self.planner = _native.Planner(str(file))
        self.kinematics = Kinematics(self.config.arm)
        x, y, z, *angles = self.config.poses.home
        self.home = self.kinematics.solve(
            TcpPose(np.array([x, y, z]), np.radians(angles)), np.radians(np.array(HOME_Q_DEG))
        )

    def chunk(self, rng: np.random.Generator) -> bytes:
        rows = bench_reaches.reach(rng, self.kinematics.forward(self.home).six, closes=False)
        raw = bench_reaches.chunk(rows, 0, None, rng, self.config.profile_index()).noisy
        raw["grip"] = PLACE.astype(np.float16).view(np.uint16)
        return bytes(raw.tobytes())

    def plan(self, chunk: bytes, free: bool, stops: bool) -> Any:
        zero = np.zeros(6)
        return np.frombuffer(self.planner.plan(chunk, self.home, zero, zero, free=free, stops=stops), TRAJECTORY)[0]

    def optimum(self, plan: Any, free: bool, share: float) -> Optimum:
        """The fastest timing of a plan's path; paced: of the model's points too."""
        knots = table(plan)
        place_s = None if free else knots[:, 19] * contract.CHUNK_S
        return fastest(knots, self.config.arm, Bounds.of(self.config.limits, share), place_s)

    def add(self, mode: Mode, chunk: bytes, free: bool) -> None:
        run, bare = self.plan(chunk, free, True), self.plan(chunk, free, False)
        for plan in (run, bare):
            if PlanStatus(int(plan["status"])) is not PlanStatus.OK:
                mode.refused.append(bytes(plan["reason"]).split(b"\0")[0].decode())
                return
        derated, full = self.optimum(bare, free, GOAL), self.optimum(run, free, 1.0)
        over_pct = 100 * (float(bare["duration_s"]) / derated.duration_s - 1)
        mode.over_pct.append(over_pct)
        mode.derating_pct.append(100 * (float(run["duration_s"]) / full.duration_s - 1) - over_pct)
        mode.plan_s.append(float(run["duration_s"]))
        mode.optimum_ratio.append(derated.largest_ratio)
        mode.lost_ms.append(_lost_ms(derated))


def table(plan: Any) -> Array:
    """Knots of a TRAJECTORY record, (N, 20)."""
    return np.ascontiguousarray(plan["knots"][: int(plan["knot_count"])]).view(np.float64).reshape(-1, 20)


def _lost_ms(optimum: Optimum) -> Array:
    """What the optimum gains on the plan, ms: in the plan's first END_S, in its last, and between."""
    rate = np.sqrt(optimum.b)
    gain = np.diff(optimum.s) - 2 * np.diff(optimum.s) / (rate[:-1] + rate[1:])
    middle = (optimum.s[:-1] + optimum.s[1:]) / 2
    first, last = middle < END_S, middle > optimum.s[-1] - END_S
    return 1e3 * np.array([gain[first].sum(), gain[last].sum(), gain[~first & ~last].sum()])


def run(motions: int, seed: int, show: bool = False) -> dict[str, Any]:
    """The object of `wardarm bench optimum --json`. Percentages are means over the motions; the largest stands beside."""
    results: dict[str, Mode] = {}
    with Progress(console=Console(stderr=True), disable=not show) as progress:
        bar = progress.add_task("motions", total=motions * len(MODES))
        for profile, free in MODES:
            comparison, mode = Comparison(profile), Mode()
            rng = np.random.default_rng(seed)
            for _ in range(motions):
                comparison.add(mode, comparison.chunk(rng), free)
                progress.advance(bar)
            results[f"{profile}_{'free' if free else 'paced'}"] = mode

    def each(name: str, of: str, what: Any) -> Any:
        values = getattr(results[name], of)
        return round(float(what(values)), 2) if values else None

    return {
        "motions": motions,
        "seed": seed,
        "over_optimum_pct": {n: each(n, "over_pct", np.mean) for n in results},
        "over_optimum_pct_max": {n: each(n, "over_pct", np.max) for n in results},
        "derating_cost_pct": {n: each(n, "derating_pct", np.mean) for n in results},
        "plan_s": {n: each(n, "plan_s", np.mean) for n in results},
        "optimum_largest_ratio": {n: each(n, "optimum_ratio", np.max) for n in results},
        "lost_ms": {
            n: dict(zip(("start", "end", "between"), np.mean(m.lost_ms, 0).round().tolist(), strict=True))
            for n, m in results.items()
            if m.lost_ms
        },
        "refused": {n: m.refused for n, m in results.items() if m.refused},
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm bench optimum", description="our motions against a near-optimum")
    parser.add_argument("--motions", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = run(args.motions, args.seed, show=sys.stderr.isatty())
    if args.json:
        print(json.dumps(figures))
        return
    shown = Table(title=f"plans against a near-optimum on the same path, {args.motions} motions a mode")
    for column in ("", *figures["over_optimum_pct"]):
        shown.add_column(column)
    for key in (
        "over_optimum_pct",
        "over_optimum_pct_max",
        "derating_cost_pct",
        "plan_s",
        "lost_ms",
        "optimum_largest_ratio",
    ):
        shown.add_row(key, *(str(v) for v in figures[key].values()))
    Console().print(shown, highlight=False)


if __name__ == "__main__":
    main()
