"""PWM edges and the encoder inputs that count them.

The generator says when its line went on or off (CLOCK_MONOTONIC) at which frequency and duty; the edges in between
follow. Counting happens on controller time: edge k of a train that began at `start_s` lies at start + k / frequency
(rising) and start + (k + duty) / frequency (falling). A plain digital input sees the level at the cycle's instant, so
it aliases, as a real one does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# URScript manual, encoder_enable_pulse_decode: how the decoder treats its inputs.
DISABLED, QUADRATURE, BOTH_EDGES, RISING_EDGE, FALLING_EDGE = range(5)


@dataclass
class Train:
    """The line as it is now. `start_s`: controller time of the first rising edge."""

    on: bool = False
    start_s: float = 0.0
    frequency_hz: float = 1000.0
    duty: float = 0.5
    changed_ns: int = -1

    def edges(self, until_s: float) -> tuple[int, int]:
        """Rising and falling edges from the start to `until_s`, the first one at the start."""
        periods = (until_s - self.start_s) * self.frequency_hz
        if not self.on or periods < 0:
            return 0, 0
        return math.floor(periods + 1e-9) + 1, max(0, math.floor(periods - self.duty + 1e-9) + 1)

    def level(self, at_s: float) -> bool:
        periods = (at_s - self.start_s) * self.frequency_hz
        return self.on and periods >= 0 and periods % 1.0 < self.duty


class PulseInput:
    """One input line with a pulse train on it."""

    def __init__(self) -> None:
        self.train = Train()
        self.rising = 0
        self.falling = 0
        self._counted_s = 0.0
        self._so_far = (0, 0)
        """Edges of `train` up to there."""
        self._waiting: list[Train] = []

    def change(self, on: bool, at_s: float, changed_ns: int, frequency_hz: float, duty_percent: float) -> bool:
        """The line's new state from controller time `at_s` on. Says whether it was news (generators repeat)."""
        newest = self._waiting[-1] if self._waiting else self.train
        if changed_ns == newest.changed_ns:
            return False
        at_s = max(at_s, self._counted_s, newest.start_s)
        self._waiting.append(Train(on, at_s, frequency_hz, duty_percent / 100.0, changed_ns))
        return True

    def advance(self, now_s: float) -> None:
        """Count everything up to `now_s`."""
        while self._waiting and self._waiting[0].start_s <= now_s:
            new = self._waiting.pop(0)
            self._count(new.start_s)
            if self.train.on and not new.on and self.train.level(new.start_s):
                self.falling += 1  # switched off while high
            self.train = new
            if new.on:
                self.rising += 1  # the edge at the start itself
            self._so_far = new.edges(self._counted_s)
        self._count(now_s)

    def _count(self, until_s: float) -> None:
        train = self.train
        if until_s <= self._counted_s:
            return
        if train.on:
            rising, falling = train.edges(until_s)
            self.rising += rising - self._so_far[0]
            self.falling += falling - self._so_far[1]
            self._so_far = rising, falling
        self._counted_s = until_s

    @property
    def level(self) -> bool:
        return self.train.level(self._counted_s)


RANGES = ((-(2**31), 2**32), (0, 2**8), (0, 2**16), (0, 2**24), (0, 2**32))
"""encoder_enable_set_tick_count, range_id: smallest count and how many there are (URScript manual)."""


class Encoder:
    """One of the two decoders. `line` A alone counts edges; with `other` (B) a quadrature decoder knows the direction.

    Without a line the program sets the count itself.
    """

    def __init__(
        self, line: PulseInput | None, decoder: int, range_id: int = 0, other: PulseInput | None = None
    ) -> None:
        self._line, self._other, self._decoder = line, other, decoder
        self._low, self._count = RANGES[range_id]
        self._zero = self._edges()

    def _edges(self) -> int:
        a, b = self._line, self._other
        if a is None or self._decoder == DISABLED:
            return 0
        if self._decoder == QUADRATURE:
            if b is None:  # one line alone has no direction
                return 0
            return quadrature(a, b)
        rising = a.rising if self._decoder in (BOTH_EDGES, RISING_EDGE) else 0
        falling = a.falling if self._decoder in (BOTH_EDGES, FALLING_EDGE) else 0
        return rising + falling

    @property
    def ticks(self) -> int:
        return (self._edges() - self._zero - self._low) % self._count + self._low

    def set(self, ticks: int) -> None:
        self._zero = self._edges() - int(ticks)

    def unwind(self, delta: int) -> int:
        """The shorter way round the range."""
        half = self._count // 2
        return (delta + half) % self._count - half


def quadrature(a: PulseInput, b: PulseInput) -> int:
    """All edges of both lines, forward if A leads by a quarter period, backward if B does, none if neither leads."""
    if not (a.train.on and b.train.on) or a.train.frequency_hz != b.train.frequency_hz:
        return 0
    lead = (b.train.start_s - a.train.start_s) * a.train.frequency_hz % 1.0
    edges = a.rising + a.falling + b.rising + b.falling
    return edges if 0.05 < lead < 0.45 else -edges if 0.55 < lead < 0.95 else 0
