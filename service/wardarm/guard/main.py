"""guard: is anybody where the arm may move?

In: one program a room camera (raw GRAY8 frames through a pipe), arm's status (to leave our own arm out). Out: guard's
word. Deadline: the word every `gate.beat_ms`, from the one loop that also reads the cameras and examines the frames,
so a stuck camera or detector makes the word late by itself; a frame is examined within one beat of its arrival.
Death: the word goes stale and gate drops the PWM; the camera programs die with it.

The word is true only while every view is learnt, delivers, and is clear. It becomes true again by itself when the
view is clear; that the arm stays held until a person resumes is arm's latch. SIGHUP (`--relearn`) learns every view
anew. This requests an operational stop; it is no replacement for certified safeguarding.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm import config as configuration
from wardarm import journal
from wardarm.config import Config, ConfigError, RoomCamera
from wardarm.gate.words import BlockWatch, OwnWord
from wardarm.guard import memory, zones
from wardarm.guard.camera import CameraProgram, Frame
from wardarm.guard.detector import Detector, Finding, ViewState, work_size
from wardarm.guard.silhouette import ArmTrack, Silhouette
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

REPORT_S = 60.0
_NO_FINDING = Finding(ViewState.LEARNING, 0, 0, (), "no frame yet")


def check(config: Config, file: Path) -> None:
    """Everything about the cameras that can be known before one starts. Raises ConfigError naming key and cause."""
    if not config.guard.cameras:
        raise ConfigError("guard.enabled = true needs at least one [[guard.cameras]]; or set guard.enabled = false")
    names = [camera.name for camera in config.guard.cameras]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"guard.cameras: {names.count(name)} cameras are called {name!r}; names must differ")
    for camera in config.guard.cameras:
        View(config, camera, file)


class View:
    """One camera: its program, the zone, our arm in it, and what the last frame showed."""

    def __init__(self, config: Config, camera: RoomCamera, file: Path) -> None:
        guard = config.guard
        zones.check(f"guard.cameras[{camera.name}].keep_out", camera.keep_out, guard)
        self.camera = camera
        self.program = CameraProgram(camera, guard, file)
        self.detector = Detector(guard, camera)
        self.silhouette = Silhouette(config.arm, guard, camera, work_size(guard))
        self.finding = _NO_FINDING
        self.frame: Frame | None = None
        self.arm_mask: NDArray[np.uint8] | None = None

    def look(self, now_ns: int, track: ArmTrack) -> bool:
        """Read the camera; examine a new frame. True if there was one."""
        frame = self.program.poll(now_ns)
        if frame is None:
            return False
        poses = track.during(frame.arrival_ns) if self.silhouette.placed else []
        self.arm_mask = self.silhouette.mask(poses) if poses else None
        self.finding = self.detector.update(frame.grey, self.arm_mask)
        self.frame = frame
        return True

    def verdict(self) -> tuple[HoldReason, str]:
        """Why this view forbids motion, and the text for the word; NONE and '' if it does not."""
        name, state, detail = self.program.name, self.finding.state, self.finding.detail
        if self.program.lost:
            reason = HoldReason.STARTING if self.program.starting else HoldReason.ROOM_CAMERA_LOST
            return reason, f"{name}: {self.program.fault}"
        if state is ViewState.INTRUDER:
            return HoldReason.INTRUDER, f"{name}: somebody {detail}"
        if state is ViewState.VIEW_CHANGED:
            return HoldReason.VIEW_CHANGED, f"{name}: {detail}"
        if state is ViewState.LEARNING:
            return HoldReason.STARTING, f"{name}: {detail}"
        return HoldReason.NONE, ""


@dataclass(frozen=True)
class Verdict:
    reason: HoldReason
    detail: str

    @property
    def ok(self) -> bool:
        return self.reason is HoldReason.NONE


_ORDER = (HoldReason.INTRUDER, HoldReason.VIEW_CHANGED, HoldReason.ROOM_CAMERA_LOST, HoldReason.STARTING)


def judge(views: list[View]) -> Verdict:
    """The word for all views: the most urgent reason, and every view that has one."""
    found = sorted((v.verdict() for v in views), key=lambda r: _ORDER.index(r[0]) if r[0] in _ORDER else len(_ORDER))
    bad = [(reason, text) for reason, text in found if reason is not HoldReason.NONE]
    if not bad:
        return Verdict(HoldReason.NONE, "")
    return Verdict(bad[0][0], "; ".join(text for _, text in bad))


class GuardLoop:
    """The loop of the process. `step` never waits longer than a beat."""

    def __init__(self, config: Config, file: Path) -> None:
        check(config, file)
        cv2.setNumThreads(1)
        self.log = journal.setup("guard", config)
        self.config = config
        self.beat_s = config.gate.beat_ms * 1e-3
        self.views = [View(config, camera, file) for camera in config.guard.cameras]
        self.track = ArmTrack(1 / config.guard.fps)
        self.arm = BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix)
        self.word = OwnWord(ProcessId.GUARD, config.shm.prefix, self.beat_s)
        self.stopping = False
        self.relearn_asked = False
        self._detectors = [view.detector for view in self.views]
        self._next_keep_s = 0.0
        if memory.recall(self._detectors, config.shm.prefix):
            self.log.warning("an earlier guard died: going on with the views that it had learnt")
        self.verdict = Verdict(HoldReason.STARTING, "starting")
        self.word.say(False, HoldReason.STARTING, "starting")
        self._next_report_s = time.monotonic() + REPORT_S
        self._frames = [0] * len(self.views)
        for view in self.views:
            if not view.silhouette.placed:
                self.log.warning("camera_pos and camera_look are not set: our own arm counts as a person in this view",
                                 extra={"camera": view.camera.name})  # fmt: skip

    def step(self) -> None:
        """Wait for bytes or the next beat, examine what came, say the word."""
        fds = [fd for view in self.views for fd in view.program.fds]
        select.select(fds, [], [], self.beat_s)
        if self.relearn_asked:
            self.relearn_asked = False
            self.log.info("learning every view anew")
            memory.forget(self.config.shm.prefix)
            for view in self.views:
                view.detector.relearn()
                view.finding = _NO_FINDING
        status = self.arm.latest()
        if status is not None:
            self.track.add(status.data)
        for i, view in enumerate(self.views):
            self._frames[i] += view.look(time.monotonic_ns(), self.track)
        verdict = judge(self.views)
        if verdict.reason is not self.verdict.reason:
            self.log.log(
                20 if verdict.ok else 30,
                "word",
                extra={"ok": verdict.ok, "reason": verdict.reason, "detail": verdict.detail},
            )
        self.verdict = verdict
        if verdict.ok and time.monotonic() >= self._next_keep_s:
            self._next_keep_s = time.monotonic() + memory.RENEW_S
            memory.keep(self._detectors, self.config.shm.prefix)
        self.word.say(verdict.ok, verdict.reason, verdict.detail)
        if time.monotonic() >= self._next_report_s:
            self._report()

    def _report(self) -> None:
        self._next_report_s = time.monotonic() + REPORT_S
        for i, view in enumerate(self.views):
            fields = {
                "camera": view.camera.name,
                "fps": round(self._frames[i] / REPORT_S, 2),
                "starts": view.program.starts,
            }
            slow = self._frames[i] / REPORT_S < 0.7 * self.config.guard.fps
            self.log.log(30 if slow else 20, "slower than guard.fps" if slow else "camera", extra=fields)
            self._frames[i] = 0

    def close(self) -> None:
        self.word.say(False, HoldReason.STARTING, "guard was stopped")
        memory.forget(self.config.shm.prefix)
        for view in self.views:
            view.program.stop()


def relearn(config: Config) -> int:
    """Ask the running guard to learn its views anew. Returns the exit status."""
    try:
        reader = ring.Reader(BlockKind.WORD, config.shm.prefix, ProcessId.GUARD)
    except ring.BlockMissing as e:
        print(e, file=sys.stderr)
        return 1
    if not reader.writer_alive():
        print("guard is not running; see 'systemctl status wardarm'", file=sys.stderr)
        return 1
    os.kill(int(reader.head["writer_pid"]), signal.SIGHUP)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.guard.main", description="Room cameras to guard's word.")
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    parser.add_argument("--relearn", action="store_true", help="the room is empty and as it should be: learn it anew")
    args = parser.parse_args()
    try:
        config = configuration.load(args.config)
        if args.relearn:
            return relearn(config)
        loop = GuardLoop(config, Path(args.config))
    except (ConfigError, ring.BlockError) as e:
        print(e, file=sys.stderr)
        return 2

    def ask(number: int, _frame: object) -> None:
        if number == signal.SIGHUP:
            loop.relearn_asked = True
        else:
            loop.stopping = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask)
    try:
        while not loop.stopping:
            loop.step()
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
