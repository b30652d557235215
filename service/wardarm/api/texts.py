"""The texts that people read, from texts.toml, in Chinese and English."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources
from typing import NamedTuple

from wardarm.alert.words import words
from wardarm.shm.layouts import HoldReason, StepState


class Text(NamedTuple):
    zh: str
    en: str


@cache
def _table() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(resources.files("wardarm.api").joinpath("texts.toml").read_text("utf-8"))


def _text(section: str, name: str, values: dict[str, object]) -> Text:
    row = _table()[section][name]
    return Text(row["zh"].format(**values), row["en"].format(**values))


def hold(reason: HoldReason) -> Text:
    """What it waits for, who can end it and how: the same words that are spoken."""
    return Text(words(reason, "zh").text, words(reason, "en").text)


def step(state: StepState, detail: str = "") -> Text:
    """`detail`: eye's reason, English."""
    row = _table()["step"][state.name]
    return Text(row["zh"].format(detail=in_chinese(detail)), row["en"].format(detail=detail))


@cache
def _reasons() -> list[tuple[re.Pattern[str], str]]:
    rows = tomllib.loads(resources.files("wardarm.api").joinpath("reasons.toml").read_text("utf-8"))["reason"]
    return [(_pattern(row["en"]), row["zh"]) for row in rows]


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", template)  # text, name, text, name, ...
    return re.compile("".join(f"(?P<{p}>.*?)" if i % 2 else re.escape(p) for i, p in enumerate(parts)), re.DOTALL)


def in_chinese(reason: str) -> str:
    """A reason of eye's in Chinese; as it is if nobody has translated it."""
    for pattern, zh in _reasons():
        if found := pattern.fullmatch(reason):
            return zh.format(**found.groupdict())
    return reason


def task(name: str, **values: object) -> Text:
    return _text("task", name, values)
