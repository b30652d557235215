"""Somebody at the bed: resumes what a desk that stood still for a moment is rightly held for.

A shared machine can stop for some tenths of a second. Every program is late then, the arm comes to rest, and a person
has to look and press Resume. On the desk nobody is hurt by a program that does so, as long as it says it. Holds of any
other reason are not looked past.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from wardarm.client import Client, Lease, Refused
from wardarm.v1 import hold_pb2

LATE = frozenset(
    {
        hold_pb2.HOLD_REASON_WATCHDOG,
        hold_pb2.HOLD_REASON_INFERENCE_STALE,
        hold_pb2.HOLD_REASON_GATE_FAULT,
        hold_pb2.HOLD_REASON_CAMERA_LOST,
        hold_pb2.HOLD_REASON_ROOM_CAMERA_LOST,
        hold_pb2.HOLD_REASON_LEASE_LOST,
    }
)
NO_DATA = "no data"  # in the detail of a ROBOT hold: RTDE was late, the robot itself did not stop
RESUMES = 5  # of one task; more is a fault and not a moment
PERIOD_S = 0.5


def late(hold: Any) -> bool:
    """Whether a `Hold` means no more than that a program was late, and its cause is gone."""
    no_data = hold.reason == hold_pb2.HOLD_REASON_ROBOT and NO_DATA in hold.detail
    return bool(hold.clearable) and (hold.reason in LATE or no_data)


class Attendant:
    """A context: while it lasts, at most `RESUMES` times, all holds are resumed if each is `late`.

    `said` gets the holds' details in one line each time. `lease`: the task's; with None it is the living lease of
    another client, or one of its own if nobody has any.
    """

    def __init__(self, client: Client, said: Callable[[str], None], lease: Lease | None = None) -> None:
        self._client, self._said, self._lease = client, said, lease
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Attendant:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        resumes = 0
        while resumes < RESUMES and not self._over.wait(PERIOD_S):
            try:
                holds = list(self._client.state().holds)
                if not holds or not all(late(h) for h in holds):
                    continue
                self._resume([h.token for h in holds])
            except Refused:
                continue  # a cause is back, another hold came in between, or the service is starting
            resumes += 1
            self._said("; ".join(h.detail for h in holds))

    def _resume(self, tokens: list[str]) -> None:
        if self._lease is None and not self._client.state().lease.client:
            with self._client.lease() as lease:
                self._client.resume(tokens, lease)
        else:
            self._client.resume(tokens, self._lease)
