"""The part of `wardarm bench guard` that times the word: three 720p cameras at 15 frames/s, walkers, the real guard.

What counts. A walk is judged if guard's word was true, and heard in time, when its first frame was exposed; one that
began while the word was false (the last walker's second of clear view, a camera that was lost, views that are learnt)
says nothing about detection: it is counted in `not_judged` with the reason. A judged walk is *seen* if the word then names
this camera with INTRUDER before the walk's frames and SEEN_S are over; otherwise *unseen*, with what the word said
instead.

Three clocks, one CLOCK_MONOTONIC: the camera program stamps each of its walker's frames before and after it writes it,
guard's log says when the word was said and how long its frame had been there, and a listener reads the word from shared memory
as gate does. The listener only witnesses that the word was there: where it was itself not run for a while (`stall_ms`)
it hears late, and a figure made from its clock would count its own sleep.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardarm.gate.words import WordBoard
from wardarm.guard import trial, zones
from wardarm.ops import guard_scenes
from wardarm.ops.bench_guard_live import CAMERAS, FPS, HEIGHT, WALK_S, WIDTH, Load, guard_process, producer
from wardarm.shm.layouts import HoldReason, ProcessId

WORD_LATE_S = 0.5  # a word older than that is none: guard itself was not run
SEEN_S = 0.5  # after a walk's last frame
POLL_S = 0.002
SLOWEST = 3  # walks whose way is shown in full


@dataclass(frozen=True)
class Shot:
    """A frame of a walker. Times: CLOCK_MONOTONIC, ns; `percent` of the zone; `late_ms`: behind the camera's own schedule."""

    frame: int
    percent: float
    exposed_ns: int
    sent_ns: int
    late_ms: float


@dataclass(frozen=True)
class Heard:
    """The word from `at_ns` on, until the next one."""

    at_ns: int
    true: bool
    reason: str
    detail: str

    def why(self) -> str:
        return f"{self.reason.lower()}: {self.detail}" if self.detail else self.reason.lower()


@dataclass(frozen=True)
class Said:
    """INTRUDER, as guard's log has it: `camera` whose frame it was, `took_ms` since that frame was there, `cpu_ms` of them in
    which guard was run."""

    at_ns: int
    camera: str
    took_ms: float
    cpu_ms: float


@dataclass
class Record:
    """All that was seen of one run. `walks`: camera -> walks -> frames, in order. `stalls`: when the listener was next run,
    and how long it had not been, ms."""

    walks: dict[str, list[list[Shot]]]
    heard: list[Heard]
    said: list[Said]
    stalls: list[tuple[int, float]]
    until_ns: int
    load: dict[str, Any]


