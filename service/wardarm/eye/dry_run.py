"""Everything but the arm, on a recording: frames -> Triton -> groot_raw -> postproc -> groot_traj.

    python -m wardarm.eye.dry_run --config thor --source bedside.db3 --instruction "bring me the blue cup" --json

A status of an arm that stands at home takes the arm's place; nothing is ever sent anywhere. Blocks get names of their
own, so that it runs beside a living system. The embedded server is started if the configuration has one and none
answers. Exit codes: 0 every chunk that came was answered and at least one planned, 1 not, 2 usage.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tritonclient.utils import InferenceServerException

from wardarm.arm.params import write_planner_params
from wardarm.config import Config, ConfigError, load
from wardarm.eye.chunks import ChunkWriter, Stamps
from wardarm.eye.follow import Report
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.model import Model, Reply
from wardarm.eye.motion import Join
from wardarm.eye.planned import Planned
from wardarm.eye.realsense import RealSense
from wardarm.kinematics import Kinematics, TcpPose, rotvec_from_pose
from wardarm.ops import installation, triton_server
from wardarm.policy.tokenizer import InstructionTooLong, Tokenizer
from wardarm.processes import PROCESSES
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, Holding, PlanStatus, Source

_ANSWER_S = 1.0
# home of the configured pose is searched from here: elbow up, gripper down, in front of the base
_ELBOW_UP_Q_RAD = (2.68, -2.06, 1.70, -1.21, -1.57, -2.03)


class DryRunFailed(RuntimeError):
    """A part could not be started; the text says which and what to do."""


class StandingArm:
    """Writes the status of an arm that stands at home, with open fingers, ready."""

    def __init__(self, config: Config, prefix: str) -> None:
        kinematics = Kinematics(config.arm)
        home = config.poses.home
        pose = TcpPose(np.array(home[:3]), np.radians(home[3:]))
        q = kinematics.solve(pose, np.array(_ELBOW_UP_Q_RAD))
        zero = np.zeros(6)
        self.planned = Planned(q, zero, zero, kinematics.forward(q), 1.0)
        self._writer = ring.Writer(BlockKind.ARM_STATUS, prefix)
        status = self._writer.blank()
        status["state"], status["at_rest"], status["plan_epoch"] = ArmState.READY, 1, 1
        status["q_rad"] = status["target_q_rad"] = q
        status["tcp_pose"] = rotvec_from_pose(pose)
        status["grip_opening"] = status["grip_target"] = 1.0
        status["holding"] = Holding.NO
        self._status = status

    def publish(self) -> None:
        self._status["stamp_ns"] = time.monotonic_ns()
        self._writer.publish(self._status)


def _answers(config: Config) -> bool:
    try:
        triton_server.golden_inference(config.triton.url, config.triton.model)
    except InferenceServerException:
        return False
    return True


@contextlib.contextmanager
def _server(config: Config) -> Iterator[None]:
    """The inference server: the one that answers, else the embedded one as a child."""
    if _answers(config):
        yield
        return
    if not config.triton.embedded:
        raise DryRunFailed(f"no inference server at triton.url = {config.triton.url}; start it first")
    server = triton_server.EmbeddedServer(config, output=sys.stderr.fileno())
    try:
        server.wait_ready()
        yield
    finally:
        server.stop()


@contextlib.contextmanager
def _postproc(config: Config, folder: Path) -> Iterator[None]:
    write_planner_params(config, folder / "planner.params")
    row = next(p for p in PROCESSES if p.name == "postproc")
    try:
        process = subprocess.Popen(row.command(config, folder / "wardarm.toml"), stderr=subprocess.DEVNULL)
    except FileNotFoundError as e:
        raise DryRunFailed("wardarm-postproc is not installed; run 'make setup'") from e
    try:
        yield
        if process.poll() is not None:
            raise DryRunFailed(f"wardarm-postproc ended with {process.returncode}; run it by hand to see why")
    finally:
        process.terminate()
        process.wait(5)


class DryRun:
    """One pass over a recording."""

    def __init__(self, config: Config, source: str, instruction: str) -> None:
        prefix = config.shm.prefix
        self.config = config.model_copy(
            update={"camera": config.camera.model_copy(update={"source": f"file:{source}", "lost_s": 2.0})}
        )
        tokenizer = Tokenizer(
            installation.within(config.triton.repository) / config.triton.model / "1" / "tokenizer.model"
        )
        self.tokens = tokenizer.encode(instruction)
        self.arm = StandingArm(config, prefix)
        region = FrameRegion(prefix, config.camera.width, config.camera.height, config.camera.slots)
        self.board = FrameBoard(region, prefix)
        self.camera = RealSense(self.config, self.board, repeat=False)
        self.model = Model(config, self.board, tokenizer)
        self.chunks = ChunkWriter(prefix)
        ring.create(BlockKind.TRAJECTORY, prefix)
        self.trajectories = ring.Reader(BlockKind.TRAJECTORY, prefix)
        self.report = Report()
        self.ms: dict[str, list[float]] = {k: [] for k in ("camera", "queue", "model", "validate", "plan", "total")}
        self.status: Counter[str] = Counter()
        self.valid: list[float] = []
        self.points_mm: list[list[float]] = []
        self.unanswered = 0

    def run(self) -> None:
        self.arm.publish()
        self.camera.start()
        seen = 0
        try:
            while not (self.camera.ended.is_set() and self._frame_number() == seen and not self.model.busy):
                if self.camera.error:
                    raise DryRunFailed(self.camera.error)
                self.arm.publish()
                if not self.model.busy and self._frame_number() > seen:
                    seen = self._frame_number()
                    self.model.ask(self.tokens, self.arm.planned)
                result = self.model.poll()
                if isinstance(result, Reply):
                    self._plan(result)
                elif result is not None:
                    raise DryRunFailed(str(result))
                time.sleep(0.002)
        finally:
            self.camera.stop()
            self.model.close()

    def _frame_number(self) -> int:
        return self.board.latest.number if self.board.latest else 0

    def _plan(self, reply: Reply) -> None:
        a, frame = reply.answer, reply.frame
        self.arm.publish()
        sent = self.chunks.send(
            a.traj, a.grip, Join(0, 0.0, self.arm.planned, 1), source=Source.MODEL, step_seq=1,
            profile=self.config.profile_index(), payload_kg=0.0, asked_ns=reply.asked_ns,
            stamps=Stamps(frame.number, frame.capture_ns, a.start_ns, a.end_ns), valid=a.valid, done=a.done,
        )  # fmt: skip
        answer = ring.poll(self.trajectories, lambda s: int(s.data["raw_id"]) == sent.raw_id, _ANSWER_S)
        if answer is None:
            self.unanswered += 1
            return
        self.status[PlanStatus(int(answer.data["status"])).name] += 1
        self.valid.append(a.valid)
        for name, ms in (
            ("camera", (frame.arrival_ns - frame.capture_ns) * 1e-6), ("queue", reply.queue_ms),
            ("model", (a.end_ns - a.start_ns) * 1e-6), ("validate", a.validate_ms),
            ("plan", (answer.publish_ns - sent.sent_ns) * 1e-6), ("total", (answer.publish_ns - frame.arrival_ns) * 1e-6),
        ):  # fmt: skip
            self.ms[name].append(ms)
        last = answer.data["points"][-1]
        self.points_mm.append([float(last[k]) for k in ("x_mm", "y_mm", "z_mm")])

    def summary(self) -> dict[str, Any]:
        return {
            "source": self.config.camera.source.removeprefix("file:"),
            "frames": self.camera.pairs,
            "unpaired": self.camera.dropped,
            "chunks": sum(self.status.values()) + self.unanswered,
            "planned": self.status["OK"],
            "refused": {k: v for k, v in self.status.items() if k != "OK"},
            "unanswered": self.unanswered,
            "valid_mean": float(np.mean(self.valid)) if self.valid else None,
            "chunk_end_mm": np.median(self.points_mm, axis=0).round(1).tolist() if self.points_mm else None,
            "latency_ms": {
                k: {"p50": float(np.percentile(v, 50)), "p99": float(np.percentile(v, 99))}
                for k, v in self.ms.items()
                if v
            },
            "moved": False,
            "success": self.status["OK"] > 0 and self.unanswered == 0,
        }


def dry_run(config: Config, source: str, instruction: str) -> dict[str, Any]:
    """Run it and return the summary. Raises DryRunFailed, TritonServerError, ValueError (the instruction)."""
    prefix = f"{config.shm.prefix[:12]}dry{os.getpid()}_"
    config = config.model_copy(update={"shm": config.shm.model_copy(update={"prefix": prefix})})
    try:
        with tempfile.TemporaryDirectory() as folder, _server(config):
            run = DryRun(config, source, instruction)
            with _postproc(config, Path(folder)):
                run.run()
            return run.summary()
    finally:
        for file in ring.SHM.glob(f"{prefix}*"):
            file.unlink(missing_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="wardarm run --dry-run", description="Everything but the arm, on a recording."
    )
    parser.add_argument("--config", required=True)
    parser.add_argument("--source", required=True, help="a .bag or .db3 recording with colour (and depth)")
    parser.add_argument("--instruction", required=True)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    args = parser.parse_args()
    if not Path(args.source).is_file():
        print(f"dry run: --source {args.source}: no such file", file=sys.stderr)
        return 2
    try:
        summary = dry_run(load(args.config), args.source, args.instruction)
    except (ConfigError, InstructionTooLong, ValueError) as e:
        print(f"dry run: {e}", file=sys.stderr)
        return 2
    except (DryRunFailed, triton_server.TritonServerError) as e:
        print(f"dry run: {e}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        print(f"{summary['frames']} frames, {summary['chunks']} chunks, {summary['planned']} planned; nothing moved")
        for name, ms in summary["latency_ms"].items():
            print(f"  {name:<9} {ms['p50']:7.1f} ms p50 {ms['p99']:7.1f} ms p99")
    return 0 if summary["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
