"""Eye is killed while something is held: the next one puts it down where a person says, as high as it stood."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eye_camera
import numpy as np
import pytest
from eye_arm import ScriptedArm
from eye_bedside import HAND_OVER, HOME, LEAF, THING, near
from eye_parts import configuration, remove_blocks
from test_eye_process import environment
from wardarm import config as configurations
from wardarm.eye import grasp_memory
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, Holding, HoldReason, ProcessId, StepKind, StepState

PROGRAM = Path(__file__).with_name("eye_program.py")
ENDED = (StepState.DONE, StepState.REFUSED, StepState.FAILED)


class Ward:
    """A real eye, a scripted arm, and whoever gives the steps."""

    def __init__(self, folder: Path) -> None:
        self.config = configuration(
            camera={"source": eye_camera.SOURCE, "fps": 10, "lost_s": 2.0},
            poses={"home": HOME, "park": (0.44, 0.33, 0.26, 0, 0, 0), "hand_over": (*HAND_OVER, 0, 0, 0),
                   "travel_z": 0.23, "leaf": LEAF},
            eye={"period_s": 0.4, "delay_s": 0.4, "step_timeout_s": 60, "valid_min": 0.5, "look_at_table": False},
        )  # fmt: skip
        self.prefix = self.config.shm.prefix
        self.file, self.log = folder / "eye.json", folder / "log"
        configurations.dump(self.config, self.file)
        self.arm = ScriptedArm(self.config)
        self.arm.thing_at = near(THING)
        ring.create(BlockKind.PROGRESS, self.prefix)
        self.steps = ring.Writer(BlockKind.STEP, self.prefix)
        self.seq = 0
        self.arm.start()
        self.eye = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(PROGRAM), "--config", str(self.file)], env=environment(), stdout=log, stderr=log
            )

    def restart(self) -> None:
        """Kill it, let the arm hold as the real one does, start the next."""
        self.eye.kill()
        self.eye.wait()
        self.arm.hold()
        self.eye = self.start()

    def close(self) -> None:
        self.eye.kill()
        self.eye.wait()
        self.arm.stop()
        remove_blocks(self.config)

    def order(self, kind: StepKind) -> int:
        self.seq += 1
        step = self.steps.blank()
        step["seq"], step["kind"], step["speed_scale"] = self.seq, kind, 1.0
        step["object_kind"], step["text"] = b"bottle", b"bring me the blue bottle"
        self.steps.publish(step)
        return self.seq

    def progress(self) -> Any:
        slot = ring.Reader(BlockKind.PROGRESS, self.prefix).latest()
        return slot.data if slot is not None else None

    def ended(self, seq: int) -> bool:
        p = self.progress()
        return p is not None and int(p["step_seq"]) == seq and StepState(int(p["state"])) in ENDED

    def finish(self, seq: int) -> tuple[StepState, str]:
        self.until(lambda: self.ended(seq))
        p = self.progress()
        return StepState(int(p["state"])), ring.text(p["reason"])

    def sees(self) -> bool:
        """Camera and model answer, whatever the absent server does to its word."""
        slot = ring.Reader(BlockKind.WORD, self.prefix, ProcessId.EYE).latest()
        return slot is not None and int(slot.data["reason"]) in (HoldReason.NONE, HoldReason.INFERENCE_STALE)

    def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert self.eye.poll() is None, f"eye ended\n{self.log.read_text()[-2000:]}"
            assert time.monotonic() < end, f"{self.progress()}\n{self.log.read_text()[-2000:]}"
            time.sleep(0.01)


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    made = Ward(tmp_path)
    try:
        made.until(lambda: ring.block_path(BlockKind.WORD, made.prefix, ProcessId.EYE).exists() and made.sees())
        yield made
    finally:
        made.close()


def carrying(ward: Ward) -> int:
    seq = ward.order(StepKind.FETCH)
    ward.until(lambda: ward.arm.holding is Holding.YES and float(ward.arm.xyz[2]) > THING[2] + 0.02)
    return seq


@pytest.mark.parametrize("known", [Holding.YES, Holding.UNKNOWN], ids=["arm went on", "arm was restarted too"])
def test_put_it_down_works_as_before_after_eye_was_killed(ward: Ward, known: Holding) -> None:
    fetch = carrying(ward)
    ward.restart()
    ward.arm.holding = known
    state, reason = ward.finish(fetch)
    assert state is StepState.FAILED
    assert "restarted" in reason
    ward.arm.resume()
    ward.until(ward.sees)
    sent, stood = len(ward.arm.chunks), ward.arm.xyz
    seq = ward.order(StepKind.SET_DOWN_HERE)
    assert ward.finish(seq) == (StepState.DONE, "")
    assert int(ward.arm.chunks[sent]["step_seq"]) == seq  # nothing was sent before the word
    path = np.array(ward.arm.path)
    opened = path[path[:, 4] != Holding.NO][-1]
    assert opened[2] == pytest.approx(THING[2] + 0.002, abs=0.004)
    np.testing.assert_allclose(opened[:2], stood[:2], atol=0.004)
    assert ward.arm.holding is Holding.NO
    ward.until(lambda: not grasp_memory.path(ward.prefix).exists())


def test_what_was_let_go_while_eye_was_away_lends_its_height_to_nothing_else(ward: Ward) -> None:
    fetch = carrying(ward)
    ward.arm.thing_at = near(np.full(3, 9.0))
    ward.restart()
    ward.arm.holding = Holding.NO
    ward.finish(fetch)
    ward.arm.resume()
    ward.until(lambda: not grasp_memory.path(ward.prefix).exists())
    ward.arm.holding = Holding.UNKNOWN  # and then something else, from somebody's hand
    state, reason = ward.finish(ward.order(StepKind.SET_DOWN_HERE))
    assert state is StepState.REFUSED
    assert "hand under it" in reason


def test_a_system_that_starts_knows_nothing_of_the_one_before(ward: Ward) -> None:
    carrying(ward)
    ward.until(lambda: grasp_memory.recall(ward.prefix) is not None)
    ward.eye.kill()
    ward.eye.wait()
    ward.arm.hold()
    ring.block_path(BlockKind.PROGRESS, ward.prefix).unlink()
    ring.create(BlockKind.PROGRESS, ward.prefix)  # as the supervisor does
    ward.eye = ward.start()
    ward.arm.resume()
    ward.until(lambda: not grasp_memory.path(ward.prefix).exists())
    state, reason = ward.finish(ward.order(StepKind.SET_DOWN_HERE))
    assert state is StepState.REFUSED
    assert "hand under it" in reason


def test_an_orderly_end_leaves_no_file(ward: Ward) -> None:
    carrying(ward)
    ward.until(lambda: grasp_memory.recall(ward.prefix) is not None)
    ward.eye.terminate()
    assert ward.eye.wait(60) == 0
    assert not grasp_memory.path(ward.prefix).exists()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"z_m": "high"}', '{"z_m": NaN}', '{"z_m": null}'])
def test_a_file_that_is_none_of_these_is_no_height(text: str) -> None:
    prefix = f"tgrasp{os.getpid()}_"
    grasp_memory.path(prefix).write_text(text)
    try:
        assert grasp_memory.recall(prefix) is None
    finally:
        grasp_memory.forget(prefix)
    assert grasp_memory.recall(prefix) is None
