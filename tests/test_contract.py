"""The model's contract: both configurations, the tokenizer and the weights agree with policy/contract.py."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2
from wardarm.config import load
from wardarm.ops import installation
from wardarm.policy import contract
from wardarm.policy.tokenizer import InstructionTooLong, Tokenizer

MODEL = installation.root() / "model_repository" / contract.MODEL
TOKENIZER = MODEL / "1" / "tokenizer.model"
CONFIGS = [MODEL / "config.pbtxt", MODEL / "configs" / "cpu_sim.pbtxt"]
angle = st.floats(-math.pi + 0.01, math.pi - 0.01)
pitch = st.floats(-1.5, 1.5)


def parsed(path: Path) -> model_config_pb2.ModelConfig:
    return text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_a_model_configuration_has_the_contracts_tensors(path: Path) -> None:
    config = parsed(path)
    for served, wanted in ((config.input, contract.INPUTS), (config.output, contract.OUTPUTS)):
        seen = [(t.name, model_config_pb2.DataType.Name(t.data_type), tuple(t.dims)) for t in served]
        assert seen == [(t.name, f"TYPE_{t.triton}", t.shape) for t in wanted]
    assert config.name == contract.MODEL
    assert config.max_batch_size == contract.MAX_BATCH


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_a_model_configuration_carries_the_hashes_of_contract_tokenizer_and_box(path: Path) -> None:
    seen = {k: v.string_value for k, v in parsed(path).parameters.items()}
    assert contract.parameters(TOKENIZER).items() <= seen.items()


def test_production_runs_a_tensorrt_plan_with_cuda_graphs_and_the_desk_a_cpu_backend() -> None:
    production, desk = (parsed(p) for p in CONFIGS)
    assert production.platform == "tensorrt_plan"
    assert production.optimization.cuda.graphs
    assert list(production.dynamic_batching.preferred_batch_size) == [1, 4]
    assert {w.batch_size for w in production.model_warmup} == {1, 4}
    assert production.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_GPU
    assert desk.backend == "python"
    assert desk.instance_group[0].kind == model_config_pb2.ModelInstanceGroup.KIND_CPU


def test_the_weights_have_the_contracts_tensors() -> None:
    onnx = pytest.importorskip("onnx")
    graph = onnx.load(str(MODEL / "1" / "policy.onnx")).graph
    for tensors, wanted in ((graph.input, contract.INPUTS), (graph.output, contract.OUTPUTS)):
        seen = {
            t.name: (
                onnx.helper.tensor_dtype_to_np_dtype(t.type.tensor_type.elem_type),
                tuple(d.dim_value for d in t.type.tensor_type.shape.dim)[1:],
            )
            for t in tensors
        }
        assert set(seen) == {t.name for t in wanted}
        for t in wanted:
            assert seen[t.name] == (t.dtype, t.shape)


def test_the_policys_hand_over_pose_is_the_configured_one() -> None:
    for name in ("desk", "thor"):
        assert load(name).poses.hand_over[:3] == contract.HAND_OVER_M


def test_a_longer_explanation_does_not_change_the_contracts_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = contract.contract_sha256()
    first = contract.INPUTS[0]
    reworded = contract.Tensor(first.name, first.triton, first.shape, "other words")
    monkeypatch.setattr(contract, "INPUTS", (reworded, *contract.INPUTS[1:]))
    assert contract.contract_sha256() == before
    monkeypatch.setattr(contract, "HIGH", (1.0, 0.6, 0.8))
    assert contract.contract_sha256() != before


@given(st.tuples(st.floats(0, 1), st.floats(-0.6, 0.6), st.floats(-0.05, 0.75), angle, pitch, angle))
def test_denormalise_is_the_inverse_of_normalise(six: tuple[float, ...]) -> None:
    pose = np.array(six)
    values = contract.normalise(pose)
    assert np.abs(values).max() <= 1
    np.testing.assert_allclose(contract.denormalise(values), pose, atol=1e-12)


@given(st.tuples(angle, pitch, angle))
def test_a_rotation_survives_rpy_and_rotation_vector(rpy: tuple[float, ...]) -> None:
    rotation = contract.rotation_from_rpy(np.array(rpy))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    vector = contract.rotvec_from_rotation(rotation)
    assert np.linalg.norm(vector) <= math.pi + 0.021
    np.testing.assert_allclose(contract.rotation_from_rotvec(vector), rotation, atol=1e-7)
    np.testing.assert_allclose(contract.rpy_from_rotation(rotation), rpy, atol=1e-7)


def test_tool_down_is_half_a_turn_about_the_diagonal() -> None:
    vector = contract.rotvec_from_rotation(contract.rotation_from_rpy(np.zeros(3)))
    np.testing.assert_allclose(vector, np.array([1, 1, 0]) * math.pi / math.sqrt(2), atol=1e-9)
    assert contract.robot_state(np.array([0.3, 0, 0.4]), np.zeros(3), 1.0, False).dtype == np.float32


def test_the_trained_view_looks_at_the_table() -> None:
    position, rotation = contract.camera_pose()
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
    assert np.linalg.det(rotation) == pytest.approx(1)
    ahead = np.asarray(contract.CAMERA_LOOK_AT_M) - position
    np.testing.assert_allclose(rotation[:, 2], ahead / np.linalg.norm(ahead), atol=1e-12)
    assert rotation[2, 1] < 0  # the picture's y points down
    assert rotation[1, 0] > 0  # seen from across the table, the arm's left is the picture's right


def test_tokens_of_a_sentence_and_their_mask() -> None:
    tokenizer = Tokenizer(TOKENIZER)
    ids, mask = tokenizer.encode("请帮我把桌角的蓝色水杯拿过来")
    count = int(mask.sum())
    assert ids.shape == mask.shape == (contract.TOKENS,)
    assert 0 < count < 30
    assert (mask[:count] == 1).all()
    assert (ids[:count] > 0).all()
    assert not ids[count:].any()


def test_a_text_that_does_not_fit_is_refused_not_cut() -> None:
    tokenizer = Tokenizer(TOKENIZER)
    with pytest.raises(InstructionTooLong, match="limit is 128"):
        tokenizer.encode("bring me the blue cup and " * 60)
    with pytest.raises(ValueError, match="empty"):
        tokenizer.encode("")
