"""ControlService: leases, and what stops the arm or lets it go on."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from wardarm.api import roles, rpc
from wardarm.api.errors import Refused, checked_text
from wardarm.api.leases import Lease
from wardarm.api.loop import ControlLoop
from wardarm.api.view import attended_message, hold_messages
from wardarm.shm.layouts import CommandKind
from wardarm.v1 import control_pb2, control_pb2_grpc

STORED_S = 0.5  # a Stop that was answered outlives the process, unless the disk takes longer than this


class _PauseAndStop(control_pb2_grpc.ControlServiceServicer):  # type: ignore[misc]
    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop

    def _actor(self, request: Any, context: Any) -> str:
        return roles.signed(checked_text("actor", request.actor, 0, 64), roles.caller(context))

    # A text that is too long must not keep anybody from stopping the arm: these two cut instead of refusing.
    @rpc.unary
    async def Pause(self, request: Any, context: Any) -> Any:
        self._loop.pause(roles.signed(_cut(request.actor, 64), roles.caller(context)), _cut(request.reason, 60))
        return control_pb2.PauseResponse(holds=hold_messages(self._loop, self._loop.holds()))

    @rpc.unary
    async def Stop(self, request: Any, context: Any) -> Any:
        stored = self._loop.stop(roles.signed(_cut(request.actor, 64), roles.caller(context)), _cut(request.reason, 60))
        with contextlib.suppress(Exception):  # the arm stops all the same; the store's trouble is in the log
            await asyncio.wait_for(asyncio.wrap_future(stored), STORED_S)
        return control_pb2.StopResponse(holds=hold_messages(self._loop, self._loop.holds()))


class StopListener(_PauseAndStop):
    """The listener of its own: Pause and Stop, everything else answers UNIMPLEMENTED."""


class ControlService(_PauseAndStop):
    TakeLease = rpc.not_built("ControlService", "TakeLease")

    @rpc.unary
    async def AcquireLease(self, request: Any, context: Any) -> Any:
        client = roles.signed(checked_text("client", request.client, 1, 64), roles.caller(context))
        return control_pb2.AcquireLeaseResponse(lease=self._lease(self._loop.acquire(client)))

    @rpc.unary
    async def RetainLease(self, request: Any, context: Any) -> Any:
        return control_pb2.RetainLeaseResponse(lease=self._lease(self._loop.leases.retain(request.lease_id)))

    @rpc.unary
    async def ReturnLease(self, request: Any, context: Any) -> Any:
        self._loop.give_back(request.lease_id)
        return control_pb2.ReturnLeaseResponse()

    @rpc.unary
    async def Resume(self, request: Any, context: Any) -> Any:
        actor = self._actor(request, context)
        task_id, text = await self._loop.resume(request.lease_id, list(request.tokens), actor)
        return control_pb2.ResumeResponse(task_id=task_id, text_zh=text.zh, text_en=text.en)

    @rpc.unary
    async def ClearStop(self, request: Any, context: Any) -> Any:
        self._loop.clear_stop(request.lease_id, self._actor(request, context))
        return control_pb2.ClearStopResponse(holds=hold_messages(self._loop, self._loop.holds()))

    @rpc.unary
    async def Recover(self, request: Any, context: Any) -> Any:
        checked_text("actor", request.actor, 1, 64)
        reason = checked_text("reason", request.reason, 1, 200)
        await self._loop.ask_arm(CommandKind.RECOVER, request.lease_id, self._actor(request, context), reason)
        return control_pb2.RecoverResponse(holds=hold_messages(self._loop, self._loop.holds()))

    @rpc.unary
    async def PowerOn(self, request: Any, context: Any) -> Any:
        checked_text("actor", request.actor, 1, 64)
        await self._loop.ask_arm(CommandKind.POWER_ON, request.lease_id, self._actor(request, context), "")
        return control_pb2.PowerOnResponse(holds=hold_messages(self._loop, self._loop.holds()))

    @rpc.audited("attended_started")
    async def StartAttended(self, request: Any, context: Any) -> Any:
        self._loop.some_lease(request.lease_id)
        actor, reason = checked_text("actor", request.actor, 1, 64), checked_text("reason", request.reason, 1, 64)
        now = self._loop.attendance.start(actor, self._actor(request, context), reason, _seconds(request))
        return control_pb2.StartAttendedResponse(attended=attended_message(now))

    @rpc.audited("attended_extended")
    async def ExtendAttended(self, request: Any, context: Any) -> Any:
        self._loop.some_lease(request.lease_id)
        checked_text("actor", request.actor, 1, 64)
        now = self._loop.attendance.extend(self._actor(request, context), _seconds(request))
        return control_pb2.ExtendAttendedResponse(attended=attended_message(now))

    @rpc.audited("attended_ended")
    async def EndAttended(self, request: Any, context: Any) -> Any:
        self._loop.attendance.end(self._actor(request, context))
        return control_pb2.EndAttendedResponse()

    def refused(self, action: str, request: Any, context: Any, refusal: Refused) -> None:
        """A request that was turned down goes into the audit: who asked, for how long, what for, and why not."""
        who = roles.signed(_cut(request.actor, 64), roles.caller(context))
        asked = {f.name: getattr(request, f.name) for f in request.DESCRIPTOR.fields}
        minutes = f"for {_seconds(request) / 60:.3g} min" if "duration" in asked else ""
        wish = ": ".join(filter(None, (minutes, _cut(asked.get("reason", ""), 64))))
        detail = "; ".join(filter(None, (f"{refusal.reason}: {refusal.text}", wish and f"asked {wish}")))
        self._loop.audit(who or "unnamed", action, detail=detail, accepted=False)

    def _lease(self, lease: Lease) -> Any:
        message = control_pb2.Lease(lease_id=lease.lease_id, client=lease.client, epoch=lease.epoch)
        message.time_to_live.FromNanoseconds(int(self._loop.leases.ttl_s * 1e9))
        return message


def _cut(text: str, size: int) -> str:
    return "".join(c if c.isprintable() else " " for c in text[:size])


def _seconds(request: Any) -> float:
    return float(request.duration.ToNanoseconds()) * 1e-9
