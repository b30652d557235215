"""`wardarm model ...`: what is served, whether a file may be, and the way to a TensorRT plan."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

model_app = typer.Typer(no_args_is_help=True, help="Model files: check, export, build, serve.")
Json = Annotated[bool, typer.Option("--json", help="print one JSON object to stdout")]
out, err = Console(), Console(stderr=True)
_MARK = {"ok": "[green]ok[/]", "bad": "[red]bad[/]", "note": "[yellow]note[/]", "skipped": "skipped"}


def mount(app: typer.Typer, bench: typer.Typer) -> None:
    app.add_typer(model_app, name="model")
    bench.command("model")(bench_model)


def _fail(error: Exception, code: int = 1) -> typer.Exit:
    err.print(f"[red]{escape(str(error))}[/]", highlight=False, soft_wrap=True)
    return typer.Exit(code)


def _print(rows: dict[str, Any]) -> None:
    table = Table(show_header=False, box=None)
    for key, value in rows.items():
        table.add_row(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    out.print(table)


@model_app.command("list")
def model_list(as_json: Json = False) -> None:
    """Every model of the repository and whether its parts belong together."""
    from wardarm.model import repository

    found = repository.listed()
    if as_json:
        print(json.dumps({"models": [m.as_json() for m in found]}))
    else:
        for m in found:
            note = "stands in for GR00T" if m.stand_in else ""
            out.print(
                f"{m.name}  {m.onnx_bytes / 1e6:.1f} MB  {m.onnx_sha256[:12]}  {m.plan or 'no plan'}  {note}",
                highlight=False,
            )
            for wrong in m.wrong:
                err.print(f"[red]  {wrong}[/]", highlight=False)
    raise typer.Exit(0 if all(not m.wrong for m in found) else 1)


@model_app.command("show")
def model_show(name: Annotated[str, typer.Argument()] = "groot_n15", as_json: Json = False) -> None:
    """One model: files, hashes, plan, what does not belong together."""
    from wardarm.model import repository

    folder = repository.folder() / name
    if not (folder / "config.pbtxt").is_file():
        raise _fail(ValueError(f"{folder}: no such model; 'wardarm model list' shows what is there"), 2)
    served = repository.look(folder)
    if as_json:
        print(json.dumps(served.as_json()))
    else:
        _print(served.as_json())
    raise typer.Exit(0 if not served.wrong else 1)


@model_app.command("check")
def model_check(
    file: Annotated[Path, typer.Argument(help="an ONNX file")],
    samples: Annotated[int, typer.Option(min=1, help="moments of the simulated bedside to try it on")] = 8,
    checkpoint: Annotated[Path | None, typer.Option(help="compare with this PyTorch checkpoint")] = None,
    reference: Annotated[Path | None, typer.Option(help="compare with another ONNX file, e.g. in FP32")] = None,
    tokenizer: Annotated[Path | None, typer.Option(help="default: that of the served model")] = None,
    parser: Annotated[bool, typer.Option(help="ask TensorRT's parser (needs the extra trt-check)")] = True,
    as_json: Json = False,
) -> None:
    """Contract, opset, weights, operators, accuracy, range: may this file be served?"""
    from wardarm.model import repository
    from wardarm.model.check import check

    words = tokenizer or repository.version_folder() / "tokenizer.model"
    found = check(file, words, count=samples, checkpoint=checkpoint, reference=reference, parser=parser)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        table = Table(box=None)
        for column in ("check", "", "seen", "advice"):
            table.add_column(column, overflow="fold")
        for f in found.items:
            table.add_row(f.name, _MARK[f.status], escape(f.seen), escape(f.advice))
        out.print(table)
    raise typer.Exit(0 if found.ok else 1)


@model_app.command("use")
def model_use(file: Annotated[Path, typer.Argument(help="an ONNX file")]) -> None:
    """Serve this file from the next start on: checked first, put in place in one move."""
    from wardarm.model import repository
    from wardarm.model.onnx_file import ModelFileError

    try:
        path = repository.use(file)
    except ModelFileError as e:
        raise _fail(e) from e
    out.print(f"{path} is {file}; start the server again: what runs goes on with the old one", highlight=False)


@model_app.command("export")
def model_export(
    checkpoint: Annotated[Path | None, typer.Option(help="of 'wardarm policy train'")] = None,
    full_size: Annotated[bool, typer.Option("--full-size", help="the 147 M architecture with random weights")] = False,
    out_dir: Annotated[Path, typer.Option("--out", help="folder for policy.onnx and model_card.md")] = Path(
        "out/policy"
    ),
    fp32: Annotated[bool, typer.Option("--fp32", help="with --full-size: compute in FP32, to compare with")] = False,
) -> None:
    """Checkpoint -> policy.onnx with FP16 written into it, checked against the contract."""
    if full_size == (checkpoint is not None):
        raise _fail(ValueError("give either --checkpoint FILE or --full-size"), 2)
    if checkpoint is not None:
        from wardarm.training import export

        raise typer.Exit(export.main(["--checkpoint", str(checkpoint), "--out", str(out_dir)]))
    try:
        from wardarm.model.fullsize_export import export_full_size
    except ImportError as e:
        raise _fail(RuntimeError("PyTorch is not installed: pip install 'wardarm[train]'"), 2) from e
    path = export_full_size(out_dir, half=not fp32)
    out.print(
        f"{path}: {path.stat().st_size / 1e6:.0f} MB, random weights; 'wardarm model check {path}'", highlight=False
    )


@model_app.command("build")
def model_build(
    file: Annotated[Path | None, typer.Argument(help="an ONNX file; default: the served one")] = None,
    plan: Annotated[Path | None, typer.Option(help="default: model.plan beside the ONNX file")] = None,
    samples: Annotated[int, typer.Option(min=1)] = 16,
    as_json: Json = False,
) -> None:
    """On the machine with the GPU: a strongly typed TensorRT plan, compared with its ONNX before it is kept."""
    from wardarm.model import repository
    from wardarm.model.building import build_here
    from wardarm.model.onnx_file import ModelFileError
    from wardarm.model.plan import BuildError

    version = repository.version_folder()
    onnx = file or version / "policy.onnx"
    try:
        record = build_here(onnx, plan or onnx.with_name("model.plan"), version / "tokenizer.model", samples)
    except (BuildError, ModelFileError) as e:
        raise _fail(e) from e
    if as_json:
        from dataclasses import asdict

        print(json.dumps(asdict(record)))
    else:
        _print(
            {"plan": str(plan or onnx.with_name("model.plan")), "layers": record.layers, "agreement": record.agreement}
        )


@model_app.command("verify")
def model_verify(plan: Annotated[Path | None, typer.Argument(help="default: the served one")] = None) -> None:
    """Whether a plan was built on this machine, by this TensorRT, from the served ONNX."""
    from wardarm.model import repository
    from wardarm.model.building import verify_here
    from wardarm.model.plan import BuildError, PlanMismatch

    path = plan or repository.version_folder() / "model.plan"
    try:
        record = verify_here(path)
    except (BuildError, PlanMismatch) as e:
        raise _fail(e) from e
    out.print(
        f"{path}: TensorRT {record.machine.tensorrt} on {record.machine.gpu}, built from {record.onnx_sha256[:12]}",
        highlight=False,
    )


def bench_model(
    seconds: Annotated[float, typer.Option(min=0.1, help="budget of each row")] = 5.0,
    full_size: Annotated[
        bool, typer.Option(help="the 147 M architecture with PyTorch, on a GPU if there is one")
    ] = True,
    served: Annotated[bool, typer.Option(help="the served file with onnxruntime on one thread")] = True,
    as_json: Json = False,
) -> None:
    """Latency of the served file on a CPU thread, and of the full-size model eager, compiled and as a CUDA graph."""
    arguments = (
        ["--seconds", str(seconds)] + ([] if full_size else ["--no-full-size"]) + ([] if served else ["--no-served"])
    )
    from wardarm.model import bench

    raise typer.Exit(bench.main([*arguments, *(["--json"] if as_json else [])]))


if __name__ == "__main__":
    sys.exit(model_app())
