"""The unit files as systemd reads them, without starting anything."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).resolve().parent.parent / "systemd"
SYSTEM = Path("/usr/lib/systemd/system")
needs_analyze = pytest.mark.skipif(
    not shutil.which("systemd-analyze") or not SYSTEM.is_dir(), reason="no systemd-analyze here: apt install systemd"
)


def lines(name: str) -> list[str]:
    """Settings of a unit file, comments left out."""
    text = (UNITS / name).read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def value(name: str, key: str) -> str:
    return [line.partition("=")[2] for line in lines(name) if line.startswith(f"{key}=")][-1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An installed system in a folder: systemd's own units, ours, and the programs that ours start."""
    shutil.copytree(SYSTEM, tmp_path / "usr/lib/systemd/system", symlinks=True)
    own = tmp_path / "etc/systemd/system"
    own.mkdir(parents=True)
    for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.target"), *UNITS.glob("*.slice")]:
        shutil.copy(unit, own)
    programs = tmp_path / "opt/wardarm/.venv/bin"
    programs.mkdir(parents=True)
    for name in ("python", "wardarm"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    return tmp_path


def verify(root: Path) -> str:
    """systemd-analyze returns 0 for an unknown key: what counts is whether it said anything."""
    ours = sorted(p.name for p in (root / "etc/systemd/system").iterdir() if p.is_file())
    argv = ["systemd-analyze", f"--root={root}", "--man=no", "verify", *ours]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stderr


@needs_analyze
def test_systemd_has_nothing_to_say_about_our_units(root: Path) -> None:
    assert verify(root) == ""


@needs_analyze
def test_a_misspelt_key_would_be_reported(root: Path) -> None:
    unit = root / "etc/systemd/system/wardarm.service"
    unit.write_text(unit.read_text().replace("WatchdogSec=", "WatchdogSecs="))
    assert "WatchdogSecs" in verify(root)


@needs_analyze
def test_the_drop_in_for_argus_is_understood(root: Path) -> None:
    shutil.copytree(UNITS / "wardarm.service.d", root / "etc/systemd/system/wardarm.service.d")
    assert verify(root) == ""


@needs_analyze
@pytest.mark.parametrize(("unit", "threshold"), [("wardarm.service", 25), ("wardarm-pwm-off.service", 25)])
def test_exposure_stays_low(unit: str, threshold: int) -> None:
    """systemd's own score, 0 (closed) to 100; a service without any of these settings has 96."""
    argv = ["systemd-analyze", "security", "--offline=true", f"--threshold={threshold}", str(UNITS / unit)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_the_owner_of_the_pwm_can_write_sysfs() -> None:
    """ProtectKernelTunables would mount /sys read-only, PrivateDevices would hide the cameras."""
    assert value("wardarm.service", "ProtectKernelTunables") == "no"
    for unit in ("wardarm.service", "wardarm-pwm-off.service"):
        assert not any(re.match(r"(ProtectKernelTunables|PrivateDevices)=(yes|true|1)$", line) for line in lines(unit))
        assert not any(line.startswith("ProcSubset=pid") for line in lines(unit))


def test_every_way_in_and_out_switches_the_pwm_off_as_root() -> None:
    off = "/opt/wardarm/.venv/bin/python -m wardarm.gate.pwm_off --config /etc/wardarm/wardarm.toml"
    assert value("wardarm.service", "ExecStartPre") == f"+{off}"
    assert value("wardarm.service", "ExecStopPost") == f"+{off}"
    assert value("wardarm-pwm-off.service", "ExecStart") == off
    assert not any(line.startswith("User=") for line in lines("wardarm-pwm-off.service"))


def test_the_inference_server_is_reachable_from_this_machine_only() -> None:
    ports = [line.partition("=")[2] for line in lines("triton.container") if line.startswith("PublishPort=")]
    assert len(ports) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert value("triton.container", "Image").startswith("localhost/")
    assert value("triton.container", "Pull") == "never"
    assert "Volume=/dev/shm:/dev/shm" in lines("triton.container")
    assert [s for s in lines("triton.container") if s.startswith("[")] == [
        "[Unit]",
        "[Container]",
        "[Service]",
        "[Install]",
    ]


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="no systemd-sysusers here")
def test_the_user_and_its_folders_are_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    made = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sysusers.d/wardarm.conf")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if made.returncode and "Permission denied" in made.stderr:
        pytest.skip("systemd-sysusers --root needs root")
    assert made.returncode == 0, made.stderr
    assert "wardarm" in (tmp_path / "etc/passwd").read_text()
    groups = {line.split(":")[0]: line.split(":")[3] for line in (tmp_path / "etc/group").read_text().splitlines()}
    for group in ("video", "gpio", "plugdev", "audio"):
        assert groups[group] == "wardarm"
    done = subprocess.run(
        ["systemd-tmpfiles", f"--root={tmp_path}", "--create", str(UNITS / "tmpfiles.d/wardarm.conf")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/wardarm/certs").stat().st_mode & 0o777 == 0o750


def test_udev_rules_are_well_formed_and_cover_camera_gpio_and_pwm() -> None:
    rules = lines("udev/70-wardarm.rules")
    term = re.compile(r'[A-Z]+(\{[^}"]+\})?(==|!=|=|\+=|:=)"[^"]*"')
    for rule in rules:
        rest = term.sub("", rule)
        assert set(rest) <= {",", " "}, f"cannot be read: {rest!r} in {rule!r}"
    text = "\n".join(rules)
    for needed in ('ATTR{idProduct}=="0b5c"', 'KERNEL=="gpiochip*"', "810c610000.pwm|810c5e0000.pwm|810c600000.pwm"):
        assert needed in text
