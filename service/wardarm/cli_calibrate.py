"""`wardarm calibrate camera`: where the bedside camera stands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wardarm import config as configuration


def mount(app: typer.Typer) -> None:
    """Beside `calibrate room`, in the same group, which is made here if it is not there yet."""
    group = next((g.typer_instance for g in app.registered_groups if g.name == "calibrate"), None)
    if group is None:
        group = typer.Typer(no_args_is_help=True, help="Where cameras are.")
        app.add_typer(group, name="calibrate")
    group.command("camera")(calibrate_camera)


def calibrate_camera(
    config: Annotated[str, typer.Option("--config", help="configuration file, or 'desk' or 'thor'")] = "thor",
    markers: Annotated[Path | None, typer.Option(help="TOML file of markers at measured places on the table")] = None,
    as_trained: Annotated[
        bool, typer.Option("--as-trained", help="no markers: the bracket holds it exactly where the model was trained")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="folder to write; default: camera.place of the configuration")
    ] = None,
) -> None:
    """Find where the bedside camera stands, check it against depth, and keep how the table looks from there.

    Before: the arm at home with nothing in its fingers, the table as it usually is, process eye stopped (a D455 serves one
    program). From then on each task begins with a look whether the camera is still there.
    """
    from wardarm.eye import calibrate
    from wardarm.guard.calibrate import NotCalibrated, measured_markers

    if (markers is None) != as_trained:
        typer.echo("give either --markers FILE or --as-trained", err=True)
        raise typer.Exit(2)
    try:
        loaded = configuration.load(config)
    except configuration.ConfigError as e:
        typer.echo(str(e), err=True)
        raise typer.Exit(2) from e
    folder = out or (Path(loaded.camera.place) if loaded.camera.place else None)
    if folder is None:
        typer.echo("camera.place is empty in this configuration: say --out FOLDER, and enter it there", err=True)
        raise typer.Exit(2)
    try:
        known = measured_markers(markers) if markers else None
        place = calibrate.calibrate(calibrate.look(loaded), known, lambda text: typer.echo(text, err=True))
        place.save(folder)
    except (NotCalibrated, OSError) as e:
        typer.echo(f"{e}. Nothing was written", err=True)
        raise typer.Exit(1) from e
    typer.echo(f'written: {folder}; in the configuration: [camera] place = "{folder.resolve()}", then start eye again')
