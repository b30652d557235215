"""What became of the spoken alerts: the counts that the alert process leaves in /dev/shm."""

from __future__ import annotations

import json
from dataclasses import dataclass

from wardarm.config import Config
from wardarm.shm import ring


@dataclass(frozen=True)
class AlertReading:
    """Counts since the system started; `running`: its process is there."""

    enabled: bool
    running: bool = False
    said: int = 0
    played: int = 0
    failures: int = 0
    last_failure: str = ""


def read(config: Config) -> AlertReading:
    """As of now. A file that is missing or damaged is an alert that does not run."""
    if not config.alert.enabled:
        return AlertReading(False)
    try:
        found = json.loads((ring.SHM / f"{config.shm.prefix}wardarm_alert.json").read_text("utf-8"))
        running = ring.start_ticks(int(found["pid"])) == int(found["start_ticks"])
        said, played, failures = (max(0, min(0xFFFFFFFF, int(found[name]))) for name in ("said", "played", "failures"))
        return AlertReading(True, running, said, played, failures, str(found["last_failure"])[:300])
    except (OSError, ValueError, KeyError, TypeError):
        return AlertReading(True)
