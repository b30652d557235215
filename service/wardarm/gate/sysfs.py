"""The Thor's PWM chips in sysfs, without any library: find, export, switch off.

Used by `pwm_off`, which must work when everything else has failed, and by `pwm_jetson` for what Jetson.GPIO does not
do: it waits for ever for an `enable` that never becomes writable, and its PWM goes on after SIGKILL or `sys.exit()`.
Un-exporting a PWM does not stop it either; only `enable` = 0 does.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

PLATFORM_DEVICES = Path("/sys/bus/platform/devices")

# BOARD pin -> PWM controller; Jetson.GPIO 2.1.13, JETSON_THOR_REFERENCE_PIN_DEFS. Channel 0 of each.
THOR_PWM_CHIPS = {13: "810c610000.pwm", 15: "810c5e0000.pwm", 18: "810c600000.pwm"}
EXPORT_DEADLINE_S = 2.0  # udev sets the rights of `enable` some milliseconds after the export

_CURE = (
    "run as root or as a member of group 'gpio' with Jetson.GPIO's 99-gpio.rules installed, and check the pin's function "
    "with 'sudo /opt/nvidia/jetson-io/jetson-io.py'; docs/wiring.md has both"
)


class PwmUnavailable(RuntimeError):
    """The PWM cannot be driven; the text names pin, path and cure."""


def chip_dir(pin: int) -> Path:
    """`.../810c600000.pwm/pwm/pwmchipN` of a BOARD pin. Raises PwmUnavailable."""
    name = THOR_PWM_CHIPS.get(pin)
    if name is None:
        pins = ", ".join(str(p) for p in sorted(THOR_PWM_CHIPS))
        raise PwmUnavailable(f"gate.pin = {pin}: no PWM on this BOARD pin of a Thor; use one of {pins}")
    parent = PLATFORM_DEVICES / name / "pwm"
    chips = sorted(parent.glob("pwmchip*"))
    if not chips:
        raise PwmUnavailable(f"pin {pin}: {parent} has no pwmchip: the PWM controller is not enabled; {_CURE}")
    return chips[0]


def export(pin: int, deadline_s: float = EXPORT_DEADLINE_S) -> Path:
    """Make `pwm0` appear with a writable `enable`. Returns its folder. Raises PwmUnavailable after `deadline_s`."""
    chip = chip_dir(pin)
    line = chip / "pwm0"
    end = time.monotonic() + deadline_s
    if not line.exists():
        try:
            (chip / "export").write_text("0")
        except OSError as e:
            raise PwmUnavailable(f"pin {pin}: {chip / 'export'}: {e.strerror}; {_CURE}") from e
    while not os.access(line / "enable", os.R_OK | os.W_OK):
        if time.monotonic() > end:
            raise PwmUnavailable(f"pin {pin}: {line / 'enable'} is not writable after {deadline_s:.0f} s; {_CURE}")
        time.sleep(0.01)
    return line


def disable(line: Path) -> None:
    """Stop the PWM of an exported line. Raises OSError."""
    (line / "enable").write_text("0")


def is_enabled(line: Path) -> bool:
    """What the kernel says the line does. Raises OSError."""
    return (line / "enable").read_text().strip() == "1"


def switch_off(pins: tuple[int, ...], export_first: bool = False) -> list[str]:
    """Stop the PWM of these pins. Returns what went wrong, one line a pin.

    `export_first`: also a line that nobody exported, which may still run from before an un-export.
    """
    failures = []
    for pin in pins:
        try:
            line = chip_dir(pin) / "pwm0"
        except PwmUnavailable:
            continue  # no controller: nothing drives the pin
        try:
            if export_first:
                line = export(pin)
            if line.exists():
                disable(line)
                if is_enabled(line):
                    failures.append(f"pin {pin}: {line / 'enable'} still reads 1")
        except PwmUnavailable as e:
            failures.append(str(e))
        except OSError as e:
            failures.append(f"pin {pin}: {line / 'enable'}: {e.strerror}; {_CURE}")
    return failures
