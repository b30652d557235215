"""Every hold says in both languages what happened and who ends it, wherever people look for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from wardarm.alert.words import words
from wardarm.api import hold_table
from wardarm.shm.layouts import HoldReason
from wardarm.v1 import hold_pb2

DOCUMENT = Path(__file__).parents[1] / "docs" / "faults.md"
REASONS = [reason for reason in HoldReason if reason is not HoldReason.NONE]


def test_the_api_names_every_reason_and_no_other() -> None:
    public = {name.removeprefix("HOLD_REASON_"): number for name, number in hold_pb2.HoldReason.items()}
    assert public.pop("UNSPECIFIED") == 0
    assert public == {reason.name: int(reason) for reason in REASONS}


@pytest.mark.parametrize("reason", REASONS)
def test_both_texts_name_a_person_who_can_end_it(reason: HoldReason) -> None:
    zh, en = words(reason, "zh"), words(reason, "en")
    assert any(who in zh.who for who in ("医护人员", "工程师", "受过培训的人员"))
    assert "解除" in zh.who
    assert any(who in en.who for who in ("member of staff", "equipment engineer", "trained person"))
    assert "can end this" in en.who


def test_the_document_has_the_words_that_are_said() -> None:
    assert hold_table.table() in DOCUMENT.read_text("utf-8"), "renew it with 'python -m wardarm.api.hold_table'"
