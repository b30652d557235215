"""A real systemd, booted in a container on an overlay of this machine's root, runs our units as they ship. Only the
program `wardarm` is a stand-in: it says READY, feeds the watchdog, and hangs or dies on request. `pwm_off` is real
and switches a recorded unix PWM."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
UNITS = REPOSITORY / "systemd"
BOOT_S = 20.0
PREFIX = Path(sys.base_prefix)  # where this Python lives; the units may not look into /root or /home
INSIDE = Path("/opt/python") if PREFIX.parts[1] not in ("usr", "opt") else PREFIX
PYTHON = INSIDE / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
SERVICE = "/opt/wardarm/service"


def _why_not() -> str:
    if os.geteuid() != 0:
        return "booting a container needs root"
    for program, package in (("systemd-nspawn", "systemd-container"), ("nsenter", "util-linux"), ("mount", "mount")):
        if not shutil.which(program):
            return f"{program} is missing: apt install {package}"
    return ""


def _may_raise_limits() -> bool:
    """CAP_SYS_RESOURCE (24): without it no container can give LimitNICE away."""
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("CapEff:")[1].split()[0], 16) >> 24 & 1)


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "can run")

STAND_IN = """
import json, os, resource, sys, time
from pathlib import Path
from wardarm import notify
run = Path("/run/wardarm")
def can(path):
    try:
        (Path(path) / "probe").write_text("x"); return True
    except OSError:
        return False
seen = {"argv": sys.argv[1:], "uid": os.getuid(), "groups": len(os.getgroups()), "watchdog_s": notify.watchdog_period_s(),
        "state": can("/var/lib/wardarm"), "etc": can("/etc"), "shm": can("/dev/shm"),
        "sys_read_only": bool(os.statvfs("/sys").f_flag & os.ST_RDONLY), "nice_limit": resource.getrlimit(resource.RLIMIT_NICE)[0]}
(run / "seen.new").write_text(json.dumps(seen)); (run / "seen.new").rename(run / "seen.json")
notify.ready("stand-in is up")
while not (run / "hang").exists():
    notify.watchdog(); time.sleep(0.1)
(run / "hang").unlink()
time.sleep(600)
"""
RECORDER = """
import json, os, socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind("/run/pwm.sock")
while True:
    d = json.loads(s.recv(4096))
    with open("/run/pwm.log", "a") as f: f.write(json.dumps({"t_ns": time.monotonic_ns(), "on": d["on"]}) + "\\n")
"""


class Machine:
    """The booted container. Commands run inside through nsenter."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place / "root"
        self.nspawn: subprocess.Popen[bytes] | None = None
        self.leader = 0

    def prepare(self) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "wardarm-test", str(self.place)], check=True)
        for name in ("up", "wk", "root"):
            (self.place / name).mkdir()
        options = f"lowerdir=/,upperdir={self.place}/up,workdir={self.place}/wk"
        subprocess.run(["mount", "-t", "overlay", "wardarm-test", "-o", options, str(self.root)], check=True)
        system = self.root / "etc/systemd/system"
        for unit in [*UNITS.glob("*.service"), *UNITS.glob("*.target"), *UNITS.glob("*.slice")]:
            shutil.copy(unit, system)
        self._program("wardarm", f"exec {PYTHON} /opt/wardarm/stand_in.py")
        self._program("python", f"exec {PYTHON}")
        (self.root / "opt/wardarm/stand_in.py").write_text(STAND_IN)
        (self.root / "opt/wardarm/recorder.py").write_text(RECORDER)
        (self.root / "etc/wardarm").mkdir(exist_ok=True)
        (self.root / "etc/wardarm/wardarm.toml").write_text('schema = 1\n[gate]\noutput = "unix:/run/pwm.sock"\n')
        unit = f"[Service]\nExecStart={PYTHON} /opt/wardarm/recorder.py\n"
        (system / "recorder.service").write_text(unit)
        (system / "boot.target").write_text("[Unit]\nAllowIsolate=yes\nWants=recorder.service\n")
        for program, file in (("sysusers", "sysusers.d"), ("tmpfiles", "tmpfiles.d")):
            argv = [f"systemd-{program}", f"--root={self.root}", str(UNITS / file / "wardarm.conf")]
            subprocess.run(
                argv[:2] + ["--create"] * (program == "tmpfiles") + argv[2:], check=True, capture_output=True
            )

    def _program(self, name: str, command: str) -> None:
        path = self.root / "opt/wardarm/.venv/bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\nexport PYTHONPATH={SERVICE} PYTHONDONTWRITEBYTECODE=1\n{command} "$@"\n')
        path.chmod(0o755)

    def boot(self) -> str:
        """ "" once systemd answers, else why it does not."""
        argv = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--link-journal=no", "-D", str(self.root)]
        argv += ["--private-network", "--console=pipe", "--capability=CAP_SYS_RESOURCE"]  # for LimitNICE
        argv.append(f"--bind-ro={REPOSITORY / 'service'}:{SERVICE}")
        if INSIDE != PREFIX:
            argv.append(f"--bind-ro={PREFIX}:{INSIDE}")
        argv += ["--boot", "systemd.unit=boot.target"]
        self.log = (self.place / "console").open("wb")
        self.nspawn = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end:
            if self.nspawn.poll() is not None:
                return f"systemd-nspawn ended: {(self.place / 'console').read_text(errors='replace')[-300:].strip()}"
            children = Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
            if children:
                self.leader = int(children[0])
                if self.inside("systemctl", "is-active", "boot.target", "recorder.service").split() == ["active"] * 2:
                    return ""
            time.sleep(0.1)
        return f"systemd did not boot in {BOOT_S:.0f} s: {(self.place / 'console').read_text(errors='replace')[-300:].strip()}"

    def inside(self, *argv: str) -> str:
        done = subprocess.run(
            ["nsenter", "-t", str(self.leader), "-a", *argv], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout.strip()

    def show(self, key: str) -> str:
        return self.inside("systemctl", "show", "--value", "-p", key, "wardarm.service")

    def offs(self) -> list[int]:
        """When each 'off' arrived, CLOCK_MONOTONIC ns."""
        records = [json.loads(line) for line in self.inside("cat", "/run/pwm.log").splitlines()]
        assert not any(r["on"] for r in records)
        return [r["t_ns"] for r in records]

    def seen(self) -> dict[str, object]:
        return json.loads(self.inside("cat", "/run/wardarm/seen.json") or "{}")

    def until(self, condition: Callable[[], bool], what: str, limit_s: float = 20.0) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, (
                f"{what}: not in {limit_s} s; {self.inside('journalctl', '-o', 'cat', '-n', '30')}"
            )
            time.sleep(0.05)

    def up_again(self, old_pid: str) -> bool:
        return self.show("ActiveState") == "active" and self.show("MainPID") not in ("0", old_pid)

    def close(self) -> None:
        if self.leader:
            subprocess.run(["kill", "-KILL", str(self.leader)], check=False, capture_output=True)
        if self.nspawn is not None:
            try:
                self.nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
            self.log.close()
        for mount in (self.root, self.place):
            subprocess.run(["umount", "-l", str(mount)], check=False, capture_output=True)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("boot"))
    try:
        try:
            machine.prepare()
        except (subprocess.CalledProcessError, OSError) as e:
            pytest.skip(f"no overlay of / can be mounted here: {e}")
        why = machine.boot()
        if why:
            pytest.skip(why)
        yield machine
    finally:
        machine.close()


