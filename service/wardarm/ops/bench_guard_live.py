"""The parts of `wardarm bench guard` that run the real guard: its process, camera programs, pipes, the word in /dev/shm.
`bench_guard_word` has the one that times it."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wardarm import config as configuration
from wardarm.gate.words import WordBoard
from wardarm.guard import memory, trial
from wardarm.guard.main import GuardLoop
from wardarm.ops import guard_scenes
from wardarm.processes import PROCESSES
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

WIDTH, HEIGHT, FPS, CAMERAS = 1280, 720, 15.0, 3
WALK_S = 9.0  # between two walks of one camera; the cameras take turns
SETTLE_S = 3.0  # after the word became true the first time, before the load is taken
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
GSTREAMER = (
    "gst-launch-1.0 -q videotestsrc name={name} is-live=true pattern=ball animation-mode=frames ! video/x-raw,format=I420,width=1280,height=720,framerate={fps}/1 "
    "! videoscale ! videoconvert ! video/x-raw,format=GRAY8,width={width},height={height} ! fdsink fd=1 sync=false"
)
"""A CSI or V4L2 camera's frames (YUV 4:2:0, 720p) to what guard reads, on the CPU; the test source is part of what it costs."""


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(x) for x in fields[11:13]) * _TICK_S


def _children(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _as_the_supervisor_starts_it() -> None:
    """With guard's priority, if this user may."""
    with suppress(OSError):
        os.nice(next(row.nice for row in PROCESSES if row.id is ProcessId.GUARD))


@contextmanager
def guard_process(
    cameras: list[dict[str, Any]], **settings: Any
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """The guard process on these cameras, the prefix of its names, and its log."""
    with tempfile.TemporaryDirectory(prefix="wardarm_bench_") as folder:
        prefix = f"bench{os.getpid()}_"
        file = Path(folder) / "bench.json"
        guard = {"fps": FPS, "warmup_frames": 15, "cameras": cameras} | settings
        data = {"schema": 1, "shm": {"prefix": prefix}, "guard": guard, "log": {"directory": folder}}
        file.write_text(json.dumps(data))
        ring.create(BlockKind.WORD, prefix, ProcessId.GUARD)
        process = subprocess.Popen(
            [sys.executable, "-m", "wardarm.guard.main", "--config", str(file)], preexec_fn=_as_the_supervisor_starts_it
        )
        try:
            yield process, prefix, Path(folder) / "guard.jsonl"
        finally:
            process.terminate()
            process.wait(10)
            ring.block_path(BlockKind.WORD, prefix, ProcessId.GUARD).unlink(missing_ok=True)
            memory.forget(prefix)


def producer(log: Path, number: int, walk_s: float, first_s: float, more: str = "") -> str:
    return (
        f"{{python}} -m wardarm.ops.guard_scenes --width {{width}} --height {{height}} --fps {{fps}} --seed {number} "
        f"--log {log} --walk-s {walk_s} --first-s {first_s} {more}"
    )


class Load:
    """What guard and its camera programs cost, from its making to `figures`."""

    def __init__(self, pid: int) -> None:
        self.pid, self.begin_s = pid, time.monotonic()
        self.before = {p: _cpu_s(p) for p in [pid, *_children(pid)]}

    def figures(self) -> dict[str, float]:
        """Percent of one core. Raises RuntimeError if a program was started again meanwhile."""
        wall_s = time.monotonic() - self.begin_s
        gone = [p for p in self.before if not Path(f"/proc/{p}").exists()]
        if gone:
            raise RuntimeError(
                f"{len(gone)} camera programs were started again: this machine is too busy to measure on"
            )
        used = {p: 100 * (_cpu_s(p) - s) / wall_s for p, s in self.before.items()}
        return {
            "guard_percent_of_core": round(used[self.pid], 1),
            "producers_percent_of_core": round(sum(used.values()) - used[self.pid], 1),
            "total_percent_of_core": round(sum(used.values()), 1),
        }


def capture(seconds: float) -> dict[str, Any]:
    """Load of three cameras whose program is GStreamer: 720p in, 640x360 grey out. Raises RuntimeError."""
    if shutil.which("gst-launch-1.0") is None:
        return {"missing": "install Debian's gstreamer1.0-tools and gstreamer1.0-plugins-base"}
    zone = [(0, 0), (40, 0), (40, 360), (0, 360)]
    cameras = [{"name": f"room{i}", "keep_out": zone, "command": GSTREAMER} for i in range(CAMERAS)]
    with guard_process(cameras, width=640, height=360, still_percent=0.0) as (process, prefix, _):
        board, end = WordBoard([ProcessId.GUARD], prefix, 0.5), time.monotonic() + 30
        while len(_children(process.pid)) < CAMERAS or board.hear(ProcessId.GUARD).detail in (
            "starting",
            "no word yet",
        ):
            if time.monotonic() > end:
                raise RuntimeError(f"GStreamer's cameras did not start: {board.hear(ProcessId.GUARD).detail}")
            time.sleep(0.1)
        time.sleep(SETTLE_S)
        load = Load(process.pid)
        time.sleep(seconds)
        said = board.hear(ProcessId.GUARD)
        if said.reason is HoldReason.ROOM_CAMERA_LOST:
            raise RuntimeError(said.detail)
        return {"in": "1280x720 I420", "out": "640x360 GRAY8", "fps": FPS, "seconds": seconds, **load.figures()}


def frozen(times: int) -> dict[str, Any]:
    """From the first repeated frame (its stamp goes on) to the word that names the camera."""
    with tempfile.TemporaryDirectory(prefix="wardarm_frozen_") as folder:
        log = Path(folder) / "0"
        cameras = [
            {
                "name": f"room{i}", "keep_out": guard_scenes.zone(640, 360),
                "command": producer(Path(folder) / str(i), i, 0, 0, "--freeze-s 6" if i == 0 else ""),
            }
            for i in range(2)
        ]  # fmt: skip
        named: list[float] = []
        with guard_process(cameras, width=640, height=360) as (_, prefix, _):
            board, end, before = WordBoard([ProcessId.GUARD], prefix, 0.5), time.monotonic() + 20 + 18 * times, False
            while len(named) < times and time.monotonic() < end:
                heard = board.hear(ProcessId.GUARD)
                lost = heard.reason is HoldReason.ROOM_CAMERA_LOST and heard.detail.startswith(
                    "room0: the picture is frozen"
                )
                if lost and not before:
                    frozen_ns = json.loads(log.read_text().splitlines()[-1])["frozen_ns"]
                    named.append((time.monotonic_ns() - int(heard.age_s * 1e9) - frozen_ns) * 1e-6)
                before = lost
                time.sleep(0.002)
    if len(named) < times:
        raise RuntimeError(f"guard named {len(named)} of {times} frozen cameras")
    return {"times": times, "word_ms": trial.percentiles(named)}


def memory_growth(frames: int) -> dict[str, Any]:
    """The whole loop (pipes, three views, tracks, word, log) fed as fast as 60 frames/s a camera: memory of this process
    once warm, and after `frames` frames. Raises RuntimeError if they do not come."""
    with tempfile.TemporaryDirectory(prefix="wardarm_memory_") as folder:
        prefix, fps = f"benchm{os.getpid()}_", 60.0
        cameras = [
            {
                "name": f"room{i}", "keep_out": guard_scenes.zone(320, 180),
                "command": producer(Path(folder) / f"w{i}", i, 6.0, 2.0 * i),
            }
            for i in range(3)
        ]  # fmt: skip
        guard = {"width": 320, "height": 180, "fps": fps, "fps_min_percent": 0, "cameras": cameras}
        data: dict[str, object] = {"schema": 1, "shm": {"prefix": prefix}, "guard": guard, "log": {"directory": folder}}
        config = configuration.parse(data, "bench")
        ring.create(BlockKind.WORD, prefix, ProcessId.GUARD)
        loop = GuardLoop(config, Path(folder) / "bench.json")
        warm, before_kb, done, begin = min(2000, frames // 3), 0, 0, time.monotonic()
        holds, held = 0, True
        try:
            while done < frames:
                loop.step()
                done = sum(v.program.number for v in loop.views)
                holds += not held and not loop.verdict.ok
                held = not loop.verdict.ok
                if before_kb == 0 and done >= warm:
                    before_kb = _resident_kb()
                if time.monotonic() - begin > 60 + frames / 20:
                    raise RuntimeError(f"only {done} of {frames} frames came")
            grown_kb = _resident_kb() - before_kb
        finally:
            loop.close()
            ring.block_path(BlockKind.WORD, prefix, ProcessId.GUARD).unlink(missing_ok=True)
    rate = done / (time.monotonic() - begin)
    return {"frames": done, "grown_kb": grown_kb, "at_kb": before_kb, "frames_per_s": round(rate, 1), "holds": holds}


def _resident_kb() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m wardarm.ops.bench_guard_live", description="memory of guard's loop"
    )
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    args = parser.parse_args()
    print(json.dumps(memory_growth(args.frames), indent=None if args.json else 1))


if __name__ == "__main__":
    main()
