"""Hands a chunk to postproc and follows it until the player took it or somebody refused it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wardarm.eye.motion import Join, Motion
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, PlanStatus, RefusalReason, Source

ANSWER_S = 1.0  # postproc answers within milliseconds, arm within its check and load
LEAST_SCALE = 0.05  # of a chunk's own timing: the planner refuses less

_PLAN_WORDS = {
    PlanStatus.NOT_FINITE: "the movement had numbers that are not numbers",
    PlanStatus.OUT_OF_RANGE: "the movement left the model's own range",
    PlanStatus.JUMP: "the movement jumped",
    PlanStatus.OUTSIDE_BOX: "the movement would leave the workspace",
    PlanStatus.UNREACHABLE: "the arm cannot reach there",
    PlanStatus.SINGULAR: "the arm would stretch out too far",
    PlanStatus.JOINT_LIMIT: "a joint would turn too far",
    PlanStatus.COLLISION: "the arm would touch itself or the table",
    PlanStatus.NO_LAW: "no motion within the limits was found",
    PlanStatus.BAD_JOIN: "the movement did not fit the one under way",
    PlanStatus.STALE: "the movement came too late",
    PlanStatus.START_MISMATCH: "the movement did not start where the arm is",
}
_ARM_WORDS = {
    RefusalReason.PLAN: "the planner refused the movement",
    RefusalReason.ENVELOPE: "the independent check found a value beyond its limit",
    RefusalReason.LATE: "the movement came too late",
    RefusalReason.UNKNOWN_JOIN: "the movement did not fit the one under way",
    RefusalReason.NOT_READY: "the arm was not ready",
    RefusalReason.CHECKSUM: "the movement was damaged on its way to the controller",
    RefusalReason.DISCONTINUOUS: "the movement did not continue the one under way",
    RefusalReason.EPOCH: "the movement was made before a hold",
    RefusalReason.START: "the movement did not start where the arm is",
}
# the place is wrong, not the moment: asking again from the same place says the same
LASTING = frozenset(
    {PlanStatus.OUTSIDE_BOX, PlanStatus.UNREACHABLE, PlanStatus.SINGULAR, PlanStatus.JOINT_LIMIT, PlanStatus.COLLISION}
)


@dataclass(frozen=True)
class Stamps:
    """What a chunk was made from; zeros for a scripted one. CLOCK_MONOTONIC ns."""

    frame_number: int = 0
    capture_ns: int = 0
    infer_start_ns: int = 0
    infer_end_ns: int = 0


@dataclass(frozen=True)
class Sent:
    """A chunk that is under way to the player."""

    raw_id: int
    join: Join
    source: Source
    stamps: Stamps
    asked_ns: int
    sent_ns: int


@dataclass(frozen=True)
class Accepted:
    sent: Sent
    trajectory_id: int
    took_s: float  # from the question to the player's acceptance


@dataclass(frozen=True)
class Refused:
    sent: Sent
    reason: str  # plain words
    late: bool
    lasting: bool


class ChunkWriter:
    """The one writer of `groot_raw`. One chunk is followed at a time."""

    def __init__(self, prefix: str) -> None:
        self._writer = ring.Writer(BlockKind.RAW_CHUNK, prefix)
        before = ring.Reader(BlockKind.RAW_CHUNK, prefix).latest()
        self._id = int(before.data["id"]) if before else 0

    def send(
        self,
        traj: NDArray[np.float16],
        grip: NDArray[np.float16],
        join: Join,
        *,
        source: Source,
        step_seq: int,
        profile: int,
        payload_kg: float,
        asked_ns: int,
        stamps: Stamps | None = None,
        valid: float = 1.0,
        done: float = 0.0,
        speed_scale: float = 1.0,
    ) -> Sent:
        """`traj`: FP16 (64, 6) in [-1, 1], `grip`: FP16 (64,). `asked_ns`: when its making began.

        `speed_scale`: share of its own timing that the planner keeps, 0.05..1; less is taken as 0.05.
        """
        stamps = stamps or Stamps()
        self._id += 1
        raw = self._writer.blank()
        raw["id"], raw["step_seq"], raw["plan_epoch"] = self._id, step_seq, join.epoch
        raw["frame_number"], raw["capture_ns"] = stamps.frame_number, stamps.capture_ns
        raw["infer_start_ns"], raw["infer_end_ns"] = stamps.infer_start_ns, stamps.infer_end_ns
        raw["join_trajectory_id"], raw["join_path_s"] = join.trajectory_id, join.path_s
        raw["source"], raw["profile"], raw["payload_kg"] = source, profile, payload_kg
        raw["valid"], raw["done"], raw["speed_scale"] = valid, done, min(max(speed_scale, LEAST_SCALE), 1.0)
        raw["traj"], raw["grip"] = traj.reshape(-1).view(np.uint16), grip.view(np.uint16)
        self._writer.publish(raw)
        return Sent(self._id, join, source, stamps, asked_ns, time.monotonic_ns())


def outcome(sent: Sent, motion: Motion) -> Accepted | Refused | None:
    """What became of a chunk by now; None while nobody has said anything."""
    waited_s = (time.monotonic_ns() - sent.sent_ns) * 1e-9
    answer = motion.answer_to(sent.raw_id)
    if answer is None:
        if waited_s > ANSWER_S:
            return Refused(sent, f"the planner did not answer within {ANSWER_S:.0f} s", late=True, lasting=False)
        return None
    status, trajectory_id = int(answer.data["status"]), int(answer.data["id"])
    if status != PlanStatus.OK:
        known = PlanStatus(status) if status in set(PlanStatus) else PlanStatus.NO_LAW
        detail = ring.text(answer.data["reason"])
        plain = _PLAN_WORDS[known] + (f" ({detail})" if detail else "")
        return Refused(sent, plain, late=known is PlanStatus.STALE, lasting=known in LASTING)
    if not motion.fresh:
        return None if waited_s < ANSWER_S else Refused(sent, "the arm says nothing", late=False, lasting=False)
    arm = motion.status
    if int(arm["loaded_id"]) == trajectory_id:
        took_s = (int(arm["stamp_ns"]) - sent.asked_ns) * 1e-9
        parts_s = (answer.publish_ns - sent.asked_ns) * 1e-9 + (float(arm["check_ms"]) + float(arm["load_ms"])) * 1e-3
        return Accepted(sent, trajectory_id, max(took_s, parts_s))
    if int(arm["refused_id"]) == trajectory_id:
        code = int(arm["refusal"])
        plain = _ARM_WORDS[RefusalReason(code)] if code in _ARM_WORDS else f"the arm refused the movement (code {code})"
        return Refused(sent, plain, late=code == RefusalReason.LATE, lasting=False)
    if arm["plan_epoch"] != sent.join.epoch:
        return Refused(sent, "a hold came first", late=False, lasting=False)
    if waited_s > ANSWER_S:
        return Refused(sent, f"the arm did not answer within {ANSWER_S:.0f} s", late=True, lasting=False)
    return None
