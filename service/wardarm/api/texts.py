"""The texts that people read, from texts.toml, in Chinese and English."""

from __future__ import annotations

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
    return _text("step", state.name, {"detail": detail})


def task(name: str, **values: object) -> Text:
    return _text("task", name, values)
