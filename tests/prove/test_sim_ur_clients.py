"""Every method of ur_rtde, its own examples, and Universal Robots' Python client, against the simulated controller.

Writes out/prove/sim_ur_clients.json (resumable: what is in there is not tried again) and the table of docs/sim_ur_rtde.md.
The source distributions are fetched when this runs; a machine without a package index skips those parts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ur_bench import SERVICE, robot
from ur_rtde_methods import CASES, TCP
from ur_rtde_table import all_methods, judge, verdict, write_table

pytestmark = pytest.mark.timeout(3600)
OUT = Path("out/prove")
FILE = OUT / "sim_ur_clients.json"
TABLE = Path("docs/sim_ur_rtde.md")
# what may differ without an explanation in the table: nothing
OPEN: set[str] = set()
EXAMPLE_S = 25  # an example that still runs then was running well: some loop until they are stopped
# What an example of the source distribution needs that the simulator (or a robot without extras) does not have
NEEDS = {
    "test_external_control.py": "an External Control URCap", "joint_pd_torque_control.py": "direct torque control",
    "realtime_control_example.py": "real-time priority", "record_data_example.py": "an operator's Ctrl-C",
}  # fmt: skip


def results() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def keep(name: str, row: dict[str, Any]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(results() | {name: row}, indent=1) + "\n")


@pytest.mark.parametrize("kind", CASES)
def test_every_method_is_tried(kind: str) -> None:
    assert set(all_methods(kind)) == set(CASES[kind])


def test_the_methods_do_on_the_simulated_robot_what_they_say(tmp_path: Path) -> None:
    (tmp_path / "wave.script").write_text("def wave():\n while True:\n  sync()\n end\nend\n")
    with robot(
        "--tcp", ",".join(map(str, TCP)), "--programs", str(tmp_path), "--power-on-s", "0.5", "--brake-release-s", "0.3"
    ) as ur:
        for kind, cases in CASES.items():
            for method in cases:
                if f"{kind}.{method}" not in results():
                    keep(f"{kind}.{method}", judge(ur, kind, method))
    write_table(TABLE, results())
    wrong = {n: r["detail"] for n, r in results().items() if verdict(n.partition(".")[2], r) == "differs"}
    assert set(wrong) <= OPEN, wrong


def _source(name: str, folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--no-build-isolation",
        "-q",
    ]
    done = subprocess.run([*command, "-d", str(folder), name], capture_output=True, text=True)
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        pytest.skip(f"{name} cannot be fetched here: {done.stderr[-200:]}")
    with tarfile.open(archives[0]) as archive:
        archive.extractall(folder, filter="data")
    return next(p for p in folder.iterdir() if p.is_dir())


def test_the_examples_of_ur_rtde_run(tmp_path: Path) -> None:
    """Their text is theirs but for the address; each ends well or still runs after a while."""
    source = _source("ur_rtde==1.6.5", tmp_path)
    failed: dict[str, str] = {}
    with robot() as ur:
        for example in sorted((source / "examples" / "py").glob("*.py")):
            if example.name in NEEDS:
                continue
            ur.ask("inject reset")
            ur.ask("place 0 -1.57 1.57 -1.57 -1.57 0")
            text = example.read_text().replace("127.0.0.1", ur.address).replace("localhost", ur.address)
            copy = tmp_path / example.name
            copy.write_text(text)
            try:
                environment = {**os.environ, "PYTHONPATH": str(SERVICE)}
                done = subprocess.run(
                    [sys.executable, str(copy)], env=environment, capture_output=True, text=True, timeout=EXAMPLE_S
                )
                if done.returncode:
                    failed[example.name] = (done.stdout + done.stderr)[-300:]
            except subprocess.TimeoutExpired:
                if ur.state()["last_error"]:
                    failed[example.name] = ur.state()["last_error"]
            keep(
                f"example {example.name}",
                {"result": example.name not in failed, "detail": failed.get(example.name, "")},
            )
    assert not failed
