"""What people read: every hold in two languages, every log line one JSON object."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm import journal
from wardarm.alert.words import Language, hold_text, in_language, words
from wardarm.config import Config
from wardarm.shm.layouts import HoldReason


@pytest.mark.parametrize("reason", list(HoldReason))
@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_hold_says_what_who_and_how(reason: HoldReason, language: Language) -> None:
    w = words(reason, language)
    end = "。" if language == "zh" else "."
    assert all(sentence.endswith(end) for sentence in (w.what, w.who, w.how))
    if reason is HoldReason.STARTING:
        assert ("自行" if language == "zh" else "by itself") in w.who, "nobody has to resume what has not begun"
    elif reason is not HoldReason.NONE:
        assert ("继续" if language == "zh" else "Resume") in w.how, "a hold ends by a person's word"
    assert bool(re.search("[一-鿿]", w.text)) == (language == "zh")


@pytest.mark.parametrize("reason", list(HoldReason))
def test_no_text_calls_our_software_safe_or_an_emergency_stop(reason: HoldReason) -> None:
    for language in ("zh", "en"):
        text = hold_text(reason, language)  # type: ignore[arg-type]
        assert not re.search(r"\bsafe(ty|ly)?\b|E-stop|安全功能", text, re.IGNORECASE)
    if reason is not HoldReason.ROBOT:
        assert "emergency" not in hold_text(reason, "en")


def test_texts_differ_from_reason_to_reason() -> None:
    for language in ("zh", "en"):
        assert len({words(r, language).what for r in HoldReason}) == len(HoldReason)  # type: ignore[arg-type]


def test_detail_stands_in_brackets() -> None:
    assert "(door: somebody in the zone)." in hold_text(HoldReason.INTRUDER, "en", "door: somebody in the zone")
    assert "（door）。" in hold_text(HoldReason.INTRUDER, "zh", "door")


@pytest.mark.parametrize(
    ("tag", "language"), [("zh-CN", "zh"), ("zh_Hans", "zh"), ("ZH", "zh"), ("en-GB", "en"), ("", "en")]
)
def test_language_tags(tag: str, language: str) -> None:
    assert in_language(tag) == language


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return configuration.parse({"schema": 1, "log": {"directory": str(tmp_path), "level": "info"}}, "test")


def lines(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "arm.jsonl").read_text("utf-8").splitlines()]


def test_a_log_line_is_one_object_with_its_fields(config: Config, tmp_path: Path) -> None:
    log = journal.setup("arm", config)
    with journal.ids(task_id="t-17"):
        log.warning(
            "held %s", "now",
            extra={"q_rad": np.zeros(2), "ratio": np.float32(0.5), "bad": float("nan"), "reason": HoldReason.STOP, "zh": "停止\n"},
        )  # fmt: skip
    log.debug("not at this level")
    try:
        raise ValueError("why")
    except ValueError:
        logging.getLogger("wardarm.arm.link").exception("a part of the process logs through the same handler")
    first, second = lines(tmp_path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(first.pop("time")))
    assert first == {
        "level": "warning", "process": "arm", "event": "held now", "task_id": "t-17", "q_rad": [0.0, 0.0],
        "ratio": 0.5, "bad": "nan", "reason": "STOP", "zh": "停止\n",
    }  # fmt: skip
    assert "ValueError: why" in str(second["error"])
    assert "task_id" not in second


def test_setting_up_twice_writes_once(config: Config, tmp_path: Path) -> None:
    journal.setup("arm", config)
    journal.setup("arm", config).info("once")
    assert [line["event"] for line in lines(tmp_path)] == ["once"]


def test_journald_gets_the_priority_in_front() -> None:
    record = logging.LogRecord("wardarm", logging.ERROR, "", 0, "boom", None, None)
    text = journal.JsonLines("gate", priority_prefix=True).format(record)
    assert text.startswith("<3>{")
    assert json.loads(text[3:])["event"] == "boom"
