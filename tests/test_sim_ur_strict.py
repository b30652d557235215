"""What a real controller refuses, refused here too: each rule with its source."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from ur_bench import Robot, robot
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller.controller import ELBOW_UP, READS_PER_CYCLE
from wardarm.sim.ur_controller.rtde_fields import INPUTS, OUTPUTS, SINCE, type_of


def error_of(body: str, version: tuple[int, ...] = (5, 21, 0, 0)) -> str:
    """What is wrong with a program, or nothing."""
    with Lockstep(KinematicPlant(ELBOW_UP, 0.0), version=version) as sim:
        sim.controller.submit(f"def prog():\n{body}\nend\n")
        sim.step(20)
        return sim.controller.slot.last_error


def test_a_thread_takes_no_parameters() -> None:
    """Script manual, "Threads": the parentheses in the declaration must be empty."""
    assert (
        error_of("thread t(a):\n x = a\nend\nh = run t(1)") == "compile error: line 2: thread t cannot take parameters"
    )
    assert "takes 0 arguments" in error_of("thread t():\n x = 1\nend\nh = run t(1)")


MIXED = {
    '[1, "a"]': "number and string", "[True, 1]": "boolean and number", "[p[0, 0, 0, 0, 0, 0], 1]": "number and pose",
    '[struct(a = 1), "a"]': "string and struct", "[[1], 2]": "list and number",
}  # fmt: skip


@pytest.mark.parametrize(("items", "kinds"), MIXED.items())
def test_a_list_holds_one_type_of_value(items: str, kinds: str) -> None:
    """Universal Robots in their forum (thread 30144) on lists of 5.15: "List can hold only one type of value"."""
    assert f"a list holds one type of value, not {kinds}" in error_of(f"l = {items}")
    first, second = items[1:-1].rsplit(", ", 1)
    assert f"one type of value, not {kinds}" in error_of(f"a = {first}\nb = {second}\nl = [a, b]")
    if first != "[1]":
        for change in ("l[0] = b", "l.insert(0, b)", "l.pop()\n l.append(a)\n l.append(b)", "l.extend([b])"):
            text = error_of(f"a = {first}\nb = {second}\nl = make_list(2, a, 5)\n{change}")
            assert f"one type of value, not {kinds}" in text, change


def test_integers_and_floats_are_one_type() -> None:
    assert (
        error_of("l = [1, 2, 3.5]\nl[0] = 4.5\nl[1] = 2\nm = [[1, 2.5], [3, 4]]\nm[0, 0] = 0.5\nx = 1\nx = 1.5") == ""
    )


RETYPED = {
    'x = 1\nx = "a"': "line 3: variable 'x' is a number and cannot become a string",
    "x = True\nx = 1": "line 3: variable 'x' is a boolean and cannot become a number",
    "x = [1]\ny = 5\nx = y": "line 4: variable 'x' is a list and cannot become a number",
    "x = p[0, 0, 0, 0, 0, 0]\nx = 2 + 3": "line 3: variable 'x' is a pose and cannot become a number",
    'global x = "a"\ndef f():\n x = 1 < 2\nend\nf()': "line 4: variable 'x' is a string and cannot become a boolean",
    'def f():\n local x = 1\n x = "a"\nend\nf()': "line 4: variable 'x' is a number and cannot become a string",
}


@pytest.mark.parametrize(("body", "text"), RETYPED.items())
def test_a_variable_keeps_the_type_of_its_first_assignment(body: str, text: str) -> None:
    """Script manual, "Numbers, Variables, and Types"."""
    assert error_of(body) == f"program prog stopped: {text}"


def test_what_may_change_and_what_a_function_calls_its_own() -> None:
    assert error_of("h = 0\nthread t():\n sync()\nend\nh = run t()\njoin h\nh = 0") == ""
    assert error_of('x = 1\ndef f():\n local x = "a"\n return x\nend\ny = f()\nx = 2') == ""
    assert error_of('def f(x):\n x = "a"\nend\nf(1)') == ""
    assert error_of("via = p[0, 0, 0, 0, 0, 0]\nvia = [0, 0, 0, 0, 0, 0]") == ""
    assert error_of('if False:\n x = 1\n x = "a"\nend') == ""  # only what is carried out


@pytest.mark.parametrize("body", [
    "x = get_actual_tcp_pose", "x = [norm, 1]", "sync", "def f():\n return 1\nend\nx = 1 + f", "thread t():\n sync()\nend\nx = t",
    "movej(get_actual_joint_positions)",
])  # fmt: skip
def test_a_function_without_its_parentheses_is_no_value(body: str) -> None:
    assert "is a function: call it with ()" in error_of(body)


def test_a_variable_may_have_the_name_of_a_function() -> None:
    assert error_of("force = 3\nx = force + 1\ndef f(norm):\n return norm\nend\ny = f(2)") == ""


FUNCTIONS = {
    "optimovej([0, -1.57, 1.57, -1.57, -1.57, 0])": (5, 21), "optimovel([0, -1.57, 1.57, -1.57, -1.57, 0])": (5, 21),
    "l = make_list(1, 0, 2)": (5, 15), "g = get_gravity()": (5, 17),
}  # fmt: skip


@pytest.mark.parametrize(("call", "since"), FUNCTIONS.items())
def test_a_function_is_unknown_before_its_version(call: str, since: tuple[int, int]) -> None:
    """external_control.urscript of Universal Robots' client library asks for 5.21 before optimovej and optimovel."""
    assert error_of(call, (*since, 0, 0)) == ""
    assert "unknown function" in error_of(call, (since[0], since[1] - 1, 0, 0))


