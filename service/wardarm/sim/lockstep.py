"""The simulated controller without a clock: the caller steps it, cycle by cycle, as fast as the machine goes.

Interpreter, player, servo, safety and plant are those of the real-time simulation; only time is the caller's. There
are no threads, no sockets and no wall time, so the same calls with the same seed give the same bits in every process.

    sim = Lockstep()                      # perfect joints; Lockstep.bedside(scene) has MuJoCo's
    sim.load_player()
    sim.send(message)                     # arm.wire.encode_trajectory
    sim.permit(True)                      # pulses on the encoder input, gate's beat, a request
    sim.step(500)                         # one second
    sim.history["target_q_rad"]           # (cycles, 6)

Flows in: scripts, messages for the player, permit, injections on `sim.controller`. Flows out: registers, joints,
`history`. Messages are delivered between two cycles; what the network, RTDE and arm's own loop add on a real
installation (some ms) is not in it. `wardarm.sim.lockstep_arm` adds arm's checks.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import config as configuration
from wardarm.arm.player import PlayerParameters, script
from wardarm.sim.gripper import FreeFingers, GripperPort
from wardarm.sim.plant import KinematicPlant, Plant
from wardarm.sim.ur_controller.controller import DEFAULT_VERSION, ELBOW_UP, Controller
from wardarm.sim.ur_controller.kinematics import DhParameters
from wardarm.sim.ur_controller.links import FarEnd, LocalNetwork
from wardarm.sim.ur_controller.modes import CYCLE_S, Runtime
from wardarm.sim.ur_controller.pulses import PulseInput

CYCLE_NS = 2_000_000
ARM_ADDRESS, ARM_PORT = "10.0.0.2", 30101  # where the player calls arm: exists only inside a Lockstep
BEAT_CYCLES = 10  # gate's beat is renewed every 20 ms (configuration gate.beat_ms)
BEAT_REGISTER, REQUEST_REGISTER = 18, 19
STARTUP_CYCLES = 50

HISTORY = np.dtype(
    [
        ("cycle", "<f8"), ("target_q_rad", "<f8", 6), ("target_qd_rad_s", "<f8", 6), ("target_qdd_rad_s2", "<f8", 6),
        ("q_rad", "<f8", 6), ("qd_rad_s", "<f8", 6), ("ints", "<f8", 8), ("doubles", "<f8", 8), ("safety_mode", "<f8"),
        ("runtime", "<f8"), ("scale", "<f8"),
    ]
)  # fmt: skip
"""One row a cycle, after it. `ints`, `doubles`: output registers 12 to 19, the player's (docs/architecture.md 3.5)."""


class ArmEnd:
    """arm's side of the player's connection."""

    def __init__(self) -> None:
        self.link: FarEnd | None = None
        self.calls = 0
        self.heard: list[int] = []
        """What the player said in a silence: the last id it took."""

    def opened(self, link: Any) -> None:
        if self.link is not None:
            self.link.close()  # the newest call wins
        self.link, self.calls = link, self.calls + 1

    def received(self, link: Any) -> None:
        whole = len(link.buffer) // 4 * 4
        self.heard += np.frombuffer(bytes(link.buffer[:whole]), ">i4").tolist()
        del link.buffer[:whole]

    def closed(self, link: Any) -> None:
        if self.link is link:
            self.link = None


