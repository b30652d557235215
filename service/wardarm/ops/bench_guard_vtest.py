"""The part of `wardarm bench guard` that judges Debian's recording of walkers (opencv-doc's `vtest.avi`, 768 x 576, 10 Hz).

The witness is OpenCV's HOG person detector on the enlarged picture: slow, it knows nothing of backgrounds, and shares no code
with the detector that is judged. It misses people, too: what it sees in a zone has to be a hold of that zone by the
next frame; what it does not see proves nothing.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm.config import Guard, RoomCamera, Zone
from wardarm.guard import trial
from wardarm.guard.detector import Detector, ViewState
from wardarm.guard.opinion import HEIGHT_PX, Box, Hog, in_zone

VTEST = Path("/usr/share/doc/opencv-doc/examples/data/vtest.avi")
VTEST_ZONES: dict[str, list[tuple[float, float]]] = {  # of 640 x 480: three parts of the path
    "left": [(60, 140), (230, 140), (230, 250), (60, 230)],
    "middle": [(300, 140), (430, 140), (430, 260), (270, 260)],
    "right": [(470, 130), (640, 130), (640, 330), (430, 330)],
}
SMALLEST_PERCENT = {"left": 0.1}  # walkers there are 45 px tall; elsewhere guard.min_area_percent
WITNESS_PX = 864  # height to which the witness enlarges: walkers are 60 to 130 px tall at 576
SAME_PX = 40.0  # how far somebody's feet get between two looks
FORGET_LOOKS = 10
TALL_PX = 128  # a box that HOG's own window (64 x 128) fits into after guard's enlargement


def vtest(file: Path | None, every: int = 2, still_s: float = 600.0) -> dict[str, Any]:
    """Three zones; the witness looks at each `every`-th frame. Then the last frame with somebody in the zone goes on for
    `still_s`, with fresh noise."""
    file = file or VTEST
    if not file.exists():
        return {"file": str(file), "missing": "install Debian's opencv-doc, or give --video FILE"}
    guard = Guard(width=640, height=480, fps=trial.rate(file))
    pictures = list(trial.frames(file, guard))
    empty, hog = trial.empty_view(file, guard), Hog(WITNESS_PX)
    people = {i: hog.find(pictures[i]) for i in range(0, len(pictures) - 1, every)}
    zones = {name: _zone(guard, pictures, empty, camera(name), people, still_s) for name in VTEST_ZONES}
    rows = zones.values()
    return {
        "file": file.name, "frames": len(pictures), "witness_every": every,
        "witness_boxes": sum(map(len, people.values())),
        "entries": sum(r["entries"] for r in rows), "entries_missed": sum(r["entries_missed"] for r in rows),
        "frames_missed": sum(r["frames_missed"] for r in rows),
        "still_s": still_s, "still_lost": sum(r["still_frames_lost"] for r in rows), "zones": zones,
        "opinion": _opinion(pictures, people),
    }  # fmt: skip


def camera(name: str) -> RoomCamera:
    """The recording's camera with one of its zones; a far one has a smallest area of its own."""
    area = SMALLEST_PERCENT.get(name, 0.0)
    zone = Zone(kind="keep_out", name=name, polygon=VTEST_ZONES[name], min_area_percent=area)
    return RoomCamera(name="bench", command="x", zones=[zone])


def _zone(
    guard: Guard, pictures: list[NDArray[np.uint8]], empty: NDArray[np.uint8], camera: RoomCamera,
    people: dict[int, list[Box]], still_s: float,
) -> dict[str, Any]:  # fmt: skip
    detector = Detector(guard, camera)
    trial.learn(detector, empty)
    clear = [detector.update(grey, None, minute=0).state is ViewState.CLEAR for grey in pictures]
    inside = {i: [b for b in boxes if in_zone(b, camera)] for i, boxes in people.items()}
    seen = [i for i, boxes in inside.items() if boxes]
    entered = entries(inside)
    return {
        "holds": sum(a and not b for a, b in pairwise(clear)), "held_frames": len(clear) - sum(clear),
        "entries": len(entered), "entries_missed": sum(clear[i] and clear[i + 1] for i in entered),
        "witness_frames": len(seen), "frames_missed": sum(clear[i] and clear[i + 1] for i in seen),
        "smallest_percent": SMALLEST_PERCENT.get(camera.zones[0].name, guard.min_area_percent),
        "still_frames_lost": _stand(detector, pictures[seen[-1]], still_s) if seen else 0,
    }  # fmt: skip


