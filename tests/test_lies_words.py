"""Shared memory that is whole, newly stamped and nonsense: whoever reads it says so and goes on; nothing is permitted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wardarm.arm.admit import ArmNow, Refused, quintic
from wardarm.arm.causes import Board
from wardarm.arm.check import Check
from wardarm.arm.commands import Commands
from wardarm.arm.gripper import GripperWatch
from wardarm.arm.holds import HoldLatch
from wardarm.arm.intake import checked
from wardarm.arm.status import inherit
from wardarm.config import Config
from wardarm.eye.motion import Motion
from wardarm.gate.words import OwnWord, WordBoard
from wardarm.kinematics import Kinematics
from wardarm.shm import ring
from wardarm.shm.layouts import TRAJECTORY, ArmState, BlockKind, ProcessId
from wardarm.supervisor import Supervisor

from postproc_cases import Bench as PlanBench  # isort: skip
from test_arm_admit import AT_REST, UNDER_WAY, minimum_jerk, trajectory  # isort: skip
from test_gate_process import Bench, companion, running  # isort: skip
from test_gate_process import bench, gate  # noqa: F401  # isort: skip

PREFIX = f"tlw{os.getpid()}_"
CONFIG = Config.model_validate({"schema": 1, "shm": {"prefix": PREFIX}})
STEERING = {
    "status", "plan_epoch", "profile", "knot_count", "join_trajectory_id", "join_path_s", "duration_s", "ramp_s",
    "payload_kg", "knots",
}  # fmt: skip
"""Fields of a Trajectory that decide about motion; the others are numbers, names and figures for the log."""
WORDS = (ProcessId.API, ProcessId.GUARD, ProcessId.EYE, ProcessId.GATE)


@pytest.fixture
def clean() -> Iterator[None]:
    yield
    for file in Path("/dev/shm").glob(f"*{PREFIX}*"):
        file.unlink()


def extremes(kind: Any) -> list[Any]:
    """Values of a scalar dtype that no honest writer has."""
    if kind.kind == "f":
        return [np.nan, np.inf, -np.inf, 1e300 if kind.itemsize == 8 else 3e38, -1.0]
    if kind.kind in "iu":
        information = np.iinfo(kind)
        return [information.min, information.max, information.max // 2 + 1, 17, 255 % (information.max + 1)]
    return [b"\xff" * kind.itemsize, b""]


def lies(good: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a record, each with one field made impossible (an array: its first number)."""
    for name in good.dtype.names:
        field = good.dtype[name]
        base, shape = (field.subdtype or (field, ()))[:2]
        if base.names is not None:
            for inner in base.names:
                inner_base, inner_shape = (base[inner].subdtype or (base[inner], ()))[:2]
                for value in extremes(inner_base):
                    bad = good.copy()
                    bad[name][inner][(0,) * (len(shape) + len(inner_shape))] = value
                    yield f"{name}.{inner} = {value!r}", bad
            continue
        for value in extremes(base):
            bad = good.copy()
            if shape:
                bad[name][(0,) * len(shape)] = value
            else:
                bad[name] = value
            yield f"{name} = {value!r}", bad


def noise(kind: Any, count: int, seed: int = 1) -> Iterator[Any]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield np.frombuffer(rng.bytes(kind.itemsize), kind)[0].copy()


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[ArmNow, Any]]:
    """A trajectory from rest and one that joins it, each with the arm that takes it."""
    home = PlanBench.make(tmp_path_factory.mktemp("lies"), CONFIG).home()
    old = minimum_jerk(home, np.array([-0.3, -0.05, 0.05, 0, 0, 0]), 3.0, 61)
    tail = np.zeros(41, old.dtype)
    for row, t in zip(tail, np.linspace(1.0, 3.0, 41), strict=True):
        row["t_s"], row["grip"] = t - 1.0, 1.0
        row["q_rad"], row["qd_rad_s"], row["qdd_rad_s2"] = quintic(old, t)
    out = []
    for now, knots, join in ((AT_REST, old, (0, 0.0)), (UNDER_WAY, tail, (11, 1.0))):
        good = trajectory(knots, *join)
        good["duration_s"], good["ramp_s"] = knots["t_s"][-1], 0.34
        playing = None if now is AT_REST else old
        out.append((replace(now, actual_q=home, target_q=home, playing_knots=playing), good))
    return out


