"""Universal Robots' own client library, built from its source, against the simulated controller.

Needs its build folder; without one these tests are skipped. To make one:

    git clone https://github.com/UniversalRobots/Universal_Robots_Client_Library urcl
    cmake -S urcl -B urcl/build -DBUILDING_TESTS=ON -DINTEGRATION_TESTS=ON -DCMAKE_BUILD_TYPE=Release
    cmake --build urcl/build -j2
    WARDARM_URCL_BUILD=$PWD/urcl/build pytest tests/prove/test_sim_ur_urcl.py

Writes out/prove/sim_ur_urcl.json (resumable: what passed is not tried again) and a table of docs/sim_ur_clients.md. The
driver's ports 50001 to 50004 must be free.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from ur_bench import robot
from ur_clients import Row, fresh, gtest_case, gtest_cases, run, table, write_table

pytestmark = pytest.mark.timeout(3600)
OUT = Path("out/prove/sim_ur_urcl.json")
PAGE = Path("docs/sim_ur_clients.md")
SUITES: dict[str, list[str]] = {
    "primary_client_test_headless": [],
    "dashboard_client_g5_tests": [],
    "rtde_tests": [],
    "external_control_program_tests_headless": ["--headless", "true"],
    "ur_driver_deprecated_constructor_test": [],
    "ur_driver_tests_headless": ["--headless", "true"],
    "trajectory_streaming_tests_headless": ["--headless", "true"],
    "instruction_executor_test_headless": ["--headless", "true"],
    "spline_tests_headless": ["--headless", "true"],
    "ur_driver_tests_urcap": ["--headless", "false"],
    "spline_tests_urcap": ["--headless", "false"],
}
OWN_SERVER = (
    "its own server takes the robot's port on every address of this machine: needs the robot on another machine"
)
NEEDS = {
    "DashboardClientTestG5.connect_non_running_robot": "needs the laboratory's network (192.168.56.x without a robot)",
    "DashboardClientTestG5.operational_mode": "expects a robot whose remote control is off and that obeys all the same",
    "RTDEClientTest.get_data_package_fake_server": OWN_SERVER,
    "RTDEClientTest.destroy_client_after_server_stops_sending": OWN_SERVER,
    "RTDEClientTest.reconnect_fake_server_background_read": OWN_SERVER,
    "RTDEClientTest.reconnect_fake_server_blocking_read": OWN_SERVER,
    "RTDEClientTest.test_initialization": OWN_SERVER,
}
WRONG_ON_PURPOSE = {"send_script"}  # shows what a bad script does
EXAMPLE_S = 60


@pytest.fixture(scope="module")
def build() -> Path:
    folder = os.environ.get("WARDARM_URCL_BUILD", "")
    if not folder:
        pytest.skip("WARDARM_URCL_BUILD is not set: the head of this file says how to build the client library")
    return Path(folder)


def source_of(build: Path) -> Path:
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert found, f"{build} is no build folder of CMake"
    return Path(found[1])


def results() -> dict[str, Row]:
    return json.loads(OUT.read_text()) if OUT.exists() else {}


def keep(name: str, row: Row) -> None:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results() | {name: row}, indent=1) + "\n")
    known = dict(sorted(results().items()))
    write_table(PAGE, "table of the client library", table("Its tests and examples", known, NEEDS))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """What the dashboard's tests load, as its own repository has it for Universal Robots' simulator."""
    (tmp_path / "wait_program.script").write_text("def wait_program():\n while True:\n  sleep(0.01)\n end\nend\n")
    return tmp_path


def options(programs: Path) -> list[str]:
    return [
        "--programs", str(programs), "--external-control", "127.0.0.1:50002", "--power-on-s", "0.5", "--brake-release-s", "0.3",
        "--tcp", "0,0,0,0,0,0",
    ]  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_its_integration_tests_pass(build: Path, programs: Path, suite: str) -> None:
    folder = source_of(build) / "tests"
    binary = build / "tests" / suite
    wanted = [c for c in gtest_cases(binary) if "Fake" not in c.partition(".")[0]]
    with robot(*options(programs)) as ur:
        for case in wanted:
            if results().get(f"{suite} / {case}", {}).get("result"):
                continue
            if NEEDS.get(case):
                keep(f"{suite} / {case}", {"result": False, "detail": "not tried"})
                continue
            keep(f"{suite} / {case}", gtest_case(ur, binary, case, folder, SUITES[suite]))
    failed = [c for c in wanted if not results()[f"{suite} / {c}"]["result"] and c not in NEEDS]
    assert not failed


def test_its_examples_run(build: Path, programs: Path) -> None:
    source, failed = source_of(build), []
    with robot(*options(programs)) as ur:
        for binary in sorted(p for p in (build / "examples").iterdir() if p.is_file() and os.access(p, os.X_OK)):
            name = f"examples / {binary.name}"
            if results().get(name, {}).get("result"):
                continue
            for _ in range(3):
                fresh(ur)
                where = "50002" if binary.name == "script_sender_example" else ur.address
                status, said = run([str(binary), where, "4"], source, EXAMPLE_S)
                error = "" if binary.name in WRONG_ON_PURPOSE else ur.state()["last_error"]
                if status == 0 and not error:
                    break
            row = {"result": status == 0 and not error, "detail": error or said[-200:], "log": ur.log()[-3:]}
            keep(name, row)
            if not row["result"]:
                failed.append(binary.name)
    assert not failed
