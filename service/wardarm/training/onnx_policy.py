"""A policy in an ONNX file, run in this process through the contract: for evaluation and for checking an export."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.policy.tokenizer import Tokenizer

_ONNX_TYPES = {"UINT8": "tensor(uint8)", "INT32": "tensor(int32)", "FP32": "tensor(float)", "FP16": "tensor(float16)"}


class ContractMismatch(ValueError):
    """The file is not a policy of this contract; the text names tensor, what it has and what is needed."""


@dataclass(frozen=True)
class Chunk:
    """`points` 64 x 6: x y z (m, base) roll pitch yaw (rad, relative to tool-down), 50 ms apart; `opening` 64: 0..1;
    `valid` and `done` are probabilities."""

    points: NDArray[np.float64]
    opening: NDArray[np.float64]
    valid: float
    done: float

    @property
    def top_speed_m_s(self) -> float:
        return float(np.linalg.norm(np.diff(self.points[:, :3], axis=0), axis=1).max() * contract.RATE_HZ)


def check_signature(session: onnxruntime.InferenceSession) -> None:
    """Names, types and shapes of every input and output against the contract. Raises ContractMismatch."""
    for expected, found in ((contract.INPUTS, session.get_inputs()), (contract.OUTPUTS, session.get_outputs())):
        by_name = {f.name: f for f in found}
        if set(by_name) != {t.name for t in expected}:
            raise ContractMismatch(f"tensors {sorted(by_name)}, the contract has {sorted(t.name for t in expected)}")
        for tensor in expected:
            f = by_name[tensor.name]
            if f.type != _ONNX_TYPES[tensor.triton]:
                raise ContractMismatch(f"{tensor.name}: type {f.type}, the contract has {tensor.triton}")
            if tuple(f.shape[1:]) != tensor.shape:
                raise ContractMismatch(f"{tensor.name}: shape {f.shape[1:]}, the contract has {list(tensor.shape)}")
            if isinstance(f.shape[0], int):
                raise ContractMismatch(f"{tensor.name}: batch fixed at {f.shape[0]}, needs 1 to {contract.MAX_BATCH}")


class OnnxPolicy:
    """`threads` of onnxruntime for one inference. Raises ContractMismatch."""

    def __init__(self, model: Path, tokenizer: Path, threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        check_signature(self.session)
        self._tokenizer = Tokenizer(tokenizer)

    def infer(self, image: NDArray[np.uint8], text: str, state: NDArray[np.float32]) -> Chunk:
        """`image` uint8 720 x 1280 x 3 RGB, `state` as contract.robot_state."""
        ids, mask = self._tokenizer.encode(text)
        feed = {"image": image, "input_ids": ids, "attention_mask": mask, "robot_state": state}
        names = [t.name for t in contract.OUTPUTS]
        traj, grip, valid, done = self.session.run(names, {k: np.ascontiguousarray(v)[None] for k, v in feed.items()})
        return Chunk(contract.denormalise(traj[0]), grip[0].astype(np.float64), float(valid[0, 0]), float(done[0, 0]))
