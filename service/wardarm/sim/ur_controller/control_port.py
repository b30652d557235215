"""The simulator's own port, 30100: injections, state, log. One command a line, as words or as a JSON object.

    inject safeguard on            {"command": "inject", "args": ["safeguard", "on"]}
    state                          {"command": "state"}

Every answer is one JSON object on one line; `error` says what was wrong.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.faults import INJECTIONS, Faults, on, within
from wardarm.sim.urscript import people_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.server import Server

PORT = 30100
Command = Callable[..., Any]
PINS = 18  # digital inputs: 8 standard, 8 configurable, 2 of the tool, in the order of RTDE's bits
JOINT_MAX_RAD = math.radians(363.0)
_LINE_MAX = 1 << 20  # bytes without a newline


class ControlPort(Service):
    """`commands`: more commands of the surrounding simulation, name to function of the words that follow."""

    def __init__(
        self, server: Server, controller: Controller, commands: Mapping[str, Command], port: int = PORT
    ) -> None:
        super().__init__(port)
        self.server, self.controller = server, controller
        self.faults = Faults(server, controller)
        self.scheduled: list[tuple[float, list[str]]] = []
        self.pending = self.scheduled
        self.commands: dict[str, Command] = {
            "inject": self.inject, "state": self.state, "log": self.log, "pwm": self.pwm, "digital": self.digital,
            "slider": self.slider, "place": self.place, "remote": self.remote, "variables": self.variables,
            "help": self.help, "analog": self.analog, "injections": self.injections, "at": self.at, **commands,
        }  # fmt: skip

    def received(self, link: Connection) -> None:
        for line in link.lines():
            if line.strip():
                link.send(json.dumps(self.answer(line), default=str).encode() + b"\n")
        if len(link.buffer) > _LINE_MAX:
            link.close()

    def answer(self, line: str) -> dict[str, Any]:
        try:
            if line.lstrip().startswith("{"):
                request = json.loads(line)
                name, args = str(request["command"]), request.get("args", [])
            else:
                name, *args = shlex.split(line)
            command = self.commands.get(name)
            if command is None:
                raise ValueError(f"no command {name!r}; there are {', '.join(sorted(self.commands))}")
            result = command(*args)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as e:
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
        values = program.variables() if program is not None else {}
        return {"variables": {name: _shown(value) for name, value in values.items()}}

    def pwm(
        self, pin: Any, is_on: Any, frequency_hz: Any = 1000.0, duty_percent: Any = 50.0, t_ns: Any = None
    ) -> dict[str, Any]:
        stamp = None if t_ns is None else int(t_ns)
        frequency, duty = within("frequency", frequency_hz, 0.1, 1e6), within("duty", duty_percent, 0.0, 100.0)
        news = self.controller.pwm(_pin(pin), on(is_on), stamp, frequency, duty)
        return {"ok": True, "news": news, "cycle": self.controller.cycle}

    def digital(self, pin: Any, is_on: Any) -> None:
        c, pin = self.controller, _pin(pin)
        c.lines.pop(pin, None)
        c.digital_in = c.digital_in & ~(1 << pin) | int(on(is_on)) << pin

    def slider(self, fraction: Any) -> None:
        value = float(fraction)
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"slider {value}: outside [0, 1]")
        self.controller.slider = value

    def place(self, *q: Any) -> None:
        if len(q) != 6:
            raise ValueError(f"place needs 6 joint positions in rad, not {len(q)}")
        c = self.controller
        wanted = [within("place", v, -JOINT_MAX_RAD, JOINT_MAX_RAD) for v in q]
        c.stop_program()
        c.move_by_hand([v - now for v, now in zip(wanted, c.state.q, strict=True)])

    def remote(self, is_on: Any) -> None:
        self.controller.remote = on(is_on)

    def analog(self, pin: Any, value: Any) -> None:
        """Analog inputs 0 and 1 of the control box (V), 2 and 3 of the tool."""
        number = int(pin)
        if number not in range(4):
            raise ValueError(f"analog {pin}: there are 0, 1 (control box), 2 and 3 (tool)")
        inputs = self.controller.analog_in if number < 2 else self.controller.tool_analog_in
        inputs[number % 2] = within("analog", value, 0.0, 10.0)

    def inject(self, what: str, *args: Any) -> None:
        self.faults.inject(what, *args)

    def injections(self) -> dict[str, Any]:
        """What `inject` can do."""
        return {"injections": {name: f"{words}: {text}".lstrip(": ") for name, (words, text) in INJECTIONS.items()}}

    def at(self, time_s: Any, *words: Any) -> None:
        """`at 2.5 inject estop on`: that command, at that controller time."""
        if not words or str(words[0]) not in self.commands:
            raise ValueError(
                f"at {time_s} {' '.join(map(str, words))}: no such command; there are {', '.join(sorted(self.commands))}"
            )
        self.scheduled.append((within("at", time_s, 0.0, 1e9), [str(w) for w in words]))
        self.scheduled.sort(key=lambda s: s[0])

    def publish(self) -> None:
        while self.scheduled and self.scheduled[0][0] <= self.controller.time_s:
            _, words = self.scheduled.pop(0)
            answer = self.answer(shlex.join(words))
            if "error" in answer:
                self.controller.note(f"at: {' '.join(words)}: {answer['error']}")


def _shown(value: Any) -> Any:
    """A script's value with its strings for people."""
    if isinstance(value, str):
        return people_text(value)
    if isinstance(value, list):
        return [_shown(v) for v in value]
    return value


def _pin(value: Any) -> int:
    number = int(value)
    if number not in range(PINS):
        raise ValueError(f"pin {value}: digital inputs are 0 to {PINS - 1}")
    return number
