"""Time on a machine that others use too: how long a test waits, and durations that a stall cannot spoil."""

from __future__ import annotations

from collections.abc import Callable

PATIENCE_S = 60.0
"""For what must come: long enough for a starved machine, and no test that passes waits it out."""


def soonest(duration: Callable[[], float], within: float, tries: int = 20) -> float:
    """The first duration (s, or cycles) below `within`: load only ever adds, so one of `tries` shows what it takes."""
    seen: list[float] = []
    for _ in range(tries):
        seen.append(duration())
        if seen[-1] < within:
            return seen[-1]
    raise AssertionError(f"never within {within}: {sorted(seen)}")
