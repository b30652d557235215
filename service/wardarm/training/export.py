"""Checkpoint -> `policy.onnx` that the product serves, checked against the contract.

`python -m wardarm.training.export --checkpoint OUT/checkpoint.pt --out DIR`. Standard operators at opset 17; weights
stored in FP16, computed in FP32; 720p UINT8 in; batch 1 to 4. Writes `policy.onnx`, the tokenizer beside it, and
`model_card.md`: what made it, how long, and its hash. Needs the extra: pip install 'wardarm[train]'.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.training.onnx_policy import ContractMismatch, check_signature
from wardarm.training.train import METRICS, TOKENIZER

OPSET = 17
FP16_LIMIT = 6e4
"""Larger values do not fit FP16 (65,504 at most); their tensors stay FP32."""
_SMALL = 256
"""Tensors of fewer elements stay FP32: nothing to gain."""
AGREE_TRAJ, AGREE_PROBABILITY = 5e-3, 2e-2
"""Largest difference allowed between ONNX (FP16 weights) and PyTorch (FP32), normalised / probability."""
START_MM = 0.5
"""Point 0 must be the planned state to within FP16's resolution (0.24 mm at the box's edge)."""


def example(batch: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Inputs of the contract's shapes: noise pictures, a few tokens, states about the workspace."""
    rng = np.random.default_rng(seed)
    ids = np.zeros((batch, contract.TOKENS), np.int32)
    mask = np.zeros((batch, contract.TOKENS), np.int32)
    ids[:, :9], mask[:, :9] = rng.integers(10, 1000, (batch, 9)), 1
    states = [
        contract.robot_state(rng.uniform([0.3, -0.4, 0.05], [0.65, 0.5, 0.45]), rng.normal(0, 0.02, 3), 1.0, False)
        for _ in range(batch)
    ]
    image = rng.integers(0, 255, (batch, contract.IMAGE_HEIGHT, contract.IMAGE_WIDTH, 3), np.uint8)
    return {"image": image, "input_ids": ids, "attention_mask": mask, "robot_state": np.stack(states)}


def shrink_weights(model: Any) -> int:
    """Store an ONNX model's large FP32 constants as FP16, cast back where they are used. Returns how many."""
    from onnx import TensorProto, helper, numpy_helper

    casts = []
    for constant in list(model.graph.initializer):
        if constant.data_type != TensorProto.FLOAT or np.prod(constant.dims) < _SMALL:
            continue
        values = numpy_helper.to_array(constant)
        if np.abs(values).max() > FP16_LIMIT:
            continue
        small = numpy_helper.from_array(values.astype(np.float16), f"{constant.name}_fp16")
        casts.append(
            helper.make_node("Cast", [small.name], [constant.name], to=TensorProto.FLOAT, name=f"cast_{constant.name}")
        )
        model.graph.initializer.remove(constant)
        model.graph.initializer.append(small)
    for node in reversed(casts):
        model.graph.node.insert(0, node)
    return len(casts)


def name_shapes(model: Any) -> None:
    """State the contract's shapes in the outputs: the exporter leaves some of them to be inferred."""
    from onnx import TensorProto, helper

    for i, tensor in enumerate(contract.OUTPUTS):
        assert model.graph.output[i].name == tensor.name
        stated = helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT16, ["batch", *tensor.shape])
        model.graph.output[i].CopyFrom(stated)


def served(network: Any) -> Any:
    """The network behind the contract: logits become probabilities, everything FP16; the opening starts at the planned one."""
    import torch

    class Served(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, image: Any, input_ids: Any, attention_mask: Any, robot_state: Any) -> tuple[Any, ...]:
            out = self.network(image, input_ids, attention_mask, robot_state)
            grip = torch.cat([robot_state[:, 6:7], torch.sigmoid(out.grip)[:, 1:]], 1)
            valid, done = torch.sigmoid(out.valid)[:, None], torch.sigmoid(out.done)[:, None]
            return tuple(v.to(torch.float16) for v in (out.traj, grip, valid, done))

    return Served().eval()


