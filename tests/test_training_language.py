"""What sentences mean in a scene, and that held-out wording stays held out."""

from __future__ import annotations

import numpy as np
import pytest
from wardarm.sim import scenes
from wardarm.sim.scenes import SceneObject
from wardarm.training import language
from wardarm.training.language import Reference, matches
from wardarm.training.phrases import LANGUAGES, PHRASES, PLAIN_SENTENCES, Split


def piece(kind: str, color: str, x_m: float, y_m: float, number: int = 0) -> SceneObject:
    return SceneObject(kind, color, x_m, y_m, 0.0, 0.0, f"{kind}{number}")


BLUE, RED = piece("cup", "blue", 0.32, -0.30), piece("cup", "red", 0.50, 0.20, 1)
BOWL = piece("bowl", "blue", 0.60, 0.0)
TABLE = (BLUE, RED, BOWL)


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        (Reference("cup", "blue"), [BLUE]),
        (Reference("cup"), [BLUE, RED]),
        (Reference("cup", None, "left"), [BLUE]),
        (Reference("cup", None, "right"), [RED]),
        (Reference("cup", None, "near"), [BLUE]),
        (Reference("cup", None, "far"), [RED]),
        (Reference("cup", None, "corner"), [BLUE]),
        (Reference("bowl", "red"), []),
        (Reference("spoon"), []),
        (Reference("cup", "red", "left"), []),
    ],
)
def test_a_reference_fits_what_people_mean_by_it(reference: Reference, meant: list[SceneObject]) -> None:
    assert matches(TABLE, reference) == meant


def test_two_cups_side_by_side_have_no_left_one() -> None:
    cups = (piece("cup", "blue", 0.4, 0.00), piece("cup", "red", 0.53, 0.04, 1))
    assert len(matches(cups, Reference("cup", None, "left"))) == 2


def test_clear_references_are_clear_and_bad_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    for seed in range(200):
        objects = scenes.scene_for(seed).objects
        for target in objects:
            for reference in language.clear_references(objects, target):
                assert matches(objects, reference) == [target]
        bad = language.bad_reference(rng, objects)
        assert bad is None or len(matches(objects, bad)) != 1


def test_sentences_are_reproducible_and_varied() -> None:
    reference = Reference("cup", "blue", "corner")

    def say(seed: int) -> list[str]:
        rng = np.random.default_rng(seed)
        return [language.ask_for(rng, reference) for _ in range(500)]

    assert say(3) == say(3)
    assert len(set(say(3))) > 400


def test_a_sentence_names_colour_and_kind_it_was_given() -> None:
    rng = np.random.default_rng(5)
    for split in ("plain", "train", "held_out"):
        for _ in range(200):
            text = language.ask_for(rng, Reference("bottle", "purple"), split)
            assert "紫" in text or "purple" in text
            assert "瓶" in text or "bottle" in text


def test_held_out_requests_are_never_trained_on() -> None:
    for name in LANGUAGES:
        train, held = PHRASES[name, "train"], PHRASES[name, "held_out"]
        assert not set(train.commands + train.wishes) & set(held.commands + held.wishes)
        assert not set(train.unrelated) & set(held.unrelated)
        assert not (set(train.plain_openers) & set(held.plain_openers)) - {""}


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_unrelated_and_absent_things_are_among_what_must_be_refused(split: Split) -> None:
    rng = np.random.default_rng(2)
    said = {language.ask_for_nothing_here(rng, TABLE, split) for _ in range(600)}
    unrelated = {t for name in LANGUAGES for t in PHRASES[name, split].unrelated}
    assert said & unrelated
    assert any("fork" in t or "叉子" in t for t in said)


def test_plain_sentences_all_have_a_place_for_the_thing() -> None:
    assert all(s.count("{r}") == 1 for name in LANGUAGES for s in PLAIN_SENTENCES[name])
