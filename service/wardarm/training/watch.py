"""Whether training still gets anywhere: a loss that stands still or runs away ends it, with the reason in words."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

STILL_REPORTS, STILL_SHARE = 10, 2e-4
"""So many reports whose loss differs by less than this share: nothing is learnt any more (a learning rate of 0, labels
that are all the same, a frozen part)."""
AWAY_REPORTS, AWAY_FACTOR = 3, 3.0
"""So many reports in a row above this multiple of the lowest loss so far: it has diverged and will not come back."""
COLOR_SHARE, COLOR_ABOVE_CHANCE = 0.15, 0.15
"""From this share of the budget on, colours should be told apart this much better than by chance."""
PLATEAU_SHARE, PLATEAU_GAIN, PLATEAU_UNTIL = 0.15, 0.05, 0.6
"""A loss part that fell by less than PLATEAU_GAIN of itself over this share of the budget, while the learning rate is high."""
PLATEAU_ABOVE: dict[str, float] = {
    "valid": 0.10, "cell": 0.10, "goal_cell": 0.15, "color": 0.10, "kind": 0.10, "said_color": 0.05, "said_kind": 0.05,
}  # fmt: skip
"""Parts that decide which piece is taken, and the loss above which they have not been learnt."""
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


def colors_unlearnt(score: Mapping[str, Any], budget_share: float) -> str | None:
    """A warning while the held-out score says that colours are guessed; None before it could know, or where they are not."""
    colors = score["colors"]["piece"]
    if (
        budget_share < COLOR_SHARE
        or colors["right"] is None
        or colors["right"] >= colors["chance"] + COLOR_ABOVE_CHANCE
    ):
        return None
    return (
        f"colours are not learnt: where only the colour tells, {colors['right']:.0%} of {colors['needed']} aim right, by chance "
        f"{colors['chance']:.0%}; look at the parts color and said_color, and stop (SIGTERM) unless they fall"
    )


class Plateaus:
    """Warns once of each loss part in PLATEAU_ABOVE that does not fall while it should."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, float]]] = deque()
        self._warned: set[str] = set()

    def look(self, parts: Mapping[str, float], budget_share: float) -> list[str]:
        """`parts`: smoothed, unweighted. Returns sentences to report."""
        self._seen.append((budget_share, dict(parts)))
        while len(self._seen) > 1 and self._seen[1][0] <= budget_share - PLATEAU_SHARE:
            self._seen.popleft()
        then_share, then = self._seen[0]
        if budget_share - then_share < PLATEAU_SHARE or budget_share > PLATEAU_UNTIL:
            return []
        warnings = []
        for part, above in PLATEAU_ABOVE.items():
            now, before = parts.get(part, 0.0), then.get(part, 0.0)
            if part in self._warned or now < above or now < (1 - PLATEAU_GAIN) * before:
                continue
            self._warned.add(part)
            warnings.append(
                f"{part} is on a plateau: {now:.3f} after {budget_share:.0%} of the budget, {before:.3f} after {then_share:.0%}"
            )
        return warnings
