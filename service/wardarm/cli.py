"""The command line: `wardarm --help`. Every sub-command imports what it needs when it runs.

Exit status: 0 done, 1 the arm or a check said no, 2 usage. `--json` prints one JSON object to stdout.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wardarm import cli_calibrate, cli_client, cli_guard, cli_model, cli_motion, cli_policy, cli_sim_ur
from wardarm import config as configuration
from wardarm.ops import installation

app = typer.Typer(
    name="wardarm", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
    help="A robot-arm policy beside a hospital bed: one sentence in, gentle motion out.",
)  # fmt: skip
config_app = typer.Typer(no_args_is_help=True, help="Look at and check configuration files.")
sim_app = typer.Typer(no_args_is_help=True, help="The simulated bedside and its parts.")
bench_app = typer.Typer(no_args_is_help=True, help="Measured figures.")
guard_app = typer.Typer(no_args_is_help=True, help="The room cameras.")
policy_app = typer.Typer(no_args_is_help=True, help="The model's contract, data and training.")
app.add_typer(config_app, name="config")
app.add_typer(sim_app, name="sim")
app.add_typer(bench_app, name="bench")
app.add_typer(guard_app, name="guard")
app.add_typer(policy_app, name="policy")
cli_client.mount(app)
cli_model.mount(app, bench_app)
cli_motion.mount(app, bench_app)
cli_policy.mount(app, policy_app)
cli_guard.mount(app, guard_app, bench_app)
cli_calibrate.mount(app)
cli_sim_ur.mount(sim_app)

ConfigFile = Annotated[str, typer.Option("--config", help="a TOML file, or 'desk' / 'thor' that ship with wardarm")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
out = Console()
err = Console(stderr=True)
_JETSON = Path("/proc/device-tree/model")  # only for a hint: what runs is the configuration's


def _load(file: str) -> configuration.Config:
    try:
        return configuration.load(file)
    except configuration.ConfigError as e:
        err.print(f"[red]{escape(str(e))}[/]", highlight=False)
        raise typer.Exit(2) from e


@app.command()
def demo(
    instruction: Annotated[str, typer.Option(help="what to ask for, in Chinese or English")] = "把桌角的蓝色水杯拿给我",
    seed: Annotated[int, typer.Option(min=0, help="which scene is drawn")] = 7,
    out_dir: Annotated[Path, typer.Option("--out", help="where pictures, film and summary go")] = Path("out/demo"),
    film: Annotated[bool, typer.Option(help="render the film and the pictures")] = True,
    scene: Annotated[
        Path | None, typer.Option(help="a scene file (JSON) instead of one drawn for the sentence")
    ] = None,
    absent: Annotated[bool, typer.Option("--absent", help="draw the scene so that what is named is not there")] = False,
    as_json: Json = False,
) -> None:
    """One sentence moves the (simulated) arm: every real part, one film, one table.

    The scene is drawn from the seed so that what the sentence names stands there exactly once.
    """
    from wardarm.sim.demo.run import demo as run_demo

    code = run_demo(instruction, seed, out_dir, film=film, as_json=as_json, scene_file=scene, absent=absent)
    raise typer.Exit(code)


@app.command()
def run(
    config: ConfigFile = "thor",
    run_dir: Annotated[Path, typer.Option(help="logs, status and parameter files")] = Path("/run/wardarm"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="everything but the arm, on a recording")] = False,
    source: Annotated[str, typer.Option(help="with --dry-run: a .bag or .db3 recording")] = "",
    instruction: Annotated[str, typer.Option(help="with --dry-run: what to ask for")] = "把桌角的蓝色水杯拿给我",
    as_json: Json = False,
) -> None:
    """Run the daemon: what systemd starts."""
    loaded = _load(config)
    if dry_run:
        if not source:
            err.print("[red]--dry-run needs --source FILE (a .bag or .db3 recording)[/]")
            raise typer.Exit(2)
        command = [sys.executable, "-m", "wardarm.eye.dry_run", "--config", config, "--source", source]
        command += ["--instruction", instruction] + (["--json"] if as_json else [])
        os.execv(sys.executable, command)
    from wardarm import supervisor

    if config == "thor" and not _JETSON.exists():
        err.print("[yellow]no Jetson: a plain PC with simulated devices is --config desk --run-dir out/run[/]")
    raise typer.Exit(supervisor.run(loaded, run_dir))


@config_app.command("check")
def config_check(file: Annotated[str, typer.Argument(help="a TOML file, or 'desk' / 'thor'")]) -> None:
    """Refuse what does not fit, naming key, value and limit."""
    config = _load(file)
    if config.guard.enabled:
        from wardarm.guard.main import check

        try:
            check(config, Path(file))
        except configuration.ConfigError as e:
            err.print(f"[red]{escape(str(e))}[/]", highlight=False)
            raise typer.Exit(2) from e
    out.print(f"{file}: good", highlight=False)


@config_app.command("show")
def config_show(file: Annotated[str, typer.Argument(help="a TOML file, or 'desk' / 'thor'")]) -> None:
    """The configuration with every default filled in, as JSON."""
    print(_load(file).model_dump_json(by_alias=True, indent=2))


@config_app.command("docs")
def config_docs() -> None:
    """Every key with its meaning, range and default, as Markdown."""
    print(configuration.reference())


@sim_app.command("bedside")
def sim_bedside(
    config: ConfigFile = "desk",
    scene: Annotated[str, typer.Option(help="a scene file (JSON); default: drawn from sim.seed")] = "",
    record: Annotated[str, typer.Option(help="write the world's states into this file")] = "",
    write_scene: Annotated[str, typer.Option(help="only write the scene into this file")] = "",
) -> None:
    """The simulated arm, gripper and world in real time (without the pictures: see 'sim views')."""
    given = (("--scene", scene), ("--record", record), ("--write-scene", write_scene))
    raise typer.Exit(
        _module("wardarm.sim.bedside", "--config", config, *(w for pair in given if pair[1] for w in pair))
    )


@sim_app.command("room")
def sim_room(
    name: Annotated[str, typer.Argument(help="bed, door or window")],
    config: ConfigFile = "desk",
    width: int = 640,
    height: int = 360,
    fps: float = 5,
) -> None:
    """One room view as raw GRAY8 frames on stdout: a camera command for the guard."""
    sizes = ("--width", str(width), "--height", str(height), "--fps", str(fps))
    _module("wardarm.sim.room", name, "--config", config, *sizes)


@sim_app.command("views")
def sim_views(config: ConfigFile = "desk") -> None:
    """Renders the D455 and the room cameras of a running bedside."""
    _module("wardarm.sim.views", "--config", config)


@bench_app.command("postproc")
def bench_postproc(
    profile: Annotated[str, typer.Option(help="limits to plan within: a profile of the configuration")] = "ward",
    reaches: Annotated[int, typer.Option(min=1, help="simulated reaches, about eleven plans each")] = 220,
    config: ConfigFile = "desk",
    as_json: Json = False,
) -> None:
    """Planner: time, limits, seams, ramps."""
    sizes = ("--profile", profile, "--reaches", str(reaches), "--config", config)
    _module("wardarm.ops.bench_postproc", *sizes, *(["--json"] if as_json else []))


@bench_app.command("stop")
def bench_stop(as_json: Json = False) -> None:
    """Twenty faults while the simulated arm moves: how fast it stands, what was said. The whole matrix: `make prove`."""
    _module("wardarm.ops.bench_stop", *(["--json"] if as_json else []))


@bench_app.command("sim")
def bench_sim(as_json: Json = False) -> None:
    """The simulated controller: lock-step speed and repeatability, share of a core in real time."""
    _module("wardarm.ops.bench_sim", *(["--json"] if as_json else []))


@guard_app.command("preview")
def guard_preview(
    config: ConfigFile = "desk", out_dir: Annotated[Path, typer.Option("--out")] = Path("out/guard")
) -> None:
    """One picture a room view, with zones, our own arm's mask and what is detected."""
    _module("wardarm.guard.preview", "--config", config, "--out", str(out_dir))


@guard_app.command("relearn")
def guard_relearn(config: ConfigFile = "desk") -> None:
    """Let the running guard learn the empty room anew: only with nobody in the views."""
    _module("wardarm.guard.main", "--config", config, "--relearn")


@policy_app.command("contract")
def policy_contract() -> None:
    """Tensors, units, frames and hashes of the model's contract."""
    _module("wardarm.policy.contract")


@app.command()
def version(as_json: Json = False) -> None:
    """Version of wardarm and where it is installed."""
    from importlib.metadata import version as installed

    facts = {"wardarm": installed("wardarm"), "root": str(installation.root())}
    if as_json:
        print(json.dumps(facts))
        return
    table = Table(show_header=False, box=None)
    for key, value in facts.items():
        table.add_row(key, value)
    out.print(table)


def _module(name: str, *args: str) -> NoReturn:
    """Become that module: signals reach it, and its exit status is ours."""
    os.execv(sys.executable, [sys.executable, "-m", name, *args])


def main() -> None:
    app()


if __name__ == "__main__":
    main()
