"""Why a sentence is turned down, in Chinese and English, and what to say instead (words/refusals.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from wardarm.policy.lexicon import Language


@dataclass(frozen=True)
class Refusal:
    """`reason` is the ErrorInfo's; `say_instead`: sentences that would work, in the speaker's language."""

    reason: str
    zh: str
    en: str
    say_instead: tuple[str, ...] = ()


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("wardarm.policy").joinpath("words", "refusals.toml").read_text("utf-8"))


def refuse(name: str, language: Language, **values: object) -> Refusal:
    """The refusal `name` with its blanks filled in. Raises KeyError for a name that the table does not have."""
    row = _table()[name]
    return Refusal(
        row.get("reason", name),
        row["zh"].format(**values),
        row["en"].format(**values),
        tuple(row.get(f"instead_{language}", ())),
    )
