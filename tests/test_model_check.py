"""`wardarm model check|use|list|show`: what must not be served is named in a sentence, and what is served stays."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_training_evaluate import constant_policy
from wardarm.model import accuracy, bench, repository, rtx_parser, samples
from wardarm.model.check import check
from wardarm.model.findings import Findings
from wardarm.model.onnx_file import ModelFileError
from wardarm.policy import contract

ROOT = Path(__file__).parents[1]
SERVED = ROOT / "model_repository" / "groot_n15" / "1" / "policy.onnx"
TOKENIZER = SERVED.with_name("tokenizer.model")


def spoil_opset(model: Any) -> None:
    model.opset_import[0].version = 29


def spoil_domain(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def spoil_batch(model: Any) -> None:
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 2


def spoil_name(model: Any) -> None:
    model.graph.input[0].name = "picture"


def spoil_shape(model: Any) -> None:
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 64


def spoil_type(model: Any) -> None:
    model.graph.input[3].type.tensor_type.elem_type = TensorProto.DOUBLE


def spoil_weight(model: Any) -> None:
    values = np.zeros((4, 4), np.float32)
    values[1, 2] = np.nan
    model.graph.initializer.append(numpy_helper.from_array(values, "layer.weight"))


def spoil_external(model: Any) -> None:
    tensor = numpy_helper.from_array(np.zeros((8, 8), np.float32), "layer.weight")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "weights.bin"), ("offset", "0"), ("length", "256")):
        tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(tensor)


def spoil_external_path(model: Any) -> None:
    spoil_external(model)
    model.graph.initializer[-1].external_data[0].value = "../../../etc/hostname"


BAD: dict[str, tuple[Callable[[Any], None], str]] = {
    "an opset too new": (spoil_opset, "opset: opset 29; 13 to 20 are read everywhere"),
    "another domain": (spoil_domain, "operators of the domain 'com.example'"),
    "a batch of 2": (spoil_batch, "batch fixed at 2; export with a dynamic batch: 1 to 4 are needed"),
    "another name": (spoil_name, "missing image, unknown picture"),
    "another shape": (spoil_shape, "input_ids: shape ['batch', 64]"),
    "another type": (spoil_type, "robot_state: type DOUBLE; the contract has FLOAT"),
    "a weight that is no number": (spoil_weight, "layer.weight: 1 of 16 values are not finite"),
    "external data missing": (spoil_external, "external data weights.bin is missing beside it"),
    "external data elsewhere": (spoil_external_path, "lie outside its folder"),
}


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """A model repository of its own."""
    folder = tmp_path / "models"
    shutil.copytree(SERVED.parents[1], folder / contract.MODEL, ignore=shutil.ignore_patterns("__pycache__", "*.plan*"))
    return folder


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_what_is_served_stays(name: str, shelf: Path, tmp_path: Path) -> None:
    spoil, text = BAD[name]
    path = constant_policy(tmp_path / "candidate.onnx")
    model = onnx.load(str(path))
    spoil(model)
    path.write_bytes(model.SerializeToString())
    found = check(path, TOKENIZER, count=1, parser=False)
    assert not found.ok
    assert text in found.first_bad()
    served = repository.version_folder(shelf) / "policy.onnx"
    before = hashlib.sha256(served.read_bytes()).hexdigest()
    with pytest.raises(ModelFileError, match="What is served stays as it was"):
        repository.use(path, shelf)
    assert hashlib.sha256(served.read_bytes()).hexdigest() == before
    assert not list(served.parent.glob("*.partial"))


@pytest.mark.parametrize(
    ("data", "text"), [(b"hello", "not an ONNX file"), (b"", "not an ONNX file"), (None, "no such file")]
)
def test_what_is_no_onnx_file_is_said_to_be_none(data: bytes | None, text: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    if data is not None:
        path.write_bytes(data)
    assert text in check(path, TOKENIZER, count=1).first_bad()


def test_a_graph_that_fails_at_batch_four_is_refused(tmp_path: Path) -> None:
    """The signature promises any batch; only running it shows that the inside is fixed to one."""
    path = constant_policy(tmp_path / "policy.onnx")
    model = onnx.load(str(path))
    last = model.graph.output[0]
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 64, 6], np.int64), "fixed"))
    producer = next(n for n in model.graph.node if last.name in n.output)
    producer.output[list(producer.output).index(last.name)] = "before"
    model.graph.node.append(helper.make_node("Reshape", ["before", "fixed"], [last.name]))
    path.write_bytes(model.SerializeToString())
    assert "batch: fails at batch 2" in check(path, TOKENIZER, count=1, parser=False).first_bad()


def test_the_served_file_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    found = check(SERVED, TOKENIZER, count=2, parser=False)
    assert found.ok, found.first_bad()
    figures = found.as_json()
    assert figures["weights_bytes"] <= 16e6
    assert figures["parameters"] <= 10e6
    assert set(figures["beyond_0_98"]) == set(accuracy.AXES)
    assert 0 < figures["fp16_step_at_1"]["x_mm"] < 0.3
    assert figures["start_mm"] < 0.5
    assert figures["accuracy_fp32"]["cosine_min"] >= accuracy.COSINE_MIN
    assert {c["name"] for c in figures["checks"]} >= {"opset", "contract", "weights", "batch", "range", "accuracy_fp32"}


def test_another_file_is_compared_as_a_reference(tmp_path: Path) -> None:
    other = constant_policy(tmp_path / "other.onnx")
    found = check(SERVED, TOKENIZER, count=1, reference=other, parser=False)
    assert not found.ok
    assert "accuracy_reference" in found.first_bad()


def test_outputs_at_the_end_of_the_box_are_noted() -> None:
    traj = np.zeros((1, 64, 6), np.float16)
    traj[0, :32, 1] = 0.99
    found = Findings()
    accuracy.look_at_range([[traj, np.zeros((1, 64)), np.zeros((1, 1)), np.zeros((1, 1))]], found)
    assert found.figures["beyond_0_98"]["y"] == 0.5
    assert next(f for f in found.items if f.name == "range").status == "note"


def test_a_file_that_is_good_takes_the_place_of_the_served_one(shelf: Path, tmp_path: Path) -> None:
    again = tmp_path / "candidate.onnx"
    shutil.copyfile(SERVED, again)
    (repository.version_folder(shelf) / "model.plan").write_bytes(b"of the old file")
    path = repository.use(again, shelf)
    assert path.read_bytes() == again.read_bytes()
    assert not path.with_name("model.plan").exists()


def test_weights_that_lie_beside_the_file_come_along(shelf: Path, tmp_path: Path) -> None:
    apart = tmp_path / "apart" / "candidate.onnx"
    apart.parent.mkdir()
    onnx.save(onnx.load(str(SERVED)), str(apart), save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert apart.stat().st_size < 0.2 * SERVED.stat().st_size
    path = repository.use(apart, shelf)
    shutil.rmtree(apart.parent)
    before, after = (onnx.load(str(p)).graph.initializer for p in (SERVED, path))
    weights = {t.name: numpy_helper.to_array(t) for t in before}
    assert set(weights) == {t.name for t in after}
    assert all(np.array_equal(numpy_helper.to_array(t), weights[t.name]) for t in after)
    assert not list(path.parent.glob(".policy*"))


def test_the_instructions_part_of_the_graph_is_timed_by_itself() -> None:
    part = onnx.load_from_string(bench.instruction_only(SERVED))
    assert {v.name for v in part.graph.input} == {"input_ids", "attention_mask"}
    assert part.graph.output
    figures = bench.prompt_cache_on_cpu(SERVED, 0.1)
    assert 0 < figures["instruction"]["p50"] < figures["whole"]["p50"]


def test_a_tokenizer_of_another_model_shows_in_the_list(shelf: Path) -> None:
    assert repository.look(shelf / contract.MODEL).wrong == ()
    tokenizer = repository.version_folder(shelf) / "tokenizer.model"
    tokenizer.write_bytes(tokenizer.read_bytes() + b"x")
    wrong = repository.look(shelf / contract.MODEL).wrong
    assert any("config.pbtxt: tokenizer_sha256" in w for w in wrong)


def test_the_parser_names_a_node_that_it_does_not_take(tmp_path: Path) -> None:
    try:
        rtx_parser.bindings()
    except (rtx_parser.NotInstalled, OSError) as e:
        pytest.skip(str(e))
    path = constant_policy(tmp_path / "policy.onnx")
    model = onnx.load(str(path))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(3, dtype=np.float32), "square"))
    model.graph.node.append(helper.make_node("Det", ["square"], ["number"], name="det_bad"))
    model.graph.output.append(helper.make_tensor_value_info("number", TensorProto.FLOAT, []))
    path.write_bytes(model.SerializeToString())
    found = Findings()
    rtx_parser.look_at_operators(path, found)
    assert "Det" in found.first_bad()


def test_without_tensorrt_the_parser_is_skipped_and_says_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise rtx_parser.NotInstalled("TensorRT-RTX is not installed: pip install 'wardarm[trt-check]'")

    monkeypatch.setattr(rtx_parser, "bindings", absent)
    found = Findings()
    rtx_parser.look_at_operators(SERVED, found)
    assert found.ok
    assert found.items[0].status == "skipped"
    assert "trt-check" in found.items[0].seen


def test_the_command_line(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "service"), "WARDARM_ROOT": str(ROOT)}

    def wardarm(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "wardarm.cli", *words], env=env, capture_output=True, text=True, cwd=tmp_path
        )

    listed = wardarm("model", "list", "--json")
    assert listed.returncode == 0
    assert json.loads(listed.stdout)["models"][0]["name"] == contract.MODEL
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    refused = wardarm("model", "check", str(bad), "--json")
    assert refused.returncode == 1
    assert json.loads(refused.stdout)["ok"] is False
    assert wardarm("model", "export").returncode == 2


def test_noise_has_the_contracts_shapes() -> None:
    feed = samples.noise(3)
    for tensor in contract.INPUTS:
        assert feed[tensor.name].shape == (3, *tensor.shape)
        assert feed[tensor.name].dtype == tensor.dtype
