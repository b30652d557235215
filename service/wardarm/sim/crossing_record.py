"""What is recorded while a visitor crosses the line, and the figures of one crossing.

Four witnesses, each in a thread that does nothing else, so that none is late because another one computes: the room pictures
(kept raw, counted afterwards), guard's word and gate's status (read from shared memory), arm's status, and the controller's
own 500 Hz record (RTDE). The parts of the way from exposure to rest:

| figure | from | to | clock |
|---|---|---|---|
| `camera_ms` | exposure of the picture | it is drawn and handed to the camera program | CLOCK_MONOTONIC |
| `guard_ms` | then | guard's word; below 0: seen in an earlier picture | CLOCK_MONOTONIC |
| `gate_ms` | the word | gate has switched the permit's PWM off | CLOCK_MONOTONIC |
| `onset_ms` | then | the player's first cycle of the ramp | the controller's |
| `ramp_ms` | then | the ramp's last cycle | the controller's |
| `settle_ms` | then | every joint at rest: they follow their targets | the controller's |
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.gate.words import BlockWatch
from wardarm.guard import zones
from wardarm.guard.silhouette import ArmTrack, Silhouette
from wardarm.ops import limits
from wardarm.ops.bench_guard_word import read_said
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId
from wardarm.sim.matrix.witness import Witness
from wardarm.sim.pictures import Picture, PictureFeed

COVERED_PERCENT = 0.5  # of the zone
DIFFERENT_GREY = 15
EMPTY_PICTURES = 3  # the first of each view: without the visitor
REST_RAD_S = 2e-3
AHEAD_NS = 100_000_000  # of a picture: the arm's poses until then are masked, too
RAMPING, RUNNING = 3, 2  # the player's states (output integer register 12)
POLL_S, PICTURE_POLL_S = 0.0015, 0.003


class NotDone(RuntimeError):
    """A run could not be carried out; the text says what did not happen."""


@dataclass
class Run:
    """One crossing. Times in ms, the way of the TCP in mm; `speed_m_s` of the TCP at the exposure. `stop_ms` on
    CLOCK_MONOTONIC; `stop_controller_ms` counts the part after the word on the controller's clock."""

    camera: str
    word_ms: float
    stop_ms: float
    stop_controller_ms: float
    path_mm: float
    speed_m_s: float
    sim_rate: float
    camera_ms: float
    guard_ms: float
    gate_ms: float
    onset_ms: float
    ramp_ms: float
    settle_ms: float


@dataclass(frozen=True)
class Shown:
    """A room picture and when it was there to be read."""

    camera: str
    picture: Picture
    there_ns: int