@pytest.mark.parametrize("call", ["direct_torque([0, 0, 0, 0, 0, 0])", "motion_version_set(2)"])
def test_functions_of_later_versions_are_unknown(call: str) -> None:
    assert "unknown function" in error_of(call)


# --- RTDE
# Outputs of the guide as of 5.26, by the exhaustive recipe of Universal Robots' client library, without registers
PUBLISHED = """
timestamp target_q target_qd target_qdd target_current target_moment actual_q actual_qd actual_current
actual_current_window actual_current_as_torque joint_control_output actual_TCP_pose actual_TCP_speed actual_TCP_force
target_TCP_pose target_TCP_speed tcp_offset actual_TCP_acceleration target_TCP_acceleration actual_digital_input_bits
actual_configurable_digital_input_bits joint_temperatures actual_execution_time target_execution_time robot_mode joint_mode
safety_mode safety_status actual_tool_accelerometer speed_scaling target_speed_fraction actual_momentum
actual_main_voltage actual_robot_voltage actual_robot_current actual_joint_voltage actual_digital_output_bits
actual_configurable_digital_output_bits runtime_state elbow_position elbow_velocity robot_status_bits safety_status_bits
analog_io_types standard_analog_input0 standard_analog_input1 standard_analog_output0 standard_analog_output1 io_current
actual_robot_energy_consumed actual_robot_braking_energy_dissipated encoder0_raw encoder1_raw euromap67_input_bits
euromap67_output_bits euromap67_24V_voltage euromap67_24V_current tool_mode tool_analog_input_types tool_analog_input0
tool_analog_input1 tool_output_voltage tool_output_current tool_temperature tool_output_mode tool_digital_output0_mode
tool_digital_output1_mode tcp_force_scalar joint_position_deviation_ratio collision_detection_ratio ft_raw_wrench
wrench_calc_from_currents payload payload_cog payload_inertia script_control_line time_scale_source target_gravity
target_base_acceleration control_step target_base_wrench
"""
LATER = {  # 5.23 (the energies: the client library's rtde_tests), 5.26, after 5.21
    "actual_current_as_torque", "actual_robot_energy_consumed", "actual_robot_braking_energy_dissipated", "control_step",
    "target_base_wrench",
}  # fmt: skip
REGISTERS = {
    *(f"{way}_bit_registers{part}" for way in ("input", "output") for part in ("0_to_31", "32_to_63")),
    *(f"{way}_bit_register_{n}" for way in ("input", "output") for n in range(64, 128)),
    *(f"{way}_{kind}_register_{n}" for way in ("input", "output") for kind in ("int", "double") for n in range(48)),
}


