"""An ONNX file by itself: is it one, is it whole, does it have the contract's tensors, are its weights numbers.

Nothing is run here and no external file is trusted: its path must stay inside the model's folder.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.model.findings import Findings
from wardarm.policy import contract

MIN_OPSET, MAX_OPSET = 13, 20
"""Opsets that the ONNX parsers of TensorRT 10.13 to 11.x and onnxruntime 1.17 and later all read. Ours exports 17."""
DOMAINS = ("", "ai.onnx")
SMALL_WEIGHTS_BYTES = 16_000_000
"""A policy this small or smaller is what ships for desks; larger ones are for a GPU."""
_TYPES = {"UINT8": "UINT8", "INT32": "INT32", "FP32": "FLOAT", "FP16": "FLOAT16"}
_EXTERNAL = 1  # TensorProto.EXTERNAL


class ModelFileError(ValueError):
    """The file cannot be used as a policy; the text says what is wrong with it and what to do."""


def read(path: Path) -> Any:
    """An onnx.ModelProto with its weights. Raises ModelFileError: no such file, not ONNX, external data missing."""
    import onnx

    if not path.is_file():
        raise ModelFileError(f"{path}: no such file")
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as e:  # protobuf's errors have no common base that is public
        raise ModelFileError(
            f"{path}: not an ONNX file ({type(e).__name__}); export one with 'wardarm model export'"
        ) from e
    if not model.ir_version or not model.graph.node or not model.opset_import:
        raise ModelFileError(f"{path}: not an ONNX file (no graph in it); export one with 'wardarm model export'")
    _external_data(model, path)
    return model


def whole(path: Path) -> bytes:
    """The file with all its weights inside. Raises ModelFileError: as `read`, or 2 GiB and more (protobuf's limit)."""
    import onnx

    model = read(path)
    bare = onnx.load(str(path), load_external_data=False)
    if all(t.data_location != _EXTERNAL for t in tensors(bare)):
        return path.read_bytes()
    for tensor in tensors(model):  # the bytes are inside now; only pointers can be left
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    size = model.ByteSize()
    if size >= 2**31:
        raise ModelFileError(
            f"{path}: {size / 2**30:.1f} GiB with its weights; one file holds less than 2 GiB. Export it in FP16"
        )
    return bytes(model.SerializeToString())


def _external_data(model: Any, path: Path) -> None:
    from onnx import external_data_helper

    for tensor in tensors(model):
        if tensor.data_location != _EXTERNAL:
            continue
        entries = {e.key: e.value for e in tensor.external_data}
        name = entries.get("location", "")
        beside = (path.parent / name).resolve()
        if not name or path.parent.resolve() not in beside.parents:
            raise ModelFileError(
                f"{path}: weights of {tensor.name} lie outside its folder ({name!r}); keep them beside it"
            )
        needed = int(entries.get("offset", 0)) + int(entries.get("length", 0))
        if not beside.is_file():
            raise ModelFileError(f"{path}: external data {name} is missing beside it; copy both files together")
        if beside.stat().st_size < needed:
            raise ModelFileError(
                f"{path}: external data {name} has {beside.stat().st_size} bytes, {needed} are needed; copy it again"
            )
    external_data_helper.load_external_data_for_model(model, str(path.parent))


def tensors(model: Any) -> Iterator[Any]:
    """Every stored constant: initializers and the values of Constant nodes."""
    yield from model.graph.initializer
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _shape(value: Any) -> list[int | str]:
    return [
        d.dim_param or "?" if not d.HasField("dim_value") else int(d.dim_value)
        for d in value.type.tensor_type.shape.dim
    ]


def look_at_signature(model: Any, found: Findings) -> None:
    """Names, types and shapes of inputs and outputs, and the batch, against the contract."""
    from onnx import TensorProto

    stored = {t.name for t in model.graph.initializer}
    for what, expected, values in (
        ("input", contract.INPUTS, [v for v in model.graph.input if v.name not in stored]),
        ("output", contract.OUTPUTS, list(model.graph.output)),
    ):
        by_name = {v.name: v for v in values}
        wanted = {t.name for t in expected}
        if set(by_name) != wanted:
            missing, more = sorted(wanted - set(by_name)), sorted(set(by_name) - wanted)
            seen = ", ".join(
                ([f"missing {', '.join(missing)}"] if missing else [])
                + ([f"unknown {', '.join(more)}"] if more else [])
            )
            found.add(f"{what}_names", "bad", seen, f"the contract has {', '.join(t.name for t in expected)}")
        for tensor in expected:
            value = by_name.get(tensor.name)
            if value is None:
                continue
            kind = TensorProto.DataType.Name(value.type.tensor_type.elem_type)
            if kind != _TYPES[tensor.triton]:
                found.add(tensor.name, "bad", f"type {kind}", f"the contract has {_TYPES[tensor.triton]}")
            shape = _shape(value)
            if tuple(shape[1:]) != tensor.shape:
                found.add(
                    tensor.name,
                    "bad",
                    f"shape {shape}",
                    f"the contract has [batch, {', '.join(map(str, tensor.shape))}]",
                )
            elif isinstance(shape[0], int):
                found.add(
                    "batch", "bad", f"{tensor.name}: batch fixed at {shape[0]}",
                    f"export with a dynamic batch: 1 to {contract.MAX_BATCH} are needed",
                )  # fmt: skip
    if found.ok:
        found.add("contract", "ok", f"names, types and shapes as contract {contract.contract_sha256()[:12]}")


def look_at_opset(model: Any, found: Findings) -> None:
    for entry in model.opset_import:
        if entry.domain not in DOMAINS:
            found.add(
                "opset", "bad", f"operators of the domain {entry.domain!r}", "only standard ONNX operators are served"
            )
        elif not MIN_OPSET <= entry.version <= MAX_OPSET:
            found.add(
                "opset",
                "bad",
                f"opset {entry.version}",
                f"{MIN_OPSET} to {MAX_OPSET} are read everywhere; export with opset 17",
            )
        else:
            found.add("opset", "ok", f"opset {entry.version}, IR {model.ir_version}")


def look_at_weights(model: Any, found: Findings) -> None:
    """Every weight finite; how many there are and what they weigh."""
    from onnx import TensorProto, numpy_helper

    count = size = 0
    kinds: collections.Counter[str] = collections.Counter()
    for tensor in tensors(model):
        kind = TensorProto.DataType.Name(tensor.data_type)
        values = numpy_helper.to_array(tensor)
        if kind in ("FLOAT", "FLOAT16", "DOUBLE", "BFLOAT16") and values.size:
            bad = int((~np.isfinite(values.astype(np.float32))).sum())
            if bad:
                found.add(
                    "weights",
                    "bad",
                    f"{tensor.name or 'a constant'}: {bad} of {values.size} values are not finite",
                    "train or export it again",
                )
        if values.ndim and kind != "INT64":
            count, size = count + values.size, size + values.nbytes
            kinds[kind] += values.nbytes
    found.figures |= {"parameters": count, "weights_bytes": size}
    if found.ok:
        parts = ", ".join(f"{k} {v / 1e6:.1f} MB" for k, v in kinds.most_common())
        note = "" if size <= SMALL_WEIGHTS_BYTES else "larger than 16 MB: for a GPU, not for a desk's CPU"
        found.add("weights", "ok", f"{count / 1e6:.2f} M values, {size / 1e6:.1f} MB ({parts})", note)
