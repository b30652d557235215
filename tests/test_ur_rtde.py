"""The unmodified ur_rtde 1.6.5 against the simulated controller: what it needs of every port."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dashboard_client
import pytest
import rtde_io
import rtde_receive
import script_client
from ur_bench import Recording, Robot, robot


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot("--tcp", "0,0,0.1558,0,0,-1.5707963267948966") as running:
        yield running


@pytest.fixture
def fresh() -> Iterator[Robot]:
    with robot("--tcp", "0,0,0.1558,0,0,-1.5707963267948966") as running:
        yield running


def test_receive_gets_the_whole_state(ur: Robot) -> None:
    receive = rtde_receive.RTDEReceiveInterface(ur.address, 125.0)
    assert receive.isConnected()
    assert receive.getActualQ() == pytest.approx([0, -1.57, 1.57, -1.57, -1.57, 0])
    assert (receive.getRobotMode(), receive.getSafetyMode(), receive.getRuntimeState()) == (7, 1, 1)
    assert receive.getSafetyStatusBits() == 1
    assert receive.getRobotStatus() & 1
    assert receive.getSpeedScaling() == pytest.approx(1.0)
    assert receive.getActualTCPPose() == pytest.approx(receive.getTargetTCPPose())
    receive.disconnect()


def test_samples_come_once_every_two_milliseconds_of_controller_time(ur: Robot) -> None:
    recording = Recording(ur.address)
    end = time.monotonic() + 60
    while len(recording.rows) < 500:
        assert time.monotonic() < end
        time.sleep(0.01)
    stamps = recording.stop()["timestamp"]
    assert set((stamps[1:] - stamps[:-1]).round(6)) == {0.002}


def test_io_writes_registers_outputs_and_the_slider(ur: Robot) -> None:
    io = rtde_io.RTDEIOInterface(ur.address)
    receive = rtde_receive.RTDEReceiveInterface(ur.address)
    ur.run(
        "def echo():\n while True:\n  write_output_integer_register(12, read_input_integer_register(18))\n"
        "  write_output_float_register(12, read_input_float_register(18))\n  sync()\n end\nend\n"
    )
    io.setInputIntRegister(18, 77)
    io.setInputDoubleRegister(18, 2.5)
    ur.wait("the echo", lambda s: s["output_ints"][0] == 77 and s["output_doubles"][0] == 2.5)
    io.setStandardDigitalOut(3, True)
    io.setSpeedSlider(0.5)
    ur.wait("half speed", lambda s: s["speed_scaling"] == pytest.approx(0.5))
    cycle = ur.state()["time_s"]
    while receive.getTimestamp() <= cycle:
        time.sleep(0.002)
    assert receive.getDigitalOutState(3)
    assert receive.getTargetSpeedFraction() == pytest.approx(0.5)
    assert receive.getOutputIntRegister(12) == 77
    io.setSpeedSlider(1.0)
    ur.wait("full speed", lambda s: s["speed_scaling"] == pytest.approx(1.0))
    io.disconnect()
    receive.disconnect()


def test_dashboard_says_what_ur_rtde_expects(fresh: Robot) -> None:
    dashboard = dashboard_client.DashboardClient(fresh.address)
    dashboard.connect(2000)
    assert dashboard.polyscopeVersion() == "5.21.0.0"
    assert dashboard.robotmode() == "Robotmode: RUNNING"
    assert dashboard.safetymode() == "Safetymode: NORMAL"
    assert dashboard.getSerialNumber().isdigit()
    assert dashboard.isInRemoteControl()
    assert not dashboard.running()
    fresh.run(
        "def wave():\n while True:\n  movej([1, -1.57, 1.57, -1.57, -1.57, 0])\n  movej([0, -1.57, 1.57, -1.57, -1.57, 0])\n end\nend\n"
    )
    fresh.wait("the program", lambda s: s["runtime"] == "PLAYING")
    assert dashboard.running()
    dashboard.pause()
    fresh.wait("the pause", lambda s: s["runtime"] == "PAUSED")
    dashboard.play()
    fresh.wait("going on", lambda s: s["runtime"] == "PLAYING")
    dashboard.stop()
    assert fresh.state()["runtime"] == "STOPPED"
    dashboard.powerOff()
    assert dashboard.robotmode() == "Robotmode: POWER_OFF"
    dashboard.powerOn()
    fresh.wait("power", lambda s: s["robot_mode"] == "IDLE")
    dashboard.brakeRelease()
    fresh.wait("brakes", lambda s: s["robot_mode"] == "RUNNING")
    fresh.ask("inject protective")
    with pytest.raises(RuntimeError, match="5s"):
        dashboard.unlockProtectiveStop()
    dashboard.disconnect()


def test_script_client_starts_a_program(ur: Robot) -> None:
    client = script_client.ScriptClient(ur.address, 5, 21)
    client.connect()
    assert client.isConnected()
    started = ur.state()["cycle"]
    client.sendScriptCommand('def hello():\n  textmsg("hello from a script")\nend\n')
    end = time.monotonic() + 60
    while "textmsg: hello from a script" not in ur.log():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert ur.state()["cycle"] > started


CONTROL = """
import os, sys
import rtde_control, rtde_receive
host = sys.argv[1]
c = rtde_control.RTDEControlInterface(host)
r = rtde_receive.RTDEReceiveInterface(host)
assert c.moveJ([0.3, -1.57, 1.57, -1.57, -1.57, 0.0], 2.0, 2.0)
pose = r.getTargetTCPPose()
pose[2] += 0.05
assert c.moveL(pose, 0.5, 1.0)
q = r.getTargetQ()
back = c.getForwardKinematics(q, [0, 0, 0.1558, 0, 0, -1.5707963])
print("pose", *r.getTargetTCPPose())
print("forward", *back)
for i in range(100):
    start = c.initPeriod()
    q[0] += 0.0005
    assert c.servoJ(q, 0, 0, 0.002, 0.1, 300)
    c.waitPeriod(start)
