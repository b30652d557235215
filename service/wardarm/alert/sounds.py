"""The WAV files that are played, and the manifest that names them.

`manifest.json` beside its WAV files:

    {"version": 1, "engine": "...", "licence": "...", "messages": {
        "intruder": {"zh": {"file": "intruder_zh.wav", "text": "...", "sha256": "..."}, "en": {...}}, ...},
     "tone": {"file": "tone.wav", "sha256": "..."}}

A site replaces the files by its own recordings (a nurse's voice), runs `wardarm alert check`, and names the manifest in
`alert.manifest`. Without one, `make` builds a set when the alert process starts: a chime a message, told apart by its
notes, and speech behind it if the program `espeak-ng` is installed (a program of its own, GPL; its voice is a robot's).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import tomllib
import wave
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANGUAGES = ("zh", "en")
RATE_HZ = 22050
CHIMES_HZ: dict[
    str, tuple[float, ...]
] = {  # two or three notes, low to high for "please go", falling for "something failed"
    "intruder": (660, 880),
    "near": (880,),
    "view_changed": (880, 660, 880),
    "room_camera_lost": (880, 660, 440),
    "held": (660, 660),
}
TONE_HZ = (440, 660, 880)
NOTE_S, GAP_S, LOUD = 0.22, 0.06, 0.35
SPEAK_S = 20.0
VOICES = {"zh": "cmn-latn-pinyin", "en": "en"}


class BadSounds(ValueError):
    """The manifest or a file of it cannot be used; the text names it."""


@dataclass(frozen=True)
class Message:
    """`texts` and `pinyin` of one message."""

    texts: dict[str, str]
    pinyin: str


def messages() -> dict[str, Message]:
    """Every message that can be said."""
    raw = tomllib.loads(resources.files("wardarm").joinpath("alert", "messages.toml").read_text("utf-8"))
    return {name: Message({"zh": m["zh"], "en": m["en"]}, m["pinyin"]) for name, m in raw.items()}


@dataclass(frozen=True)
class Sounds:
    """`files`: message -> language -> WAV. `tone`: the self-test."""

    files: dict[str, dict[str, Path]]
    tone: Path

    def of(self, message: str, languages: tuple[str, ...]) -> list[Path]:
        """What is played for a message, in order; that of `held` for one that the manifest does not know."""
        found = self.files.get(message) or self.files.get("held", {})
        return [found[language] for language in languages if language in found]


def load(manifest: Path) -> Sounds:
    """Read and check a manifest: every file is there, is a WAV, and has its sum. Raises BadSounds."""
    try:
        data = json.loads(manifest.read_text("utf-8"))
        files = {
            name: {language: _checked(manifest, row) for language, row in rows.items() if language in LANGUAGES}
            for name, rows in data["messages"].items()
        }
        tone = _checked(manifest, data["tone"])
    except OSError as e:
        raise BadSounds(f"{manifest}: {e.strerror}; 'wardarm alert make --out DIR' writes one to begin with") from e
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        if isinstance(e, BadSounds):
            raise
        raise BadSounds(f"{manifest}: not a manifest ({type(e).__name__}: {e})") from e
    if not any(files.values()):
        raise BadSounds(f"{manifest}: no message at all")
    return Sounds(files, tone)


def _checked(manifest: Path, row: dict[str, str]) -> Path:
    file = manifest.parent / row["file"]
    try:
        content = file.read_bytes()
        with wave.open(str(file), "rb") as w:
            if w.getnframes() == 0:
                raise BadSounds(f"{file}: has no sound in it")
    except (OSError, wave.Error, EOFError) as e:
        raise BadSounds(f"{file}: {e}; give a PCM WAV file") from e
    if row.get("sha256") and hashlib.sha256(content).hexdigest() != row["sha256"]:
        raise BadSounds(f"{file}: is not the file that the manifest names (sha256 differs); run 'wardarm alert seal'")
    return file


def seal(manifest: Path) -> int:
    """Write the sums of the present files into a manifest: after a person has listened to them. Returns their number."""
    data = json.loads(manifest.read_text("utf-8"))
    rows = [row for rows in data["messages"].values() for row in rows.values()] + [data["tone"]]
    for row in rows:
        row["sha256"] = hashlib.sha256((manifest.parent / row["file"]).read_bytes()).hexdigest()
    manifest.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    load(manifest)
    return len(rows)


def make(folder: Path, speech: bool = True) -> Path:
    """Build every file and the manifest in `folder`; returns the manifest. Without `espeak-ng` only chimes."""
    folder.mkdir(parents=True, exist_ok=True)
    program = shutil.which("espeak-ng") if speech else None
    rows: dict[str, Any] = {}
    silent: list[str] = []
    for name, message in messages().items():
        rows[name] = {}
        for language in LANGUAGES:
            spoken = _speak(program, language, message.pinyin if language == "zh" else message.texts["en"])
            silent += [] if len(spoken) else [f"{name}_{language}"]
            file = folder / f"{name}_{language}.wav"
            _write(file, np.concatenate([chime(CHIMES_HZ[name]), spoken]) if len(spoken) else chime(CHIMES_HZ[name]))
            rows[name][language] = {"file": file.name, "text": message.texts[language], "sha256": _sum(file)}
            if not len(spoken):
                break  # a chime has no language: once is enough
    tone = folder / "tone.wav"
    _write(tone, chime(TONE_HZ))
    data = {
        "version": 1, "engine": _engine(program, silent),
        "licence": "made on this machine", "messages": rows, "tone": {"file": tone.name, "sha256": _sum(tone)},
    }  # fmt: skip
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return manifest


def _engine(program: str | None, silent: list[str]) -> str:
    if program is None:
        return "chimes only: espeak-ng is not installed"
    return f"espeak-ng; it said nothing for {', '.join(silent)}" if silent else "espeak-ng"


def chime(notes_hz: tuple[float, ...]) -> NDArray[np.int16]:
    """Decaying sines, int16 at RATE_HZ."""
    t = np.arange(int(NOTE_S * RATE_HZ)) / RATE_HZ
    gap = np.zeros(int(GAP_S * RATE_HZ))
    parts = [
        np.concatenate([np.sin(2 * np.pi * hz * t) * np.exp(-4 * t / NOTE_S) * np.minimum(1, t / 0.005), gap])
        for hz in notes_hz
    ]
    return np.asarray(np.concatenate(parts) * LOUD * 32767, np.int16)


def _speak(program: str | None, language: str, text: str) -> NDArray[np.int16]:
    """Speech at RATE_HZ (espeak-ng's own rate); empty without the program, or if it fails."""
    nothing = np.zeros(0, np.int16)
    if program is None:
        return nothing
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.wav"
        command = [program, "-v", VOICES[language], "-s", "140", "-w", str(file), text]
        try:
            done = subprocess.run(command, capture_output=True, timeout=SPEAK_S, check=False)
            if done.returncode or not file.exists():
                return nothing
            with wave.open(str(file), "rb") as w:
                if w.getframerate() != RATE_HZ or w.getsampwidth() != 2:
                    return nothing
                return np.frombuffer(w.readframes(w.getnframes()), np.int16)
        except (OSError, subprocess.TimeoutExpired, wave.Error):
            return nothing


def _write(file: Path, samples: NDArray[np.int16]) -> None:
    with wave.open(str(file), "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(RATE_HZ)
        w.writeframes(samples.tobytes())


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
