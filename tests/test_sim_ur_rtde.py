"""Methods of the unmodified ur_rtde 1.6.5, each in a process of its own. `make prove` runs all of them."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Iterator

import pytest
from test_ur_rtde import Client
from ur_bench import Robot, robot
from ur_rtde_methods import CASES, NOT_MODELLED, TCP
from ur_rtde_table import all_methods, judge
from wardarm.sim.ur_controller import rtde_fields as ur_fields
from wardarm.sim.ur_controller.rtde_fields import OUTPUTS

SOME = {
    "RTDEControlInterface": ("moveL", "speedJ", "getInverseKinematics", "sendCustomScriptFunction", "freedriveMode"),
    "RTDEReceiveInterface": ("isEmergencyStopped", "getStandardAnalogInput0"),
    "RTDEIOInterface": ("setToolDigitalOut", "setInputDoubleRegister"),
    "DashboardClient": ("play", "restartSafety"),
    "ScriptClient": ("sendScriptCommand",),
}


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot("--tcp", ",".join(map(str, TCP))) as running:
        yield running


@pytest.mark.parametrize("kind", CASES)
def test_every_public_method_has_a_case(kind: str) -> None:
    assert set(all_methods(kind)) == set(CASES[kind])
    assert set(NOT_MODELLED) <= set(CASES["RTDEControlInterface"])


@pytest.mark.parametrize(("kind", "method"), [(k, m) for k, methods in SOME.items() for m in methods])
def test_a_method_does_what_it_says(ur: Robot, kind: str, method: str) -> None:
    row = judge(ur, kind, method)
    assert row["result"], row["detail"]


# Names and types of the public guide's table of outputs; registers apart
OUTPUTS_5_21 = {
    "DOUBLE": "timestamp actual_execution_time target_execution_time speed_scaling target_speed_fraction actual_momentum "
    "actual_main_voltage actual_robot_voltage actual_robot_current standard_analog_input0 standard_analog_input1 "
    "standard_analog_output0 standard_analog_output1 io_current euromap67_24V_voltage euromap67_24V_current "
    "tool_analog_input0 tool_analog_input1 tool_output_current tool_temperature tcp_force_scalar payload "
    "joint_position_deviation_ratio collision_detection_ratio",
    "VECTOR6D": "target_q target_qd target_qdd target_current target_moment actual_q actual_qd actual_current "
    "joint_control_output actual_TCP_pose actual_TCP_speed actual_TCP_force target_TCP_pose target_TCP_speed "
    "joint_temperatures actual_joint_voltage ft_raw_wrench payload_inertia tcp_offset actual_current_window",
    "VECTOR3D": "actual_tool_accelerometer elbow_position elbow_velocity payload_cog",
    "UINT64": "actual_digital_input_bits actual_digital_output_bits",
    "INT32": "robot_mode safety_mode safety_status tool_output_voltage encoder0_raw encoder1_raw time_scale_source",
    "VECTOR6INT32": "joint_mode",
    "UINT32": "runtime_state robot_status_bits safety_status_bits analog_io_types tool_analog_input_types tool_mode "
    "euromap67_input_bits euromap67_output_bits output_bit_registers0_to_31 input_bit_registers32_to_63 script_control_line",
    "UINT8": "tool_output_mode tool_digital_output0_mode tool_digital_output1_mode",
    "BOOL": "output_bit_register_64 input_bit_register_127",
}


def _types(address: str, names: list[str]) -> list[str]:
    client = Client(address)
    client.ask("V", struct.pack(">H", 2))
    answer = client.ask("O", struct.pack(">d", 125.0) + ",".join(names).encode())
    client.link.close()
    return answer[1:].decode().split(",")


def test_every_published_output_has_its_type(ur: Robot) -> None:
    wanted = {name: kind for kind, names in OUTPUTS_5_21.items() for name in names.split()}
    assert dict(zip(wanted, _types(ur.address, list(wanted)), strict=True)) == wanted


def test_fields_of_later_versions_are_not_found() -> None:
    later = ["actual_current_as_torque", "control_step"]
    with robot("--version", "5.11") as old:
        assert _types(old.address, ["time_scale_source", "joint_position_deviation_ratio", "timestamp", *later]) == [
            "NOT_FOUND", "NOT_FOUND", "DOUBLE", "NOT_FOUND", "NOT_FOUND",
        ]  # fmt: skip
        client = Client(old.address)
        assert struct.unpack(">4I", client.ask("v", b"")) == (5, 11, 0, 0)
        client.link.close()


def test_pause_stops_the_packages_and_start_brings_them_back(ur: Robot) -> None:
    client = Client(ur.address)
    client.ask("V", struct.pack(">H", 2))
    client.ask("O", struct.pack(">d", 500.0) + b"timestamp")
    assert client.ask("S", b"") == b"\x01"
    assert len(client.read()) == 9
    client.link.sendall(b"\x00\x03P")
    while client.read() != b"\x01":  # packages that were on their way
        pass
    client.link.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.link.recv(1)
    client.link.settimeout(5)
    assert client.ask("S", b"") == b"\x01"
    assert len(client.read()) == 9
    client.link.close()


@pytest.mark.parametrize(("frequency_hz", "step_s"), [(500.0, 0.002), (125.0, 0.008), (10.0, 0.1)])
def test_packages_come_at_the_frequency_that_was_asked_for(ur: Robot, frequency_hz: float, step_s: float) -> None:
    client = Client(ur.address)
    client.ask("V", struct.pack(">H", 2))
    client.ask("O", struct.pack(">d", frequency_hz) + b"timestamp")
    client.ask("S", b"")
    stamps = [struct.unpack(">Bd", client.read())[1] for _ in range(6)]
    assert {round(b - a, 6) for a, b in itertools.pairwise(stamps)} == {step_s}
    client.link.close()


def test_a_watchdog_stops_the_program_when_its_input_stays_away(ur: Robot) -> None:
    ur.ask("inject reset")
    ur.run(
        'def dog():\n  rtde_set_watchdog("input_int_register_40", 10, "STOP")\n  while True:\n    sync()\n  end\nend\n'
    )
    ur.wait("the program", lambda s: s["runtime"] == "PLAYING")
    ur.wait("the watchdog", lambda s: s["runtime"] == "STOPPED")
    assert any("RTDE watchdog input_int_register_40: stop" in line for line in ur.log())


def test_names_and_packages_may_be_longer_than_2048_bytes(ur: Robot) -> None:
    """The client library's tests ask for every output at once, 9,174 bytes of names, and a real controller answers."""
    names = [n for n in OUTPUTS if tuple(ur_fields.SINCE.get(n, (0, 0))) <= (5, 21)]
    text = ",".join(names).encode()
    assert len(text) > 9000
    client = Client(ur.address)
    client.ask("V", struct.pack(">H", 2))
    types = client.ask("O", struct.pack(">d", 125.0) + text)
    assert b"NOT_FOUND" not in types
    assert types.count(b",") == len(names) - 1
    client.ask("S", b"")
    assert len(client.read()) > 2048
    client.link.close()


def test_nobody_listens_on_30014(ur: Robot) -> None:
    """Said in docs/sim_ur.md: the read-only ports are 30011 to 30013."""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((ur.address, 30014), timeout=60)
