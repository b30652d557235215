"""guard: is anybody where the arm may move?

In: one program a room camera (raw GRAY8 frames through a pipe), arm's status (to leave our own arm out). Out: guard's
word. Deadline: the word every `gate.beat_ms`, from the one loop that also reads the cameras and examines the frames,
so a stuck camera or detector makes the word late by itself; a frame is examined within one beat of its arrival.
Death: the word goes stale and gate drops the PWM; the camera programs die with it.

The word is true only while every view is learnt, delivers, and is clear. It becomes true again by itself when the
view is clear; that the arm stays held until a person resumes is arm's latch. True with a reason says *go on, but
gently*: somebody is in a warn zone, or in a keep-out zone while the mode is attended (`attended.py`). SIGHUP (`--relearn`) learns every view
anew. This requests an operational stop; it is no replacement for certified safeguarding.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from wardarm import config as configuration
from wardarm import journal
from wardarm.config import Config, ConfigError, RoomCamera
from wardarm.gate.words import BlockWatch, OwnWord
from wardarm.guard import memory, zones
from wardarm.guard.attended import Attended, AttendedWatch, Gentle, Speed
from wardarm.guard.attended import end as end_attended
from wardarm.guard.camera import IN_VAIN, CameraProgram, Frame
from wardarm.guard.detector import Detector, Finding, ViewState, work_size
from wardarm.guard.opinion import SecondOpinion
from wardarm.guard.silhouette import ArmTrack, Silhouette
from wardarm.guard.tracks import Track, Tracks
from wardarm.guard.verdict import Verdict, fitting
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

REPORT_S = 60.0
_DEVICE = re.compile(r"/dev/video\S+|/dev/v4l/\S+|\bsensor-id=\d+|\brtspt?://\S+|\blocation=\S+")
_NO_FINDING = Finding(ViewState.LEARNING, 0, 0, (), "no frame yet")


def check(config: Config, file: Path) -> None:
    """Everything about the cameras that can be known before one starts. Raises ConfigError naming key and cause."""
    if not config.guard.cameras:
        raise ConfigError("guard.enabled = true needs at least one [[guard.cameras]]; or set guard.enabled = false")
    names = [camera.name for camera in config.guard.cameras]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"guard.cameras: {names.count(name)} cameras are called {name!r}; names must differ")
    devices: dict[str, str] = {}
    for camera in config.guard.cameras:
        zones.check_camera(camera, config.guard)
        view = View(config, camera, file)
        command = " ".join(view.program.argv)
        for device in {
            *(os.path.realpath(d) if d.startswith("/dev/") else d for d in _DEVICE.findall(command)),
            command,
        }:
            other = devices.setdefault(device, camera.name)
            if other != camera.name:
                raise ConfigError(
                    f"guard.cameras[{camera.name}].command: {device[:60]!r} is already used by {other!r}; two cameras "
                    "on one device are one view: give each its own"
                )


class View:
    """One camera: its program, the zone, our arm in it, and what the last frame showed."""

    def __init__(self, config: Config, camera: RoomCamera, file: Path) -> None:
        guard = config.guard
        self.camera = camera
        self.program = CameraProgram(camera, guard, file)
        self.detector = Detector(guard, camera)
        self.silhouette = Silhouette(config.arm, guard, camera, work_size(guard))
        self.finding = _NO_FINDING
        self.frame: Frame | None = None
        self.arm_mask: NDArray[np.uint8] | None = None
        self.tracks = Tracks()
        self.opinion = SecondOpinion(camera.name) if guard.person != "off" else None
        self.person = guard.person
        self._occupied_ns = 0  # of the last frame with anything in a keep-out zone

    def look(self, now_ns: int, track: ArmTrack, hear_arm: Callable[[], None]) -> bool:
        """Read the camera; examine a new frame. True if there was one. `hear_arm` brings `track` up to date: reading a
        frame takes time on a busy machine, and the arm moves on meanwhile."""
        frame = self.program.poll(now_ns)
        if frame is None:
            return False
        hear_arm()
        poses = track.during(time.monotonic_ns()) if self.silhouette.placed else []
        self.arm_mask = self.silhouette.mask(poses) if poses else None
        self.finding = self.detector.update(frame.grey, self.arm_mask, own_shadow=self.silhouette.shadow(poses))
        self.frame = frame
        self._ask_opinion(now_ns)
        return True

    def _ask_opinion(self, now_ns: int) -> None:
        """`require`: a view does not become clear before the person detector has looked at it since somebody was there, and
        saw nobody in the zone. Nothing that it says, or does not say, makes a hold end or keeps one from beginning."""
        if self.opinion is None or self.frame is None:
            return
        if self.finding.zone_percent > 0:
            self._occupied_ns = now_ns
        self.opinion.offer(self.frame.grey, now_ns)
        if self.person == "require" and not self.opinion.agrees(self.camera, self._occupied_ns):
            self.detector.quiet_for_a_person()

    def new_tracks(self, now_ns: int) -> list[Track]:
        """Blobs that appeared with the last frame, while it held somebody in a zone."""
        held = self.finding.state is ViewState.INTRUDER or self.finding.warned
        return self.tracks.update(self.finding.boxes if held else (), now_ns * 1e-9)

    def verdict(self) -> tuple[HoldReason, str]:
        """Why this view forbids motion, and the text for the word; NONE and '' if it does not."""
        name, state, detail = self.program.name, self.finding.state, self.finding.detail
        if self.program.lost:
            reason = HoldReason.STARTING if self.program.starting else HoldReason.ROOM_CAMERA_LOST
            return reason, f"{name}: {self.program.fault}"
        if state is ViewState.INTRUDER:
            seen = self.opinion.label(time.monotonic_ns()) if self.opinion is not None else ""
            return HoldReason.INTRUDER, ", ".join(filter(None, (f"{name}: somebody {detail}", seen)))
        if state is ViewState.VIEW_CHANGED:
            return HoldReason.VIEW_CHANGED, f"{name}: {detail}"
        if state is ViewState.LEARNING:
            return HoldReason.STARTING, f"{name}: {detail}"
        return HoldReason.NONE, ""


_ORDER = (HoldReason.INTRUDER, HoldReason.VIEW_CHANGED, HoldReason.ROOM_CAMERA_LOST, HoldReason.STARTING)


def judge(views: list[View], attended: Attended | None = None, gentle: bool = True) -> Verdict:
    """The word for all views: the most urgent reason, and every view that has one. `gentle`: the arm is as slow as it
    should be while somebody is near."""
    found = sorted((v.verdict() for v in views), key=lambda r: _ORDER.index(r[0]) if r[0] in _ORDER else len(_ORDER))
    bad = [(reason, text) for reason, text in found if reason is not HoldReason.NONE]
    near = [text for reason, text in bad if reason is HoldReason.INTRUDER]
    if bad and not (attended and len(near) == len(bad)):
        return Verdict(bad[0][0], fitting([text for _, text in bad]))
    if attended is not None:
        if near and not gentle:
            return Verdict(HoldReason.INTRUDER, fitting(["attended, but the arm is not slow", *near]))
        return Verdict(HoldReason.INTRUDER, fitting([f"attended by {attended.actor}", *near]), slow=True)
    warned = [f"{v.camera.name}: somebody comes near" for v in views if v.finding.warned and not v.program.lost]
    return Verdict(HoldReason.INTRUDER, fitting(warned), slow=True) if warned else Verdict(HoldReason.NONE, "")


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
        self.attended, self.speed, self.gentle = AttendedWatch(config), Speed(), Gentle(config)
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
        self._starts = [0] * len(self.views)
        self._kept = True
        self._woke_cpu_s = 0.0
        self._cause: dict[str, Any] = {}  # which frame took the word back: for the log
        self._was_attended: Attended | None = None
        self._was_refused = ""
        for view in self.views:
            if not view.silhouette.placed:
                self.log.warning("camera_pos and camera_look are not set: our own arm counts as a person in this view",
                                 extra={"camera": view.camera.name})  # fmt: skip

    def step(self) -> None:
        """Wait for bytes or the next beat, examine what came, say the word."""
        fds = [fd for view in self.views for fd in view.program.fds]
        select.select(fds, [], [], self.beat_s)
        self._woke_cpu_s = time.thread_time()
        if self.relearn_asked:
            self.relearn_asked = False
            self.log.info("learning every view anew")
            memory.forget(self.config.shm.prefix)
            for view in self.views:
                view.detector.relearn()
                view.finding = _NO_FINDING
        self._hear_arm()
        for i, view in enumerate(self.views):
            looked = view.look(time.monotonic_ns(), self.track, self._hear_arm)
            self._frames[i] += looked
            if looked:
                verdict = self._judge()
                if not verdict.ok:  # at once: the other views' frames can wait
                    self.word.say(verdict.ok, verdict.reason, verdict.detail)
                    self._note_cause(view, verdict)
                for track in view.new_tracks(time.monotonic_ns()):
                    self.log.info(
                        "somebody", extra={"camera": view.camera.name, "track": track.number, "box": track.box}
                    )
        verdict = self._judge()
        if verdict.reason is HoldReason.NONE and time.monotonic() >= self._next_keep_s:
            self._keep()
        self.word.say(verdict.ok, verdict.reason, verdict.detail)
        if (verdict.reason, verdict.slow) != (self.verdict.reason, self.verdict.slow):
            self.log.log(
                20 if verdict.ok else 30, "word",
                extra={"ok": verdict.ok, "reason": verdict.reason, "detail": verdict.detail, "slow": verdict.slow} | self._cause,
            )  # fmt: skip
        self._cause = {}
        self.verdict = verdict
        self._note_changes()
        if time.monotonic() >= self._next_report_s:
            self._report()

    def _hear_arm(self) -> None:
        status = self.arm.latest()
        if status is not None:
            self.track.add(status.data)
            self.speed.add(status.data)

    def _note_cause(self, view: View, verdict: Verdict) -> None:
        """Which frame changed the word. `at_ns`: CLOCK_MONOTONIC after it was said; `frame_to_word_ms`: since the frame was
        there; `cpu_ms`: so much of it this thread was run."""
        same = (verdict.reason, verdict.slow) == (self.verdict.reason, self.verdict.slow)
        if same or self._cause or view.frame is None:
            return
        now_ns = time.monotonic_ns()
        took_ms = round((now_ns - view.frame.arrival_ns) * 1e-6, 2)
        cpu_ms = round((time.thread_time() - self._woke_cpu_s) * 1e3, 2)
        self._cause = {"camera": view.camera.name, "at_ns": now_ns, "frame_to_word_ms": took_ms, "cpu_ms": cpu_ms}

    def _judge(self) -> Verdict:
        now_ns = time.monotonic_ns()
        attended = self.attended.look(now_ns)
        near = any(v.finding.state is ViewState.INTRUDER for v in self.views)
        return judge(self.views, attended, self.gentle.check(near, self.speed.m_s(), now_ns))

    def _note_changes(self) -> None:
        """What a person has to be able to read afterwards: attended mode, and cameras that do not come back."""
        attended = self.attended.now
        if attended != self._was_attended:
            who = attended or self._was_attended
            assert who is not None
            fields = {"actor": who.actor, "why": who.reason, "left_s": who.left_s(time.monotonic_ns())}
            what = "ended" if attended is None else "extended" if self._was_attended else "begins"
            self.log.warning(f"attended mode {what}", extra=fields)
            self._was_attended = attended
        if self.attended.refused != self._was_refused:
            self._was_refused = self.attended.refused
            if self._was_refused:
                self.log.error("attended mode refused", extra={"why": self._was_refused})
        for i, view in enumerate(self.views):
            if view.program.starts != self._starts[i]:
                self._starts[i] = view.program.starts
                vain = view.program.in_vain
                level = 20 if vain == 0 else 30 if vain < IN_VAIN else 40
                self.log.log(
                    level, "camera program started" if vain < IN_VAIN else "camera does not come back: it needs a person",
                    extra={"camera": view.camera.name, "starts": view.program.starts, "in_vain": vain, "why": view.program.fault},
                )  # fmt: skip

    def _keep(self) -> None:
        """A full /dev/shm costs the memory over a crash, not the watch."""
        self._next_keep_s = time.monotonic() + memory.RENEW_S
        try:
            memory.keep(self._detectors, self.config.shm.prefix)
            self._kept = True
        except OSError as e:
            if self._kept:
                self.log.error(
                    "the learnt views cannot be kept: a crash would learn the room anew", extra={"why": str(e)}
                )
            self._kept = False

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
        end_attended(self.config)  # whoever starts the system again asks again
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


def rested() -> None:
    """Keep Python's garbage collector off what lives as long as the process: a full collection of it takes 60 ms, and the
    word waits."""
    gc.collect()
    gc.freeze()


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
    rested()
    try:
        while not loop.stopping:
            loop.step()
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
