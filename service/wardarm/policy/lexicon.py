"""Cuts a sentence into known words: the tables of words/*.toml as one regular expression a language.

An entry that starts with "re:" is a regular expression and is tried before plain words; of plain words the longest
wins. What is in no table becomes one OTHER word.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

Language = Literal["zh", "en"]

OTHER = "other"
# Table -> category. Earlier tables win between entries of the same length.
_FLAT = ("lookalikes", "stop", "polite_not", "not_now", "negation", "split", "care", "slow", "filler")
_GROUPED = ("verbs", "words", "places", "colors", "objects")


@dataclass(frozen=True)
class Word:
    """`category`: a table's name (verbs, objects, places, colors, words, filler, ...); `value`: the row's, such as
    "fetch", "cup" or "corner"; `text`: as it was said."""

    category: str
    value: str
    text: str


class Lexicon:
    """The words of one language."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language
        raw = resources.files("wardarm.policy").joinpath("words", f"{language}.toml").read_text("utf-8")
        self.table: dict[str, Any] = tomllib.loads(raw)
        self.trained: dict[str, dict[str, Any]] = self.table["trained"]
        rows = self._rows()
        patterns = [(c, v, e[3:]) for c, v, e in rows if e.startswith("re:")]
        plain = sorted(((c, v, e) for c, v, e in rows if not e.startswith("re:")), key=lambda r: -len(r[2]))
        looks = [(c, v, e) for c, v, e in plain if c == "lookalikes"]
        rest = [(c, v, e) for c, v, e in plain if c != "lookalikes"]
        self._meaning: list[tuple[str, str]] = []
        parts = []
        for group in (looks, patterns, rest):
            for category, value, entry in group:
                body = entry if group is patterns else re.escape(entry)
                parts.append(f"({self._whole(body)})")
                self._meaning.append((category, value))
        self._words = re.compile("|".join(parts))

    def _rows(self) -> list[tuple[str, str, str]]:
        flat = [("lookalikes", "", e) for e in self.table["unknown"]["lookalikes"]]
        flat += [(c, "", e) for c in _FLAT[1:] for e in self.table[c]]
        grouped = [(c, v, e) for c in _GROUPED for v, entries in self.table[c].items() for e in entries]
        unknown = [(f"unknown_{c}", "", e) for c in ("objects", "colors") for e in self.table["unknown"][c]]
        return flat + grouped + unknown

    def _whole(self, body: str) -> str:
        if self.language == "zh":
            return body
        # English words end where letters end; punctuation has no such border.
        return rf"(?<![a-z'])(?:{body})(?![a-z'])" if re.match(r"[a-z(]", body) else f"(?:{body})"

    def words(self, text: str) -> list[Word]:
        """The sentence in order. Stretches in no table are OTHER words (spaces trimmed, empty ones left out)."""
        out, at = [], 0
        for match in self._words.finditer(text):
            if match.end() == match.start():
                continue
            out += self._other(text[at : match.start()])
            category, value = self._meaning[(match.lastindex or 1) - 1]
            out.append(Word(OTHER if category == "lookalikes" else category, value, match.group()))
            at = match.end()
        return out + self._other(text[at:])

    @staticmethod
    def _other(gap: str) -> list[Word]:
        gap = gap.strip(" \t\"'“”‘’()（）《》[]|/\\!！?？")
        return [Word(OTHER, "", gap)] if gap else []

    def as_trained(self, table: str, value: str, spoken: str) -> str:
        """The spoken word if the model was taught it, else the first that it was taught."""
        row: list[str] = self.trained[table][value]
        return spoken if spoken in row else row[0]


@cache
def lexicon(language: Language) -> Lexicon:
    return Lexicon(language)
