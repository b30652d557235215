"""A hundred thousand chunks: eye's block, wardarm-postproc, arm's intake and check, the player. What grows, what is lost?

The controller is in lock-step, so a chunk costs milliseconds; wardarm-postproc is the real process on real shared
memory. `WARDARM_MEMORY_CHUNKS` (default 100000) is how many; the result is kept in `out/prove/memory.json` and a run
that was long enough is not repeated: delete the file to start anew.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postproc_cases import Array, Bench, line, program, raw_chunk, reason, rpy_of
from wardarm import config as configuration
from wardarm.arm.admit import quintic
from wardarm.arm.intake import TrajectoryFeed
from wardarm.arm.state import PlayerState
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, PlanStatus
from wardarm.sim.lockstep import Lockstep
from wardarm.sim.lockstep_arm import LockstepArm
from wardarm.sim.ur_controller.kinematics import DhParameters

pytestmark = pytest.mark.timeout(2 * 3600)
FILE = Path("out/prove/memory.json")
CHUNKS = int(os.environ.get("WARDARM_MEMORY_CHUNKS", "100000"))
LEAD_S = 0.17  # of a join: loading 60 knots takes 0.12 s
CYCLE_REGISTER = 18  # the player counts its cycles there
SLOPE_MB = 1.0
WARM = 0.25  # of the run: pages touched for the first time, and what the allocator gives back at its start


def private_kb(pid: int) -> int:
    """Memory that this process alone keeps from others, kB."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(r.split()[1]) for r in rows if r.startswith(("Private_Clean:", "Private_Dirty:")))


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid: int) -> int:
    return sum(len(Path(f"/proc/{pid}/task/{t}/children").read_text().split()) for t in os.listdir(f"/proc/{pid}/task"))


