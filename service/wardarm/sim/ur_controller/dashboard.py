"""The dashboard server on port 29999: one command a line, one answer a line.

Strings: universal-robots.com, "Dashboard server e-Series, port 29999". ur_rtde and Universal Robots' own client compare
them letter by letter. Every command of that page has been there since 5.8, so 5.11 to 5.21 do not differ.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.modes import Runtime

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.program_slot import Launch

PORT = 29999
_LINE_MAX = 65536  # bytes without a newline, ours; a client that sends more is no dashboard client
# The commands that change something need remote control on an e-Series robot.
_REMOTE_ONLY = (
    "play", "pause", "stop", "power on", "power off", "brake release", "unlock protective stop", "restart safety", "load",
    "load installation", "shutdown", "set operational mode",
)  # fmt: skip
_STATES = {
    Runtime.PLAYING: "PLAYING", Runtime.RESUMING: "PLAYING", Runtime.PAUSING: "PAUSED", Runtime.PAUSED: "PAUSED",
}  # fmt: skip


class Dashboard(Service):
    def __init__(self, controller: Controller, port: int = PORT) -> None:
        super().__init__(port)
        self.controller = controller
        self.role = "none"
        self.operational_mode = "NONE"
        self._launching: dict[Connection, Launch] = {}
        self._commands: dict[str, Callable[[str], str]] = {
            "play": lambda _: self._played(self.controller.play()),
            "pause": lambda _: self._done("pause", "Pausing program", self.controller.pause()),
            "stop": self._stop,
            "load": self._load,
            "load installation": self._load_installation,
            "get loaded program": lambda _: self._loaded(),
            "running": lambda _: f"Program running: {str(self._state() == 'PLAYING').lower()}",
            "programstate": lambda _: f"{self._state()} {self._program()}".rstrip(),
            "isprogramsaved": lambda _: f"true {self._program() or '<unnamed>'}",
            "robotmode": lambda _: f"Robotmode: {self.controller.safety.robot_mode.name}",
            "safetymode": lambda _: f"Safetymode: {self.controller.safety.mode.name}",
            "safetystatus": lambda _: f"Safetystatus: {self.controller.safety.mode.name}",
            "power on": self._power_on,
            "power off": self._power_off,
            "brake release": self._brake_release,
            "unlock protective stop": lambda _: self.controller.safety.unlock_protective_stop(self.controller.time_s),
            "restart safety": self._restart_safety,
            "popup": self._popup,
            "close popup": self._close_popup,
            "close safety popup": lambda _: "closing safety popup",
            "addtolog": self._add_to_log,
            "polyscopeversion": lambda _: "URSoftware {}.{}.{}.{} (Jan 01 2025)".format(*self.controller.version),
            "version": lambda _: "{}.{}.{}.{}".format(*self.controller.version),
            "get serial number": lambda _: self.controller.serial,
            "get robot model": lambda _: "UR5",
            "is in remote control": lambda _: str(self.controller.remote).lower(),
            "get operational mode": lambda _: self.operational_mode,
            "set operational mode": self._set_operational_mode,
            "clear operational mode": self._clear_operational_mode,
            "getuserrole": lambda _: self.role.upper(),
            "get user role": lambda _: self.role.upper(),
            "setuserrole": self._set_user_role,
            "generate flight report": self._flight_report,
            "generate support file": self._support_file,
            "savelog": lambda _: "Log saved to disk",
            "help": lambda _: f"Available commands: {', '.join(sorted(self._commands))}, quit, shutdown",
        }

    def opened(self, link: Connection) -> None:
        link.send(b"Connected: Universal Robots Dashboard Server\n")

    def closed(self, link: Connection) -> None:
        self._launching.pop(link, None)

    def publish(self) -> None:
        """`play` is answered once the program runs or will not; what came after it on the same connection waits."""
        if not self._launching:
            return
        for link, launch in list(self._launching.items()):
            if launch.outcome is not None:
                del self._launching[link]
                link.send(self._played(launch.outcome).encode() + b"\n")
                self.received(link)

    @staticmethod
    def _line(link: Connection) -> str | None:
        end = link.buffer.find(b"\n")
        if end < 0:
            return None
        line = bytes(link.buffer[:end]).decode("utf-8", "replace")
        del link.buffer[: end + 1]
        return line

    def received(self, link: Connection) -> None:
        while link not in self._launching and (line := self._line(link)) is not None:
            command = line.strip()
            key = command.lower()
            if key == "play" and self.controller.remote:
                self._launching[link] = self.controller.launch()
                self.publish()
                continue
            if key == "quit":
                link.send(b"Disconnected\n")
                link.close()
                return
            link.send(self.answer(command).encode() + b"\n")
            if key == "shutdown" and self.controller.remote:
                self.controller.stop_program()
                self.controller.safety.power_off()
                link.close()
                return
        if len(link.buffer) > _LINE_MAX:
            self.controller.note(f"dashboard: {len(link.buffer)} bytes without a newline, connection closed")
            link.close()

    def answer(self, command: str) -> str:
        """The answer to one command, without the newline."""
        words = command.split()
        key = " ".join(words).lower()
        if key == "shutdown" and self.controller.remote:
            return "Shutting down"
        for count in range(min(4, len(words)), 0, -1):  # the longest command that it begins with
            name = " ".join(words[:count]).lower()
            if name in _REMOTE_ONLY and not self.controller.remote:
                return f"Command is not allowed due to safety reasons. Please switch to remote control: {command}"
            if name in self._commands:
                return self._commands[name](command.strip().split(None, count)[count] if len(words) > count else "")
        return f'could not understand: "{command[:200]}"'

    # --- programs
    @staticmethod
    def _done(name: str, good: str, done: bool) -> str:
        return good if done else f"Failed to execute: {name}"

    def _played(self, done: bool) -> str:
        return self._done("play", "Starting program", done)

    def _state(self) -> str:
        return _STATES.get(self.controller.slot.runtime, "STOPPED")

    def _program(self) -> str:
        return self.controller.loaded or self.controller.slot.name

    def _stop(self, _: str) -> str:
        c = self.controller
        return self._done("stop", "Stopped", c.stop_program() or c.slot.runtime is Runtime.STOPPED)

    def _load(self, name: str) -> str:
        """`NAME.urp` loads NAME.script, which PolyScope saves beside every program, from the folder `--programs`."""
        if not name:
            return 'could not understand: "load"'
        try:
            self.controller.load(name)
        except FileNotFoundError:
            return f"File not found: {name}"
        except OSError as e:
            return f"Error while loading program: {name} ({e.strerror})"
        return f"Loading program: {name}"

    def _loaded(self) -> str:
        c = self.controller
        return f"Loaded program: /programs/{c.loaded}" if c.loaded else "No program loaded"

    def _load_installation(self, name: str) -> str:
        if name not in ("default", "default.installation"):
            return f"File not found: {name}"
        self.controller.load_installation()
        return f"Loading installation: {name}"

    # --- power and safety
    def _power_on(self, _: str) -> str:
        self.controller.safety.power_on(self.controller.time_s)
        return "Powering on"

    def _power_off(self, _: str) -> str:
        self.controller.stop_program()
        self.controller.safety.power_off()
        return "Powering off"

    def _brake_release(self, _: str) -> str:
        self.controller.safety.brake_release(self.controller.time_s)
        return "Brake releasing"

    def _restart_safety(self, _: str) -> str:
        self.controller.stop_program()
        return self.controller.safety.restart(self.controller.time_s)

    # --- what an operator sees
    def _popup(self, text: str) -> str:
        self.controller.popup_open = True
        self.controller.note(f"popup Dashboard: {text}")
        return "showing popup"

    def _close_popup(self, _: str) -> str:
        self.controller.popup_open = False
        return "closing popup"

    def _add_to_log(self, text: str) -> str:
        if not text:
            return "No log message to add"
        self.controller.note(f"dashboard: {text}")
        return "Added log message"

    def _set_operational_mode(self, mode: str) -> str:
        if mode.upper() not in ("MANUAL", "AUTOMATIC"):
            return f"Failed setting operational mode: {mode}"
        self.operational_mode = mode.upper()
        return f"Operational mode {self.operational_mode} is set"

    def _clear_operational_mode(self, _: str) -> str:
        was, self.operational_mode = self.operational_mode, "NONE"
        return f"No longer controlling the operational mode. Current operational mode: '{was}'."

    def _set_user_role(self, role: str) -> str:
        if role.lower() not in ("programmer", "operator", "none", "locked", "restricted"):
            return f"Failed setting user role: {role}"
        self.role = role.lower()
        return f"Setting user role: {role}"

    def _flight_report(self, kind: str) -> str:
        if kind.lower() not in ("", "controller", "software", "system"):
            return f"Error generating flight report: unknown type {kind}"
        return f"Flight Report generated with id: {uuid.uuid4()}"

    def _support_file(self, folder: str) -> str:
        return f"Completed successfully: {folder.rstrip('/') or '/programs'}/ursupport_{self.controller.serial}.zip"
