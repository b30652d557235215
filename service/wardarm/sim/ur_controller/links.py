"""A script's socket and what is at its other end: TCP, or something in this very process.

`Dial` is how the controller reaches an address. The default is TCP; a simulation without a clock of its own puts a
`LocalNetwork` there, whose peers hear what was sent between two cycles and whose answers are there in the next one.
"""

from __future__ import annotations

import errno
import select
import selectors
import socket
from collections.abc import Callable
from typing import Any, Protocol

_RECEIVE = 65536


class Link(Protocol):
    """One connection. Nothing blocks."""

    def opened(self) -> bool | None:
        """True once connected, False if that failed, None while it is under way."""
        ...

    def receive(self, buffer: bytearray) -> bool:
        """Append what has arrived. False if the other side is gone."""
        ...

    def send(self, data: bytes) -> bool:
        """Whether all of it went out."""
        ...

    def close(self) -> None: ...


Dial = Callable[[str, int], Link]
OWN_NAMES = frozenset({"127.0.0.1", "localhost"})
"""What a program on a controller calls that controller itself."""
CONTROLLER_PORTS = frozenset({502, 29999, *range(30001, 30005), *range(30011, 30015), 30020, 30100, 63352})
"""What a controller (or a simulated one) has, or can have, on its own address."""


def own(address: str, port: int, host: str) -> str:
    """Whom a program on the controller at `host` reaches: at 127.0.0.1 the controller itself on its ports, else the PC."""
    return host if address in OWN_NAMES and port in CONTROLLER_PORTS else address


class TcpLink:
    """A non-blocking TCP client. With a `selector` that somebody serves, it reads only when something has arrived."""

    def __init__(self, address: str, port: int, selector: selectors.BaseSelector | None = None) -> None:
        self._selector, self._watched = selector, False
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        try:
            self._result = self._socket.connect_ex((address, port))
        except (OSError, OverflowError):  # a name nobody knows, a port beyond 65535
            self._result = errno.EHOSTUNREACH
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLOUT)

    def opened(self) -> bool | None:
        if self._result in (errno.EINPROGRESS, errno.EWOULDBLOCK):
            if not self._poll.poll(0):
                return None
            self._result = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if self._result != 0:
            return False
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return True

    def receive(self, buffer: bytearray) -> bool:
        if self._watched:
            return True
        try:
            while True:
                data = self._socket.recv(_RECEIVE)
                if not data:
                    return False
                buffer += data
        except BlockingIOError:
            if self._selector is not None:
                self._selector.register(self._socket, selectors.EVENT_READ, self)
                self._watched = True
            return True
        except OSError:
            return False

    def ready(self, events: int) -> None:
        """From the selector: something has arrived, or the other side is gone."""
        self._unwatch()

    def _unwatch(self) -> None:
        if self._watched and self._selector is not None:
            self._watched = False
            self._selector.unregister(self._socket)

    def send(self, data: bytes) -> bool:
        try:
            return self._socket.send(data) == len(data)
        except OSError:
            return False

    def close(self) -> None:
        self._unwatch()
        self._socket.close()


class Peer(Protocol):
    """The other end of a local link. Everything is called between cycles."""

    def opened(self, link: Any) -> None: ...

    def received(self, link: Any) -> None: ...

    def closed(self, link: Any) -> None: ...


class FarEnd:
    """What a peer has of a local link: the same as a `connection.Connection`, so that a service can be a peer.

    `buffer` holds what the script sent and the peer has not taken.
    """

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.arrived = bytearray()
        self.dead = False

    def send(self, data: bytes) -> None:
        if not self.dead:
            self.arrived += data

    def lines(self) -> list[str]:
        """The complete lines in the buffer, taken out of it."""
        *done, rest = bytes(self.buffer).split(b"\n")
        self.buffer[:] = rest
        return [line.rstrip(b"\r").decode("utf-8", "replace") for line in done]

    def close(self) -> None:
        self.dead = True


class LocalLink:
    """The script's end of a connection inside this process. `peer` None: nobody listens there."""

    def __init__(self, peer: Peer | None) -> None:
        self.peer = peer
        self.far = FarEnd()
        self._on_the_way = bytearray()
        self._greeted = False

    def opened(self) -> bool | None:
        return self.peer is not None

    def receive(self, buffer: bytearray) -> bool:
        buffer += self.far.arrived
        self.far.arrived.clear()
        return not self.far.dead

    def send(self, data: bytes) -> bool:
        if self.far.dead:
            return False
        self._on_the_way += data
        return True

    def close(self) -> None:
        self.far.dead = True

    def pump(self) -> bool:
        """Between two cycles: the peer hears what the script has sent. False once the link is over."""
        if self.peer is None:
            return False
        if not self._greeted:
            self._greeted = True
            self.peer.opened(self.far)
        if self._on_the_way:
            self.far.buffer += self._on_the_way
            self._on_the_way.clear()
            self.peer.received(self.far)
        if self.far.dead:
            self.peer.closed(self.far)
            return False
        return True


class LocalNetwork:
    """Addresses that exist only here; `dial` of any other is refused at once.

    `peers`: (address, port) to the peer that answers there; the address "" stands for any.
    """

    def __init__(self) -> None:
        self.peers: dict[tuple[str, int], Peer] = {}
        self._links: list[LocalLink] = []

    def dial(self, address: str, port: int) -> Link:
        link = LocalLink(self.peers.get((address, port)) or self.peers.get(("", port)))
        if link.peer is not None:
            self._links.append(link)
        return link

    def pump(self) -> None:
        """Between two cycles: deliver."""
        if self._links:
            self._links = [link for link in self._links if link.pump()]