def word(walks: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> dict[str, Any]:
    """Exposure to word over `walks` walks a camera, and the load. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="wardarm_walks_") as folder:
        files = {f"room{i}": Path(folder) / str(i) for i in range(CAMERAS)}
        cameras = [
            {
                "name": name, "keep_out": guard_scenes.zone(*size),
                "command": producer(file, i, WALK_S, i * WALK_S / CAMERAS),
            }
            for i, (name, file) in enumerate(files.items())
        ]  # fmt: skip
        with guard_process(cameras, width=size[0], height=size[1]) as (process, prefix, log):
            heard, stalls, load = _listen(prefix, process, walks)
            until_ns = time.monotonic_ns()
            said = read_said(log)
        record = Record({n: read_walks(f) for n, f in files.items()}, heard, said, stalls, until_ns, load)
    zone_percent = 100 * zones.area_px(guard_scenes.zone(*size)) / (size[0] * size[1])
    return {
        "size": f"{size[0]}x{size[1]}", "fps": FPS, "cameras": CAMERAS, "zone_percent_of_frame": round(zone_percent, 1),
        **judged(record), **load, "simulated": True,
    }  # fmt: skip


def _listen(
    prefix: str, process: subprocess.Popen[bytes], walks: int
) -> tuple[list[Heard], list[tuple[int, float]], dict[str, Any]]:
    """The word as it is heard, changes only, and the load from when it was true for the first time."""
    board = WordBoard([ProcessId.GUARD], prefix, WORD_LATE_S)
    heard: list[Heard] = []
    stalls: list[tuple[int, float]] = []
    load: Load | None = None
    before_s, end_s = time.monotonic(), time.monotonic() + 6 + (walks + 2) * WALK_S
    while before_s < end_s:
        now = board.hear(ProcessId.GUARD)
        if now.true and load is None:
            load = Load(process.pid)
        reason = "LATE" if now.late else now.reason.name
        row = Heard(time.monotonic_ns(), now.true, reason, now.why() if now.late else now.detail)
        if not heard or (row.true, row.reason, row.detail) != (heard[-1].true, heard[-1].reason, heard[-1].detail):
            heard.append(row)
        time.sleep(POLL_S)
        now_s = time.monotonic()
        if now_s - before_s > 5 * POLL_S:
            stalls.append((time.monotonic_ns(), (now_s - before_s) * 1e3))
        before_s = now_s
    if load is None:
        raise RuntimeError("guard did not learn its views; see its log")
    try:
        return heard, stalls, dict(load.figures())
    except RuntimeError as e:  # what was timed is still true
        return heard, stalls, {"load_not_measured": str(e)}


def read_walks(file: Path) -> list[list[Shot]]:
    """A camera program's notes. One that was started again counts its walks from 1: a number that falls begins a new one."""
    out: list[list[Shot]] = []
    last = 0
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        note = json.loads(line)
        number = int(note.pop("walk"))
        if number != last or int(note["frame"]) <= out[-1][-1].frame:
            out.append([])
        last = number
        out[-1].append(Shot(**note))
    return out


def read_said(log: Path) -> list[Said]:
    """Every INTRUDER that a frame caused."""
    rows = [json.loads(line) for line in log.read_text("utf-8").splitlines() if line.startswith("{")]
    return [
        Said(int(r["at_ns"]), str(r["camera"]), float(r["frame_to_word_ms"]), float(r["cpu_ms"]))
        for r in rows if r["event"] == "word" and r["reason"] == HoldReason.INTRUDER.name and "at_ns" in r
    ]  # fmt: skip


def judged(record: Record) -> dict[str, Any]:
    """The figures. `detect_ms`: from the exposure of the frame in which they cover PERSON_PERCENT of the zone to the word;
    below 0: seen in a frame before it. `pipe_ms`, `guard_ms`: the two parts of `frame_to_word_ms`, from the exposure of
    the frame that guard saw them in; `guard_cpu_ms`: what guard had to do for it, the rest it waited for a CPU."""
    rows: list[dict[str, Any]] = []
    unseen: list[dict[str, Any]] = []
    passed: Counter[str] = Counter()
    for camera, walks in record.walks.items():
        for number, shots in enumerate(walks, 1):
            full = next((s for s in shots if s.percent >= guard_scenes.PERSON_PERCENT), None)
            over_ns = shots[-1].exposed_ns + int(SEEN_S * 1e9)
            before = _at(record.heard, shots[0].exposed_ns)
            if full is None or over_ns > record.until_ns or before is None:
                passed["not whole: the run began or ended in it"] += 1
            elif not before.true:
                passed[f"{before.reason.lower()}: {before.detail.partition(':')[0]}"] += 1
            else:
                row = _seen(record, camera, shots, full, over_ns)
                name = {"camera": camera, "walk": number}
                if row:
                    rows.append(name | row)
                else:
                    later = [h for h in record.heard if not h.true and shots[0].exposed_ns < h.at_ns < over_ns]
                    unseen.append(name | {"said": [h.why() for h in later], "stall_ms": _stall(record, shots[0].exposed_ns, over_ns)})  # fmt: skip
    parts = ("detect_ms", "frame_to_word_ms", "pipe_ms", "guard_ms", "guard_cpu_ms")
    return {
        **{p: trial.percentiles([r[p] for r in rows]) for p in parts},
        "walks": len(rows) + len(unseen), "seen": len(rows), "unseen": len(unseen), "unheard": sum(not r["heard"] for r in rows),
        "frames_later": dict(sorted(Counter(r["frames_later"] for r in rows).items())),
        "not_judged": dict(passed), "unseen_walks": unseen,
        "slowest": sorted(rows, key=lambda r: -float(r["detect_ms"]))[:SLOWEST],
        "stall_ms": trial.percentiles([ms for _, ms in record.stalls]),
    }  # fmt: skip


def _seen(record: Record, camera: str, shots: Sequence[Shot], full: Shot, over_ns: int) -> dict[str, Any] | None:
    """How the word came about; None if it did not."""
    said = next((s for s in record.said if s.camera == camera and shots[0].exposed_ns <= s.at_ns < over_ns), None)
    if said is None:
        return None
    there_ns = said.at_ns - int(said.took_ms * 1e6)
    cause = [s for s in shots if s.exposed_ns <= there_ns][-1:] or [shots[0]]
    heard = [
        h for h in record.heard if not h.true and f"{camera}: somebody" in h.detail and said.at_ns - 10**7 < h.at_ns
    ]
    return {
        "detect_ms": round((said.at_ns - full.exposed_ns) * 1e-6, 1), "percent": cause[0].percent,
        "frames_later": cause[0].frame - full.frame, "frame_to_word_ms": round((said.at_ns - cause[0].exposed_ns) * 1e-6, 1),
        "pipe_ms": round((there_ns - cause[0].exposed_ns) * 1e-6, 1), "guard_ms": said.took_ms,
        "guard_cpu_ms": said.cpu_ms,
        "camera_late_ms": max(s.late_ms for s in shots if s.frame <= cause[0].frame),
        "stall_ms": _stall(record, full.exposed_ns, max(said.at_ns, full.exposed_ns)),
        "heard": bool(heard) and heard[0].at_ns < said.at_ns + int(WORD_LATE_S * 1e9),
    }  # fmt: skip


def _at(heard: Sequence[Heard], at_ns: int) -> Heard | None:
    """The word as it was then; None before the listener first heard a true one: until then views are learnt."""
    first = next((h.at_ns for h in heard if h.true), None)
    if first is None or at_ns < first:
        return None
    return [h for h in heard if h.at_ns <= at_ns][-1]


def _stall(record: Record, begin_ns: int, end_ns: int) -> float:
    """The longest time, ms, that the listener was not run and that reaches into this span: the machine's, not guard's."""
    near = [ms for at, ms in record.stalls if at > begin_ns and at - ms * 1e6 < end_ns]
    return round(max(near, default=0.0), 1)
