"""`wardarm bench guard`: the room cameras measured, one part after the other; `wardarm.ops.bench_guard_live` has those that
run real processes, `bench_guard_vtest` the recording.

- `word`: three 720p cameras at 15 frames/s, real guard process, raw producers through pipes (`bench_guard_word` says which
  walks count, and by whose clock); and what guard and the producers cost, percent of one core. `capture`: the same load
  with GStreamer as the producer, which scales.
- `frozen`: from the first repeated frame to the word that names the camera.
- `empty`: ten minutes of frames, nobody there, noise, a lamp that flickers by 5 %, a curtain and a screen in masks.
  `bedside`: ten minutes of the rendered simulated room while the arm works.
- `still`: somebody stands still for ten minutes. `light`: a lamp step of 35 %, alone and with a person. `dusk`: a camera
  switches to its night picture.
- `vtest`: Debian's recording of walkers against OpenCV's person detector, enlarged, as the witness.
- `memory`: growth of the whole loop over many frames. `crossing`: a visitor crosses the line of the running bedside.

Scenes have their own time: a frame is judged by its stamp, however fast it is made. Every figure is made when the command
runs; long runs are kept in `<out>/guard.json` part by part, and what is in there is not made again. What is not there (no
recording, no renderer) says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from wardarm.config import Guard, RoomCamera, Zone
from wardarm.guard import trial
from wardarm.guard.detector import Detector, ViewState
from wardarm.ops.bench_guard_live import capture, frozen
from wardarm.ops.bench_guard_vtest import vtest
from wardarm.ops.bench_guard_word import word
from wardarm.ops.guard_scenes import Room

WHOLE: list[tuple[float, float]] = [(0, 0), (640, 0), (640, 360), (0, 360)]
PARTS = ("word", "capture", "frozen", "empty", "bedside", "still", "light", "dusk", "vtest", "memory", "crossing")
TARGETS: dict[str, tuple[str, str, float]] = {  # name: (path of the figure, comparison, limit)
    "detect_ms_p99": ("word.detect_ms.p99", "<=", 100),
    "frame_to_word_ms_p99": ("word.frame_to_word_ms.p99", "<=", 100),
    "walkers_unseen": ("word.unseen", "<=", 0),
    "words_unheard": ("word.unheard", "<=", 0),
    "core_percent_three_720p15": ("word.total_percent_of_core", "<=", 60),
    "core_percent_three_720p15_gstreamer": ("capture.total_percent_of_core", "<=", 60),
    "frozen_named_ms": ("frozen.word_ms.max", "<=", 1000),
    "empty_holds": ("empty.holds", "<=", 0),
    "bedside_holds": ("bedside.holds", "<=", 0),
    "still_frames_lost": ("still.frames_lost", "<=", 0),
    "light_step_holds": ("light.alone_holds", "<=", 1),
    "light_step_reasons": ("light.alone_reasons", "<=", 1),
    "light_and_person_clears": ("light.with_person_clears", "<=", 0),
    "dusk_holds": ("dusk.holds", "<=", 1),
    "dusk_reasons": ("dusk.reasons", "<=", 1),
    "dusk_clears": ("dusk.clears", "<=", 1),
    "vtest_entries_missed": ("vtest.entries_missed", "<=", 0),
    "vtest_frames_lost_inside": ("vtest.frames_missed", "<=", 0),
    "vtest_standing_still_lost": ("vtest.still_lost", "<=", 0),
    "memory_grown_kb": ("memory.grown_kb", "<=", 4096),
}


def run(
    video: Path | None, crossings: int, frames: int, quick: bool, out: Path | None, only: Iterable[str] = (),
    say: Callable[[str], None] = lambda _text: None,
) -> dict[str, Any]:  # fmt: skip
    """Everything, or the parts of `only`. `out`: folder in which long runs are kept; None: nothing is. `quick`: minutes
    instead of an hour, and nothing is kept."""
    cv2.setNumThreads(1)
    seconds = 30.0 if quick else 600.0
    parts: dict[str, Callable[[], Any]] = {
        "word": lambda: word(2 if quick else 34),
        "capture": lambda: capture(10 if quick else 60),
        "frozen": lambda: frozen(2 if quick else 8),
        "empty": lambda: empty_scene(seconds, 15),
        "bedside": lambda: _module("wardarm.sim.empty_room", "--seconds", str(seconds)),
        "still": lambda: still_person(seconds, 15),
        "light": light_steps,
        "dusk": dusk,
        "vtest": lambda: vtest(video, 20 if quick else 2, 60.0 if quick else 600.0),
        "memory": lambda: _module(
            "wardarm.ops.bench_guard_live", "--frames", str(min(frames, 3000) if quick else frames)
        ),
        "crossing": lambda: crossing(crossings) if crossings else "not asked for",
    }
    kept = None if quick or out is None else out / "guard.json"
    rows: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else {}
    for name in [p for p in PARTS if p in only or not only]:
        if name in rows and "failed" not in rows[name]:
            say(f"{name}: kept from an earlier run")
            continue
        begin = time.monotonic()
        try:
            rows[name] = parts[name]()
        except RuntimeError as e:
            rows[name] = {"failed": str(e)}
        say(f"{name}: {time.monotonic() - begin:.0f} s")
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            scratch = kept.with_suffix(".new")
            scratch.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
            scratch.rename(kept)
    figures = {name: rows[name] for name in PARTS if name in rows}
    return {"quick": quick, "targets": targets(figures)} | figures


def targets(figures: dict[str, Any]) -> dict[str, Any]:
    """Each figure to reach: value, limit, reached (None: not measured)."""
    out: dict[str, Any] = {}
    for name, (path, sign, limit) in TARGETS.items():
        value: Any = figures
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        out[name] = {"value": value, "limit": f"{sign} {limit:g}", "reached": None if value is None else value <= limit}
    return out


def _views(guard: Guard, room: Room, camera: RoomCamera) -> Detector:
    detector = Detector(guard, camera)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None, minute=0)
    return detector


def changes(states: Iterable[ViewState]) -> list[str]:
    """Changes of state, in order."""
    out: list[str] = []
    for state in states:
        if not out or out[-1] != state.value:
            out.append(state.value)
    return out


def empty_scene(seconds: float = 600, fps: float = 15.0) -> dict[str, Any]:
    """A curtain and a screen move in their masks, a lamp flickers, an arm works behind its silhouette; nobody is there."""
    guard = Guard(fps=fps)
    masks = [
        Zone(kind="mask", name="curtain", polygon=[(20, 20), (120, 20), (120, 200), (20, 200)]),
        Zone(kind="mask", name="screen", polygon=[(400, 40), (500, 40), (500, 100), (400, 100)]),
    ]
    camera = RoomCamera(name="bench", command="x", keep_out=WHOLE, zones=masks)
    room = Room(640, 360)
    detector = _views(guard, room, camera)
    states, ms = [], []
    for i in range(int(seconds * fps)):
        picture = room.picture.copy()
        picture[25:195, 25:115] = np.roll(picture[25:195, 25:115], int(8 * np.sin(0.3 * i)), 1)
        picture[45:95, 405:495] = 120 + 100 * np.sin(0.9 * i)
        hand = (round(320 + 120 * np.sin(0.11 * i)), round(180 + 70 * np.cos(0.07 * i)))
        cv2.line(picture, (320, 350), hand, 60.0, 26)
        arm = np.zeros((180, 320), np.uint8)
        cv2.line(arm, (160, 175), (hand[0] // 2, hand[1] // 2), 255, 18)
        frame = room.frame(picture, 1 + 0.05 * np.sin(0.7 * i))
        begin = time.thread_time()
        states.append(detector.update(frame, arm, minute=0).state)
        ms.append((time.thread_time() - begin) * 1e3)
    return {
        "seconds": seconds, "frames": len(states), "holds": count_holds(states), "states": changes(states),
        "examine_cpu_ms": trial.percentiles(ms),
    }  # fmt: skip


def count_holds(states: list[ViewState]) -> int:
    return sum(a is ViewState.CLEAR and b is not ViewState.CLEAR for a, b in pairwise([ViewState.CLEAR, *states]))


def still_person(seconds: float = 600, fps: float = 15.0) -> dict[str, Any]:
    """Somebody walks in and stands still, then leaves."""
    room, guard = Room(640, 360), Guard(fps=fps)
    detector = _views(guard, room, RoomCamera(name="bench", command="x", keep_out=WHOLE))
    standing = room.person(330, 330)
    states = [detector.update(room.frame(standing), None, minute=0).state for _ in range(int(seconds * fps))]
    after = [detector.update(room.frame(), None, minute=0).state for _ in range(int(5 * fps))]
    lost = sum(s is ViewState.CLEAR for s in states[2:])
    return {"seconds": seconds, "frames_lost": lost, "clear_after_s": round(after.index(ViewState.CLEAR) / fps, 2) if ViewState.CLEAR in after else None}  # fmt: skip


def light_steps(gain: float = 1.35, fps: float = 15.0) -> dict[str, Any]:
    """States, in order, of a lamp that is switched on for 20 s and off again, alone and while somebody walks in."""
    out: dict[str, Any] = {"step_percent": round(100 * (gain - 1))}
    camera = RoomCamera(name="bench", command="x", keep_out=WHOLE)
    for name, somebody in (("alone", False), ("with_person", True)):
        room = Room(640, 360)
        detector = _views(Guard(fps=fps), room, camera)
        shown = room.person(330, 330) if somebody else room.picture
        states = [detector.update(room.frame(shown, gain), None, minute=0).state for _ in range(int(20 * fps))]
        states += [detector.update(room.frame(shown), None, minute=0).state for _ in range(int(4 * fps))]
        out[name] = changes(states)
        out[f"{name}_holds"], out[f"{name}_clears"] = count_holds(states), out[name].count(ViewState.CLEAR.value)
        out[f"{name}_reasons"] = len(set(out[name]) - {ViewState.CLEAR.value})
    return out


def dusk(fps: float = 15.0) -> dict[str, Any]:
    """A camera switches to its infrared lamp: every surface has another grey. A minute later a person has the room learnt
    anew; then ten seconds of it."""
    room = Room(640, 360)
    detector = _views(Guard(fps=fps), room, RoomCamera(name="bench", command="x", keep_out=WHOLE))
    night = np.clip(235 - 0.8 * room.picture + 20 * np.sin(room.picture / 9), 20, 235).astype(np.float32)
    states = [detector.update(room.frame(night), None, minute=0).state for _ in range(int(60 * fps))]
    before = changes(states)
    detector.relearn()
    after = [detector.update(room.frame(night), None, minute=0).state for _ in range(int(10 * fps))]
    return {
        "holds": count_holds(states), "reasons": len(set(before) - {ViewState.CLEAR.value}), "by_itself": before,
        "after_relearning": changes(after), "clears": (before + changes(after)).count(ViewState.CLEAR.value),
    }  # fmt: skip


def _module(name: str, *args: str) -> Any:
    """The last line of a program's output, as JSON. Raises RuntimeError with its last words."""
    done = subprocess.run(
        [sys.executable, "-m", name, *args, "--json"], capture_output=True, text=True, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "LP_NUM_THREADS": "1"},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"{name}: exit {done.returncode}"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def crossing(runs: int) -> Any:
    """In a process of its own: it needs the simulated bedside."""
    with tempfile.TemporaryDirectory(prefix="wardarm_cross_") as folder:
        return _module("wardarm.sim.crossing", "--runs", str(runs), "--out", folder)
