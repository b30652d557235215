"""wardarm-postproc as a process over real shared memory: one answer a chunk, joins, epochs, restarts, foreign blocks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import soonest
from postproc_cases import WARD, Array, Bench, knot_table, line, program, raw_chunk, reason, rpy_of
from wardarm import _native
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, PlanStatus


class Desk:
    """eye's and arm's side of the blocks, and the program under test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = f"tpp{os.getpid()}_"
        self.bench = Bench.make(folder)
        self.raw = ring.Writer(BlockKind.RAW_CHUNK, self.prefix)
        self.arm = ring.Writer(BlockKind.ARM_STATUS, self.prefix)
        self.chunk_id = 0
        self.q = self.bench.home()
        self.process: subprocess.Popen[bytes] | None = None
        self.log = folder / "log.jsonl"

    def start(self) -> None:
        ready = self.events("ready")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [program(), "--params", str(self.bench.planner_file), "--prefix", self.prefix], stderr=log
            )
        self.until(lambda: len(self.events("ready")) > len(ready), "ready")
        self.traj = ring.Reader(BlockKind.TRAJECTORY, self.prefix)

    def events(self, name: str) -> list[dict[str, Any]]:
        rows = self.log.read_text().splitlines() if self.log.exists() else []
        return [row for row in map(json.loads, rows) if row["event"] == name]

    @staticmethod
    def until(condition: Any, what: str, timeout_s: float = 60.0) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"not seen: {what}"
            time.sleep(0.002)

    def status(self, **fields: Any) -> None:
        data = self.arm.blank()
        data["stamp_ns"], data["at_rest"], data["target_q_rad"] = time.monotonic_ns(), 1, self.q
        data["grip_target"] = data["grip_opening"] = 1.0
        for key, value in fields.items():
            data[key] = value
        self.arm.publish(data)

    def reach(self, start: Array, offset: list[float]) -> Array:
        pose = self.bench.tcp(start)
        begin = np.concatenate([pose[:3], rpy_of(pose)])
        return line(begin, begin + np.array(offset), 0.15)

    def send(self, points: Array, **fields: Any) -> int:
        self.chunk_id += 1
        chunk = raw_chunk(points, np.ones(64), WARD, self.chunk_id)
        for key, value in fields.items():
            chunk[key] = value
        self.raw.publish(chunk)
        return self.chunk_id

    def answer(self, chunk_id: int) -> np.void:
        slot = ring.poll(self.traj, lambda s: int(s.data["raw_id"]) == chunk_id, 10.0, 0.001)
        assert slot is not None, f"chunk {chunk_id} was not answered"
        return slot.data  # type: ignore[no-any-return]

    def ask(self, points: Array, **fields: Any) -> np.void:
        return self.answer(self.send(points, **fields))

    def stop(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(60)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    desk.status()
    desk.start()
    yield desk
    if desk.process is not None and desk.process.poll() is None:
        desk.stop()
    for path in Path("/dev/shm").glob(f"*{desk.prefix}*"):
        path.unlink()


def test_a_chunk_from_rest_is_answered_once_and_quickly(desk: Desk) -> None:
    desk.status()
    out = desk.ask(desk.reach(desk.q, [0.1, -0.1, -0.05, 0, 0, 0]), step_seq=7, frame_number=3)
    assert out["status"] == PlanStatus.OK, reason(out)
    assert out["step_seq"] == 7
    assert int(out["id"]) == 1
    np.testing.assert_array_equal(knot_table(out)[0, 1:7], desk.q)
    generation = desk.traj.latest().generation  # type: ignore[union-attr]
    time.sleep(0.05)
    assert desk.traj.latest().generation == generation  # type: ignore[union-attr]

    def planned_s() -> float:
        desk.status()
        again = desk.ask(desk.reach(desk.q, [0.1, -0.1, -0.05, 0, 0, 0]))
        return (int(again["plan_end_ns"]) - int(again["plan_start_ns"])) * 1e-9

    soonest(planned_s, 0.05)


def test_every_one_of_a_burst_of_chunks_is_answered_in_order(desk: Desk) -> None:
    points = desk.reach(desk.q, [0.1, -0.1, -0.05, 0, 0, 0])
    desk.status()
    sent = [desk.send(points) for _ in range(3)]
    desk.answer(sent[-1])
    answered = [desk.traj.at(g) for g in range(1, 4)]
    assert [int(s.data["raw_id"]) for s in answered if s is not None] == sent
    assert [int(s.data["id"]) for s in answered if s is not None] == [1, 2, 3]


def test_a_join_continues_the_old_trajectory_exactly(desk: Desk) -> None:
    desk.status()
    first = desk.ask(desk.reach(desk.q, [0.2, -0.2, -0.1, 0, 0, 0.2]))
    knots = knot_table(first)
    motion = _native.sample(knots, 0.001)
    join = motion[731]
    desk.status(playing_id=int(first["id"]), path_s=0.5, at_rest=0)
    out = desk.ask(desk.reach(join[1:7].copy(), [0.1, -0.15, 0, 0, 0, 0]), join_trajectory_id=1, join_path_s=join[0])
    assert out["status"] == PlanStatus.OK, reason(out)
    np.testing.assert_allclose(knot_table(out)[0, 1:19], join[1:19], rtol=0, atol=1e-12)
    assert np.abs(join[7:13]).max() > 0.05
    verdict = desk.bench.envelope.check(knot_table(out), float(out["ramp_s"]), WARD, join[1:19].copy())
    assert verdict["ok"], verdict["reason"]


def test_what_cannot_start_is_refused_with_the_reason(desk: Desk) -> None:
    points = desk.reach(desk.q, [0.1, 0, 0, 0, 0, 0])
    desk.status(plan_epoch=4)
    out = desk.ask(points, plan_epoch=3)
    assert out["status"] == PlanStatus.STALE
    assert "epoch 3, the arm is at 4" in reason(out)
    out = desk.ask(points, plan_epoch=4, join_trajectory_id=77, join_path_s=0.5)
    assert out["status"] == PlanStatus.BAD_JOIN
    assert "77" in reason(out)
    good = desk.ask(points, plan_epoch=4)
    assert good["status"] == PlanStatus.OK
    out = desk.ask(points, plan_epoch=4, join_trajectory_id=int(good["id"]), join_path_s=99.0)
    assert out["status"] == PlanStatus.BAD_JOIN
    desk.status(plan_epoch=4, playing_id=int(good["id"]), path_s=0.8, at_rest=0)
    out = desk.ask(points, plan_epoch=4, join_trajectory_id=int(good["id"]), join_path_s=0.5)
    assert out["status"] == PlanStatus.STALE
    assert "has passed" in reason(out)
    out = desk.ask(points, plan_epoch=4)
    assert out["status"] == PlanStatus.START_MISMATCH
    assert "moving" in reason(out)
    time.sleep(0.6)  # the status grows old
    out = desk.ask(points, plan_epoch=4)
    assert out["status"] == PlanStatus.START_MISMATCH
    assert "old" in reason(out)
    assert desk.events("refused")


def test_the_beat_is_renewed_every_20_ms_and_sigterm_ends_it_cleanly(desk: Desk) -> None:
    beats = {desk.traj.beat_ns}
    end = time.monotonic() + 60
    while len(beats) < 20:
        assert time.monotonic() < end, sorted(beats)
        beats.add(desk.traj.beat_ns)
        time.sleep(0.002)
    ordered = sorted(beats)
    assert min(np.diff(ordered)) >= 19e6
    assert desk.stop() == 0
    assert desk.events("stopped")


def test_a_restart_keeps_counting_and_can_still_join(desk: Desk) -> None:
    desk.status()
    first = desk.ask(desk.reach(desk.q, [0.2, -0.2, -0.1, 0, 0, 0]))
    desk.stop(signal.SIGKILL)
    desk.start()
    time.sleep(0.05)
    assert desk.traj.latest().data["raw_id"] == first["raw_id"]  # type: ignore[union-attr]
    join = _native.sample(knot_table(first), 0.001)[600]
    desk.status(playing_id=int(first["id"]), path_s=0.3, at_rest=0)
    out = desk.ask(
        desk.reach(join[1:7].copy(), [0.1, -0.1, 0, 0, 0, 0]), join_trajectory_id=int(first["id"]), join_path_s=join[0]
    )
    assert out["status"] == PlanStatus.OK, reason(out)
    assert int(out["id"]) == int(first["id"]) + 1


def test_a_block_made_anew_is_followed(desk: Desk) -> None:
    ring.block_path(BlockKind.RAW_CHUNK, desk.prefix).unlink()
    desk.raw = ring.Writer(BlockKind.RAW_CHUNK, desk.prefix)
    time.sleep(0.15)
    desk.status()
    assert desk.ask(desk.reach(desk.q, [0.1, 0, 0, 0, 0, 0]))["status"] == PlanStatus.OK


def test_a_second_writer_is_refused(desk: Desk) -> None:
    second = subprocess.run(
        [program(), "--params", str(desk.bench.planner_file), "--prefix", desk.prefix],
        stderr=subprocess.PIPE, timeout=10, check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert b"is writing it" in second.stderr


@pytest.mark.parametrize(("offset", "size"), [(0, 4), (4, 2), (6, 2), (20, 4), (40, 16)])
def test_a_foreign_block_is_not_read(desk: Desk, offset: int, size: int) -> None:
    path = ring.block_path(BlockKind.RAW_CHUNK, desk.prefix)
    copy = bytearray(path.read_bytes())
    copy[offset : offset + size] = bytes(b ^ 0x55 for b in copy[offset : offset + size])
    scratch = path.with_name(f".{path.name}.foreign")
    scratch.write_bytes(copy)
    scratch.replace(path)
    desk.until(lambda: desk.events("waiting"), "the refusal of the foreign block")
    assert path.name in desk.events("waiting")[-1]["reason"]


def test_a_torn_slot_is_never_planned(desk: Desk) -> None:
    desk.status()
    points = desk.reach(desk.q, [0.1, 0, 0, 0, 0, 0])
    path = ring.block_path(BlockKind.RAW_CHUNK, desk.prefix)
    desk.stop()
    desk.send(points)
    with path.open("r+b") as file:  # one byte of the newest payload, behind the writer's back
        file.seek(desk.raw._offset(desk.raw.generation) + 64 + 200)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    desk.start()
    desk.until(lambda: desk.events("chunk_lost"), "the torn chunk")
    assert desk.traj.latest() is None
    desk.status()
    assert desk.ask(points)["status"] == PlanStatus.OK


def test_wrong_arguments_are_a_usage_error(tmp_path: Path) -> None:
    assert subprocess.run([program()], stderr=subprocess.DEVNULL, check=False).returncode == 2
    broken = tmp_path / "broken.params"
    broken.write_text("dh_a = 1 2 x\n")
    out = subprocess.run([program(), "--params", str(broken)], stderr=subprocess.PIPE, check=False)
    assert out.returncode == 1
    assert b"'x' is not a finite number" in out.stderr
