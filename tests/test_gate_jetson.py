"""The real Jetson.GPIO on an emulated Thor: its PWM files with the kernel's rules, at their real paths."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import PATIENCE_S
from wardarm.gate.words import OwnWord
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, BlockKind, ProcessId

HERE = Path(__file__).parent / "jetson"
PIN_18 = "810c600000.pwm"


def _why_not() -> str:
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened here"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "mount namespaces are not permitted here"
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "permitted")


@dataclass
class Thor:
    mount: Path
    config: Path
    prefix: str

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.mount / "state.json").read_text())
        return state

    def chip(self, name: str = PIN_18) -> dict[str, Any]:
        chip: dict[str, Any] = self.state()["chips"][name]
        return chip

    def run(self, *command: str) -> subprocess.Popen[str]:
        """Start a command of this interpreter that sees the emulated Thor."""
        return subprocess.Popen(
            [str(HERE / "as_thor.sh"), str(self.mount), sys.executable, *command],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def gate(self) -> subprocess.Popen[str]:
        return self.run("-m", "wardarm.gate.main", "--config", str(self.config))

    def pwm_off(self, config: Path | None = None) -> subprocess.Popen[str]:
        process = self.run("-m", "wardarm.gate.pwm_off", "--config", str(config or self.config))
        process.wait(60)
        return process


def _serve(tmp_path: Path, locked: bool) -> Iterator[Thor]:
    mount = tmp_path / "thor"
    mount.mkdir()
    prefix = f"tj{os.getpid()}_{tmp_path.name[-6:].lower()}_"
    config = tmp_path / "wardarm.toml"
    config.write_text(f'schema = 1\n[shm]\nprefix = "{prefix}"\n[gate]\npin = 18\nword_deadline_ms = 600\n')
    server = subprocess.Popen(
        [sys.executable, str(HERE / "thor_sysfs.py"), str(mount)],
        env=os.environ | {"THOR_SYSFS_LOCKED": "1" if locked else "0"},
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: (mount / "state.json").exists())
        yield Thor(mount, config, prefix)
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=False)
        server.terminate()
        server.wait(60)
        for file in Path("/dev/shm").glob(f"{prefix}*"):
            file.unlink()


def _until(done: Callable[[], bool], limit_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < end, "did not get there"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Thor, Speakers]]:
    for thor in _serve(tmp_path_factory.mktemp("thor"), locked=False):
        yield thor, Speakers(thor.prefix)


@pytest.fixture
def thor(tmp_path: Path) -> Iterator[Thor]:
    """A Thor fresh from the boot."""
    yield from _serve(tmp_path, locked=False)


@pytest.fixture
def locked_thor(tmp_path: Path) -> Iterator[Thor]:
    yield from _serve(tmp_path, locked=True)


class Speakers:
    """Everybody whose word gate needs, and arm's request."""

    def __init__(self, prefix: str) -> None:
        self.words = [OwnWord(p, prefix, 0.02) for p in (ProcessId.ARM, ProcessId.GUARD, ProcessId.API)]
        self.arm = ring.Writer(BlockKind.ARM_STATUS, prefix)
        self.status = np.zeros((), ARM_STATUS)

    def until(self, done: Callable[[], bool]) -> None:
        def tick() -> bool:
            for word in self.words:
                word.say(True)
            self.arm.publish(self.status)
            return done()

        _until(tick)

    def switch_on(self, thor: Thor) -> None:
        """Asks until it is on: a request that fell into a stall of the machine is rightly not served, nor served later."""
        self.status["motion_request"], again_s = 1, 0.0

        def on() -> bool:
            nonlocal again_s
            if time.monotonic() > again_s:
                self.status["request_seq"] += 1
                again_s = time.monotonic() + 2.0
            return bool(thor.chip()["enable"] == 1)

        self.until(on)


@pytest.fixture
def running(whole: tuple[Thor, Speakers]) -> Iterator[tuple[Thor, Speakers, subprocess.Popen[str]]]:
    """A gate whose PWM is on."""
    thor, speakers = whole
    speakers.status["motion_request"] = 0
    gate = thor.gate()
    speakers.until(lambda: thor.chip()["exported"] and (Path("/dev/shm") / f"{thor.prefix}wardarm_gate").exists())
    reader = ring.wait_for(BlockKind.GATE_STATUS, thor.prefix)
    first = reader.latest()
    beats = int(first.data["beat"]) if first else 0

    def seen_idle() -> bool:
        slot = reader.latest()
        return slot is not None and int(slot.data["beat"]) > beats + 5 and not int(slot.data["missing"])

    speakers.until(seen_idle)
    speakers.switch_on(thor)
    yield thor, speakers, gate
    if gate.poll() is None:
        gate.kill()
    gate.wait(60)


