"""Universal Robots' RTDE client in Python, python-urx and ur_rtde's C++ programs against the simulated controller.

    WARDARM_RTDE_CLIENT   folder of github.com/UniversalRobots/RTDE_Python_Client_Library
    WARDARM_URX           folder of github.com/SintefManufacturing/python-urx; the packages urx and math3d come from PyPI
    WARDARM_UR_RTDE_BIN   folder with the built examples of ur_rtde (cmake -DEXAMPLES=ON makes `bin` in its source folder)
                          and, if it is there, its test program (test/main.cpp with 127.0.0.1 as the robot) as `tests`

What is not given is skipped. Their texts are theirs but for the robot's address; ur_rtde's programs have 127.0.0.1 built in,
which must be free. Writes out/prove/sim_ur_others.json and a table of docs/sim_ur_clients.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ur_bench import Robot, robot
from ur_clients import Row, fresh, run, table, write_table

pytestmark = pytest.mark.timeout(1800)
OUT = Path("out/prove/sim_ur_others.json")
PAGE = Path("docs/sim_ur_clients.md")
HOME = "place 0 -1.57 1.57 -1.57 -1.57 0"
# the program that example_control_loop.py's rtde_control_loop.urp is, as script
CONTROL_LOOP = """
def rtde_control_loop():
  setp = p[0, 0, 0, 0, 0, 0]
  rtde_set_watchdog("input_int_register_0", 1, "PAUSE")
  write_output_integer_register(0, 1)
  while True:
    write_output_integer_register(0, 1)
    while read_input_integer_register(0) != 1:
      sync()
    end
    setp = p[read_input_float_register(0), read_input_float_register(1), read_input_float_register(2), read_input_float_register(3), read_input_float_register(4), read_input_float_register(5)]
    movej(get_inverse_kin(setp), a=1.4, v=1.05)
    write_output_integer_register(0, 0)
    while read_input_integer_register(0) != 0:
      sync()
    end
  end
end
"""
FOR_EVER = {"realtime_control_example", "record_data_example", "jog_example"}
TUPLE = "line 1: expected ')', found ','"  # urx's set_payload sends "set_payload(0.5, (0, 0, 0))", which is no URScript
REASONS = {
    "test_all.py": "numpy 2 writes np.float64(...) into its scripts: the library is older than that",
    "test_movep.py": "the example gives `radius`, which its own library does not take",
    "move_until_contact_example": "nothing to touch: the arm goes down until it is out of reach, and stops",
}


def folder(name: str) -> Path:
    if not os.environ.get(name):
        pytest.skip(f"{name} is not set: the head of this file says what it is")
    return Path(os.environ[name])


def keep(name: str, row: Row) -> None:
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    known[name] = row
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(known, indent=1) + "\n")
    write_table(PAGE, "table of other clients", table("Their examples", dict(sorted(known.items())), REASONS))


def play(
    ur: Robot, name: str, command: list[str], where: Path, limit_s: float, endless: bool = False, **more: str
) -> Row:
    """A program that ends well, or that is still running well after `limit_s` because it never ends."""
    status, said = run(command, where, limit_s, **more)
    error = ur.state()["last_error"]
    if TUPLE in error:
        error = ""
    good = (status is None if endless else status == 0) and not error and "Traceback" not in said
    row: Row = {"result": good, "detail": "" if good else f"{error} {said[-300:]} ({status})", "said": said[-2000:]}
    keep(name, {k: v for k, v in row.items() if k != "said"})
    return row


def test_universal_robots_rtde_client_in_python(tmp_path: Path) -> None:
    source = folder("WARDARM_RTDE_CLIENT")
    shutil.copytree(source, tmp_path / "client")
    examples = tmp_path / "client" / "examples"
    suite = "RTDE_Python_Client_Library"
    with robot("--tcp", "0,0,0,0,0,0") as ur:
        fresh(ur)
        options = ["--host", ur.address, "--samples", "500", "--frequency", "125"]
        for more in ([], ["--binary"], ["--config", "record_configuration.xml", "--frequency", "500"]):
            name = f"{suite} / record.py {' '.join(more)}".rstrip()
            assert play(ur, name, [sys.executable, "record.py", *options, *more], examples, 60)["result"]
        rows = (examples / "robot_data.csv").read_text().splitlines()
        assert 499 <= len(rows) <= 501
        assert rows[0].startswith("timestamp target_q_0")
        loop = examples / "example_control_loop.py"
        loop.write_text(loop.read_text().replace('"localhost"', repr(ur.address)))
        ur.run(CONTROL_LOOP.lstrip())
        ur.wait("the program", lambda s: s["runtime"] == "PLAYING")
        row = play(
            ur, f"{suite} / example_control_loop.py", [sys.executable, "-u", loop.name], examples, 15, endless=True
        )
        assert row["result"]
        assert row["said"].count("Move to confirmed pose") >= 2


def test_python_urx(tmp_path: Path) -> None:
    examples = folder("WARDARM_URX") / "examples"
    packages = tmp_path / "packages"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(packages), "urx", "math3d==3.4.1"],
        capture_output=True,
    )
    if done.returncode:
        pytest.skip("urx cannot be fetched here")
    (packages / "sitecustomize.py").write_text(  # math3d is older than Python 3.10, which took these names away
        "import collections\nimport collections.abc\ncollections.Iterable = collections.abc.Iterable\n"
    )
    with robot("--tcp", "0,0,0,0,0,0") as ur:
        for name, more in (("simple.py", []), ("test_all.py", ["nowait"]), ("test_movep.py", []), ("matrices.py", [])):
            fresh(ur)
            ur.ask(HOME)
            text = re.sub(r'"(192\.168\.1\.\d+|localhost)"', repr(ur.address), (examples / name).read_text())
            (tmp_path / name).write_text(text.replace("from IPython import embed", "embed = print"))
            paths = os.pathsep.join([str(examples.parent), str(packages)])  # the examples are of the repository's urx
            play(ur, f"python-urx / {name}", [sys.executable, name, *more], tmp_path, 90, PYTHONPATH=paths)
    assert all(v["result"] for k, v in json.loads(OUT.read_text()).items() if k.startswith("python-urx"))


def test_ur_rtdes_own_programs_in_cpp(tmp_path: Path) -> None:
    programs = folder("WARDARM_UR_RTDE_BIN")
    with robot("--tcp", "0,0,0,0,0,0", "--power-on-s", "0.5", "--brake-release-s", "0.3", address="127.0.0.1") as ur:
        for binary in sorted(p for p in programs.iterdir() if p.is_file() and os.access(p, os.X_OK)):
            fresh(ur)
            if binary.name != "tests":
                ur.ask(HOME)
            limit_s = 20 if binary.name in FOR_EVER else 150
            play(ur, f"ur_rtde, C++ / {binary.name}", [str(binary)], tmp_path, limit_s, binary.name in FOR_EVER)
    assert all(v["result"] for k, v in json.loads(OUT.read_text()).items() if k.startswith("ur_rtde, C++"))
