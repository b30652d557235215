"""PWM edges for a simulated controller: datagrams that say since when the line is on or off.

Each datagram is one JSON object: `t_ns` (CLOCK_MONOTONIC time of the edge into this state), `on`, `frequency_hz`,
`duty_percent`. The state is said again every 20 ms with the same `t_ns`, so a lost datagram or a controller that
starts later is no trap; a receiver that hears a `t_ns` it knows has nothing to do.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time

RENEW_NS = 20_000_000


def datagram(t_ns: int, on: bool, frequency_hz: float, duty_percent: float) -> bytes:
    state = {"t_ns": t_ns, "on": on, "frequency_hz": frequency_hz, "duty_percent": duty_percent}
    return json.dumps(state).encode()


class UnixPwm:
    """`path` is the receiver's datagram socket. Nobody there is no error: the receiver hears the state when it comes."""

    def __init__(self, path: str, frequency_hz: float, duty_percent: float) -> None:
        self._path, self._frequency_hz, self._duty_percent = path, frequency_hz, duty_percent
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # a receiver that does not read must not hold up the loop
        self._sent_ns = 0
        self._state = b""
        self._edge(False)

    def _edge(self, on: bool) -> int:
        now = time.monotonic_ns()
        self._state = datagram(now, on, self._frequency_hz, self._duty_percent)
        self._send(now)
        return now

    def _send(self, now_ns: int) -> None:
        self._sent_ns = now_ns
        with contextlib.suppress(OSError):  # not there, full or closed: `renew` says it again
            self._socket.sendto(self._state, self._path)

    def on(self) -> int:
        return self._edge(True)

    def off(self) -> int:
        return self._edge(False)

    def renew(self) -> None:
        now = time.monotonic_ns()
        if now - self._sent_ns >= RENEW_NS:
            self._send(now)

    def close(self) -> None:
        self.off()
        self._socket.close()
