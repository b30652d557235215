"""The WAV files that are played, and the manifest that names them.

`manifest.json` beside its WAV files:

    {"version": 1, "engine": "...", "licence": "...", "messages": {
        "intruder": {"zh": {"file": "intruder_zh.wav", "text": "...", "sha256": "..."}, "en": {...}}, ...},
     "tone": {"file": "tone.wav", "sha256": "..."}}

A set ships with the package (`voice/`): a chime a message, told apart by its notes, and the sentence behind it, spoken by
Kokoro-82M (Apache-2.0). A site replaces it by its own recordings (a nurse's voice): `wardarm alert build` trims and levels
them, puts the chimes in front and writes the manifest; name that in `alert.manifest`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
import wave
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

LANGUAGES = ("zh", "en")
RATE_HZ = 16000
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
SPEECH_DBFS, PEAK_DBFS = -18.0, -1.0  # RMS of what is spoken; no sample above the peak
PAUSE_DBFS = -50.0  # what is quieter is a pause
MARGIN_S = 0.05  # of what is quieter than that, kept in front and behind


class BadSounds(ValueError):
    """The manifest or a file of it cannot be used; the text names it."""


@dataclass(frozen=True)
class Message:
    """`texts`: language -> what is said."""

    texts: dict[str, str]


def messages() -> dict[str, Message]:
    """Every message that can be said."""
    raw = tomllib.loads(resources.files("wardarm").joinpath("alert", "messages.toml").read_text("utf-8"))
    return {name: Message({"zh": m["zh"], "en": m["en"]}) for name, m in raw.items()}


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
        raise BadSounds(f"{manifest}: {e.strerror}; 'wardarm alert build --out DIR' writes one") from e
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


def shipped() -> Path:
    """The manifest that ships with the package."""
    return Path(str(resources.files("wardarm").joinpath("alert", "voice", "manifest.json")))


def copy(folder: Path) -> Path:
    """The shipped set into `folder`, to replace its files one by one; returns the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in shipped().parent.iterdir():
        if file.suffix in (".wav", ".json"):
            shutil.copyfile(file, folder / file.name)
    return folder / "manifest.json"


def seal(manifest: Path) -> int:
    """Write the sums of the present files into a manifest: after a person has listened to them. Returns their number."""
    data = json.loads(manifest.read_text("utf-8"))
    rows = [row for rows in data["messages"].values() for row in rows.values()] + [data["tone"]]
    for row in rows:
        row["sha256"] = hashlib.sha256((manifest.parent / row["file"]).read_bytes()).hexdigest()
    manifest.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    load(manifest)
    return len(rows)


def build(out: Path, spoken: Path | None, engine: str, licence: str) -> Path:
    """Make every file and the manifest in `out`; returns the manifest. `spoken`: folder of PCM WAV files `<message>_zh.wav`,
    `<message>_en.wav` as they were recorded; a message without one is its chime. Raises BadSounds."""
    out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Any] = {}
    for name, message in messages().items():
        rows[name] = {}
        for language in LANGUAGES:
            source = spoken / f"{name}_{language}.wav" if spoken is not None else None
            if source is not None and source.exists():
                samples = np.concatenate([chime(CHIMES_HZ[name]), levelled(_read(source))])
            elif rows[name]:
                continue  # a chime has no language: once is enough
            else:
                samples = chime(CHIMES_HZ[name])
            file = out / f"{name}_{language}.wav"
            _write(file, samples)
            rows[name][language] = {"file": file.name, "text": message.texts[language], "sha256": _sum(file)}
    tone = out / "tone.wav"
    _write(tone, chime(TONE_HZ))
    data = {
        "version": 1, "engine": engine, "licence": licence, "messages": rows,
        "tone": {"file": tone.name, "sha256": _sum(tone)},
    }  # fmt: skip
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return manifest


def chime(notes_hz: tuple[float, ...]) -> NDArray[np.int16]:
    """Decaying sines, int16 at RATE_HZ."""
    t = np.arange(int(NOTE_S * RATE_HZ)) / RATE_HZ
    gap = np.zeros(int(GAP_S * RATE_HZ))
    parts = [
        np.concatenate([np.sin(2 * np.pi * hz * t) * np.exp(-4 * t / NOTE_S) * np.minimum(1, t / 0.005), gap])
        for hz in notes_hz
    ]
    return np.asarray(np.concatenate(parts) * LOUD * 32767, np.int16)


def _read(file: Path) -> NDArray[np.float64]:
    """Samples of a 16-bit PCM WAV at RATE_HZ, -1 to 1, channels averaged. Raises BadSounds."""
    try:
        with wave.open(str(file), "rb") as w:
            if w.getsampwidth() != 2:
                raise BadSounds(f"{file}: {8 * w.getsampwidth()} bit; give a 16-bit PCM WAV file")
            raw = np.frombuffer(w.readframes(w.getnframes()), np.int16).reshape(-1, w.getnchannels())
            rate_hz = w.getframerate()
    except (OSError, wave.Error, EOFError) as e:
        raise BadSounds(f"{file}: {e}; give a 16-bit PCM WAV file") from e
    return np.asarray(resample_poly(raw.mean(axis=1) / 32768, RATE_HZ, rate_hz), np.float64)


def levelled(samples: NDArray[np.float64]) -> NDArray[np.int16]:
    """Speech (-1 to 1) without the silence around it, as loud as SPEECH_DBFS, pauses not counted, and nowhere above
    PEAK_DBFS. Empty if there is nothing but silence."""
    heard = np.flatnonzero(np.abs(samples) > 10 ** (PAUSE_DBFS / 20))
    if not len(heard):
        return np.zeros(0, np.int16)
    margin = int(MARGIN_S * RATE_HZ)
    samples = samples[max(0, heard[0] - margin) : heard[-1] + margin]
    loud = samples[np.abs(samples) > 10 ** (PAUSE_DBFS / 20)]
    gain = 10 ** (SPEECH_DBFS / 20) / float(np.sqrt(np.mean(loud * loud)))
    ceiling = 10 ** (PEAK_DBFS / 20)
    # what would be above the ceiling is bent, not cut
    scaled = gain * samples
    over = np.abs(scaled) > 0.6 * ceiling
    room = 0.4 * ceiling
    scaled[over] = np.sign(scaled[over]) * (
        0.6 * ceiling + room * np.tanh((np.abs(scaled[over]) - 0.6 * ceiling) / room)
    )
    return np.asarray(scaled * 32767, np.int16)


def _write(file: Path, samples: NDArray[np.int16]) -> None:
    with wave.open(str(file), "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(RATE_HZ)
        w.writeframes(samples.tobytes())


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
