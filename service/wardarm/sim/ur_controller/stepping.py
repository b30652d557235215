"""The simulated controller with its ports, clocked from outside: `wardarm sim ur --lock-step`.

Time stands still until the control port says `step N`. Then N cycles run as fast as the machine goes; before each of
them every other port is served once, after it everything is published, as in real time. The answer comes when they are
done. What clients of other processes do lies outside of this clock: only what they sent before `step` counts for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wardarm.sim.ur_controller.connection import Connection
from wardarm.sim.ur_controller.control_port import ControlPort
from wardarm.sim.ur_controller.controller import Controller
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.server import Server

CYCLE_NS = round(CYCLE_S * 1e9)
CYCLES_MAX = 500_000  # in one command: its answer must not take for ever
_IDLE_S = 0.1


class Stepper:
    """The command `step`, and the loop that waits for it. Attach `server` before the first command."""

    def __init__(self, controller: Controller, on_tick: Callable[[], None] | None = None) -> None:
        self.controller, self.on_tick = controller, on_tick
        self.server: Server | None = None
        controller.clock_ns = controller.cycle * CYCLE_NS

    def step(self, cycles: Any = 1) -> dict[str, Any]:
        """Control port: `step N`."""
        count = int(cycles)
        if not 1 <= count <= CYCLES_MAX:
            raise ValueError(f"step {count}: give 1 to {CYCLES_MAX} cycles of 2 ms")
        controller, server = self.controller, self.server
        assert server is not None
        for _ in range(count):
            self._serve(server)
            controller.tick((controller.cycle + 1) * CYCLE_NS)
            if self.on_tick is not None:
                self.on_tick()
            server.publish()
        self._serve(server)
        return {"ok": True, "cycle": controller.cycle, "time_s": controller.time_s}

    @staticmethod
    def _serve(server: Server) -> None:
        """Every port but the control port, which is just being served."""
        for key, events in server.selector.select(0):
            if not (isinstance(key.data, Connection) and isinstance(key.data.service, ControlPort)):
                server.serve(key.data, events)

    def run(self, stop: Callable[[], bool]) -> None:
        """Serve all ports until `stop()`; time passes only in `step`."""
        assert self.server is not None
        while not stop():
            self.server.poll(_IDLE_S)
