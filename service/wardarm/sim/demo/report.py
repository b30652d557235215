"""What a demonstration says of itself: `summary.json`, the table, the pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from wardarm.ops import limits
from wardarm.sim.demo.witness import percentiles

if TYPE_CHECKING:
    from wardarm.sim.demo.run import Result


def fetched(result: Result) -> tuple[bool, str]:
    """Whether the physics says that the right piece was lifted and set down within reach, and in words."""
    if result.target is None:
        return False, "the sentence names nothing that is on this table exactly once"
    pieces = {p["name"]: p for p in result.world.get("pieces", [])}
    piece = pieces.get(result.target.name)
    if piece is None:
        return False, "the simulated world gave no report"
    what = f"the {piece['color']} {piece['kind']}"
    others = [f"{p['color']} {p['kind']}" for p in pieces.values() if p["lifted"] and p["name"] != result.target.name]
    if others:
        return False, f"the {', '.join(others)} was lifted instead of {what}"
    if not piece["lifted"]:
        return False, f"{what} was not lifted"
    if not piece["fetched"]:
        return False, f"{what} was lifted but does not stand within reach"
    return True, f"{what} was lifted {piece['rise_m'] * 1e3:.0f} mm and stands within reach"


def summary(result: Result) -> dict[str, Any]:
    """The object of `demo --json` and `summary.json`."""
    good, verdict = fetched(result) if result.world else (False, result.reason)
    ratios, seen = result.ratios, result.seen
    within = ratios is not None and ratios.largest <= 1.0
    touches = result.world.get("touches", {})
    done = result.task is not None and result.task.done
    success = good and within and done and not touches.get("table") and not touches.get("patient")
    if result.task is not None and not done:
        reason = result.task.reason
    elif good and not within:
        reason = f"a limit was crossed: {ratios.which} at {ratios.largest:.3f}" if ratios else "no RTDE record"
    elif good and not success:
        reason = f"the arm touched something: {touches}"
    else:
        reason = result.reason or verdict
    model = result.task.model if result.task else {}
    return {
        "success": success,
        "reason": reason,
        "physics": verdict,
        "instruction": result.instruction,
        "seed": result.seed,
        "scene": result.scene.to_json() if result.scene else None,
        "target": result.target.name if result.target else None,
        "steps": result.task.steps if result.task else [],
        "task_state": result.task.state if result.task else None,
        "moved": moved(result),
        "at_rest": result.task.at_rest if result.task else None,
        "latency_ms": {name: percentiles(values) for name, values in seen.stages_ms.items()},
        "frame_to_first_motion_ms": round(seen.frame_to_first_motion_ms, 1) or None,
        "permit_cycles": {
            "edge_to_accept": max(seen.edge_to_accept, default=None),
            "accept_to_motion": max(seen.accept_to_motion, default=None),
        },
        "limits": {
            "profile": result.config.profile,
            "max_ratio": round(ratios.largest, 4) if ratios else None,
            "plan": round(ratios.plan, 4) if ratios else None,
            "stop": round(ratios.stop, 4) if ratios else None,
            "which": ratios.which if ratios else None,
            "rtde_gaps": result.gaps,
        },
        "chunks": seen.chunks,
        "trajectories": {
            "published": len(seen.trajectories),
            "accepted": seen.accepted,
            "refusals": seen.refusals,
        },
        "holds": seen.holds,
        "resumed": result.task.resumed if result.task else [],
        "touches": touches,
        "model": {"name": model.get("name"), "sha256": model.get("sha256"), "stand_in": True},
        "processes": result.processes,
        "guard": "on" if result.config.guard.enabled else "off",
        "sim_rate": round(float(result.world.get("sim_rate", 0.0)), 3),
        "simulated": result.config.simulated,
        "seconds": {"start": round(result.start_s, 1), "task": round((result.end_ns - result.start_ns) * 1e-9, 1)},
        "arm_states": [name for _, name in seen.states],
    }


def moved(result: Result) -> bool:
    """Whether the arm's target moved at all, from the RTDE record."""
    file = result.out / "run" / "rtde.npy"
    if not file.exists():
        return False
    q = np.load(file)["target_q"]
    return len(q) > 0 and float(np.abs(q - q[0]).max()) > 1e-4


def pictures(result: Result, figures: dict[str, Any], console: Console) -> None:
    """Write `trajectory.png`, `demo.png` and `demo.mp4` into the output folder."""
    from wardarm.sim.demo import film, plots  # rendering and video libraries, only when wanted

    out = result.out
    file = out / "run" / "rtde.npy"
    if file.exists() and result.ratios is not None:
        motion = limits.motion(np.load(file), result.config.arm)
        plots.trajectory(motion, result.config.limits, result.ratios, f"“{result.instruction}”", out / "trajectory.png")
    shown = film.moments(out / "run" / "world.rec", result.seen, result.start_ns, result.end_ns)
    if not shown:
        return
    film.four_moments(out / "demo.png", shown, result.instruction, figures["physics"])
    with Progress(TextColumn("film"), BarColumn(), TimeRemainingColumn(), console=console, transient=True) as bar:
        row = bar.add_task("film", total=1.0)
        film.film(out / "demo.mp4", shown, result.instruction, lambda f: bar.update(row, completed=f))


def _ms(values: dict[str, float | None]) -> str:
    return "-" if values["p50"] is None else f"{values['p50']:.1f} / {values['p99']:.1f}"


def table(result: Result, figures: dict[str, Any], console: Console) -> None:
    """The end of a demonstration, for a person."""
    grid = Table(title=f"“{result.instruction}”", show_header=False, title_style="bold", min_width=72)
    grid.add_row("result", "[green]done[/]" if figures["success"] else f"[red]{figures['reason']}[/]")
    grid.add_row("physics", figures["physics"])
    for step in figures["steps"]:
        grid.add_row(
            f"step: {step['kind']}", f"{step['state']}" + (f": {step['reason']}" if step.get("reason") else "")
        )
    for late in figures["resumed"]:
        grid.add_row("held and resumed", f"this machine was late: {late}")
    row = figures["limits"]
    if row["max_ratio"] is not None:
        grid.add_row(
            f"largest value / limit ({row['profile']})",
            f"{row['plan']:.3f} planned, {row['stop']:.3f} in stops ({row['which']})",
        )
    cycles = figures["permit_cycles"]
    if cycles["edge_to_accept"] is not None:
        grid.add_row(
            "PWM edge → permit → motion",
            f"{cycles['edge_to_accept']} + {cycles['accept_to_motion']} controller cycles of 2 ms",
        )
    if figures["frame_to_first_motion_ms"]:
        grid.add_row("frame → first motion", f"{figures['frame_to_first_motion_ms']:.0f} ms")
    grid.add_row("ms p50 / p99", ", ".join(f"{k} {_ms(v)}" for k, v in figures["latency_ms"].items()))
    done = figures["trajectories"]
    grid.add_row(
        "trajectories",
        f"{done['accepted']} accepted of {done['published']}" + (f"; {done['refusals']}" if done["refusals"] else ""),
    )
    grid.add_row("processes (CPU s)", ", ".join(f"{k} {v['cpu_s']:.1f}" for k, v in figures["processes"].items()))
    grid.add_row("guard, sim rate", f"{figures['guard']}, {figures['sim_rate']:.2f}")
    grid.add_row("model", f"{figures['model']['name']}, a stand-in for the GR00T contract; everything simulated")
    grid.add_row("written", f"{result.out}/" + "{summary.json, demo.mp4, demo.png, trajectory.png}")
    console.print(grid, highlight=False)