class Watch:
    """Records one run: `start`, then set `ended` and `join`; then `result`. `log`: guard's, if there is one."""

    def __init__(self, config: Config, log: Path | None = None) -> None:
        self.config, self._log = config, log
        self.status: list[Any] = []
        self.shown: list[Shown] = []
        self.words: list[Any] = []
        self.gate: list[Any] = []
        self.ended = threading.Event()
        self.controller = Witness(config.arm)
        self._feeds = {c.name: PictureFeed(config.shm.prefix, f"room_{c.name}") for c in config.guard.cameras}
        self._arm = BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix)
        self._word = BlockWatch(BlockKind.WORD, config.shm.prefix, ProcessId.GUARD)
        self._gate = BlockWatch(BlockKind.GATE_STATUS, config.shm.prefix)
        parts = ((self._read_blocks, POLL_S), (self._read_pictures, PICTURE_POLL_S))
        self._threads = [threading.Thread(target=self._often, args=part, daemon=True) for part in parts]
        self.started = False

    def start(self) -> None:
        self.started = True
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """After `ended` was set."""
        for thread in self._threads if self.started else []:
            thread.join()
        self.controller.close()

    def _often(self, look: Callable[[], None], every_s: float) -> None:
        while not self.ended.wait(every_s):
            look()

    def _read_blocks(self) -> None:
        for watch, rows in ((self._arm, self.status), (self._word, self.words), (self._gate, self.gate)):
            slot = watch.latest()
            if slot is not None and (not rows or slot.data is not rows[-1]):
                rows.append(slot.data)

    def _read_pictures(self) -> None:
        for name, feed in self._feeds.items():
            picture = feed.next(0.0, 0.0)
            if picture is not None:
                self.shown.append(Shown(name, picture, time.monotonic_ns()))

    def word_ns(self) -> int:
        """When guard said INTRUDER for the first time: as heard here, or as its log has it, if a beat was missed here.
        Raises NotDone."""
        for word in self.words:
            if not word["ok"] and int(word["reason"]) == HoldReason.INTRUDER:
                heard_ns = int(word["beat_ns"])
                said = read_said(self._log) if self._log is not None else []
                latest_ns = max((s.at_ns for s in said if s.at_ns <= heard_ns), default=0)
                return latest_ns if latest_ns > int(self.words[0]["beat_ns"]) else heard_ns
        raise NotDone("guard did not say INTRUDER")

    def covered(self) -> Shown:
        """The earliest picture of any view in which the visitor covers COVERED_PERCENT of the zone. Raises NotDone."""
        found = [shown for camera in self.config.guard.cameras if (shown := self._covered(camera.name)) is not None]
        if not found:
            raise NotDone("the visitor was not seen")
        return min(found, key=lambda s: s.picture.stamp_ns)

    def _covered(self, name: str) -> Shown | None:
        guard = self.config.guard
        camera = next(c for c in guard.cameras if c.name == name)
        size = (guard.width, guard.height)
        zone = zones.mask(camera.keep_out, guard, size) > 0
        arm, track = Silhouette(self.config.arm, guard, camera, size), ArmTrack(1 / guard.fps)
        mine = [s for s in self.shown if s.camera == name]
        pixels = [s.picture.pixels.reshape(guard.height, guard.width) for s in mine]
        if len(pixels) <= EMPTY_PICTURES:
            return None
        empty = np.median(pixels[:EMPTY_PICTURES], 0).astype(np.int16)
        rows = iter(self.status)
        for shown, grey in list(zip(mine, pixels, strict=True))[EMPTY_PICTURES:]:
            until_ns = shown.picture.stamp_ns + AHEAD_NS
            for row in rows:
                track.add(row)
                if int(row["stamp_ns"]) > until_ns:
                    break
            free = arm.mask(track.during(shown.picture.stamp_ns) + track.during(until_ns)) == 0
            off = np.abs(grey.astype(np.int16) - empty) > DIFFERENT_GREY
            if 100 * np.count_nonzero(off & zone & free) >= COVERED_PERCENT * np.count_nonzero(zone):
                return shown
        return None

    def result(self) -> Run:
        """Raises NotDone."""
        seen, word_ns = self.covered(), self.word_ns()
        exposed_ns = seen.picture.stamp_ns
        gone_ns = self._gone_ns(word_ns)
        exposed_s, word_s, gone_s = (self._controller_s(ns) for ns in (exposed_ns, word_ns, gone_ns))
        rows = self.controller.since(min(exposed_s, word_s) - 0.1)
        t, fast = rows["timestamp"], np.abs(rows["actual_qd"]).max(1) > REST_RAD_S
        at = int(np.searchsorted(t, exposed_s))
        if at >= len(t) - 1 or not fast[at]:
            raise NotDone("the arm did not move when the visitor crossed the line")
        ramp = self._ramp(rows, word_s)
        still = np.flatnonzero(~fast[ramp:])
        if not len(still):
            raise NotDone("the arm did not come to rest")
        rest = ramp + int(still[0])
        over = self._over(rows, ramp, rest)
        places, _ = limits.forward(np.asarray(rows["actual_q"], float), self.config.arm)
        rest_ns = self.controller.arrived_ns(float(t[rest]))
        before = max(0, at - 25)
        word_ms = (word_ns - exposed_ns) * 1e-6
        return Run(
            camera=seen.camera, word_ms=round(word_ms, 1), stop_ms=round((rest_ns - exposed_ns) * 1e-6, 1),
            stop_controller_ms=round(word_ms + (float(t[rest]) - word_s) * 1e3, 1),
            path_mm=round(1e3 * float(np.linalg.norm(np.diff(places[at : rest + 1], axis=0), axis=1).sum()), 1),
            speed_m_s=round(float(np.linalg.norm(places[at] - places[before])) / max(1e-3, float(t[at] - t[before])), 3),
            sim_rate=round((float(t[rest]) - exposed_s) / max(1e-3, (rest_ns - exposed_ns) * 1e-9), 3),
            camera_ms=round((seen.there_ns - exposed_ns) * 1e-6, 1), guard_ms=round((word_ns - seen.there_ns) * 1e-6, 1),
            gate_ms=round((gone_ns - word_ns) * 1e-6, 1), onset_ms=round((float(t[ramp]) - gone_s) * 1e3, 1),
            ramp_ms=round(float(t[over] - t[ramp]) * 1e3, 1), settle_ms=round(float(t[rest] - t[over]) * 1e3, 1),
        )  # fmt: skip

    def _controller_s(self, monotonic_ns: int) -> float:
        at = self.controller.at(monotonic_ns)
        if at is None:
            raise NotDone("the controller's record does not reach back that far")
        return at

    def _gone_ns(self, word_ns: int) -> int:
        """When gate switched the PWM off. Raises NotDone."""
        for before, after in pairwise(self.gate):
            if before["pwm_on"] and not after["pwm_on"] and int(after["drop_ns"]) >= word_ns:
                return int(after["drop_ns"])
        raise NotDone("gate did not switch the permit off after the word")

    @staticmethod
    def _over(rows: NDArray[Any], ramp: int, rest: int) -> int:
        """Index of the first sample after the ramp; that of rest, if a slow arm was at rest before the ramp was over."""
        after = np.flatnonzero(rows["output_int_register_12"][ramp:rest] != RAMPING)
        return ramp + int(after[0]) if len(after) else rest

    @staticmethod
    def _ramp(rows: NDArray[Any], word_s: float) -> int:
        """Index of the first sample of the player's ramp after the word. Raises NotDone."""
        state = rows["output_int_register_12"]
        begun = (state[1:] == RAMPING) & (state[:-1] == RUNNING) & (rows["timestamp"][1:] >= word_s)
        if not begun.any():
            raise NotDone("the player did not ramp to rest after the word")
        return 1 + int(np.flatnonzero(begun)[0])
