"""What is heard beside the bed: the files that ship are whole, loud enough, never clipped, and say what the manifest says.
A real player plays them where ALSA's tools are installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import wave
from pathlib import Path

import numpy as np
import pytest
from wardarm.alert import sounds

SHIPPED = sounds.shipped()
MANIFEST = json.loads(SHIPPED.read_text("utf-8"))
ROWS = [(n, language, row) for n, rows in MANIFEST["messages"].items() for language, row in rows.items()]


def samples(file: Path) -> tuple[np.ndarray, int]:
    """-1 to 1, and the rate."""
    with wave.open(str(file)) as w:
        assert (w.getnchannels(), w.getsampwidth()) == (1, 2)
        return np.frombuffer(w.readframes(w.getnframes()), np.int16) / 32768, w.getframerate()


def level_dbfs(x: np.ndarray, rate_hz: int, window_s: float = 0.05) -> np.ndarray:
    """RMS a window."""
    size = int(window_s * rate_hz)
    parts = x[: len(x) // size * size].reshape(-1, size)
    return 10 * np.log10(np.mean(parts * parts, axis=1) + 1e-12)


def test_every_message_ships_in_both_languages_with_the_text_that_is_shown() -> None:
    found = sounds.load(SHIPPED)
    for name, message in sounds.messages().items():
        assert set(found.files[name]) == {"zh", "en"}, name
        assert {language: MANIFEST["messages"][name][language]["text"] for language in ("zh", "en")} == message.texts
    assert len({row["sha256"] for _, _, row in ROWS}) == len(ROWS)
    assert MANIFEST["engine"]
    assert MANIFEST["licence"]


def test_chinese_comes_before_english() -> None:
    found = sounds.load(SHIPPED)
    assert [f.name for f in found.of("intruder", ("zh", "en"))] == ["intruder_zh.wav", "intruder_en.wav"]


@pytest.mark.parametrize(("name", "language", "row"), ROWS, ids=[r["file"] for _, _, r in ROWS])
def test_a_message_is_heard_from_its_beginning_and_is_not_clipped(
    name: str, language: str, row: dict[str, str]
) -> None:
    x, rate_hz = samples(SHIPPED.parent / row["file"])
    level = level_dbfs(x, rate_hz)
    chime_s = len(sounds.CHIMES_HZ[name]) * (sounds.NOTE_S + sounds.GAP_S)
    speech = level[int(chime_s / 0.05) + 1 :]
    assert level[:2].max() > -25, "no silence in front: the chime begins at once"
    assert speech[speech > -40].mean() > -24, "speech is as loud as the chime"
    assert 20 * np.log10(np.abs(x).max()) < -0.9
    assert not np.any(np.abs(x[1:-1]) >= 32767 / 32768)
    spoken_s = 0.05 * np.count_nonzero(speech > -40)
    assert 1.5 < spoken_s < 9
    quiet = np.flatnonzero(np.diff(np.flatnonzero(np.r_[True, speech > -40, True])) > 20)
    assert not len(quiet), "no pause of a second within it"
    assert abs(float(x.mean())) < 0.005


def test_the_tone_is_three_notes(tmp_path: Path) -> None:
    x, rate_hz = samples(SHIPPED.parent / MANIFEST["tone"]["file"])
    size = len(x) // 3
    for i, hz in enumerate(sounds.TONE_HZ):
        spectrum = np.abs(np.fft.rfft(x[i * size : i * size + int(0.2 * rate_hz)]))
        assert abs(np.argmax(spectrum) / 0.2 - hz) < 10


def test_a_copy_can_be_replaced_file_by_file(tmp_path: Path) -> None:
    manifest = sounds.copy(tmp_path)
    shutil.copy(tmp_path / "tone.wav", tmp_path / "intruder_zh.wav")
    with pytest.raises(sounds.BadSounds, match="wardarm alert seal"):
        sounds.load(manifest)
    assert sounds.seal(manifest) == len(ROWS) + 1
    assert sounds.load(manifest).of("intruder", ("zh",))[0].read_bytes() == (tmp_path / "tone.wav").read_bytes()


def test_loud_speech_is_bent_below_the_peak_and_quiet_speech_made_louder() -> None:
    t = np.arange(16000) / 16000
    for gain in (0.01, 1.0):
        spiky = gain * np.sin(2 * np.pi * 200 * t) ** 9
        x = sounds.levelled(spiky) / 32768
        loud = x[np.abs(x) > 10 ** (sounds.PAUSE_DBFS / 20)]
        assert 20 * np.log10(np.sqrt(np.mean(loud**2))) == pytest.approx(sounds.SPEECH_DBFS, abs=3)
        assert 20 * np.log10(np.abs(x).max()) < sounds.PEAK_DBFS + 0.1
    assert len(sounds.levelled(np.zeros(100))) == 0


def test_a_site_s_own_recordings_are_trimmed_levelled_and_put_behind_the_chime(tmp_path: Path) -> None:
    spoken = tmp_path / "nurse"
    spoken.mkdir()
    t = np.arange(2 * 44100) / 44100
    voice = np.r_[
        np.zeros(44100), 0.02 * np.sin(2 * np.pi * 220 * t), np.zeros(44100)
    ]  # quiet, with a second around it
    for name in ("intruder_zh.wav", "held_en.wav"):
        with wave.open(str(spoken / name), "wb") as w:
            w.setnchannels(2)
            w.setsampwidth(2)
            w.setframerate(44100)
            w.writeframes(np.repeat((voice * 32767).astype(np.int16), 2).tobytes())
    found = sounds.load(sounds.build(tmp_path / "set", spoken, "a nurse", "ours"))
    assert [f.name for f in found.of("intruder", ("zh", "en"))] == ["intruder_zh.wav"]
    x, rate_hz = samples(tmp_path / "set" / "intruder_zh.wav")
    chime_s = 2 * (sounds.NOTE_S + sounds.GAP_S)
    assert len(x) / rate_hz == pytest.approx(chime_s + 2 + 2 * sounds.MARGIN_S, abs=0.05)
    speech = level_dbfs(x[int((chime_s + 0.2) * rate_hz) :], rate_hz)[:30]
    assert speech.mean() == pytest.approx(sounds.SPEECH_DBFS, abs=1.5)
    (spoken / "near_zh.wav").write_bytes(b"RIFF")
    with pytest.raises(sounds.BadSounds, match=r"near_zh\.wav: .*16-bit PCM WAV"):
        sounds.build(tmp_path / "set", spoken, "a nurse", "ours")


@pytest.mark.skipif(
    shutil.which("aplay") is None, reason="alsa-utils is not installed: no player to try the files with"
)
def test_alsa_s_player_plays_every_file_and_fails_without_a_device(tmp_path: Path) -> None:
    (tmp_path / "asoundrc").write_text(
        f'pcm.heard {{ type file slave.pcm null file "{tmp_path}/heard.raw" format raw }}\n'
    )
    env = {"ALSA_CONFIG_PATH": f"/usr/share/alsa/alsa.conf:{tmp_path}/asoundrc", "PATH": "/usr/bin:/bin"}
    for _, _, row in [*ROWS, ("", "", MANIFEST["tone"])]:
        file = SHIPPED.parent / row["file"]
        done = subprocess.run(["aplay", "-q", "-D", "heard", file], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        heard = np.fromfile(tmp_path / "heard.raw", np.int16) / 32768
        x, _ = samples(file)
        assert np.array_equal(heard[: len(x)], x), "what the player sends to the device is the file"
    done = subprocess.run(["aplay", "-q", "-D", "hw:7", file], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
