"""All the controller's ports on one selector, and the loop that paces it in real time.

    controller = Controller(plant, dh, tcp)
    with Server(controller, "127.0.0.1", pwm_path="/dev/shm/wardarm_pwm.sock") as server:
        run_realtime(controller, server, on_tick=None, stop=stop)

A simulation with a loop of its own calls `server.poll()`, `controller.tick()`, `server.publish()` in that order.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from wardarm.sim.ur_controller.connection import Acceptor, Connection, Service
from wardarm.sim.ur_controller.control_port import PORT as CONTROL_PORT
from wardarm.sim.ur_controller.control_port import Command, ControlPort
from wardarm.sim.ur_controller.controller import Controller
from wardarm.sim.ur_controller.dashboard import Dashboard
from wardarm.sim.ur_controller.faults import SERVICES
from wardarm.sim.ur_controller.interpreter import InterpreterPort
from wardarm.sim.ur_controller.links import Link, TcpLink, own
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.rtde import PORT as RTDE_PORT
from wardarm.sim.ur_controller.rtde import Rtde
from wardarm.sim.ur_controller.script_ports import PORTS as SCRIPT_PORTS
from wardarm.sim.ur_controller.script_ports import READ_ONLY_PORTS, ScriptPort

PWM_PIN = 8  # the first encoder input of an e-Series controller
_CYCLE_NS = round(CYCLE_S * 1e9)
_BEHIND_NS = 50_000_000  # further behind than this, the loop does not try to catch up


class _PwmSocket:
    """Datagrams of the gate's simulated output: `{"t_ns", "on", "frequency_hz", "duty_percent"}`."""

    def __init__(self, path: str, pin: int, controller: Controller, selector: selectors.BaseSelector) -> None:
        self.path, self.pin, self.controller = path, pin, controller
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        try:
            self.socket.bind(path)
        except OSError as e:
            self.socket.close()
            raise OSError(e.errno, f"the PWM socket {path}: {e.strerror}") from e
        selector.register(self.socket, selectors.EVENT_READ, self)

    def ready(self, events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data = self.socket.recv(4096)
                try:
                    edge = json.loads(data)
                    self.controller.pwm(
                        self.pin,
                        bool(edge["on"]),
                        int(edge["t_ns"]),
                        float(edge["frequency_hz"]),
                        float(edge["duty_percent"]),
                    )
                except (ValueError, KeyError, TypeError) as e:
                    self.controller.note(f"PWM datagram not understood: {e!r}")

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Server:
    """Binds every port on `address` (raises OSError if one is taken).

    `services`: more ports of the surrounding simulation (a gripper); `commands`: more words for the control port.
    """

    def __init__(
        self, controller: Controller, address: str = "127.0.0.1", *, rtde_port: int = RTDE_PORT, pwm_path: str | None = None,
        pwm_pin: int = PWM_PIN, services: Sequence[Service] = (), commands: Mapping[str, Command] | None = None,
        control_port: int = CONTROL_PORT,
    ) -> None:  # fmt: skip
        self.controller = controller
        controller.slot.warm()
        self.selector = selectors.DefaultSelector()
        self.address = address
        if controller.dial is TcpLink:
            controller.dial = self._dial
        self.sim_rate = 1.0
        self.freeze_s = 0.0
        self.slowness = 1.0
        self._back_cycle = 0
        self._refused: set[str] = set()
        self.control = ControlPort(self, controller, commands or {}, control_port)
        self.named: dict[str, list[Service]] = {
            "rtde": [Rtde(controller, rtde_port)],
            "dashboard": [Dashboard(controller)],
            "script": [ScriptPort(controller, port) for port in (*SCRIPT_PORTS, *READ_ONLY_PORTS)],
            "control": [self.control],
            "interpreter": [InterpreterPort(controller)],
            "other": list(services),
        }
        services = [s for group in self.named.values() for s in group]
        self._publishing = [s for s in services if type(s).publish is not Service.publish]
        assert tuple(self.named) == SERVICES
        self._acceptors: list[Acceptor] = []
        self._pwm: _PwmSocket | None = None
        try:
            for name, group in self.named.items():
                for service in group:
                    self._acceptors.append(Acceptor(address, service, self.selector, self._refuses(name)))
            if pwm_path is not None:
                self._pwm = _PwmSocket(pwm_path, pwm_pin, controller, self.selector)
        except OSError:
            self.close()
            raise

    def _dial(self, address: str, port: int) -> Link:
        return TcpLink(own(address, port, self.address), port, self.selector)

    def _refuses(self, name: str) -> Callable[[], bool]:
        return lambda: name in self._refused or (self._back_cycle > 0 and name != "control")

    def poll(self, timeout_s: float = 0.0) -> None:
        """Take in what has arrived; with a timeout, wait that long for something."""
        if timeout_s <= 0 or select.select([self.selector], [], [], timeout_s)[0]:  # a selector waits in whole ms
            for key, events in self.selector.select(0):
                self.serve(key.data, events)
        if self.freeze_s > 0:
            seconds, self.freeze_s = self.freeze_s, 0.0
            time.sleep(seconds)  # injected: the whole controller stands still and answers nobody

    def serve(self, target: Any, events: int) -> None:
        """One ready socket. What a client sends may break its own connection, never the controller."""
        try:
            target.ready(events)
        except Exception as e:
            self.controller.note(f"a client's message broke its connection: {e!r}")
            if isinstance(target, Connection):
                target.close()

    def publish(self) -> None:
        """After a tick: send what it brought."""
        if self._back_cycle and self.controller.cycle >= self._back_cycle:
            self._back_cycle = 0
            self.controller.note("the mains are back; the controller has started")
        for service in self._publishing:
            if service.links or service.pending:
                service.publish()

    def connections(self, name: str) -> list[Connection]:
        if name not in self.named:
            raise ValueError(f"no service {name!r}; there are {', '.join(self.named)}")
        services = self.named[name]
        found = [key.data for key in self.selector.get_map().values() if isinstance(key.data, Connection)]
        return [c for c in found if c.service in services]

    def drop(self, name: str) -> None:
        """Close every connection of a service (rtde, dashboard, script, control, other)."""
        for link in self.connections(name):
            link.close()

    def away(self, seconds: float) -> None:
        """No power: every connection but the control port's closes, and none is taken for that long."""
        self._back_cycle = self.controller.cycle + max(1, round(seconds / CYCLE_S))
        for name in self.named:
            if name != "control":
                self.drop(name)

    def refuse(self, name: str, on: bool) -> None:
        """Close new connections of a service at once, or take them again."""
        self.connections(name)
        (self._refused.add if on else self._refused.discard)(name)

    def mute(self, name: str, on: bool) -> None:
        """A service takes connections and commands and sends nothing, or speaks again. Raises ValueError for the control port."""
        self.connections(name)
        if name == "control":
            raise ValueError("the control port cannot be muted: nobody could be told")
        for service in self.named[name]:
            service.muted = on

    def close(self) -> None:
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, Connection):
                key.data.close()
        for acceptor in self._acceptors:
            acceptor.close()
        if self._pwm is not None:
            self._pwm.close()
        self.controller.close()
        self.selector.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run_realtime(
    controller: Controller, server: Server, on_tick: Callable[[], None] | None, stop: Callable[[], bool]
) -> None:
    """Tick every 2 ms of wall time until `stop()`; slower if the machine is. `server.sim_rate`: share of real time.

    `on_tick` runs after each tick, in the cycle (it may advance cameras, people, fingers).
    """
    gc.collect()
    gc.freeze()  # what is there now stays: a full collection would hold up a cycle
    due = time.monotonic_ns()
    mark_ns, mark_cycle = due, controller.cycle
    while not stop():
        now = time.monotonic_ns()
        if now >= due:
            server.poll()
        while now < due:
            server.poll((due - now) * 1e-9)
            now = time.monotonic_ns()
        controller.tick(now)
        if on_tick is not None:
            on_tick()
        server.publish()
        due += round(_CYCLE_NS * server.slowness)
        if now - due > _BEHIND_NS:
            due = now
        if now - mark_ns >= 1_000_000_000:
            server.sim_rate = (controller.cycle - mark_cycle) * _CYCLE_NS / (now - mark_ns)
            mark_ns, mark_cycle = now, controller.cycle