def to_onnx(network: Any, path: Path) -> None:
    """Write the network with the contract's inputs and outputs. Raises what onnx.checker raises."""
    import onnx
    import torch

    inputs, outputs = [t.name for t in contract.INPUTS], [t.name for t in contract.OUTPUTS]
    sample = example(2)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shapes are constants of this network: tracing them is meant
        full = Path(folder) / "policy.onnx"
        torch.onnx.export(
            served(network), tuple(torch.from_numpy(sample[n]) for n in inputs), str(full), input_names=inputs,
            output_names=outputs, opset_version=OPSET, dynamo=False, dynamic_axes={n: {0: "batch"} for n in inputs + outputs},
        )  # fmt: skip
        model = onnx.load(str(full))
    shrink_weights(model)
    name_shapes(model)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def check(path: Path, network: Any | None = None) -> dict[str, float]:
    """Batches 1 to 4 through onnxruntime: names, types, shapes, point 0, and agreement with `network` if given.

    Returns the largest differences. Raises ContractMismatch.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    check_signature(session)
    worst = {"start_mm": 0.0, "traj": 0.0, "probability": 0.0}
    for batch in range(1, contract.MAX_BATCH + 1):
        sample = example(batch, seed=batch)
        found = session.run([t.name for t in contract.OUTPUTS], sample)
        for tensor, values in zip(contract.OUTPUTS, found, strict=True):
            if values.shape != (batch, *tensor.shape) or values.dtype != tensor.dtype:
                raise ContractMismatch(f"{tensor.name}: batch {batch} gives {values.dtype} {list(values.shape)}")
            if not np.isfinite(values).all():
                raise ContractMismatch(f"{tensor.name}: not finite")
        start_m = contract.denormalise(found[0][:, 0])[:, :3] - sample["robot_state"][:, :3]
        worst["start_mm"] = max(worst["start_mm"], float(np.abs(start_m).max()) * 1e3)
        if network is not None:
            for name, difference in _differences(network, sample, found).items():
                worst[name] = max(worst[name], difference)
    for name, limit in (("start_mm", START_MM), ("traj", AGREE_TRAJ), ("probability", AGREE_PROBABILITY)):
        if worst[name] > limit:
            raise ContractMismatch(f"{path}: {name} differs by {worst[name]:.4g}, the limit is {limit}")
    return worst


def _differences(network: Any, sample: dict[str, NDArray[Any]], found: Sequence[NDArray[Any]]) -> dict[str, float]:
    import torch

    with torch.no_grad():
        out = network(*(torch.from_numpy(sample[t.name]) for t in contract.INPUTS))
    wanted = [torch.sigmoid(out.grip)[:, 1:], torch.sigmoid(out.valid)[:, None], torch.sigmoid(out.done)[:, None]]
    got = [found[1][:, 1:], found[2], found[3]]
    probability = max(float(np.abs(g.astype(np.float32) - w.numpy()).max()) for g, w in zip(got, wanted, strict=True))
    return {"traj": float(np.abs(found[0].astype(np.float32) - out.traj.numpy()).max()), "probability": probability}


def card(path: Path, saved: dict[str, Any], differences: dict[str, float], command: str, metrics: Path) -> str:
    """The model card's part about this file, Markdown."""
    seeds = ", ".join(f"{s}/{p}" for s, p in saved["data"]["seeds"])
    progress, settings = saved["progress"], saved["settings"]
    lines = [
        "## How this file was made",
        "",
        f"- `{path.name}`, {path.stat().st_size:,} bytes, sha256 `{hashlib.sha256(path.read_bytes()).hexdigest()}`",
        f"- contract `{contract.contract_sha256()}`",
        f"- exported {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by `{command}`",
        f"- data: {saved['data']['samples']:,} simulated demonstrations, seed/process {seeds}",
        f"- training: {progress['elapsed_s']:.0f} s, {progress['step']:,} steps of {settings['batch']}, "
        f"{progress['seen']:,} presentations, seed {settings['seed']}, {progress['repeated']} steps repeated in fp32",
        f"- FP16 weights against FP32: {differences['traj']:.2g} (normalised), point 0 within {differences['start_mm']:.2f} mm",
    ]
    if metrics.exists():
        scores = [r for r in json.loads(metrics.read_text()) if r["kind"] == "score" and r["ema"]]
        if scores:
            lines += ["- held out, one chunk: `" + json.dumps(scores[-1]["score"]["all"]) + "`"]
    lines += ["- it stands in for the GR00T contract, is not GR00T, and is not fit for a real arm", ""]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.export", description=__doc__)
    p.add_argument("--checkpoint", type=Path, required=True, help="of wardarm.training.train")
    p.add_argument("--out", type=Path, required=True, help="folder for policy.onnx, tokenizer.model and model_card.md")
    p.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    try:
        from wardarm.training.trainer import restore
    except ImportError:
        print("PyTorch is not installed; pip install 'wardarm[train]'", file=sys.stderr)
        return 2
    network, saved = restore(a.checkpoint)
    a.out.mkdir(parents=True, exist_ok=True)
    path = a.out / "policy.onnx"
    to_onnx(network, path)
    try:
        differences = check(path, network)
    except ContractMismatch as e:
        print(e, file=sys.stderr)
        return 1
    shutil.copyfile(a.tokenizer, a.out / "tokenizer.model")
    command = f"python -m wardarm.training.export --checkpoint {a.checkpoint.name} --out {a.out.name}"
    text = card(path, saved, differences, command, a.checkpoint.with_name(METRICS))
    (a.out / "model_card.md").write_text(text, "utf-8")
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, batch 1 to {contract.MAX_BATCH}, differences {differences}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
