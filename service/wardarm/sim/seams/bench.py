"""`wardarm bench seams` and `wardarm bench slosh`: motion where chunks meet, in the simulated controller.

*seams*: one table, one run: the same courses, chunks, errors and delays executed by wardarm, by linear interpolation and by
temporal ensembling (`streams`). *slosh*: a full cup carried by wardarm alone; half of the carries with seams every 150 to
600 ms (`dense`), half in the simulated controller with its own loading times and paused once under way. Slosh:
`wardarm.ops.slosh`, from the joints as they moved.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from wardarm import config as configuration
from wardarm.ops import slosh
from wardarm.sim.seams import dense
from wardarm.sim.seams.course import Policy, courses
from wardarm.sim.seams.ours import Ours
from wardarm.sim.seams.record import Record, measure
from wardarm.sim.seams.streams import Streams

SEAM_PERIOD_S = (0.15, 0.60)
PAUSED_DELAY_S = (0.1, 0.2)
PAUSE_S = (0.3, 3.0)  # of motion before the permit goes


def seams(motions: int, seed: int, noise: float = 1.0, show: bool = False) -> dict[str, Any]:
    """The object of `wardarm bench seams --json`: a row a method."""
    config = configuration.load("desk")
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True), disable=not show) as progress:
        ours = Ours(config, Path(folder))
        methods: dict[str, Callable[..., Any]] = {
            "wardarm": ours.run,
            "linear": Streams(config, Path(folder), ensemble=False).run,
            "ensemble": Streams(config, Path(folder), ensemble=True).run,
        }
        bar = progress.add_task("motions", total=motions * len(methods))
        records: dict[str, list[Record]] = {name: [] for name in methods}
        for course in courses(motions, seed, config):
            for name, run in methods.items():
                history, seams_s = run(course, Policy(course, noise))
                records[name].append(measure(history, seams_s, course.profile, config, course.carries))
                progress.advance(bar)
    figures = {name: _row(rows) for name, rows in records.items()}
    figures["wardarm"] |= {"joins": ours.joins, "refused": ours.refused}
    return {"motions": motions, "seed": seed, "noise": noise, "methods": figures}


def carries(count: int, seed: int, show: bool = False) -> dict[str, Any]:
    """The object of `wardarm bench slosh --json`."""
    config = configuration.load("desk")
    rng = np.random.default_rng(seed)
    records: dict[str, list[Record]] = {"close_seams": [], "paused": []}
    apart_s: dict[str, list[float]] = {name: [] for name in records}
    with tempfile.TemporaryDirectory() as folder, Progress(console=Console(stderr=True), disable=not show) as progress:
        drivers = {name: Ours(config, Path(folder)) for name in records}
        for course in progress.track(courses(count, seed, config, only_carries=True), description="carries"):
            period_s, delay_s, pause_s = (float(rng.uniform(*r)) for r in (SEAM_PERIOD_S, PAUSED_DELAY_S, PAUSE_S))
            each = dataclasses.replace(course, period_s=period_s, delay_s=delay_s)
            name = "paused" if course.number % 2 else "close_seams"
            ours = drivers[name]
            if name == "paused":
                history, seams_s = ours.run(each, Policy(each), pause_s)
            else:
                history, seams_s = dense.run(ours, each, Policy(each))
            apart_s[name] += np.diff(seams_s).tolist()
            records[name].append(measure(history, seams_s, each.profile, config, carries=True))
    cup = slosh.CUP
    kept = ("slosh_mm", "acceleration_ratio_max", "jerk_ratio_max", "stop_ratio_max", "seams")
    figures: dict[str, Any] = {
        "carries": count,
        "seed": seed,
        "cup": {
            "radius_mm": cup.radius_m * 1e3,
            "frequency_hz": round(cup.frequency_hz, 2),
            "damping": round(cup.zeta, 4),
        },
    }
    for name, rows in records.items():
        row, gaps = _row(rows), apart_s[name] or [0.0]
        figures[name] = {key: row[key] for key in kept} | {
            "carries": len(rows),
            "seams_apart_s": {
                "p5": round(float(np.percentile(gaps, 5)), 3),
                "p95": round(float(np.percentile(gaps, 95)), 3),
            },
            "joins": drivers[name].joins,
            "refused": drivers[name].refused,
        }
    worst = max(figures[name]["slosh_mm"]["max"] for name in records)
    return figures | {"slosh_mm": {"max": worst}}


def _row(records: list[Record]) -> dict[str, Any]:
    def largest(name: str) -> float:
        return round(float(max(getattr(r, name) for r in records)), 3)

    sloshes = [r.slosh_mm for r in records if r.slosh_mm is not None] or [0.0]
    dips = [d for r in records for d in r.seam_dips_pct] or [0.0]
    return {
        "slosh_mm": {
            p: round(float(np.percentile(sloshes, q)), 2) for p, q in (("p50", 50), ("p95", 95), ("max", 100))
        },
        "speed_ratio_max": largest("speed_ratio"),
        "acceleration_ratio_max": largest("acceleration_ratio"),
        "jerk_ratio_max": largest("jerk_ratio"),
        "stop_ratio_max": largest("stop_ratio"),
        "jerk_rms_m_s3": round(float(np.median([r.jerk_rms_m_s3 for r in records])), 2),
        "following_error_deg_max": largest("following_error_deg"),
        "over_limit_motions": sum(max(r.speed_ratio, r.acceleration_ratio, r.jerk_ratio) > 1.0 for r in records),
        "protective_stops": sum(r.protective_stops for r in records),
        "seam_dip_pct": {p: round(float(np.percentile(dips, q)), 1) for p, q in (("p50", 50), ("p95", 95))},
        "seams": sum(r.seams for r in records),
        "seconds_p50": round(float(np.median([r.seconds for r in records])), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="wardarm bench", description="motion where chunks meet")
    parser.add_argument("what", choices=("seams", "slosh"))
    parser.add_argument("--motions", type=int, default=0, help="default 200, slosh 300")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", type=float, default=1.0, help="of the model's errors, a share")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    show = sys.stderr.isatty()
    if args.what == "slosh":
        figures = carries(args.motions or 300, args.seed, show)
        rows = {name: figures[name] for name in ("close_seams", "paused")}
    else:
        figures = seams(args.motions or 200, args.seed, args.noise, show)
        rows = figures["methods"]
    if args.json:
        print(json.dumps(figures))
        return
    table = Table(title=f"{args.what}: simulated controller")
    for column in ("", *rows):
        table.add_column(column)
    for key in next(iter(rows.values())):
        table.add_row(key, *(json.dumps(r[key]) if key in r and key != "refused" else "" for r in rows.values()))
    Console().print(table, highlight=False)


if __name__ == "__main__":
    main()