@pytest.mark.parametrize("which", [0, 1], ids=["from rest", "joining"])
def test_a_trajectory_with_any_field_impossible_is_refused_in_words(
    honest: list[tuple[ArmNow, Any]], which: int
) -> None:
    now, good = honest[which]
    check = Check(CONFIG)
    checked(good, now, check)
    taken = set()
    for what, bad in lies(good):
        try:
            checked(bad, now, check)
        except Refused as e:
            if not e.detail:
                pytest.fail(f"{what}: refused without a word")
            continue
        if not what.endswith(" = 0"):  # an honest value of a status, a profile, an id
            taken.add(what.split(" ")[0])
    unread = {"join_path_s"} if which == 0 else set()  # from rest: there is no join
    assert {name.split(".")[0] for name in taken} & STEERING <= unread


def test_noise_as_a_trajectory_is_refused_in_words() -> None:
    check = Check(CONFIG)
    for now in (AT_REST, UNDER_WAY):
        for record in noise(TRAJECTORY, 300):
            for fields in ({}, {"status": 0, "plan_epoch": 3}, {"status": 0, "plan_epoch": 3, "knot_count": 5}):
                for name, value in fields.items():
                    record[name] = value
                with pytest.raises(Refused) as e:
                    checked(record, now, check)
                assert e.value.detail


@pytest.mark.usefixtures("clean")
def test_words_of_noise_are_never_true_and_their_readers_go_on() -> None:
    writers = [ring.Writer(BlockKind.WORD, PREFIX, p) for p in WORDS]
    status = ring.Writer(BlockKind.GATE_STATUS, PREFIX)
    words, board = WordBoard(WORDS, PREFIX, 0.1), Board(CONFIG)
    for n, record in enumerate(noise(writers[0].payload, 200)):
        if n % 2:
            record["beat_ns"] = time.monotonic_ns()  # new, at least
        for writer in writers:
            writer.publish(record)
        status.publish(next(noise(status.payload, 1, n)))
        assert not [h for h in words.hear_all() if h.true and int(record["process"]) != h.process]
        assert all(h.why() for h in words.hear_all() if not h.true)
        board.read_gate()
        assert board.word_causes()


@pytest.mark.usefixtures("clean")
def test_an_arm_status_of_noise_leaves_nothing_that_permits_and_stops_no_reader(tmp_path: Path) -> None:
    writer = ring.Writer(BlockKind.ARM_STATUS, PREFIX)
    supervisor = Supervisor(CONFIG, tmp_path)
    view = Motion(PREFIX, Kinematics(CONFIG.arm))
    samples = [*(r for _, r in lies(writer.blank())), *noise(writer.payload, 100)]
    for record in samples:
        writer.publish(record)
        view.update()
        assert 0 < view.clock_rate <= 1
        assert isinstance(view.state, ArmState)
        assert int(view.holding) in (0, 1, 2)
        assert view.held in (True, False)
        supervisor.waiting_for()
        assert not supervisor.is_ready()
        inherit(PREFIX)


@pytest.mark.usefixtures("clean")
def test_a_command_of_noise_is_refused_and_resumes_nothing() -> None:
    writer = ring.Writer(BlockKind.COMMAND, PREFIX)
    commands = Commands(PREFIX, 0)
    commands.read()
    gripper = GripperWatch("127.0.0.1", 1)
    for n, record in enumerate(noise(writer.payload, 100)):
        record["seq"] = n + 1
        writer.publish(record)
        command = commands.read()
        assert command is not None
        commands.carry_out(
            command, state=ArmState.HELD, at_rest=True, latch=HoldLatch(), link=None, gripper=gripper
        )  # fmt: skip
        assert commands.result
        assert commands.reason


@pytest.mark.parametrize("kind", [BlockKind.ARM_STATUS, BlockKind.WORD])
def test_a_block_cut_short_under_its_readers_ends_gate_with_the_pwm_off(
    bench: Bench,  # noqa: F811
    gate: subprocess.Popen[bytes],  # noqa: F811
    kind: BlockKind,
) -> None:
    """Reading beyond a file's end is SIGBUS: gate ends, its companion switches off, whoever starts it next asks anew."""
    running(bench)
    deadman = companion(gate)
    path = ring.block_path(kind, bench.prefix, ProcessId.GUARD if kind is BlockKind.WORD else None)
    size = path.stat().st_size
    bench.arm_silent = True  # our own writer would meet the same end
    bench.silent = set(bench.words)
    os.truncate(path, 0)
    assert gate.wait(60) == -signal.SIGBUS
    os.truncate(path, size)
    end = time.monotonic() + 60
    while bench.on:
        assert time.monotonic() < end
        bench.tick()
        time.sleep(0.005)
    while Path(f"/proc/{deadman}").exists() and Path(f"/proc/{deadman}/cmdline").read_bytes():
        assert time.monotonic() < end
        time.sleep(0.01)
    if kind is BlockKind.WORD:
        bench.words[ProcessId.GUARD] = OwnWord(ProcessId.GUARD, bench.prefix, 0.02)
    else:
        bench.arm = ring.Writer(kind, bench.prefix)
