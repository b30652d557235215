"""TaskService: sentences in, one task at a time out."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc

from wardarm.api import learnt, roles, rpc, texts
from wardarm.api.errors import Refused, checked_text, invalid, precondition
from wardarm.api.loop import ControlLoop
from wardarm.api.tasks import CANCELLING, UNDER_WAY, Active, new_task, step_message
from wardarm.policy.instruction import Pace, ParsedStep, Reading
from wardarm.policy.refusal import Refusal
from wardarm.shm.layouts import StepKind
from wardarm.v1 import task_pb2, task_pb2_grpc

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_MOVEMENTS = {
    task_pb2.MOVEMENT_PARK: StepKind.PARK,
    task_pb2.MOVEMENT_HOME: StepKind.HOME,
    task_pb2.MOVEMENT_SET_DOWN_HERE: StepKind.SET_DOWN_HERE,
    task_pb2.MOVEMENT_RELEASE: StepKind.RELEASE,
}
BLIND = frozenset(_MOVEMENTS.values())  # what needs neither picture nor model, said or pressed
_CHARACTERS = 2000  # far beyond 128 tokens; keeps a hostile text from costing time
_POLL_S = 30.0
SLOW_SCALE = 0.5  # "slowly", 慢一点; said under way: of what is in force
LEAST_SAID = 0.2  # said again and again it gets no slower


class TaskService(task_pb2_grpc.TaskServiceServicer):  # type: ignore[misc]
    AnswerClarification = rpc.not_built("TaskService", "AnswerClarification")

    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop

    @rpc.unary
    async def CheckInstruction(self, request: Any, context: Any) -> Any:
        reading = self._read(request.instruction)
        answer = task_pb2.CheckInstructionResponse(tokens=reading.tokens, read_back=reading.read_back)
        answer.steps.extend(step_message(s) for s in reading.steps)
        if reading.refusal is not None:
            answer.refusal.CopyFrom(_refusal_message(reading.refusal))
        return answer

    @rpc.unary
    async def CreateTask(self, request: Any, context: Any) -> Any:
        loop = self._loop
        who = roles.caller(context)
        if not _REQUEST_ID.fullmatch(request.request_id):
            raise invalid(
                "request_id",
                request.request_id[:80],
                "1 to 64 characters of A-Z a-z 0-9 . _ : -",
                "choose one for each intent",
            )
        body = _body_sha256(request)
        if not request.dry_run:
            known = await loop.store.done(lambda: loop.store.by_request(request.request_id))
            active = loop.tasks.active  # the same request, still on its way to the disk
            if known is None and active is not None and active.task.request_id == request.request_id:
                known = active.task, active.body_sha256
            if known is not None:
                return self._repeated(request.request_id, body, *known)
        client = loop.leases.check(request.lease_id).client
        scale = _speed_scale(request.speed_scale)
        checked_text("patient_ref", request.patient_ref, 0, 64)
        try:
            _check_not_after(request)
            steps, slow = self._steps(request, roles.signed(client, who))
            first = steps[0].kind
            sight = request.WhichOneof("goal") == "instruction" and first not in BLIND
            loop.check_can_start(needs_sight=sight, begins_with=first)
        except Refused as refused:
            detail = f"{refused.reason}: {request.instruction[:80]}"
            loop.audit(client, "task_created", detail=detail, accepted=False)
            raise
        scale = min(scale, SLOW_SCALE) if slow else scale
        task = new_task(request.request_id, request.instruction, steps, client, request.patient_ref)
        if not request.dry_run:
            loop.audit(client, "task_created", task.task_id, request.instruction[:80] or steps[0].kind.name)
            await loop.tasks.start(task, body, steps, scale, request.lease_id)
        return task_pb2.CreateTaskResponse(task=task)

    def _repeated(self, request_id: str, body: bytes, stored: Any, stored_body: bytes) -> Any:
        if stored_body != body:
            raise Refused(
                grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED",
                f"request_id = '{request_id}': already used for task {stored.task_id} with another body; choose a new one for a new intent",
                {"task_id": stored.task_id},
            )  # fmt: skip
        active = self._loop.tasks.active
        task = active.task if active is not None and active.task.task_id == stored.task_id else stored
        return task_pb2.CreateTaskResponse(task=task, repeated_request=True)

    def _steps(self, request: Any, actor: str) -> tuple[tuple[ParsedStep, ...], bool]:
        """The steps, and whether the speaker asked for less speed."""
        goal = request.WhichOneof("goal")
        if goal == "movement":
            kind = _MOVEMENTS.get(request.movement)
            if kind is None:
                raise invalid("movement", request.movement, "one of PARK, HOME, SET_DOWN_HERE, RELEASE")
            return (ParsedStep(kind=kind),), False
        if goal != "instruction":
            raise invalid("goal", "", "instruction or movement must be set")
        reading = self._read(request.instruction)
        if reading.refusal is not None:
            if reading.refusal.reason == "STOP_REQUESTED" and not request.dry_run:
                self._loop.pause(actor, "the instruction said stop")
            if reading.pace is not None and not request.dry_run:
                self._keep_pace(reading.pace, actor)
            raise _refused(reading.refusal)
        return reading.steps, reading.slow

    def _keep_pace(self, pace: Pace, actor: str) -> None:
        """Of the task under way, if there is one."""
        active = self._loop.tasks.active
        if active is None:
            return
        now = active.speed_scale
        slower, faster = max(min(now, LEAST_SAID), now * SLOW_SCALE), min(1.0, now / SLOW_SCALE)
        scale = {Pace.SLOWER: slower, Pace.FASTER: faster, Pace.NORMAL: 1.0}[pace]
        self._loop.set_speed(scale, actor)

    def _read(self, instruction: str) -> Reading:
        if len(instruction) > _CHARACTERS:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT, "INSTRUCTION_TOO_LONG",
                f"instruction has {len(instruction)} characters, limit {_CHARACTERS}; say it in one or two short sentences",
            )  # fmt: skip
        loop = self._loop
        return learnt.judge(loop.instructions.read(instruction), learnt.kinds(loop.picture), loop.instructions)

    @rpc.unary
    async def GetTask(self, request: Any, context: Any) -> Any:
        return task_pb2.GetTaskResponse(task=await self._task(request.task_id))

    async def _task(self, task_id: str) -> Any:
        active = self._loop.tasks.active
        if active is not None and active.task.task_id == task_id:
            return active.task
        task = await self._loop.store.done(lambda: self._loop.store.task(task_id))
        if task is None:
            raise Refused(
                grpc.StatusCode.NOT_FOUND, "TASK_UNKNOWN", f"task_id = '{task_id[:60]}': no such task; see ListTasks"
            )
        return task

    @rpc.unary
    async def ListTasks(self, request: Any, context: Any) -> Any:
        limit = request.limit or 20
        if limit > 200:
            raise invalid("limit", limit, "1 to 200")
        if request.before_task_id:
            await self._task(request.before_task_id)
        tasks = await self._loop.store.done(lambda: self._loop.store.tasks(limit, request.before_task_id))
        return task_pb2.ListTasksResponse(tasks=tasks)

    @rpc.stream
    async def WatchTask(self, request: Any, context: Any) -> AsyncIterator[Any]:
        loop, sent = self._loop, request.after_sequence
        while True:
            rung = loop.tasks.bell.next()
            task = await self._task(request.task_id)
            ended = task.state not in UNDER_WAY  # read before the events: nothing is added after the end
            if task.sequence > sent:
                for event in await loop.store.done(functools.partial(loop.store.events, request.task_id, sent)):
                    sent = event.sequence
                    yield task_pb2.WatchTaskResponse(event=event)
            if ended:
                return
            await rung.wait(_POLL_S)

    @rpc.unary
    async def CancelTask(self, request: Any, context: Any) -> Any:
        loop = self._loop
        lease = loop.leases.check(request.lease_id)
        task = await self._task(request.task_id)
        active = self._under_way(task, "nothing to cancel")
        loop.audit(lease.client, "task_cancelled", task.task_id)
        loop.tasks.cancel(texts.Text("", ""))
        return task_pb2.CancelTaskResponse(task=active.task)

    @rpc.unary
    async def SetSpeed(self, request: Any, context: Any) -> Any:
        loop = self._loop
        lease = loop.some_lease(request.lease_id)
        if not 0.1 <= request.speed_scale <= 1:
            raise invalid("speed_scale", request.speed_scale, "0.1 to 1")
        active = self._under_way(await self._task(request.task_id), "nothing is left to be slower or faster")
        if active.task.state == CANCELLING:
            raise precondition("TASK_ENDED", f"task {request.task_id} is being cancelled; it comes to rest")
        loop.set_speed(request.speed_scale, roles.signed(lease.client, roles.caller(context)))
        return task_pb2.SetSpeedResponse(speed_scale=request.speed_scale)

    def _under_way(self, task: Any, what: str) -> Active:
        """The task that is under way, if that is this one. Raises TASK_ENDED; `what`: there is then."""
        active = self._loop.tasks.active
        if active is None or active.task.task_id != task.task_id:
            name = task_pb2.TaskState.Name(task.state).removeprefix("TASK_STATE_")
            raise precondition("TASK_ENDED", f"task {task.task_id} is {name} already; {what}")
        return active


def _body_sha256(request: Any) -> bytes:
    """Of everything that says what to do; not of who asks (a retry after a restart has a new lease) nor of dry_run."""
    body = task_pb2.CreateTaskRequest()
    body.CopyFrom(request)
    for field in ("lease_id", "dry_run"):
        body.ClearField(field)
    return hashlib.sha256(body.SerializeToString(deterministic=True)).digest()


def _speed_scale(value: float) -> float:
    if value == 0:
        return 1.0
    if not 0.1 <= value <= 1:
        raise invalid("speed_scale", value, "0.1 to 1, or 0 for 1")
    return value


def _check_not_after(request: Any) -> None:
    if not request.HasField("not_after"):
        return
    late_s = (time.time_ns() - request.not_after.ToNanoseconds()) * 1e-9
    if late_s > 0:
        raise precondition(
            "REQUEST_EXPIRED", f"not_after was {late_s:.3f} s ago: nothing was started; ask again if it is still wanted"
        )


def _refusal_message(refusal: Refusal) -> Any:
    return task_pb2.Refusal(
        reason=refusal.reason, text_zh=refusal.zh, text_en=refusal.en, say_instead=list(refusal.say_instead)
    )


def _refused(refusal: Refusal) -> Refused:
    text = f"{refusal.zh} {refusal.en}"
    metadata = {"text_zh": refusal.zh, "text_en": refusal.en, "say_instead": "|".join(refusal.say_instead)}
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, refusal.reason, text, metadata)
