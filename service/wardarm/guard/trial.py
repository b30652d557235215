"""`wardarm guard test FILE...`: what guard would have said about a recording, frame by frame.

A recording is any video that FFmpeg reads. It goes through the same detector, zones and times as a camera of the
configuration. Out, a recording: `<name>.csv` (one line a frame: time, state, areas, milliseconds), `<name>.mp4` (the
same, drawn), and figures: holds with their reasons, milliseconds a frame, holds an hour. With `--empty` nobody is in the
recording, and every hold is a false alarm.

    wardarm guard test corridor.mp4 --config site.toml --camera door --out out/guard --empty
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Guard, RoomCamera
from wardarm.guard.detector import Detector, Finding, ViewState
from wardarm.guard.picture import STATES, Sheet, both
from wardarm.guard.tracks import Tracks

Grey = NDArray[np.uint8]
MEDIAN_FRAMES = 120


class NoRecording(ValueError):
    """The file cannot be read as a video; the text says why."""


@dataclass
class Held:
    """One hold: `reason` is that of its first frame; `reasons` all of them, in order."""

    start_s: float
    end_s: float
    reasons: list[str]
    detail: str


@dataclass
class Result:
    """Figures of one recording. `states` one a frame after the view was learnt."""

    name: str
    fps: float
    states: list[str] = field(default_factory=list)
    holds: list[Held] = field(default_factory=list)
    ms: list[float] = field(default_factory=list)
    tracks: int = 0

    def figures(self, empty: bool) -> dict[str, Any]:
        """What `--json` prints. Times in s of the recording."""
        seconds = len(self.states) / self.fps
        per_hour = round(3600 * len(self.holds) / max(seconds, 1e-9), 2)
        return {
            "file": self.name, "frames": len(self.states), "fps": round(self.fps, 3), "seconds": round(seconds, 2),
            "held_frames": sum(s not in ("clear", "learning") for s in self.states), "tracks": self.tracks,
            "examine_ms": percentiles(self.ms), "holds": [vars(h) for h in self.holds],
            "false_alarms_per_hour" if empty else "holds_per_hour": per_hour,
        }  # fmt: skip


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p99 and the largest; empty if there are none."""
    if not values:
        return {}
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2), "max": round(max(values), 2)}


def rate(file: Path) -> float:
    """Frames a second of a video. Raises NoRecording."""
    try:
        with av.open(str(file)) as video:
            return float(video.streams.video[0].average_rate or 0) or 10.0
    except (av.FFmpegError, IndexError) as e:
        raise NoRecording(f"{file}: {e}; give a video that FFmpeg reads") from e


def frames(file: Path, guard: Guard) -> Iterator[Grey]:
    """Every frame, uint8 (guard.height, guard.width). Raises NoRecording."""
    try:
        with av.open(str(file)) as video:
            for frame in video.decode(video=0):
                grey = frame.to_ndarray(format="gray")
                yield np.asarray(cv2.resize(grey, (guard.width, guard.height), interpolation=cv2.INTER_AREA), np.uint8)
    except (av.FFmpegError, IndexError) as e:
        raise NoRecording(f"{file}: {e}; give a video that FFmpeg reads") from e


def empty_view(file: Path, guard: Guard) -> Grey:
    """The median of frames spread over the recording: the room without who walks through it."""
    every = max(1, sum(1 for _ in frames(file, guard)) // MEDIAN_FRAMES)
    picked = [grey for i, grey in enumerate(frames(file, guard)) if i % every == 0]
    return np.asarray(np.median(np.stack(picked), 0), np.uint8)


def learn(detector: Detector, empty: Grey, noise_grey: float = 2.0) -> None:
    """Teach a detector one still picture as if a sensor had seen it `guard.warmup_frames` times."""
    rng = np.random.default_rng(1)
    for _ in range(detector.guard.warmup_frames + 1):
        noisy = empty + rng.normal(0, noise_grey, empty.shape)
        detector.update(np.clip(noisy, 0, 255).astype(np.uint8), None)
    detector.variance = np.maximum(detector.variance, np.float32(noise_grey**2))


def run(file: Path, guard: Guard, camera: RoomCamera, out: Path | None, from_median: bool) -> Result:
    """One recording through one camera's zones. `from_median`: the view to compare with is the recording's median, for
    a recording that never shows the empty room; else its first still frames are learnt."""
    fps = rate(file)
    guard = guard.model_copy(update={"fps": fps})
    detector, result, tracks = Detector(guard, camera), Result(file.name, fps), Tracks()
    if from_median:
        learn(detector, empty_view(file, guard))
    film = _Film(out / f"{file.stem}.mp4", guard, camera, fps) if out else None
    lines: list[list[object]] = []
    held: Held | None = None
    for i, grey in enumerate(frames(file, guard)):
        begin = time.perf_counter()
        found = detector.update(grey, None, minute=0)
        ms, at_s = (time.perf_counter() - begin) * 1e3, i / fps
        state = found.state.value
        result.states.append(state)
        result.ms.append(ms)
        holds = found.state in (ViewState.INTRUDER, ViewState.VIEW_CHANGED)
        result.tracks += len(tracks.update(found.boxes if holds else (), at_s))
        if holds and held is None:
            held = Held(round(at_s, 3), round(at_s, 3), [state], found.detail)
            result.holds.append(held)
        elif not holds:
            held = None
        if held is not None:
            held.end_s = round(at_s, 3)
            held.reasons += [state] if held.reasons[-1] != state else []
        lines.append([i, f"{at_s:.3f}", state, f"{found.zone_percent:.2f}", f"{found.warn_percent:.2f}",
                      f"{found.changed_percent:.2f}", len(found.boxes), f"{ms:.2f}", found.detail])  # fmt: skip
        if film:
            film.add(grey, detector.foreground, found, at_s)
    if film:
        film.close()
    if out:
        with (out / f"{file.stem}.csv").open("w", newline="", encoding="utf-8") as f:
            table = csv.writer(f)
            table.writerow(["frame", "t_s", "state", "zone_percent", "warn_percent", "changed_percent", "blobs",
                            "examine_ms", "detail"])  # fmt: skip
            table.writerows(lines)
    return result


class _Film:
    """The recording with zones, foreground and verdict drawn in."""

    def __init__(self, file: Path, guard: Guard, camera: RoomCamera, fps: float) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._sheet = Sheet(guard, camera)
        self._box = av.open(str(file), "w")
        self._stream: Any = self._box.add_stream("h264", rate=Fraction(fps).limit_denominator(1000))
        self._stream.width, self._stream.height = self._sheet.size
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {"preset": "superfast", "crf": "26"}

    def add(self, grey: Grey, foreground: Grey, found: Finding, at_s: float) -> None:
        held = found.state in (ViewState.INTRUDER, ViewState.VIEW_CHANGED)
        colour, zh, en = STATES[found.state]
        word = both("暂停", "HOLD") if held else both("继续", "go on")
        verdict = f"{at_s:6.1f} s   {word}   {both(zh, en)} {found.detail}"
        picture = self._sheet.draw(grey, foreground, found.boxes, None, verdict, colour)
        self._box.mux(self._stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))

    def close(self) -> None:
        self._box.mux(self._stream.encode(None))
        self._box.close()
