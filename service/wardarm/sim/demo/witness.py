"""Watches a run from outside: what every chunk and trajectory looked like, how long each stage took, what the arm said.

Reads the shared-memory blocks at 100 Hz; never writes. Everything is stamped with CLOCK_MONOTONIC.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, PlanStatus, RefusalReason, StepState

POLL_S = 0.01


@dataclass(frozen=True)
class SeenTrajectory:
    """One published trajectory: `points` (64, 6) mm and degrees as smoothed, `raw` as the model said."""

    id: int
    seen_ns: int
    source: int
    status: PlanStatus
    points: np.ndarray[Any, Any]
    raw: np.ndarray[Any, Any]
    reason: str


@dataclass
class Seen:
    """What was collected; lists of milliseconds per stage, in order."""

    stages_ms: dict[str, list[float]] = field(
        default_factory=lambda: {
            k: [] for k in ("camera", "queue", "model", "validate", "plan", "load", "permit_to_motion")
        }
    )
    trajectories: list[SeenTrajectory] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)  # (ns, arm state) at each change
    steps: list[tuple[int, int, str]] = field(default_factory=list)  # (ns, step seq, step state) at each change
    refusals: dict[str, int] = field(default_factory=dict)
    holds: list[str] = field(default_factory=list)
    edge_to_accept: list[int] = field(default_factory=list)  # controller cycles
    accept_to_motion: list[int] = field(default_factory=list)
    frame_to_first_motion_ms: float = 0.0
    chunks: int = 0
    accepted: int = 0
    model_version: int = 0


class Witness:
    """A thread over readers of one system's blocks. `stop()` returns what it saw."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.seen = Seen()
        self._readers: dict[BlockKind, ring.Reader] = {}
        self._stop = threading.Event()
        self._last: dict[str, int] = {}
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def stop(self) -> Seen:
        self._stop.set()
        self._thread.join()
        return self.seen

    def _latest(self, kind: BlockKind) -> ring.Slot | None:
        reader = self._readers.get(kind)
        if reader is None or reader.replaced():
            with contextlib.suppress(ring.BlockError):
                self._readers[kind] = reader = ring.Reader(kind, self.prefix)
        return reader.latest() if reader else None

    def _new(self, name: str, value: int) -> bool:
        if self._last.get(name) == value:
            return False
        self._last[name] = value
        return True

    def _run(self) -> None:
        while not self._stop.wait(POLL_S):
            self._trajectory()
            self._progress()
            self._arm()

    def _trajectory(self) -> None:
        slot = self._latest(BlockKind.TRAJECTORY)
        if slot is None or not self._new("trajectory", int(slot.data["id"])):
            return
        d, stages = slot.data, self.seen.stages_ms
        status = PlanStatus(int(d["status"]))
        self.seen.trajectories.append(
            SeenTrajectory(
                int(d["id"]), time.monotonic_ns(), int(d["source"]), status, _matrix(d["points"]), _matrix(d["raw_points"]),
                ring.text(d["reason"]),
            )
        )  # fmt: skip
        stages["plan"].append((int(d["plan_end_ns"]) - int(d["plan_start_ns"])) * 1e-6)
        if status is not PlanStatus.OK:
            key = f"plan: {status.name.lower()}"
            self.seen.refusals[key] = self.seen.refusals.get(key, 0) + 1

    def _progress(self) -> None:
        slot = self._latest(BlockKind.PROGRESS)
        if slot is None:
            return
        d, seen = slot.data, self.seen
        state = StepState(int(d["state"])).name
        if self._new("step", int(d["step_seq"]) * 100 + int(d["state"])):
            seen.steps.append((time.monotonic_ns(), int(d["step_seq"]), state))
        if int(d["chunks"]) and self._new("chunk", int(d["step_seq"]) * 100_000 + int(d["chunks"])):
            for stage, name in (
                ("camera", "camera_ms"),
                ("queue", "queue_ms"),
                ("model", "infer_ms"),
                ("validate", "validate_ms"),
            ):
                seen.stages_ms[stage].append(float(d[name]))
            seen.chunks += 1
        if int(d["first_motion_ns"]) and int(d["first_capture_ns"]) and not seen.frame_to_first_motion_ms:
            seen.frame_to_first_motion_ms = (int(d["first_motion_ns"]) - int(d["first_capture_ns"])) * 1e-6
        seen.model_version = int(d["model_version"])

    def _arm(self) -> None:
        slot = self._latest(BlockKind.ARM_STATUS)
        if slot is None:
            return
        d, seen = slot.data, self.seen
        if self._new("state", int(d["state"])):
            seen.states.append((time.monotonic_ns(), ArmState(int(d["state"])).name))
        if int(d["loaded_id"]) and self._new("loaded", int(d["loaded_id"])):
            seen.accepted += 1
            seen.stages_ms["load"].append(float(d["load_ms"]))
        if int(d["refused_id"]) and self._new("refused", int(d["refused_id"])):
            key = f"arm: {RefusalReason(int(d['refusal'])).name.lower()}"
            seen.refusals[key] = seen.refusals.get(key, 0) + 1
        if int(d["first_motion_cycle"]) and self._new("motion", int(d["first_motion_cycle"])):
            edge, accept, first = (
                int(d[k]) for k in ("permit_edge_cycle", "permit_accept_cycle", "first_motion_cycle")
            )
            if 0 < edge <= accept <= first:
                seen.edge_to_accept.append(accept - edge)
                seen.accept_to_motion.append(first - accept)
                seen.stages_ms["permit_to_motion"].append((first - edge) * 2.0)
        for hold in d["holds"][: int(d["hold_count"])]:
            if self._new(f"hold {int(hold['seq'])}", 1):
                seen.holds.append(ring.text(hold["detail"]))


def _matrix(points: Any) -> np.ndarray[Any, Any]:
    """Points of a Trajectory as (64, 6), mm and degrees."""
    return np.stack([points[name] for name in points.dtype.names], 1)


def percentiles(values: list[float]) -> dict[str, float | None]:
    """p50 and p99, None when nothing was measured (never 0)."""
    if not values:
        return {"p50": None, "p99": None}
    return {"p50": round(float(np.percentile(values, 50)), 2), "p99": round(float(np.percentile(values, 99)), 2)}
