"""What a training sentence says, as classes: kind, colour and place of the piece meant, and of the piece where it goes.

Read off the sentence by the grammar that made it (phrases, task_phrases, the instruction gate's own sentences), held-out
templates included. Networks learn from it which word counts; nothing that is served calls it.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from wardarm.policy.lexicon import lexicon
from wardarm.sim.scenes import COLORS, KINDS
from wardarm.training.phrases import (
    ADJECTIVES,
    COLOR_WORDS,
    KIND_WORDS,
    LANGUAGES,
    MORE_PLACE_WORDS,
    PLACE_WORDS,
    Language,
)
from wardarm.training.task_phrases import TASK_PHRASES

KIND_CLASSES = (*KINDS, "any", "other")
"""`any`: no kind is said (放回); `other`: nothing on this table can be meant."""
COLOR_CLASSES = (*COLORS, "any")
PLACE_CLASSES = ("left", "right", "near", "far", "corner", "leaf", "any")
"""`leaf`: what was fetched and stands there, which no word says."""
ROLES = ("piece", "goal")
ATTRIBUTES = (KIND_CLASSES, COLOR_CLASSES, PLACE_CLASSES)
SHAPE = (len(ROLES), len(ATTRIBUTES))
UNKNOWN = -1
"""Of a sentence that this grammar cannot have made: nothing is learnt from it here."""
_TASKS = ("put", "pour", "put_back", "pour_bare")
"""In this order: the words of the last two occur in sentences of the first two."""
_REMEMBERED = 1 << 16
_Row = tuple[int, int, int]
_NOT_NAMED = KIND_CLASSES.index("other")
_NOWHERE: _Row = (_NOT_NAMED, COLOR_CLASSES.index("any"), PLACE_CLASSES.index("any"))


def row(kind: str, color: str | None = None, place: str | None = None) -> _Row:
    """The classes of a reference."""
    return KIND_CLASSES.index(kind), COLOR_CLASSES.index(color or "any"), PLACE_CLASSES.index(place or "any")


@lru_cache
def _tables(language: Language) -> tuple[tuple[re.Pattern[str], dict[str, str]], ...]:
    """For kinds, colours, places: a pattern that finds any of its words, the longest first, and word -> class."""
    trained = lexicon(language).trained
    places = [(w, p) for p, ws in PLACE_WORDS[language].items() for w in ws]
    places += [(w, p) for p, ws in MORE_PLACE_WORDS[language].items() for w in ws]
    places += [(w, p) for p, w in ADJECTIVES.items()]
    tables = (
        [(w, k) for k, ws in KIND_WORDS[language].items() for w in ws],
        [(w, c) for c, ws in COLOR_WORDS[language].items() for w in ws],
        places,
    )
    found = []
    for pairs, name in zip(tables, ("objects", "colors", "places"), strict=True):
        words = dict([*pairs, *((w, v) for v, ws in trained[name].items() for w in ws)])
        edge = r"\b" if language == "en" else ""
        each = "|".join(re.escape(w) for w in sorted(words, key=len, reverse=True))
        found.append((re.compile(f"{edge}(?:{each}){edge}"), words))
    return tuple(found)


@lru_cache
def _templates(language: Language) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Task and pattern of every template that is no fetch, in the order in which they are tried."""
    sentences: dict[str, str] = lexicon(language).trained["sentences"]
    found = []
    for task in _TASKS:
        each = {sentences[task], *(t for split in ("train", "held_out") for t in TASK_PHRASES[language, split][task])}
        for template in sorted(
            each, key=len
        ):  # "{r} next to {s}" before "{r} right next to {s}": a piece may be "on the right"
            pattern = re.escape(template).replace(r"\{r\}", "(?P<r>.+)").replace(r"\{s\}", "(?P<s>.+)")
            found.append((task, re.compile(pattern)))
    return tuple(found)


def _mention(text: str, language: Language) -> _Row | None:
    """The one piece that a text speaks of; None if it speaks of several."""
    kinds, colors, places = ([words[m] for m in pattern.findall(text)] for pattern, words in _tables(language))
    if max(len(kinds), len(colors), len(places)) > 1:
        return None
    return row(kinds[0] if kinds else "other", *(v[0] if v else None for v in (colors, places)))


def _roles(text: str, language: Language) -> tuple[_Row | None, _Row | None]:
    for task, pattern in _templates(language):
        found = pattern.search(text)
        if found is None:
            continue
        if task in ("put", "pour"):
            named = [_mention(found[r], language) for r in ("r", "s") if r in pattern.groupindex]
            if _NOT_NAMED in [r and r[0] for r in named]:
                continue  # 帮我倒水 is no 帮{r}倒水
            return (named[0], named[1]) if task == "put" else (row("bottle"), named[0])
        return (row("any", place="leaf"), _NOWHERE) if task == "put_back" else (row("bottle"), row("any", place="leaf"))
    return _mention(text, language), _NOWHERE


@lru_cache(_REMEMBERED)
def _read(text: str) -> tuple[_Row | None, _Row | None]:
    return _roles(text, LANGUAGES[1] if text.isascii() else LANGUAGES[0])


def read(text: str) -> NDArray[np.int8]:
    """Classes (2 roles, 3 attributes); UNKNOWN everywhere where the sentence is not one of this grammar."""
    piece, goal = _read(text)
    if piece is None or goal is None:
        return np.full(SHAPE, UNKNOWN, np.int8)
    return np.array([piece, goal], np.int8)
