"""Which pictures of a simulated room camera are handed on."""

from __future__ import annotations

import pytest
from wardarm.sim.room import Pace

MS = 1_000_000


def taken(fps: float, stamps_ms: list[float]) -> list[float]:
    pace = Pace(fps)
    return [t for t in stamps_ms if pace.take(int((1000 + t) * MS))]


def test_the_picture_in_time_after_a_late_one_is_handed_on() -> None:
    """15 a second, the third drawn 36 ms late: leaving out the fourth would cost a whole period."""
    stamps = [0, 67, 169, 200, 267, 333]
    assert taken(15, stamps) == stamps


def test_a_little_early_is_in_time() -> None:
    stamps = [0, 55, 131, 190, 260]
    assert taken(15, stamps) == stamps


@pytest.mark.parametrize("times", [2, 3, 4])
def test_a_source_that_is_too_fast_is_thinned_to_the_rate(times: int) -> None:
    stamps = [i * 100 / times for i in range(100 * times)]
    assert len(taken(10, stamps)) == pytest.approx(100, abs=2)


def test_after_a_gap_nothing_is_made_up_for() -> None:
    stamps = [0, 67, 133, 2000, 2020, 2040, 2067]
    assert taken(15, stamps) == [0, 67, 133, 2000, 2067]
