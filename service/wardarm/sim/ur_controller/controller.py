"""The controller's core: one `tick()` is one 2 ms cycle of program, servo, safety and plant.

Flows in: scripts, RTDE inputs, dashboard commands, PWM edges, injections (through the servers or directly). Flows out:
joint targets to the plant; everything RTDE publishes, as attributes. Knows nothing of sockets or wall time.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from wardarm.sim.plant import Plant
from wardarm.sim.ur_controller import external_control, supervision
from wardarm.sim.ur_controller.functions import FunctionTable
from wardarm.sim.ur_controller.interpreter import Interpreter
from wardarm.sim.ur_controller.kinematics import DhParameters, Frame, Kinematics, from_pose, product, to_pose
from wardarm.sim.ur_controller.links import Dial, TcpLink
from wardarm.sim.ur_controller.modes import CYCLE_S, RobotMode, Runtime, SafetyMode, safety_status_bits
from wardarm.sim.ur_controller.path_offset import PathOffset
from wardarm.sim.ur_controller.program_slot import Launch, ProgramSlot
from wardarm.sim.ur_controller.pulses import QUADRATURE, Encoder, PulseInput
from wardarm.sim.ur_controller.safety import (
    BRAKE_CATEGORY_0,
    BRAKE_CATEGORY_1,
    BRAKE_CATEGORY_2,
    OTHER,
    TARGET_JUMPS,
    Safety,
    SafetyLimits,
)
from wardarm.sim.ur_controller.servo import Servo

LOG_LINES = 1000
SLIDER_STEP = 0.02  # a cycle: a moved speed slider takes up to 100 ms; our figure
_DRIVEN = (RobotMode.RUNNING, RobotMode.IDLE)
ELBOW_UP = (0.0, -1.57, 1.57, -1.57, -1.57, 0.0)
READS_PER_CYCLE = 10
"""After so many reads external_control.urscript of Universal Robots' client library puts a sync() on PolyScope 5."""
DEFAULT_VERSION = (5, 21, 0, 0)
SERIAL = "20265500001"


