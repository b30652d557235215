"""A controller at home: its own address for its programs, the state it starts with, and how it is found."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from ur_bench import SERVICE, Robot, robot
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller.controller import ELBOW_UP
from wardarm.sim.ur_controller.links import own
from wardarm.sim.ur_controller.rtde_fields import write_inputs


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot() as running:
        yield running


def said(ur: Robot, body: str) -> list[str]:
    before = ur.state()["time_s"]
    ur.run(f'def home():\n{body}\n textmsg("over")\nend\n')
    found: list[str] = []

    def over(state: object) -> bool:
        log = ur.ask("log 1000")["log"]
        found[:] = [
            text.removeprefix("textmsg: ") for cycle, text in log if cycle * 0.002 >= before and "textmsg" in text
        ]
        return "over" in found

    ur.wait("the program's end", over)
    return found[:-1]


# --- 127.0.0.1 of a controller is the controller
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_program_reaches_its_own_gripper_as_the_robot_s_scripts_do(ur: Robot, name: str) -> None:
    assert not ur.address.startswith("127.0.0.1")
    body = f' textmsg(socket_open("{name}", 63352, "g"))\n socket_set_var("POS", 100, "g")\n'
    assert said(ur, body + ' textmsg(socket_read_string("g"))\n textmsg(socket_get_var("PRE", "g"))') == [
        "True",
        "ack",
        "100",
    ]


@pytest.mark.parametrize("port", [29999, 30001, 30002, 30003, 30004, 30011, 30020])
def test_a_program_reaches_the_ports_of_its_own_controller(ur: Robot, port: int) -> None:
    body = f' textmsg(socket_open("127.0.0.1", {port}, "s"))\n'
    assert said(ur, body) == ["True"]


def test_ports_that_this_controller_has_not_are_refused_and_never_another_s() -> None:
    for port in (502, 29999, 30001, 30004, 30014, 30020, 30100, 63352):
        assert own("127.0.0.1", port, "127.0.0.9") == own("localhost", port, "127.0.0.9") == "127.0.0.9"
    assert own("127.0.0.1", 50002, "127.0.0.9") == "127.0.0.1"
    assert own("127.0.0.4", 63352, "127.0.0.9") == "127.0.0.4"


def test_a_port_of_the_user_s_own_at_127_0_0_1_is_the_machine_s(ur: Robot) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = server.getsockname()[1]
        said_ = said(ur, f' textmsg(socket_open("127.0.0.1", {port}, "u"))\n socket_send_string("hello", "u")')
        link, _ = server.accept()
        with link:
            link.settimeout(60)
            assert link.recv(5, socket.MSG_WAITALL) == b"hello"
    assert said_ == ["True"]


# --- how it starts, and the speed slider
def test_the_tcp_of_a_new_controller_is_its_flange(ur: Robot) -> None:
    assert said(ur, " textmsg(get_tcp_offset())") == ["p[0, 0, 0, 0, 0, 0]"]


SLIDER = ' textmsg(get_rtde_value("target_speed_fraction"))'


def line(ur: Robot, port: int, text: bytes) -> None:
    with socket.create_connection((ur.address, port)) as link:
        link.sendall(text)
        link.shutdown(socket.SHUT_WR)
        while link.recv(65536):
            pass


@pytest.mark.parametrize("port", [30001, 30002, 30003])
def test_set_speed_on_a_script_port_moves_the_slider(ur: Robot, port: int) -> None:
    ur.ask("slider 1")
    line(ur, port, b"set speed 0.25\n")
    assert said(ur, SLIDER) == ["0.25"]
    line(ur, port, b"set speed 1\n")
    assert said(ur, SLIDER) == ["1"]


def test_a_speed_that_cannot_be_is_refused(ur: Robot) -> None:
    line(ur, 30002, b"set speed 1.5\n")
    ur.wait("the refusal", lambda s: any("set speed 1.5 refused" in text for text in ur.log()))
    assert said(ur, SLIDER) == ["1"]


def test_a_slider_fraction_that_is_no_number_stands_still() -> None:
    with Lockstep(KinematicPlant(ELBOW_UP, 0.0)) as sim:
        for fraction, slider in ((0.5, 0.5), (math.nan, 0.0), (7.0, 1.0), (-1.0, 0.0)):
            write_inputs({"speed_slider_mask": 1, "speed_slider_fraction": fraction}, sim.controller)
            assert sim.controller.slider == slider


# --- the joints' acceleration
MOVES = (
    "movel(pose_trans(x, p[0, 0, 0.1, 0, 0, 0]), a=50, v=0.5)", "movel(pose_trans(x, p[0, 0, 0, 0, 0, 0.8]), a=150, v=3)",
    "movel(pose_trans(x, p[0, 0, 0.1, 0, 0, 0]), t=0.05)", "movep(pose_add(x, p[0, 0.1, 0, 0, 0, 0]), a=100, v=1)",
    "movec(pose_add(x, p[0.05, 0.05, 0, 0, 0, 0]), pose_add(x, p[0.1, 0, 0, 0, 0, 0]), a=50, v=1)",
)  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_a_cartesian_move_takes_longer_where_a_joint_cannot_accelerate_so(move: str) -> None:
    with Lockstep(KinematicPlant(ELBOW_UP, 0.0)) as sim:
        sim.load(f'def moves():\n x = get_actual_tcp_pose()\n {move}\n textmsg("there")\nend\n')
        sim.run(4.0)
        q = sim.history["target_q_rad"]
        assert "textmsg: there" in sim.log(100)
    acceleration = np.abs(np.diff(q, n=2, axis=0)).max() / 0.002**2
    assert 20.0 < acceleration <= 40.0


# --- `wardarm sim inject` without an address
class Answers(threading.Thread):
    """What a control port says, on one address."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server((address, port))
        self.heard: list[str] = []
        self.start()

    def run(self) -> None:
        while True:
            try:
                link, _ = self.server.accept()
            except OSError:
                return
            with link, link.makefile("rw") as file:
                command = json.loads(file.readline())
                self.heard.append(" ".join([command["command"], *command["args"]]))
                file.write('{"time_s": 1.5, "safety_mode": "NORMAL"}\n')

    def close(self) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.join(60)


