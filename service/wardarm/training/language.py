"""Instructions for scenes: which piece is meant, how people say it, and sentences that name nothing that is there.

Left and right are as the camera sees them, facing the arm: left is -y of the base frame. Near and far are from the
arm. A corner is `scenes.is_corner`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from wardarm.policy.clause import Mention
from wardarm.policy.lexicon import lexicon
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
Form = Literal["kind", "color", "place", "place_color", "corner", "corner_color"]
FORMS: tuple[Form, ...] = ("kind", "color", "place", "place_color", "corner", "corner_color")
"""How a piece is referred to: by its kind, and if said by colour, by left, right, near or far, by a corner."""
_FORM_WEIGHTS: dict[Form, float] = {
    "kind": 1, "color": 1, "place": 1, "place_color": 1, "corner": 3, "corner_color": 3,
}  # fmt: skip
_FAULTY_FORM_WEIGHTS: dict[Form, float] = {
    "kind": 1, "color": 1, "place": 1, "place_color": 1, "corner": 0.5, "corner_color": 0.5,
}  # fmt: skip
"""Few pieces stand at a corner, and most are not there: so weighted, no form says by itself whether it is true."""
Fault = Literal["absent_kind", "absent_color", "false_place", "ambiguous", "never_there"]
FAULTS: tuple[Fault, ...] = ("absent_kind", "absent_color", "false_place", "ambiguous", "never_there")
"""Why a sentence names nothing here. `never_there`: a thing of another kind, or no request at all."""
_FAULT_WEIGHTS = (0.28, 0.28, 0.22, 0.14, 0.08)
_FALSELY_M = 0.05
"""A place is false, or two pieces are alike in it, only this far beyond where it stops being true."""
_BARELY_CORNER_M = 0.02
_CANONICAL_SENTENCES = ("fetch", "fetch", "fetch", "hand_over")
_TRIES = 30
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


def _weighted(rng: np.random.Generator, values: Sequence[Form], weights: Mapping[Form, float]) -> Form:
    shares = np.array([weights[v] for v in values])
    return values[int(rng.choice(len(values), p=shares / shares.sum()))]


def form_of(reference: Reference) -> Form:
    if reference.place is None:
        return "color" if reference.color else "kind"
    if reference.place == "corner":
        return "corner_color" if reference.color else "corner"
    return "place_color" if reference.color else "place"


def choose_reference(
    rng: np.random.Generator, objects: Sequence[SceneObject], target: SceneObject, form: Form | None = None
) -> Reference | None:
    """One of the clear references, by the weights of their forms; None where the scene allows none (of `form`)."""
    clear = clear_references(objects, target)
    forms = [f for f in FORMS if form in (None, f) and any(form_of(r) == f for r in clear)]
    if not forms:
        return None
    wanted: Form = _weighted(rng, forms, _FORM_WEIGHTS)
    return _pick(rng, [r for r in clear if form_of(r) == wanted])


def _at_corner_if_barely(piece: SceneObject) -> bool:
    m = _BARELY_CORNER_M
    return any(is_corner(piece.x_m + dx, piece.y_m + dy) for dx in (-m, m) for dy in (-m, m))


def _fault(objects: Sequence[SceneObject], reference: Reference) -> Fault | None:
    """Why the reference fits nothing here, beyond doubt; None if it fits, or if people might differ."""
    alike = [o for o in objects if o.kind == reference.kind]
    named = [o for o in alike if reference.color in (None, o.color)]
    place = reference.place
    if not named:
        return "absent_color" if alike else "absent_kind"
    if place == "corner":
        if not any(_at_corner_if_barely(o) for o in named):
            return "false_place"
        return "ambiguous" if sum(is_corner(o.x_m, o.y_m) for o in named) > 1 else None
    if len(named) == 1:
        beyond = {"left": named[0].y_m, "right": -named[0].y_m}.get(place or "", -math.inf)
        return "false_place" if beyond > ROUGHLY_M + _FALSELY_M else None
    if place is None:
        return "ambiguous"
    first, second = sorted(named, key=_ORDER[place])[:2]
    return "ambiguous" if _ORDER[place](second) - _ORDER[place](first) < CLEARLY_M / 2 else None


def faulty_reference(
    rng: np.random.Generator, objects: Sequence[SceneObject], fault: Fault, form: Form | None = None
) -> Reference | None:
    """A reference with that fault (of `form`), by the weights of the forms; None if thirty draws gave none."""
    here = [o.kind for o in objects]
    kinds = [k for k in KINDS if (k in here) != (fault == "absent_kind")]
    for _ in range(_TRIES if kinds else 0):
        wanted = _weighted(rng, FORMS, _FAULTY_FORM_WEIGHTS) if form is None else form
        kind = _pick(rng, kinds)
        colors: Sequence[str] = tuple(COLORS)
        if fault in ("false_place", "ambiguous"):
            colors = [o.color for o in objects if o.kind == kind]
        color = _pick(rng, colors) if wanted.endswith("color") else None
        place: Place | None = None
        if wanted.startswith("corner"):
            place = "corner"
        elif wanted.startswith("place"):
            place = _pick(rng, PLACES[:4])
        reference = Reference(kind, color, place)
        if _fault(objects, reference) == fault:
            return reference
    return None


def bad_reference(rng: np.random.Generator, objects: Sequence[SceneObject]) -> Reference | None:
    """A reference that fits no piece or several, each fault equally often; None if none was found."""
    for fault in rng.permutation(np.array(FAULTS[:4])):
        reference = faulty_reference(rng, objects, fault)
        if reference is not None:
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


def canonical(rng: np.random.Generator, reference: Reference, language: Language) -> str:
    """As the instruction gate says it to the model, with one of the words that it leaves as spoken."""
    return _canonical_sentence(rng, phrase(rng, reference, language, "canonical"), language)


def phrase(rng: np.random.Generator, reference: Reference, language: Language, split: Split) -> str:
    """A referring expression; `canonical`: as the instruction gate says it, with words that it leaves as spoken."""
    if split != "canonical":
        return refer(rng, reference, language, split)
    lex = lexicon(language)

    def word(table: str, value: str | None) -> str:
        return _pick(rng, lex.trained[table][value]) if value else ""

    mention = Mention(
        reference.kind, word("objects", reference.kind), reference.color or "", reference.place or "",
        word("colors", reference.color), word("places", reference.place),
    )  # fmt: skip
    said: str = mention.reference(lex)
    return said


def template(name: str, language: Language) -> str:
    """The instruction gate's sentence of a name such as put or pour_bare, with {r} and {s} to fill in."""
    found: str = lexicon(language).trained["sentences"][name]
    return found


