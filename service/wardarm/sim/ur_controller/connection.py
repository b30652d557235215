"""TCP services on one selector: a `Service` is a port and what it does with bytes, a `Connection` one of its clients."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable, Sized

_RECEIVE = 65536
_WAITING_MAX = 1 << 20  # bytes; a client that reads nothing at all is dropped
_BUFFER_MAX = 16 << 20  # bytes of one unfinished message; ours: a longest script is a quarter of it
_BACKLOG = 128


class Connection:
    """One client. `buffer` holds what has arrived and was not yet taken; `waiting` what could not yet be sent."""

    def __init__(self, link: socket.socket, service: Service, selector: selectors.BaseSelector) -> None:
        self.socket, self.service, self.selector = link, service, selector
        self.buffer = bytearray()
        self.waiting = bytearray()
        self.dead = False
        self.gone = False

    def send(self, data: bytes) -> None:
        if self.dead or self.gone or self.service.muted:
            return
        if not self.waiting:
            try:
                sent = self.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._last_words()
                return
            if sent == len(data):
                return
            data = data[sent:]
            self.selector.modify(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        self.waiting += data
        if len(self.waiting) > _WAITING_MAX:
            self.close()

    def ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ and not self.dead:
            self._receive()

    def _flush(self) -> None:
        try:
            sent = self.socket.send(self.waiting)
        except BlockingIOError:
            return
        except OSError:
            self._last_words()
            return
        del self.waiting[:sent]
        if not self.waiting:
            self.selector.modify(self.socket, selectors.EVENT_READ, self)

    def _receive(self) -> None:
        try:
            data = self.socket.recv(_RECEIVE)
        except BlockingIOError:
            if not self.gone:
                return
            data = b""
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self.buffer += data
        self.service.received(self)
        if len(self.buffer) > _BUFFER_MAX:
            self.close()

    def _last_words(self) -> None:
        """The other side has gone; what it said before (a script, mostly) still counts."""
        self.gone = True
        while not self.dead:
            self._receive()

    def lines(self) -> list[str]:
        """The complete lines in the buffer, taken out of it."""
        *done, rest = bytes(self.buffer).split(b"\n")
        self.buffer[:] = rest
        return [line.rstrip(b"\r").decode("utf-8", "replace") for line in done]

    def close(self) -> None:
        if self.dead:
            return
        self.dead = True
        self.selector.unregister(self.socket)
        self.socket.close()
        self.service.links.discard(self)
        self.service.closed(self)


class Service:
    """Listens on `port`. Subclasses answer; the default does nothing."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.muted = False  # injected: it takes connections and what they say, and never sends anything
        self.links: set[Connection] = set()
        self.pending: Sized = ()
        """What it waits to publish even without a client."""

    def opened(self, link: Connection) -> None: ...

    def received(self, link: Connection) -> None: ...

    def closed(self, link: Connection) -> None: ...

    def publish(self) -> None:
        """Called once after every tick in which it has clients or something pending."""


class Acceptor:
    """The listening socket of a service. Raises OSError (address in use) when it cannot bind."""

    def __init__(
        self, address: str, service: Service, selector: selectors.BaseSelector, refuse: Callable[[], bool]
    ) -> None:
        self.service, self.selector, self.refuse = service, selector, refuse
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.socket.bind((address, service.port))
        except OSError as e:
            self.socket.close()
            raise OSError(
                e.errno, f"{address}:{service.port}: {e.strerror}; is another simulated controller running?"
            ) from e
        self.socket.listen(_BACKLOG)
        self.socket.setblocking(False)
        selector.register(self.socket, selectors.EVENT_READ, self)

    def ready(self, events: int) -> None:
        try:
            link, _ = self.socket.accept()
        except OSError:
            return
        if self.refuse():
            link.close()
            return
        link.setblocking(False)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(link, self.service, self.selector)
        self.selector.register(link, selectors.EVENT_READ, connection)
        self.service.links.add(connection)
        self.service.opened(connection)

    def close(self) -> None:
        self.selector.unregister(self.socket)
        self.socket.close()
