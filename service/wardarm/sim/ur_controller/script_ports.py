"""The primary, secondary and realtime ports, 30001 to 30003: they take scripts. They stream nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.connection import Connection, Service

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PORTS = (30001, 30002, 30003)
_BEGIN = re.compile(rb"[ \t\r\n]*(?:#[^\n]*\n[ \t\r\n]*)*(def|sec)\b")
_END = re.compile(rb"^end[ \t\r]*(?:\n|\Z)", re.MULTILINE)


class ScriptPort(Service):
    """A program begins with `def` or `sec` and ends with `end` in the first column; anything else is one line."""

    def __init__(self, controller: Controller, port: int) -> None:
        super().__init__(port)
        self.controller = controller

    def received(self, link: Connection) -> None:
        while link.buffer.strip():
            if _BEGIN.match(link.buffer):
                end = _END.search(link.buffer)
                if end is None:
                    return
                source, rest = link.buffer[: end.end()], link.buffer[end.end() :]
            else:
                line, newline, rest = link.buffer.partition(b"\n")
                if not newline:
                    return
                source = line
            link.buffer[:] = rest
            if source.strip():
                self.controller.submit(source.decode("latin-1"))

    def closed(self, link: Connection) -> None:
        """A client that closes right after the last byte of a program without a newline."""
        if link.buffer.strip():
            self.controller.note(f"port {self.port}: {len(link.buffer)} bytes without an end were dropped")