class Run:
    """Legs between random places: a chunk from rest, joins under way, rest; now and then a lost permit or bad numbers."""

    def __init__(self, folder: Path) -> None:
        config = configuration.load("desk")
        self.prefix = f"tmem{os.getpid()}_"
        self.bench = Bench.make(folder, config)
        self.log = folder / "postproc.jsonl"
        self.raw = ring.Writer(BlockKind.RAW_CHUNK, self.prefix)
        self.status = ring.Writer(BlockKind.ARM_STATUS, self.prefix)
        self.rng = np.random.default_rng(1)
        arm = config.arm
        self.sim = Lockstep(
            dh=DhParameters(arm.dh_a, arm.dh_d, arm.dh_alpha), tcp=arm.tcp, q=self.bench.home().tolist(), record=False
        )
        self.sim.load_player()
        self.arm = LockstepArm(self.sim, config, plan_epoch=1)
        self.arm.load_s_per_block = 0.0022  # one block a controller cycle, as measured here
        self.profile = config.profile_index()
        self.sent = self.answered = self.joined = self.holds = 0
        self.refused: dict[str, int] = {}
        self.late_beats = 0
        self.oldest_beat_s = 0.0
        self.missed_cycles = 0
        self.q = self.bench.home()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [program(), "--params", str(self.bench.planner_file), "--prefix", self.prefix], stderr=log
            )
        self.feed = TrajectoryFeed(self.prefix)
        self._until(lambda: b'"ready"' in self.log.read_bytes())
        list(self.feed.new())
        self.beat = ring.Reader(BlockKind.TRAJECTORY, self.prefix)
        self.deadline_s = config.gate.word_deadline_ms * 1e-3
        home = self.bench.tcp(self.q)
        self.home = np.concatenate([home[:3], rpy_of(home)])
        self.samples: list[tuple[int, int, int]] = []

    @staticmethod
    def _until(condition: Any) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.01)

    def ask(self, points: Array, grip: float, join: tuple[int, float] = (0, 0.0)) -> Any:
        """One chunk through the process; its one answer."""
        status = self.arm.status()
        status["stamp_ns"] = time.monotonic_ns()  # the process' clock is this one
        self.status.publish(status)
        self.sent += 1
        chunk = raw_chunk(points, np.full(64, grip), self.profile, self.sent)
        chunk["plan_epoch"], chunk["join_trajectory_id"], chunk["join_path_s"] = self.arm.plan_epoch or 0, *join
        self.raw.publish(chunk)
        end = time.monotonic() + 20
        while True:
            found = list(self.feed.new())
            if found:
                break
            assert time.monotonic() < end, f"chunk {self.sent} was not answered"
            time.sleep(0.0005)
        assert len(found) == 1
        assert int(found[0]["raw_id"]) == self.sent
        self.answered += 1
        age_s = (time.monotonic_ns() - self.beat.beat_ns) * 1e-9
        self.oldest_beat_s = max(self.oldest_beat_s, age_s)
        self.late_beats += age_s > self.deadline_s
        return found[0]

    def refuse(self, text: str) -> None:
        self.refused[text] = self.refused.get(text, 0) + 1

    def leg(self) -> None:
        """To a place drawn at random, replanned on the way."""
        sim, arm = self.sim, self.arm
        place = self.home + np.concatenate([self.rng.uniform((-0.12, -0.35, -0.15), (0.12, 0.05, 0.1)), np.zeros(3)])
        grip, speed = float(self.rng.choice((1.0, 0.6, 0.2))), float(self.rng.uniform(0.1, 0.25))
        q = sim.target_q_rad
        if self.rng.random() < 0.05:
            self.bad_numbers(q, place)
        answer = self.offer(q, place, grip, speed)
        if answer is None or not answer.accepted:
            return
        stop_s = float(self.rng.uniform(0.2, 1.5)) if self.rng.random() < 0.1 else None
        arm.permit(True)
        sim.until(lambda s: arm.player is PlayerState.RUNNING)
        began = sim.cycle
        while arm.player is PlayerState.RUNNING:
            if stop_s is not None and (sim.cycle - began) * 0.002 > stop_s:
                self.hold()
                return
            playing = arm.playing_id
            join_s = arm.path_s + LEAD_S
            knots = arm.sent[playing]
            if join_s > float(knots["t_s"][-1]) - 0.3:
                break
            joined = self.offer(quintic(knots, join_s)[0], place, grip, speed, (playing, join_s))
            if joined is None or not joined.accepted:
                break
            self.joined += 1
            sim.until(lambda s, now=playing: arm.playing_id != now, 3.0)  # type: ignore[misc]
        arm.rest()
        sim.request(0)
        arm.permit(False)

    def offer(self, q: Array, place: Array, grip: float, speed: float, join: tuple[int, float] = (0, 0.0)) -> Any:
        pose = self.bench.tcp(q)
        plan = self.ask(line(np.concatenate([pose[:3], rpy_of(pose)]), place, speed), grip, join)
        if plan["status"] != PlanStatus.OK:
            self.refuse(f"postproc {PlanStatus(int(plan['status'])).name}: {reason(plan)[:40]}")
            return None
        answer = self.arm.offer(plan)
        if not answer.accepted:
            self.refuse(f"{answer.by} {answer.reason.name}")
        return answer

    def hold(self) -> None:
        """The pulses end: at rest, everything forgotten, a new epoch."""
        self.arm.permit(False)
        self.sim.until(lambda s: self.arm.player is PlayerState.HELD)
        self.sim.request(0)
        self.arm.discard()
        self.sim.until(lambda s: self.arm.player is PlayerState.READY)
        self.arm.rest()
        self.arm.plan_epoch = (self.arm.plan_epoch or 0) + 1
        self.holds += 1

    def bad_numbers(self, q: Array, place: Array) -> None:
        pose = self.bench.tcp(q)
        points = line(np.concatenate([pose[:3], rpy_of(pose)]), place, 0.2)
        points[int(self.rng.integers(1, 64)), int(self.rng.integers(6))] = self.rng.choice((np.nan, np.inf))
        plan = self.ask(points, 1.0)
        assert plan["status"] == PlanStatus.NOT_FINITE, reason(plan)
        assert not self.arm.offer(plan).accepted

    def go(self, chunks: int) -> None:
        sim, every, tell = self.sim, max(20, chunks // 400), time.monotonic() + 60
        next_sample = 0
        counted = sim.int_register(CYCLE_REGISTER) - sim.cycle
        while self.sent < chunks:
            self.leg()
            sim.arm_end.heard.clear()
            now = sim.int_register(CYCLE_REGISTER) - sim.cycle
            self.missed_cycles += abs(now - counted)
            counted = now
            if self.sent >= next_sample:
                next_sample = self.sent + every
                self.samples.append((self.sent, private_kb(os.getpid()), private_kb(self.process.pid)))
            if time.monotonic() > tell:
                tell += 60
                print(*self.samples[-1], flush=True)

    def close(self) -> int:
        self.sim.close()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(10)
        for path in ring.SHM.glob(f"{self.prefix}*"):
            path.unlink()
        return code


def slope_mb(samples: list[tuple[int, int, int]], column: int) -> float:
    """MB over the whole run, by least squares, without its first quarter."""
    rows = np.array(samples, float)
    rows = rows[rows[:, 0] > WARM * rows[-1, 0]]
    return float(np.polyfit(rows[:, 0], rows[:, column], 1)[0]) * float(rows[-1, 0]) / 1024


def measure(chunks: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        before_children, before_files = children(os.getpid()), open_files(os.getpid())
        run = Run(Path(folder))
        try:
            out = _figures(run, chunks)
        finally:  # also when a chunk is lost: the process does not outlive its test
            code = run.close()
        out["postproc_exit"] = code
        del run
        out["children_left"] = children(os.getpid()) - before_children
        out["files_left"] = open_files(os.getpid()) - before_files
        return out


def _figures(run: Run, chunks: int) -> dict[str, Any]:
    run.go(min(200, chunks))
    files = open_files(os.getpid()), open_files(run.process.pid)
    blocks = sorted(p.name for p in ring.SHM.glob(f"*{run.prefix}*"))
    began, cycle, first = time.monotonic(), run.sim.cycle, run.sent
    run.samples.clear()
    run.go(chunks)
    took_s = time.monotonic() - began
    return {
        "chunks": run.sent, "answered": run.answered, "joined": run.joined, "holds": run.holds,
        "refused": run.refused, "seconds": round(took_s), "chunks_s": round((run.sent - first) / took_s, 1),
        "controller_s": round((run.sim.cycle - cycle) * 0.002),
        "slope_mb": {"arm_and_player": round(slope_mb(run.samples, 1), 3), "postproc": round(slope_mb(run.samples, 2), 3)},
        "private_mb": {"arm_and_player": run.samples[-1][1] // 1024, "postproc": run.samples[-1][2] // 1024},
        "player_cycles_missed": run.missed_cycles, "late_beats": run.late_beats,
        "oldest_beat_ms": round(run.oldest_beat_s * 1e3),
        "chunks_lost": run.log.read_bytes().count(b"chunk_lost"),
        "files_more": [open_files(os.getpid()) - files[0], open_files(run.process.pid) - files[1]],
        "blocks_more": len(sorted(p.name for p in ring.SHM.glob(f"*{run.prefix}*"))) - len(blocks),
        "postproc_children": children(run.process.pid),
        "samples": run.samples[:: max(1, len(run.samples) // 50)],
    }  # fmt: skip


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    if FILE.exists():
        kept: dict[str, Any] = json.loads(FILE.read_text())
        if kept["chunks"] >= CHUNKS:
            return kept
    new = measure(CHUNKS)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(new, indent=1) + "\n")
    print({k: v for k, v in new.items() if k != "samples"})
    return new


def test_memory_does_not_grow(result: dict[str, Any]) -> None:
    for name, column in (("arm and player", 1), ("postproc", 2)):
        assert slope_mb(result["samples"], column) <= SLOPE_MB, name


def test_every_chunk_has_one_answer_and_no_cycle_of_the_player_is_missed(result: dict[str, Any]) -> None:
    assert result["answered"] == result["chunks"] >= CHUNKS
    assert result["joined"] > 0.5 * result["chunks"]
    assert result["holds"] > 0.001 * result["chunks"]
    assert result["chunks_lost"] == result["player_cycles_missed"] == result["late_beats"] == 0


def test_no_block_file_or_process_is_left(result: dict[str, Any]) -> None:
    assert result["files_more"] == [0, 0]
    assert result["blocks_more"] == result["postproc_children"] == 0
    assert result["postproc_exit"] == result["children_left"] == 0