Running = tuple[Thor, Speakers, subprocess.Popen[str]]


def test_the_pwm_is_1_khz_at_half_duty_and_the_kernel_refused_nothing(running: Running) -> None:
    chip = running[0].chip()
    assert chip == {"exported": True, "period": 1_000_000, "duty_cycle": 500_000, "enable": 1, "polarity": "normal"}

    writes = running[0].state()["writes"]
    assert not [w for w in writes if "->" in w[3]]
    assert {w[1] for w in writes} == {PIN_18}


def test_the_end_of_a_request_writes_enable_0(running: Running) -> None:
    thor, speakers, _ = running
    speakers.status["motion_request"] = 0
    speakers.until(lambda: thor.chip()["enable"] == 0)
    speakers.switch_on(thor)


def test_sigterm_leaves_it_off(running: Running) -> None:
    thor, _, gate = running
    gate.terminate()
    assert gate.wait(60) == 0
    assert thor.chip()["enable"] == 0


def kill_both(gate: subprocess.Popen[str]) -> None:
    """SIGKILL to gate and its companion: nobody is left to switch off."""
    companion = int(Path(f"/proc/{gate.pid}/task/{gate.pid}/children").read_text().split()[0])
    gate.send_signal(signal.SIGSTOP)
    os.kill(companion, signal.SIGKILL)
    gate.send_signal(signal.SIGKILL)
    gate.wait(60)


def test_after_sigkill_the_companion_switches_off(running: Running) -> None:
    thor, _, gate = running
    gate.send_signal(signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    gate.wait(60)
    _until(lambda: thor.chip()["enable"] == 0)
    off_ns = next(w[0] for w in reversed(thor.state()["writes"]) if w[2:] == ["enable", "0"])
    assert off_ns > killed_ns


def test_when_both_are_killed_the_chip_goes_on_and_pwm_off_stops_it(running: Running) -> None:
    thor, _, gate = running
    kill_both(gate)
    assert thor.chip()["enable"] == 1
    assert thor.pwm_off().returncode == 0
    assert thor.chip()["enable"] == 0


def test_pwm_off_with_an_unreadable_file_switches_every_pin_off(running: Running, tmp_path: Path) -> None:
    thor, _, gate = running
    kill_both(gate)
    broken = tmp_path / "broken.toml"
    broken.write_text("[gate\npin = ")
    assert thor.pwm_off(broken).returncode == 0
    assert thor.chip()["enable"] == 0


def test_pwm_off_reaches_a_line_that_nobody_exports_any_more(thor: Thor) -> None:
    line = thor.mount / "devices" / PIN_18 / "pwm" / "pwmchip2"
    (line / "export").write_text("0")
    (line / "pwm0" / "period").write_text("1000000")
    (line / "pwm0" / "duty_cycle").write_text("500000")
    (line / "pwm0" / "enable").write_text("1")
    (line / "unexport").write_text("0")
    assert thor.chip()["enable"] == 1
    assert thor.pwm_off().returncode == 0
    assert thor.chip()["enable"] == 0


def test_without_rights_gate_ends_within_two_seconds_and_says_pin_path_and_cure(locked_thor: Thor) -> None:
    gate = locked_thor.gate()
    _until(lambda: locked_thor.chip()["exported"])
    assert gate.wait(PATIENCE_S) == 1
    text = gate.stderr.read() if gate.stderr else ""
    assert "pin 18" in text
    assert f"{PIN_18}/pwm/pwmchip2/pwm0/enable" in text
    assert "docs/wiring.md" in text


def test_a_pin_without_pwm_is_refused_by_name(thor: Thor) -> None:
    thor.config.write_text(thor.config.read_text().replace("pin = 18", "pin = 33"))
    gate = thor.gate()
    assert gate.wait(PATIENCE_S) == 1
    text = gate.stderr.read() if gate.stderr else ""
    assert "gate.pin = 33" in text
    assert "13, 15, 18" in text
