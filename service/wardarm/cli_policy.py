"""`wardarm policy demos|train|...` and `wardarm eval`: the policy's data, training and figures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
_FREE = {"allow_extra_args": True, "ignore_unknown_options": True}


def mount(app: typer.Typer, policy: typer.Typer) -> None:
    policy.command("demos", context_settings=_FREE, add_help_option=False)(demos)
    policy.command("train", context_settings=_FREE, add_help_option=False)(train)
    policy.command("tokenizer", context_settings=_FREE, add_help_option=False)(tokenizer)
    app.command("eval")(evaluate)


def demos(context: typer.Context) -> None:
    """Make demonstrations in the simulated bedside (--format shards or lerobot); --help lists the options."""
    _become("wardarm.training.demos", *context.args)


def train(context: typer.Context) -> None:
    """Train the policy on demonstrations: resumes, stops and says why, draws curves; --help lists the options."""
    _become("wardarm.training.train", *context.args)


def tokenizer(context: typer.Context) -> None:
    """Train the SentencePiece tokenizer on the grammar's own sentences; --help lists the options."""
    _become("wardarm.training.train_tokenizer", *context.args)


def evaluate(
    tasks: Annotated[int, typer.Option(min=1, help="episodes of each kind")] = 300,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    kind: Annotated[
        list[str] | None, typer.Option(help="fetch, hand_over, put, pour, put_back; several times for several")
    ] = None,
    three_step: Annotated[bool, typer.Option("--three-step", help="拿杯子 -> 倒水 -> 放回, as one task each")] = False,
    refusals: Annotated[int, typer.Option(min=0, help="sentences that name nothing here, and as many that do")] = 0,
    onnx: Annotated[Path | None, typer.Option(help="default: the served file")] = None,
    expert: Annotated[
        bool, typer.Option("--expert", help="the expert in the policy's place: what physics allows")
    ] = False,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="in real time through a running system instead of lock-step; fetches only")
    ] = False,
    split: Annotated[str, typer.Option(help="wording: canonical, train or held_out")] = "canonical",
    processes: Annotated[int, typer.Option(min=1)] = 1,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="resumable: episodes already in this file are kept")
    ] = None,
    as_json: Json = False,
) -> None:
    """How often the policy does what is asked: closed loop, physics, planner and player in lock-step; Wilson intervals."""
    words = [
        "--tasks",
        str(tasks),
        "--seed",
        str(seed),
        "--split",
        split,
        "--processes",
        str(processes),
        "--refusals",
        str(refusals),
    ]
    for k in kind or ():
        words += ["--kind", k]
    words += [
        w
        for flag, on in (("--three-step", three_step), ("--expert", expert), ("--daemon", daemon), ("--json", as_json))
        if on
        for w in [flag]
    ]
    for flag, path in (("--onnx", onnx), ("--out", out_file)):
        words += [flag, str(path)] if path else []
    _become("wardarm.training.trial", *words)


def _become(module: str, *args: str) -> NoReturn:
    os.execv(sys.executable, [sys.executable, "-m", module, *args])
