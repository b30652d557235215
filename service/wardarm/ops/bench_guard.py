"""`wardarm bench guard`: the room cameras measured.

- `word`: three 720p cameras at 15 frames/s, real guard process, raw producers through pipes. From the exposure of the
  first frame in which a walker covers 0.5 % of the zone to guard's word, read from shared memory; and what guard and
  the producers cost, percent of one core.
- `empty`: ten minutes of frames, nobody there, noise, a lamp that flickers by 5 %, a curtain and a screen in masks.
- `still`: somebody stands still for ten minutes. `light`: a lamp step of 35 %, alone and with a person.
- `vtest`: Debian's recording of walkers against OpenCV's person detector at full size as the witness.
- `memory`: growth over many frames. `crossing`: a visitor crosses the line of the running simulated bedside.

Every figure is made when the command runs. What is not there (no recording, no renderer) says so.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Guard, RoomCamera, Zone
from wardarm.gate.words import WordBoard
from wardarm.guard import memory, trial, zones
from wardarm.guard.detector import Detector, ViewState
from wardarm.guard.opinion import Hog, in_zone
from wardarm.ops import guard_scenes
from wardarm.ops.guard_scenes import Room
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

VTEST = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
VTEST_ZONES: dict[str, list[tuple[float, float]]] = {  # of 640 x 480: three parts of the path
    "left": [(60, 140), (230, 140), (230, 250), (60, 230)],
    "middle": [(300, 140), (430, 140), (430, 260), (270, 260)],
    "right": [(470, 130), (640, 130), (640, 330), (430, 330)],
}
VTEST_EVERY = 5  # frames between two looks of the witness
WIDTH, HEIGHT, FPS, CAMERAS = 1280, 720, 15.0, 3
WALKS, WALK_S = 10, 7.5  # a camera; the cameras take turns
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def run(video: Path | None, crossings: int, frames: int) -> dict[str, Any]:
    """Everything; minutes long."""
    cv2.setNumThreads(1)
    try:
        to_word: dict[str, Any] = word()
    except RuntimeError as e:
        to_word = {"failed": str(e)}
    return {
        "word": to_word,
        "empty": empty_scene(),
        "still": still_person(),
        "light": light_steps(),
        "vtest": vtest(video or VTEST),
        "memory": memory_growth(frames),
        "crossing": crossing(crossings) if crossings else "not asked for",
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(x) for x in fields[11:13]) * _TICK_S


def word(walks: int = WALKS, size: tuple[int, int] = (WIDTH, HEIGHT)) -> dict[str, Any]:
    """Exposure to word, and the load."""
    width, height = size
    with tempfile.TemporaryDirectory(prefix="wardarm_bench_") as folder:
        prefix = f"bench{os.getpid()}_"
        cameras = [
            {
                "name": f"room{i}",
                "command": f"{{python}} -m wardarm.ops.guard_scenes --width {{width}} --height {{height}} --fps {{fps}} "
                f"--seed {i} --log {folder}/{i} --walk-s {WALK_S} --first-s {6 + i * WALK_S / CAMERAS}",
                "keep_out": guard_scenes.zone(width, height),
            }
            for i in range(CAMERAS)
        ]
        guard = {"width": width, "height": height, "fps": FPS, "warmup_frames": 15, "cameras": cameras}
        file = Path(folder) / "bench.json"
        file.write_text(
            json.dumps({"schema": 1, "shm": {"prefix": prefix}, "guard": guard, "log": {"directory": folder}})
        )
        ring.create(BlockKind.WORD, prefix, ProcessId.GUARD)
        process = subprocess.Popen([sys.executable, "-m", "wardarm.guard.main", "--config", str(file)])
        try:
            times = _listen(prefix, process, CAMERAS * walks)
        finally:
            process.terminate()
            process.wait(10)
            ring.block_path(BlockKind.WORD, prefix, ProcessId.GUARD).unlink(missing_ok=True)
            memory.forget(prefix)
        exposed = sorted(
            json.loads(line)["exposed_ns"]
            for i in range(CAMERAS) if (Path(folder) / str(i)).exists()
            for line in (Path(folder) / str(i)).read_text().splitlines()
        )  # fmt: skip
    # the word can come before the frame in question: a person is seen at less than PERSON_PERCENT
    detect = [
        min((t - e) * 1e-6 for t in times["hold_ns"] if t - e > -1e9)
        for e in exposed[: CAMERAS * walks]
        if any(t - e > -1e9 for t in times["hold_ns"])
    ]
    return {
        "size": f"{width}x{height}", "fps": FPS, "cameras": CAMERAS, "zone_percent_of_frame": round(100 * _share(size), 1),
        "detect_ms": trial.percentiles(detect), "walks": len(exposed[: CAMERAS * walks]), "seen": len(detect),
        "guard_percent_of_core": times["guard_percent"], "producers_percent_of_core": times["producers_percent"],
        "total_percent_of_core": round(times["guard_percent"] + times["producers_percent"], 1), "simulated": True,
    }  # fmt: skip


def _share(size: tuple[int, int]) -> float:
    return zones.area_px(guard_scenes.zone(*size)) / (size[0] * size[1])


def _listen(prefix: str, process: subprocess.Popen[bytes], walks: int) -> dict[str, Any]:
    """Times at which the word became a hold (stamp of its own beat), CPU percentages over the same time."""
    board = WordBoard([ProcessId.GUARD], prefix, 0.5)
    hold_ns: list[int] = []
    end = time.monotonic() + 6 + (walks / CAMERAS + 1.5) * WALK_S
    before: dict[int, float] = {}
    begin = 0.0
    ok = False
    while time.monotonic() < end:
        heard = board.hear(ProcessId.GUARD)
        if heard.true and not before:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            before, begin = {pid: _cpu_s(pid) for pid in [process.pid, *map(int, children)]}, time.monotonic()
        if ok and not heard.ok and heard.reason is HoldReason.INTRUDER:
            hold_ns.append(time.monotonic_ns() - int(heard.age_s * 1e9))
        ok = heard.ok
        time.sleep(0.002)
    if not before:
        raise RuntimeError("guard did not learn its views; see its log")
    wall_s = time.monotonic() - begin
    restarted = [pid for pid in before if not Path(f"/proc/{pid}").exists()]
    if restarted:
        raise RuntimeError(
            f"{len(restarted)} camera programs were started again: this machine is too busy to measure on"
        )
    used = {pid: 100 * (_cpu_s(pid) - s) / wall_s for pid, s in before.items()}
    return {
        "hold_ns": hold_ns, "guard_percent": round(used[process.pid], 1),
        "producers_percent": round(sum(used.values()) - used[process.pid], 1),
    }  # fmt: skip


def _views(guard: Guard, room: Room, camera: RoomCamera) -> Detector:
    detector = Detector(guard, camera)
    while detector.state is ViewState.LEARNING:
        detector.update(room.frame(), None, minute=0)
    return detector


def _changes(states: Iterable[ViewState]) -> list[str]:
    """Changes of state, in order."""
    out: list[str] = []
    for state in states:
        if not out or out[-1] != state.value:
            out.append(state.value)
    return out


def empty_scene(seconds: float = 600, fps: float = 5.0) -> dict[str, Any]:
    """A curtain and a screen move in their masks, a lamp flickers, an arm works behind its silhouette; nobody is there."""
    guard = Guard(fps=fps)
    masks = [
        Zone(kind="mask", name="curtain", polygon=[(20, 20), (120, 20), (120, 200), (20, 200)]),
        Zone(kind="mask", name="screen", polygon=[(400, 40), (500, 40), (500, 100), (400, 100)]),
    ]
    camera = RoomCamera(name="bench", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)], zones=masks)
    room = Room(640, 360)
    detector = _views(guard, room, camera)
    states = []
    for i in range(int(seconds * fps)):
        picture = room.picture.copy()
        picture[25:195, 25:115] = np.roll(picture[25:195, 25:115], int(8 * np.sin(0.3 * i)), 1)
        picture[45:95, 405:495] = 120 + 100 * np.sin(0.9 * i)
        hand = (round(320 + 120 * np.sin(0.11 * i)), round(180 + 70 * np.cos(0.07 * i)))
        cv2.line(picture, (320, 350), hand, 60.0, 26)
        arm = np.zeros((180, 320), np.uint8)
        cv2.line(arm, (160, 175), (hand[0] // 2, hand[1] // 2), 255, 18)
        states.append(detector.update(room.frame(picture, 1 + 0.05 * np.sin(0.7 * i)), arm, minute=0).state)
    return {"seconds": seconds, "frames": len(states), "holds": _count_holds(states), "states": _changes(states)}


def _count_holds(states: list[ViewState]) -> int:
    return sum(a is ViewState.CLEAR and b is not ViewState.CLEAR for a, b in pairwise([ViewState.CLEAR, *states]))


def still_person(seconds: float = 600, fps: float = 5.0) -> dict[str, Any]:
    """Somebody walks in and stands still, then leaves."""
    room, guard = Room(640, 360), Guard(fps=fps)
    camera = RoomCamera(name="bench", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])
    detector = _views(guard, room, camera)
    standing = room.person(330, 330)
    states = [detector.update(room.frame(standing), None, minute=0).state for _ in range(int(seconds * fps))]
    after = [detector.update(room.frame(), None, minute=0).state for _ in range(int(5 * fps))]
    lost = sum(s is ViewState.CLEAR for s in states[2:])
    return {"seconds": seconds, "frames_lost": lost, "clear_after_s": round(after.index(ViewState.CLEAR) / fps, 2) if ViewState.CLEAR in after else None}  # fmt: skip


def light_steps(gain: float = 1.35, fps: float = 15.0) -> dict[str, Any]:
    """States, in order, of a lamp that is switched on and off again, alone and while somebody walks in."""
    out: dict[str, Any] = {"step_percent": round(100 * (gain - 1))}
    camera = RoomCamera(name="bench", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])
    for name, somebody in (("alone", False), ("with_person", True)):
        room = Room(640, 360)
        detector = _views(Guard(fps=fps), room, camera)
        shown = room.person(330, 330) if somebody else room.picture
        states = [detector.update(room.frame(shown, gain), None, minute=0).state for _ in range(150)]
        states += [detector.update(room.frame(shown), None, minute=0).state for _ in range(60)]
        out[name] = _changes(states)
    return out


def vtest(file: Path) -> dict[str, Any]:
    """Three zones. Every frame in which OpenCV's HOG at full size sees somebody standing in a zone has to be a hold of
    that zone by the next frame. Then the last such frame goes on for ten minutes, with fresh noise."""
    if not file.exists():
        return {"file": str(file), "missing": "install Debian's opencv-doc, or give --video FILE"}
    guard = Guard(width=640, height=480, fps=trial.rate(file))
    pictures = list(trial.frames(file, guard))
    empty, hog = trial.empty_view(file, guard), Hog()
    people = {i: hog.find(pictures[i]) for i in range(0, len(pictures) - 1, VTEST_EVERY)}
    out: dict[str, Any] = {"file": file.name, "frames": len(pictures), "zones": {}}
    for name, polygon in VTEST_ZONES.items():
        camera = RoomCamera(name="bench", command="x", keep_out=polygon)
        detector = Detector(guard, camera)
        trial.learn(detector, empty)
        clear = [detector.update(grey, None, minute=0).state is ViewState.CLEAR for grey in pictures]
        seen = [i for i, boxes in people.items() if any(in_zone(b, camera) for b in boxes)]
        out["zones"][name] = {
            "entries": sum(a and not b for a, b in pairwise(clear)), "held_frames": len(clear) - sum(clear),
            "witness_frames": len(seen), "missed": sum(clear[i] and clear[i + 1] for i in seen),
            "still_for_600_s_lost": _stand(detector, pictures[seen[-1]]) if seen else None,
        }  # fmt: skip
    return out


def _stand(detector: Detector, grey: NDArray[np.uint8]) -> int:
    """Frames without a hold while one picture, with fresh noise, is shown for ten minutes."""
    guard, rng = detector.guard, np.random.default_rng(1)
    noise = rng.normal(0, 2, (2 * guard.height, 2 * guard.width)).astype(np.float32)
    for _ in range(3):
        detector.update(grey, None, minute=0)
    lost = 0
    for _ in range(int(600 * guard.fps)):
        y, x = int(rng.integers(0, guard.height)), int(rng.integers(0, guard.width))
        noisy = np.clip(grey + noise[y : y + guard.height, x : x + guard.width], 0, 255).astype(np.uint8)
        lost += detector.update(noisy, None, minute=0).state is ViewState.CLEAR
    return lost


def memory_growth(frames: int) -> dict[str, Any]:
    """Peak memory of this process before and after `frames` frames of one 640x360 view, half of them with somebody."""
    room, guard = Room(640, 360), Guard(fps=15)
    camera = RoomCamera(name="bench", command="x", keep_out=[(0, 0), (640, 0), (640, 360), (0, 360)])
    detector = _views(guard, room, camera)
    shown = [room.frame() for _ in range(8)] + [room.frame(room.person(300 + 5 * i, 330)) for i in range(8)]
    ms: list[float] = []
    warm = min(200, frames // 4)
    before = 0
    for i in range(frames):
        if i == warm:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.perf_counter()
        detector.update(shown[i // 50 % 2 * 8 + i % 8], None, minute=0)
        ms.append((time.perf_counter() - begin) * 1e3)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"frames": frames, "grown_kb": grown, "examine_ms": trial.percentiles(ms)}


def crossing(runs: int) -> Any:
    """In a process of its own: it needs the simulated bedside."""
    with tempfile.TemporaryDirectory(prefix="wardarm_cross_") as folder:
        command = [sys.executable, "-m", "wardarm.sim.crossing", "--runs", str(runs), "--out", folder, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    print(json.dumps(run(None, 0, 2000)))


if __name__ == "__main__":
    main()
