"""What a sentence says, read back from the sentence: for every task, wording and language."""

from __future__ import annotations

import numpy as np
import pytest
from wardarm.training import language, said, tasks
from wardarm.training.language import PLACES, Reference
from wardarm.training.phrases import LANGUAGES, Language, Split
from wardarm.training.said import UNKNOWN
from wardarm.training.task_phrases import TASK_PHRASES

NOWHERE = said.row("other")
REFERENCES = [
    Reference("cup"), Reference("bowl", "red"), Reference("spoon", None, "right"), Reference("bottle", "orange", "left"),
    Reference("cup", "black", "corner"), Reference("bowl", "white", "near"), Reference("spoon", "yellow", "far"),
]  # fmt: skip


def row(reference: Reference) -> tuple[int, int, int]:
    return said.row(reference.kind, reference.color, reference.place)


def sentences(name: str, spoken: Language, split: Split) -> list[str]:
    """Every template of a task in a wording."""
    if split == "canonical":
        return [language.template(name, spoken)]
    return list(TASK_PHRASES[spoken, "held_out" if split == "held_out" else "train"][name])


@pytest.mark.parametrize("spoken", LANGUAGES)
@pytest.mark.parametrize("split", ["canonical", "plain", "train", "held_out"])
def test_a_request_to_bring_says_kind_colour_and_place(spoken: Language, split: Split) -> None:
    rng = np.random.default_rng(3)
    for reference in REFERENCES * 20:
        text = language.sentence_about(rng, language.phrase(rng, reference, spoken, split), spoken, split)
        assert said.read(text).tolist() == [list(row(reference)), list(NOWHERE)], text


@pytest.mark.parametrize("spoken", LANGUAGES)
@pytest.mark.parametrize("split", ["canonical", "train"])
def test_put_and_pour_say_which_piece_is_which(spoken: Language, split: Split) -> None:
    rng = np.random.default_rng(4)
    for one, other in zip(REFERENCES, REFERENCES[::-1], strict=True):
        words = {k: language.phrase(rng, r, spoken, split) for k, r in (("r", one), ("s", other))}
        for template in sentences("put", spoken, split):
            text = language.dressed(rng, template.format(**words), spoken, "train")
            assert said.read(text).tolist() == [list(row(one)), list(row(other))], text
        for template in sentences("pour", spoken, split):
            text = language.dressed(rng, template.format(**words), spoken, "train")
            assert said.read(text).tolist() == [list(said.row("bottle")), list(row(one))], text


@pytest.mark.parametrize("spoken", LANGUAGES)
@pytest.mark.parametrize("split", ["canonical", "train", "held_out"])
def test_what_stands_on_the_leaf_needs_no_word(spoken: Language, split: Split) -> None:
    leaf = list(said.row("any", place="leaf"))
    assert all(said.read(t).tolist() == [leaf, list(NOWHERE)] for t in sentences("put_back", spoken, split))
    assert all(said.read(t).tolist() == [list(said.row("bottle")), leaf] for t in sentences("pour_bare", spoken, split))


@pytest.mark.parametrize(
    ("text", "color"),
    [("bring me my glasses", None), ("把红色的盘子拿给我", "red"), ("the weather is nice today", None)],
)
def test_things_that_are_never_there_are_other(text: str, color: str | None) -> None:
    assert said.read(text).tolist() == [list(said.row("other", color)), list(NOWHERE)]


def test_a_sentence_of_several_pieces_in_no_known_form_teaches_nothing() -> None:
    assert (said.read("swap the red cup and the blue bowl") == UNKNOWN).all()


def test_nearly_every_drawn_sentence_is_understood() -> None:
    """Over tasks as they are drawn: held-out templates may be ambiguous to this reader, trained ones are not."""
    rng = np.random.default_rng(5)
    for split, allowed in (("canonical", 0), ("train", 0), ("held_out", 3)):
        unknown = 0
        for _ in range(150):
            scene, task = tasks.draw(rng)
            for text in (tasks.ask(rng, scene, task, split), tasks.ask_for_nothing_here(rng, scene, split)):
                unknown += int((said.read(text) == UNKNOWN).any())
        assert unknown <= allowed, split


def test_classes_hold_every_place() -> None:
    assert set(PLACES) < set(said.PLACE_CLASSES)
