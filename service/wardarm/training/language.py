"""Instructions for scenes: which piece is meant, how people say it, and sentences that name nothing that is there.

Left and right are as the camera sees them, facing the arm: left is -y of the base frame. Near and far are from the
arm. A corner is `scenes.is_corner`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from wardarm.sim.scenes import COLORS, KINDS, SceneObject, is_corner
from wardarm.training.phrases import (
    ABSENT_THINGS,
    ADJECTIVES,
    CLASSIFIERS,
    COLOR_WORDS,
    KIND_WORDS,
    LANGUAGES,
    MORE_PLACE_WORDS,
    PHRASES,
    PLACE_WORDS,
    PLAIN_ADJECTIVES,
    PLAIN_SENTENCES,
    Language,
    Split,
)

Place = Literal["left", "right", "near", "far", "corner"]
PLACES: tuple[Place, ...] = ("left", "right", "near", "far", "corner")
CLEARLY_M = 0.06
"""'Leftmost' needs this much more than the runner-up: people do not say it of two pieces side by side."""
ROUGHLY_M = 0.05
"""A single cup may be called 'the left cup' up to this far right of the middle."""
CHINESE_SHARE = 0.6
_FEWER_WORDS_WEIGHT = 2.0
_COLOR_WEIGHT = 1.5
_CORNER_WEIGHT = 2.0
_T = TypeVar("_T")

_ORDER: dict[Place, Callable[[SceneObject], float]] = {
    "left": lambda o: o.y_m,
    "right": lambda o: -o.y_m,
    "near": lambda o: math.hypot(o.x_m, o.y_m),
    "far": lambda o: -o.x_m,
}


@dataclass(frozen=True)
class Reference:
    """What a phrase says of a piece: its kind, and if said its colour and place."""

    kind: str
    color: str | None = None
    place: Place | None = None


def matches(objects: Sequence[SceneObject], reference: Reference) -> list[SceneObject]:
    """The pieces that the reference fits: one if it is clear, several if ambiguous, none if it names nothing here."""
    named = [o for o in objects if o.kind == reference.kind and reference.color in (None, o.color)]
    place = reference.place
    if place is None or not named:
        return named
    if place == "corner":
        return [o for o in named if is_corner(o.x_m, o.y_m)]
    if len(named) == 1:
        roughly = {"left": named[0].y_m < ROUGHLY_M, "right": named[0].y_m > -ROUGHLY_M}.get(place, True)
        return named if roughly else []
    first, second = sorted(named, key=_ORDER[place])[:2]
    return [first] if _ORDER[place](second) - _ORDER[place](first) > CLEARLY_M else named


def clear_references(objects: Sequence[SceneObject], target: SceneObject) -> list[Reference]:
    """Every reference that fits `target` and nothing else, the shortest first."""
    found = []
    for color in (None, target.color):
        for place in (None, *PLACES):
            reference = Reference(target.kind, color, place)
            if matches(objects, reference) == [target]:
                found.append(reference)
    return found


def _weight(reference: Reference) -> float:
    weight = _FEWER_WORDS_WEIGHT if reference.place is None else 1.0
    weight *= _COLOR_WEIGHT if reference.color else 1.0
    return weight * (_CORNER_WEIGHT if reference.place == "corner" else 1.0)


def choose_reference(rng: np.random.Generator, objects: Sequence[SceneObject], target: SceneObject) -> Reference | None:
    """One of the clear references, or None where the scene allows none."""
    clear = clear_references(objects, target)
    if not clear:
        return None
    weights = np.array([_weight(r) for r in clear])
    return clear[rng.choice(len(clear), p=weights / weights.sum())]


def bad_reference(rng: np.random.Generator, objects: Sequence[SceneObject]) -> Reference | None:
    """A reference that fits no piece or several; None if thirty draws were all clear."""
    for _ in range(30):
        reference = Reference(
            _pick(rng, KINDS), _pick(rng, (None, *COLORS)), _pick(rng, (None, None, "corner", "left", "right"))
        )
        if len(matches(objects, reference)) != 1:
            return reference
    return None


def _pick(rng: np.random.Generator, values: Sequence[_T]) -> _T:
    return values[int(rng.integers(len(values)))]


def refer(rng: np.random.Generator, reference: Reference, language: Language, split: Split = "train") -> str:
    """A referring expression: 左边那个红色的杯子, "the red cup on the left". `plain` ones have fewer forms."""
    plain = split == "plain"
    kind = _pick(rng, KIND_WORDS[language][reference.kind])
    color = _pick(rng, COLOR_WORDS[language][reference.color]) if reference.color else ""
    place = ""
    if reference.place:
        more = () if plain else MORE_PLACE_WORDS[language].get(reference.place, ())
        place = _pick(rng, PLACE_WORDS[language][reference.place] + more)
    if language == "zh":
        link = "的" if place else ""
        if not plain and rng.random() < 0.25:
            link = _pick(rng, CLASSIFIERS[reference.kind])
        return place + link + color + ("的" if color and rng.random() < 0.25 else "") + kind
    article = "that " if not plain and rng.random() < 0.15 else "the "
    adjective = (PLAIN_ADJECTIVES if plain else ADJECTIVES).get(reference.place or "")
    words = f"{color} {kind}" if color else kind
    if adjective and rng.random() < 0.4:
        return f"{article}{adjective} {words}"
    return f"{article}{words} {place}" if place else f"{article}{words}"


def _sentence(rng: np.random.Generator, thing: str, language: Language, split: Split) -> str:
    if split == "plain":
        return _pick(rng, PLAIN_SENTENCES[language]).format(r=thing)
    p = PHRASES[language, split]
    opener = _pick(rng, p.plain_openers)
    if rng.random() < 0.65:
        courtesy = _pick(rng, p.courteous_openers) if rng.random() < 0.5 else ""
        return opener + courtesy + _pick(rng, p.commands).format(r=thing) + _pick(rng, p.closers)
    return opener + _pick(rng, p.wishes).format(r=thing) + _pick(rng, p.wish_closers)


def ask_for(rng: np.random.Generator, reference: Reference, split: Split = "train") -> str:
    """A sentence that asks for the piece meant. Held-out sentences share no request, opener or closer with training."""
    language = _language(rng)
    return _sentence(rng, refer(rng, reference, language, split), language, split)


def ask_for_nothing_here(rng: np.random.Generator, objects: Sequence[SceneObject], split: Split = "train") -> str:
    """A sentence that must be refused: an absent or ambiguous piece, a thing of another kind, or no request at all."""
    language = _language(rng)
    dice = rng.random()
    if dice < 0.6:
        reference = bad_reference(rng, objects)
        if reference is not None:
            return _sentence(rng, refer(rng, reference, language, split), language, split)
    if dice < 0.8 or split == "plain":
        return _sentence(rng, _pick(rng, ABSENT_THINGS[language]), language, split)
    return _pick(rng, PHRASES[language, split].unrelated)


def _language(rng: np.random.Generator) -> Language:
    zh, en = LANGUAGES
    return zh if rng.random() < CHINESE_SHARE else en
