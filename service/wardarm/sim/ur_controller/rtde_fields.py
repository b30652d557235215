"""Every RTDE field this controller has: its type and where its value comes from.

Names and types: universal-robots.com, "Real-Time Data Exchange guide". A recipe is turned into one compiled
expression and one `struct` format, so that a packet costs one call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

FORMATS = {
    "VECTOR6D": "6d", "VECTOR3D": "3d", "DOUBLE": "d", "INT32": "i", "UINT32": "I", "UINT64": "Q", "UINT8": "B",
    "BOOL": "?", "VECTOR6INT32": "6i", "VECTOR6UINT32": "6I",
}  # fmt: skip
_VECTORS = frozenset(t for t in FORMATS if t.startswith("VECTOR"))
_ZERO = {"VECTOR6D": "(0.0,)*6", "VECTOR3D": "(0.0,)*3", "VECTOR6INT32": "(0,)*6", "VECTOR6UINT32": "(0,)*6"}

# name: (type, Python expression of the controller `c`)
OUTPUTS: dict[str, tuple[str, str]] = {
    "timestamp": ("DOUBLE", "c.time_s"),
    "target_q": ("VECTOR6D", "c.servo.q"),
    "target_qd": ("VECTOR6D", "c.servo.qd"),
    "target_qdd": ("VECTOR6D", "c.servo.qdd"),
    "actual_q": ("VECTOR6D", "c.state.q"),
    "actual_qd": ("VECTOR6D", "c.state.qd"),
    "actual_current": ("VECTOR6D", "c.state.current"),
    "actual_TCP_pose": ("VECTOR6D", "c.tcp_pose"),
    "target_TCP_pose": ("VECTOR6D", "c.target_tcp_pose"),
    "actual_TCP_speed": ("VECTOR6D", "c.tcp_speed(c.state.q, c.state.qd)"),
    "target_TCP_speed": ("VECTOR6D", "c.tcp_speed(c.servo.q, c.servo.qd)"),
    "actual_TCP_force": ("VECTOR6D", "c.state.tcp_force"),
    "actual_digital_input_bits": ("UINT64", "c.digital_in"),
    "actual_digital_output_bits": ("UINT64", "c.digital_out"),
    "actual_execution_time": ("DOUBLE", "0.0"),
    "joint_temperatures": ("VECTOR6D", "(30.0,)*6"),
    "robot_mode": ("INT32", "c.safety.robot_mode"),
    "joint_mode": ("VECTOR6INT32", "(253 if c.safety.robot_mode == 7 else 239,)*6"),
    "safety_mode": ("INT32", "c.safety.mode"),
    "safety_status": ("INT32", "c.safety.mode"),
    "runtime_state": ("UINT32", "c.slot.runtime"),
    "robot_status_bits": ("UINT32", "c.status_bits"),
    "safety_status_bits": ("UINT32", "c.safety_bits"),
    "speed_scaling": ("DOUBLE", "c.scale"),
    "target_speed_fraction": ("DOUBLE", "c.slider"),
    "actual_main_voltage": ("DOUBLE", "48.0"),
    "actual_robot_voltage": ("DOUBLE", "48.0 if c.safety.robot_mode >= 4 else 0.0"),
    "actual_joint_voltage": ("VECTOR6D", "(48.0 if c.safety.robot_mode >= 4 else 0.0,)*6"),
    "standard_analog_output0": ("DOUBLE", "c.analog_out[0]"),
    "standard_analog_output1": ("DOUBLE", "c.analog_out[1]"),
    "payload": ("DOUBLE", "c.payload_kg"),
    "payload_cog": ("VECTOR3D", "c.payload_cog"),
    "tcp_offset": ("VECTOR6D", "c.tcp_offset"),
    "output_bit_registers0_to_31": ("UINT32", "c.output_bits & 0xFFFFFFFF"),
    "output_bit_registers32_to_63": ("UINT32", "c.output_bits >> 32 & 0xFFFFFFFF"),
    "input_bit_registers0_to_31": ("UINT32", "c.input_bits & 0xFFFFFFFF"),
    "input_bit_registers32_to_63": ("UINT32", "c.input_bits >> 32 & 0xFFFFFFFF"),
    "io_current": ("DOUBLE", "0.0"),
}
# Known to this controller
OUTPUTS.update({
    "tcp_force_scalar": ("DOUBLE", "sum(v * v for v in c.state.tcp_force[:3]) ** 0.5"),
    "payload_inertia": ("VECTOR6D", "c.payload_inertia"),
    "elbow_position": ("VECTOR3D", "c.elbow_position"),
    "standard_analog_input0": ("DOUBLE", "c.analog_in[0]"),
    "standard_analog_input1": ("DOUBLE", "c.analog_in[1]"),
    "tool_analog_input0": ("DOUBLE", "c.tool_analog_in[0]"),
    "tool_analog_input1": ("DOUBLE", "c.tool_analog_in[1]"),
    "tool_output_voltage": ("INT32", "c.tool_voltage"),
    "tool_mode": ("UINT32", "253 if c.safety.robot_mode >= 4 else 239"),
    "actual_configurable_digital_input_bits": ("UINT64", "c.digital_in >> 8 & 0xFF"),
    "actual_configurable_digital_output_bits": ("UINT64", "c.digital_out >> 8 & 0xFF"),
    "encoder0_raw": ("INT32", "c.encoder_ticks(0)"),
    "encoder1_raw": ("INT32", "c.encoder_ticks(1)"),
    "joint_position_deviation_ratio": (
        "DOUBLE", "max(abs(a - b) for a, b in zip(c.servo.q, c.state.q)) / c.limits.deviation_rad"),
    "actual_tool_accelerometer": ("VECTOR3D", "(0.0, 0.0, 9.82)"),
    "tool_temperature": ("DOUBLE", "30.0"),
    "target_execution_time": ("DOUBLE", "0.0"),
    "ft_raw_wrench": ("VECTOR6D", "c.state.tcp_force"),
    "target_gravity": ("VECTOR3D", "c.gravity"),
    "target_base_acceleration": ("VECTOR6D", "(*c.base_acceleration, 0.0, 0.0, 0.0)"),
})  # fmt: skip
# Published, and measured by nothing here: they are there, and zero.
_ABSENT = {
    "VECTOR6D": "target_current target_moment actual_current_window joint_control_output wrench_calc_from_currents "
    "actual_TCP_acceleration target_TCP_acceleration",
    "VECTOR3D": "elbow_velocity",
    "DOUBLE": "actual_momentum actual_robot_current tool_output_current euromap67_24V_voltage euromap67_24V_current "
    "collision_detection_ratio",
    "UINT32": "analog_io_types tool_analog_input_types euromap67_input_bits euromap67_output_bits script_control_line",
    "UINT8": "tool_output_mode tool_digital_output0_mode tool_digital_output1_mode",
    "INT32": "time_scale_source",
}
ABSENT = frozenset(name for names in _ABSENT.values() for name in names.split())
for _type, _names in _ABSENT.items():
    for _name in _names.split():
        OUTPUTS[_name] = (_type, _ZERO.get(_type, "0.0" if _type == "DOUBLE" else "0"))
# Fields whose first version is known to lie above 5.11, by the guide's "introduced in version"; the others are there
# at every version. Later ones (actual_current_as_torque, actual_robot_energy_consumed and
# actual_robot_braking_energy_dissipated of 5.23, control_step, target_base_wrench) are NOT_FOUND.
SINCE: dict[str, tuple[int, int]] = {
    "joint_position_deviation_ratio": (5, 15), "collision_detection_ratio": (5, 15), "time_scale_source": (5, 17),
}  # fmt: skip
for _i in range(48):
    OUTPUTS[f"output_int_register_{_i}"] = ("INT32", f"c.output_ints[{_i}]")
    OUTPUTS[f"output_double_register_{_i}"] = ("DOUBLE", f"c.output_doubles[{_i}]")
    OUTPUTS[f"input_int_register_{_i}"] = ("INT32", f"c.input_ints[{_i}]")
    OUTPUTS[f"input_double_register_{_i}"] = ("DOUBLE", f"c.input_doubles[{_i}]")
for _i in range(64, 128):
    OUTPUTS[f"output_bit_register_{_i}"] = ("BOOL", f"bool(c.output_bits >> {_i} & 1)")
    OUTPUTS[f"input_bit_register_{_i}"] = ("BOOL", f"bool(c.input_bits >> {_i} & 1)")

INPUTS: dict[str, str] = {
    "speed_slider_mask": "UINT32", "speed_slider_fraction": "DOUBLE", "standard_digital_output_mask": "UINT8",
    "standard_digital_output": "UINT8", "configurable_digital_output_mask": "UINT8",
    "configurable_digital_output": "UINT8", "tool_digital_output_mask": "UINT8", "tool_digital_output": "UINT8",
    "standard_analog_output_mask": "UINT8", "standard_analog_output_type": "UINT8",
    "standard_analog_output_0": "DOUBLE", "standard_analog_output_1": "DOUBLE", "external_force_torque": "VECTOR6D",
    "input_bit_registers0_to_31": "UINT32", "input_bit_registers32_to_63": "UINT32",
}  # fmt: skip
for _i in range(48):
    INPUTS[f"input_int_register_{_i}"] = "INT32"
    INPUTS[f"input_double_register_{_i}"] = "DOUBLE"
for _i in range(64, 128):
    INPUTS[f"input_bit_register_{_i}"] = "BOOL"


def type_of(name: str, version: Sequence[int]) -> str:
    """The type of an output field at a PolyScope version, or NOT_FOUND."""
    if name not in OUTPUTS or tuple(version[:2]) < SINCE.get(name, (0, 0)):
        return "NOT_FOUND"
    return OUTPUTS[name][0]


def expression_packer(fields: Sequence[tuple[str, str]]) -> Callable[[Controller], bytes]:
    """A function that packs these expressions of the controller `c`, big-endian: (struct format, expression)."""
    layout = struct.Struct(">" + "".join(form for form, _ in fields))
    parts = ", ".join(("*" if form[:-1] else "") + f"({expression})" for form, expression in fields)
    made: Callable[[Controller], bytes] = eval(f"lambda c: pack({parts})", {"pack": layout.pack})
    return made


@lru_cache(maxsize=128)
def output_packer(names: tuple[str, ...], recipe: int | None) -> Callable[[Controller], bytes]:
    """A function that makes one data packet, header and all. `recipe`: its id, None in protocol version 1.

    The same recipe gives the same function, so that what several clients get is made once a cycle.
    """
    types = [OUTPUTS[n][0] for n in names]
    layout = struct.Struct(">HB" + ("" if recipe is None else "B") + "".join(FORMATS[t] for t in types))
    parts = [str(layout.size), str(ord("U"))] + ([] if recipe is None else [str(recipe)])
    for name, kind in zip(names, types, strict=True):
        parts.append(("*" if kind in _VECTORS else "") + f"({OUTPUTS[name][1]})")
    made: Callable[[Controller], bytes] = eval(f"lambda c: pack({', '.join(parts)})", {"pack": layout.pack})
    return made


def input_reader(names: Sequence[str]) -> tuple[struct.Struct, Callable[[bytes, Controller], None]]:
    """How a data packet of these inputs is read, and a function that applies one to the controller."""
    layout = struct.Struct(">" + "".join(FORMATS[INPUTS[n]] for n in names))
    widths = [6 if INPUTS[n] == "VECTOR6D" else 1 for n in names]

    def apply(payload: bytes, c: Controller) -> None:
        flat = layout.unpack_from(payload)
        values: dict[str, Any] = {}
        at = 0
        for name, width in zip(names, widths, strict=True):
            values[name] = flat[at] if width == 1 else flat[at : at + width]
            at += width
        write_inputs(values, c)

    return layout, apply


def write_inputs(values: dict[str, Any], c: Controller) -> None:
    """Take over what an RTDE client wrote."""
    now_s = c.time_s
    for name, value in values.items():
        c.written_s[name] = now_s
        if name.startswith("input_int_register_"):
            c.input_ints[int(name[19:])] = value
        elif name.startswith("input_double_register_"):
            c.input_doubles[int(name[22:])] = value
        elif name.startswith("input_bit_register_"):
            bit = int(name[19:])
            c.input_bits = c.input_bits & ~(1 << bit) | int(bool(value)) << bit
        elif name == "input_bit_registers0_to_31":
            c.input_bits = c.input_bits & ~0xFFFFFFFF | int(value)
        elif name == "input_bit_registers32_to_63":
            c.input_bits = c.input_bits & ~(0xFFFFFFFF << 32) | int(value) << 32
        elif name == "external_force_torque":
            c.external_force = list(value)
    if values.get("speed_slider_mask"):
        c.slider = min(1.0, max(0.0, float(values.get("speed_slider_fraction", c.slider))))
    for group, shift in (("standard", 0), ("configurable", 8), ("tool", 16)):
        mask = int(values.get(f"{group}_digital_output_mask", 0))
        if mask:
            bits = int(values.get(f"{group}_digital_output", 0)) & mask
            c.digital_out = c.digital_out & ~(mask << shift) | bits << shift
    analog = int(values.get("standard_analog_output_mask", 0))
    for i in range(2):
        if analog >> i & 1:
            c.analog_out[i] = float(values.get(f"standard_analog_output_{i}", 0.0))
