"""The full-size architecture as an ONNX file of the contract, computed in FP16 as it is written (PyTorch)."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from wardarm.model.fullsize import FullSize, FullSizePolicy
from wardarm.model.samples import noise
from wardarm.policy import contract
from wardarm.training.export import OPSET, name_shapes


class _Served(nn.Module):  # type: ignore[misc]
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, image: Tensor, input_ids: Tensor, attention_mask: Tensor, robot_state: Tensor
    ) -> tuple[Tensor, ...]:
        return tuple(v.to(torch.float16) for v in self.network(image, input_ids, attention_mask, robot_state))


def export_full_size(folder: Path, half: bool = True, size: FullSize | None = None, seed: int = 0) -> Path:
    """Write `policy.onnx` with random weights of `seed` and return its path. `half`: weights and arithmetic in FP16."""
    import onnx

    torch.manual_seed(seed)
    network = FullSizePolicy(size).eval()
    if half:
        network = network.half()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "policy.onnx"
    inputs, outputs = [t.name for t in contract.INPUTS], [t.name for t in contract.OUTPUTS]
    sample = noise(2)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # shapes are constants of this network: tracing them is meant
        torch.onnx.export(
            _Served(network).eval(), tuple(torch.from_numpy(sample[n]) for n in inputs), str(path), input_names=inputs,
            output_names=outputs, opset_version=OPSET, dynamo=False, dynamic_axes={n: {0: "batch"} for n in inputs + outputs},
        )  # fmt: skip
    model = onnx.load(str(path))
    name_shapes(model)
    onnx.save(model, str(path))
    return path