c.servoStop()
print("steady", c.isSteady())
c.stopScript()
sys.stdout.flush()
os._exit(0)
"""


def test_the_control_script_of_ur_rtde_runs_moves_and_kinematics(fresh: Robot, tmp_path: Path) -> None:
    """In a process of its own: ur_rtde may crash the one it lives in."""
    program = tmp_path / "control.py"
    program.write_text(CONTROL)
    done = subprocess.run([sys.executable, str(program), fresh.address], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = {
        line.split()[0]: [float(v) for v in line.split()[1:]]
        for line in done.stdout.splitlines()
        if line[:4] in ("pose", "forw")
    }
    assert lines["pose"] == pytest.approx(lines["forward"], abs=1e-4)
    assert fresh.state()["last_error"] == ""


class Client:
    """RTDE by hand, for what ur_rtde never sends."""

    def __init__(self, address: str) -> None:
        self.link = socket.create_connection((address, 30004), timeout=60)

    def ask(self, kind: str, payload: bytes) -> bytes:
        self.link.sendall(struct.pack(">HB", 3 + len(payload), ord(kind)) + payload)
        return self.read()

    def read(self) -> bytes:
        head = self._exactly(3)
        return self._exactly(struct.unpack(">HB", head)[0] - 3)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.link.recv(count - len(data))
            assert more, "the controller closed the connection"
            data += more
        return data


def test_an_unknown_output_is_not_found_and_gets_no_recipe(ur: Robot) -> None:
    client = Client(ur.address)
    assert client.ask("V", struct.pack(">H", 2)) == b"\x01"
    assert client.ask("O", struct.pack(">d", 125.0) + b"timestamp,no_such_thing") == b"\x00DOUBLE,NOT_FOUND"
    client.link.close()


def test_an_input_belongs_to_one_client_until_it_leaves(ur: Robot) -> None:
    first, second = Client(ur.address), Client(ur.address)
    for client in (first, second):
        client.ask("V", struct.pack(">H", 2))
    assert first.ask("I", b"input_int_register_40") == b"\x01INT32"
    assert second.ask("I", b"input_int_register_40") == b"\x00IN_USE"
    first.link.close()
    end = time.monotonic() + 60
    while second.ask("I", b"input_int_register_40") != b"\x01INT32":
        assert time.monotonic() < end
    second.link.close()


def test_protocol_version_1_has_no_recipe_id(ur: Robot) -> None:
    client = Client(ur.address)
    assert client.ask("V", struct.pack(">H", 1)) == b"\x01"
    assert client.ask("O", b"timestamp,robot_mode") == b"DOUBLE,INT32"
    assert client.ask("S", b"") == b"\x01"
    assert struct.unpack(">di", client.read())[1] == 7
    client.link.close()


def test_a_dropped_rtde_connection_is_closed_and_can_come_back(fresh: Robot) -> None:
    client = Client(fresh.address)
    client.ask("V", struct.pack(">H", 2))
    fresh.ask("inject drop rtde")
    assert client.link.recv(1) == b""
    again = Client(fresh.address)
    assert again.ask("V", struct.pack(">H", 2)) == b"\x01"


def test_the_control_port_says_what_it_does_not_understand(ur: Robot) -> None:
    with pytest.raises(AssertionError, match="no injection 'earthquake'"):
        ur.ask("inject earthquake")
    with pytest.raises(AssertionError, match="no command 'dance'"):
        ur.ask("dance")
    with pytest.raises(AssertionError, match="on or off"):
        ur.ask('{"command": "inject", "args": ["estop", "maybe"]}')
