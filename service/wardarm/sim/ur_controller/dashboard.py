"""The dashboard server on port 29999: one command a line, one answer a line.

Strings: universal-robots.com, "Dashboard server e-Series, port 29999". ur_rtde compares them letter by letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.modes import Runtime, SafetyMode

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

PORT = 29999
_SAFETY_WORD = {SafetyMode.SAFEGUARD_STOP: "SAFEGUARD_STOP"}
# The commands that change something need remote control on an e-Series robot.
_REMOTE_ONLY = frozenset(
    {"play", "pause", "stop", "power on", "power off", "brake release", "unlock protective stop", "restart safety"}
)


class Dashboard(Service):
    def __init__(self, controller: Controller, port: int = PORT) -> None:
        super().__init__(port)
        self.controller = controller
        self.role = "none"

    def opened(self, link: Connection) -> None:
        link.send(b"Connected: Universal Robots Dashboard Server\n")

    def received(self, link: Connection) -> None:
        for line in link.lines():
            command = line.strip()
            if command.lower() in ("quit", "shutdown"):
                link.send(b"Disconnected\n" if command.lower() == "quit" else b"Shutting down\n")
                link.close()
                return
            link.send(self.answer(command).encode() + b"\n")

    def answer(self, command: str) -> str:
        """The answer to one command, without the newline."""
        key = " ".join(command.split()).lower()
        c = self.controller
        if key in _REMOTE_ONLY and not c.remote:
            return f"Command is not allowed due to safety reasons. Please switch to remote control: {command}"
        match key:
            case "play":
                return "Starting program" if c.play() else "Failed to execute: play"
            case "pause":
                return "Pausing program" if c.pause() else "Failed to execute: pause"
            case "stop":
                return "Stopped" if c.stop_program() or c.slot.runtime is Runtime.STOPPED else "Failed to execute: stop"
            case "power on":
                c.safety.power_on(c.time_s)
                return "Powering on"
            case "power off":
                c.stop_program()
                c.safety.power_off()
                return "Powering off"
            case "brake release":
                c.safety.brake_release(c.time_s)
                return "Brake releasing"
            case "unlock protective stop":
                return c.safety.unlock_protective_stop(c.time_s)
            case "restart safety":
                c.stop_program()
                return c.safety.restart(c.time_s)
            case "close popup":
                return "closing popup"
            case "close safety popup":
                return "closing safety popup"
        return self._question(key, command)

    def _question(self, key: str, command: str) -> str:
        c = self.controller
        program = c.slot.name or "<unnamed>"
        match key:
            case "running":
                return f"Program running: {'true' if c.slot.runtime is Runtime.PLAYING else 'false'}"
            case "robotmode":
                return f"Robotmode: {c.safety.robot_mode.name}"
            case "safetymode":
                return f"Safetymode: {c.safety.mode.name}"
            case "safetystatus":
                return f"Safetystatus: {c.safety.mode.name}"
            case "programstate":
                state = {Runtime.PLAYING: "PLAYING", Runtime.RESUMING: "PLAYING", Runtime.PAUSED: "PAUSED"}
                return f"{state.get(c.slot.runtime, 'PAUSED' if c.slot.runtime is Runtime.PAUSING else 'STOPPED')} {program}"
            case "polyscopeversion":
                return "URSoftware {}.{}.{}.{} (Jan 01 2025)".format(*c.version)
            case "version":
                return "{}.{}.{}.{}".format(*c.version)
            case "get serial number":
                return c.serial
            case "get robot model":
                return "UR5"
            case "is in remote control":
                return "true" if c.remote else "false"
            case "get operational mode":
                return "NONE"
            case "get loaded program":
                return "No program loaded"
            case "isprogramsaved":
                return f"true {program}"
            case "get user role":
                return self.role.upper()
            case "help":
                return "see the dashboard server manual"
        return self._with_argument(key, command)

    def _with_argument(self, key: str, command: str) -> str:
        word, _, rest = " ".join(command.split()).partition(" ")
        if key.startswith("popup"):
            self.controller.note(f"popup: {rest}")
            return "showing popup"
        if key.startswith("addtolog"):
            self.controller.note(f"dashboard: {rest}")
            return "Added log message"
        if key.startswith("setuserrole"):
            self.role = rest
            return f"Setting user role: {rest}"
        if key.startswith("load installation"):
            return f"File not found: {rest.partition(' ')[2]}"
        if word.lower() == "load":
            return f"File not found: {rest}"
        if key.startswith(("set operational mode", "clear operational mode")):
            return f"Operational mode: {rest}"
        return f'could not understand: "{command}"'
