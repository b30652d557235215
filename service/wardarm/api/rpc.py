"""The frame around every RPC: role check, refusals as rich errors, and a clear answer for what is not built."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from wardarm.api import roles
from wardarm.api.errors import Refused, abort

# Full names of what answers UNIMPLEMENTED, and what to use meanwhile. docs/api.md lists them.
NOT_BUILT = {
    "ControlService/TakeLease": "a lease runs out by itself once its client goes quiet; AcquireLease then",
    "TaskService/AnswerClarification": "create a new task with a sentence that names what was asked for",
    "RecordService/ListIncidents": "see the logs; ListAuditEvents is built",
    "PoseService/ListPoses": "the named poses are in the configuration's [poses]",
    "PoseService/TeachPose": "set the configuration's [poses]; CreateTask knows the movements PARK and HOME",
    "VoiceService/SubmitTranscript": "send the sentence with CreateTask",
    "VoiceService/ConfirmTranscript": "send the sentence with CreateTask",
}

Unary = Callable[[Any, Any, Any], Awaitable[Any]]
Stream = Callable[[Any, Any, Any], AsyncIterator[Any]]


def unary(method: Unary, refused_as: str = "") -> Unary:
    """A method of a servicer whose name is the RPC's. `refused_as`: see `audited`."""

    @functools.wraps(method)
    async def framed(self: Any, request: Any, context: Any) -> Any:
        try:
            roles.check(roles.caller(context), method.__name__)
            return await method(self, request, context)
        except Refused as refused:
            if refused_as:
                self.refused(refused_as, request, context, refused)
            await abort(context, refused)

    return framed


def audited(action: str) -> Callable[[Unary], Unary]:
    """As `unary`, for a method whose refusals are in the audit too, wrong roles included, as `action` that was not accepted.
    Its servicer has `refused(action, request, context, refusal)`; what was accepted it audits itself."""
    return lambda method: unary(method, action)


def stream(method: Stream) -> Stream:
    """A method of a servicer that yields messages and whose name is the RPC's."""

    @functools.wraps(method)
    async def framed(self: Any, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            roles.check(roles.caller(context), method.__name__)
            async for message in method(self, request, context):
                yield message
        except Refused as refused:
            await abort(context, refused)

    return framed


def not_built(service: str, name: str) -> Unary:
    """An RPC that answers UNIMPLEMENTED with a text."""

    async def refuse(_self: Any, _request: Any, context: Any) -> Any:
        text = f"{service}/{name} is not built in this version: {NOT_BUILT[f'{service}/{name}']}"
        await abort(context, Refused(grpc.StatusCode.UNIMPLEMENTED, "NOT_BUILT", text))

    refuse.__name__ = name
    return refuse
