"""Everything that is looked at before a model file may be served (`wardarm model check`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wardarm.model import accuracy, onnx_file, rtx_parser, samples
from wardarm.model.findings import Findings
from wardarm.model.onnx_file import ModelFileError
from wardarm.policy import contract

SAMPLES = 8
START_MAX_MM = 0.5
"""Point 0 must be the planned state to within FP16's resolution (0.29 mm at the box's edge)."""


def check(
    path: Path, tokenizer: Path, *, count: int = SAMPLES, checkpoint: Path | None = None, reference: Path | None = None,
    parser: bool = True,
) -> Findings:  # fmt: skip
    """Look at the file, at its operators, and at what it computes. Never raises for what is wrong with the file."""
    found = Findings()
    found.figures["file"] = str(path)
    try:
        model = onnx_file.read(path)
    except ModelFileError as e:
        found.add("file", "bad", str(e))
        return found
    found.figures["file_bytes"] = path.stat().st_size
    onnx_file.look_at_opset(model, found)
    onnx_file.look_at_signature(model, found)
    onnx_file.look_at_weights(model, found)
    if not found.ok:
        return found
    if parser:
        rtx_parser.look_at_operators(path, found)
    _look_at_outputs(path, model, tokenizer, count, checkpoint, reference, found)
    return found


def _look_at_outputs(
    path: Path,
    model: Any,
    tokenizer: Path,
    count: int,
    checkpoint: Path | None,
    reference: Path | None,
    found: Findings,
) -> None:
    try:
        run = accuracy.session(str(path))
    except Exception as e:  # onnxruntime's errors have no common base
        found.add("onnxruntime", "bad", f"cannot be loaded: {_first_line(e)}", "export it again")
        return
    if not _runs_at_every_batch(run, found):
        return
    feeds: Sequence[samples.Feed]
    try:
        feeds = samples.bedside(count, tokenizer)
        found.figures["samples"] = "bedside"
    except RuntimeError as e:
        feeds = [samples.noise(1, seed) for seed in range(count)]
        found.figures["samples"] = "noise"
        found.add("samples", "note", f"noise instead of the bedside's pictures: {e}")
    accuracy.look_at_range([run(f) for f in feeds], found)
    _look_at_start(run, feeds, found)
    for name, other in _references(model, checkpoint, reference, found):
        agreement = accuracy.compare(run, other, feeds)
        found.figures[f"accuracy_{name}"] = accuracy.figures(agreement)
        limits = f"cosine >= {accuracy.COSINE_MIN}, position <= {accuracy.POSITION_MAX_MM} mm"
        found.add(
            f"accuracy_{name}", "ok" if agreement.good else "bad", agreement.words(),
            "" if agreement.good else f"the limits are {limits}: keep the sensitive part in FP32",
        )  # fmt: skip


def _runs_at_every_batch(run: accuracy.Run, found: Findings) -> bool:
    for batch in range(1, contract.MAX_BATCH + 1):
        try:
            values = run(samples.noise(batch, batch))
        except Exception as e:
            found.add(
                "batch", "bad", f"fails at batch {batch}: {_first_line(e)}", f"1 to {contract.MAX_BATCH} are needed"
            )
            return False
        for tensor, value in zip(contract.OUTPUTS, values, strict=True):
            if value.shape != (batch, *tensor.shape) or value.dtype != tensor.dtype:
                found.add(
                    "batch",
                    "bad",
                    f"{tensor.name}: batch {batch} gives {value.dtype} {list(value.shape)}",
                    "export it again",
                )
                return False
    found.add("batch", "ok", f"1 to {contract.MAX_BATCH}")
    return True


def _look_at_start(run: accuracy.Run, feeds: Sequence[samples.Feed], found: Findings) -> None:
    import numpy as np

    worst = max(
        float(np.abs(contract.denormalise(run(f)[0][:, 0])[:, :3] - f["robot_state"][:, :3]).max()) * 1e3 for f in feeds
    )
    found.figures["start_mm"] = round(worst, 3)
    good = worst <= START_MAX_MM
    found.add(
        "start", "ok" if good else "note", f"point 0 is the planned state to within {worst:.2f} mm",
        "" if good else "a chunk that starts elsewhere is refused as a jump: not fit to move an arm",
    )  # fmt: skip


def _references(
    model: Any, checkpoint: Path | None, reference: Path | None, found: Findings
) -> list[tuple[str, accuracy.Run]]:
    others: list[tuple[str, accuracy.Run]] = []
    if model.ByteSize() < 1 << 30:
        others.append(("fp32", accuracy.session(accuracy.full_precision(model).SerializeToString())))
    if reference is not None:
        others.append(("reference", accuracy.session(str(reference))))
    if checkpoint is not None:
        try:
            from wardarm.model.torch_run import checkpoint_run

            others.append(("pytorch", checkpoint_run(checkpoint)))
        except ImportError:
            found.add("accuracy_pytorch", "skipped", "PyTorch is not installed: pip install 'wardarm[train]'")
    return others


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
