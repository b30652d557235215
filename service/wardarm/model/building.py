"""`wardarm model build` and `verify` on the machine at hand: TensorRT, CUDA, the accuracy gate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wardarm.model import accuracy, onnx_file, plan, samples
from wardarm.model.cuda import Cuda, Engine
from wardarm.model.findings import Findings
from wardarm.model.plan import BuildError, Record

OLDEST = (10, 13)
TIMING_CACHE = "timing.cache"


def tensorrt() -> Any:
    """The module tensorrt. Raises BuildError where it is missing or older than 10.13."""
    try:
        import tensorrt as trt
    except ImportError as e:
        raise BuildError(
            f"TensorRT's Python package is not here ({e}): build inside the container that serves the plan (docs/model.md)"
        ) from e
    version = tuple(int(part) for part in str(trt.__version__).split(".")[:2])
    if version < OLDEST:
        raise BuildError(f"TensorRT {trt.__version__} is too old: 10.13 to 11.x build for a Thor (JetPack 7)")
    return trt


def look_before(onnx: Path) -> None:
    """Refuse a file that no plan can be made of. Raises onnx_file.ModelFileError."""
    found = Findings()
    model = onnx_file.read(onnx)
    onnx_file.look_at_opset(model, found)
    onnx_file.look_at_signature(model, found)
    onnx_file.look_at_weights(model, found)
    if not found.ok:
        raise onnx_file.ModelFileError(f"{onnx}: {found.first_bad()}")


def gate(cuda: Cuda, engine: Any, onnx: Path, tokenizer: Path, count: int) -> Mapping[str, Any]:
    """The engine against its ONNX in onnxruntime. Raises BuildError below cosine 0.999 or beyond 2 mm."""
    try:
        feeds = samples.bedside(count, tokenizer)
    except RuntimeError:
        feeds = [samples.noise(1, seed) for seed in range(count)]
    with Engine(cuda, engine) as run:
        agreement = accuracy.compare(run, accuracy.session(str(onnx)), feeds)
    if not agreement.good:
        raise BuildError(
            f"{onnx}: the plan differs from its ONNX: {agreement.words()}; limits are cosine >= {accuracy.COSINE_MIN} and "
            f"{accuracy.POSITION_MAX_MM} mm. Nothing was written; keep the sensitive layers in FP32 in the ONNX"
        )
    return accuracy.figures(agreement)


def build_here(onnx: Path, target: Path, tokenizer: Path, count: int) -> Record:
    """Build, compare, keep. Raises BuildError or ModelFileError; what was there before is then untouched."""
    look_before(onnx)
    trt = tensorrt()
    cuda = Cuda()
    machine = cuda.machine(str(trt.__version__))
    return plan.build(
        trt,
        onnx,
        target,
        machine,
        target.with_name(TIMING_CACHE),
        lambda engine: gate(cuda, engine, onnx, tokenizer, count),
    )


def verify_here(path: Path) -> Record:
    """Raises PlanMismatch naming what differs, BuildError where there is no TensorRT or GPU."""
    plan.read_record(path)
    machine = Cuda().machine(str(tensorrt().__version__))
    return plan.verify(path, path.with_name("policy.onnx"), machine)
