"""Script functions for TCP sockets: the controller is the client. Nothing blocks but the calling script thread.

Assumption (docs/sim_ur.md): a thread reads at most `Controller.reads_per_cycle` times in 2 ms; one more read waits for the
next cycle. A read that times out leaves what has arrived in the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.links import Link
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.urscript import Program, ScriptError, Text, UrList, to_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

NUMBERS_MAX = 30  # URScript manual: a read returns at most 30 numbers
OPEN_TIMEOUT_S = 2.0  # URScript manual, socket_open
READ_TIMEOUT_S = 2.0  # the manual's default of every read


class _Link:
    def __init__(self, link: Link) -> None:
        self.link = link
        self.buffer = bytearray()
        self.gone = False

    def receive(self) -> None:
        if not self.gone and not self.link.receive(self.buffer):
            self.gone = True


def _unescaped(text: str) -> str:
    for written, meant in (("\\n", "\n"), ("\\r", "\r"), ("\\t", "\t")):
        text = text.replace(written, meant)
    return text


class SocketFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller
        self._program: Program | None = None
        self._links: dict[str, _Link] = {}

    def _attach(self, program: Program) -> None:
        self._program = program
        program.at_end.append(self._close)

    def _close(self) -> None:
        for name in list(self._links):
            self.socket_close(name)

    def _wait(self) -> None:
        assert self._program is not None
        self._program.wait()

    def _find(self, name: str) -> _Link | None:
        return self._links.get(name)

    # --- open and close
    def socket_open(self, address: str, port: int, socket_name: str = "socket_0") -> bool:
        self.socket_close(socket_name)
        link = self._c.dial(address, port)
        left = round(OPEN_TIMEOUT_S / CYCLE_S)
        try:
            while (opened := link.opened()) is None and left > 0:
                self._wait()
                left -= 1
        except BaseException:  # the thread was killed while it waited
            link.close()
            raise
        if not opened:
            link.close()
            return False
        self._links[socket_name] = _Link(link)
        return True

    def socket_close(self, socket_name: str = "socket_0") -> None:
        link = self._links.pop(socket_name, None)
        if link is not None:
            link.link.close()

    # --- send
    def _send(self, data: bytes, name: str) -> bool:
        link = self._find(name)
        if link is None or link.gone:
            return False
        if not link.link.send(data):
            link.gone = True
            return False
        return True

    def socket_send_string(self, str: Any, socket_name: str = "socket_0") -> bool:
        return self._send(to_text(str).encode("latin-1", "replace"), socket_name)

    def socket_send_line(self, str: Any, socket_name: str = "socket_0") -> bool:
        return self._send(to_text(str).encode("latin-1", "replace") + b"\n", socket_name)

    def socket_send_int(self, value: int, socket_name: str = "socket_0") -> bool:
        if not isinstance(value, int) or not -(2**31) <= value < 2**31:
            raise ScriptError(f"socket_send_int: {to_text(value)} is no 32-bit integer")
        return self._send(struct.pack(">i", value), socket_name)

    def socket_send_byte(self, value: int, socket_name: str = "socket_0") -> bool:
        return self._send(bytes([int(value) & 0xFF]), socket_name)

    def socket_set_var(self, name: str, value: int, socket_name: str = "socket_0") -> bool:
        return self._send(f"SET {name} {to_text(value)}\n".encode(), socket_name)

    # --- read
    def _read(self, name: str, timeout: float, take: Callable[[bytearray], Any]) -> Any:
        """Wait for `take` to find something in the buffer; None after `timeout` s (0: for ever) or if the peer is gone."""
        program = self._program
        assert program is not None
        thread = program.current
        if thread.reads_at == program.cycles and thread.reads >= self._c.reads_per_cycle:
            program.wait()
        left = round(timeout / CYCLE_S) if timeout > 0 else -1
        thread.reads = thread.reads + 1 if thread.reads_at == program.cycles else 1
        while True:
            if thread.reads_at != program.cycles:
                thread.reads_at, thread.reads = program.cycles, 1
            link = self._find(name)
            if link is None:
                return None
            link.receive()
            found = take(link.buffer)
            if found is not None or link.gone or left == 0:
                return found
            left = self._wait_for_news(name, link, left)

    def _wait_for_news(self, name: str, link: _Link, left: int) -> int:
        """Until something has arrived, the connection is over or `left` cycles have passed; returns those still left."""
        assert self._program is not None
        known = len(link.buffer)

        def news() -> bool:
            nonlocal left
            left -= 1
            if self._find(name) is not link:
                return True
            link.receive()
            return link.gone or left == 0 or len(link.buffer) != known

        self._program.wait_for(news)
        return left

    def socket_read_binary_integer(
        self, number: int, socket_name: str = "socket_0", timeout: float = READ_TIMEOUT_S
    ) -> UrList:
        if not 1 <= number <= NUMBERS_MAX:
            raise ScriptError(f"socket_read_binary_integer: {number} numbers at once, the limit is {NUMBERS_MAX}")
        size = 4 * number

        def take(buffer: bytearray) -> tuple[int, ...] | None:
            if len(buffer) < size:
                return None
            values = struct.unpack_from(f">{number}i", buffer)
            del buffer[:size]
            return values

        values = self._read(socket_name, timeout, take)
        return UrList([number, *values]) if values is not None else UrList([0] + [-1] * number)

    def socket_read_ascii_float(
        self, number: int, socket_name: str = "socket_0", timeout: float = READ_TIMEOUT_S
    ) -> UrList:
        """Numbers in parentheses, separated by commas."""
        if not 1 <= number <= NUMBERS_MAX:
            raise ScriptError(f"socket_read_ascii_float: {number} numbers at once, the limit is {NUMBERS_MAX}")

        def take(buffer: bytearray) -> Sequence[float] | None:
            begin = buffer.find(b"(")
            end = buffer.find(b")", begin)
            if begin < 0 or end < 0:
                return None
            inside = bytes(buffer[begin + 1 : end]).decode("latin-1")
            del buffer[: end + 1]
            try:
                return [float(part) for part in inside.split(",")]
            except ValueError:
                return []

        values = self._read(socket_name, timeout, take)
        if values is None or len(values) != number:
            return UrList([0] + [float("nan")] * number)
        return UrList([number, *values])

    def socket_read_byte_list(
        self, number: int, socket_name: str = "socket_0", timeout: float = READ_TIMEOUT_S
    ) -> UrList:
        if not 1 <= number <= NUMBERS_MAX:
            raise ScriptError(f"socket_read_byte_list: {number} bytes at once, the limit is {NUMBERS_MAX}")

        def take(buffer: bytearray) -> list[int] | None:
            if len(buffer) < number:
                return None
            values = list(buffer[:number])
            del buffer[:number]
            return values

        values = self._read(socket_name, timeout, take)
        return UrList([number, *values]) if values is not None else UrList([0] + [-1] * number)

    @staticmethod
    def _line(buffer: bytearray) -> str | None:
        end = buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(buffer[:end]).rstrip(b"\r").decode("latin-1")
        del buffer[: end + 1]
        return line

    def socket_read_line(self, socket_name: str = "socket_0", timeout: float = READ_TIMEOUT_S) -> str:
        line = self._read(socket_name, timeout, self._line)
        return Text(line if line is not None else "")

    def socket_read_string(
        self, socket_name: str = "socket_0", prefix: str = "", suffix: str = "", interpret_escape: bool = False,
        timeout: float = READ_TIMEOUT_S,
    ) -> str:  # fmt: skip
        if interpret_escape:
            prefix, suffix = _unescaped(prefix), _unescaped(suffix)

        def take(buffer: bytearray) -> str | None:
            if not buffer:
                return None
            text = bytes(buffer).decode("latin-1")
            begin = text.find(prefix) if prefix else 0
            end = text.find(suffix, begin + len(prefix)) if suffix else len(text)
            if begin < 0 or end < 0:
                return None
            del buffer[: end + len(suffix)]
            return text[begin + len(prefix) : end]

        text = self._read(socket_name, timeout, take)
        return Text(text if text is not None else "")

    def socket_get_var(self, name: str, socket_name: str = "socket_0", timeout: float = READ_TIMEOUT_S) -> int:
        """Asks `GET name`, reads `name value`; 0 is the timeout's value."""
        if not self._send(f"GET {name}\n".encode(), socket_name):
            return 0
        line = self._read(socket_name, timeout, self._line)
        parts = (line or "").split()
        return int(parts[1]) if len(parts) == 2 and parts[1].lstrip("-").isdigit() else 0
