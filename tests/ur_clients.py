"""Runs what others wrote for a robot (test programs, examples) against a simulated one, and makes docs/sim_ur_clients.md."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ur_bench import Robot

HOME = "place -1.6007 -1.7271 -2.203 -0.808 1.5951 -0.031"  # where Universal Robots' simulator starts
Row = dict[str, Any]


def quiet(command: Sequence[str]) -> list[str]:
    """Without the right to real-time priority, which the clients would take from the controller they talk to."""
    keep = ["setpriv", "--bounding-set", "-sys_nice"] if shutil.which("setpriv") and os.geteuid() == 0 else []
    return [*keep, *command]


def run(command: Sequence[str], folder: Path, limit_s: float, **more: str) -> tuple[int | None, str]:
    """Exit status (None: still ran after `limit_s`) and everything it said."""
    try:
        done = subprocess.run(
            quiet(command), cwd=folder, env={**os.environ, **more}, capture_output=True, text=True, timeout=limit_s,
            errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as e:
        said = (e.stdout or b"") + (e.stderr or b"")
        return None, said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return done.returncode, done.stdout + done.stderr


def fresh(robot: Robot, program: str = "") -> None:
    """At rest where Universal Robots' simulator starts; `program` is loaded."""
    robot.ask("inject reset")
    robot.ask(HOME)
    if program:
        with socket.create_connection((robot.address, 29999), timeout=60) as dashboard:
            dashboard.sendall(f"load {program}\nquit\n".encode())
            while dashboard.recv(4096):
                pass


def gtest_cases(binary: Path) -> list[str]:
    names, suite = [], ""
    for line in subprocess.run([str(binary), "--gtest_list_tests"], capture_output=True, text=True).stdout.splitlines():
        if line.startswith("  "):
            names.append(suite + line.split()[0])
        elif line.endswith("."):
            suite = line
    return names


def gtest_case(robot: Robot, binary: Path, name: str, folder: Path, arguments: Sequence[str], tries: int = 3) -> Row:
    """A case counts as passed if one of `tries` runs passes: its own deadlines are in wall time, on a machine like this."""
    row: Row = {"result": False, "detail": ""}
    for number in range(1, tries + 1):
        fresh(robot, "wait_program.urp")
        command = [str(binary), f"--gtest_filter={name}", "--robot_ip", robot.address, *arguments]
        status, said = run(command, folder, 75)
        if status == 0:
            return {"result": True, "detail": "skips itself" if "[  SKIPPED ] 1 test" in said else "", "runs": number}
        found = re.search(r": Failure\n(.*?\n.*?)\n", said)
        row = {"result": False, "detail": "no end" if status is None else (found[1] if found else said[-200:])}
        row["log"] = robot.log()[-3:]
    return row


def table(title: str, rows: dict[str, Row], reasons: dict[str, str]) -> list[str]:
    """One line a suite: `rows` are named "suite / case"; `reasons` say why a case cannot pass here."""
    suites: dict[str, dict[str, Row]] = {}
    for name, row in rows.items():
        suite, _, case = name.partition(" / ")
        suites.setdefault(suite, {})[case] = row
    lines = [f"### {title}", "", "| what | passed | the others |", "|---|---|---|"]
    for suite, cases in suites.items():
        passed = sum(row["result"] for row in cases.values())
        others = []
        for case, row in cases.items():
            if not row["result"]:
                reason = reasons.get(case) or row["detail"].replace("|", "/").replace("\n", " ")[:160]
                others.append(f"`{case}`: {reason}")
        lines.append(f"| {suite} | {passed} of {len(cases)} | {'; '.join(others)} |")
    return [*lines, ""]


def write_table(file: Path, mark: str, lines: Sequence[str]) -> None:
    """Between `<!-- mark -->` and `<!-- end of mark -->` of a page."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    head, _, rest = file.read_text().partition(begin)
    file.write_text("\n".join([head + begin, "", *lines, end]) + rest.partition(end)[2])
