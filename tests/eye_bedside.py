"""Eye's main loop on real blocks, with a scripted arm and an expert in the model's place, one tick every 20 ms."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from eye_arm import ScriptedArm
from eye_expert import ExpertModel
from eye_parts import configuration, remove_blocks
from wardarm.config import Config
from wardarm.eye.chunks import ChunkWriter
from wardarm.eye.follow import Follower, Report
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.motion import Motion
from wardarm.eye.steps import StepMachine
from wardarm.kinematics import Kinematics
from wardarm.ops import installation
from wardarm.policy import contract
from wardarm.policy.tokenizer import Tokenizer
from wardarm.shm import layouts
from wardarm.shm.layouts import Holding, StepState

TOKENIZER = installation.root() / "model_repository" / contract.MODEL / "1" / "tokenizer.model"
HOME = (0.45, 0.40, 0.26, 0, 0, 0)
THING = np.array([0.46, 0.41, 0.17])  # a tall bottle: short ways keep the tests short
HAND_OVER = np.array([0.48, 0.44, 0.24])
LEAF = (0.48, 0.46)
ENDED = (StepState.DONE, StepState.REFUSED, StepState.FAILED)


class Bedside:
    """Eye's main loop without camera and server, one tick every 20 ms."""

    def __init__(self, config: Config) -> None:
        prefix = config.shm.prefix
        self.config = config
        self.arm = ScriptedArm(config)
        self.region = FrameRegion(prefix, 64, 48, 4)
        self.board = FrameBoard(self.region, prefix)
        self.model = ExpertModel(self.board, THING, HAND_OVER)
        self.motion = Motion(prefix, Kinematics(config.arm))
        self.report = Report()
        self.chunks = ChunkWriter(prefix)
        self.follower = Follower(config, self.motion, self.chunks, self.model, self.report)  # type: ignore[arg-type]
        self.machine = StepMachine(config, self.motion, self.follower, Tokenizer(TOKENIZER), self.report)
        self.states: list[StepState] = []
        self.seq = 0
        self.arm.start()

    def order(self, kind: int, text: str = "bring me the blue bottle", speed_scale: float = 1.0) -> None:
        step = np.zeros((), layouts.STEP)
        self.seq += 1
        step["seq"], step["kind"], step["speed_scale"] = self.seq, kind, speed_scale
        step["object_kind"], step["text"] = b"bottle", text.encode()
        self.machine.take(step[()])

    def tick(self) -> None:
        now = time.monotonic_ns()
        self.board.put(np.full((48, 64, 3), 90, np.uint8), None, now, now, now * 1e-6)
        self.motion.update()
        self.machine.tick()
        if not self.states or self.states[-1] is not self.report.state:
            self.states.append(self.report.state)

    def run(self, until: Callable[[], bool], timeout_s: float = 60) -> None:
        end = time.monotonic() + timeout_s
        while not until():
            assert time.monotonic() < end, f"still {self.report}"
            self.tick()
            time.sleep(0.02)

    def finish(self, timeout_s: float = 60) -> Report:
        self.run(lambda: self.report.state in ENDED, timeout_s)
        return self.report


@contextmanager
def running() -> Iterator[Bedside]:
    """With short ways, so that the tests are short."""
    config = configuration(
        poses={"home": HOME, "park": (0.44, 0.33, 0.26, 0, 0, 0), "hand_over": (*HAND_OVER, 0, 0, 0), "travel_z": 0.23,
               "leaf": LEAF},
        eye={"period_s": 0.4, "delay_s": 0.4, "step_timeout_s": 40, "valid_min": 0.5},
        triton={"back_s": 2},
    )  # fmt: skip
    made = Bedside(config)
    try:
        yield made
    finally:
        made.arm.stop()
        remove_blocks(config)


def near(thing: np.ndarray, within_m: float = 0.012) -> Callable[[np.ndarray], bool]:
    return lambda xyz: bool(np.linalg.norm(xyz - thing) < within_m)


def held_path(bedside: Bedside) -> np.ndarray:
    path = np.array(bedside.arm.path)
    return path[path[:, 4] == Holding.YES]


def last_point(chunk: np.void) -> np.ndarray:
    """Where a chunk ends, m."""
    return contract.denormalise(np.array(chunk["traj"]).view(np.float16).reshape(64, 6)[-1])[:3]
