"""`python last_lines_program.py CONFIG RUN_DIR`: the supervisor with the real gate and a bystander that only sleeps."""

from __future__ import annotations

import sys
from pathlib import Path

from wardarm import config as configuration
from wardarm import supervisor
from wardarm.config import Config
from wardarm.processes import PROCESSES, Process

BYSTANDER = "bystander"


def _sleep(_config: Config, _file: Path) -> list[str]:
    return [sys.executable, "-c", "import time; time.sleep(600)"]


def rows(_config: Config) -> list[Process]:
    gate = next(p for p in PROCESSES if p.name == "gate")
    return [gate, Process(BYSTANDER, _sleep, [], [], "nothing")]


if __name__ == "__main__":
    supervisor.enabled = rows  # type: ignore[attr-defined]
    sys.exit(supervisor.run(configuration.load(sys.argv[1]), Path(sys.argv[2])))