def test_the_units_start_watch_and_switch_off(machine: Machine) -> None:
    machine.inside("systemctl", "start", "wardarm.target")
    machine.until(lambda: machine.show("ActiveState") == "active", "start")
    assert len(machine.offs()) == 2, "once by wardarm-pwm-off.service, once by ExecStartPre"
    assert machine.show("StatusText") == "stand-in is up"
    seen = machine.seen()
    assert seen["argv"] == ["run", "--config", "/etc/wardarm/wardarm.toml", "--run-dir", "/run/wardarm"]
    assert seen["uid"] != 0
    assert seen["watchdog_s"] == 1.0
    assert (seen["state"], seen["shm"], seen["etc"]) == (True, True, False)
    if _may_raise_limits():
        assert seen["nice_limit"] == 30, "20 - nice: down to nice -10"

    # killed: off at once, then up again
    pid, offs = machine.show("MainPID"), len(machine.offs())
    killed_ns = time.monotonic_ns()
    machine.inside("kill", "-KILL", pid)
    machine.until(lambda: machine.up_again(pid), "restart after SIGKILL")
    after = machine.offs()
    assert len(after) == offs + 3, "ExecStopPost, then the unit and ExecStartPre of the new start"
    assert (after[offs] - killed_ns) * 1e-9 < 1.5

    # hung: the watchdog ends it, off, up again
    pid, offs = machine.show("MainPID"), len(machine.offs())
    hung_ns = time.monotonic_ns()
    machine.inside("touch", "/run/wardarm/hang")
    machine.until(lambda: machine.up_again(pid), "restart after a hang")
    after = machine.offs()
    assert len(after) == offs + 3, "ExecStopPost, then the unit and ExecStartPre of the new start"
    assert (after[offs] - hung_ns) * 1e-9 < 2.0 + 2.0, "WatchdogSec and a loaded machine's allowance"

    # stopped: off, and it stays down
    offs = len(machine.offs())
    machine.inside("systemctl", "stop", "wardarm.service")
    assert machine.show("ActiveState") == "inactive"
    assert len(machine.offs()) == offs + 1


def test_the_pwm_off_unit_works_alone(machine: Machine) -> None:
    offs = len(machine.offs())
    machine.inside("systemctl", "start", "wardarm-pwm-off.service")
    result = machine.inside("systemctl", "show", "--value", "-p", "Result", "wardarm-pwm-off.service")
    assert result == "success"
    assert len(machine.offs()) == offs + 1
