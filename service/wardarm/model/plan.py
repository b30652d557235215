"""An ONNX policy -> a TensorRT plan, on the machine that will serve it (`wardarm model build`).

One code path for TensorRT 10.13 to 11.x: precision is what the ONNX says (strongly typed), a profile for batches 1 to 4,
a timing cache kept between builds. The plan counts only with the record beside it: what it was built from, by which
TensorRT, for which GPU, which precision each layer really has, and how far it is from the ONNX.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from wardarm.model.rtx_parser import parser_errors, strongly_typed
from wardarm.policy import contract

OPT_BATCH = 1
WORKSPACE_BYTES = 4 << 30
RECORD = ".json"
"""Beside `model.plan`: `model.plan.json`."""


class BuildError(RuntimeError):
    """No plan was made; the text says which step refused and what to do. What was served before is untouched."""


class PlanMismatch(RuntimeError):
    """A plan that does not belong to this machine or this model; the text names what differs."""


@dataclass(frozen=True)
class Machine:
    """What a plan is bound to."""

    tensorrt: str
    gpu: str
    compute_capability: str


@dataclass(frozen=True)
class Record:
    """What is written beside a plan. `layers`: how many layers have outputs of each type."""

    onnx_sha256: str
    plan_sha256: str
    contract_sha256: str
    box_sha256: str
    machine: Machine
    layers: dict[str, int] = field(default_factory=dict)
    agreement: dict[str, Any] = field(default_factory=dict)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def shapes(tensor: contract.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Smallest, usual and largest shape of an input."""
    return (1, *tensor.shape), (OPT_BATCH, *tensor.shape), (contract.MAX_BATCH, *tensor.shape)


def serialize(trt: Any, onnx: Path, timing_cache: Path | None = None, workspace_bytes: int = WORKSPACE_BYTES) -> bytes:
    """The plan's bytes. `trt`: the module tensorrt. Raises BuildError."""
    log = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(log)
    network = builder.create_network(strongly_typed(trt))
    parser = trt.OnnxParser(network, log)
    if not parser.parse_from_file(str(onnx)):
        raise BuildError(f"{onnx}: TensorRT {trt.__version__} cannot read it: {'; '.join(parser_errors(parser)[:3])}")
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace_bytes)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED  # the inspector then says each layer's types
    profile = builder.create_optimization_profile()
    for tensor in contract.INPUTS:
        profile.set_shape(tensor.name, *shapes(tensor))
    config.add_optimization_profile(profile)
    before = timing_cache.read_bytes() if timing_cache is not None and timing_cache.is_file() else b""
    cache = config.create_timing_cache(before)
    if before and not config.set_timing_cache(cache, False):  # of another TensorRT or GPU: begin a new one
        cache = config.create_timing_cache(b"")
        config.set_timing_cache(cache, False)
    elif not before:
        config.set_timing_cache(cache, False)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise BuildError(
            f"{onnx}: TensorRT {trt.__version__} made no plan; its own log above says why (memory, an operator)"
        )
    if timing_cache is not None:
        kept = config.get_timing_cache()
        if kept is not None:
            write_whole(timing_cache, bytes(kept.serialize()))
    return bytes(plan)


def layer_types(trt: Any, engine: Any) -> dict[str, int]:
    """How many layers have outputs of each type, as built: a weakly typed build once became FP32 silently."""
    inspector = engine.create_engine_inspector()
    layers = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON)).get("Layers", [])
    counts: collections.Counter[str] = collections.Counter()
    for layer in layers:
        for output in layer.get("Outputs", []) if isinstance(layer, dict) else []:
            counts[str(output.get("Format/Datatype", "unknown"))] += 1
    return dict(counts)


def build(
    trt: Any, onnx: Path, plan: Path, machine: Machine, timing_cache: Path | None = None,
    gate: Callable[[Any], Mapping[str, Any]] | None = None,
) -> Record:  # fmt: skip
    """Build, look at the precision of every layer, let `gate` compare the engine with the ONNX, then write plan and record.

    `gate` gets the engine and returns its figures; it raises BuildError where they are not good enough. Nothing is written
    before it has agreed.
    """
    data = serialize(trt, onnx, timing_cache)
    engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(data)
    if engine is None:
        raise BuildError(f"{onnx}: the plan cannot be loaded on {machine.gpu}: build it on the machine that serves it")
    record = Record(
        sha256(onnx), hashlib.sha256(data).hexdigest(), contract.contract_sha256(), contract.box_sha256(), machine,
        layer_types(trt, engine), dict(gate(engine)) if gate is not None else {},
    )  # fmt: skip
    write_whole(plan, data)
    write_whole(plan.with_name(plan.name + RECORD), json.dumps(asdict(record), indent=1).encode())
    return record


def read_record(plan: Path) -> Record:
    """Raises PlanMismatch if there is none or it does not belong to the plan."""
    path = plan.with_name(plan.name + RECORD)
    advice = "build it here: wardarm model build"
    try:
        data = json.loads(path.read_text("utf-8"))
        record = Record(**{**data, "machine": Machine(**data["machine"])})
    except FileNotFoundError as e:
        raise PlanMismatch(
            f"{plan}: no record {path.name} beside it, so nobody knows where it was built; {advice}"
        ) from e
    except (ValueError, TypeError, KeyError) as e:
        raise PlanMismatch(f"{path}: not a build record ({e}); {advice}") from e
    if not plan.is_file() or sha256(plan) != record.plan_sha256:
        raise PlanMismatch(f"{plan}: is not the plan of its record (another file, or damaged); {advice}")
    return record


def verify(plan: Path, onnx: Path, machine: Machine) -> Record:
    """The record of a plan that was built on this machine from this ONNX. Raises PlanMismatch naming what differs."""
    record = read_record(plan)
    for what, seen, wanted in (
        ("TensorRT", record.machine.tensorrt, machine.tensorrt),
        ("GPU", record.machine.gpu, machine.gpu),
        ("compute capability", record.machine.compute_capability, machine.compute_capability),
        ("contract", record.contract_sha256[:12], contract.contract_sha256()[:12]),
        ("training box", record.box_sha256[:12], contract.box_sha256()[:12]),
        ("ONNX", record.onnx_sha256[:12], sha256(onnx)[:12] if onnx.is_file() else "missing"),
    ):
        if seen != wanted:
            raise PlanMismatch(
                f"{plan}: built for {what} {seen}, here it is {wanted}; build it here: wardarm model build"
            )
    return record


def write_whole(path: Path, data: bytes) -> None:
    """Whole or not at all: whoever reads never sees half a file."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(data)
    os.replace(partial, path)
