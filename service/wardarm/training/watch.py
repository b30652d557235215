"""Whether training still gets anywhere: a loss that stands still or runs away ends it, with the reason in words."""

from __future__ import annotations

import math
from collections import deque

STILL_REPORTS, STILL_SHARE = 10, 2e-4
"""So many reports whose loss differs by less than this share: nothing is learnt any more (a learning rate of 0, labels
that are all the same, a frozen part)."""
AWAY_REPORTS, AWAY_FACTOR = 3, 3.0
"""So many reports in a row above this multiple of the lowest loss so far: it has diverged and will not come back."""
BUDGET_SHARE = 0.9
"""In the last tenth of the budget the learning rate is so low that standing still is what it should do."""


class Stopped(RuntimeError):
    """Training was ended because it led nowhere; the text says what was seen and what to try."""


class Watch:
    """`look` once a report. Keeps nothing over a resumption: it judges anew."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=STILL_REPORTS)
        self._best = math.inf
        self._away = 0

    def look(self, loss: float, step: int, budget_share: float) -> None:
        """`loss`: smoothed and weighted; `budget_share`: 0 at the start, 1 at the end. Raises Stopped."""
        self._recent.append(loss)
        self._best = min(self._best, loss)
        self._away = self._away + 1 if loss > AWAY_FACTOR * max(self._best, 1e-9) else 0
        if self._away >= AWAY_REPORTS:
            raise Stopped(
                f"step {step}: diverged: the loss is {loss:.4g}, {loss / self._best:.1f} times the lowest ({self._best:.4g}), "
                f"in {AWAY_REPORTS} reports in a row; lower --rate and resume from a checkpoint before it"
            )
        spread = max(self._recent) - min(self._recent)
        still = len(self._recent) == STILL_REPORTS and spread < STILL_SHARE * max(self._recent)
        if still and budget_share < BUDGET_SHARE:
            raise Stopped(
                f"step {step}: stands still: {STILL_REPORTS} reports within {spread:.2g} of {loss:.4g}; look at the data "
                "(are the labels all alike?) and at --rate"
            )
