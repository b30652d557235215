"""Numbers of a UR5e and of what its clients count on: enumerations, bits, limits, stop categories, recipe ids."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_sim_ur_strict import Rtde
from ur_bench import robot
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller import Runtime, SafetyMode
from wardarm.sim.ur_controller.controller import Controller
from wardarm.sim.ur_controller.dashboard import Dashboard
from wardarm.sim.ur_controller.links import FarEnd
from wardarm.sim.ur_controller.rtde_fields import output_packer, type_of, write_inputs

START = (0.0, -1.57, 1.57, -1.57, -1.57, 0.0)
LOOP = "def loop():\n while True:\n  sync()\n end\nend\n"
MOVE = "def move():\n movej([1.5, -1.57, 1.57, -1.57, -1.57, 0], a=2, v=1)\nend\n"


def made(program: str = "") -> Lockstep:
    sim = Lockstep(KinematicPlant(START, 0.0), q=START)
    if program:
        sim.load(program)
    return sim


def field(sim: Lockstep, name: str, kind: str = "i") -> int:
    return int(struct.unpack(f">{kind}", output_packer((name,), None)(sim.controller)[3:])[0])


MODES: dict[str, tuple[int, int, Callable[[Controller], object]]] = {
    # safety_mode, bits of safety_status_bits (10: stopped due to safety), how it comes about
    "normal": (1, 1 << 0, lambda c: None),
    "reduced": (2, 1 << 1, lambda c: c.safety.reduced(True, c.time_s)),
    "protective stop": (3, 1 << 2 | 1 << 10, lambda c: c.safety.protective_stop(c.time_s, "test")),
    "recovery": (4, 1 << 3, lambda c: c.safety.recovery(True, c.time_s)),
    "safeguard": (5, 1 << 4 | 1 << 10, lambda c: c.safety.safeguard(True, c.time_s)),
    "system e-stop": (6, 1 << 5 | 1 << 7 | 1 << 10, lambda c: c.safety.emergency_stop(True, c.time_s, system=True)),
    "robot e-stop": (7, 1 << 6 | 1 << 7 | 1 << 10, lambda c: c.safety.emergency_stop(True, c.time_s)),
    "violation": (8, 1 << 8 | 1 << 10, lambda c: c.safety.violation(c.time_s, "test")),
    "fault": (9, 1 << 9 | 1 << 10, lambda c: c.safety.violation(c.time_s, "test", fault=True)),
}


@pytest.mark.parametrize(("number", "bits", "come"), MODES.values(), ids=MODES)
def test_safety_modes_have_their_numbers_and_bits(number: int, bits: int, come: Callable[[Controller], object]) -> None:
    sim = made()
    come(sim.controller)
    sim.step()
    assert field(sim, "safety_mode") == number
    assert field(sim, "safety_status_bits", "I") == bits


def test_robot_mode_7_is_running_and_the_status_bits_are_power_and_program() -> None:
    sim = made()
    assert (field(sim, "robot_mode"), field(sim, "robot_status_bits", "I")) == (7, 0b01)
    sim.load(LOOP)
    assert field(sim, "robot_status_bits", "I") == 0b11
    sim.controller.safety.emergency_stop(True, sim.time_s)
    sim.step()
    assert (field(sim, "robot_mode"), field(sim, "robot_status_bits", "I")) == (3, 0b00)


def test_runtime_states_are_stopped_1_playing_2_pausing_3_paused_4_resuming_5() -> None:
    sim = made()
    seen = [field(sim, "runtime_state", "I")]
    sim.load(LOOP)
    sim.controller.pause()
    for cycle in range(200):
        if cycle == 120:
            sim.controller.play()
        state = field(sim, "runtime_state", "I")
        if state != seen[-1]:
            seen.append(state)
        sim.step()
    assert seen == [1, 3, 4, 5, 2]


def test_joints_reach_360_degrees_and_no_move_goes_beyond() -> None:
    for angle in (360, -360):
        sim = made(f"def p():\n movej([0, -1.57, 1.57, -1.57, -1.57, d2r({angle})], a=10, v=3)\nend\n")
        sim.until(lambda s: s.controller.slot.runtime is Runtime.STOPPED)
        assert sim.target_q_rad[5] == pytest.approx(math.radians(angle))
    sim = made("def p():\n movej([0, -1.57, 1.57, -1.57, -1.57, d2r(364)])\nend\n")
    sim.step(2)
    assert "its limit is 363" in sim.controller.slot.last_error


def test_a_move_is_never_faster_than_180_degrees_a_second() -> None:
    sim = made("def p():\n movej([0, -1.57, 1.57, -1.57, -1.57, 3], a=40, v=10)\nend\n")
    sim.until(lambda s: s.controller.slot.runtime is Runtime.STOPPED)
    assert np.abs(sim.history["target_qd_rad_s"]).max() == pytest.approx(math.pi, rel=1e-3)


@pytest.mark.parametrize(("argument", "good", "bad"), [
    ("lookahead_time", (0.03, 0.2), (0.029, 0.21)), ("gain", (100, 2000), (99, 2001)),
])  # fmt: skip
def test_servoj_takes_what_the_manual_names(argument: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    call = "def p():\n servoj([0, -1.57, 1.57, -1.57, -1.57, 0], t=0.002, {}={})\nend\n"
    for value in good + bad:
        sim = made(call.format(argument, value))
        sim.step(5)
        assert (argument in sim.controller.slot.last_error) is (value in bad)


def test_a_ur5e_carries_5_kg_and_reaches_850_mm() -> None:
    for kg, fits in ((5, True), (5.1, False), (-0.1, False)):
        sim = made(f"def p():\n set_payload({kg})\nend\n")
        sim.step(2)
        assert ("set_payload" not in sim.controller.slot.last_error) is fits
    reach = made(  # of the wrist's centre from the shoulder: the data sheet's 850 mm and the wrist's own offset
        "def p():\n global far = get_inverse_kin_has_solution(p[0.99, 0, 0.3, 0, 3.14159, 0])\n"
        " global near = get_inverse_kin_has_solution(p[0.75, 0, 0.3, 0, 3.14159, 0])\n sync()\n sync()\nend\n"
    )
    program = reach.controller.slot.program
    assert program is not None
    assert program.variables() == {"far": False, "near": True}


def test_an_emergency_stop_brakes_under_control_then_takes_the_power_away() -> None:
    """Category 1; a safeguard stop is category 2 (power stays), a fault category 0 (as fast as the brakes can)."""
    steepest: dict[str, float] = {}
    for name in ("robot e-stop", "safeguard", "fault"):
        sim = made(MOVE)
        sim.run(0.9)
        begun = len(sim.history)
        MODES[name][2](sim.controller)
        sim.run(1.0)
        qd = sim.history["target_qd_rad_s"][begun - 1 :, 0]
        assert qd[0] == pytest.approx(1.0, abs=1e-6)
        assert qd[-1] == 0.0
        steepest[name] = float(np.abs(np.diff(qd)).max() / 0.002)
        powered = field(sim, "robot_mode") == 7
        assert powered is (name == "safeguard")
    assert steepest["safeguard"] < steepest["robot e-stop"] < steepest["fault"]


def test_a_protective_stop_is_never_reset_by_itself() -> None:
    sim = made(LOOP)
    sim.controller.safety.protective_stop(sim.time_s, "test")
    sim.run(60)
    assert sim.controller.safety.mode is SafetyMode.PROTECTIVE_STOP
    assert sim.controller.slot.runtime is Runtime.PAUSED


def test_a_2_ms_servoj_takes_4_ms_at_half_speed() -> None:
    sim = made()
    sim.controller.slider = sim.controller.slider_now = 0.5
    sim.load(
        "def p():\n i = 0\n while i < 50:\n  servoj([0.001 * i, -1.57, 1.57, -1.57, -1.57, 0], t=0.002, lookahead_time=0.03)\n"
        "  i = i + 1\n  write_output_integer_register(12, i)\n end\n sleep(1)\nend\n"
    )
    sim.run(0.5)
    assert np.count_nonzero(np.diff(sim.history["ints"][:, 0])) == 50
    assert np.argmax(sim.history["ints"][:, 0] == 50) == pytest.approx(100, abs=2)


def test_input_recipes_are_numbered_in_the_order_of_their_set_up() -> None:
    """ur_rtde sets up 23 and counts on their numbers."""
    with robot() as ur:
        client, other = Rtde(ur), Rtde(ur)
        for link in (client, other):
            assert link.ask("V", struct.pack(">H", 2)) == b"\x01"
        assert struct.unpack(">4I", client.ask("v")) == (5, 21, 0, 0)
        for number in range(1, 24):
            assert client.ask("I", f"input_int_register_{number}".encode()) == bytes([number]) + b"INT32"
        assert other.ask("I", b"input_int_register_5,input_int_register_30") == b"\x00IN_USE,INT32"
        assert other.ask("I", b"input_int_register_30,nothing_such") == b"\x00INT32,NOT_FOUND"
        assert other.ask("I", b"input_int_register_30") == b"\x01INT32"


NAMED = {
    "actual_q": "VECTOR6D", "target_q": "VECTOR6D", "actual_qd": "VECTOR6D", "actual_TCP_pose": "VECTOR6D",
    "robot_mode": "INT32", "safety_mode": "INT32", "safety_status_bits": "UINT32", "robot_status_bits": "UINT32",
    "runtime_state": "UINT32", "actual_digital_input_bits": "UINT64", "speed_scaling": "DOUBLE", "safety_status": "INT32",
    **{f"output_int_register_{n}": "INT32" for n in range(24)}, **{f"input_double_register_{n}": "DOUBLE" for n in range(24)},
}  # fmt: skip


def test_the_fields_that_clients_ask_for_are_there_at_every_version() -> None:
    for minor in range(11, 22):
        assert {name: type_of(name, (5, minor)) for name in NAMED} == NAMED


def dashboard(sim: Lockstep, *commands: str) -> list[str]:
    """What a client of port 29999 reads: the greeting, then an answer a line."""
    port, link = Dashboard(sim.controller), FarEnd()
    port.opened(link)
    for command in commands:
        link.buffer += command.encode() + b"\n"
        port.received(link)
        sim.step()
        port.publish()
    return link.arrived.decode().splitlines()


def test_the_dashboard_says_what_ur_rtde_matches_letter_by_letter(tmp_path: Path) -> None:
    (tmp_path / "loop.script").write_text(LOOP)
    sim = made()
    sim.controller.programs = tmp_path
    said = dashboard(sim, "load loop.urp", "play", "pause", "play", "stop", "PolyscopeVersion", "get serial number")
    assert said[0] == "Connected: Universal Robots Dashboard Server"
    assert said[2:6] == ["Starting program", "Pausing program", "Starting program", "Stopped"]
    assert re.fullmatch(r"URSoftware 5\.21\.0\.0 \(.+\)", said[6])
    assert said[7].isdigit()
    sim.controller.safety.protective_stop(sim.time_s, "test")
    assert dashboard(sim, "unlock protective stop")[1].startswith("Cannot unlock protective stop until 5s")
    sim.run(5.0)
    assert dashboard(sim, "unlock protective stop")[1] == "Protective stop releasing"


@pytest.mark.parametrize(("frequency_hz", "ticks"), [(1000.0, 2), (40_000.0, 80)])
def test_an_encoder_input_counts_every_rising_edge_up_to_40_khz(frequency_hz: float, ticks: int) -> None:
    sim = made(
        "def p():\n encoder_enable_pulse_decode(0, 3, 8, 9)\n last = encoder_get_tick_count(0)\n while True:\n  sync()\n"
        "  now = encoder_get_tick_count(0)\n  write_output_integer_register(12, now - last)\n  last = now\n end\nend\n"
    )
    sim.pulses(True, frequency_hz=frequency_hz)
    sim.step(3)
    begun = len(sim.history)
    sim.step(500)
    assert set(sim.history["ints"][begun:, 0]) == {ticks}
    sim.pulses(False)
    sim.step(10)
    assert sim.int_register(12) == 0


def test_a_digital_input_that_is_stuck_high_counts_nothing() -> None:
    sim = made(
        "def p():\n encoder_enable_pulse_decode(0, 3, 8, 9)\n while True:\n"
        "  write_output_integer_register(12, encoder_get_tick_count(0))\n  sync()\n end\nend\n"
    )
    sim.controller.digital_in |= 1 << 8
    sim.step(500)
    assert sim.int_register(12) == 0


def test_a_watchdog_of_10_hz_stops_the_program_0_1_s_after_the_last_word() -> None:
    sim = made('def p():\n rtde_set_watchdog("input_int_register_5", 10, "stop")\n while True:\n  sync()\n end\nend\n')
    for _ in range(20):
        write_inputs({"input_int_register_5": 1}, sim.controller)
        sim.step(40)
    assert sim.playing
    assert sim.until(lambda s: not s.playing) == pytest.approx(10, abs=2)


def test_a_client_that_says_nothing_keeps_its_connection() -> None:
    """ur_rtde gives a connection up after 2.5 s without a word; the controller does not."""
    with robot("--lock-step") as ur:
        client = Rtde(ur)
        assert client.ask("V", struct.pack(">H", 2)) == b"\x01"
        ur.ask("step 2500")
        assert struct.unpack(">4I", client.ask("v"))[:2] == (5, 21)
