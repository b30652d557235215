"""StateService and RecordService: looking needs no lease."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Any

from wardarm.api import learnt, rpc
from wardarm.api.errors import invalid
from wardarm.api.loop import ControlLoop
from wardarm.api.view import state_message
from wardarm.config import Config
from wardarm.ops import installation
from wardarm.v1 import bedside_pb2_grpc, record_pb2, record_pb2_grpc, state_pb2, state_pb2_grpc

SHORTEST_NS, PERIOD_NS, LONGEST_NS = 50_000_000, 1_000_000_000, 60_000_000_000
_MODEL_FILES = ("model.plan", "policy.onnx", "model.onnx")  # TensorRT's first: it is what a Thor runs


class StateService(state_pb2_grpc.StateServiceServicer):  # type: ignore[misc]
    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop
        self._started_ns = time.time_ns()
        # An engine file may have gigabytes: hashed beside the loop, awaited by the first who asks.
        self._model = asyncio.get_running_loop().run_in_executor(None, _model, loop.config)

    @rpc.unary
    async def GetState(self, request: Any, context: Any) -> Any:
        return state_pb2.GetStateResponse(state=state_message(self._loop))

    @rpc.stream
    async def WatchState(self, request: Any, context: Any) -> AsyncIterator[Any]:
        period_ns = request.period.ToNanoseconds() if request.HasField("period") else PERIOD_NS
        if not SHORTEST_NS <= period_ns <= LONGEST_NS:
            raise invalid("period", f"{period_ns * 1e-9:g} s", "0.05 to 60 s")
        while True:
            rung = self._loop.bell.next()
            yield state_pb2.WatchStateResponse(state=state_message(self._loop))
            await rung.wait(period_ns * 1e-9)

    @rpc.unary
    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        config = self._loop.config
        info = state_pb2.GetServerInfoResponse(
            version=_version(), simulated=config.simulated, model=await asyncio.shield(self._model), guard_enabled=config.guard.enabled,
            limits=state_pb2.Limits(
                profile=config.profile, tcp_m_s=config.limits.tcp_m_s, tcp_m_s2=config.limits.tcp_m_s2,
                joint_deg_s=config.limits.joint_deg_s,
            ),
            objects=self._loop.instructions.objects, colors=self._loop.instructions.colors,
            unimplemented=[f"wardarm.v1.{name}" for name in rpc.NOT_BUILT],
        )  # fmt: skip
        info.model.learnt.extend(sorted(learnt.kinds(self._loop.picture)))
        info.lease_time_to_live.FromNanoseconds(int(config.api.lease_ttl_s * 1e9))
        info.started.FromNanoseconds(self._started_ns)
        return info


class RecordService(record_pb2_grpc.RecordServiceServicer):  # type: ignore[misc]
    ListIncidents = rpc.not_built("RecordService", "ListIncidents")

    def __init__(self, loop: ControlLoop) -> None:
        self._loop = loop

    @rpc.unary
    async def ListAuditEvents(self, request: Any, context: Any) -> Any:
        limit = request.limit or 50
        if limit > 500:
            raise invalid("limit", limit, "1 to 500")
        store = self._loop.store
        events = await store.done(lambda: store.audit(limit, request.before_sequence))
        return record_pb2.ListAuditEventsResponse(events=events)


class PoseService(bedside_pb2_grpc.PoseServiceServicer):  # type: ignore[misc]
    ListPoses = rpc.not_built("PoseService", "ListPoses")
    TeachPose = rpc.not_built("PoseService", "TeachPose")


class VoiceService(bedside_pb2_grpc.VoiceServiceServicer):  # type: ignore[misc]
    SubmitTranscript = rpc.not_built("VoiceService", "SubmitTranscript")
    ConfirmTranscript = rpc.not_built("VoiceService", "ConfirmTranscript")


def _version() -> str:
    try:
        return metadata.version("wardarm")
    except metadata.PackageNotFoundError:
        return "0 (not installed)"


def _model(config: Config) -> Any:
    """Name, file and SHA-256 of the installed model; only the name if no file is there."""
    try:
        repository = installation.within(config.triton.repository)
    except installation.InstallationNotFound:
        return state_pb2.Model(name=config.triton.model)
    for name in _MODEL_FILES:
        file = repository / config.triton.model / "1" / name
        if file.is_file():
            with file.open("rb") as f:
                digest = hashlib.file_digest(f, "sha256").hexdigest()
            return state_pb2.Model(name=config.triton.model, sha256=digest, file=str(file.relative_to(repository)))
    return state_pb2.Model(name=config.triton.model)
