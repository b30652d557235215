"""Configuration files: what fits is read, what does not is named with key, value and limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wardarm import config as configuration
from wardarm.config import ConfigError
from wardarm.processes import PROCESSES, enabled, required_words
from wardarm.shm.layouts import ProcessId


@pytest.mark.parametrize("name", ["desk", "thor"])
def test_the_shipped_files_are_good(name: str) -> None:
    config = configuration.load(name)
    assert config.simulated == (name == "desk")
    assert config.limits.tcp_m_s == 0.25


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("eye.period_s", 9, "less than or equal to 2"),
        ("gate.pin", 0, "greater than or equal to 1"),
        ("profile", "race", "not one of ward, carry_liquid, patient, fast"),
        ("camera.colour", True, "Extra inputs are not permitted"),
        ("workspace.low", [0.95, -0.6, 0.0], "low x = 0.95 is not below high x = 0.9"),
        ("arm.host", "", "at least 1 character"),
        ("eye.delay_s", float("nan"), "finite number"),
        ("gate", {"output": "jetson", "pin": 33}, "PWM on a Thor is on BOARD 13, 15, 18"),
        ("schema", 2, "this version reads schema 1"),
        ("api.address", "0.0.0.0:50051", "without TLS only loopback is allowed"),
        ("simulated", False, "sim.enabled = true needs simulated = true"),
    ],
)
def test_what_does_not_fit_is_named(key: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        configuration.load("desk", {key: value})
    assert words in str(error.value)
    assert key.rpartition(".")[2] in str(error.value)


def test_a_missing_or_broken_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration"):
        configuration.load(tmp_path / "nowhere.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("schema = \n")
    with pytest.raises(ConfigError, match=r"broken\.toml"):
        configuration.load(broken)


def test_a_dumped_configuration_reads_back_the_same(tmp_path: Path) -> None:
    config = configuration.load("desk", {"sim.seed": 3})
    configuration.dump(config, tmp_path / "it.json")
    assert configuration.load(tmp_path / "it.json") == config


def test_the_reference_lists_every_key() -> None:
    text = configuration.reference()
    for key in ("eye.valid_min", "arm.dh_a", "gate.word_deadline_ms", "guard.enabled", "camera.source"):
        assert f"| `{key}` |" in text


def test_the_gate_needs_the_words_of_what_is_enabled() -> None:
    with_guard = configuration.load("desk")
    without = configuration.load("desk", {"guard.enabled": False})
    assert set(required_words(with_guard)) == {ProcessId.ARM, ProcessId.API, ProcessId.GUARD}
    assert set(required_words(without)) == {ProcessId.ARM, ProcessId.API}
    assert "guard" not in [p.name for p in enabled(without)]
    assert all(p.death for p in PROCESSES)


def test_a_profile_that_ships_may_be_given_in_part_and_the_others_stay() -> None:
    shipped = configuration.Config().profiles
    changed = configuration.parse({"profiles": {"patient": {"tcp_m_s": 0.08}}}, "test").profiles
    assert list(changed) == list(shipped)
    assert changed["patient"] == shipped["patient"].model_copy(update={"tcp_m_s": 0.08})
    assert {n: p for n, p in changed.items() if n != "patient"} == {n: p for n, p in shipped.items() if n != "patient"}
    with pytest.raises(ConfigError, match=r"profiles\.patient\.tcp_m_s"):
        configuration.parse({"profiles": {"patient": {"tcp_m_s": 0.0}}}, "test")
    with pytest.raises(ConfigError, match=r"profiles\.mine\.tcp_m_s2"):
        configuration.parse({"profiles": {"mine": {"tcp_m_s": 0.1}}}, "test")


def test_the_words_of_a_refusal_are_printed_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text("schema = 1\n[guard]\nenabled = true\ncameras = []\n")
    done = subprocess.run(
        [sys.executable, "-m", "wardarm.cli", "config", "check", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "[[guard.cameras]]" in done.stderr
