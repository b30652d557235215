"""Demonstrations: what a sample says about its picture and its future, and how shards are kept."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from wardarm.policy import contract
from wardarm.sim.scenes import COLORS
from wardarm.training import demos, expert, said, shards
from wardarm.training.demos import Demonstrator, Moment
from wardarm.training.expert import State, Target

HELD_IN_FINGERS = State(0.45, 0.1, 0.30, 0, 0, 0.1, 0.0, True)
OPEN_ABOVE = State(0.40, 0.1, 0.30, 0, 0, 0.1, 1.0, False)
CUP = Target(0.45, -0.1, 0.0, "cup")


@pytest.fixture(scope="module")
def made() -> Iterator[list[shards.Demo]]:
    demonstrator = Demonstrator((11, 0), "train", msaa=0)
    yield [demonstrator.make() for _ in range(40)]
    demonstrator.close()


def test_the_chunk_is_what_the_expert_does_from_the_planned_state() -> None:
    numbers = demos.labels(Moment([OPEN_ABOVE], 0, OPEN_ABOVE), CUP, True, np.zeros(2))
    points = contract.denormalise(numbers["traj"])
    wanted = np.array([s[:6] for s in expert.roll_out(OPEN_ABOVE, CUP, contract.HORIZON - 1)])
    np.testing.assert_allclose(points, wanted, atol=1e-6)
    np.testing.assert_allclose(points[0, :3], numbers["state"][:3], atol=1e-6)


def test_an_invalid_demonstration_stays_where_it_is() -> None:
    numbers = demos.labels(Moment([OPEN_ABOVE], 0, OPEN_ABOVE), CUP, False, np.zeros(2))
    assert numbers["valid"] == 0
    assert numbers["done"] == 0
    assert np.ptp(numbers["traj"], axis=0).max() == 0


def test_a_piece_in_the_fingers_is_not_said_to_stand() -> None:
    numbers = demos.labels(Moment([HELD_IN_FINGERS], 0, HELD_IN_FINGERS), CUP, True, np.zeros(2))
    assert numbers["standing"] == 0


def test_the_picture_is_as_old_as_the_delay() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        moment = demos.draw_moment(rng, CUP)
        travelled = np.linalg.norm(np.array(moment.now[:3]) - moment.seen[:3])
        assert travelled <= expert.SPEED_M_S * contract.DELAY_MAX_S + 1e-9


def test_two_in_five_moments_are_early_in_the_approach() -> None:
    assert demos.MOMENTS["early"] >= 0.4
    assert sum(demos.MOMENTS.values()) == pytest.approx(1)


def test_the_labelled_pixel_shows_the_piece(made: list[shards.Demo]) -> None:
    """Where the label points, the picture has the hue of the piece named: camera, label and scene agree."""
    hues = 0
    checked = 0
    for demo in made:
        text = demo.texts["text"]
        named = [
            c for c, zh in (("red", "红"), ("blue", "蓝"), ("green", "绿"), ("yellow", "黄")) if c in text or zh in text
        ]
        if demo.texts["task"] not in ("fetch", "hand_over"):
            continue  # others name two pieces
        if not demo.numbers["standing"] or demo.texts["phase"] != "approach" or len(named) != 1:
            continue
        checked += 1
        height, width = demo.image.shape[:2]
        x, y = (demo.numbers["pixel"] * [width, height]).astype(int)
        found = demo.image[y - 1 : y + 2, x - 1 : x + 2].reshape(-1, 3).mean(0)
        wanted = np.array(COLORS[named[0]])
        cosine = found @ wanted / (np.linalg.norm(found) * np.linalg.norm(wanted) + 1e-9)
        hues += cosine > 0.9
    assert checked >= 3
    assert hues >= 0.8 * checked


def test_numbers_have_the_shapes_that_training_expects(made: list[shards.Demo]) -> None:
    for demo in made:
        assert {k: v.shape for k, v in demo.numbers.items()} == shards.NUMBERS
        assert set(demo.texts) == set(shards.TEXTS)
        assert np.abs(demo.numbers["traj"]).max() <= 1
        assert (demo.numbers["grip"] >= 0).all()
        assert (demo.numbers["grip"] <= 1).all()


def test_the_same_seed_makes_the_same_demonstrations(made: list[shards.Demo]) -> None:
    again = Demonstrator((11, 0), "train", msaa=0)
    for first in made[:3]:
        second = again.make()
        assert second.texts == first.texts
        np.testing.assert_array_equal(second.image, first.image)
        np.testing.assert_array_equal(second.numbers["traj"], first.numbers["traj"])
    again.close()


def test_a_shard_comes_back_as_it_was_written(made: list[shards.Demo], tmp_path: Path) -> None:
    shards.write(tmp_path, "train-11-000-0000", made, {"seed": 11, "process": 0})
    (shard,) = shards.read_all(tmp_path, "train")
    assert len(shard) == len(made)
    np.testing.assert_array_equal(shard.images[5], made[5].image)
    np.testing.assert_array_equal(shard.numbers["traj"][5], made[5].numbers["traj"])
    assert shard.texts["text"][5] == made[5].texts["text"]
    assert shard.meta["seed"] == 11


def test_a_shard_of_another_contract_is_refused(
    made: list[shards.Demo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards.write(tmp_path, "train-0", made[:2], {})
    monkeypatch.setattr(contract, "CAMERA_FOVY_DEG", 60.0)
    with pytest.raises(shards.DatasetError, match="another contract"):
        shards.read_all(tmp_path, "train")


def test_labels_that_are_not_finite_are_refused(made: list[shards.Demo], tmp_path: Path) -> None:
    numbers = dict(made[0].numbers)
    numbers["traj"] = np.full_like(numbers["traj"], np.nan)
    shards.write(tmp_path, "train-0", [replace(made[0], numbers=numbers)], {})
    with pytest.raises(shards.DatasetError, match="traj is not finite"):
        shards.read_all(tmp_path, "train")


def test_words_of_a_wards_own_are_unknown_not_of_nothing_here(made: list[shards.Demo], tmp_path: Path) -> None:
    texts = {"text": "bring me the beaker", "also": "\n".join(["bring me the beaker"] * 3)}
    shards.write(tmp_path, "train-0", [replace(made[0], texts={**made[0].texts, **texts})], {})
    (shard,) = shards.read_all(tmp_path, "train")
    assert (shard.said[0, : shards.SENTENCES_HERE] == said.UNKNOWN).all()
    assert (shard.said[0, shards.SENTENCES_HERE :] != said.UNKNOWN).all()


@pytest.mark.parametrize("key", ["said", "pieces"])
def test_a_shard_without_a_label_is_refused(made: list[shards.Demo], tmp_path: Path, key: str) -> None:
    path = shards.write(tmp_path, "train-0", made[:2], {})
    with np.load(path) as whole:
        rest = {k: whole[k] for k in whole.files if k != key}
    np.savez(path, **rest)
    with pytest.raises(shards.DatasetError, match=f"has no {key}"):
        shards.read_all(tmp_path, "train")


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(shards.DatasetError, match=r"wardarm\.training\.demos"):
        shards.read_all(tmp_path, "train")


def test_the_command_line_makes_shards(tmp_path: Path) -> None:
    assert (
        demos.main(["--seed", "2", "--count", "3", "--out", str(tmp_path), "--split", "held_out", "--msaa", "0"]) == 0
    )
    (shard,) = shards.read_all(tmp_path, "held_out")
    assert len(shard) == 3
    assert set(shard.texts["wording"]) <= {"train", "held_out"}


def test_generator_and_evaluation_work_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import wardarm.training.demos, wardarm.training.evaluate, wardarm.training.export, wardarm.training.train\n"
        "raise SystemExit(wardarm.training.train.main(['--data', 'x', '--out', 'y', '--seconds', '1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'wardarm[train]'" in done.stderr
