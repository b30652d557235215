"""The detector over long scenes: ten minutes each, and 100,000 frames. Minutes long; `out/prove/guard_scenes.json`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import cv2
import pytest
from wardarm.ops import bench_guard

pytestmark = pytest.mark.timeout(3600)
FILE = Path("out/prove/guard_scenes.json")
VTEST = Path(os.environ.get("WARDARM_VTEST", str(bench_guard.VTEST)))


def once(name: str, make: Any) -> Any:
    cv2.setNumThreads(1)
    rows = json.loads(FILE.read_text()) if FILE.exists() else {}
    if name not in rows:
        rows[name] = make()
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(rows, indent=1) + "\n")
    return rows[name]


def test_ten_minutes_of_an_empty_room_hold_nothing() -> None:
    row = once("empty", lambda: bench_guard.empty_scene(600, 15))
    assert row["frames"] == 9000
    assert row["holds"] == 0


def test_somebody_who_stands_still_for_ten_minutes_is_never_lost() -> None:
    row = once("still", lambda: bench_guard.still_person(600, 15))
    assert row["frames_lost"] == 0
    assert row["clear_after_s"] is not None


def test_a_hundred_thousand_frames_need_no_more_memory() -> None:
    row = once("memory", lambda: bench_guard.memory_growth(100_000))
    assert row["grown_kb"] < 4096


def test_every_walker_of_vtest_is_seen_in_every_zone() -> None:
    if not VTEST.exists():
        pytest.skip("Debian's opencv-doc is not installed; or give WARDARM_VTEST=FILE")
    row = once("vtest", lambda: bench_guard.vtest(VTEST))
    assert sum(z["witness_frames"] for z in row["zones"].values()) >= 50
    for name, zone in row["zones"].items():
        assert zone["entries"] >= 3, name
        assert zone["missed"] == 0, name
        assert not zone["still_for_600_s_lost"], name