@contextmanager
def answering(*addresses: str) -> Iterator[tuple[int, list[Answers]]]:
    """Control ports on a port that is free on 127.0.0.1 to 127.0.0.9."""
    with socket.create_server(("0.0.0.0", 0)) as probe:
        port = probe.getsockname()[1]
    made = [Answers(address, port) for address in addresses]
    try:
        yield port, made
    finally:
        for one in made:
            one.close()


def inject(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wardarm.cli", "sim", "inject", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SERVICE)}, capture_output=True, text=True, timeout=60
    )


def test_inject_finds_the_only_simulated_robot_and_says_which() -> None:
    with answering("127.0.0.7") as (port, (robot_,)):
        done = inject("safeguard", "on", "--port", str(port))
    assert done.returncode == 0, done.stderr
    assert "127.0.0.7" in done.stderr
    assert json.loads(done.stdout)["safety_mode"] == "NORMAL"
    assert "inject safeguard on" in robot_.heard


def test_inject_asks_which_of_several_and_does_nothing_to_any() -> None:
    with answering("127.0.0.3", "127.0.0.7") as (port, robots):
        done = inject("safeguard", "on", "--port", str(port))
    assert done.returncode == 1
    assert "127.0.0.3, 127.0.0.7; say which with --address" in done.stderr
    assert {line for one in robots for line in one.heard} == {"state"}


def test_inject_says_so_if_there_is_none() -> None:
    with answering() as (port, _):
        done = inject("safeguard", "on", "--port", str(port))
    assert done.returncode == 1
    assert "no simulated robot answers" in done.stderr
