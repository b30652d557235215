"""Every hold says in both languages what happened and who ends it, wherever people look for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from wardarm.alert.words import words
from wardarm.api import hold_table
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.shm.layouts import HoldReason, ProcessId
from wardarm.v1 import hold_pb2

DOCUMENT = Path(__file__).parents[1] / "docs" / "faults.md"
REASONS = [reason for reason in HoldReason if reason is not HoldReason.NONE]


def test_the_api_names_every_reason_and_no_other() -> None:
    public = {name.removeprefix("HOLD_REASON_"): number for name, number in hold_pb2.HoldReason.items()}
    assert public.pop("UNSPECIFIED") == 0
    assert public == {reason.name: int(reason) for reason in REASONS}


BY_ITSELF = HoldReason.STARTING


@pytest.mark.parametrize("reason", [r for r in REASONS if r is not BY_ITSELF])
def test_both_texts_name_a_person_who_can_end_it_and_what_they_press(reason: HoldReason) -> None:
    zh, en = words(reason, "zh"), words(reason, "en")
    assert "继续" in zh.how
    assert "Resume" in en.how
    assert "自行结束" not in zh.text
    assert "by itself" not in en.text
    assert any(who in zh.who for who in ("医护人员", "工程师", "受过培训的人员"))
    assert "解除" in zh.who
    assert any(who in en.who for who in ("member of staff", "equipment engineer", "trained person"))
    assert "can end this" in en.who


def test_what_ends_by_itself_asks_nobody_to_press_anything() -> None:
    zh, en = words(BY_ITSELF, "zh"), words(BY_ITSELF, "en")
    assert "自行结束" in zh.who
    assert "ends by itself" in en.who
    assert not [w for w in ("按", "继续”", "医护") if w in zh.text]
    assert not [w for w in ("press", "Resume", "staff") if w in en.text]
    latch = HoldLatch()
    latch.see([Cause(BY_ITSELF, ProcessId.GUARD, "learning the room")], 1)
    assert not latch.blocking
    latch.see([], 2)
    assert not latch.holds  # as the words say


@pytest.mark.parametrize("reason", REASONS)
def test_every_other_hold_outlives_its_cause(reason: HoldReason) -> None:
    latch = HoldLatch()
    latch.see([Cause(reason, ProcessId.GUARD, "")], 1)
    latch.see([], 2)
    assert bool(latch.holds) is (reason is not BY_ITSELF)


def test_the_document_has_the_words_that_are_said() -> None:
    assert hold_table.table() in DOCUMENT.read_text("utf-8"), "renew it with 'python -m wardarm.api.hold_table'"
