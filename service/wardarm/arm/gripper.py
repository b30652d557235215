"""The gripper as arm sees it: opening, whether something is held, and activation. It never moves the fingers by itself.

A Robotiq 2F gripper behind its URCap's text port (63352): `GET POS` -> `POS n` (0 open .. 255 closed), `GET OBJ` ->
`OBJ n` (Robotiq 2F manual, register gOBJ: 0 moving, 1 stopped by contact while opening, 2 stopped by contact while
closing, 3 at the requested position: nothing there, or lost), `GET STA` -> 3 when activated. The player commands the
openings over a connection of its own.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass
from enum import IntEnum

from wardarm.shm.layouts import Holding

POLL_S = 0.05
STATUS_EVERY = 20  # activation is asked once in so many polls
TIMEOUT_S = 1.0
STALE_S = 1.0
ACTIVATED = 3
ACTIVATION_DEADLINE_S = 10.0
SLIPPED = 0.06  # of the opening, 5 mm of a 2F-85: more than a cup gives way while it is grasped
_OPEN_ENOUGH = 0.9  # fingers this far open touch nothing that they could drop


class GripperError(RuntimeError):
    """The gripper does not answer as it should; the text says what to check."""


class Contact(IntEnum):
    """Robotiq's gOBJ."""

    MOVING = 0
    WHILE_OPENING = 1
    WHILE_CLOSING = 2
    NONE = 3


@dataclass(frozen=True, slots=True)
class Fingers:
    """One reading. `opening` 0 (closed) .. 1 (open)."""

    stamp_ns: int
    opening: float
    moving: bool
    holding: Holding
    activated: bool

    def fresh(self, now_ns: int) -> bool:
        return now_ns - self.stamp_ns < STALE_S * 1e9


class HoldingRule:
    """What the contact register and the opening say about holding, since this process began to look.

    Fingers that are already stopped by something at the first look hold an unknown thing (perhaps a sleeve, perhaps
    yesterday's cup): UNKNOWN until they have let go once. Fingers that go on closing have lost what they held, long
    before they arrive at their end.
    """

    def __init__(self) -> None:
        self._known = False
        self._holding = Holding.UNKNOWN
        self._held_at = 1.0

    def see(self, contact: Contact, opening: float) -> Holding:
        """`opening` 0 (closed) .. 1 (open)."""
        if contact is Contact.WHILE_CLOSING:
            if self._holding is not Holding.YES:
                self._held_at = opening
            self._holding = Holding.YES if self._known else Holding.UNKNOWN
        elif contact is not Contact.MOVING:
            self._known, self._holding = True, Holding.NO
        elif self._holding is Holding.YES and opening < self._held_at - SLIPPED:
            self._holding = Holding.NO
        return self._holding


class Connection:
    """One text connection. Raises GripperError."""

    def __init__(self, host: str, port: int) -> None:
        self._where = f"gripper at {host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), TIMEOUT_S)
        except OSError as e:
            raise GripperError(
                f"{self._where}: {e.strerror or e}; is the gripper's URCap installed and running?"
            ) from e
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _ask(self, line: str) -> str:
        try:
            self._socket.sendall(line.encode() + b"\n")
            return self._socket.recv(256).decode("ascii", "replace").strip()
        except OSError as e:
            raise GripperError(f"{self._where}: '{line}': {e.strerror or e}") from e

    def get(self, name: str) -> int:
        answer = self._ask(f"GET {name}")
        key, _, value = answer.partition(" ")
        if key != name or not value.strip().lstrip("-").isdigit():
            raise GripperError(f"{self._where}: 'GET {name}' answered {answer!r}")
        return int(value)

    def set(self, name: str, value: int) -> None:
        answer = self._ask(f"SET {name} {value}")
        if answer.lower() != "ack":
            raise GripperError(f"{self._where}: 'SET {name} {value}' answered {answer!r}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


class GripperWatch:
    """Polls the gripper at 20 Hz in a thread of its own; `fingers` is the newest reading, None before the first.

    A gripper that is not activated is activated only while its fingers are open; else `activate` (a person's PowerOn)
    does it, because activation opens them.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._stop = threading.Event()
        self._may_activate = threading.Event()
        self.fingers: Fingers | None = None
        self.trouble = "no answer yet"
        self._thread = threading.Thread(target=self._watch, name="gripper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()

    def activate(self) -> None:
        """A person agreed that the fingers open: activate if needed at the next poll."""
        self._may_activate.set()

    def _watch(self) -> None:
        rule = HoldingRule()
        polls = 0
        while not self._stop.is_set():
            connection = None
            if self.fingers is not None and not self.fingers.fresh(time.monotonic_ns()):
                rule = HoldingRule()  # nobody looked for so long: what is there now may be something else
            try:
                connection = Connection(self._host, self._port)
                activated = False
                while not self._stop.wait(POLL_S):
                    if polls % STATUS_EVERY == 0 or not activated:
                        activated = connection.get("STA") == ACTIVATED
                    polls += 1
                    self._poll(connection, rule, activated)
            except GripperError as e:
                self.trouble = str(e)
            finally:
                if connection is not None:
                    connection.close()
            self._stop.wait(0.5)

    def _poll(self, connection: Connection, rule: HoldingRule, activated: bool) -> None:
        opening = 1.0 - min(max(connection.get("POS"), 0), 255) / 255.0
        contact = Contact(connection.get("OBJ") & 3)
        if activated:
            holding = rule.see(contact, opening)
            self.trouble = ""
        else:
            holding = Holding.UNKNOWN
            self.trouble = "the gripper is not activated; PowerOn activates it (its fingers open)"
        self.fingers = Fingers(time.monotonic_ns(), opening, contact is Contact.MOVING, holding, activated)
        if not activated and (opening >= _OPEN_ENOUGH or self._may_activate.is_set()):
            self._activate(connection)
        elif activated:
            self._may_activate.clear()

    def _activate(self, connection: Connection) -> None:
        connection.set("ACT", 1)
        end = time.monotonic() + ACTIVATION_DEADLINE_S
        while connection.get("STA") != ACTIVATED and not self._stop.wait(POLL_S):
            if time.monotonic() > end:
                raise GripperError(f"not activated after {ACTIVATION_DEADLINE_S:.0f} s; check its cable and its URCap")
        connection.set("GTO", 1)
