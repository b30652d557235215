"""One task at a time, from acceptance to its end, with every event numbered and stored.

`follow()` is called each tick with a fresh picture; everything it decides is visible to watchers within that tick.
The record of a task is the API's own message (`wardarm.v1.Task`).
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from wardarm.api import texts
from wardarm.api.bell import Bell
from wardarm.api.board import Picture
from wardarm.api.errors import Refused
from wardarm.api.holds import HoldView
from wardarm.api.steps import ANSWER_S, StepReading, StepWriter
from wardarm.api.store import Store
from wardarm.api.texts import Text
from wardarm.policy.instruction import ParsedStep
from wardarm.shm.layouts import StepState
from wardarm.v1 import task_pb2

CHECKED = task_pb2.TASK_STATE_CHECKED
RUNNING = task_pb2.TASK_STATE_RUNNING
HELD = task_pb2.TASK_STATE_HELD
CANCELLING = task_pb2.TASK_STATE_CANCELLING
DONE = task_pb2.TASK_STATE_DONE
REFUSED = task_pb2.TASK_STATE_REFUSED
FAILED = task_pb2.TASK_STATE_FAILED
CANCELLED = task_pb2.TASK_STATE_CANCELLED
INTERRUPTED = task_pb2.TASK_STATE_INTERRUPTED
UNDER_WAY = (RUNNING, HELD, CANCELLING)
_ENDING = {StepState.DONE, StepState.REFUSED, StepState.FAILED}
_NOTHING = Text("", "")
_FRACTION_STEP = 0.1  # an event for each tenth of a step


def new_task(request_id: str, instruction: str, steps: Sequence[ParsedStep], client: str, patient_ref: str) -> Any:
    """A Task message in state CHECKED, not started."""
    text = texts.task("CHECKED", count=len(steps))
    task = task_pb2.Task(
        task_id=f"t-{uuid.uuid4().hex[:20]}", request_id=request_id, instruction=instruction, state=CHECKED,
        client=client, patient_ref=patient_ref, steps=[step_message(s) for s in steps], text_zh=text.zh, text_en=text.en,
    )  # fmt: skip
    task.created.GetCurrentTime()
    return task


def step_message(step: ParsedStep) -> Any:
    return task_pb2.Step(
        kind=int(step.kind), object=step.object, color=step.color, place=step.place, target=step.target,
        model_text=step.text, language=step.language,
    )  # fmt: skip


@dataclass
class Active:
    """The task under way. `lease_id`: who must stay connected for it. `body_sha256`: of the request that made it."""

    task: Any
    steps: Sequence[ParsedStep]
    speed_scale: float
    lease_id: str
    body_sha256: bytes
    moved: bool = False
    step_due: bool = False  # the next step waits for the holds to clear
    running_s: float = 0.0  # of the step under way, holds not counted
    reported: tuple[Any, ...] = ()
    last_tick_s: float = field(default_factory=time.monotonic)
    ending: Text = _NOTHING


class TaskBook:
    def __init__(self, store: Store, steps: StepWriter) -> None:
        self._store, self._steps = store, steps
        self.active: Active | None = None
        self.bell = Bell()

    def interrupt_left_over(self) -> int:
        """After a restart: what ran before is INTERRUPTED, never replayed. Blocks until stored; returns how many."""
        left = self._store.later(lambda: self._store.tasks_in(list(UNDER_WAY))).result()
        for task in left:
            self._event(task, INTERRUPTED, StepState.IDLE, 0.0, texts.task("INTERRUPTED"))
        self._store.later(lambda: None).result()
        return len(left)

    async def start(
        self, task: Any, body_sha256: bytes, steps: Sequence[ParsedStep], scale: float, lease_id: str
    ) -> None:
        """Store the task, then hand out its first step. The slot is taken before the first await."""
        task.state = RUNNING
        active = Active(task, steps, scale, lease_id, body_sha256)
        self.active = active
        try:
            message = task_pb2.Task()
            message.CopyFrom(task)
            await self._store.done(lambda: self._store.insert_task(message, body_sha256))
        except sqlite3.Error as e:
            self.active = None
            text = f"the task could not be stored ({e}), so nothing was started; is the disk of api.state_dir full?"
            raise Refused(grpc.StatusCode.UNAVAILABLE, "NOT_STORED", text) from e
        if task.state == RUNNING:  # a stop or a cancel may have come while the disk was written
            self._event(task, RUNNING, StepState.IDLE, 0.0, texts.task("ACCEPTED", count=len(steps)))
            self._begin_step(active)

    def cancel(self, text: Text) -> None:
        """End the task under way; `text` goes into its last words. Nothing happens without one."""
        active = self.active
        if active is None or active.task.state == CANCELLING:
            return
        self._steps.clear()
        active.ending = text
        self._event(active.task, CANCELLING, StepState.IDLE, 0.0, texts.task("CANCELLING"))

    def set_speed(self, speed_scale: float) -> None:
        """The task under way goes on so fast: the step that eye carries out, and every later one."""
        active = self.active
        if active is None or active.task.state == CANCELLING:
            return
        active.speed_scale = speed_scale
        self._steps.set_speed(speed_scale)
        task = active.task
        if task.sequence:  # not while its storing is under way
            step = task.steps[task.step_index]
            text = texts.task("SPEED", percent=round(100 * speed_scale))
            self._event(task, task.state, StepState(step.state), step.fraction, text)

    def follow(self, picture: Picture, holds: Sequence[HoldView]) -> None:
        """Move the task on by one tick."""
        active = self.active
        if active is None or active.task.sequence == 0:  # not started: its storing is under way
            return
        now_s = time.monotonic()
        if active.task.state == RUNNING:
            active.running_s += now_s - active.last_tick_s
        active.last_tick_s = now_s
        if active.task.state == CANCELLING:
            if picture.arm is None or (int(picture.arm["at_rest"]) and not int(picture.arm["playing_id"])):
                self._end(active, CANCELLED, StepState.IDLE, texts.task("CANCELLED", detail=""), active.ending)
            return
        reading = self._steps.reading(picture)
        if reading is not None and reading.state in _ENDING:
            self._step_ended(active, reading)
            return
        if holds:
            self._held(active, holds)
            return
        if active.task.state == HELD:
            self._event(active.task, RUNNING, StepState.LOOKING, 0.0, texts.task("RESUMED"))
            active.reported = ()
        if active.step_due:
            self._begin_step(active)
            return
        self._under_way(active, reading)

    def _begin_step(self, active: Active) -> None:
        index = active.task.step_index
        active.step_due, active.running_s, active.reported = False, 0.0, ()
        self._steps.publish(active.steps[index], active.task.task_id, active.speed_scale)
        active.task.steps[index].state = task_pb2.STEP_STATE_LOOKING
        self._event(active.task, RUNNING, StepState.LOOKING, 0.0, texts.task("STARTED", step=index + 1))

    def _under_way(self, active: Active, reading: StepReading | None) -> None:
        if reading is None or reading.state is StepState.IDLE:
            if active.running_s > ANSWER_S:
                self._end(active, FAILED, StepState.FAILED, texts.task("NO_ANSWER", seconds=f"{ANSWER_S:g}"))
            return
        if active.running_s > self._steps.timeout_s:
            self._end(active, FAILED, StepState.FAILED, texts.task("TOO_LONG", seconds=f"{self._steps.timeout_s:g}"))
            return
        if reading.state is StepState.HELD:  # eye has not noticed yet that the holds are gone
            return
        active.moved |= reading.state is not StepState.LOOKING
        shown = (reading.state, int(reading.fraction / _FRACTION_STEP), reading.grasp_attempts, reading.reason)
        if shown != active.reported:
            active.reported = shown
            text = texts.step(reading.state)
            if reading.reason:
                text = Text(f"{text.zh}（{reading.reason}）", f"{text.en} ({reading.reason})")
            self._show(active, reading)
            self._event(active.task, RUNNING, reading.state, reading.fraction, text)

    def _held(self, active: Active, holds: Sequence[HoldView]) -> None:
        shown = ("held", *((h.reason, h.process) for h in holds))  # a detail changes with every frame
        if active.task.state == HELD and shown == active.reported:
            return
        active.reported = shown
        words = [texts.hold(h.reason) for h in holds]
        text = Text(" ".join(dict.fromkeys(w.zh for w in words)), " ".join(dict.fromkeys(w.en for w in words)))
        step = active.task.steps[active.task.step_index]
        if step.state != task_pb2.STEP_STATE_UNSPECIFIED:
            step.state = task_pb2.STEP_STATE_HELD
        self._event(active.task, HELD, StepState.HELD, step.fraction, text)

    def _step_ended(self, active: Active, reading: StepReading) -> None:
        task = active.task
        self._show(active, reading)
        if reading.state is StepState.DONE:
            active.moved = True
            task.steps[task.step_index].fraction = 1.0
            if task.step_index + 1 == len(task.steps):
                self._end(active, DONE, StepState.DONE, texts.task("DONE"))
                return
            self._event(task, RUNNING, StepState.DONE, 1.0, texts.step(StepState.DONE))
            self._steps.clear()
            task.step_index += 1
            active.step_due, active.reported = True, ()
            return
        state = FAILED if active.moved or reading.state is StepState.FAILED else REFUSED
        self._end(active, state, reading.state, texts.step(reading.state, reading.reason))

    def _show(self, active: Active, reading: StepReading) -> None:
        step = active.task.steps[active.task.step_index]
        step.state, step.fraction = int(reading.state), reading.fraction
        step.grasp_attempts, step.reason = reading.grasp_attempts, reading.reason

    def _end(self, active: Active, state: int, step_state: StepState, text: Text, more: Text | None = None) -> None:
        self._steps.clear()  # a restarted eye must find nothing to do
        self.active = None
        if more is not None:
            text = Text(text.zh + more.zh, text.en + more.en)
        if step_state is not StepState.IDLE:
            active.task.steps[active.task.step_index].state = int(step_state)
        active.task.ended.GetCurrentTime()
        task = active.task
        self._event(task, state, step_state, task.steps[task.step_index].fraction, text)
        self._store.later(
            lambda: self._store.add_audit(task.client, "task_ended", task.task_id, text.en, state == DONE)
        )

    def _event(self, task: Any, state: int, step_state: StepState, fraction: float, text: Text) -> None:
        task.state, task.text_zh, task.text_en = state, text.zh, text.en
        task.sequence += 1
        event = task_pb2.TaskEvent(
            sequence=task.sequence, state=state, step_index=task.step_index, step_state=int(step_state),
            fraction=fraction, text_zh=text.zh, text_en=text.en,
        )  # fmt: skip
        event.time.GetCurrentTime()
        copy = task_pb2.Task()
        copy.CopyFrom(task)
        self._store.later(lambda: self._store.save_task(copy, event))
        self.bell.ring()
