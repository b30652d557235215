"""The player's other end: its connection, what was sent, and what its registers say came of it.

The player (player.script, on the controller) connects to `arm.own_address:arm.trajectory_port`. Trajectories go out
whole; whether one was taken, plays or has ended is read from the output registers, never assumed.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wardarm.arm.link import Registers
from wardarm.arm.state import PlayerState
from wardarm.arm.wire import wire_id
from wardarm.shm.layouts import RefusalReason, Source

FIRST_LOAD_S_PER_BLOCK = 0.003  # before the first measurement: one block a controller cycle (2 ms), and some
LOAD_SLACK_S = 0.02
LOAD_DEADLINE_S = 2.0
_LOADS_KEPT = 16
POLL_EVERY = 8  # a call is looked for once in so many loops


class PlayerServer:
    """Accepts the player's connection; the newest wins. Nothing here blocks. Raises OSError if the port is taken."""

    def __init__(self, address: str, port: int) -> None:
        self._server = socket.create_server((address, port), backlog=1)
        self._server.setblocking(False)
        self._player: socket.socket | None = None
        self._pending = bytearray()
        self._polls = 0

    @property
    def connected(self) -> bool:
        return self._player is not None

    def poll(self) -> None:
        """Accept, notice a closed connection, go on sending. What the player sends only asks whether we are there."""
        if self._pending:
            self._flush()
        self._polls += 1
        if self._polls % POLL_EVERY:
            return
        with contextlib.suppress(BlockingIOError):
            player, _ = self._server.accept()
            self.drop()
            player.setblocking(False)
            player.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._player = player
        if self._player is None:
            return
        try:
            if not self._player.recv(256):
                self.drop()
                return
        except BlockingIOError:
            pass
        except OSError:
            self.drop()

    def send(self, message: bytes) -> bool:
        """Queue a whole message. False if there is no player."""
        if self._player is None:
            return False
        self._pending += message
        self._flush()
        return self._player is not None

    def _flush(self) -> None:
        if self._player is None or not self._pending:
            return
        try:
            sent = self._player.send(self._pending)
            del self._pending[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.drop()

    def drop(self) -> None:
        """Close the player's connection, if there is one; what was not sent yet is forgotten."""
        if self._player is not None:
            self._player.close()
        self._player = None
        self._pending.clear()

    def drop_all(self) -> None:
        """Close the player's connection and any that waits to be accepted."""
        self.drop()
        with contextlib.suppress(BlockingIOError):
            while True:
                self._server.accept()[0].close()

    def wait_sent(self, limit_s: float) -> None:
        """Let a last message leave."""
        with selectors.DefaultSelector() as selector:
            if self._player is not None and self._pending:
                selector.register(self._player, selectors.EVENT_WRITE)
                selector.select(limit_s)
                self._flush()


@dataclass(frozen=True, slots=True)
class Sent:
    """A trajectory as it went out: the KNOT records that the player has, rounded to the wire's integers."""

    id: int
    knots: npt.NDArray[np.void]
    source: Source
    from_rest: bool
    sent_s: float  # CLOCK_MONOTONIC
    sent_controller_s: float
    plan_epoch: int = 0

    @property
    def duration_s(self) -> float:
        return float(self.knots["t_s"][-1])


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of the trajectory that was being loaded: `refusal` NONE = the player took it."""

    sent: Sent
    refusal: RefusalReason
    load_s: float


class Loads:
    """Follows the registers: what is being loaded, what was taken, what plays."""

    def __init__(self) -> None:
        self.loading: Sent | None = None
        self._known: dict[int, Sent] = {}
        self._s_per_block: deque[float] = deque([FIRST_LOAD_S_PER_BLOCK], maxlen=_LOADS_KEPT)

    def load_s(self, knot_count: int) -> float:
        """How long loading so many knots takes, from experience (the slowest of the last ones), s."""
        return max(self._s_per_block) * (knot_count + 1) + LOAD_SLACK_S

    def sent(self, sent: Sent) -> None:
        self.loading = sent
        self._known[wire_id(sent.id)] = sent
        while len(self._known) > 2 * _LOADS_KEPT:
            del self._known[next(iter(self._known))]

    def known(self, number: int) -> Sent | None:
        """The trajectory behind an id in a register, None for 0 and for one of an earlier process."""
        return self._known.get(number) if number else None

    def forget(self) -> None:
        """The player was replaced or its plan discarded: nothing is being loaded any more."""
        self.loading = None

    def see(self, registers: Registers, controller_s: float) -> Answer | None:
        """The player's answer to what is being loaded, once. Loading is timed on the controller's clock: a join is."""
        loading = self.loading
        if loading is None:
            return None
        number, took_s = wire_id(loading.id), max(0.0, controller_s - loading.sent_controller_s)
        refusal = None
        if registers.accepted_id == number:
            refusal = RefusalReason.NONE
            self._s_per_block.append(took_s / (len(loading.knots) + 1))
        elif registers.refused_id == number:
            code = registers.refusal
            known = code in RefusalReason._value2member_map_ and code != RefusalReason.NONE
            refusal = RefusalReason(code) if known else RefusalReason.NOT_READY
        elif time.monotonic() - loading.sent_s > LOAD_DEADLINE_S:
            refusal = RefusalReason.NOT_READY
        if refusal is None:
            return None
        self.loading = None
        return Answer(loading, refusal, took_s)

    def playing(self, registers: Registers) -> Sent | None:
        """What moves the arm now."""
        if registers.state not in (PlayerState.RUNNING, PlayerState.RAMPING):
            return None
        return self.known(registers.playing_id)
