"""What eye says about a step is said in both languages: every reason in its source has its Chinese."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from wardarm import eye
from wardarm.api import texts
from wardarm.eye.steps import HOLDING_UNKNOWN
from wardarm.shm.layouts import StepState

SOURCES = sorted(Path(eye.__file__).parent.glob("*.py"))
VARIABLE = "7"  # in the place of what a reason fills in


def said(node: ast.expr) -> str | None:
    """The text of a literal or an f-string; None for a reason that comes from elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(v.value if isinstance(v, ast.Constant) else VARIABLE for v in node.values)
    if isinstance(node, ast.BinOp):
        return said(node.left)
    return None


def reasons() -> Iterator[str]:
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or len(node.args) != 2:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            text = said(node.args[1]) if name in ("StepEnded", "_end") else None
            if text:
                yield text


REASONS = [*sorted(set(reasons())), HOLDING_UNKNOWN]


def test_the_source_was_read() -> None:
    assert len(REASONS) > 15


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_of_eyes_has_its_chinese(reason: str) -> None:
    zh = texts.in_chinese(reason)
    assert any("一" <= c <= "鿿" for c in zh.replace("放下", "").replace("松开", "")), zh


def test_what_a_reason_fills_in_is_kept() -> None:
    text = texts.step(StepState.FAILED, "the fingers closed on nothing 3 times; nothing was fetched")
    assert text.zh == "没有成功：手指 3 次都没有夹到东西；没有拿来"
    assert "3 times" in text.en


def test_what_nobody_translated_is_shown_as_it_is() -> None:
    assert "a new reason" in texts.step(StepState.FAILED, "a new reason").zh
