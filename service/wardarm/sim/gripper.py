"""A simulated Robotiq gripper's socket, port 63352 of the controller, and fingers that need no physics.

Protocol: Robotiq, "2F-85 & 2F-140 for e-Series Universal Robots", URCap socket: `SET name value [name value ...]`
answered by `ack`, `GET name` answered by `name value`. POS runs from 0 (open) to 255 (closed).
"""

from __future__ import annotations

from typing import Protocol

from wardarm.sim.ur_controller.connection import Connection, Service

PORT = 63352
MOVING, STOPPED_OPENING, STOPPED_CLOSING, AT_REQUEST = range(4)
"""OBJ: on the way; stopped by something while opening; while closing (it holds something); arrived."""

STROKE_S = 0.7  # a 2F-85 closes its 85 mm in about this at full speed (150 mm/s, data sheet)


class GripperDevice(Protocol):
    """Two fingers. Openings run from 0 (closed) to 1 (open); `speed` and `force` are Robotiq's 0..255."""

    def set_target(self, opening: float, speed: int, force: int) -> None: ...

    def state(self) -> tuple[float, int]:
        """Opening now, and OBJ."""
        ...


class FreeFingers:
    """Fingers in the air, or with something of a given width between them."""

    def __init__(self, opening: float = 1.0) -> None:
        self.opening = self.target = opening
        self.speed = 255
        self.force = 80
        self.object_opening: float | None = None
        """Opening at which closing fingers meet something; None: nothing there."""
        self._obj = AT_REQUEST

    def set_target(self, opening: float, speed: int, force: int) -> None:
        self.target, self.speed, self.force = opening, speed, force

    def state(self) -> tuple[float, int]:
        return self.opening, self._obj

    def step(self, cycle_s: float) -> None:
        most = cycle_s / STROKE_S * (0.13 + 0.87 * self.speed / 255)  # slowest 20 of 150 mm/s, data sheet
        closing = self.target < self.opening
        self.opening += max(-most, min(most, self.target - self.opening))
        thing = self.object_opening
        if closing and thing is not None and self.opening <= thing and self.target < thing:
            self.opening, self._obj = thing, STOPPED_CLOSING
        else:
            self._obj = AT_REQUEST if abs(self.opening - self.target) < 1e-9 else MOVING


class GripperPort(Service):
    """Any number of clients; the last one to speak wins."""

    def __init__(self, device: GripperDevice, port: int = PORT) -> None:
        super().__init__(port)
        self.device = device
        self.values = {"ACT": 1, "GTO": 1, "ATR": 0, "ARD": 0, "FOR": 255, "SPE": 255, "POS": 0, "SID": 9}
        self.sets: list[tuple[str, int]] = []
        """Every assignment received, in order."""

    def received(self, link: Connection) -> None:
        for line in link.lines():
            answer = self.answer(line)
            link.send(answer.encode() + (b"" if answer == "ack" else b"\n"))  # the real one ends `ack` with nothing

    def answer(self, line: str) -> str:
        word, *rest = line.split() or [""]
        if word == "GET" and len(rest) == 1:
            return self._get(rest[0])
        if word == "SET" and rest and len(rest) % 2 == 0:
            return self._set(list(zip(rest[::2], rest[1::2], strict=True)))
        return "?"

    def _set(self, pairs: list[tuple[str, str]]) -> str:
        try:
            wanted = {name: int(float(text)) for name, text in pairs}
        except ValueError:
            return "?"
        if any(name not in self.values or not 0 <= value <= 255 for name, value in wanted.items()):
            return "?"
        self.values.update(wanted)
        self.sets += list(wanted.items())
        if self.values["ACT"] and self.values["GTO"] and wanted.keys() & {"POS", "SPE", "FOR", "GTO", "ACT"}:
            opening = 1.0 - self.values["POS"] / 255.0
            self.device.set_target(opening, self.values["SPE"], self.values["FOR"])
        return "ack"

    def _get(self, name: str) -> str:
        opening, obj = self.device.state()
        now = {
            "POS": round((1.0 - opening) * 255), "PRE": self.values["POS"], "OBJ": obj, "FLT": 0,
            "STA": 3 if self.values["ACT"] else 0,
        }  # fmt: skip
        value = now.get(name, self.values.get(name))
        return f"{name} {value}" if value is not None else "?"
