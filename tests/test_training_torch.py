"""Network, training and export. Needs PyTorch (the extra `train`); skipped without it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from wardarm.policy import contract
from wardarm.training import demos, export, shards, train

torch = pytest.importorskip("torch")

from wardarm.policy.tokenizer import Tokenizer  # noqa: E402
from wardarm.training import trainer as trainer_module  # noqa: E402
from wardarm.training.dataset import Dataset  # noqa: E402
from wardarm.training.losses import loss  # noqa: E402
from wardarm.training.model import Policy, Size, table_grid  # noqa: E402
from wardarm.training.trainer import CHECKPOINT, NotFinite, Settings, Trainer, restore  # noqa: E402

TOKENIZER = Path(__file__).parents[1] / train.TOKENIZER
SMALL = Size(width=32, channels=(8, 16, 24), text_layers=1, joint_layers=1, look_layers=1, point_layers=1)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos")
    demos.main(["--seed", "1", "--count", "12", "--out", str(path), "--msaa", "0"])
    demos.main(["--seed", "2", "--count", "6", "--out", str(path), "--msaa", "0", "--split", "held_out"])
    return path


@pytest.fixture(scope="module")
def dataset(folder: Path) -> Dataset:
    return Dataset(folder, "train", Tokenizer(TOKENIZER), CPU)


def network() -> Policy:
    torch.manual_seed(0)
    return Policy(SMALL).eval()


def run(net: Policy, sample: dict[str, np.ndarray]) -> object:
    with torch.no_grad():
        return net(*(torch.from_numpy(sample[t.name]) for t in contract.INPUTS))


def test_point_zero_is_the_planned_state() -> None:
    sample = export.example(3)
    out = run(network(), sample)
    start_m = contract.denormalise(out.traj[:, 0].numpy())[:, :3]
    np.testing.assert_allclose(start_m, sample["robot_state"][:, :3], atol=1e-6)


def test_both_signs_of_a_rotation_vector_at_tool_down_mean_the_same() -> None:
    sample = export.example(1)
    sample["robot_state"][:, 3:6] = contract.rotvec_from_rotation(np.array(contract.TOOL_DOWN))
    other = {k: v.copy() for k, v in sample.items()}
    other["robot_state"][:, 3:6] *= -1
    net = network()
    assert torch.allclose(run(net, sample).traj, run(net, other).traj, atol=1e-5)


def test_a_cell_is_where_the_camera_sees_its_point() -> None:
    """The grid, projected back through the contract's camera, gives the cells' own middles."""
    grid = table_grid(180, 320, 8).numpy().reshape(23, 40, 2)
    position, rotation = contract.camera_pose()
    low, high = np.array(contract.LOW), np.array(contract.HIGH)
    row, column = 15, 22
    xy = (grid[row, column] + 1) / 2 * (high - low)[:2] + low[:2]
    x, y, z = rotation.T @ (np.array([*xy, 0.03]) - position)
    focal = 90 / np.tan(np.radians(contract.CAMERA_FOVY_DEG) / 2)
    assert x / z * focal + 160 == pytest.approx((column + 0.5) * 8, abs=0.01)
    assert y / z * focal + 90 == pytest.approx((row + 0.5) * 8, abs=0.01)


def test_padding_changes_nothing() -> None:
    sample = export.example(1)
    net = network()
    with torch.no_grad():
        arguments = [torch.from_numpy(sample[t.name]) for t in contract.INPUTS]
        whole = net(*arguments)
        short = net(arguments[0], arguments[1][:, :16], arguments[2][:, :16], arguments[3])
    assert torch.allclose(whole.traj, short.traj, atol=1e-5)


def test_every_parameter_learns(dataset: Dataset) -> None:
    net = network().train()
    batch = dataset.batch(torch.arange(len(dataset)))
    total, parts = loss(net, net(batch["image"], batch["ids"], batch["mask"], batch["state"]), batch)
    total.backward()
    assert all(torch.isfinite(v) for v in parts.values())
    still = [n for n, p in net.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert still == []


def settings(seconds: float, **changed: float) -> Settings:
    return Settings(seconds, **{"batch": 6, "warm_steps": 2, "checkpoint_s": 0.0, **changed})  # type: ignore[arg-type]


def total_loss(net: Policy, batch: dict[str, torch.Tensor]) -> float:
    with torch.no_grad():
        return float(loss(net, net(*(batch[k] for k in ("image", "ids", "mask", "state"))), batch)[0])


def test_training_lowers_the_loss_and_resumes(dataset: Dataset, tmp_path: Path) -> None:
    records: list[dict[str, object]] = []
    first = Trainer(dataset, None, SMALL, settings(3600.0, rate=3e-3, steps=8), tmp_path, records.append)
    batch = dataset.batch(torch.arange(len(dataset)))
    before = total_loss(first.network, batch)
    first.run()
    after = total_loss(first.network, batch)
    assert first.progress.step == 8
    assert after < before
    second = Trainer(dataset, None, SMALL, settings(3600.0, steps=10), tmp_path, records.append)
    assert second.progress == first.progress
    second.run()
    assert second.progress.step == 10


def test_a_gradient_that_is_not_finite_ends_training_and_says_why(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records: list[dict[str, object]] = []
    trainer = Trainer(dataset, None, SMALL, settings(5.0), tmp_path, records.append)
    kept = {k: v.clone() for k, v in trainer.network.state_dict().items() if "running" not in k and "batches" not in k}

    def broken(*arguments: object) -> object:
        total, parts = loss(*arguments)  # type: ignore[arg-type]
        return total * float("inf"), parts

    monkeypatch.setattr(trainer_module, "loss", broken)
    with pytest.raises(NotFinite, match="step 0: no finite gradient"):
        trainer.run()
    assert records[-1]["kind"] == "stop"
    assert records[-1]["parameters_without_finite_gradient"]
    saved = torch.load(tmp_path / CHECKPOINT, weights_only=True)["network"]
    assert all(torch.equal(saved[k], v) for k, v in kept.items())


def test_data_to_onnx_end_to_end(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = [
        "--data",
        str(folder),
        "--out",
        str(out),
        "--seconds",
        "3600",
        "--steps",
        "3",
        "--batch",
        "4",
        "--width",
        "32",
        "--device",
        "cpu",
    ]
    assert train.main([*arguments, "--tokenizer", str(TOKENIZER)]) == 0
    assert (out / train.CURVES).stat().st_size > 1000
    assert json.loads((out / train.METRICS).read_text())[-1]["kind"] == "score"
    served = tmp_path / "served"
    checkpoint = str(out / CHECKPOINT)
    assert export.main(["--checkpoint", checkpoint, "--out", str(served), "--tokenizer", str(TOKENIZER)]) == 0
    differences = export.check(served / "policy.onnx", restore(out / CHECKPOINT)[0])
    assert differences["start_mm"] < 0.5
    assert "sha256" in (served / "model_card.md").read_text()


def test_a_data_set_that_is_missing_is_an_error_of_usage(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path), "--out", str(tmp_path / "o"), "--seconds", "1", "--tokenizer", str(TOKENIZER)]
    assert train.main(arguments) == 2
    with pytest.raises(shards.DatasetError):
        Dataset(tmp_path, "train", Tokenizer(TOKENIZER), CPU)
