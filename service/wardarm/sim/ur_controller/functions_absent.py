"""What the manual lists and this controller does not model: each says so when it is called, none is silent.

`WARNED` are accepted, logged and without effect; `REFUSED` end the program, because it would go on with a made-up
answer. docs/sim_ur_script.md is the table of all functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from wardarm.sim.urscript import ScriptError

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller

# name: its parameters, `?` marks one that may be left out
WARNED: dict[str, str] = {
    "enable_external_ft_sensor": "enable sensor_mass? sensor_measuring_offset? sensor_cog?",
    "end_force_mode": "",
    "end_screw_driving": "",
    "force_mode": "task_frame selection_vector wrench type limits",
    "force_mode_set_damping": "damping",
    "force_mode_set_gain_scaling": "scaling",
    "ft_rtde_input_enable": "enable sensor_mass? sensor_measuring_offset? sensor_cog?",
    "high_holding_torque_disable": "",
    "high_holding_torque_enable": "",
    "jerk_gain_scaling_set": "gain",
    "modbus_add_rw_signal": "IP slave_number read_address read_register_count write_address write_register_count signal_name sequential_mode?",
    "modbus_add_signal": "IP slave_number signal_address signal_type signal_name sequential_mode? register_count?",
    "modbus_delete_signal": "signal_name",
    "modbus_reset_connection": "connection_id is_blocking?",
    "modbus_set_digital_input_action": "signal_name action",
    "modbus_set_runstate_dependent_choice": "signal_name runstate_choice",
    "modbus_set_signal_update_frequency": "signal_name update_frequency",
    "modbus_set_signal_watchdog": "signal_name new_timeout_in_sec",
    "pause_on_error_code": "code argument?",
    "reset_revolution_counter": "qNear?",
    "screw_driving": "f v_limit",
    "set_analog_inputrange": "port range",
    "set_analog_outputdomain": "port domain",
    "set_baselight_iec": "",
    "set_baselight_off": "",
    "set_baselight_solid": "r g b",
    "set_configurable_digital_input_action": "port action",
    "set_euromap_output": "port_number signal_value",
    "set_euromap_runstate_dependent_choice": "port_number runstate_choice",
    "set_gp_boolean_input_action": "port action",
    "set_input_actions_to_default": "",
    "set_runstate_configurable_digital_output_to_value": "outputId state",
    "set_runstate_gp_boolean_output_to_value": "outputId state",
    "set_runstate_standard_analog_output_to_value": "outputId state",
    "set_runstate_standard_digital_output_to_value": "outputId state",
    "set_runstate_tool_digital_output_to_value": "outputId state",
    "set_safety_mode_transition_hardness": "type",
    "set_standard_analog_input_domain": "port domain",
    "set_standard_digital_input_action": "port action",
    "set_tool_analog_input_domain": "port domain",
    "set_tool_communication": "enabled baud_rate parity stop_bits rx_idle_chars tx_idle_chars",
    "set_tool_digital_input_action": "port action",
    "set_tool_digital_output_mode": "n mode",
    "set_tool_output_mode": "mode",
    "stop_conveyor_tracking": "a?",
    "tool_wrench_limit_disable": "",
    "tool_wrench_limit_set": "frame_offset Fx? Fy? Fz? Mx? My? Mz?",
    "zero_ftsensor": "",
}
REFUSED: dict[str, str] = {
    "add_frame": "name pose? ref_name?",
    "attach_frame": "child parent",
    "convert_pose": "pose from_frame to_frame",
    "delete_all_frames": "",
    "delete_frame": "name",
    "eip_reader_factory": "name size",
    "eip_writer_factory": "name size",
    "estimate_payload": "poses wrenches",
    "force_mode_get_damping": "",
    "force_mode_get_gain_scaling": "",
    "frame_tracking_disable": "",
    "frame_tracking_enable": "frame_name",
    "get_children": "name",
    "get_euromap_input": "port_number",
    "get_euromap_output": "port_number",
    "get_frame_parent": "name",
    "is_frame": "name",
    "jerk_gain_scaling_get": "",
    "modbus_get_error": "signal_name error_source?",
    "modbus_get_signal_status": "signal_name is_secondary_program?",
    "modbus_get_time_since_signal_invalid": "signal_name",
    "modbus_send_custom_command": "IP slave_number function_code data",
    "modbus_set_output_register": "signal_name register_value is_secondary_program?",
    "modbus_set_output_signal": "signal_name digital_value is_secondary_program?",
    "move_frame": "name pose ref_name?",
    "request_boolean_from_primary_client": "Text",
    "request_float_from_primary_client": "Text",
    "request_integer_from_primary_client": "Text",
    "request_string_from_primary_client": "Text",
    "reset_world_model": "",
    "rpc_factory": "type url",
    "set_mass_properties": "frame m cog? inertia?",
    "set_payload_from_attached_frames": "",
    "track_conveyor_circular": "center ticks_per_revolution rotate_tool? encoder_index?",
    "track_conveyor_linear": "direction ticks_per_meter encoder_index?",
}
CONSTANT: dict[str, tuple[str, Any]] = {
    "get_controller_temp": ("", 35.0),
    "get_joint_temp": ("j", 30.0),
    "get_tool_accelerometer_reading": ("", [0.0, 0.0, 9.82]),
    "get_tool_current": ("", 0.0),
    "get_tool_temp": ("", 30.0),
}
"""Read-outs of a robot that stands in a cool room, whatever it does."""
# Since which PolyScope 5 version; what is not named here has been there since 5.11 or earlier, or its beginning is not
# known and it is always there.
SINCE: dict[str, tuple[int, int]] = {
    "make_list": (5, 15),
    "optimovej": (5, 21),
    "optimovel": (5, 21),
    "get_base_acceleration": (5, 17),
    "get_gravity": (5, 17),
    "get_tool_temp": (5, 17),
    "time": (5, 17),
    "tool_wrench_limit_disable": (5, 19),
    "tool_wrench_limit_set": (5, 19),
}


@cache
def _parameters(text: str) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature(
        [
            inspect.Parameter(n.rstrip("?"), kind, default=None if n.endswith("?") else inspect.Parameter.empty)
            for n in text.split()
        ]
    )


def absent_functions(controller: Controller) -> dict[str, Callable[..., Any]]:
    """Functions for `WARNED`, `REFUSED` and `CONSTANT`."""
    made: dict[str, Callable[..., Any]] = {}
    for name, text in WARNED.items():
        made[name] = _warned(controller, name, _parameters(text))
    for name, text in REFUSED.items():
        made[name] = _refused(name, _parameters(text))
    for name, (text, value) in CONSTANT.items():
        made[name] = _constant(name, value, _parameters(text))
    return made


def _warned(controller: Controller, name: str, signature: inspect.Signature) -> Callable[..., Any]:
    told: set[str] = set()

    def function(*args: Any, **named: Any) -> None:
        if name not in told:  # once a program: it may stand in a loop
            told.add(name)
            controller.note(f"{name} is accepted and has no effect: it is not simulated")

    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _refused(name: str, signature: inspect.Signature) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> None:
        raise ScriptError(f"{name} is not simulated")

    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _constant(name: str, value: Any, signature: inspect.Signature) -> Callable[..., Any]:
    from wardarm.sim.urscript import UrList

    def function(*args: Any, **named: Any) -> Any:
        return UrList(value) if isinstance(value, list) else value

    function.__signature__ = signature  # type: ignore[attr-defined]
    return function
