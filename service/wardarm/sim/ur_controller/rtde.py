"""RTDE, protocol versions 1 and 2, for any number of clients on port 30004."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.rtde_fields import INPUTS, input_reader, output_packer, type_of

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PORT = 30004
_HEADER = struct.Struct(">HB")


class _Client:
    """`outputs`: (every how many cycles, packer) a recipe. `inputs`: recipe id to (size, apply)."""

    def __init__(self) -> None:
        self.version = 1
        self.started = False
        self.outputs: list[tuple[int, Callable[[Controller], bytes]]] = []
        self.inputs: dict[int, tuple[int, Callable[[bytes, Controller], None]]] = {}


class Rtde(Service):
    def __init__(self, controller: Controller, port: int = PORT) -> None:
        super().__init__(port)
        self.controller = controller
        self.clients: dict[Connection, _Client] = {}
        self.owners: dict[str, Connection] = {}
        self._started: list[tuple[Connection, _Client]] = []

    def opened(self, link: Connection) -> None:
        self.clients[link] = _Client()

    def closed(self, link: Connection) -> None:
        self.clients.pop(link, None)
        self._started = [(other, client) for other, client in self._started if other is not link]
        self.owners = {name: owner for name, owner in self.owners.items() if owner is not link}

    def publish(self) -> None:
        """After a tick: a data packet to everybody whose turn it is."""
        if not self._started:
            return
        c = self.controller
        cycle = c.cycle
        made: dict[Callable[[Controller], bytes], bytes] = {}
        for link, client in self._started:
            if link.waiting:  # a client that does not read misses samples
                continue
            for every, packer in client.outputs:
                if cycle % every == 0:
                    packet = made.get(packer)
                    if packet is None:
                        packet = made[packer] = packer(c)
                    link.send(packet)

    def _start(self, client: _Client, started: bool) -> None:
        client.started = started
        self._started = [(link, client) for link, client in self.clients.items() if client.started]

    def received(self, link: Connection) -> None:
        buffer = link.buffer
        while len(buffer) >= 3:
            size, kind = _HEADER.unpack_from(buffer)
            if size < 3:
                link.close()
                return
            if len(buffer) < size:
                return
            payload = bytes(buffer[3:size])
            del buffer[:size]
            self._package(link, self.clients[link], chr(kind), payload)
            if link.dead:
                return

    @staticmethod
    def _answer(link: Connection, kind: str, payload: bytes) -> None:
        link.send(_HEADER.pack(3 + len(payload), ord(kind)) + payload)

    def _package(self, link: Connection, client: _Client, kind: str, payload: bytes) -> None:
        match kind:
            case "U":
                self._inputs(link, client, payload)
            case "V":
                version = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 0
                if version in (1, 2):
                    client.version = version
                self._answer(link, "V", bytes([version in (1, 2)]))
            case "v":
                self._answer(link, "v", struct.pack(">4I", *self.controller.version))
            case "O":
                self._answer(link, "O", self._setup_outputs(client, payload))
            case "I":
                self._answer(link, "I", self._setup_inputs(link, client, payload))
            case "S":
                # without an output a controller refuses (RTDE_Python_Client_Library #13)
                self._start(client, bool(client.outputs))
                self._answer(link, "S", bytes([client.started]))
                if not client.started:
                    self._tell(link, client, "nothing to start: no output recipe is set up")
            case "P":
                self._start(client, False)
                self._answer(link, "P", b"\x01")
            case "M":
                said = payload[1 : 1 + payload[0]] if client.version == 2 and payload else payload
                self.controller.note(f"RTDE message: {said.decode('latin-1')}")
            case _:
                self.controller.note(f"RTDE: package type {kind!r} is unknown, connection closed")
                self._tell(link, client, f"package type {kind!r} is unknown")
                link.close()

    def _tell(self, link: Connection, client: _Client, text: str, level: int = 1) -> None:
        """A text message; level 0 exception, 1 error, 2 warning, 3 info. Protocol 1 has another layout and gets none."""
        if client.version == 2:
            said, source = text.encode()[:255], b"RTDE"
            self._answer(link, "M", bytes([len(said)]) + said + bytes([len(source)]) + source + bytes([level]))

    def _setup_outputs(self, client: _Client, payload: bytes) -> bytes:
        frequency_hz = 125.0 if client.version == 1 else 500.0
        if client.version == 2 and len(payload) >= 8:
            frequency_hz = struct.unpack(">d", payload[:8])[0]
            payload = payload[8:]
        names = [n for n in payload.decode("latin-1").split(",") if n]
        types = [type_of(n, self.controller.version) for n in names]
        head = b""
        recipe = len(client.outputs) + 1
        if client.version == 1:  # one recipe, the last one
            client.outputs.clear()
            recipe = 1
        good = bool(names) and recipe <= 255 and "NOT_FOUND" not in types and 1.0 <= frequency_hz <= 1.0 / CYCLE_S
        if client.version == 2:
            head = bytes([recipe if good else 0])
        if good:
            every = max(1, round(1.0 / CYCLE_S / frequency_hz))
            client.outputs.append((every, output_packer(tuple(names), recipe if client.version == 2 else None)))
        return head + ",".join(types).encode()

    def _setup_inputs(self, link: Connection, client: _Client, payload: bytes) -> bytes:
        names = [n for n in payload.decode("latin-1").split(",") if n]
        types = []
        for name in names:
            if name not in INPUTS:
                types.append("NOT_FOUND")
            elif self.owners.get(name, link) is not link:
                types.append("IN_USE")
            else:
                types.append(INPUTS[name])
        recipe = 0
        if names and len(client.inputs) < 255 and not {"NOT_FOUND", "IN_USE"} & set(types):
            recipe = len(client.inputs) + 1
            layout, apply = input_reader(names)
            client.inputs[recipe] = (layout.size, apply)
            self.owners.update(dict.fromkeys(names, link))
        return bytes([recipe]) + ",".join(types).encode()

    def _inputs(self, link: Connection, client: _Client, payload: bytes) -> None:
        recipe = payload[0] if payload else 0
        size, apply = client.inputs.get(recipe, (0, None))
        if apply is None:
            self._tell(link, client, f"data package for recipe {recipe}, which is not set up")
        elif len(payload) - 1 != size:
            self._tell(link, client, f"data package of {len(payload) - 1} bytes; recipe {recipe} has {size}")
        else:
            apply(payload[1:], self.controller)
