"""The loop of the api process: reads the blocks, watches the lease, moves the task on and renews the own word.

In: arm status, gate status, progress, words. Out: step, command, word. Every `gate.beat_ms`; a late loop makes its
word stale and so takes the permit away. The word is renewed here, in the loop that serves clients, never by a thread
of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Future
from pathlib import Path

import grpc

from wardarm.api import holds, texts, upright
from wardarm.api.attendance import Attendance
from wardarm.api.bell import Bell
from wardarm.api.board import Board, Picture
from wardarm.api.commands import CommandWriter
from wardarm.api.errors import Refused, precondition
from wardarm.api.holds import HoldView
from wardarm.api.leases import Lease, Leases
from wardarm.api.steps import StepWriter
from wardarm.api.store import Store
from wardarm.api.tasks import CANCELLING, TaskBook
from wardarm.api.texts import Text
from wardarm.api.word import OwnWord
from wardarm.config import Config
from wardarm.ops import installation
from wardarm.policy.instruction import Instructions
from wardarm.shm.layouts import ArmState, CommandKind, Holding, HoldReason, ProcessId, StepKind

WORD_SETTLE_S = 0.03  # the arm's 125 Hz loop reads our word before it reads the command
LATCH_S = 0.3  # the arm records a hold within this
ANSWER_S = 1.0  # the arm answers a resume within this
POWER_S = 30.0  # powering on and releasing the brakes
SAYS_WHAT_BECOMES_OF_IT = (StepKind.SET_DOWN_HERE, StepKind.RELEASE)
STOPPED = "stopped"  # name of the stored fact
_EYE_REASON = {HoldReason.INFERENCE_STALE: "INFERENCE_DOWN"}


class ControlLoop:
    """Everything the services act on. `run()` until cancelled."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.log = logging.getLogger("wardarm")
        self.instructions = Instructions(tokenizer_file(config))  # takes a second; no word before that
        self.store = Store(Path(config.api.state_dir))
        self.word = OwnWord(config.shm.prefix)
        self.board = Board(config)
        self.leases = Leases(config.api.lease_ttl_s)
        self.commands = CommandWriter(config.shm.prefix, self.board)
        self.tasks = TaskBook(self.store, StepWriter(config))
        self.stopped = self.store.later(lambda: self.store.fact(STOPPED)).result() != ""
        self.bell = Bell()
        self.sequence = 1
        self._leant_rad = 0.0  # what was held, when a pause began that sets it upright
        self.picture = self.board.read()
        self._seen: object = None
        self._deciding = asyncio.Lock()
        interrupted = self.tasks.interrupt_left_over()
        self.audit("wardarm", "service_started", detail=f"{interrupted} task(s) interrupted")
        self.attendance = Attendance(config, lambda who, action, detail, ok: self.audit(who, action, "", detail, ok))

    def serving(self) -> None:
        """Clients can reach us: the word becomes true, unless a Stop from before the restart still stands."""
        if self.stopped:
            self.word.hold(HoldReason.STOP, "stopped before the restart; ClearStop first")
        self.word.drop(HoldReason.STARTING)

    def holds(self) -> list[HoldView]:
        """As of now, not of the last tick."""
        self.picture = self.board.read()
        return holds.current(self.picture, self.word, self.stopped)

    def audit(self, actor: str, action: str, task_id: str = "", detail: str = "", accepted: bool = True) -> None:
        self.log.info(action, extra={"actor": actor, "task_id": task_id, "detail": detail, "accepted": accepted})
        self.store.later(lambda: self.store.add_audit(actor, action, task_id, detail, accepted))

    async def run(self) -> None:
        period_s = 1e-3 * self.config.gate.beat_ms
        due_s = time.monotonic()
        while True:
            late_s = time.monotonic() - due_s
            self.tick(own_delay_s=late_s if late_s > period_s else 0.0)
            due_s = time.monotonic() + period_s
            await asyncio.sleep(period_s)

    def tick(self, own_delay_s: float = 0.0) -> None:
        lost = self.leases.expire(own_delay_s)
        if lost is not None:
            self.audit(lost.client, "lease_lost", detail=f"no RetainLease for {self.leases.ttl_s:g} s")
            self._left_task(lost, "went quiet")
        waited_s = self.word.waits_upright_s
        if waited_s is not None and upright.over(self.picture, waited_s, self._leant_rad):
            self.word.set_upright()
        self.word.beat()
        self.attendance.look()
        held = self.holds()
        self.tasks.follow(self.picture, held)
        seen = self._matters(self.picture, held)
        if seen != self._seen:
            self._seen = seen
            self.sequence += 1
            self.bell.ring()

    def _matters(self, picture: Picture, held: list[HoldView]) -> object:
        """What people see: a change of it wakes the watchers."""
        arm, active = picture.arm, self.tasks.active
        return (
            holds.arm_state(picture),
            None if arm is None else (int(arm["at_rest"]), int(arm["holding"])),
            tuple((h.token, h.clearable) for h in held),
            None if picture.gate is None else int(picture.gate["pwm_on"]),
            tuple((w.process, w.ok, w.reason) for w in picture.words.values()),
            None if active is None else (active.task.task_id, active.task.sequence),
            None if self.leases.current is None else self.leases.current.epoch,
            self.stopped,
            self.attendance.now,
        )

    def _left_task(self, lease: Lease, how: str) -> None:
        active = self.tasks.active
        ending = active is not None and active.task.state == CANCELLING  # it comes to rest and nothing follows
        if active is not None and active.lease_id == lease.lease_id and not ending:
            self.word.hold(HoldReason.LEASE_LOST, f"'{lease.client}' {how} while its task ran")

    def acquire(self, client: str) -> Lease:
        lease = self.leases.acquire(client)
        self.audit(client, "lease_acquired", detail=f"epoch {lease.epoch}")
        return lease

    def give_back(self, lease_id: str) -> None:
        lease = self.leases.give_back(lease_id)
        self.audit(lease.client, "lease_returned", detail=f"epoch {lease.epoch}")
        self._left_task(lease, "returned its lease")

    def pause(self, actor: str, why: str) -> None:
        self.picture = self.board.read()
        once = self.word.ok  # whoever presses again does not want to wait
        detail = _detail("paused", actor, why)
        if once and upright.wanted(self.picture):
            self._leant_rad = upright.tilt_rad(self.picture.arm)
            self.word.pause_upright(detail)
        else:
            self.word.hold(HoldReason.CLIENT, detail)
        self.audit(actor, "pause", self._task_id(), why)

    def set_speed(self, speed_scale: float, actor: str) -> None:
        """Of the task under way, from the next chunk on."""
        self.audit(actor, "speed", self._task_id(), f"{speed_scale:.2f}")
        self.tasks.set_speed(speed_scale)

    def stop(self, actor: str, why: str) -> Future[None]:
        """The word is taken and the arm told at once. The future: it is stored, and outlives this process."""
        self.word.hold(HoldReason.STOP, _detail("stopped", actor, why))
        self.commands.send(CommandKind.STOP, actor)
        self.stopped = True
        stored = self.store.later(lambda: self.store.set_fact(STOPPED, actor or "a client"))
        self.audit(actor, "stop", self._task_id(), why)
        who = actor or "a client"
        self.tasks.cancel(Text(f"（{who} 按了停止）", f" ({who} pressed Stop)"))
        return stored

    def clear_stop(self, lease_id: str, actor: str) -> None:
        lease = self.some_lease(lease_id)
        if not self.stopped:
            raise precondition("NOT_STOPPED", "nobody has pressed Stop; there is nothing to clear")
        self.stopped = False
        self.store.later(lambda: self.store.set_fact(STOPPED, ""))
        self.audit(actor or lease.client, "clear_stop")

    async def resume(self, lease_id: str, tokens: list[str], actor: str) -> tuple[str, Text]:
        """End every hold. Returns the id of the task that goes on ('' if none) and what happens next. Raises Refused."""
        lease = self.some_lease(lease_id)
        who = actor or lease.client
        async with self._deciding:
            try:
                await self._resume(tokens, who)
            except Refused as refused:
                self.audit(who, "resume", self._task_id(), f"{refused.reason}: {refused.text}", accepted=False)
                raise
        active = self.tasks.active
        if active is not None:
            active.lease_id = lease.lease_id
        self.audit(who, "resume", self._task_id(), f"{len(tokens)} hold(s)")
        return self._task_id(), texts.task("RESUME_NEXT" if active else "RESUME_IDLE")

    def some_lease(self, lease_id: str) -> Lease:
        """The caller's lease; with an empty id the one that lives, whoever has it: a person may decide at another screen
        while the client of the task watches over it."""
        active, current = self.tasks.active, self.leases.current
        if lease_id or current is None:
            return self.leases.check(lease_id)
        if active is not None and active.lease_id != current.lease_id:
            raise precondition(
                "LEASE_STALE",
                f"lease_id is empty, and the client of task {active.task.task_id} is gone: '{current.client}', which has "
                "the lease now, must decide, or return it",
            )
        return current

    async def _resume(self, tokens: list[str], actor: str) -> None:
        held = self.holds()
        if not held:
            raise precondition("NOT_HELD", "nothing is held; there is nothing to resume")
        self._check_tokens(held, tokens)
        blocked = [h for h in held if not h.clearable]
        if blocked:
            first = blocked[0]
            raise precondition(
                "HOLD_ACTIVE", f"{first.reason.name} ({first.process.name.lower()}: {first.detail}): {texts.hold(first.reason).en}",
                {"reason": first.reason.name, "process": first.process.name},
            )  # fmt: skip
        state = holds.arm_state(self.picture)
        if state in holds.NOT_NORMAL:
            raise not_normal(state)
        if not int(self.picture.arm["at_rest"]):
            raise precondition("HOLD_ACTIVE", "the arm is not at rest yet; look, and resume again in a second")
        pressed = self.word.hold_seq
        await self._latched()
        known = {h.token for h in held}
        withdrawn = self.word.withdraw()
        try:
            await asyncio.sleep(WORD_SETTLE_S)
            if self.word.hold_seq != pressed or not self.word.ok:
                raise precondition("HOLD_TOKENS", "a new pause came while this resume was under way; see GetState")
            latched = [h for h in self.holds() if h.latched]
            if new := [h.reason.name for h in latched if h.token not in known]:
                raise precondition("HOLD_TOKENS", f"a new hold came while this resume was under way: {', '.join(new)}")
            if latched:
                await self.commands.answer(
                    self.commands.send(CommandKind.RESUME, actor, [h.seq for h in latched]), ANSWER_S
                )
        except Refused:
            self.word.restore(withdrawn)  # what people asked for stays asked for
            raise

    async def _latched(self) -> None:
        """Give the arm time to record our own word's hold, so that the resume can carry its number."""
        end = time.monotonic() + LATCH_S
        while any(not h.latched for h in self.holds()) and time.monotonic() < end:
            await asyncio.sleep(0.005)

    def _check_tokens(self, held: list[HoldView], tokens: list[str]) -> None:
        missing = [h for h in held if h.token not in tokens]
        if missing:
            names = ", ".join(f"{h.reason.name} (token {h.token})" for h in missing)
            raise precondition(
                "HOLD_TOKENS", f"tokens does not name every hold, missing: {names}; read GetState, look at the bedside, then resume again",
                {"missing": ",".join(h.token for h in missing)},
            )  # fmt: skip
        unknown = sorted(set(tokens) - {h.token for h in held})
        if unknown:
            raise precondition(
                "HOLD_TOKENS", f"tokens names holds that are not there: {', '.join(unknown)[:120]}; read GetState and resume again",
                {"unknown": ",".join(unknown)[:120]},
            )  # fmt: skip

    async def ask_arm(self, kind: CommandKind, lease_id: str, actor: str, why: str) -> None:
        """RECOVER or POWER_ON: a person decided. Raises Refused."""
        lease = self.leases.check(lease_id)
        who, action = actor or lease.client, kind.name.lower()
        async with self._deciding:
            try:
                await self.commands.answer(self.commands.send(kind, who), POWER_S)
            except Refused as refused:
                self.audit(who, action, detail=f"{why}; {refused.text}", accepted=False)
                raise
        self.audit(who, action, detail=why)

    def check_can_start(self, needs_sight: bool, begins_with: StepKind = StepKind.FETCH) -> None:
        """Raises TASK_ACTIVE, HOLD_ACTIVE, CONTROLLER_NOT_NORMAL, HOLDING_UNKNOWN or UNAVAILABLE if a task cannot start now.

        `needs_sight`: camera and model must be there too (a plain movement does without). `begins_with`: its first step.
        """
        if self.tasks.active is not None:
            task = self.tasks.active.task
            raise precondition(
                "TASK_ACTIVE", f"task {task.task_id} of '{task.client}' is under way; wait for its end or cancel it",
                {"task_id": task.task_id},
            )  # fmt: skip
        held = self.holds()
        if held:
            first = held[0]
            raise precondition(
                "HOLD_ACTIVE", f"the arm is held ({', '.join(h.reason.name for h in held)}): {texts.hold(first.reason).en}",
                {"reason": first.reason.name, "process": first.process.name},
            )  # fmt: skip
        state = holds.arm_state(self.picture)
        if state is not ArmState.READY:
            raise not_normal(state)
        if int(self.picture.arm["holding"]) == Holding.UNKNOWN and begins_with not in SAYS_WHAT_BECOMES_OF_IT:
            said = texts.task("HOLDING_UNKNOWN")
            raise precondition("HOLDING_UNKNOWN", f"{said.zh} {said.en}", {"text_zh": said.zh, "text_en": said.en})
        eye = self.picture.words.get(ProcessId.EYE)
        if eye is None or not eye.ok:
            silent = eye is None or eye.reason in (HoldReason.WATCHDOG, HoldReason.STARTING)
            if silent or needs_sight:
                reason = "EYE_NOT_READY" if eye is None or silent else _EYE_REASON.get(eye.reason, eye.reason.name)
                detail = eye.detail if eye else "it is not configured"
                text = f"camera and model cannot work on this: {detail}; see 'wardarm status', try again once it is ok"
                raise Refused(grpc.StatusCode.UNAVAILABLE, reason, text, retry_after_s=1.0)

    def _task_id(self) -> str:
        return "" if self.tasks.active is None else str(self.tasks.active.task.task_id)

    def close(self) -> None:
        """Say not ok, hand eye nothing to do, and finish what is queued for the disk."""
        self.word.hold(HoldReason.WATCHDOG, "the API was ended")
        self.store.close()


def not_normal(state: ArmState) -> Refused:
    return precondition(
        "CONTROLLER_NOT_NORMAL", f"the arm is {state.name}, needed: READY; see the robot's pendant and 'wardarm status'",
        {"state": state.name},
    )  # fmt: skip


def tokenizer_file(config: Config) -> Path | None:
    """The model's tokenizer in the repository, None if it is not there."""
    try:
        file = installation.within(config.triton.repository) / config.triton.model / "1" / "tokenizer.model"
    except installation.InstallationNotFound:
        return None
    return file if file.is_file() else None


def _detail(what: str, actor: str, why: str) -> str:
    return f"{what} by {actor or 'a client'}" + (f": {why}" if why else "")
