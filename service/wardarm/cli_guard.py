"""`wardarm guard ...`, `wardarm bench guard`, `wardarm alert ...`, `wardarm calibrate room`: the room cameras' command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from wardarm import config as configuration

alert_app = typer.Typer(no_args_is_help=True, help="Spoken alerts.")
ConfigFile = Annotated[str, typer.Option("--config", help="a TOML file, or 'desk' / 'thor' that ship with wardarm")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
out = Console()
err = Console(stderr=True)


def _load(file: str) -> configuration.Config:
    try:
        return configuration.load(file)
    except configuration.ConfigError as e:
        raise _usage(str(e)) from e


def _usage(text: str, code: int = 2) -> typer.Exit:
    err.print(f"[red]{text}[/]", highlight=False)
    return typer.Exit(code)


def mount(app: typer.Typer, guard_app: typer.Typer, bench_app: typer.Typer) -> None:
    """Add this file's commands."""
    guard_app.command("test")(try_recordings)
    guard_app.command("attend")(attend)
    guard_app.command("commands")(commands)
    bench_app.command("guard")(bench)
    app.add_typer(alert_app, name="alert")
    calibrate_app = next((g.typer_instance for g in app.registered_groups if g.name == "calibrate"), None)
    if calibrate_app is None:
        calibrate_app = typer.Typer(no_args_is_help=True, help="Where cameras are.")
        app.add_typer(calibrate_app, name="calibrate")
    calibrate_app.command("room")(calibrate_room)


def try_recordings(
    files: Annotated[list[Path], typer.Argument(help="recordings, any video that FFmpeg reads")],
    config: ConfigFile = "desk",
    camera: Annotated[str, typer.Option(help="whose zones; default: the first")] = "",
    zone: Annotated[str, typer.Option(help="a keep-out zone of its own instead: x,y x,y x,y ...")] = "",
    out_dir: Annotated[Path | None, typer.Option("--out", help="write <name>.csv and <name>.mp4 here")] = None,
    empty: Annotated[bool, typer.Option(help="nobody is in these recordings: every hold is a false alarm")] = False,
    median: Annotated[
        bool, typer.Option(help="the empty room is the recording's median, not its first frames")
    ] = False,
    as_json: Json = False,
) -> None:
    """What guard would have said about recordings. Exit status 1: with --empty, a false alarm."""
    from wardarm.guard import trial, zones
    from wardarm.guard.main import View

    loaded = _load(config)
    found = [c for c in loaded.guard.cameras if c.name == camera or not camera]
    if not found:
        names = ", ".join(c.name for c in loaded.guard.cameras) or "none"
        raise _usage(f"--camera {camera!r}: the configuration has {names}")
    chosen = found[0]
    try:
        if zone:
            points = [tuple(map(float, p.split(","))) for p in zone.split()]
            chosen = chosen.model_copy(update={"keep_out": points, "zones": []})
        zones.check_camera(chosen, loaded.guard)
        View(loaded, chosen, Path(config))
        rows = [trial.run(f, loaded.guard, chosen, out_dir, median).figures(empty) for f in files]
    except (trial.NoRecording, configuration.ConfigError, ValueError, TypeError) as e:
        raise _usage(str(e)) from e
    if as_json:
        print(json.dumps({"camera": chosen.name, "recordings": rows}, ensure_ascii=False))
    for row in [] if as_json else rows:
        key = "false_alarms_per_hour" if empty else "holds_per_hour"
        out.print(
            f"{row['file']}: {row['frames']} frames, {row['seconds']} s; held in {row['held_frames']} of them; "
            f"{len(row['holds'])} holds ({key.replace('_', ' ')}: {row[key]}); {row['examine_ms'].get('p99')} ms a frame at p99",
            highlight=False,
        )
        for h in row["holds"]:
            out.print(
                f"  {h['start_s']:8.2f} .. {h['end_s']:8.2f} s  {' then '.join(h['reasons'])}: {h['detail']}",
                highlight=False,
            )
    if empty and any(row["holds"] for row in rows):
        raise typer.Exit(1)


def attend(
    config: ConfigFile = "thor",
    minutes: Annotated[float, typer.Option(help="at most guard.attended_max_min")] = 10,
    actor: Annotated[str, typer.Option(help="who works there, for the log")] = "",
    reason: Annotated[str, typer.Option(help="why, for the log")] = "",
    end: Annotated[bool, typer.Option("--end", help="end it now")] = False,
) -> None:
    """Somebody of the staff works in the zone: the arm goes on, gently, for a limited time."""
    from wardarm.guard import attended

    loaded = _load(config)
    if end:
        out.print("attended mode ended" if attended.end(loaded) else "attended mode was not on")
        return
    try:
        asked = attended.start(loaded, minutes, actor, reason)
    except attended.NotAttended as e:
        raise _usage(str(e)) from e
    out.print(f"attended by {asked.actor} for {minutes:g} minutes; the arm moves gently until then", highlight=False)


