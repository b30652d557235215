"""What drivers need beside the manuals: lines on the script ports, the External Control URCap, error texts and codes.

Each comes from the tests of Universal Robots' client library, which its makers run against their own controllers.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_sim_ur_streams import Stream
from ur_bench import Robot, robot


@pytest.fixture(scope="module")
def ur() -> Iterator[Robot]:
    with robot("--power-on-s", "0.4", "--brake-release-s", "0.2") as running:
        yield running


@pytest.fixture
def fresh(ur: Robot) -> Robot:
    ur.ask("inject reset")
    ur.ask("place 0 -1.57 1.57 -1.57 -1.57 0")
    return ur


LOOP = "def loop():\n while True:\n  sync()\n end\nend\n"


def test_lines_on_the_script_port_power_the_robot_and_stop_its_program(fresh: Robot) -> None:
    fresh.run("power off\n")
    fresh.wait("off", lambda s: s["robot_mode"] == "POWER_OFF")
    fresh.run("power on\n")
    fresh.wait("idle", lambda s: s["robot_mode"] == "IDLE")
    fresh.run("set robotmode run\n")
    fresh.wait("running", lambda s: s["robot_mode"] == "RUNNING")
    fresh.run(LOOP)
    fresh.wait("the program", lambda s: s["runtime"] == "PLAYING")
    fresh.run("pause program\n")
    fresh.wait("paused", lambda s: s["runtime"] == "PAUSED")
    fresh.run("resume program\n")
    fresh.wait("playing", lambda s: s["runtime"] == "PLAYING")
    fresh.run("stop  program\n")
    fresh.wait("stopped", lambda s: s["runtime"] == "STOPPED")
    fresh.ask("inject protective")
    fresh.wait("the stop", lambda s: s["safety_mode"] == "PROTECTIVE_STOP")
    fresh.run("set unlock protective stop\n")  # the five seconds are the dashboard's
    fresh.wait("unlocked", lambda s: s["safety_mode"] == "NORMAL")


def test_such_lines_are_refused_in_local_control(fresh: Robot) -> None:
    fresh.ask("remote off")
    fresh.run("power off\n")
    end = time.monotonic() + 60
    while "power off refused: the robot is in local control" not in fresh.log():
        assert time.monotonic() < end
        time.sleep(0.01)
    fresh.ask("remote on")
    assert fresh.state()["robot_mode"] == "RUNNING"


@pytest.mark.parametrize(
    ("script", "line", "column", "text"),
    [
        ("def p():\n  calldoesntexist()\nend\n", 2, 3, b"compile_error_name_not_found:calldoesntexist:"),
        ("def p():\n x = 1\n   y = x + z\nend\n", 3, 4, b"compile_error_name_not_found:z:"),
        ('def p():\n  textmsg("a", (1)\nend\n', 3, 1, b"syntax_error_on_line:3:end:"),
    ],
)
def test_what_cannot_be_compiled_is_told_as_a_real_controller_tells_it(
    fresh: Robot, script: str, line: int, column: int, text: bytes
) -> None:
    primary = Stream(fresh.address, 30001)
    primary.state()
    fresh.run(script)
    error = primary.message(lambda kind, _: kind == 10)
    assert struct.unpack(">ii", error[:8]) == (line, column)
    assert error[8:] == text
    primary.close()


def test_an_error_in_a_secondary_program_is_a_key_message(fresh: Robot) -> None:
    primary = Stream(fresh.address, 30001)
    primary.state()
    fresh.run("sec s():\n  x = 1 / 0\nend\n")
    assert b"SECONDARY_PROGRAM_EXCEPTION_XXX" in primary.message(lambda kind, _: kind == 7)
    primary.close()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("protective_stop()\n", 209),
        ("movel(p[10, 0, 0, 0, 0, 0])\n", 191),
        ("def p():\n  servoj([1, -1.57, 1.57, -1.57, -1.57, 0], t=0.1, lookahead_time=0.03)\nend\n", 204),
    ],
)
def test_a_protective_stop_is_a_warning_with_its_code_and_the_state_comes_first(
    fresh: Robot, script: str, code: int
) -> None:
    primary = Stream(fresh.address, 30001)
    primary.state()
    fresh.run(script)
    stopped: list[bool] = []

    while True:
        kind, body = primary.package()
        if kind == 16:
            stopped.append(bool(body[5 + 8 + 4]))
        elif kind == 20 and body[9] == 6:
            assert struct.unpack(">iii", body[10:22]) == (code, 0, 2)
            break
    assert stopped[-1]
    primary.close()


BODY = "# HEADER_BEGIN\nglobal n = 0\n# HEADER_END\n# NODE_CONTROL_LOOP_BEGINS\nwhile n < 3:\n  n = n + 1\n  sync()\nend\ntextmsg(\"rounds \", n)\n# NODE_CONTROL_LOOP_ENDS\n"  # fmt: skip


def test_external_control_asks_its_driver_for_the_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:
        asked: list[bytes] = []

        def answer() -> None:
            link, _ = driver.accept()
            with link:
                asked.append(link.recv(100))
                for piece in (BODY[:60], BODY[60:]):
                    link.sendall(piece.encode())
                    time.sleep(0.1)
                link.recv(1)  # the driver leaves the connection open

        threading.Thread(target=answer, daemon=True).start()
        with robot("--external-control", f"127.0.0.1:{driver.getsockname()[1]}") as ur:
            assert dashboard(ur, "load external_control.urp") == "Loading program: external_control.urp"
            assert dashboard(ur, "play") == "Starting program"
            end = time.monotonic() + 60
            while "textmsg: rounds 3" not in ur.log():
                assert time.monotonic() < end, ur.log()
                time.sleep(0.02)
            assert asked == [b"request_program\n"]


def test_external_control_without_a_driver_is_a_popup_and_without_the_urcap_no_program(tmp_path: Path) -> None:
    with robot("--external-control", "127.0.0.1:1", "--programs", str(tmp_path)) as ur:
        dashboard(ur, "load /programs/external_control.urp")
        assert dashboard(ur, "play") == "Failed to execute: play"
        assert any("External Control: no program from 127.0.0.1:1" in line for line in ur.log())
        assert ur.state()["runtime"] == "STOPPED"
    with robot() as bare:
        assert dashboard(bare, "load external_control.urp") == "File not found: external_control.urp"


def dashboard(ur: Robot, command: str) -> str:
    with socket.create_connection((ur.address, 29999), timeout=60) as link, link.makefile("rw") as file:
        file.readline()
        file.write(command + "\n")
        file.flush()
        return file.readline().strip()


def test_the_example_of_the_documentation_moves_the_arm(fresh: Robot, tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "examples" / "04_ur_rtde.py").read_text()
    assert len(text.splitlines()) <= 12
    before = fresh.state()["q"]
    done = subprocess.run(
        [sys.executable, "-c", text.replace("127.0.0.2", fresh.address)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "the TCP is at" in done.stdout
    assert max(abs(a - b) for a, b in zip(fresh.state()["q"], before, strict=True)) > 0.02
