"""The closed loop: physics, the shipped policy file, and files that are no policy of this contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from wardarm.policy import contract
from wardarm.training import evaluate, expert, trial
from wardarm.training.environment import IMAGE_HEIGHT, IMAGE_WIDTH, Environment
from wardarm.training.episodes import Timing, run_episode
from wardarm.training.expert_policy import ExpertPolicy
from wardarm.training.export import check
from wardarm.training.onnx_policy import ContractMismatch, OnnxPolicy

REPOSITORY = Path(__file__).parents[1]
SHIPPED = REPOSITORY / evaluate.DEFAULT_ONNX
_TYPES = {
    "UINT8": TensorProto.UINT8,
    "INT32": TensorProto.INT32,
    "FP32": TensorProto.FLOAT,
    "FP16": TensorProto.FLOAT16,
}


@pytest.fixture(scope="module")
def env() -> Iterator[Environment]:
    environment = Environment(IMAGE_WIDTH, IMAGE_HEIGHT)
    yield environment
    environment.close()


def episode_of(env: Environment, kind: str, seed: int) -> evaluate.Episode:
    for i in range(100):
        episode = evaluate.draw_episode(np.random.default_rng([seed, i]), "plain")
        if episode.target.kind == kind:
            env.load(episode.scene)
            env.pose(episode.start)
            return episode
    raise AssertionError(f"no {kind} in 100 scenes")


@pytest.mark.parametrize("kind", ["cup", "bottle"])
def test_the_expert_fetches_in_physics(env: Environment, kind: str) -> None:
    episode = episode_of(env, kind, 1)
    actor = ExpertPolicy(expert.target_of(episode.target))
    outcome = run_episode(env, actor, episode.scene, episode.task, episode.text, episode.start)
    assert outcome.fetched
    assert outcome.grounded
    assert outcome.grasp_error_mm is not None
    assert outcome.grasp_error_mm < 2
    assert outcome.others_moved_mm < 5
    assert outcome.top_speed_m_s <= expert.SPEED_M_S + 1e-9


def test_a_grasp_far_beside_the_piece_is_no_fetch(env: Environment) -> None:
    episode = episode_of(env, "cup", 1)
    actor = ExpertPolicy(expert.target_of(episode.target), off_m=(0.0, 0.07, 0.0))
    outcome = run_episode(env, actor, episode.scene, episode.task, episode.text, episode.start)
    assert not outcome.fetched
    assert outcome.grounded is False


def test_an_episode_is_the_same_whenever_it_is_run(env: Environment) -> None:
    def run() -> tuple[float | None, float]:
        episode = episode_of(env, "bowl", 2)
        actor = ExpertPolicy(expert.target_of(episode.target))
        timing = Timing(0.7, 0.6)
        outcome = run_episode(env, actor, episode.scene, episode.task, episode.text, episode.start, timing)
        return outcome.grasp_error_mm, outcome.end_s

    assert run() == run()


def test_the_shipped_policy_is_of_this_contract() -> None:
    differences = check(SHIPPED)
    assert differences["start_mm"] < 0.5


def test_the_shipped_policy_fetches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two episodes through the contract at 720p; the full figures are in docs/training.md."""
    out = tmp_path / "outcome.json"
    assert evaluate.main(["--onnx", str(SHIPPED), "--episodes", "2", "--seed", "300", "--json", "--out", str(out)]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["episodes"] == 2
    assert figures["fetched"] == 2
    assert figures["grasp_error_mm"]["p50"] < 6
    assert len(json.loads(out.read_text("utf-8"))["episodes"]) == 2


def constant_policy(path: Path, **changed: Any) -> Path:
    """An ONNX file with the contract's tensors and constant outputs; `changed` is shape or type by tensor name."""
    inputs = []
    for t in contract.INPUTS:
        shape, kind = changed.get(t.name, (t.shape, t.triton))
        inputs.append(helper.make_tensor_value_info(t.name, _TYPES[kind], ["batch", *shape]))
    nodes, outputs = [helper.make_node("Shape", ["robot_state"], ["batch"], start=0, end=1)], []
    for t in contract.OUTPUTS:
        shape, kind = changed.get(t.name, (t.shape, t.triton))
        sizes = helper.make_tensor(f"{t.name}_sizes", TensorProto.INT64, [len(shape)], shape)
        zero = helper.make_tensor(f"{t.name}_zero", _TYPES[kind], [1], [0.0])
        nodes += [
            helper.make_node("Constant", [], [sizes.name], value=sizes),
            helper.make_node("Concat", ["batch", sizes.name], [f"{t.name}_shape"], axis=0),
            helper.make_node("ConstantOfShape", [f"{t.name}_shape"], [t.name], value=zero),
        ]
        outputs.append(helper.make_tensor_value_info(t.name, _TYPES[kind], ["batch", *shape]))
    model = helper.make_model(
        helper.make_graph(nodes, "constant", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 8
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"output_traj": ((16, 32), "FP16")}, "output_traj: shape"),
        ({"output_grip": ((64,), "FP32")}, "output_grip: type"),
        ({"robot_state": ((7,), "FP32")}, "robot_state: shape"),
    ],
)
def test_a_file_of_another_contract_is_refused(tmp_path: Path, changed: dict[str, Any], text: str) -> None:
    path = constant_policy(tmp_path / "policy.onnx", **changed)
    with pytest.raises(ContractMismatch, match=text):
        OnnxPolicy(path, SHIPPED.with_name("tokenizer.model"))


def test_a_policy_that_does_not_start_at_the_planned_state_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ContractMismatch, match="start_mm"):
        check(constant_policy(tmp_path / "policy.onnx"))


@pytest.mark.parametrize(
    "more", [[], ["--kind", "put"], ["--kind", "fetch", "--expert"], ["--kind", "fetch", "--processes", "2"]]
)
def test_the_daemon_runs_fetches_of_the_served_file_only(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert trial.main(["--daemon", "--tasks", "1", *more]) == 2
    assert "add --kind fetch" in capsys.readouterr().err
