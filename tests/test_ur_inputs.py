"""The simulated controller's other wires: gate's pulses by datagram, the gripper's socket, a controller that freezes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import soonest
from ur_bench import Recording, Robot, robot
from wardarm.gate.pwm_unix import UnixPwm
from wardarm.sim.gripper import AT_REQUEST, MOVING, STOPPED_CLOSING, FreeFingers, GripperPort

COUNT = """def count():
  encoder_enable_pulse_decode(0, 2, 8, 9)
  while True:
    write_output_integer_register(12, encoder_get_tick_count(0))
    sync()
  end
end
"""


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[tuple[Robot, UnixPwm]]:
    path = str(tmp_path / "pwm.sock")
    with robot("--pwm", path) as running:
        pwm = UnixPwm(path, 1000.0, 50.0)
        yield running, pwm
        pwm.close()


def test_gates_datagrams_are_counted_as_edges(wired: tuple[Robot, UnixPwm]) -> None:
    ur, pwm = wired
    recording = Recording(ur.address)
    ur.run(COUNT)
    ur.wait("the program", lambda s: s["runtime"] == "PLAYING")
    pwm.on()
    end = time.monotonic() + 60
    while ur.state()["output_ints"][0] < 400:
        pwm.renew()
        assert time.monotonic() < end
    pwm.off()
    stopped = ur.wait("quiet", lambda s, seen=[]: seen.append(s["output_ints"][0]) or seen[-20:].count(seen[-1]) == 20)
    ticks = recording.stop()["output_int_register_12"].astype(int)
    first = int((ticks > 0).argmax())
    last = int((ticks < stopped["output_ints"][0]).nonzero()[0][-1])
    counted = ticks[first : last + 1]
    assert set(counted[5:] - counted[:-5]) <= {19, 20, 21}


def test_a_frozen_controller_sends_nothing_and_then_goes_on() -> None:
    with robot() as ur:

        def cycles() -> int:
            before, begin = ur.state()["cycle"], time.monotonic()
            ur.ask("inject freeze 0.4")
            after = ur.state()["cycle"]
            assert time.monotonic() - begin > 0.2
            return int(after - before)

        soonest(cycles, 150)


# --- gripper


@pytest.fixture
def gripper() -> tuple[FreeFingers, GripperPort]:
    fingers = FreeFingers()
    return fingers, GripperPort(fingers)


def settle(fingers: FreeFingers, seconds: float) -> None:
    for _ in range(round(seconds / 0.002)):
        fingers.step(0.002)


def test_fingers_close_at_their_speed_and_arrive(gripper: tuple[FreeFingers, GripperPort]) -> None:
    fingers, port = gripper
    assert port.answer("SET SPE 255 FOR 80") == "ack"
    assert port.answer("SET POS 255") == "ack"
    settle(fingers, 0.3)
    assert port.answer("GET OBJ") == f"OBJ {MOVING}"
    settle(fingers, 0.5)
    assert port.answer("GET OBJ") == f"OBJ {AT_REQUEST}"
    assert (port.answer("GET POS"), port.answer("GET PRE"), port.answer("GET FLT")) == ("POS 255", "PRE 255", "FLT 0")


def test_fingers_that_meet_something_say_so(gripper: tuple[FreeFingers, GripperPort]) -> None:
    fingers, port = gripper
    fingers.object_opening = 0.4
    port.answer("SET POS 255")
    settle(fingers, 1.0)
    assert port.answer("GET OBJ") == f"OBJ {STOPPED_CLOSING}"
    assert port.answer("GET POS") == f"POS {round(0.6 * 255)}"
    port.answer("SET POS 0")
    settle(fingers, 1.0)
    assert port.answer("GET OBJ") == f"OBJ {AT_REQUEST}"


@pytest.mark.parametrize(
    "line", ["", "SET", "SET POS", "SET POS 256", "SET POS x", "SET XYZ 1", "GET", "GET XYZ", "hello"]
)
def test_what_the_gripper_does_not_know_changes_nothing(gripper: tuple[FreeFingers, GripperPort], line: str) -> None:
    fingers, port = gripper
    assert port.answer(line) == "?"
    assert fingers.target == 1.0


def test_the_gripper_acknowledges_without_a_newline_as_the_real_one_does() -> None:
    with robot() as ur, socket.create_connection((ur.address, 63352), timeout=60) as link:
        link.sendall(b"SET POS 100\n")
        assert link.recv(16) == b"ack"
        link.sendall(b"GET PRE\n")
        assert link.recv(16) == b"PRE 100\n"