def commands(
    kind: Annotated[str, typer.Argument(help="csi, v4l2, uvc, rtsp, rtsp-jetson, file, test; default: all")] = "",
    device: Annotated[str, typer.Option(help="sensor number, /dev/v4l/by-path/..., rtsp://... or a file")] = "",
    name: Annotated[str, typer.Option(help="what the camera is called")] = "room",
) -> None:
    """Ready-made camera commands, as entries for the configuration."""
    from wardarm.guard.commands import SOURCES, toml

    if kind and kind not in SOURCES:
        raise _usage(f"{kind!r}: not one of {', '.join(SOURCES)}")
    print("\n".join(f"# {k}\n{toml(k, device if kind else '', name)}" for k in ([kind] if kind else SOURCES)), end="")


@alert_app.command("texts")
def alert_texts() -> None:
    """What is said, and under which file name a recording of it is looked for."""
    from wardarm.alert import sounds

    for name, message in sounds.messages().items():
        for language, text in message.texts.items():
            out.print(f"{name}_{language}.wav  {text}", highlight=False)


@alert_app.command("build")
def alert_build(
    out_dir: Annotated[Path, typer.Option("--out", help="where the WAV files and manifest.json go")],
    spoken: Annotated[
        Path | None, typer.Argument(help="folder of recordings (16-bit PCM WAV), named as 'alert texts' shows")
    ] = None,
    by: Annotated[str, typer.Option(help="who speaks, for the manifest")] = "recorded at the site",
    licence: Annotated[str, typer.Option(help="for the manifest")] = "the site's own",
) -> None:
    """Make a set from the site's own recordings: trimmed, levelled, a chime in front. Without recordings: chimes alone."""
    from wardarm.alert import sounds

    try:
        manifest = sounds.build(out_dir, spoken, by if spoken else "chimes", licence)
        found = sounds.load(manifest)
    except (OSError, sounds.BadSounds) as e:
        raise _usage(str(e), 1) from e
    have = {f"{name}_{language}" for name, rows in found.files.items() for language in rows}
    missing = [f"{n}_{language}" for n in found.files for language in sounds.LANGUAGES if f"{n}_{language}" not in have]
    out.print(f"{manifest}: {len(have)} files{'; without: ' + ', '.join(missing) if missing else ''}", highlight=False)


@alert_app.command("seal")
def alert_seal(manifest: Annotated[Path, typer.Argument(help="manifest.json beside the WAV files")]) -> None:
    """Write the sums of the present files into the manifest: after you have listened to every one."""
    from wardarm.alert import sounds

    try:
        out.print(f"{manifest}: {sounds.seal(manifest)} files sealed", highlight=False)
    except (OSError, ValueError, KeyError) as e:
        raise _usage(str(e), 1) from e


@alert_app.command("check")
def alert_check(manifest: Annotated[Path, typer.Argument(help="manifest.json beside the WAV files")]) -> None:
    """Every file is there, is a WAV, and is the one that the manifest names."""
    from wardarm.alert import sounds

    try:
        found = sounds.load(manifest)
    except sounds.BadSounds as e:
        raise _usage(str(e), 1) from e
    missing = [n for n in sounds.messages() if n not in found.files]
    out.print(f"{manifest}: good{'; without a recording: ' + ', '.join(missing) if missing else ''}", highlight=False)


@alert_app.command("test")
def alert_test(config: ConfigFile = "thor") -> None:
    """Play the self-test tone as the alert process would. Exit status 1: it could not be played."""
    import logging
    import time

    from wardarm.alert.main import AlertLoop

    loop = AlertLoop(_load(config).model_copy(update={"log": configuration.Log(level="error")}))
    logging.getLogger("wardarm").setLevel("ERROR")
    if loop.sounds is not None:
        loop.player.play([loop.sounds.tone])
    while loop.player.busy:
        loop.player.poll(time.monotonic())
        time.sleep(0.02)
    counts = loop.player.counts
    loop.close()
    if counts.failures:
        raise _usage(counts.last_failure, 1)
    out.print("the tone was played")


