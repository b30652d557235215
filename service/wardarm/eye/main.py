"""Process `eye`: camera and model in, chunks out, one step at a time.

In: frames of the D455, the current Step, ArmStatus, answers of Triton, Trajectories. Out: frame slots and FrameMeta,
RawChunk (`groot_raw`), Progress, its word. Deadline: the word every `gate.beat_ms` (20 ms); a new chunk every
`eye.period_s` while moving. Death: the tail that plays ends at rest; moving without an accepted chunk is
INFERENCE_STALE, which arm latches by itself. A restarted eye never repeats a step that it had begun; it still knows how
high what is held has to stand.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from wardarm import journal
from wardarm.config import Config, ConfigError, load
from wardarm.eye import grasp_memory
from wardarm.eye.chunks import ChunkWriter
from wardarm.eye.follow import Follower, Report
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.heights import TableLook
from wardarm.eye.model import Model
from wardarm.eye.motion import Motion
from wardarm.eye.place import CameraPlace, PlaceError, PlaceWatch
from wardarm.eye.pulse import SILENT_S, ServerPulse
from wardarm.eye.realsense import RealSense
from wardarm.eye.steps import Grasp, StepMachine
from wardarm.gate.words import BlockWatch, WordBoard
from wardarm.kinematics import Kinematics, TcpPose
from wardarm.ops import installation
from wardarm.policy.tokenizer import Tokenizer
from wardarm.policy.view import Pose
from wardarm.shm import ring
from wardarm.shm.layouts import TEXT, BlockKind, Holding, HoldReason, ProcessId, Source, StepKind, StepState

log = logging.getLogger("wardarm.eye")

_PROGRESS_S = 0.1  # at least this often
SEEN_STEPS = frozenset({StepKind.FETCH, StepKind.PUT, StepKind.POUR, StepKind.PUT_BACK, StepKind.HAND_OVER})
HOME_M, HOME_RAD = 0.01, 0.03  # about what the reference view forgives of the arm in it


def tokenizer_path(config: Config) -> Path:
    return installation.within(config.triton.repository) / config.triton.model / "1" / "tokenizer.model"


class OwnWord:
    """Eye's own word. Informative: the gate does not wait for it, arm sees a missing chunk by itself."""

    def __init__(self, prefix: str) -> None:
        self._writer = ring.Writer(BlockKind.WORD, prefix, ProcessId.EYE)
        before = ring.Reader(BlockKind.WORD, prefix, ProcessId.EYE).latest()
        self._seq = int(before.data["hold_seq"]) if before else 0
        self._reason: HoldReason | None = None

    def say(self, reason: HoldReason, detail: str) -> None:
        """HoldReason.NONE says ok."""
        if reason is not self._reason:
            self._reason = reason
            if reason is not HoldReason.NONE:
                self._seq += 1
            log.info("word", extra={"reason": reason, "detail": detail})
        word = self._writer.blank()
        word["beat_ns"], word["process"], word["ok"] = time.monotonic_ns(), ProcessId.EYE, reason is HoldReason.NONE
        word["hold_seq"], word["reason"], word["detail"] = self._seq, reason, ring.encode(detail, TEXT)
        self._writer.publish(word)


