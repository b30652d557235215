"""Script functions for registers, inputs and outputs, encoders, payload, messages and safety."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.kinematics import from_pose
from wardarm.sim.ur_controller.modes import RobotMode, SafetyMode
from wardarm.sim.urscript import Pose, Program, ScriptError, UrList, to_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

_INT32 = range(-(2**31), 2**31)


def _register(number: Any, what: str) -> int:
    if not isinstance(number, int) or not 0 <= number < 48:
        raise ScriptError(f"{what} register {to_text(number)}: there are 0 to 47")
    return number


def _bit(number: Any, most: int, what: str) -> int:
    if not isinstance(number, int) or not 0 <= number < most:
        raise ScriptError(f"{what} {to_text(number)}: there are 0 to {most - 1}")
    return number


class IoFunctions:
    def __init__(self, controller: Controller) -> None:
        self._c = controller

    def _attach(self, program: Program) -> None:
        pass

    # --- registers
    def read_input_integer_register(self, address: int) -> int:
        return self._c.input_ints[_register(address, "input integer")]

    def read_input_float_register(self, address: int) -> float:
        return self._c.input_doubles[_register(address, "input float")]

    def read_input_boolean_register(self, address: int) -> bool:
        return bool(self._c.input_bits >> _bit(address, 128, "input boolean register") & 1)

    def read_output_integer_register(self, address: int) -> int:
        return self._c.output_ints[_register(address, "output integer")]

    def read_output_float_register(self, address: int) -> float:
        return self._c.output_doubles[_register(address, "output float")]

    def read_output_boolean_register(self, address: int) -> bool:
        return bool(self._c.output_bits >> _bit(address, 128, "output boolean register") & 1)

    def write_output_integer_register(self, address: int, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value not in _INT32:
            raise ScriptError(f"output integer register {address}: {to_text(value)} is no 32-bit integer")
        self._c.output_ints[_register(address, "output integer")] = value

    def write_output_float_register(self, address: int, value: float) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ScriptError(f"output float register {address}: {to_text(value)} is no number")
        self._c.output_doubles[_register(address, "output float")] = float(value)

    def write_output_boolean_register(self, address: int, value: bool) -> None:
        bit = 1 << _bit(address, 128, "output boolean register")
        self._c.output_bits = self._c.output_bits & ~bit | (bit if value else 0)

    def rtde_set_watchdog(self, variable_name: str, min_frequency: float, action: str = "pause") -> None:
        if min_frequency <= 0 or action not in ("ignore", "pause", "stop"):
            raise ScriptError(f"rtde_set_watchdog({variable_name}, {min_frequency}, {action!r}) is not possible")
        self._c.watchdogs[variable_name] = (min_frequency, action)
        self._c.written_s[variable_name] = self._c.time_s

    # --- digital and analog; bits 0-7 standard, 8-15 configurable, 16-17 tool
    def _input(self, number: int) -> bool:
        return bool(self._c.digital_in >> number & 1)

    def _output(self, number: int, value: bool) -> None:
        self._c.digital_out = self._c.digital_out & ~(1 << number) | int(bool(value)) << number

    def get_standard_digital_in(self, n: int) -> bool:
        return self._input(_bit(n, 8, "standard digital input"))

    def get_configurable_digital_in(self, n: int) -> bool:
        return self._input(8 + _bit(n, 8, "configurable digital input"))

    def get_tool_digital_in(self, n: int) -> bool:
        return self._input(16 + _bit(n, 2, "tool digital input"))

    def get_digital_in(self, n: int) -> bool:
        return self._input(_bit(n, 18, "digital input"))

    def set_standard_digital_out(self, n: int, b: bool) -> None:
        self._output(_bit(n, 8, "standard digital output"), b)

    def set_configurable_digital_out(self, n: int, b: bool) -> None:
        self._output(8 + _bit(n, 8, "configurable digital output"), b)

    def set_tool_digital_out(self, n: int, b: bool) -> None:
        self._output(16 + _bit(n, 2, "tool digital output"), b)

    def set_digital_out(self, n: int, b: bool) -> None:
        self._output(_bit(n, 18, "digital output"), b)

    def get_standard_digital_out(self, n: int) -> bool:
        return bool(self._c.digital_out >> _bit(n, 8, "standard digital output") & 1)

    def get_digital_out(self, n: int) -> bool:
        return bool(self._c.digital_out >> _bit(n, 18, "digital output") & 1)

    def set_standard_analog_out(self, n: int, f: float) -> None:
        self._c.analog_out[_bit(n, 2, "analog output")] = float(f)

    def get_standard_analog_in(self, n: int) -> float:
        _bit(n, 2, "analog input")
        return 0.0

    # --- encoders
    def encoder_enable_pulse_decode(self, encoder_index: int, decoder_type: int, A: int, B: int = 0) -> None:
        _bit(encoder_index, 2, "encoder")
        _bit(decoder_type, 5, "decoder type")
        self._c.encoder(encoder_index, decoder_type, A)

    def encoder_get_tick_count(self, encoder_index: int) -> int:
        encoder = self._c.encoders.get(_bit(encoder_index, 2, "encoder"))
        if encoder is None:
            raise ScriptError(f"encoder {encoder_index} is not enabled: encoder_enable_pulse_decode comes first")
        return encoder.ticks

    def encoder_set_tick_count(self, encoder_index: int, count: int) -> None:
        encoder = self._c.encoders.get(_bit(encoder_index, 2, "encoder"))
        if encoder is None:
            raise ScriptError(f"encoder {encoder_index} is not enabled: encoder_enable_pulse_decode comes first")
        encoder.set(count)

    def encoder_unwind_delta_tick_count(self, encoder_index: int, delta_tick_count: int) -> int:
        """The shorter way round a 32-bit counter."""
        return (delta_tick_count + (1 << 31)) % (1 << 32) - (1 << 31)

    # --- payload and tool
    def set_payload(self, m: float, cog: Sequence[float] = (0.0, 0.0, 0.0)) -> None:
        if not 0 <= m <= 5.0:
            raise ScriptError(f"set_payload: {m} kg is outside the UR5e's 0 to 5 kg")
        self._c.payload_kg, self._c.payload_cog = float(m), [float(v) for v in cog]

    def set_target_payload(
        self, m: float, cog: Sequence[float] = (0.0, 0.0, 0.0), inertia: Any = None, transition_time: float = 0
    ) -> None:
        self.set_payload(m, cog)

    def set_payload_mass(self, m: float) -> None:
        self.set_payload(m, self._c.payload_cog)

    def set_payload_cog(self, CoG: Sequence[float]) -> None:
        self.set_payload(self._c.payload_kg, CoG)

    def get_target_payload(self) -> float:
        return self._c.payload_kg

    def get_target_payload_cog(self) -> UrList:
        return UrList(self._c.payload_cog)

    def get_target_payload_inertia(self) -> UrList:
        return UrList([0.0] * 6)

    def set_tcp(self, pose: Sequence[float], tcp_name: str = "") -> None:
        from_pose(pose)
        self._c.set_tcp(pose)

    def get_tcp_offset(self) -> Pose:
        return Pose(self._c.tcp_offset)

    def set_gravity(self, d: Any) -> None:
        pass

    # --- forces: measured by the plant, force control is not simulated
    def get_tcp_force(self) -> UrList:
        return UrList(self._c.state.tcp_force)

    def force(self) -> float:
        return float(sum(v * v for v in self._c.state.tcp_force[:3]) ** 0.5)

    def get_joint_torques(self) -> UrList:
        return UrList([0.0] * 6)

    def zero_ftsensor(self) -> None:
        pass

    def enable_external_ft_sensor(
        self, enable: bool, sensor_mass: float = 0.0, sensor_measuring_offset: Any = None, sensor_cog: Any = None
    ) -> None:
        pass

    def ft_rtde_input_enable(
        self, enable: bool, sensor_mass: float = 0.0, sensor_measuring_offset: Any = None, sensor_cog: Any = None
    ) -> None:
        pass

    def tool_contact(self, direction: Any = None) -> int:
        """Cycles since a contact: none is simulated."""
        return 0

    def get_freedrive_status(self) -> int:
        return 0

    def force_mode(self, task_frame: Any, selection_vector: Any, wrench: Any, type: int, limits: Any) -> None:
        self._c.note("force_mode is not simulated: the arm stays position-controlled")

    def end_force_mode(self) -> None:
        pass

    def force_mode_set_damping(self, damping: float) -> None:
        pass

    def force_mode_set_gain_scaling(self, scaling: float) -> None:
        pass

    def freedrive_mode(self, freeAxes: Any = None, feature: Any = None) -> None:
        self._c.note("freedrive_mode is not simulated")

    def end_freedrive_mode(self) -> None:
        pass

    def teach_mode(self) -> None:
        self._c.note("teach_mode is not simulated")

    def end_teach_mode(self) -> None:
        pass

    # --- messages and modes
    def textmsg(self, s1: Any, s2: Any = "") -> None:
        self._c.note("textmsg: " + to_text(s1) + to_text(s2))

    def popup(
        self, s: Any, title: str = "Popup", warning: bool = False, error: bool = False, blocking: bool = False
    ) -> None:
        self._c.note(f"popup {title}: {to_text(s)}")

    def protective_stop(self) -> None:
        self._c.safety.protective_stop(self._c.time_s, "asked for by the program")

    def powerdown(self) -> None:
        self._c.safety.power_off()

    def get_robot_mode(self) -> int:
        return int(self._c.safety.robot_mode)

    def get_safety_mode(self) -> int:
        return int(self._c.safety.mode)

    def is_robot_power_on(self) -> bool:
        return self._c.safety.robot_mode is RobotMode.RUNNING

    def is_robot_in_protective_stop(self) -> bool:
        return self._c.safety.mode is SafetyMode.PROTECTIVE_STOP
