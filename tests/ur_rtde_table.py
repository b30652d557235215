"""Runs cases of `ur_rtde_methods`, each in a process of its own, and makes the table of docs/sim_ur_rtde.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ur_bench import SERVICE, Robot
from ur_rtde_methods import CASES, DEFECTS, HOME, NOT_MODELLED

METHODS = Path(__file__).with_name("ur_rtde_methods.py")
BEGIN, END = "<!-- table: make prove -->", "<!-- end of table -->"


def all_methods(kind: str) -> list[str]:
    """What the installed ur_rtde has."""
    import dashboard_client
    import rtde_control
    import rtde_io
    import rtde_receive
    import script_client

    modules = (rtde_control, rtde_receive, rtde_io, dashboard_client, script_client)
    found = next(getattr(m, kind) for m in modules if hasattr(m, kind))
    return [n for n in dir(found) if n[0].islower() and callable(getattr(found, n))]


def judge(robot: Robot, kind: str, method: str) -> dict[str, Any]:
    """One method on a robot at rest at HOME: {"result": bool, "detail"}."""
    robot.ask("inject reset")
    robot.ask("place " + " ".join(map(str, HOME)))
    command = [sys.executable, str(METHODS), robot.address, kind, method]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SERVICE), str(METHODS.parent)])}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return {"result": False, "detail": "no answer within 60 s"}
    for line in reversed(done.stdout.splitlines()):
        if line.startswith('{"result"'):
            return json.loads(line)
    return {"result": False, "detail": f"the process ended with {done.returncode}: {done.stderr[-200:]}"}


def verdict(method: str, row: dict[str, Any]) -> str:
    if method in NOT_MODELLED:
        return "not modelled"
    if row["result"]:
        return "pass"
    return "library" if method in DEFECTS else "differs"


def write_table(file: Path, results: dict[str, dict[str, Any]]) -> None:
    """Between the two marks of the page; `results`: "Class.method" to judge()'s answer."""
    lines = [BEGIN, ""]
    for kind in CASES:
        rows = {m: results[f"{kind}.{m}"] for m in sorted(CASES[kind]) if f"{kind}.{m}" in results}
        passed = sum(verdict(m, r) == "pass" for m, r in rows.items())
        lines += [f"### {kind}: {passed} of {len(rows)} pass", "", "| method | result | remark |", "|---|---|---|"]
        for method, row in rows.items():
            found = verdict(method, row)
            known = NOT_MODELLED if found == "not modelled" else DEFECTS if found == "library" else {}
            remark = known.get(method, "") or row["detail"].replace("|", "/").replace("\n", " ")
            lines.append(f"| `{method}` | {found} | {remark} |")
        lines.append("")
    text = file.read_text()
    head, _, rest = text.partition(BEGIN)
    file.write_text(head + "\n".join(lines) + END + rest.partition(END)[2])
