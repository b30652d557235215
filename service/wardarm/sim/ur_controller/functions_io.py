"""Script functions for registers, inputs, outputs, flags and encoders."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from wardarm.sim.ur_controller.pulses import QUADRATURE, Encoder
from wardarm.sim.ur_controller.rtde_fields import FORMATS, output_packer, type_of
from wardarm.sim.urscript import Program, ScriptError, UrList, to_text

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

_INT32 = range(-(2**31), 2**31)
_REGISTERS = 48


def _register(number: Any, what: str) -> int:
    if not isinstance(number, int) or not 0 <= number < _REGISTERS:
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
        if address.__class__ is int and 0 <= address < _REGISTERS:  # programs read and write these every cycle
            return self._c.input_ints[address]
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
        if value.__class__ is not int or value not in _INT32:
            raise ScriptError(f"output integer register {address}: {to_text(value)} is no 32-bit integer")
        if address.__class__ is not int or not 0 <= address < _REGISTERS:
            _register(address, "output integer")
        self._c.output_ints[address] = value

    def write_output_float_register(self, address: int, value: float) -> None:
        if value.__class__ is not float and value.__class__ is not int:
            raise ScriptError(f"output float register {address}: {to_text(value)} is no number")
        if address.__class__ is not int or not 0 <= address < _REGISTERS:
            _register(address, "output float")
        self._c.output_doubles[address] = float(value)

    def write_output_boolean_register(self, address: int, value: bool) -> None:
        bit = 1 << _bit(address, 128, "output boolean register")
        self._c.output_bits = self._c.output_bits & ~bit | (bit if value else 0)

    def rtde_set_watchdog(self, variable_name: str, min_frequency: float, action: str = "pause") -> None:
        if min_frequency <= 0 or str(action).lower() not in ("ignore", "pause", "stop"):
            raise ScriptError(f"rtde_set_watchdog({variable_name}, {min_frequency}, {action!r}) is not possible")
        self._c.watchdogs[variable_name] = (min_frequency, action.lower())
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

    def get_configurable_digital_out(self, n: int) -> bool:
        return bool(self._c.digital_out >> 8 + _bit(n, 8, "configurable digital output") & 1)

    def get_tool_digital_out(self, n: int) -> bool:
        return bool(self._c.digital_out >> 16 + _bit(n, 2, "tool digital output") & 1)

    def set_standard_analog_out(self, n: int, f: float) -> None:
        self.set_analog_out(n, f)

    def set_analog_out(self, n: int, f: float) -> None:
        if not 0 <= f <= 1:
            raise ScriptError(f"analog output {n}: level {f} is outside [0, 1]")
        self._c.analog_out[_bit(n, 2, "analog output")] = float(f)

    def get_standard_analog_out(self, n: int) -> float:
        return float(self._c.analog_out[_bit(n, 2, "analog output")])

    def get_analog_out(self, n: int) -> float:
        return self.get_standard_analog_out(n)

    def get_standard_analog_in(self, n: int) -> float:
        return float(self._c.analog_in[_bit(n, 2, "analog input")])

    def get_tool_analog_in(self, n: int) -> float:
        return float(self._c.tool_analog_in[_bit(n, 2, "tool analog input")])

    def get_analog_in(self, n: int) -> float:
        """Deprecated: 0 and 1 are the standard inputs, 2 and 3 the tool's."""
        _bit(n, 4, "analog input")
        return self.get_standard_analog_in(n) if n < 2 else self.get_tool_analog_in(n - 2)

    def set_tool_voltage(self, voltage: int) -> None:
        if voltage not in (0, 12, 24):
            raise ScriptError(f"set_tool_voltage: {voltage} V, expected 0, 12 or 24")
        self._c.tool_voltage = int(voltage)

    # --- flags and ports: memory that programs (and Modbus clients of a real controller) share
    def set_flag(self, n: int, b: bool) -> None:
        bit = 1 << _bit(n, 32, "flag")
        self._c.flags = self._c.flags & ~bit | (bit if b else 0)

    def get_flag(self, n: int) -> bool:
        return bool(self._c.flags >> _bit(n, 32, "flag") & 1)

    def write_port_bit(self, address: int, value: bool) -> None:
        self._c.port_bits[_bit(address, 65536, "port bit")] = bool(value)

    def read_port_bit(self, address: int) -> bool:
        return self._c.port_bits.get(_bit(address, 65536, "port bit"), False)

    def write_port_register(self, address: int, value: int) -> None:
        if not -32768 <= value <= 65535:
            raise ScriptError(f"write_port_register: {value} is no 16-bit number")
        self._c.port_registers[_bit(address, 65536, "port register")] = value

    def read_port_register(self, address: int) -> int:
        return self._c.port_registers.get(_bit(address, 65536, "port register"), 0)

    def get_rtde_value(self, key: str) -> Any:
        """An RTDE output field."""
        kind = type_of(key, self._c.version)
        if kind == "NOT_FOUND":
            raise ScriptError(f"get_rtde_value: no output field {key!r}")
        packet = output_packer((str(key),), None)(self._c)
        values = struct.unpack(">" + FORMATS[kind], packet[3:])  # after size and type
        return UrList(values) if kind.startswith("VECTOR") else values[0]

    # --- encoders
    def encoder_enable_pulse_decode(self, encoder_index: int, decoder_type: int, A: int, B: int = 0) -> None:
        _bit(encoder_index, 2, "encoder")
        _bit(decoder_type, 5, "decoder type")
        if not decoder_type:
            self._c.encoders[encoder_index] = Encoder(None, 0)
            return
        for pin in (A, B) if decoder_type == QUADRATURE else (A,):
            if pin.__class__ is not int or pin not in range(8, 12):
                raise ScriptError(f"encoder_enable_pulse_decode: input {to_text(pin)}, expected 8 to 11")
        self._c.encoder(encoder_index, decoder_type, A, B)

    def encoder_enable_set_tick_count(self, encoder_index: int, range_id: int) -> None:
        """Ticks that the program itself brings."""
        self._c.encoders[_bit(encoder_index, 2, "encoder")] = Encoder(None, 0, _bit(range_id, 5, "range"))

    def _encoder(self, index: int) -> Encoder:
        encoder = self._c.encoders.get(index) if index.__class__ is int else None
        if encoder is None:
            _bit(index, 2, "encoder")
            raise ScriptError(f"encoder {index} is not enabled: encoder_enable_pulse_decode comes first")
        return encoder

    def encoder_get_tick_count(self, encoder_index: int, opt: str = "") -> int:
        return self._encoder(encoder_index).ticks

    def encoder_set_tick_count(self, encoder_index: int, count: int) -> None:
        self._encoder(encoder_index).set(count)

    def encoder_unwind_delta_tick_count(self, encoder_index: int, delta_tick_count: int) -> int:
        """The shorter way round the encoder's range."""
        return self._encoder(encoder_index).unwind(delta_tick_count)

    def conveyor_pulse_decode(self, type: int, A: int, B: int = 0) -> None:
        """Deprecated: encoder 0 on digital inputs 0 to 3."""
        _bit(type, 5, "decoder type")
        self._c.encoder(0, type, _bit(A, 4, "encoder input"), _bit(B, 4, "encoder input"))

    def get_conveyor_tick_count(self) -> int:
        return self._encoder(0).ticks

    def set_conveyor_tick_count(self, tick_count: int, absolute_encoder_resolution: int = 0) -> None:
        if 0 not in self._c.encoders:
            self.encoder_enable_set_tick_count(0, absolute_encoder_resolution)
        self._encoder(0).set(tick_count)
