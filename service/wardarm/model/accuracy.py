"""How far two ways of computing a policy differ: cosine, mm, degrees, probability; and how its outputs use their range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.model.findings import Findings
from wardarm.model.samples import Feed
from wardarm.policy import contract

Run = Callable[[Feed], list[NDArray[Any]]]
"""Inputs of the contract (batch first) -> its four outputs in the contract's order."""
COSINE_MIN = 0.999
POSITION_MAX_MM = 2.0
"""A grasp forgives 5 mm (97.5 % at 5, 82 % at 10): the arithmetic may use a part of it."""
BEYOND = 0.98
AXES = ("x", "y", "z", "roll", "pitch", "yaw")
_HALF_MM = (np.array(contract.HIGH) - np.array(contract.LOW)) / 2 * 1e3
_HALF_DEG = np.degrees(contract.ANGLE_SCALE_RAD)


@dataclass(frozen=True)
class Agreement:
    """Worst over the samples but `position_mm_p95`."""

    samples: int
    cosine_min: float
    position_mm_max: float
    position_mm_p95: float
    angle_deg_max: float
    probability_max: float

    @property
    def good(self) -> bool:
        return self.cosine_min >= COSINE_MIN and self.position_mm_max <= POSITION_MAX_MM

    def words(self) -> str:
        return (
            f"{self.samples} samples: cosine >= {self.cosine_min:.6f}, position <= {self.position_mm_max:.2f} mm "
            f"(p95 {self.position_mm_p95:.2f}), angle <= {self.angle_deg_max:.2f} deg, probability <= {self.probability_max:.3f}"
        )


def compare(one: Run, other: Run, feeds: Sequence[Feed]) -> Agreement:
    """Both on the same inputs."""
    cosines, positions, angles, probabilities = [], [], [], []
    for feed in feeds:
        a, b = ([v.astype(np.float64) for v in run(feed)] for run in (one, other))
        x, y = a[0].ravel(), b[0].ravel()
        cosines.append(float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y) + 1e-12)))
        off = (a[0] - b[0])[..., :3] * _HALF_MM
        positions.append(np.linalg.norm(off, axis=-1).ravel())
        turn = np.abs(a[0] - b[0])[..., 3:]
        angles.append(float((np.minimum(turn, 2 - turn) * _HALF_DEG).max()))
        probabilities.append(max(float(np.abs(p - q).max()) for p, q in zip(a[1:], b[1:], strict=True)))
    every = np.concatenate(positions)
    return Agreement(
        len(feeds), min(cosines), float(every.max()), float(np.quantile(every, 0.95)), max(angles), max(probabilities)
    )


def session(model: Any, threads: int = 1) -> Run:
    """An ONNX model (bytes, or a path as str) as a function. Raises what onnxruntime raises."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    loaded = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [t.name for t in contract.OUTPUTS]

    def run(feed: Feed) -> list[NDArray[Any]]:
        values: list[NDArray[Any]] = loaded.run(names, feed)
        return values

    return run


def full_precision(model: Any) -> Any:
    """A copy of an ONNX model in which everything that is FP16 is FP32: the same weights, computed without FP16."""
    import onnx
    from onnx import TensorProto, numpy_helper

    wide = onnx.ModelProto()
    wide.CopyFrom(model)

    def widen(tensor: Any) -> None:
        if tensor.data_type == TensorProto.FLOAT16:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), tensor.name))

    for tensor in wide.graph.initializer:
        widen(tensor)
    for node in wide.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                widen(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT
    for value in (*wide.graph.input, *wide.graph.output, *wide.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    return wide


def look_at_range(outputs: Sequence[list[NDArray[Any]]], found: Findings) -> None:
    """Share of `output_traj` beyond 0.98 per axis, and what one step of FP16 is worth there, in mm and degrees.

    A normalisation by each data set's own extremes would show here: outputs crowd at the ends and one step is coarse.
    """
    traj = np.concatenate([o[0].astype(np.float32).reshape(-1, 6) for o in outputs])
    share = (np.abs(traj) > BEYOND).mean(0)
    scale = np.array([*_HALF_MM, *[_HALF_DEG] * 3])
    used = np.quantile(np.abs(traj), 0.99, axis=0)
    step = np.spacing(used.clip(1e-4, 1).astype(np.float16)).astype(np.float64) * scale
    at_end = np.spacing(np.float16(0.999)).astype(np.float64) * scale
    beyond = {a: round(float(s), 4) for a, s in zip(AXES, share, strict=True)}
    found.figures |= {
        "beyond_0_98": beyond,
        "fp16_step": {f"{a}_{'mm' if i < 3 else 'deg'}": round(float(step[i]), 3) for i, a in enumerate(AXES)},
        "fp16_step_at_1": {f"{a}_{'mm' if i < 3 else 'deg'}": round(float(at_end[i]), 3) for i, a in enumerate(AXES)},
    }
    words = ", ".join(f"{a} {s:.1%}" for a, s in beyond.items())
    crowded = [a for a, s in beyond.items() if s > 0.05]
    found.add(
        "range", "note" if crowded else "ok", f"beyond 0.98: {words}",
        f"{', '.join(crowded)} crowd at the end of the box: another normalisation than the contract's?" if crowded else "",
    )  # fmt: skip
    found.add("fp16_step", "ok", ", ".join(f"{a} {step[i]:.2f} {'mm' if i < 3 else 'deg'}" for i, a in enumerate(AXES)))
    worst = float(np.abs(traj).max())
    finite = all(np.isfinite(v.astype(np.float32)).all() for o in outputs for v in o)
    if not finite:
        found.add("outputs", "bad", "an output is not finite", "compute this part in FP32, or train again")
    elif worst > 1:
        found.add("outputs", "note", f"output_traj reaches {worst:.3f}; beyond 1 the chunk is dropped", "")


def figures(agreement: Agreement) -> dict[str, Any]:
    return {k: round(v, 6) if isinstance(v, float) else v for k, v in asdict(agreement).items()}
