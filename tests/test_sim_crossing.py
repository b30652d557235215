"""What is read out of the record of one crossing. The whole of it, on a running system: `make prove`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from wardarm import config as configuration
from wardarm.ops.rtde_log import SAMPLE
from wardarm.shm.layouts import GATE_STATUS, WORD, HoldReason
from wardarm.sim.crossing_record import RAMPING, RUNNING, NotDone, Watch

MS = 1_000_000


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    config = configuration.load("desk", {"shm.prefix": f"tx{secrets.token_hex(4)}_"})
    watch = Watch(config, tmp_path / "guard.log")
    yield watch
    watch.ended.set()
    watch.join()


def word(at_ms: int, ok: bool, reason: HoldReason = HoldReason.NONE) -> np.void:
    row = np.zeros((), WORD)
    row["beat_ns"], row["ok"], row["reason"] = at_ms * MS, ok, reason
    return row[()]


def gate(on: bool, drop_ms: int) -> np.void:
    row = np.zeros((), GATE_STATUS)
    row["pwm_on"], row["drop_ns"] = on, drop_ms * MS
    return row[()]


def said(log: Path, *at_ms: int) -> None:
    fields = {"event": "word", "reason": "INTRUDER", "camera": "door", "frame_to_word_ms": 5.0, "cpu_ms": 4.0}
    lines = [json.dumps(fields | {"at_ns": at * MS}) for at in at_ms]
    log.write_text("\n".join(["a line that is no object", *lines]) + "\n")


def test_a_word_whose_first_beat_was_missed_is_timed_by_the_log_of_guard(watch: Watch, tmp_path: Path) -> None:
    watch.words = [word(900, True), word(1000, True), word(1090, False, HoldReason.INTRUDER)]
    (tmp_path / "guard.log").write_text("")
    assert watch.word_ns() == 1090 * MS
    said(tmp_path / "guard.log", 1030)
    assert watch.word_ns() == 1030 * MS
    said(tmp_path / "guard.log", 500, 2000)  # an earlier visitor's, and a later one's
    assert watch.word_ns() == 1090 * MS


def test_another_hold_is_not_the_word(watch: Watch) -> None:
    watch.words = [word(900, True), word(1000, False, HoldReason.ROOM_CAMERA_LOST)]
    with pytest.raises(NotDone, match="guard did not say INTRUDER"):
        watch.word_ns()


def test_the_permit_is_gone_when_gate_says_so_and_not_at_an_earlier_drop(watch: Watch) -> None:
    watch.gate = [gate(True, 100), gate(False, 400), gate(True, 400), gate(False, 1034)]
    assert watch._gone_ns(1030 * MS) == 1034 * MS
    with pytest.raises(NotDone, match="gate did not switch the permit off"):
        watch._gone_ns(1035 * MS)


def test_the_ramp_begins_with_the_player_s_first_cycle_of_it() -> None:
    rows = np.zeros(400, [(n, SAMPLE[n].newbyteorder("=")) for n in ("timestamp", "output_int_register_12")])
    rows["timestamp"] = np.arange(400) * 0.002
    rows["output_int_register_12"] = RUNNING
    rows["output_int_register_12"][50:60] = RAMPING  # one before the word
    rows["output_int_register_12"][310:] = RAMPING
    assert Watch._ramp(rows, 0.5) == 310
    assert Watch._over(rows, 310, 399) == 399, "at rest before the ramp was over"
    rows["output_int_register_12"][370:] = 4
    assert Watch._over(rows, 310, 399) == 370
    with pytest.raises(NotDone, match="did not ramp"):
        Watch._ramp(rows, 0.7)


def test_a_visitor_whom_no_picture_shows_was_not_seen(watch: Watch) -> None:
    with pytest.raises(NotDone, match="the visitor was not seen"):
        watch.result()
