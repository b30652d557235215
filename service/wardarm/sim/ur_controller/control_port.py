"""The simulator's own port, 30100: injections, state, log. One command a line, as words or as a JSON object.

    inject safeguard on            {"command": "inject", "args": ["safeguard", "on"]}
    state                          {"command": "state"}

Every answer is one JSON object on one line; `error` says what was wrong.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.modes import RobotMode

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.server import Server

PORT = 30100
Command = Callable[..., Any]
_ON = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False}


def _on(word: Any) -> bool:
    key = str(word).lower()
    if key not in _ON:
        raise ValueError(f"{word!r}: say on or off")
    return _ON[key]


class ControlPort(Service):
    """`commands`: more commands of the surrounding simulation, name to function of the words that follow."""

    def __init__(
        self, server: Server, controller: Controller, commands: Mapping[str, Command], port: int = PORT
    ) -> None:
        super().__init__(port)
        self.server, self.controller = server, controller
        self.commands: dict[str, Command] = {
            "inject": self.inject, "state": self.state, "log": self.log, "pwm": self.pwm, "digital": self.digital,
            "slider": self.slider, "place": self.place, "remote": self.remote, "variables": self.variables,
            "help": self.help, **commands,
        }  # fmt: skip

    def received(self, link: Connection) -> None:
        for line in link.lines():
            if line.strip():
                link.send(json.dumps(self.answer(line), default=str).encode() + b"\n")

    def answer(self, line: str) -> dict[str, Any]:
        try:
            if line.lstrip().startswith("{"):
                request = json.loads(line)
                name, args = request["command"], request.get("args", [])
            else:
                name, *args = shlex.split(line)
            command = self.commands.get(name)
            if command is None:
                raise ValueError(f"no command {name!r}; there are {', '.join(sorted(self.commands))}")
            result = command(*args)
        except (ValueError, TypeError, KeyError, IndexError) as e:
            return {"error": f"{type(e).__name__}: {e}"}
        return result if isinstance(result, dict) else {"ok": True, "result": result}

    def help(self) -> list[str]:
        return sorted(self.commands)

    def state(self) -> dict[str, Any]:
        c = self.controller
        return {
            "cycle": c.cycle, "time_s": c.time_s, "robot_mode": c.safety.robot_mode.name,
            "safety_mode": c.safety.mode.name, "reason": c.safety.reason, "runtime": c.slot.runtime.name,
            "program": c.slot.name, "last_error": c.slot.last_error, "q": list(c.state.q), "qd": list(c.state.qd),
            "target_q": list(c.servo.q), "speed_scaling": c.scale, "payload_kg": c.payload_kg,
            "sim_rate": self.server.sim_rate, "output_ints": c.output_ints[12:20],
            "output_doubles": c.output_doubles[12:20],
        }  # fmt: skip

    def log(self, count: Any = 50) -> dict[str, Any]:
        return {"log": list(self.controller.log)[-int(count) :]}

    def variables(self) -> dict[str, Any]:
        """Global variables of the running program."""
        program = self.controller.slot.program
        return {"variables": program.variables() if program is not None else {}}

    def pwm(
        self, pin: Any, on: Any, frequency_hz: Any = 1000.0, duty_percent: Any = 50.0, t_ns: Any = None
    ) -> dict[str, Any]:
        stamp = None if t_ns is None else int(t_ns)
        news = self.controller.pwm(int(pin), _on(on), stamp, float(frequency_hz), float(duty_percent))
        return {"ok": True, "news": news, "cycle": self.controller.cycle}

    def digital(self, pin: Any, on: Any) -> None:
        c, pin = self.controller, int(pin)
        c.lines.pop(pin, None)
        c.digital_in = c.digital_in & ~(1 << pin) | int(_on(on)) << pin

    def slider(self, fraction: Any) -> None:
        value = float(fraction)
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"slider {value}: outside [0, 1]")
        self.controller.slider = value

    def place(self, *q: Any) -> None:
        if len(q) != 6:
            raise ValueError(f"place needs 6 joint positions in rad, not {len(q)}")
        c = self.controller
        c.stop_program()
        c.move_by_hand([float(v) - now for v, now in zip(q, c.state.q, strict=True)])

    def remote(self, on: Any) -> None:
        self.controller.remote = _on(on)

    def inject(self, what: str, *args: Any) -> None:
        c = self.controller
        safety, now_s = c.safety, c.time_s
        match what:
            case "protective":
                safety.protective_stop(now_s, " ".join(str(a) for a in args) or "injected")
            case "safeguard":
                safety.safeguard(_on(args[0]), now_s)
            case "safeguard_reset":
                if not safety.safeguard_reset(now_s):
                    raise ValueError(f"nothing to reset: safety is {safety.mode.name}")
            case "safeguard_needs_reset":
                safety.safeguard_needs_reset = _on(args[0])
            case "estop":
                safety.emergency_stop(_on(args[0]), now_s)
            case "system_estop":
                safety.emergency_stop(_on(args[0]), now_s, system=True)
            case "violation" | "fault":
                safety.violation(now_s, " ".join(str(a) for a in args) or "injected", fault=what == "fault")
            case "reduced":
                safety.reduced(_on(args[0]), now_s)
            case "power":
                safety.robot_mode = RobotMode.RUNNING if _on(args[0]) else RobotMode.POWER_OFF
            case "jog":
                offsets = [float(a) for a in args] + [0.0] * (6 - len(args))
                c.move_by_hand(offsets[:6])
            case "drop":
                self.server.drop(str(args[0]))
            case "refuse":
                self.server.refuse(str(args[0]), _on(args[1]))
            case "freeze":
                self.server.freeze_s = float(args[0])
            case _:
                raise ValueError(
                    f"no injection {what!r}; there are protective, safeguard, safeguard_reset, safeguard_needs_reset, "
                    "estop, system_estop, violation, fault, reduced, power, jog, drop, refuse, freeze"
                )
        c.note(f"injected {what} {' '.join(str(a) for a in args)}".rstrip())
