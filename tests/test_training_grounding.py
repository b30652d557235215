"""Colours: what a network is told of them, how agreement is computed, how it is scored, and what is warned of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wardarm.sim.scenes import COLORS, KINDS
from wardarm.training import said, shards, train, watch
from wardarm.training.demos import Demonstrator

torch = pytest.importorskip("torch")

from wardarm.policy.tokenizer import Tokenizer  # noqa: E402
from wardarm.training import trainer as trainer_module  # noqa: E402
from wardarm.training.dataset import Dataset  # noqa: E402
from wardarm.training.grounding import Heard, Spotted, match  # noqa: E402
from wardarm.training.losses import loss  # noqa: E402
from wardarm.training.model import Policy, Size  # noqa: E402
from wardarm.training.scores import color_questions, score  # noqa: E402
from wardarm.training.trainer import Settings, Trainer  # noqa: E402

TOKENIZER = Path(__file__).parents[1] / train.TOKENIZER
SMALL = Size(width=32, channels=(8, 16, 24), text_layers=1, joint_layers=1, look_layers=1, point_layers=1)
SURE = 20.0


@pytest.fixture(scope="module")
def made() -> Iterator[list[shards.Demo]]:
    demonstrator = Demonstrator((13, 0), "train", msaa=0)
    yield [demonstrator.make() for _ in range(12)]
    demonstrator.close()


@pytest.fixture(scope="module")
def dataset(made: list[shards.Demo], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("demos")
    shards.write(folder, "train-0", made, {"seed": 13, "process": 0})
    return Dataset(folder, "train", Tokenizer(TOKENIZER), torch.device("cpu"))


def test_every_piece_of_a_picture_is_labelled_with_its_colour(made: list[shards.Demo]) -> None:
    """Also those nobody asks for, and one in the fingers: the picture shows the hue where the label points."""
    names, values = list(COLORS), np.array(list(COLORS.values()))
    checked = agreed = 0
    for demo in made:
        height, width = demo.image.shape[:2]
        for x, y, kind, color in demo.numbers["pieces"]:
            if kind < 0 or names[int(color)] in ("white", "black"):
                continue
            row, column = int(y * height), int(x * width)
            found = demo.image[max(0, row - 1) : row + 2, max(0, column - 1) : column + 2].reshape(-1, 3).mean(0)
            cosine = values @ found / (np.linalg.norm(values, axis=1) * np.linalg.norm(found) + 1e-9)
            checked += 1
            agreed += cosine[int(color)] > 0.9
    assert checked > 20
    assert agreed >= 0.8 * checked


def test_the_piece_meant_is_among_those_labelled(made: list[shards.Demo]) -> None:
    standing = [d.numbers for d in made if d.numbers["standing"]]
    assert standing
    for numbers in standing:
        assert np.abs(numbers["pieces"][:, :2] - numbers["pixel"]).max(-1).min() < 0.002


def logits(classes: tuple[str, ...], *wanted: str) -> torch.Tensor:
    """(1, roles or cells, classes), all weight on what is wanted of each."""
    return SURE * torch.nn.functional.one_hot(torch.tensor([[classes.index(w) for w in wanted]]), len(classes)).float()


def test_cells_agree_where_kind_and_colour_are_those_said() -> None:
    """Three cells: a red cup, a blue cup, nothing. Piece: the blue cup; goal: any bowl, of which there is none."""
    heard = Heard(
        logits(said.KIND_CLASSES, "cup", "bowl"),
        logits(said.COLOR_CLASSES, "blue", "any"),
        logits(said.PLACE_CLASSES, "any", "any"),
    )
    spotted = Spotted(
        torch.tensor([[SURE, SURE, -SURE]]),
        logits(KINDS, "cup", "cup", "cup"),
        logits(tuple(COLORS), "red", "blue", "blue"),
    )
    found = match(heard, spotted)
    assert torch.allclose(found.agreed[0, 0], torch.tensor([0.0, 1.0, 0.0]), atol=1e-3)
    assert found.agreed[0, 1].max() < 1e-3
    assert torch.allclose(found.summary[0, :2], torch.tensor([1.0, 0.0]), atol=1e-3)  # highest of piece and goal
    other = match(heard._replace(kind=logits(said.KIND_CLASSES, "other", "any")), spotted)
    assert other.agreed[0, 0].max() < 1e-3
    assert torch.allclose(other.agreed[0, 1], torch.tensor([1.0, 1.0, 0.0]), atol=1e-3)


def test_the_labels_of_a_batch_are_those_of_the_sentence_drawn(dataset: Dataset) -> None:
    generator = torch.Generator()
    generator.manual_seed(2)
    index = torch.arange(len(dataset)).repeat(20)
    batch = dataset.batch(index, generator)
    texts = [
        "\n".join(str(dataset.texts[k][i]) for k in shards.SENTENCE_TEXTS).split("\n") for i in range(len(dataset))
    ]
    refused = 0
    for i, ids, mask, heard, valid in zip(
        index.tolist(), batch["ids"], batch["mask"], batch["said"], batch["valid"], strict=True
    ):
        encoded = [dataset.ids[k][dataset.mask[k] > 0].tolist() for k in dataset.sentences[i]]
        which = encoded.index(ids[mask > 0].tolist())
        assert heard.tolist() == said.read(texts[i][which]).tolist()
        assert bool(valid) == (which < shards.SENTENCES_HERE)
        refused += which >= shards.SENTENCES_HERE
    assert 0.2 < refused / len(index) < 0.5


def test_what_is_not_labelled_teaches_nothing(dataset: Dataset) -> None:
    """A ward's own recordings: no pieces, wordings of their own."""
    torch.manual_seed(0)
    net = Policy(SMALL)
    batch = dataset.batch(torch.arange(4))
    batch |= {"pieces": torch.full_like(batch["pieces"], -1), "said": torch.full_like(batch["said"], said.UNKNOWN)}
    _, parts = loss(net, net(*(batch[k] for k in ("image", "ids", "mask", "state"))), batch)
    silent = ("here", "kind", "color", "said_kind", "said_color", "said_place")
    assert {k: float(parts[k]) for k in silent} == dict.fromkeys(silent, 0.0)


