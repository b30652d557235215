"""`wardarm plot trajectory` and the figures of motion: `wardarm bench optimum | seams | slosh`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from wardarm import config as configuration

plot_app = typer.Typer(no_args_is_help=True, help="Pictures of what the arm does.")
out, err = Console(), Console(stderr=True)
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
Motions = Annotated[int, typer.Option(min=1, help="how many")]
Seed = Annotated[int, typer.Option(min=0, help="which ones are drawn")]


@plot_app.command("trajectory")
def trajectory(
    file: Annotated[Path, typer.Argument(help="an RTDE record (rtde.npy) or a chunk (.json, .npz, .bin)")],
    picture: Annotated[
        Path | None, typer.Option("--out", help=".png, .pdf or .svg; default: FILE's name with .png, here")
    ] = None,
    config: Annotated[str, typer.Option("--config", help="a TOML file, or 'desk' / 'thor'")] = "desk",
    profile: Annotated[str, typer.Option(help="limits to hold it against; default: the configuration's")] = "",
    as_json: Json = False,
) -> None:
    """One motion on one page: position, speed, acceleration, jerk, limits, raw points, smoothed path, predicted slosh."""
    from wardarm.ops import plot_trajectory

    try:
        loaded = configuration.load(config, {"profile": profile} if profile else None)
        shown = plot_trajectory.read(file, loaded)
    except (configuration.ConfigError, plot_trajectory.NotATrajectory, OSError, ValueError) as e:
        err.print(f"[red]{e}[/]", highlight=False)
        raise typer.Exit(2) from e
    from wardarm.ops.trajectory_page import draw

    numbers = plot_trajectory.figures(shown, loaded, loaded.profile)
    target = picture or Path(f"{file.stem}.png")
    if target.suffix not in (".png", ".pdf", ".svg"):
        err.print(f"[red]--out {target}: expected .png, .pdf or .svg[/]", highlight=False)
        raise typer.Exit(2)
    draw(shown, numbers, loaded.limits, loaded.arm, target)
    numbers["picture"] = str(target)
    if as_json:
        print(json.dumps(numbers))
        return
    table = Table(show_header=False, box=None)
    for key, value in numbers.items():
        table.add_row(key, str(value))
    out.print(table, highlight=False)


def optimum(motions: Motions = 12, seed: Seed = 1, as_json: Json = False) -> None:
    """Our motions against a near-optimum on the same path, within the same limits. Minutes."""
    _module("wardarm.ops.bench_optimum", motions, seed, as_json)


def seams(
    motions: Motions = 200,
    seed: Seed = 1,
    noise: Annotated[float, typer.Option(min=0, help="of the model's errors, a share")] = 1.0,
    as_json: Json = False,
) -> None:
    """The same chunks by wardarm, by linear interpolation and by temporal ensembling, in the simulated controller."""
    _module("wardarm.sim.seams.bench", motions, seed, as_json, "seams", "--noise", str(noise))


def slosh(motions: Motions = 300, seed: Seed = 1, as_json: Json = False) -> None:
    """A full cup carried with pauses and with seams every 150 to 600 ms, in the simulated controller."""
    _module("wardarm.sim.seams.bench", motions, seed, as_json, "slosh")


def mount(app: typer.Typer, bench: typer.Typer) -> None:
    """Put these commands where `wardarm` looks for them."""
    app.add_typer(plot_app, name="plot")
    for command in (optimum, seams, slosh):
        bench.command(command.__name__)(command)


def _module(name: str, motions: int, seed: int, as_json: bool, *first: str) -> NoReturn:
    words = [*first, "--motions", str(motions), "--seed", str(seed), *(["--json"] if as_json else [])]
    os.execv(sys.executable, [sys.executable, "-m", name, *words])