class Eye:
    """Everything of the process but signals. `tick()` every beat."""

    def __init__(self, config: Config, repeat: bool = True) -> None:
        prefix = config.shm.prefix
        self.config = config
        self.word = OwnWord(prefix)
        self.word.say(HoldReason.STARTING, "opening the camera")
        tokenizer = Tokenizer(tokenizer_path(config))
        self.region = FrameRegion(prefix, config.camera.width, config.camera.height, config.camera.slots)
        self.board = FrameBoard(self.region, prefix)
        place = CameraPlace.load(Path(config.camera.place)) if config.camera.place else None
        home = config.poses.home
        self._home = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        self.place = PlaceWatch(place, self.board) if place else None
        self.camera = RealSense(config, self.board, repeat, place.rectifier if place else None)
        self.model = Model(config, self.board, tokenizer)
        self.pulse = ServerPulse(config.triton.url)
        self.motion = Motion(prefix, Kinematics(config.arm))
        self.report = Report()
        self.follower = Follower(config, self.motion, ChunkWriter(prefix), self.model, self.report)
        self.machine = StepMachine(config, self.motion, self.follower, tokenizer, self.report, self._table_look(place))
        self._steps = BlockWatch(BlockKind.STEP, prefix)
        self._clients = WordBoard([ProcessId.API], prefix, config.gate.word_deadline_ms * 1e-3)
        self._progress = ring.Writer(BlockKind.PROGRESS, prefix)
        self._before = self._reported_before(prefix)
        self._kept_z_m: float | None = None
        if self._before is not None and (z_m := grasp_memory.recall(prefix)) is not None:
            self.machine.grasp, self._kept_z_m = Grasp(z_m), z_m
        else:
            grasp_memory.forget(prefix)
        self._started = False
        self._published_s = -1e9
        self._published_key: tuple[object, ...] = ()

    def _table_look(self, place: CameraPlace | None) -> TableLook | None:
        """Depth says where things stand only if it is known where the camera is: calibrated, or the simulated one."""
        if not self.config.eye.look_at_table:
            return None
        if place is not None:
            return TableLook(self.board, place.pose, lambda: place.optics)
        if self.config.camera.source.startswith("serial:"):
            log.warning("where things stand is not looked at: no camera.place; run `wardarm calibrate camera`")
            return None
        return TableLook(self.board, Pose.trained(), lambda: self.camera.optics)

    def start(self) -> None:
        self.camera.start()

    def close(self) -> None:
        self.camera.stop()
        self.pulse.close()
        self.model.close()
        grasp_memory.forget(self.config.shm.prefix)

    def tick(self) -> None:
        self.motion.update()
        step = self._steps.latest()
        if step is not None and int(step.data["seq"]) != self.report.step_seq and self._camera_is_known(step.data):
            self.machine.take(step.data, self._before)
            self._before = None
        elif step is not None and int(step.data["seq"]) == self.report.step_seq:
            self.machine.keep_pace(step.data)
        self.machine.tick()
        self._remember_grasp()
        if self.place is not None and self._at_rest():
            self.place.again(self._at_home())
        if self.machine.idle:
            self.model.keep_alive()
        playing = self.motion.playing()
        self.pulse.want(self.motion.moving and playing is not None and playing.source == Source.MODEL)
        self._speak()
        self._publish()

    def _camera_is_known(self, step: Any) -> bool:
        """Before a step that the model sees through: look first whether the camera is where it was."""
        if self.place is None or int(step["kind"]) not in SEEN_STEPS or not self._at_rest():
            return True
        return self.place.looked(int(step["seq"]), self._at_home())

    def _remember_grasp(self) -> None:
        """A full /dev/shm costs the memory over a crash, not the step."""
        z_m = self.machine.grasp.z_m if self.machine.grasp is not None else None
        if z_m == self._kept_z_m:
            return
        self._kept_z_m = z_m
        if z_m is None:
            grasp_memory.forget(self.config.shm.prefix)
            return
        try:
            grasp_memory.keep(z_m, self.config.shm.prefix)
        except OSError as e:
            log.warning("height of the grasp not kept", extra={"error": str(e)})

    def _at_home(self) -> bool:
        """As in the reference view: the empty-handed arm at home."""
        if not self.motion.fresh or self.motion.holding is not Holding.NO:
            return False
        pose = self.motion.measured()
        off_m = float(np.linalg.norm(pose.xyz_m - self._home.xyz_m))
        return off_m < HOME_M and float(np.abs(pose.rpy_rad - self._home.rpy_rad).max()) < HOME_RAD

    def _at_rest(self) -> bool:
        return self.motion.fresh and int(self.motion.status["at_rest"]) == 1

    def _speak(self) -> None:
        silent_s, lost_s = self.board.silent_s(), self.config.camera.lost_s
        if silent_s > lost_s:
            why = self.camera.error or f"no frame from '{self.config.camera.source}'"
            if self._started:
                self.word.say(HoldReason.CAMERA_LOST, f"{why} ({silent_s:.1f} s)" if silent_s < 1e6 else why)
            else:
                self.word.say(HoldReason.STARTING, why)
        elif self.place is not None and self.place.trouble:
            self.word.say(HoldReason.CAMERA_MOVED, self.place.trouble)
        elif (silent := self.pulse.silent_s) > SILENT_S:
            why = f"Triton at {self.config.triton.url}: no sign of life for {silent:.1f} s; it is down, frozen or restarting"
            self.word.say(HoldReason.INFERENCE_STALE, why)
        elif not self.model.ok:
            # not a reason to latch: while moving arm sees the missing chunk by itself, at rest a step says why it refuses
            self.word.say(HoldReason.STARTING, self.model.error)
        else:
            self._started = True
            self.word.say(HoldReason.NONE, "")

    def _publish(self) -> None:
        r = self.report
        key = (r.step_seq, r.state, r.chunks, r.accepted, r.refused, r.reason, r.first_motion_ns)
        now_s = time.monotonic()
        if key == self._published_key and now_s - self._published_s < _PROGRESS_S:
            return
        self._published_key, self._published_s = key, now_s
        p = self._progress.blank()
        for name, value in vars(r).items():
            p[name] = ring.encode(value, 2 * TEXT) if name == "reason" else value
        frame = self.board.latest
        if frame is not None:
            p["frame_number"], p["capture_ns"] = frame.number, frame.capture_ns
        p["camera_fps"], p["delay_s"] = self.board.fps(), self.follower.model_delay.seconds
        p["model_version"] = self.model.version
        p["model_tasks"] = sum(1 << kind for kind in {StepKind.FETCH, *self.model.tasks}) if self._started else 0
        self._progress.publish(p)

    @staticmethod
    def _reported_before(prefix: str) -> Report | None:
        """What an earlier life of this process said last."""
        slot = ring.Reader(BlockKind.PROGRESS, prefix).latest()
        if slot is None:
            return None
        values = {n: slot.data[n].item() for n in vars(Report()) if n not in ("state", "reason")}
        return Report(**values, state=StepState(int(slot.data["state"])), reason=ring.text(slot.data["reason"]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="wardarm-eye", description="Camera and model in, chunks out.")
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    args = parser.parse_args()
    try:
        config = load(args.config)
    except ConfigError as e:
        print(f"eye: {e}", file=sys.stderr)
        return 2
    journal.setup("eye", config)
    stopping = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        eye = Eye(config)
    except PlaceError as e:
        print(f"eye: {e}", file=sys.stderr)
        return 2
    eye.start()
    period_s = config.gate.beat_ms * 1e-3
    due_s = time.monotonic()
    try:
        while not stopping:
            eye.tick()
            due_s = max(due_s + period_s, time.monotonic() - period_s)
            time.sleep(max(0.0, due_s - time.monotonic()))
    finally:
        eye.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