def sentence_about(rng: np.random.Generator, thing: str, language: Language, split: Split, hand: bool = False) -> str:
    """A sentence that asks to bring, or to hand over, what `thing` says."""
    if split == "canonical":
        return template("hand_over" if hand else "fetch", language).format(r=thing)
    return _sentence(rng, thing, language, split)


def dressed(rng: np.random.Generator, request: str, language: Language, split: Split) -> str:
    """A request with an opener and a closer."""
    if split == "plain":
        return request
    p = PHRASES[language, split]
    courtesy = _pick(rng, p.courteous_openers) if rng.random() < 0.4 else ""
    return _pick(rng, p.plain_openers) + courtesy + request + _pick(rng, p.closers)


def _canonical_sentence(rng: np.random.Generator, thing: str, language: Language) -> str:
    template: str = lexicon(language).trained["sentences"][_pick(rng, _CANONICAL_SENTENCES)]
    return template.format(r=thing)


def _sentence(rng: np.random.Generator, thing: str, language: Language, split: Split) -> str:
    if split == "canonical":
        return _canonical_sentence(rng, thing, language)
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
    language = draw_language(rng)
    if split == "canonical":
        return canonical(rng, reference, language)
    return _sentence(rng, refer(rng, reference, language, split), language, split)


def ask_for_nothing_here(
    rng: np.random.Generator, objects: Sequence[SceneObject], split: Split = "train", fault: Fault | None = None
) -> str:
    """A sentence that must be refused, of one fault or drawn among all; of a missing colour if the scene has no such."""
    language = draw_language(rng)
    wanted = fault or FAULTS[rng.choice(len(FAULTS), p=_FAULT_WEIGHTS)]
    reference = None
    if wanted != "never_there":
        reference = faulty_reference(rng, objects, wanted) or faulty_reference(rng, objects, "absent_color")
    if reference is not None:
        if split == "canonical":
            return canonical(rng, reference, language)
        return _sentence(rng, refer(rng, reference, language, split), language, split)
    if split in ("canonical", "plain") or rng.random() < 0.5:
        return _sentence(rng, _pick(rng, ABSENT_THINGS[language]), language, split)
    return _pick(rng, PHRASES[language, split].unrelated)


def draw_language(rng: np.random.Generator) -> Language:
    """Chinese three times of five."""
    zh, en = LANGUAGES
    return zh if rng.random() < CHINESE_SHARE else en
