"""`python -m wardarm.gate.pwm_off --config FILE`: PWM off, without gate, without Jetson.GPIO, without a valid file.

systemd runs it before gate starts and after it ended (ExecStartPre, ExecStopPost), the supervisor when gate died. It
reads only what it needs: a file that cannot be read or understood means every PWM pin of the Thor. Exit status 0 if
everything that is there is off, 1 with a line for each that is not.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import time
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from wardarm.gate import sysfs
from wardarm.gate.pwm_unix import datagram


def gate_section(name: str) -> dict[str, Any]:
    """The `[gate]` table of a TOML or JSON file or of a shipped configuration; empty if there is none to be had."""
    try:
        if "/" not in name and not name.endswith((".toml", ".json")):
            raw = resources.files("wardarm").joinpath("configs", f"{name}.toml").read_text("utf-8")
        else:
            raw = Path(name).read_text("utf-8")
        data = json.loads(raw) if name.endswith(".json") else tomllib.loads(raw)
        section = data.get("gate", {})
        return section if isinstance(section, dict) else {}
    except (OSError, ValueError) as e:
        print(f"{name}: {e}; switching every PWM pin off", file=sys.stderr)
        return {}


def switch_off(gate: dict[str, Any]) -> list[str]:
    """Switch off what a `[gate]` table names. Returns what failed."""
    kind, _, path = str(gate.get("output", "jetson")).partition(":")
    if kind == "unix":
        state = datagram(
            time.monotonic_ns(), False, float(gate.get("frequency_hz", 1000)), float(gate.get("duty_percent", 50))
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.settimeout(1.0)
            try:
                line.sendto(state, path)
            except (FileNotFoundError, ConnectionRefusedError):
                pass  # no simulated controller, nothing to switch
            except OSError as e:
                return [f"{path}: {e.strerror or e}"]
        return []
    pin = gate.get("pin")
    if isinstance(pin, int) and pin in sysfs.THOR_PWM_CHIPS:
        return sysfs.switch_off((pin,), export_first=True)
    return sysfs.switch_off(tuple(sysfs.THOR_PWM_CHIPS))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.gate.pwm_off", description="Switch gate's PWM off.")
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    failures = switch_off(gate_section(parser.parse_args().config))
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
