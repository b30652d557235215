"""The whole system on one screen: one row a process, what it reads and writes, and what its death means.

`supervisor` starts these rows top to bottom and stops them bottom to top. `argv` is what follows the
interpreter; a row without one is a program of its own. docs/architecture.md draws the same picture.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wardarm.config import Config
from wardarm.shm.layouts import BlockKind, ProcessId


def _python(module: str) -> Callable[[Config, Path], list[str]]:
    return lambda _config, file: [sys.executable, "-m", module, "--config", str(file)]


def _postproc(config: Config, file: Path) -> list[str]:
    program = shutil.which(
        "wardarm-postproc", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    return [
        program or "wardarm-postproc",
        "--params",
        str(file.with_name("planner.params")),
        "--prefix",
        config.shm.prefix,
    ]


@dataclass(frozen=True)
class Process:
    """`death` is the promise kept when it is killed, frozen or late."""

    name: str
    command: Callable[[Config, Path], list[str]]
    reads: Sequence[str]
    writes: Sequence[str]
    death: str
    id: ProcessId | None = None
    blocks: Sequence[BlockKind] = ()
    enabled: Callable[[Config], bool] = field(default=lambda _c: True)
    word: bool = False  # gate needs this process's word for the PWM
    nice: int = 0
    start_deadline_s: float = 20.0
    essential: bool = True  # False: when it dies too often that is a warning, and the system goes on without it


PROCESSES: tuple[Process, ...] = (
    Process(
        "sim", _python("wardarm.sim.bedside"), ["PWM edges"], ["RTDE, dashboard, script, gripper", "world"],
        "the simulated controller is gone: OFFLINE", enabled=lambda c: c.sim.enabled, nice=-10, start_deadline_s=60,
    ),
    Process(
        "views", _python("wardarm.sim.views"), ["world"], ["D455 and room pictures"],
        "frames stop: CAMERA_LOST, ROOM_CAMERA_LOST", enabled=lambda c: c.sim.enabled, nice=5, start_deadline_s=60,
    ),
    Process(
        "triton", _python("wardarm.ops.triton_server"), ["model_repository", "frames"], ["answers"],
        "inference stops; no accepted chunk while moving = INFERENCE_STALE", id=ProcessId.TRITON,
        enabled=lambda c: c.triton.embedded, nice=2, start_deadline_s=90,
    ),
    Process(
        "gate", _python("wardarm.gate.main"), ["words", "arm status"], ["PWM", "gate status"],
        "beat and ticks stop: the player ramps to rest; the supervisor switches the PWM off",
        id=ProcessId.GATE, blocks=[BlockKind.GATE_STATUS, BlockKind.WORD], nice=-10,
    ),
    Process(
        "postproc", _postproc, ["groot_raw", "arm status"], ["groot_traj"],
        "no new trajectory; moving without one = INFERENCE_STALE", id=ProcessId.POSTPROC,
        blocks=[BlockKind.TRAJECTORY], nice=-5,
    ),
    Process(
        "arm", _python("wardarm.arm.main"), ["groot_traj", "words", "gate status", "commands", "RTDE"],
        ["knots and registers to the player", "arm status", "word"],
        "the player sees the forwarded beat stop: ramps to rest", id=ProcessId.ARM,
        blocks=[BlockKind.ARM_STATUS, BlockKind.WORD], word=True, nice=-8,
    ),
    Process(
        "eye", _python("wardarm.eye.main"), ["camera", "Triton", "step", "arm status"],
        ["frames", "groot_raw", "progress", "word"],
        "no accepted chunk while moving = INFERENCE_STALE", id=ProcessId.EYE,
        blocks=[BlockKind.RAW_CHUNK, BlockKind.PROGRESS, BlockKind.FRAME_META, BlockKind.WORD],
    ),
    Process(
        "guard", _python("wardarm.guard.main"), ["room cameras", "arm status"], ["word"],
        "its word goes stale: gate drops the PWM", id=ProcessId.GUARD, blocks=[BlockKind.WORD],
        enabled=lambda c: c.guard.enabled, word=True, nice=-5, start_deadline_s=60,
    ),
    Process(
        "api", _python("wardarm.api.main"), ["clients", "arm status", "progress", "words"],
        ["step", "commands", "word", "tasks (persistent)"], "its word goes stale: gate drops the PWM",
        id=ProcessId.API, blocks=[BlockKind.STEP, BlockKind.COMMAND, BlockKind.WORD], word=True,
    ),
    Process(
        "alert", _python("wardarm.alert.main"), ["arm status", "guard's word"], ["sound"],
        "a warning in the log: it never holds anything", enabled=lambda c: c.alert.enabled, nice=5, essential=False,
    ),
)  # fmt: skip


def enabled(config: Config) -> list[Process]:
    return [p for p in PROCESSES if p.enabled(config)]


def required_words(config: Config) -> list[ProcessId]:
    """Whose word the gate needs, true and fresh, before and while the PWM is on."""
    return [p.id for p in enabled(config) if p.word and p.id is not None]