class Controller:
    """A UR5e's controller. `dh` and `tcp` (m, rotation vector) describe the arm; `version` is what it says it runs.

    `dial` is how scripts reach other machines, `seed` feeds `random()`. `compile_inline`: programs are compiled where
    they are submitted, for a caller that has no clock to keep.
    """

    def __init__(
        self, plant: Plant, dh: DhParameters | None = None, tcp: Sequence[float] = (0.0,) * 6,
        version: Sequence[int] = DEFAULT_VERSION, q: Sequence[float] = ELBOW_UP, serial: str = SERIAL,
        *, dial: Dial = TcpLink, seed: int = 0, compile_inline: bool = False,
    ) -> None:  # fmt: skip
        self.dial = dial
        self.random = random.Random(seed)
        self.reads_per_cycle = 1
        """Socket reads of one thread that fit into a cycle: the slowest case. READS_PER_CYCLE is the usual one."""
        self.plant = plant
        self.kinematics = Kinematics(dh or DhParameters())
        self.tcp_offset: list[float] = [float(v) for v in tcp]
        self.tcp: Frame = from_pose(tcp)
        self.version = tuple(version)
        self.serial = serial
        self.limits = SafetyLimits()
        self.cycle = 0
        self.clock_ns = time.monotonic_ns()
        self.remote = True
        self.log: deque[tuple[int, str]] = deque(maxlen=LOG_LINES)
        self.listeners: list[Callable[[str], None]] = []
        """Hear every line of the log as it comes (the primary port)."""
        self.calibration_checksum: tuple[int, ...] = (0,) * 6
        self.force_bias: list[float] = [0.0] * 6  # injected: what the wrist's force sensor reads too much
        self.slider = 1.0
        self.slider_now = 1.0
        self.payload_kg = 0.0
        self.payload_cog: list[float] = [0.0] * 3
        self.input_ints, self.output_ints = [0] * 48, [0] * 48
        self.input_doubles, self.output_doubles = [0.0] * 48, [0.0] * 48
        self.input_bits = self.output_bits = 0  # bits 0..127
        self.digital_in = self.digital_out = 0
        self.analog_out = [0.0, 0.0]
        self.tool_out = 0
        self.analog_in = [0.0, 0.0]
        self.tool_analog_in = [0.0, 0.0]
        self.tool_voltage = 0
        self.flags = 0
        self.port_bits: dict[int, bool] = {}
        self.port_registers: dict[int, int] = {}
        self.payload_inertia: list[float] = [0.0] * 6
        self.gravity = [0.0, 0.0, 9.82]
        self.base_acceleration = [0.0, 0.0, 0.0]
        self.freedrive = False
        self.popup_open = False
        self.programs: Path | None = None
        """Folder of the programs that the dashboard can load; `loaded` names the one that is."""
        self.loaded = ""
        self.external_control: tuple[str, int] | None = None
        """Host and port that the External Control URCap asks for its program."""
        self._loaded_source = ""
        self._arriving: tuple[Future[str], Launch] | None = None
        self._installation = (list(self.tcp_offset), 0.0, [0.0] * 3)
        self.deviation_warning = math.inf
        self.past_q: deque[Sequence[float]] = deque(maxlen=1000)
        self.external_force: list[float] = [0.0] * 6
        self.lines: dict[int, PulseInput] = {}
        self.encoders: dict[int, Encoder] = {}
        self.watchdogs: dict[str, tuple[float, str]] = {}
        self.written_s: dict[str, float] = {}
        self.safety = Safety(self._stopped, self._cleared)
        self.servo = Servo(q)
        self.path_offset = PathOffset(self.kinematics)
        self.path_offset.tool = self.tcp
        self.state = plant.reset(q)
        self.interpreter = Interpreter()
        self.slot = ProgramSlot(self._functions, self.note, compile_inline)
        self._resume_after_safeguard = False
        self._frames: dict[str, Frame] = {}
        self.supervisor = supervision.Supervisor(self)

    # --- what RTDE and scripts read
    @property
    def time_s(self) -> float:
        return self.cycle * CYCLE_S

    @property
    def scale(self) -> float:
        """Share of program time that passes in a cycle: slider times pausing."""
        return self.slider_now * self.slot.scale

    @property
    def tcp_frame(self) -> Frame:
        return self._frame("actual", self.state.q)

    @property
    def target_tcp_frame(self) -> Frame:
        return self._frame("target", self.servo.q)

    def _frame(self, key: str, q: Sequence[float]) -> Frame:
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = product(self.kinematics.flange(q), self.tcp)
        return frame

    @property
    def tcp_pose(self) -> list[float]:
        return to_pose(self.tcp_frame)

    @property
    def target_tcp_pose(self) -> list[float]:
        return to_pose(self.target_tcp_frame)

    def tcp_speed(self, q: Sequence[float], qd: Sequence[float]) -> list[float]:
        """m/s and rad/s in the base frame."""
        if not any(qd):
            return [0.0] * 6
        return [float(v) for v in self.kinematics.jacobian(q, self.tcp) @ list(qd)]

    @property
    def safety_bits(self) -> int:
        return safety_status_bits(self.safety.mode)

    @property
    def status_bits(self) -> int:
        return int(self.safety.robot_mode >= RobotMode.IDLE) | int(self.slot.runtime is Runtime.PLAYING) << 1

    @property
    def elbow_position(self) -> tuple[float, float, float]:
        """The elbow's centre in the base frame, m; as of the two first joints' lengths, without calibration angles."""
        dh, (q0, q1) = self.kinematics.dh, self.state.q[:2]
        out = dh.a[1] * math.cos(q1)
        return out * math.cos(q0), out * math.sin(q0), dh.d[0] + dh.a[1] * math.sin(q1)

    def encoder_ticks(self, index: int) -> int:
        encoder = self.encoders.get(index)
        return 0 if encoder is None else (encoder.ticks + 2**31) % 2**32 - 2**31

    def note(self, text: str) -> None:
        self.log.append((self.cycle, text))
        for listener in self.listeners:
            listener(text)

    # --- one cycle
    def tick(self, now_ns: int | None = None) -> None:
        """Advance 2 ms. `now_ns`: the CLOCK_MONOTONIC instant of this cycle, for edges that carry one."""
        self.cycle += 1
        self.clock_ns = time.monotonic_ns() if now_ns is None else now_ns
        now_s = self.time_s
        if self.lines:
            self._count_pulses(now_s)
        self.safety.update(now_s)
        if self.slider_now != self.slider:
            self.slider_now += max(-SLIDER_STEP, min(SLIDER_STEP, self.slider - self.slider_now))
        if self._arriving is not None and self._arriving[0].done():
            self._arrived(*self._arriving)
        self.slot.update(self._may_start)
        if self.slot.run():
            self._program_over()
        if self.watchdogs:
            self._watch(now_s)
        servo = self.servo
        servo.limit_rad_s = self.limits.joint_rad_s
        if self.safety.robot_mode in _DRIVEN:
            servo.step(self.slider_now * self.slot.scale)
        elif any(servo.qd):
            servo.step(1.0)  # still braking
        self.state = self.plant.step(servo.q, servo.qd)
        if any(self.force_bias):
            force = tuple(f + b for f, b in zip(self.state.tcp_force, self.force_bias, strict=True))
            self.state = self.state._replace(tcp_force=force)
        self.past_q.append(self.state.q)
        self._frames.clear()
        if servo.fault:
            self.safety.protective_stop(now_s, servo.fault, TARGET_JUMPS if servo.jumped else OTHER)
            servo.fault = ""
        self.supervisor.check()

    def _count_pulses(self, now_s: float) -> None:
        for number, line in self.lines.items():
            line.advance(now_s)
            self.digital_in = self.digital_in & ~(1 << number) | int(line.level) << number

    def _may_start(self) -> str:
        if self.safety.robot_mode is not RobotMode.RUNNING:
            return f"the robot is {self.safety.robot_mode.name}"
        if not self.safety.may_move:
            return f"safety is {self.safety.mode.name}"
        return ""

    def _watch(self, now_s: float) -> None:
        for name, (frequency_hz, action) in list(self.watchdogs.items()):
            if self.slot.runtime is not Runtime.PLAYING or now_s - self.written_s.get(name, 0.0) <= 1.0 / frequency_hz:
                continue
            self.note(f"RTDE watchdog {name}: {action}")
            del self.watchdogs[name]
            if action == "stop":
                self.stop_program()
            elif action == "pause":
                self.slot.pause()

    # --- programs
    def submit(self, source: str) -> Launch:
        """A script from one of the script ports. What is wrong with it goes to the log, as on the real one.

        Bytes that are no UTF-8 stand in it as surrogates (`surrogateescape`): strings of a script are bytes.
        """
        if not self.remote:
            self.note("script refused: the robot is in local control")
            return Launch(outcome=False)
        return self.slot.submit(source)

    def stop_program(self) -> bool:
        if not self.slot.stop():
            return False
        self._program_over()
        return True

    def _program_over(self) -> None:
        self.servo.brake(BRAKE_CATEGORY_2)
        self.watchdogs.clear()

    def play(self) -> bool:
        """Goes on with a paused program, or starts the one that is loaded. False if neither can be."""
        return self.launch().outcome is not False

    def launch(self) -> Launch:
        """As `play`; what it returns tells when the program runs."""
        if not self.safety.may_move:
            return Launch(outcome=False)
        if self.slot.resume():
            return Launch(outcome=True)
        if not self.loaded or self.slot.program is not None or self.safety.robot_mode is not RobotMode.RUNNING:
            return Launch(outcome=False)
        if self._loaded_source:
            launch = self.slot.submit(self._loaded_source)
            if self.slot.inline:  # whoever waits for it may be the one who steps the clock
                self.slot.update(self._may_start)
            return launch
        if self.external_control is None:
            return Launch(outcome=False)
        if self._arriving is not None:
            self._arriving[1].outcome = False
        launch = Launch()
        self._arriving = external_control.fetch(*self.external_control), launch
        return launch

    def _arrived(self, program: Future[str], launch: Launch) -> None:
        self._arriving = None
        try:
            self.slot.submit(program.result(), launch)
        except OSError as e:
            launch.outcome = False
            self.popup_open = True
            self.note(f"popup External Control: {e}")

    def load(self, name: str) -> None:
        """A program of the folder `programs`: `NAME.urp` and `NAME` mean NAME.script. Raises OSError."""
        short = name.removeprefix("/ursim").removeprefix("/programs/")  # /programs on a robot, /ursim/programs in URSim
        path = ((self.programs or Path()) / short).with_suffix(".script").resolve()
        if self.programs is not None and path.is_relative_to(self.programs.resolve()) and path.exists():
            self._loaded_source = path.read_text("utf-8", "surrogateescape")
        elif self.external_control is not None and Path(short).stem == external_control.PROGRAM:
            self._loaded_source = ""
        else:
            raise FileNotFoundError(name)
        self.loaded = short
        self.stop_program()

    def set_installation(self, tcp: Sequence[float], payload_kg: float, cog_m: Sequence[float]) -> None:
        """What `load installation` and the start give: TCP (m, rotation vector), payload and its centre of gravity."""
        self._installation = (list(tcp), payload_kg, list(cog_m))
        self.load_installation()

    def load_installation(self) -> None:
        tcp, self.payload_kg, cog = self._installation
        self.payload_cog = list(cog)
        self.set_tcp(tcp)

    def pause(self) -> bool:
        return self.slot.pause()

    # --- safety
    def _stopped(self, mode: SafetyMode) -> None:
        self.note(f"{mode.name}: {self.safety.reason}")
        if mode is SafetyMode.SAFEGUARD_STOP:
            self._resume_after_safeguard = self.slot.pause()
        elif mode is SafetyMode.PROTECTIVE_STOP:
            self._resume_after_safeguard = False
            self.slot.freeze()
            self.path_offset.hold()
            self.servo.brake(BRAKE_CATEGORY_0)
        else:
            self.slot.stop()
            self.watchdogs.clear()
            category_0 = mode in (SafetyMode.VIOLATION, SafetyMode.FAULT)
            self.servo.brake(BRAKE_CATEGORY_0 if category_0 else BRAKE_CATEGORY_1)

    def _cleared(self, was: SafetyMode) -> None:
        self.note(f"{was.name} over")
        if was is SafetyMode.SAFEGUARD_STOP and self._resume_after_safeguard:
            self.slot.resume()
            self._resume_after_safeguard = False

    # --- inputs
    def pwm(
        self, pin: int, on: bool, t_ns: int | None = None, frequency_hz: float = 1000.0, duty_percent: float = 50.0
    ) -> bool:
        """The PWM line `pin` is on or off since `t_ns` (CLOCK_MONOTONIC; None: from now on). Says if that was news."""
        line = self.lines.setdefault(pin, PulseInput())
        changed_ns = time.monotonic_ns() if t_ns is None else t_ns
        at_s = self.time_s if t_ns is None else self.time_s + (t_ns - self.clock_ns) * 1e-9
        return line.change(on, at_s, changed_ns, frequency_hz, duty_percent)

    def encoder(self, index: int, decoder: int, pin: int, pin_b: int = 0) -> None:
        """Decoder `index` on input `pin` (A); a quadrature decoder also takes `pin_b` (B)."""
        other = self.lines.setdefault(pin_b, PulseInput()) if decoder == QUADRATURE else None
        self.encoders[index] = Encoder(self.lines.setdefault(pin, PulseInput()), decoder, other=other)

    def move_by_hand(self, offsets_rad: Sequence[float]) -> None:
        """Joints pushed while nothing drives them: target and actual position change together."""
        q = [a + b for a, b in zip(self.state.q, offsets_rad, strict=True)]
        self.servo.set(q)
        self.state = self.plant.reset(q)
        self._frames.clear()

    def set_tcp(self, pose: Sequence[float]) -> None:
        self.tcp_offset = [float(v) for v in pose]
        self.tcp = self.path_offset.tool = from_pose(pose)
        self._frames.clear()

    def _functions(self) -> tuple[Mapping[str, Any], Any]:
        table = FunctionTable(self)
        return table.functions, table.attach

    def functions(self) -> Mapping[str, Any]:
        """What scripts may call, at this version."""
        return self._functions()[0]

    def close(self) -> None:
        self.slot.close()
