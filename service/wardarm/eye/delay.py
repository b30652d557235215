"""How far ahead of now a chunk joins: D, from what the last chunks really took."""

from __future__ import annotations

from collections import deque

import numpy as np


class Delay:
    """Rolling p99 of (inference + plan + check + load) plus a margin, within limits. Seconds of the controller's clock."""

    def __init__(self, first_s: float, margin_s: float, max_s: float, min_s: float = 0.1, window: int = 64) -> None:
        self.margin_s, self.min_s, self.max_s = margin_s, min_s, max_s
        self._first_s = first_s
        self._samples: deque[float] = deque(maxlen=window)

    def add(self, took_s: float) -> None:
        """One chunk's time from the question to the player's acceptance."""
        self._samples.append(took_s)

    def late(self, would_have_taken_s: float) -> None:
        """A chunk missed its join: D was too short by at least the margin, whatever the estimate says."""
        self._samples.append(max(would_have_taken_s, self.seconds))

    @property
    def seconds(self) -> float:
        """D. The first guess counts until eight chunks are measured, if it is the larger."""
        if not self._samples:
            return min(max(self._first_s, self.min_s), self.max_s)
        p99 = float(np.percentile(np.fromiter(self._samples, float), 99)) + self.margin_s
        if len(self._samples) < 8:
            p99 = max(p99, self._first_s)
        return min(max(p99, self.min_s), self.max_s)