def calibrate_room(
    name: Annotated[str, typer.Argument(help="the camera, as in [[guard.cameras]]")],
    config: ConfigFile = "thor",
    markers: Annotated[Path | None, typer.Option(help="TOML file of markers at measured places")] = None,
    on_gripper: Annotated[int, typer.Option(help="number of the one marker that the gripper carries")] = -1,
    offset: Annotated[str, typer.Option(help="its middle from the TCP, tool frame, m: x,y,z")] = "0,0,0",
    places: Annotated[int, typer.Option(min=6, help="how many places of the gripper")] = 8,
    seconds: Annotated[float, typer.Option(help="give up after so long")] = 600,
    limit_px: Annotated[
        float, typer.Option(min=0.5, max=10, help="refused above this error, pixels at 640 of width")
    ] = 3.0,
) -> None:
    """Find where a room camera hangs, from ArUco markers (4x4_50) on the gripper or at measured places.

    A camera that serves one program at a time needs guard stopped first.
    """
    from wardarm.guard import calibrate

    loaded = _load(config)
    if (markers is None) == (on_gripper < 0):
        raise _usage("give either --markers FILE or --on-gripper NUMBER")
    try:
        camera = calibrate.the_camera(loaded, name)
        measured = calibrate.measured_markers(markers) if markers else {}
        at = [float(v) for v in offset.split(",")]
        if len(at) != 3:
            raise ValueError(f"--offset {offset!r}: three numbers x,y,z in m")
        pairs = calibrate.collect(
            loaded, Path(config), camera, measured, on_gripper if on_gripper >= 0 else None, at, places, seconds,
            lambda text: err.print(text, highlight=False),
        )  # fmt: skip
        place = calibrate.solve(pairs, loaded.guard.width, loaded.guard.height, limit_px)
    except configuration.ConfigError as e:
        raise _usage(str(e)) from e
    except ValueError as e:
        raise _usage(str(e), 1) from e
    err.print(f"{name}: {place.pairs} points, {place.rms_px:.2f} px (largest {place.max_px:.2f})", highlight=False)
    print(place.toml(), end="")


def bench(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="minutes instead of an hour; nothing is kept")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="this part alone; repeat it")] = None,
    out_dir: Annotated[Path, typer.Option("--out", help="long runs are kept here, part by part")] = Path("out/bench"),
    video: Annotated[
        Path | None, typer.Option(help="vtest.avi (Debian's opencv-doc); default: where Debian puts it")
    ] = None,
    crossings: Annotated[
        int, typer.Option(min=0, help="visitors that cross the line of a running system; 0: none")
    ] = 3,
    frames: Annotated[int, typer.Option(min=300, help="frames of the memory figure")] = 100_000,
) -> None:
    """Room cameras: exposure to word, load, long scenes, vtest.avi, memory, a visitor who crosses the line.

    Exit status 1: a figure to reach is not. Delete <out>/guard.json to measure anew.
    """
    from wardarm.ops import bench_guard

    unknown = [part for part in only or [] if part not in bench_guard.PARTS]
    if unknown:
        raise _usage(f"--only {unknown[0]!r}: the parts are {', '.join(bench_guard.PARTS)}")
    figures = bench_guard.run(
        video, crossings, frames, quick, out_dir, only or [], lambda text: err.print(text, highlight=False)
    )
    if as_json:
        print(json.dumps(figures, ensure_ascii=False))
    else:
        _show_bench(figures, only or [])
    if any(row["reached"] is False for row in figures["targets"].values()):
        raise typer.Exit(1)


def _show_bench(figures: dict[str, Any], only: list[str]) -> None:
    """Figures to reach (of the parts of `only`, if any), then p50, p99 and the largest of all that was timed, then the rest."""
    from wardarm.ops import bench_guard

    table = Table("figure", "value", "to reach", "reached", box=None)
    for name, row in figures["targets"].items():
        if not only or row["reached"] is not None:
            shown = {True: "yes", False: "[red]no[/]", None: "not measured"}[row["reached"]]
            table.add_row(name, str(row["value"]), row["limit"], shown)
    out.print(table)
    times = Table("timed", "p50", "p99", "max", box=None)
    for name in [n for n in bench_guard.PARTS if isinstance(figures.get(n), dict)]:
        for key, value in figures[name].items():
            if isinstance(value, dict) and {"p50", "p99", "max"} <= set(value):
                times.add_row(f"{name}.{key}", *(f"{value[k]:g}" for k in ("p50", "p99", "max")))
    if times.row_count:
        out.print(times)
    for name in [n for n in bench_guard.PARTS if n in figures and (not only or n in only)]:
        out.print(f"{name}: {json.dumps(figures[name], ensure_ascii=False)}", highlight=False)