class Lockstep:
    """A controller that the caller steps. `on_cycle(sim)` runs after each cycle, inside `step`.

    `plant`: what the joints are (`wardarm.sim.plant`); default `KinematicPlant(q, lag_s=0.034)`. `dh`, `tcp`: the arm,
    default a nominal UR5e. `pulse_phase_s`: where in a cycle the permit's first edge lies, 0 to 0.002.
    """

    def __init__(
        self, plant: Plant | None = None, *, dh: DhParameters | None = None, tcp: Sequence[float] = (0.0,) * 6,
        q: Sequence[float] = ELBOW_UP, version: Sequence[int] = DEFAULT_VERSION, seed: int = 0,
        fingers: Any = None, pulse_phase_s: float = 0.0, record: bool = True,
    ) -> None:  # fmt: skip
        self.network = LocalNetwork()
        self.fingers = FreeFingers() if fingers is None else fingers
        self.controller = Controller(
            KinematicPlant(q) if plant is None else plant, dh, tcp, version, q,
            dial=self.network.dial, seed=seed, compile_inline=True,
        )  # fmt: skip
        self.controller.clock_ns = 0
        self.gripper = GripperPort(self.fingers)
        self.arm_end = ArmEnd()
        self.network.peers["", self.gripper.port] = self.gripper
        self.network.peers[ARM_ADDRESS, ARM_PORT] = self.arm_end
        self.on_cycle: Callable[[Lockstep], None] | None = None
        self.beating = False
        self.record = record
        self.pulse_phase_s = pulse_phase_s
        self._advance: Callable[[float], None] | None = getattr(self.fingers, "step", None)
        self._rows = array("d")
        self._beat = self._edges = 0
        self._pin, self._pwm_hz = 8, 1000.0

    @classmethod
    def bedside(
        cls, scene: Any = None, config: configuration.Config | None = None, *, seed: int = 0, **more: Any
    ) -> BedsideLockstep:
        """On the MuJoCo bedside: `world`, `judge`, `injections` as attributes. `scene`: default drawn from `seed`."""
        return BedsideLockstep(scene, config or configuration.load("desk"), seed=seed, **more)

    # --- programs
    def load(self, source: str, cycles: int = 1) -> None:
        """Compile and start a program. Raises RuntimeError if it cannot be compiled or does not start."""
        slot = self.controller.slot
        before = slot.started
        self.controller.submit(source)
        self.step(cycles)
        if slot.started == before:
            raise RuntimeError(f"the program did not start: {self.log(1)}")

    def load_player(self, **changes: Any) -> PlayerParameters:
        """Start player.script and wait until it has called. `changes`: fields of `arm.player.PlayerParameters`."""
        parameters = PlayerParameters(ARM_ADDRESS, ARM_PORT, **changes)
        calls = self.arm_end.calls
        self.beating = True  # arm passes gate's beat on from the upload
        self.load(script(parameters), STARTUP_CYCLES)
        if self.arm_end.calls == calls:
            raise RuntimeError(f"the player did not call: {self.controller.slot.last_error or self.log(3)}")
        self._pin, self._pwm_hz = parameters.encoder_a, parameters.pwm_hz
        return parameters

    def send(self, message: bytes) -> None:
        """To the player, as arm would (`arm.wire`); it reads one block of 80 bytes a cycle. Raises RuntimeError."""
        if self.arm_end.link is None:
            raise RuntimeError("the player is not connected: load_player() first")
        self.arm_end.link.send(message)

    # --- permit
    def permit(self, on: bool, at_s: float | None = None) -> None:
        """gate's permit: pulses from `at_s` (controller time; default: `pulse_phase_s` into the next cycle), beat, request.

        Off only takes the pulses away, as gate does.
        """
        if on:
            self.beating = True
            if self.controller.input_ints[REQUEST_REGISTER] == 0:
                self.request(1)
        self.pulses(on, at_s)

    def pulses(
        self, on: bool, at_s: float | None = None, frequency_hz: float | None = None, duty: float = 50.0
    ) -> None:
        """The PWM line alone. `duty` in per cent."""
        c = self.controller
        self._edges += 1
        line = c.lines.setdefault(self._pin, PulseInput())
        at = c.time_s + self.pulse_phase_s if at_s is None else at_s
        line.change(on, at, self._edges, frequency_hz or self._pwm_hz, duty)

    def request(self, number: int) -> None:
        """Input integer register 19: 0 takes the motion request back."""
        self.controller.input_ints[REQUEST_REGISTER] = number

    # --- time
    def step(self, cycles: int = 1) -> None:
        """Advance `cycles` times 2 ms."""
        c, network = self.controller, self.network
        for _ in range(cycles):
            if self.beating and c.cycle % BEAT_CYCLES == 0:
                self._beat += 1
                c.input_ints[BEAT_REGISTER] = self._beat
            network.pump()
            c.tick((c.cycle + 1) * CYCLE_NS)
            if self._advance is not None:
                self._advance(CYCLE_S)
            if self.record:
                self._note()
            if self.on_cycle is not None:
                self.on_cycle(self)

    def run(self, seconds: float) -> None:
        self.step(round(seconds / CYCLE_S))

    def until(self, condition: Callable[[Lockstep], bool], limit_s: float = 10.0) -> int:
        """Step until `condition(sim)`; returns the cycles it took. Raises TimeoutError after `limit_s` of controller time."""
        for cycles in range(round(limit_s / CYCLE_S)):
            if condition(self):
                return cycles
            self.step()
        raise TimeoutError(
            f"not within {limit_s} s: {self.state()}, last error {self.controller.slot.last_error or 'none'}"
        )

    # --- what can be read
    @property
    def cycle(self) -> int:
        return self.controller.cycle

    @property
    def time_s(self) -> float:
        return self.controller.time_s

    @property
    def q_rad(self) -> NDArray[np.float64]:
        """Where the joints are (actual_q)."""
        return np.array(self.controller.state.q)

    @property
    def target_q_rad(self) -> NDArray[np.float64]:
        return np.array(self.controller.servo.q)

    def int_register(self, number: int) -> int:
        """Output integer register 0 to 47."""
        return self.controller.output_ints[number]

    def double_register(self, number: int) -> float:
        return self.controller.output_doubles[number]

    def log(self, count: int = 20) -> list[str]:
        return [text for _, text in list(self.controller.log)[-count:]]

    def state(self) -> dict[str, Any]:
        c = self.controller
        return {
            "cycle": c.cycle, "program": c.slot.name, "runtime": c.slot.runtime.name,
            "safety_mode": c.safety.mode.name, "reason": c.safety.reason, "ints": c.output_ints[12:20],
            "doubles": c.output_doubles[12:20],
        }  # fmt: skip

    @property
    def playing(self) -> bool:
        """Whether a program runs."""
        return self.controller.slot.runtime is Runtime.PLAYING

    @property
    def history(self) -> NDArray[np.void]:
        """Every recorded cycle, dtype HISTORY: a copy."""
        return np.frombuffer(self._rows, np.float64).reshape(-1, HISTORY.itemsize // 8).copy().view(HISTORY).reshape(-1)

    def forget(self) -> None:
        """Empty the history."""
        self._rows = array("d")

    def digest(self) -> str:
        """SHA-256 of the history and the log: equal where two runs were equal to the bit."""
        whole = hashlib.sha256(self._rows.tobytes())
        whole.update(repr(list(self.controller.log)).encode())
        return whole.hexdigest()

    def _note(self) -> None:
        c, rows = self.controller, self._rows
        servo, state = c.servo, c.state
        rows.append(c.cycle)
        rows.extend(servo.q)
        rows.extend(servo.qd)
        rows.extend(servo.qdd)
        rows.extend(state.q)
        rows.extend(state.qd)
        rows.extend(c.output_ints[12:20])
        rows.extend(c.output_doubles[12:20])
        rows.extend((c.safety.mode, c.slot.runtime, c.scale))

    def close(self) -> None:
        self.controller.close()

    def __enter__(self) -> Lockstep:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BedsideLockstep(Lockstep):
    """The MuJoCo bedside, stepped by the caller: the same world, judge and injections as process `sim`, no pictures."""

    def __init__(self, scene: Any, config: configuration.Config, *, seed: int = 0, **more: Any) -> None:
        from wardarm.sim import robot, scenes
        from wardarm.sim.injections import Injections
        from wardarm.sim.judge import Judge
        from wardarm.sim.mujoco_plant import MujocoPlant
        from wardarm.sim.world import World

        self.config = config
        self.world = World()
        self.world.load(scenes.demo_scene(seed) if scene is None else scene)
        self.judge = Judge(self.world)
        self.injections = Injections(self.world, self.judge)
        plant = MujocoPlant(self.world, self.judge)
        arm = config.arm
        super().__init__(
            plant, dh=DhParameters(a=arm.dh_a, d=arm.dh_d, alpha=arm.dh_alpha), tcp=arm.tcp,
            q=more.pop("q", robot.HOME_Q_RAD), seed=seed, fingers=plant.fingers, **more,
        )  # fmt: skip
        self._advance = self.injections.advance  # the plant moves its own fingers; the visitor walks