def test_colour_questions_are_those_that_only_the_colour_answers() -> None:
    row = said.row
    nowhere = row("other")
    heard = np.array(
        [[row("cup", "red"), nowhere], [row("cup", "red", "left"), nowhere], [row("cup"), nowhere],
         [row("cup", "green"), nowhere], [row("bowl", "red"), nowhere], [row("bowl", "blue"), nowhere]], np.int8,
    )  # fmt: skip
    pieces = np.full((6, shards.PIECES, 4), -1.0)
    pieces[:, 0, 2:], pieces[:, 1, 2:] = (KINDS.index("cup"), 1), (KINDS.index("cup"), 0)
    pieces[:, 2, 2:] = (KINDS.index("bowl"), 0)
    valid = np.array([True, True, True, False, False, True])
    asked = color_questions(heard, pieces, valid)
    assert asked.needed.tolist() == [True, False, False, False, False, False]
    assert asked.chance[0] == 0.5
    assert asked.absent.tolist() == [False, False, False, True, True, False]


def test_a_score_says_how_colours_are_told(dataset: Dataset) -> None:
    torch.manual_seed(0)
    found = score(Policy(SMALL), dataset)
    for colors in (found["colors"], *(w["colors"] for w in found["wording"].values())):
        for role in ("piece", "goal"):
            assert (colors[role]["right"] is None) == (colors[role]["needed"] == 0)


def colors(right: float | None) -> dict[str, object]:
    return {"colors": {"piece": {"needed": 120, "right": right, "chance": 0.5}}}


def test_colours_at_chance_are_warned_of_once_they_should_be_known() -> None:
    assert watch.colors_unlearnt(colors(0.52), 0.05) is None
    assert watch.colors_unlearnt(colors(0.95), 0.5) is None
    assert watch.colors_unlearnt(colors(None), 0.5) is None
    assert "52% of 120" in (watch.colors_unlearnt(colors(0.52), 0.3) or "")


def test_a_part_that_stands_still_is_warned_of_once() -> None:
    plateaus = watch.Plateaus()
    warned = []
    for step in range(60):
        share = step / 100
        warned += plateaus.look({"valid": 0.2, "cell": 1.0 - share, "color": 0.01}, share)
    assert len(warned) == 1
    assert warned[0].startswith("valid is on a plateau: 0.200")


def test_compiling_costs_no_budget_and_changes_no_weight(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler itself is left out: what is looked at is the step before the first."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    records: list[dict[str, object]] = []
    settings = Settings(3600.0, batch=4, warm_steps=2, steps=1, compiled=True)
    trainer = Trainer(dataset, None, SMALL, settings, tmp_path, records.append)
    draws, seen = trainer.draws.get_state(), []
    weights = [p.detach().clone() for p in trainer.parameters]

    def first_step(self: Trainer) -> None:
        seen.append(all(torch.equal(p, q) for p, q in zip(self.parameters, weights, strict=True)))
        assert torch.equal(self.draws.get_state(), draws)
        assert self.progress.elapsed_s == 0
        self.progress.step += 1

    monkeypatch.setattr(trainer_module.Trainer, "_step", first_step)
    trainer.run()
    assert seen == [True]
    assert records[0]["kind"] == "compiled"
