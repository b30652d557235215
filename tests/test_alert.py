"""What is said beside the bed: after the pause, while the cause persists, never in the way of anything."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from patience import PATIENCE_S
from wardarm import config as configuration
from wardarm.alert import sounds
from wardarm.alert.announcer import Announcer, Seen
from wardarm.alert.sounds import BadSounds
from wardarm.processes import PROCESSES, enabled, required_words
from wardarm.shm import ring
from wardarm.shm.layouts import ARM_STATUS, WORD, ArmState, BlockKind, HoldReason, ProcessId

INTRUDER = HoldReason.INTRUDER


def seen(now_s: float, *, holds: tuple[HoldReason, ...] = (INTRUDER,), causes: tuple[HoldReason, ...] = (INTRUDER,),
         slow: bool = False, at_rest: bool = True, quiet: bool = False) -> Seen:  # fmt: skip
    return Seen(now_s, holds, causes, slow, at_rest, quiet)


def test_nothing_is_said_before_the_arm_is_at_rest() -> None:
    announcer = Announcer(15)
    assert announcer.next(seen(0.0, holds=())) is None
    assert [announcer.next(seen(t, at_rest=False)) for t in (0.1, 0.3, 0.5)] == [None] * 3
    assert announcer.next(seen(0.6)) == "intruder"


def test_it_is_said_again_while_somebody_is_there_and_not_after() -> None:
    announcer = Announcer(15)
    said = [t for t in range(60) if announcer.next(seen(float(t)))]
    assert said == [0, 15, 30, 45]
    assert [announcer.next(seen(60.0 + t, causes=())) for t in range(40)] == [None] * 40


def test_somebody_who_left_at_once_is_spoken_of_once() -> None:
    announcer = Announcer(15)
    assert [t for t in range(60) if announcer.next(seen(float(t), causes=()))] == [0]


def test_the_next_hold_is_said_at_once() -> None:
    announcer = Announcer(15)
    announcer.next(seen(0.0))
    assert announcer.next(seen(1.0, holds=(), causes=())) is None
    assert announcer.next(seen(2.0)) == "intruder"


def test_an_arm_that_goes_gently_is_said_and_a_hold_outranks_it() -> None:
    announcer = Announcer(15)
    assert announcer.next(seen(0.0, holds=(), causes=(), slow=True, at_rest=False)) == "near"
    assert announcer.next(seen(5.0, holds=(), causes=(), slow=True, at_rest=False)) is None
    assert announcer.next(seen(6.0)) == "intruder"
    assert announcer.next(seen(7.0, holds=(), causes=(), slow=True)) == "near"


def test_quiet_hours_are_quiet_and_end() -> None:
    announcer = Announcer(15)
    assert announcer.next(seen(0.0, quiet=True)) is None
    assert announcer.next(seen(1.0)) == "intruder"


@pytest.mark.parametrize("reason", [HoldReason.CLIENT, HoldReason.STOP, HoldReason.STARTING])
def test_nobody_is_told_what_they_just_did(reason: HoldReason) -> None:
    assert Announcer(15).next(seen(0.0, holds=(reason,), causes=())) is None


def test_every_other_hold_has_a_message(tmp_path: Path) -> None:
    known = set(sounds.messages())
    for reason in HoldReason:
        name = Announcer(15).next(seen(0.0, holds=(reason,), causes=()))
        assert name is None or name in known


def test_the_built_set_can_be_loaded_and_its_chimes_differ(tmp_path: Path) -> None:
    found = sounds.load(sounds.build(tmp_path, None, "chimes", ""))
    assert set(found.files) == set(sounds.messages())
    contents = {file.read_bytes() for rows in found.files.values() for file in rows.values()}
    assert len(contents) == len(found.files)
    with wave.open(str(found.tone)) as w:
        assert w.getnframes() > 0.3 * w.getframerate()
        samples = np.frombuffer(w.readframes(w.getnframes()), np.int16)
    assert 5000 < np.abs(samples).max() < 32000


def test_languages_come_in_the_configured_order(tmp_path: Path) -> None:
    manifest = sounds.build(tmp_path, None, "chimes", "")
    data = json.loads(manifest.read_text())
    shutil.copy(tmp_path / "intruder_zh.wav", tmp_path / "own_en.wav")
    data["messages"]["intruder"]["en"] = {"file": "own_en.wav", "text": "Please go."}
    manifest.write_text(json.dumps(data))
    found = sounds.load(manifest)
    assert [f.name for f in found.of("intruder", ("zh", "en"))] == ["intruder_zh.wav", "own_en.wav"]
    assert [f.name for f in found.of("intruder", ("en", "zh"))] == ["own_en.wav", "intruder_zh.wav"]
    assert [f.name for f in found.of("no such message", ("zh",))] == ["held_zh.wav"]


def test_a_manifest_that_does_not_fit_is_named_and_seal_mends_it(tmp_path: Path) -> None:
    manifest = sounds.build(tmp_path, None, "chimes", "")
    shutil.copy(tmp_path / "tone.wav", tmp_path / "intruder_zh.wav")
    with pytest.raises(BadSounds, match=r"intruder_zh\.wav: is not the file that the manifest names"):
        sounds.load(manifest)
    assert sounds.seal(manifest) > 3
    sounds.load(manifest)
    (tmp_path / "intruder_zh.wav").write_bytes(b"not a wav")
    with pytest.raises(BadSounds, match=r"intruder_zh\.wav: .*give a PCM WAV file"):
        sounds.load(manifest)
    with pytest.raises(BadSounds, match="wardarm alert build"):
        sounds.load(tmp_path / "nowhere.json")


def test_the_process_is_one_whose_death_holds_nothing() -> None:
    row = next(p for p in PROCESSES if p.name == "alert")
    config = configuration.load("desk")
    assert not row.essential
    assert not row.word
    assert row in enabled(config)
    assert ProcessId.ALERT not in required_words(config)
    assert row not in enabled(configuration.load("desk", {"alert.enabled": False}))


class Board:
    """The alert process on blocks that the test writes: arm's status and guard's word."""

    def __init__(self, folder: Path, **alert: object) -> None:
        self.folder, self.prefix = folder, f"tl{secrets.token_hex(4)}_"
        ring.create(BlockKind.ARM_STATUS, self.prefix)
        ring.create(BlockKind.WORD, self.prefix, ProcessId.GUARD)
        self.arm = ring.Writer(BlockKind.ARM_STATUS, self.prefix)
        self.word = ring.Writer(BlockKind.WORD, self.prefix, ProcessId.GUARD)
        self.log = folder / "played"
        player = f"sh -c 'echo $0 >> {self.log}' {{file}}"
        self.config = {"schema": 1, "shm": {"prefix": self.prefix}, "log": {"directory": str(folder)},
                       "gate": {"word_deadline_ms": 1000}, "alert": {"command": player, "repeat_s": 3} | alert,
                       "guard": {"enabled": True}}  # fmt: skip
        self.file = folder / "wardarm.json"
        self.file.write_text(json.dumps(self.config))
        self.process = subprocess.Popen([sys.executable, "-m", "wardarm.alert.main", "--config", str(self.file)])

    def say(
        self, holds: tuple[HoldReason, ...], at_rest: bool, ok: bool = False, reason: HoldReason = INTRUDER
    ) -> None:
        status, word = np.zeros((), ARM_STATUS), np.zeros((), WORD)
        status["stamp_ns"], status["state"], status["at_rest"] = time.monotonic_ns(), ArmState.HELD, at_rest
        status["hold_count"] = len(holds)
        for i, hold in enumerate(holds):
            status["holds"][i]["reason"], status["holds"][i]["seq"] = hold, i + 1
        word["beat_ns"], word["process"], word["ok"], word["reason"] = time.monotonic_ns(), ProcessId.GUARD, ok, reason
        self.arm.publish(status)
        self.word.publish(word)

    def played(self) -> list[str]:
        return [Path(line).name for line in self.log.read_text().split()] if self.log.exists() else []

    def counts(self) -> dict[str, object]:
        try:
            return json.loads((ring.SHM / f"{self.prefix}wardarm_alert.json").read_text())
        except (OSError, ValueError):
            return {}

    def until(self, condition: Callable[[], bool], say: Callable[[], None], limit_s: float = PATIENCE_S) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, f"played {self.played()}, counts {self.counts()}"
            assert self.process.poll() is None
            say()
            time.sleep(0.05)

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_S)
        for file in ring.SHM.glob(f"{self.prefix}*"):
            file.unlink()


@pytest.fixture
def board(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Board]:
    board = Board(tmp_path, **getattr(request, "param", {}))
    try:
        yield board
    finally:
        board.close()


def test_the_process_speaks_after_rest_and_repeats(board: Board) -> None:
    board.until(lambda: bool(board.counts()), lambda: board.say((INTRUDER,), at_rest=False))
    for _ in range(20):
        board.say((INTRUDER,), at_rest=False)
        time.sleep(0.05)
    assert board.played() == []
    board.until(lambda: len(board.played()) >= 2, lambda: board.say((INTRUDER,), at_rest=True))
    assert set(board.played()) <= {"intruder_zh.wav", "intruder_en.wav"}
    assert board.counts()["failures"] == 0


def clock(minutes_from_now: int) -> str:
    return time.strftime("%H:%M", time.localtime(time.time() + 60 * minutes_from_now))


@pytest.mark.parametrize("board", [{"quiet_start": clock(-120), "quiet_end": clock(120)}], indirect=True)
def test_in_quiet_hours_nothing_is_said_and_nothing_is_counted_as_a_failure(board: Board) -> None:
    board.until(lambda: bool(board.counts()), lambda: board.say((INTRUDER,), at_rest=True))
    for _ in range(20):
        board.say((INTRUDER,), at_rest=True)
        time.sleep(0.05)
    assert board.played() == []
    assert (board.counts()["said"], board.counts()["failures"]) == (0, 0)


@pytest.mark.parametrize("board", [{"command": "no_such_player {file}"}], indirect=True)
def test_a_player_that_is_not_installed_is_named(board: Board) -> None:
    board.until(lambda: int(board.counts().get("failures", 0)) >= 1, lambda: board.say((INTRUDER,), at_rest=True))  # type: ignore[call-overload]
    assert "shown, not spoken: alert.command's 'no_such_player' is not installed" in str(board.counts()["last_failure"])


@pytest.mark.parametrize("board", [{"command": "aplay -q -D no_such_device {file}"}, {"command": "sh -c 'exit 3' {file}"},
                                   {"command": "sleep 60", "timeout_s": 1.5}], indirect=True)  # fmt: skip
def test_no_sound_card_a_failing_player_and_one_that_hangs_are_counted_and_stop_nothing(board: Board) -> None:
    def failures() -> int:
        return int(board.counts().get("failures", 0))  # type: ignore[call-overload]

    board.until(lambda: failures() >= 2, lambda: board.say((INTRUDER,), at_rest=True))
    assert board.process.poll() is None
    assert board.counts()["last_failure"]
    lines = [json.loads(line) for line in (board.folder / "alert.jsonl").read_text().splitlines()]
    assert sum(line["event"] == "no sound" for line in lines) == 1, "the same failure is one line, and counted"


@pytest.mark.parametrize("board", [{"manifest": "/no/such/manifest.json", "self_test": True}], indirect=True)
def test_a_missing_manifest_is_counted_and_the_chimes_and_the_tone_play(board: Board) -> None:
    board.until(
        lambda: "tone.wav" in board.played(), lambda: board.say((), at_rest=True, ok=True, reason=HoldReason.NONE)
    )
    board.until(lambda: len(board.played()) >= 2, lambda: board.say((INTRUDER,), at_rest=True))
    assert "/no/such/manifest.json" in str(board.counts()["last_failure"])


def test_the_tone_can_be_played_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    base = {"schema": 1, "shm": {"prefix": f"tl{secrets.token_hex(4)}_"}}
    for command, code in ((f"cp {{file}} {tmp_path}/heard.wav", 0), ("/no/such/player {file}", 1)):
        file.write_text(json.dumps(base | {"alert": {"command": command}}))
        argv = [sys.executable, "-m", "wardarm.cli", "alert", "test", "--config", str(file)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=os.environ | {"COLUMNS": "200"})
        assert done.returncode == code, done.stderr
    assert (tmp_path / "heard.wav").read_bytes()[:4] == b"RIFF"
    assert "/no/such/player" in done.stderr
