"""LeRobot recordings: written from the bedside, read back for training, resampled, refused where something is missing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from wardarm.policy import contract
from wardarm.training import demos, lerobot, shards
from wardarm.training.lerobot import Recording, RecordingError

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded") / "set"
    assert demos.main(["--format", "lerobot", "--seed", "4", "--count", "2", "--msaa", "0", "--out", str(folder)]) == 0
    return folder


def test_the_layout_is_lerobots(recorded: Path) -> None:
    info = json.loads((recorded / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v2.1"
    assert info["total_episodes"] == 2
    for number in range(2):
        for key in ("data_path", "video_path"):
            path = recorded / info[key].format(episode_chunk=0, episode_index=number, video_key=lerobot.CAMERA)
            assert path.stat().st_size > 1000
    rows = [json.loads(line) for line in (recorded / "meta" / "episodes.jsonl").read_text().splitlines()]
    assert sum(r["length"] for r in rows) == info["total_frames"]
    assert {r["tasks"][0] for r in rows} <= {
        json.loads(t)["task"] for t in (recorded / "meta" / "tasks.jsonl").read_text().splitlines()
    }


def test_training_reads_it_back(recorded: Path, tmp_path: Path) -> None:
    count = lerobot.convert(recorded, tmp_path)
    shard = shards.read_all(tmp_path, "train")[0]
    assert count == len(shard) == 48
    first = contract.denormalise(shard.numbers["traj"][:, 0])
    np.testing.assert_allclose(first[:, :3], shard.numbers["state"][:, :3], atol=1e-5)
    assert shard.pictures.shape[1:] == (180, 320, 3)
    assert (shard.numbers["valid"] == 1).all()
    assert len(np.unique(shard.numbers["pixel"], axis=0)) <= 2


def test_the_grasp_is_where_the_fingers_close(recorded: Path) -> None:
    recording = next(lerobot.read(recorded))
    demo = lerobot.demonstrations(recording, np.random.default_rng(0), 1)[0]
    closing = recording.states[np.flatnonzero(recording.states[:, 6] < 0.97)[0]]
    wanted = contract.normalise(np.array([*closing[:2], 0, 0, 0, 0]))[:2]
    np.testing.assert_allclose(demo.numbers["target"][:2], wanted, atol=1e-6)


def test_another_rate_is_resampled_along_a_cubic() -> None:
    t = np.arange(0, 3, 1 / 30)
    states = np.zeros((len(t), 8))
    states[:, 0], states[:, 5], states[:, 6] = 0.4 + 0.1 * np.sin(t), np.pi - 0.05 + 0.1 * t, 1
    states[:, 5] = (states[:, 5] + np.pi) % (2 * np.pi) - np.pi  # the angle passes 180 degrees
    found = lerobot.resampled(states, 30.0)
    at = np.arange(len(found)) / contract.RATE_HZ
    np.testing.assert_allclose(found[:, 0], 0.4 + 0.1 * np.sin(at), atol=1e-6)
    turned = np.pi - 0.05 + 0.1 * at
    assert np.abs(np.exp(1j * found[:, 5]) - np.exp(1j * turned)).max() < 1e-6


def test_a_failed_recording_counts_twice() -> None:
    states = np.zeros((40, 8))
    states[:, :3] = [0.45, 0.1, 0.062]
    states[:, 6], states[20:, 6], states[25:, 7] = 1, 0, 1
    pictures = np.zeros((40, 180, 320, 3), np.uint8)
    for success, weight in ((True, 1.0), (False, 2.0)):
        made = lerobot.demonstrations(
            Recording("bring me the cup", states, pictures, success=success), np.random.default_rng(1), 3
        )
        assert {float(d.numbers["weight"]) for d in made} == {weight}


def test_what_cannot_be_trained_on_is_named(tmp_path: Path, recorded: Path) -> None:
    with pytest.raises(RecordingError, match="not a LeRobot data set"):
        list(lerobot.read(tmp_path))
    states = np.zeros((10, 8))
    states[:, 6] = 1
    with pytest.raises(RecordingError, match="never close"):
        lerobot.demonstrations(Recording("x", states, np.zeros((10, 180, 320, 3), np.uint8)), np.random.default_rng(0))
    assert demos.main(["--format", "lerobot", "--count", "1", "--out", str(recorded)]) == 2
