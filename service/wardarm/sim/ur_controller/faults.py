"""Everything that can be done to the simulated robot from outside: `inject NAME ...` on the control port."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from wardarm.sim.ur_controller.modes import RobotMode, SafetyMode
from wardarm.sim.ur_controller.safety import DUAL_INPUTS

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller
    from wardarm.sim.ur_controller.server import Server

_ON = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False}
GRAVITY_M_S2 = 9.82
SERVICES = ("rtde", "dashboard", "script", "control", "interpreter", "other")

# name: (its words, what it does); the text of `wardarm sim inject --help` and of `help` on the control port
INJECTIONS: dict[str, tuple[str, str]] = {
    "protective": ("[TEXT]", "protective stop; unlocking is refused for 5 s"),
    "safeguard": ("on|off", "safeguard inputs open or closed"),
    "safeguard_needs_reset": ("on|off", "a released safeguard waits for its reset input"),
    "safeguard_reset": ("", "the safeguard's reset input"),
    "estop": ("on|off", "the robot's emergency stop: power goes off"),
    "system_estop": ("on|off", "the system's emergency stop"),
    "channel": ("INPUT 1|2 on|off", "one channel of safeguard, estop or system_estop; a fault if they disagree for 0.5 s"),
    "violation": ("[TEXT]", "safety violation; needs `restart safety`"),
    "fault": ("[TEXT]", "fault; needs `restart safety`"),
    "recovery": ("on|off", "recovery mode: outside of a safety limit"),
    "reduced": ("on|off", "reduced mode"),
    "power": ("on|off", "arm power, without the waiting"),
    "power_loss": ("[S]", "mains gone for S seconds (2): every connection drops; afterwards POWER_OFF, no program"),
    "jog": ("D0 [D1 .. D5]", "the joints pushed by hand, rad"),
    "payload": ("KG", "what the gripper really carries: the force sensor reads the difference to the set payload"),
    "force": ("FX FY FZ [TX TY TZ]", "added to the TCP force, N and Nm, base frame; 0 0 0 ends it"),
    "popup": ("TEXT", "a popup on the pendant, until `close popup`"),
    "reset": ("", "everything as at the start but joints and clock: no program, no fault, outputs and registers zero"),
    "drop": ("SERVICE", "close its connections: rtde, dashboard, script, interpreter, control, other"),
    "refuse": ("SERVICE on|off", "close new connections at once, or take them again"),
    "mute": ("SERVICE on|off", "take its connections and commands and answer nothing, or speak again"),
    "freeze": ("S", "the whole controller stands still for S seconds"),
    "slow": ("FACTOR", "cycles last FACTOR times as long, 1 to 100; 1 ends it"),
}  # fmt: skip


def on(word: Any) -> bool:
    key = str(word).lower()
    if key not in _ON:
        raise ValueError(f"{word!r}: say on or off")
    return _ON[key]


class Faults:
    def __init__(self, server: Server, controller: Controller) -> None:
        self.server, self.controller = server, controller
        safety = controller.safety
        self._do: dict[str, Callable[..., None]] = {
            "protective": lambda *text: safety.protective_stop(controller.time_s, _text(text)),
            "safeguard": lambda word: safety.safeguard(on(word), controller.time_s),
            "safeguard_needs_reset": lambda word: setattr(safety, "safeguard_needs_reset", on(word)),
            "safeguard_reset": self._safeguard_reset,
            "estop": lambda word: safety.emergency_stop(on(word), controller.time_s),
            "system_estop": lambda word: safety.emergency_stop(on(word), controller.time_s, system=True),
            "channel": self._channel,
            "violation": lambda *text: safety.violation(controller.time_s, _text(text)),
            "fault": lambda *text: safety.violation(controller.time_s, _text(text), fault=True),
            "recovery": lambda word: safety.recovery(on(word), controller.time_s),
            "reduced": lambda word: safety.reduced(on(word), controller.time_s),
            "power": self._power,
            "power_loss": self._power_loss,
            "jog": self._jog,
            "payload": self._payload,
            "force": self._force,
            "popup": self._popup,
            "reset": self._reset,
            "drop": lambda name: server.drop(str(name)),
            "refuse": lambda name, word: server.refuse(str(name), on(word)),
            "mute": lambda name, word: server.mute(str(name), on(word)),
            "freeze": self._freeze,
            "slow": self._slow,
        }

    def inject(self, what: str, *args: Any) -> None:
        """Raises ValueError saying what there is, or which words an injection takes."""
        if what not in self._do:
            raise ValueError(f"no injection {what!r}; there are {', '.join(self._do)}")
        try:
            self._do[what](*args)
        except TypeError as e:
            raise ValueError(f"inject {what} {INJECTIONS[what][0]}: {len(args)} words do not fit") from e
        self.controller.note(f"injected {what} {' '.join(str(a) for a in args)}".rstrip())

    def _safeguard_reset(self) -> None:
        safety = self.controller.safety
        if not safety.safeguard_reset(self.controller.time_s):
            raise ValueError(f"nothing to reset: safety is {safety.mode.name}")

    def _channel(self, name: str, number: Any, word: Any) -> None:
        if name not in DUAL_INPUTS or int(number) not in (1, 2):
            raise ValueError(f"channel {name} {number}: inputs are {', '.join(DUAL_INPUTS)}, channels 1 and 2")
        self.controller.safety.channel(name, int(number) - 1, on(word), self.controller.time_s)

    def _power(self, word: Any) -> None:
        powered = on(word)
        if not powered:
            self.controller.stop_program()
            self.controller.safety.power_off()
        elif self.controller.safety.mode in (SafetyMode.NORMAL, SafetyMode.REDUCED, SafetyMode.SAFEGUARD_STOP):
            self.controller.safety.robot_mode = RobotMode.RUNNING
        else:
            raise ValueError(f"no power while safety is {self.controller.safety.mode.name}")

    def _power_loss(self, seconds: Any = 2.0) -> None:
        c = self.controller
        c.stop_program()
        c.safety.power_off()
        c.digital_out, c.analog_out, c.popup_open, c.loaded = 0, [0.0, 0.0], False, ""
        c.load_installation()
        self.server.away(within("power_loss", seconds, 0.0, 600.0))

    def _reset(self) -> None:
        c, server = self.controller, self.server
        c.stop_program()
        c.slot.last_error = ""
        c.safety.reset(c.time_s)
        c.remote, c.slider, c.popup_open, c.freedrive, c.loaded = True, 1.0, False, False, ""
        c.digital_in = c.digital_out = c.input_bits = c.output_bits = 0
        c.lines.clear()
        c.encoders.clear()
        c.force_bias = [0.0] * 6
        for numbers in (c.input_doubles, c.output_doubles, c.analog_in, c.tool_analog_in, c.analog_out):
            numbers[:] = [0.0] * len(numbers)
        c.input_ints[:] = c.output_ints[:] = [0] * 48
        c.load_installation()
        server.slowness = 1.0
        server.control.scheduled.clear()

    def _jog(self, *offsets: Any) -> None:
        if not 1 <= len(offsets) <= 6:
            raise ValueError(f"jog needs 1 to 6 joint offsets in rad, not {len(offsets)}")
        self.controller.move_by_hand(
            [*(within("jog", v, -2 * math.pi, 2 * math.pi) for v in offsets), *[0.0] * (6 - len(offsets))]
        )

    def _payload(self, kg: Any) -> None:
        extra = within("payload", kg, 0.0, 100.0) - self.controller.payload_kg
        self.controller.force_bias = [0.0, 0.0, -extra * GRAVITY_M_S2, 0.0, 0.0, 0.0]

    def _force(self, *wrench: Any) -> None:
        if len(wrench) not in (3, 6):
            raise ValueError(f"force needs 3 or 6 numbers, not {len(wrench)}")
        self.controller.force_bias = [
            *(within("force", v, -1000.0, 1000.0) for v in wrench),
            *[0.0] * (6 - len(wrench)),
        ]

    def _popup(self, *text: Any) -> None:
        self.controller.popup_open = True
        self.controller.note(f"popup Injected: {_text(text)}")

    def _freeze(self, seconds: Any) -> None:
        self.server.freeze_s = within("freeze", seconds, 0.0, 600.0)

    def _slow(self, factor: Any) -> None:
        self.server.slowness = within("slow", factor, 1.0, 100.0)


def _text(words: tuple[Any, ...]) -> str:
    return " ".join(str(w) for w in words) or "injected"


def within(name: str, value: Any, least: float, most: float) -> float:
    """The number, if it is one and in that range; NaN is in none. Raises ValueError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} {value}: not a number") from None
    if not least <= number <= most:
        raise ValueError(f"{name} {value}: outside [{least:g}, {most:g}]")
    return number


class _Elsewhere:
    """Stands in for a server when an injection is only rehearsed."""

    freeze_s, slowness = 0.0, 1.0

    def drop(self, name: str) -> None:
        if name not in SERVICES:
            raise ValueError(f"no service {name!r}; there are {', '.join(SERVICES)}")

    def refuse(self, name: str, on: bool) -> None:
        self.drop(name)

    def mute(self, name: str, on: bool) -> None:
        self.drop(name)

    def away(self, seconds: float) -> None:
        pass


def rehearse(words: Sequence[str]) -> None:
    """Raises ValueError if an injection can never be done: no such name, words that do not fit."""
    from wardarm.sim.plant import KinematicPlant
    from wardarm.sim.ur_controller.controller import ELBOW_UP, Controller

    if words and words[0] in ("safeguard_reset", "reset") and len(words) == 1:
        return  # the first depends on what happened before, the second takes no words
    controller = Controller(KinematicPlant(ELBOW_UP), compile_inline=True)
    Faults(cast(Any, _Elsewhere()), controller).inject(*words)
