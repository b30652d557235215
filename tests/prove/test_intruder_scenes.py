"""The long figures of `wardarm bench guard`: ten minutes each, and 100,000 frames. An hour; kept in out/bench/guard.json."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from wardarm.ops import bench_guard

pytestmark = pytest.mark.timeout(3600)
OUT = Path("out/bench")
VTEST = Path(os.environ["WARDARM_VTEST"]) if "WARDARM_VTEST" in os.environ else None


def part(name: str) -> Any:
    row = bench_guard.run(VTEST, 0, 100_000, False, OUT, [name])[name]
    assert "failed" not in row, row
    if "missing" in row:
        pytest.skip(row["missing"])
    return row


def test_ten_minutes_of_an_empty_room_hold_nothing() -> None:
    row = part("empty")
    assert (row["frames"], row["holds"]) == (9000, 0)


def test_ten_minutes_of_the_rendered_room_with_the_arm_at_work_hold_nothing() -> None:
    row = part("bedside")
    assert (row["seconds"], row["holds"]) == (600, 0)


def test_somebody_who_stands_still_for_ten_minutes_is_never_lost() -> None:
    row = part("still")
    assert row["frames_lost"] == 0
    assert row["clear_after_s"] is not None


def test_a_hundred_thousand_frames_need_no_more_memory() -> None:
    row = part("memory")
    assert row["frames"] >= 100_000
    assert row["grown_kb"] < 4096


def test_every_walker_of_vtest_is_seen_in_every_zone() -> None:
    row = part("vtest")
    assert row["entries"] >= 20
    assert sum(z["witness_frames"] for z in row["zones"].values()) >= 200
    assert row["entries_missed"] == row["frames_missed"] == row["still_lost"] == 0
    assert row["still_s"] == 600


def test_a_frozen_camera_is_named_within_a_second() -> None:
    assert part("frozen")["word_ms"]["max"] < 1000