def test_the_outputs_are_those_of_the_guide_up_to_5_21() -> None:
    assert set(OUTPUTS) == set(PUBLISHED.split()) - LATER | REGISTERS
    assert {n for n in INPUTS if "register" in n} == {n for n in REGISTERS if n.startswith("input")}


def test_fields_are_not_found_before_their_version() -> None:
    for name, (major, minor) in SINCE.items():
        assert type_of(name, (major, minor)) == OUTPUTS[name][0]
        assert type_of(name, (major, minor - 1)) == "NOT_FOUND"
    assert {type_of(name, (5, 21)) for name in LATER} == {"NOT_FOUND"}
    assert all(type_of(name, (5, 11)) != "NOT_FOUND" for name in set(OUTPUTS) - set(SINCE))


def test_programs_know_the_fields_of_their_version_only() -> None:
    for version, known in (((5, 15, 0, 0), False), ((5, 17, 0, 0), True)):
        assert ("no output field" not in error_of('get_rtde_value("time_scale_source")', version)) is known


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot() as running:
        yield running


class Rtde:
    def __init__(self, ur: Robot) -> None:
        self.link = socket.create_connection((ur.address, 30004), timeout=60)
        self.file = self.link.makefile("rb")

    def ask(self, kind: str, payload: bytes = b"") -> bytes:
        self.link.sendall(struct.pack(">HB", 3 + len(payload), ord(kind)) + payload)
        return self.package()[1]

    def package(self) -> tuple[str, bytes]:
        size, kind = struct.unpack(">HB", self.file.read(3))
        return chr(kind), self.file.read(size - 3)


def test_nothing_starts_without_an_output_recipe(ur: Robot) -> None:
    """RTDE_Python_Client_Library #13: a controller (5.22, too) wants at least one output before it starts."""
    client = Rtde(ur)
    assert client.ask("V", struct.pack(">H", 2)) == b"\x01"
    assert client.ask("S") == b"\x00"
    kind, said = client.package()
    assert kind == "M"
    assert b"no output recipe" in said
    assert client.ask("I", b"input_int_register_40")[0] == 1
    assert client.ask("S") == b"\x00"
    client.package()
    assert client.ask("O", struct.pack(">d", 500.0) + b"timestamp,nonsense") == b"\x00DOUBLE,NOT_FOUND"
    assert client.ask("S") == b"\x00"
    client.package()
    assert client.ask("O", struct.pack(">d", 500.0) + b"timestamp") == b"\x01DOUBLE"
    assert client.ask("S") == b"\x01"
    assert client.package()[0] == "U"


# --- socket reads
def test_ten_socket_reads_fit_into_a_cycle(ur: Robot) -> None:
    """external_control.urscript reads away a trajectory ten points at a time, then calls sync()."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ur.run(
            f'def reads():\n  socket_open("127.0.0.1", {server.getsockname()[1]}, "s")\n  sleep(0.2)\n  cycles = 0\n'
            "  global done = False\n  thread count():\n    while not done:\n      cycles = cycles + 1\n      sync()\n    end\n  end\n"
            '  h = run count()\n  n = 0\n  while n < 200:\n    l = socket_read_binary_integer(20, "s")\n    n = n + l[0] / 20\n'
            '  end\n  done = True\n  textmsg("cycles ", cycles)\nend\n'
        )
        link, _ = server.accept()
        with link:
            link.sendall(struct.pack(">20i", *range(20)) * 200)
            ur.wait("all of it", lambda s: any(line.startswith("textmsg: cycles ") for line in ur.log()))
    cycles = int(next(line for line in ur.log() if line.startswith("textmsg: cycles ")).split()[-1])
    assert 200 / READS_PER_CYCLE <= cycles + 1 <= 200 / READS_PER_CYCLE + 3