def entries(inside: dict[int, list[Box]]) -> list[int]:
    """Frames in which the witness sees somebody in the zone who was not there at its last looks."""
    out: list[int] = []
    known: list[tuple[float, float, int]] = []  # feet, and looks since
    for i in sorted(inside):
        known = [(x, y, age + 1) for x, y, age in known if age < FORGET_LOOKS]
        for box in inside[i]:
            foot = (box[0] + box[2] / 2, box[1] + 0.95 * box[3])
            near = [k for k in known if np.hypot(k[0] - foot[0], k[1] - foot[1]) < SAME_PX * (1 + 0.3 * k[2])]
            if not near:
                out.append(i)
            for k in near[:1]:
                known.remove(k)
            known.append((*foot, 0))
    return out


def _stand(detector: Detector, grey: NDArray[np.uint8], seconds: float) -> int:
    """Frames without a hold while one picture, with fresh noise, is shown."""
    guard, rng = detector.guard, np.random.default_rng(1)
    noise = rng.normal(0, 2, (2 * guard.height, 2 * guard.width)).astype(np.float32)
    for _ in range(3):
        detector.update(grey, None, minute=0)
    lost = 0
    for _ in range(int(seconds * guard.fps)):
        y, x = int(rng.integers(0, guard.height)), int(rng.integers(0, guard.width))
        noisy = np.clip(grey + noise[y : y + guard.height, x : x + guard.width], 0, 255).astype(np.uint8)
        lost += detector.update(noisy, None, minute=0).state is ViewState.CLEAR
    return lost


def _opinion(pictures: list[NDArray[np.uint8]], people: dict[int, list[Box]]) -> dict[str, Any]:
    """What guard's own second opinion (`guard.person`: the same detector, at the size it has time for) is worth: how many of
    the people whom the witness sees it sees too, at 640 x 480 and at 640 x 360, and the CPU time of a look."""
    out: dict[str, Any] = {}
    looked = sorted(people)[:: max(1, len(people) // 80)]
    for width, height in ((640, 480), (640, 360)):
        hog, found, boxes, extra, begin = Hog(), 0, 0, 0, time.thread_time()
        tall = tall_found = 0
        for i in looked:
            sx, sy = width / pictures[i].shape[1], height / pictures[i].shape[0]
            own = hog.find(cv2.resize(pictures[i], (width, height), interpolation=cv2.INTER_AREA))
            true = [(x * sx, y * sy, w * sx, h * sy) for x, y, w, h in people[i]]
            boxes += len(true)
            hits = [any(_overlap(b, t) > 0.3 for b in own) for t in true]
            found += sum(hits)
            large = [hit for hit, t in zip(hits, true, strict=True) if t[3] * HEIGHT_PX / height >= TALL_PX]
            tall, tall_found = tall + len(large), tall_found + sum(large)
            extra += sum(not any(_overlap(b, t) > 0.3 for t in true) for b in own)
        ms = (time.thread_time() - begin) * 1e3 / max(1, len(looked))
        out[f"{width}x{height}"] = {
            "people": boxes, "seen_percent": round(100 * found / max(1, boxes)),
            "tall_people": tall, "tall_seen_percent": round(100 * tall_found / max(1, tall)),
            "others": extra, "cpu_ms_a_look": round(ms),
        }  # fmt: skip
    return out


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Intersection over union of two boxes x, y, width, height."""
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    both = max(0.0, w) * max(0.0, h)
    return both / max(1e-9, a[2] * a[3] + b[2] * b[3] - both)
