"""`wardarm bench guard --only word`: which walks count, by whose clock, and what is said about one that was not seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wardarm.ops import bench_guard_word
from wardarm.ops.bench_guard_word import Heard, Record, Said, Shot, judged

MS = 1_000_000
PERIOD_MS = 67
LEARNT = Heard(0, True, "NONE", "")


def walk(begin_ms: int) -> list[Shot]:
    """A whole walk of 10 frames; the third covers enough of the zone."""
    return [
        Shot(i, 0.2 * (i + 1), (begin_ms + i * PERIOD_MS) * MS, (begin_ms + i * PERIOD_MS + 4) * MS, 0.5)
        for i in range(10)
    ]


def record(
    heard: list[Heard], said: list[Said], *begin_ms: int, stalls: list[tuple[int, float]] | None = None
) -> Record:
    return Record({"room0": [walk(b) for b in begin_ms]}, heard, said, stalls or [], 20_000 * MS, {})


def intruder(at_ms: float, camera: str = "room0") -> Heard:
    return Heard(int(at_ms * MS), False, "INTRUDER", f"{camera}: somebody in the zone (1.0 %)")


def test_the_word_is_timed_by_the_log_of_guard_and_not_by_when_it_was_heard() -> None:
    """The listener slept for 90 ms and heard the word late: that is its own sleep."""
    said = [Said(1150 * MS, "room0", 9.0, 4.0)]
    row = judged(record([LEARNT, intruder(1230)], said, 1000, stalls=[(1230 * MS, 90.0)]))
    assert row["detect_ms"]["max"] == pytest.approx(1150 - (1000 + 2 * PERIOD_MS))
    assert row["frames_later"] == {0: 1}
    slowest = row["slowest"][0]
    assert (slowest["pipe_ms"], slowest["guard_ms"], slowest["frame_to_word_ms"]) == (7.0, 9.0, 16.0)
    assert slowest["stall_ms"] == 90.0
    assert (row["walks"], row["seen"], row["unseen"], row["unheard"]) == (1, 1, 0, 0)


def test_who_is_seen_in_an_earlier_frame_has_a_time_below_zero() -> None:
    row = judged(record([LEARNT, intruder(1080)], [Said(1080 * MS, "room0", 9.0, 4.0)], 1000))
    assert row["frames_later"] == {-1: 1}
    assert row["detect_ms"]["p50"] < 0


def test_a_word_that_nobody_heard_is_told() -> None:
    row = judged(record([LEARNT], [Said(1150 * MS, "room0", 9.0, 4.0)], 1000))
    assert (row["seen"], row["unheard"]) == (1, 1)


@pytest.mark.parametrize(
    ("heard", "why"),
    [
        (intruder(700), "intruder: room0"),
        (Heard(700 * MS, False, "ROOM_CAMERA_LOST", "room0: starting"), "room_camera_lost: room0"),
        (Heard(700 * MS, False, "LATE", "guard: last word 600 ms ago"), "late: guard"),
    ],
)
def test_a_walk_that_began_while_the_word_was_false_is_not_judged_and_says_why(heard: Heard, why: str) -> None:
    row = judged(record([LEARNT, heard], [], 1000))
    assert (row["walks"], row["unseen"]) == (0, 0)
    assert row["not_judged"] == {why: 1}


def test_a_walk_before_the_views_were_learnt_or_cut_by_the_end_is_not_judged() -> None:
    learning = [Heard(0, False, "STARTING", "room0: learning the view, 3/15"), Heard(1100 * MS, True, "NONE", "")]
    row = judged(record(learning, [], 1000, 19_500))
    assert row["walks"] == 0
    assert row["not_judged"] == {"not whole: the run began or ended in it": 2}


def test_a_walk_that_guard_did_not_see_is_unseen_with_what_it_said_instead() -> None:
    """Another camera's word is not this walker's."""
    heard = [LEARNT, intruder(1150, "room2"), Heard(1900 * MS, True, "NONE", "")]
    row = judged(record(heard, [Said(1150 * MS, "room2", 9.0, 4.0)], 1000, stalls=[(1300 * MS, 200.0)]))
    assert (row["walks"], row["seen"], row["unseen"]) == (1, 0, 1)
    unseen = row["unseen_walks"][0]
    assert (unseen["camera"], unseen["walk"], unseen["stall_ms"]) == ("room0", 1, 200.0)
    assert unseen["said"] == ["intruder: room2: somebody in the zone (1.0 %)"]


def test_a_camera_program_that_was_started_again_begins_new_walks(tmp_path: Path) -> None:
    notes = [(1, 3), (1, 4), (2, 3), (2, 4), (1, 3), (1, 4), (1, 3)]
    fields = {"percent": 0.4, "exposed_ns": 1, "sent_ns": 2, "late_ms": 0.0}
    (tmp_path / "x").write_text("".join(json.dumps({"walk": w, "frame": f} | fields) + "\n" for w, f in notes))
    walks = bench_guard_word.read_walks(tmp_path / "x")
    assert [[s.frame for s in w] for w in walks] == [[3, 4], [3, 4], [3, 4], [3]]
    assert bench_guard_word.read_walks(tmp_path / "nothing") == []


def test_the_bench_measures_exposure_to_word_and_load_on_real_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_guard_word, "CAMERAS", 1)
    monkeypatch.setattr(bench_guard_word, "WALK_S", 4.0)
    for _ in range(3):  # a guard that the machine keeps waiting misses walks
        row = bench_guard_word.word(walks=1, size=(640, 360))
        if row["walks"] and not row["unseen"] and not row["unheard"]:
            break
    assert row["walks"] > row["unseen"] + row["unheard"] == 0, row
    assert 0 < row["guard_cpu_ms"]["p50"] <= row["guard_ms"]["p50"] + 1 <= 1 + row["frame_to_word_ms"]["p50"]
    assert row["slowest"][0]["detect_ms"] == row["detect_ms"]["max"]
    assert "load_not_measured" in row or 0 < row["guard_percent_of_core"] < 100
