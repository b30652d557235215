"""Power, safety, dashboard, injections, gripper and the command line of the simulated controller."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ur_bench import SERVICE, Robot, free_address, robot
from wardarm.sim.ur_controller.__main__ import parser


@pytest.fixture(scope="module")
def running() -> Iterator[Robot]:
    with robot("--power-on-s", "1.0", "--brake-release-s", "0.2") as made:
        yield made


@pytest.fixture
def ur(running: Robot) -> Robot:
    running.ask("inject reset")
    return running


class Lines:
    """A client of a line protocol."""

    def __init__(self, address: str, port: int, greeting: bool = True) -> None:
        self.link = socket.create_connection((address, port), timeout=60)
        self.file = self.link.makefile("rw")
        self.greeting = self.file.readline() if greeting else ""

    def ask(self, line: str) -> str:
        self.file.write(line + "\n")
        self.file.flush()
        return self.file.readline().rstrip("\n")


def test_the_dashboard_answers_letter_by_letter(ur: Robot) -> None:
    d = Lines(ur.address, 29999)
    assert d.greeting == "Connected: Universal Robots Dashboard Server\n"
    for command, answer in {
        "robotmode": "Robotmode: RUNNING", "safetymode": "Safetymode: NORMAL", "safetystatus": "Safetystatus: NORMAL",
        "running": "Program running: false", "programState": "STOPPED", "get loaded program": "No program loaded",
        "load no.urp": "File not found: no.urp", "play": "Failed to execute: play", "pause": "Failed to execute: pause",
        "stop": "Stopped", "popup Hello there": "showing popup", "close popup": "closing popup",
        "close safety popup": "closing safety popup", "addToLog a line": "Added log message",
        "addToLog": "No log message to add", "isProgramSaved": "true <unnamed>", "version": "5.21.0.0",
        "get robot model": "UR5", "get serial number": "20265500001", "is in remote control": "true",
        "get operational mode": "NONE", "set operational mode automatic": "Operational mode AUTOMATIC is set",
        "clear operational mode":
            "No longer controlling the operational mode. Current operational mode: 'AUTOMATIC'.",
        "load installation default": "Loading installation: default",
        "load installation other": "File not found: other", "restart safety": "Restarting safety",
        "no such thing": 'could not understand: "no such thing"', "POWER ON": "Powering on",
        "brake release": "Brake releasing", "power off": "Powering off",
    }.items():  # fmt: skip
        assert d.ask(command) == answer
    assert d.ask("PolyscopeVersion").startswith("URSoftware 5.21.0.0 (")
    assert d.ask("generate flight report system").startswith("Flight Report generated with id: ")
    assert d.ask("generate support file /programs").startswith("Completed successfully: /programs/")
    assert d.ask("quit") == "Disconnected"
    assert d.file.readline() == ""


def test_local_control_refuses_commands_and_scripts_but_answers_questions(ur: Robot) -> None:
    ur.ask("remote off")
    d = Lines(ur.address, 29999)
    assert d.ask("is in remote control") == "false"
    assert "switch to remote control" in d.ask("power off")
    assert d.ask("robotmode") == "Robotmode: RUNNING"
    ur.run("def no():\n  sleep(5)\nend\n")
    end = time.monotonic() + 60
    while not any("the robot is in local control" in line for line in ur.log()):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert ur.state()["runtime"] == "STOPPED"


def test_power_on_and_brake_release_take_their_time_on_the_controllers_clock(ur: Robot) -> None:
    d = Lines(ur.address, 29999)
    d.ask("power off")
    assert d.ask("robotmode") == "Robotmode: POWER_OFF"
    d.ask("power on")
    assert d.ask("robotmode") == "Robotmode: POWER_ON"
    start = ur.state()["time_s"]
    idle = ur.wait("idle", lambda s: s["robot_mode"] == "IDLE")
    assert 0.5 < idle["time_s"] - start + 0.05 < 5
    d.ask("brake release")
    ur.wait("running", lambda s: s["robot_mode"] == "RUNNING")


def test_a_protective_stop_can_be_unlocked_after_five_seconds_only() -> None:
    with robot("--lock-step") as made:
        d = Lines(made.address, 29999)
        made.ask("inject protective a person pushed")
        refused = "Cannot unlock protective stop until 5s after occurrence."
        assert d.ask("unlock protective stop").startswith(refused)
        made.ask("step 2490")
        assert d.ask("unlock protective stop").startswith(refused)
        made.ask("step 20")
        assert d.ask("unlock protective stop") == "Protective stop releasing"
        assert made.state()["safety_mode"] == "NORMAL"


def test_a_safeguard_with_reset_waits_for_it(ur: Robot) -> None:
    ur.ask("inject safeguard_needs_reset on")
    ur.ask("inject safeguard on")
    assert ur.state()["safety_mode"] == "SAFEGUARD_STOP"
    ur.ask("inject safeguard off")
    assert ur.state()["safety_mode"] == "SAFEGUARD_STOP"
    ur.ask("inject safeguard_reset")
    assert ur.state()["safety_mode"] == "NORMAL"


def test_of_two_emergency_stops_the_other_stays(ur: Robot) -> None:
    ur.ask("inject system_estop on")
    ur.ask("inject estop on")
    assert ur.state()["safety_mode"] == "ROBOT_EMERGENCY_STOP"
    ur.ask("inject estop off")
    assert ur.state()["safety_mode"] == "SYSTEM_EMERGENCY_STOP"
    ur.ask("inject system_estop off")
    state = ur.state()
    assert (state["safety_mode"], state["robot_mode"]) == ("NORMAL", "POWER_OFF")


def test_an_emergency_stop_does_not_end_a_fault(ur: Robot) -> None:
    ur.ask("inject fault broken")
    ur.ask("inject estop on")
    ur.ask("inject estop off")
    assert ur.state()["safety_mode"] == "FAULT"
    assert Lines(ur.address, 29999).ask("restart safety") == "Restarting safety"
    assert ur.state()["safety_mode"] == "NORMAL"


def test_either_channel_of_a_dual_input_stops_and_a_lasting_difference_is_a_fault(ur: Robot) -> None:
    ur.ask("inject channel safeguard 1 on")
    assert ur.state()["safety_mode"] == "SAFEGUARD_STOP"
    ur.ask("inject channel safeguard 2 on")
    since = ur.state()["time_s"]
    ur.wait("a second", lambda s: s["time_s"] > since + 1.0)
    assert ur.state()["safety_mode"] == "SAFEGUARD_STOP"
    ur.ask("inject channel safeguard 1 off")
    ur.wait("the fault", lambda s: s["safety_mode"] == "FAULT")
    assert "the two channels of the safeguard input disagree" in ur.state()["reason"]


def test_recovery_mode_lets_nothing_but_a_hand_move_the_arm(ur: Robot) -> None:
    ur.ask("inject recovery on")
    assert Lines(ur.address, 29999).ask("safetymode") == "Safetymode: RECOVERY"
    ur.run("def go():\n  movej([0.5,-1.57,1.57,-1.57,-1.57,0])\nend\n")
    end = time.monotonic() + 60
    while not any("program go refused: safety is RECOVERY" in line for line in ur.log()):
        assert time.monotonic() < end
        time.sleep(0.01)
    before = ur.state()["q"][0]
    ur.ask("inject jog 0.03")
    assert ur.state()["q"][0] == pytest.approx(before + 0.03)
    ur.ask("inject recovery off")
    assert ur.state()["safety_mode"] == "NORMAL"


def test_power_loss_drops_everybody_and_comes_back_powered_off(ur: Robot) -> None:
    d = Lines(ur.address, 29999)
    ur.ask("inject power_loss 1")
    assert d.file.readline() == ""
    since = ur.state()["time_s"]
    with socket.create_connection((ur.address, 29999), timeout=60) as link:
        assert link.recv(1) == b""
    ur.wait("the mains", lambda s: s["time_s"] > since + 1.2)
    assert Lines(ur.address, 29999).ask("robotmode") == "Robotmode: POWER_OFF"


def test_force_and_payload_are_felt_and_slow_stretches_the_cycles(ur: Robot) -> None:
    ur.ask("inject payload 2")
    ur.run(
        "def feel():\n  while True:\n    global f = get_tcp_force()\n"
        "    write_output_float_register(12, f[2])\n    sync()\n  end\nend\n"
    )
    ur.wait("the force", lambda s: s["output_doubles"][0] == pytest.approx(-19.64))
    ur.ask("inject slow 4")
    ur.wait("slowness", lambda s: s["sim_rate"] < 0.4, 60)
    ur.ask("inject slow 1")


def test_what_an_injection_does_not_understand_it_says(ur: Robot) -> None:
    for command, text in {
        "inject slow 0": "outside [1, 100]", "inject channel door 1 on": "inputs are safeguard, estop, system_estop",
        "inject estop": "words do not fit", "inject force 1": "force needs 3 or 6 numbers", "analog 9 1": "there are 0, 1",
    }.items():  # fmt: skip
        with pytest.raises(AssertionError, match=text.replace("[", r"\[").replace("]", r"\]")):
            ur.ask(command)


@pytest.mark.parametrize(
    "command",
    ["pwm -1 on", "pwm 99 on", "pwm 8 on nan", "pwm 8 on 1000 101", "digital 99 on", "digital -1 off", "inject jog nan",
     "inject jog 1e308", "place 0 nan 0 0 0 0", "place 0 0 inf 0 0 0", "inject force 0 0 nan", "analog 0 nan", "analog 0 99",
     "at -1 state", "at nan state", "at 1 nonsense"],
)  # fmt: skip
def test_a_number_or_pin_that_cannot_be_changes_nothing(ur: Robot, command: str) -> None:
    before = ur.ask("state")
    with pytest.raises(AssertionError, match=r"outside|digital inputs are|no such command"):
        ur.ask(command)
    after = ur.ask("state")
    assert after["q"] == pytest.approx(before["q"], abs=1e-6)
    assert after["safety_mode"] == before["safety_mode"]
    ur.wait("the next cycles", lambda s: s["cycle"] > after["cycle"] + 2)


def test_the_dashboard_loads_and_plays_programs_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "wave.script").write_text("def wave():\n  while True:\n    sync()\n  end\nend\n")
    with robot("--programs", str(tmp_path)) as made:
        d = Lines(made.address, 29999)
        assert d.ask("load wave.urp") == "Loading program: wave.urp"
        assert d.ask("load ../wave.urp") == "File not found: ../wave.urp"
        assert d.ask("get loaded program") == "Loaded program: /programs/wave.urp"
        assert d.ask("play") == "Starting program"
        made.wait("the program", lambda s: s["runtime"] == "PLAYING")
        assert d.ask("programState") == "PLAYING wave.urp"


def test_the_gripper_needs_activation_and_releases_in_an_emergency() -> None:
    with robot("--gripper-inactive", "--lock-step") as made:
        gripper = Lines(made.address, 63352, greeting=False)

        def set_(text: str) -> bytes:
            gripper.link.sendall(f"SET {text}\n".encode())
            return gripper.link.recv(3)

        assert gripper.ask("GET STA") == "STA 0"
        assert set_("POS 255 GTO 1") == b"ack"
        assert gripper.ask("GET POS") == "POS 0"
        assert set_("ACT 1") == b"ack"
        assert gripper.ask("GET STA") == "STA 1"
        made.ask("step 1000")  # 1 s of activation, 0.7 s to close
        assert gripper.ask("GET POS") == "POS 255"
        assert (gripper.ask("GET STA"), gripper.ask("GET OBJ"), gripper.ask("GET PRE")) == ("STA 3", "OBJ 3", "PRE 255")
        assert set_("ADR 1 ATR 1") == b"ack"
        assert gripper.ask("GET FLT") == "FLT 15"
        made.ask("step 2000")
        assert gripper.ask("GET POS") not in ("POS 255", "POS 0")  # slowly
        made.ask("step 1000")
        assert gripper.ask("GET POS") == "POS 0"
        assert gripper.ask("SET POS 300") == "?"
        assert gripper.ask("GET XYZ") == "?"


# --- the command line
def _wardarm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wardarm.cli", "sim", *arguments]
    return subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(SERVICE)}, capture_output=True, text=True, timeout=60
    )


WRONG = {
    "--version": ("5.22", "4", "5"), "--address": ("0.0.0.0", "127.999.0.1", "here"), "--calibration": (),
    "--programs": ("/nowhere",), "--external-control": (":x", "host:0", "host:70000"), "--q": ("1,2", "-1,0,0,0,0,7", "a"),
    "--tcp": ("1,2", "0,0,nan,0,0,0"), "--payload": ("nan", "-1", "5.1", "x"), "--payload-cog": ("0,0,inf", "1"),
    "--power-on-s": ("-1", "nan", "soon"), "--brake-release-s": ("-0.5", "inf"),
    "--inject": ("earthquake", "at", "at 1", "at x protective", "at -1 protective", "jog x", "jog 7", "safeguard maybe",
                 "estop", "drop nobody", "refuse rtde", "slow 0", "freeze -1", "payload nan", "force 1 2", "channel estop 3 on",
                 "reset now", "say 'it"),
    "--pwm-pin": ("18", "-1", "8.5"), "--lag-ms": ("-1", "nan"), "--seed": ("-1", "x"), "--reads-per-cycle": ("0", "many"),
}  # fmt: skip
SAYS = {"--version": "5.11 to 5.21", "--address": "loopback", "--tcp": "6 numbers are needed"}
SWITCHES = {"--help", "--power-off", "--local", "--gripper-inactive", "--lock-step"}
ANYTHING = {"--pwm"}  # a path, tried when it is bound


def test_every_option_has_wrong_values_here() -> None:
    options = {option for action in parser()._actions for option in action.option_strings if option.startswith("--")}
    assert options == set(WRONG) | SWITCHES | ANYTHING


@pytest.mark.parametrize(("option", "value"), [(o, v) for o, values in WRONG.items() for v in values])
def test_wrong_options_are_named_with_what_is_possible(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args([option, value])
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: {value!r}: " in said
    assert SAYS.get(option, "") in said


def test_joints_that_begin_with_a_negative_angle_are_a_value() -> None:
    assert parser().parse_args(["--q", "-1.57,-1,0,0,0,0"]).q[0] == -1.57


@pytest.mark.parametrize("option", ["--calibration", "--pwm"])
def test_a_file_that_cannot_be_used_is_named(option: str) -> None:
    done = _wardarm("ur", "--address", free_address(), option, "/nowhere/file")
    assert done.returncode == 1
    assert "/nowhere/file" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_calibration_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "calibration.conf"
    file.write_text("delta_theta = [1, 2]\n")
    done = _wardarm("ur", "--address", free_address(), "--calibration", str(file))
    assert done.returncode == 1
    assert "delta_theta has 2 numbers, expected 6" in done.stderr


def test_it_starts_powered_off_with_injections_and_a_running_one_can_be_asked_for_more() -> None:
    with robot(
        "--power-off", "--version", "5.15", "--inject", "reduced on", "--inject", "at 1.5 protective planned"
    ) as made:
        assert Lines(made.address, 29999).ask("version") == "5.15.0.0"
        assert made.state()["robot_mode"] == "POWER_OFF"
        made.wait("reduced", lambda s: s["safety_mode"] in ("REDUCED", "PROTECTIVE_STOP"))
        stopped = made.wait("the planned stop", lambda s: s["safety_mode"] == "PROTECTIVE_STOP")
        assert stopped["reason"] == "planned"
        done = _wardarm("inject", "estop", "on", "--address", made.address)
        assert json.loads(done.stdout)["safety_mode"] == "ROBOT_EMERGENCY_STOP"
        done = _wardarm("inject", "nothing", "--address", made.address)
        assert done.returncode == 1
        assert "no injection 'nothing'" in done.stderr
    assert "nothing simulated answers" in _wardarm("inject", "estop", "on", "--address", made.address).stderr
