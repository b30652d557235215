"""The player in a lock-step controller, its pulses, beat and request given cycle by cycle."""

from __future__ import annotations

from typing import Any

import numpy as np
from wardarm.arm.wire import encode_bye, encode_discard, encode_trajectory
from wardarm.sim.lockstep import BEAT_REGISTER, REQUEST_REGISTER, Lockstep
from wardarm.sim.ur_controller.pulses import PulseInput

IDLE, LOADED, RUNNING, RAMPING, HELD, ENDED = range(6)
RAMP_S = 0.3
STATE, PLAYING, ACCEPTED, REFUSED, REFUSAL, FINISHED, CYCLE, TICKS = range(12, 20)
HOME = np.zeros(6)
MOVE = np.array([0.4, 0.1, -0.1, 0.05, 0.02, 0.2])


class Line(PulseInput):
    """An encoder input that counts what the test says: `add(n)` edges by the next cycle."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def add(self, ticks: int) -> None:
        self.total += ticks
        self.rising, self.falling = (self.total + 1) // 2, self.total // 2

    def advance(self, now_s: float) -> None:
        """Nothing moves by itself."""

    @property
    def level(self) -> bool:
        return bool(self.total % 2)


def move_at(start: Any, move: Any, duration_s: float) -> Any:
    """q, qd, qdd of a minimum-jerk move at time t."""

    def at(t: float) -> tuple[Any, Any, Any]:
        u = min(max(t / duration_s, 0.0), 1.0)
        return (
            start + move * u**3 * (10 - 15 * u + 6 * u * u),
            move * 30 * u * u * (1 - u) ** 2 / duration_s,
            move * 60 * u * (1 - u) * (1 - 2 * u) / duration_s**2,
        )

    return at


def knots_of(at: Any, duration_s: float, begin_s: float = 0.0, grip: float = 1.0, step_s: float = 0.05) -> Any:
    """(N, 20) knots of a law from `begin_s` to its end."""
    times = np.arange(round((duration_s - begin_s) / step_s) + 1) * step_s
    return np.array([[t, *np.concatenate(at(begin_s + t)), grip] for t in times])


class Player:
    """`tick(ticks)` is one cycle. Pulses 4 a cycle, a beat each cycle and a request, unless said otherwise."""

    def __init__(self, **changes: Any) -> None:
        self.sim = Lockstep(q=HOME)
        self.line = Line()
        self.sim.controller.lines[8] = self.line
        self.parameters = self.sim.load_player(**changes)
        self.sim.beating = False
        self.beat = self.sim.controller.input_ints[BEAT_REGISTER]

    def tick(self, ticks: int = 4, beat: bool = True, request: int = 1) -> None:
        self.line.add(ticks)
        self.beat += beat
        self.sim.controller.input_ints[BEAT_REGISTER] = self.beat
        self.sim.controller.input_ints[REQUEST_REGISTER] = request
        self.sim.step()

    def ticks(self, count: int, ticks: int = 4, beat: bool = True, request: int = 1) -> None:
        for _ in range(count):
            self.tick(ticks, beat, request)

    def quiet(self, count: int = 1, beat: bool = True) -> None:
        """Cycles without pulses."""
        self.ticks(count, 0, beat)

    def send(
        self,
        id: int,
        knots: Any,
        join_id: int = 0,
        join_s: float = 0.0,
        ramp_s: float = RAMP_S,
        payload_kg: float = 0.0,
    ) -> None:
        message, _ = encode_trajectory(id, join_id, join_s, ramp_s, float(knots[-1, 0]), payload_kg, knots)
        self.sim.send(message)

    def raw(self, message: bytes) -> None:
        self.sim.send(message)

    def discard(self) -> None:
        self.sim.send(encode_discard())

    def bye(self) -> None:
        self.sim.send(encode_bye())

    def load(self, id: int = 5, duration_s: float = 2.0, move: Any = MOVE, start: Any = HOME, beat: bool = True) -> Any:
        """A move from rest, taken but without a permit; returns its law."""
        at = move_at(start, move, duration_s)
        self.send(id, knots_of(at, duration_s))
        for _ in range(200):
            self.quiet(beat=beat)
            if self[ACCEPTED] == id:
                return at
        raise AssertionError(f"not taken: {self.sim.state()}")

    def run(self, id: int = 5, duration_s: float = 2.0, for_s: float = 0.5) -> Any:
        """Load, permit, and move for `for_s`."""
        at = self.load(id, duration_s)
        for _ in range(40):
            self.tick()
            if self[STATE] == RUNNING:
                break
        assert self[STATE] == RUNNING
        self.ticks(round(for_s / 0.002))
        return at

    def __getitem__(self, number: int) -> int:
        return self.sim.int_register(number)

    def double(self, number: int) -> float:
        return self.sim.double_register(number)

    @property
    def q(self) -> Any:
        return self.sim.target_q_rad
