"""A simulated Robotiq gripper's socket, port 63352 of the controller, and fingers that need no physics.

Protocol: Robotiq, "2F-85 & 2F-140 for e-Series Universal Robots", URCap socket: `SET name value [name value ...]`
answered by `ack`, `GET name` answered by `name value`; anything else by `?`. POS runs from 0 (open) to 255 (closed).
`SET ACT 0` resets, `SET ACT 1` activates: STA is 1 for a moment, then 3, and only then the fingers obey. `SET ATR 1` is
the emergency release: the fingers go slowly to the end that ADR names (0 closed, 1 open), then FLT is 15.
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
        if self.opening == self.target and self._obj == AT_REQUEST:
            return
        most = cycle_s / STROKE_S * (0.13 + 0.87 * self.speed / 255)  # slowest 20 of 150 mm/s, data sheet
        closing = self.target < self.opening
        self.opening += max(-most, min(most, self.target - self.opening))
        thing = self.object_opening
        if closing and thing is not None and self.opening <= thing and self.target < thing:
            self.opening, self._obj = thing, STOPPED_CLOSING
        else:
            self._obj = AT_REQUEST if abs(self.opening - self.target) < 1e-9 else MOVING


ACTIVATION_S = 1.0  # the real one closes and opens once, 2 to 3 s; ours does not move
_WRITABLE = ("ACT", "GTO", "ATR", "ADR", "ARD", "FOR", "SPE", "POS", "SID")
_LINE_MAX = 4096  # bytes without a newline


class GripperPort(Service):
    """Any number of clients; the last one to speak wins. `activated`: False as after power on, True as in use."""

    def __init__(
        self, device: GripperDevice, port: int = PORT, *, activated: bool = True, cycle_s: float = 0.002
    ) -> None:
        super().__init__(port)
        self.device = device
        self.values = dict.fromkeys(_WRITABLE, 0) | {
            "ACT": int(activated),
            "GTO": int(activated),
            "FOR": 255,
            "SPE": 255,
            "SID": 9,
        }
        self.sets: list[tuple[str, int]] = []
        """Every assignment received, in order."""
        self._cycle_s = cycle_s
        self._activating_s = 0.0
        self._fault = 0
        self.pending = (self,)  # activation takes its time whether somebody listens or not

    def received(self, link: Connection) -> None:
        for line in link.lines():
            answer = self.answer(line)
            link.send(answer.encode() + (b"" if answer == "ack" else b"\n"))  # the real one ends `ack` with nothing
        if len(link.buffer) > _LINE_MAX:
            link.close()

    def publish(self) -> None:
        if self._activating_s > 0:
            self._activating_s -= self._cycle_s
            if self._activating_s <= 0:
                self._move()

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
        except (ValueError, OverflowError):
            return "?"
        if any(name not in self.values or not 0 <= value <= 255 for name, value in wanted.items()):
            return "?"
        was_active = self.values["ACT"]
        self.values.update(wanted)
        self.sets += list(wanted.items())
        if not self.values["ACT"]:
            self._activating_s, self._fault = 0.0, 0
        elif not was_active:
            self._activating_s = ACTIVATION_S
        if wanted.get("ATR") and self.values["ACT"]:
            self._fault = 15
            self.device.set_target(float(self.values["ADR"] or self.values["ARD"]), 0, 0)
        elif wanted.keys() & {"POS", "SPE", "FOR", "GTO", "ACT"}:
            self._move()
        return "ack"

    @property
    def _ready(self) -> bool:
        return bool(self.values["ACT"]) and self._activating_s <= 0 and not self._fault

    def _move(self) -> None:
        if self._ready and self.values["GTO"]:
            self.device.set_target(1.0 - self.values["POS"] / 255.0, self.values["SPE"], self.values["FOR"])

    def _get(self, name: str) -> str:
        opening, obj = self.device.state()
        now = {
            "POS": round((1.0 - opening) * 255), "PRE": self.values["POS"], "OBJ": obj, "FLT": self._fault,
            "STA": 0 if not self.values["ACT"] else 1 if self._activating_s > 0 else 3, "COU": 0, "NCY": 0,
            "DST": 0, "PCO": self.values["POS"],
        }  # fmt: skip
        value = now.get(name, self.values.get(name))
        return f"{name} {value}" if value is not None else "?"
