"""A small synchronous client of the wardarm API.

    from wardarm.client import Client

    with Client("127.0.0.1:50051", "127.0.0.1:50052", name="ward display") as ward:
        print(ward.state().arm.state)
        task = ward.say("把桌角的蓝色水杯拿给我")     # blocks until the task has ended
        print(task.text_zh)

Every refusal of the service raises `Refused`, with the reason, the text for people and what to do about it. Messages
are those of `wardarm.v1`; their units stand in the protos. A client may be used from several threads.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from wardarm.v1 import (
    control_pb2,
    control_pb2_grpc,
    record_pb2,
    record_pb2_grpc,
    state_pb2,
    state_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)

ADDRESS, STOP_ADDRESS = "127.0.0.1:50051", "127.0.0.1:50052"
BEAT_S = 0.3  # a lease is retained at least this often, and four times per time to live
FINAL = frozenset(
    {
        task_pb2.TASK_STATE_DONE,
        task_pb2.TASK_STATE_REFUSED,
        task_pb2.TASK_STATE_FAILED,
        task_pb2.TASK_STATE_CANCELLED,
        task_pb2.TASK_STATE_INTERRUPTED,
    }
)
_CERTIFICATES = ("client.pem", "client.key", "ca.pem")
T = TypeVar("T")


class Refused(Exception):
    """The service said no, or was not reached.

    `reason`: as in docs/api.md (LEASE_HELD, HOLD_ACTIVE, NO_OBJECT, ...), UNREACHABLE, or the gRPC code's name;
    `retry_after_s`: None unless the service named a time.
    """

    def __init__(self, reason: str, text: str, metadata: dict[str, str], retry_after_s: float | None) -> None:
        super().__init__(text)
        self.reason, self.text, self.metadata, self.retry_after_s = reason, text, metadata, retry_after_s


class Lease:
    """The right to move the arm while a thread keeps it alive. `lost` is set once the service no longer knows it."""

    def __init__(self, client: Client, lease: Any) -> None:
        self._client = client
        self.lease_id: str = lease.lease_id
        self.period_s = min(BEAT_S, lease.time_to_live.ToNanoseconds() * 1e-9 / 4)
        self.lost = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._ended.wait(self.period_s):
            try:
                self._client.control.RetainLease(
                    control_pb2.RetainLeaseRequest(lease_id=self.lease_id), timeout=4 * self.period_s
                )
            except grpc.RpcError as e:
                if refusal(e).reason == "LEASE_STALE":
                    self.lost.set()
                    return

    def close(self) -> None:
        """Stop beating and give the lease back, if it is still ours and the service can be reached."""
        self._ended.set()
        self._thread.join()
        if not self.lost.is_set():
            try:
                self._client.control.ReturnLease(control_pb2.ReturnLeaseRequest(lease_id=self.lease_id), timeout=2)
            except grpc.RpcError:
                self.lost.set()  # it runs out by itself


class Client:
    """`certs`: folder with client.pem, client.key and ca.pem for mutual TLS; None for a service on loopback without."""

    def __init__(
        self,
        address: str = ADDRESS,
        stop_address: str = STOP_ADDRESS,
        certs: str | Path | None = None,
        name: str = "wardarm client",
        timeout_s: float = 5.0,
    ) -> None:
        self.name, self.timeout_s = name, timeout_s
        self._channels = [_channel(a, certs) for a in (address, stop_address)]
        main, stop = self._channels
        self.control = control_pb2_grpc.ControlServiceStub(main)
        self.tasks = task_pb2_grpc.TaskServiceStub(main)
        self.states = state_pb2_grpc.StateServiceStub(main)
        self.records = record_pb2_grpc.RecordServiceStub(main)
        self.stopper = control_pb2_grpc.ControlServiceStub(stop)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for channel in self._channels:
            channel.close()

    def _call(self, rpc: Callable[..., T], request: Any, timeout_s: float | None = None) -> T:
        try:
            return rpc(request, timeout=timeout_s or self.timeout_s)
        except grpc.RpcError as e:
            raise refusal(e) from e

    # Looking: no lease.

    def state(self) -> Any:
        """`wardarm.v1.State`, as of now."""
        return self._call(self.states.GetState, state_pb2.GetStateRequest()).state

    def watch(self, period_s: float = 1.0) -> Iterator[Any]:
        """A State at once, at every change and at least every `period_s` (0.05 to 60 s). Ends when closed."""
        request = state_pb2.WatchStateRequest()
        request.period.FromNanoseconds(int(period_s * 1e9))
        for answer in self._stream(self.states.WatchState, request):
            yield answer.state

    def info(self) -> Any:
        """`GetServerInfoResponse`: version, model, simulated or real, limits."""
        return self._call(self.states.GetServerInfo, state_pb2.GetServerInfoRequest())

    def check(self, instruction: str) -> Any:
        """`CheckInstructionResponse`: what the sentence would do, or why it is refused. Nothing moves."""
        return self._call(self.tasks.CheckInstruction, task_pb2.CheckInstructionRequest(instruction=instruction))

    def task(self, task_id: str) -> Any:
        return self._call(self.tasks.GetTask, task_pb2.GetTaskRequest(task_id=task_id)).task

    def watch_task(self, task_id: str, after_sequence: int = 0) -> Iterator[Any]:
        """Every `TaskEvent` after a sequence number, then new ones; ends with the task."""
        request = task_pb2.WatchTaskRequest(task_id=task_id, after_sequence=after_sequence)
        for answer in self._stream(self.tasks.WatchTask, request):
            yield answer.event

    def audit(self, limit: int = 50) -> Sequence[Any]:
        """The newest `AuditEvent`s."""
        request = record_pb2.ListAuditEventsRequest(limit=limit)
        return list(self._call(self.records.ListAuditEvents, request).events)

    def _stream(self, rpc: Callable[..., Any], request: Any) -> Iterator[Any]:
        call = rpc(request)
        try:
            yield from call
        except grpc.RpcError as e:
            raise refusal(e) from e
        finally:
            call.cancel()

    # Stopping: no lease, on the listener of its own.

    def pause(self, reason: str = "") -> Sequence[Any]:
        """Bring the arm to rest along its path and hold it. Returns the `Hold`s as of now."""
        request = control_pb2.PauseRequest(actor=self.name, reason=reason)
        return list(self._call(self.stopper.Pause, request).holds)

    def stop(self, reason: str = "") -> Sequence[Any]:
        """Pause, end the task, and demand `clear_stop` before `resume`. Returns the `Hold`s as of now."""
        return list(self._call(self.stopper.Stop, control_pb2.StopRequest(actor=self.name, reason=reason)).holds)

    # Going on, and moving.

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """The right to move the arm, kept alive by a thread for the length of the block. Raises Refused LEASE_HELD."""
        request = control_pb2.AcquireLeaseRequest(client=self.name)
        lease = Lease(self, self._call(self.control.AcquireLease, request).lease)
        try:
            yield lease
        finally:
            lease.close()

    def resume(self, tokens: Sequence[str], lease: Lease | None = None) -> Any:
        """End the holds that a person has looked at: the tokens of `state().holds`. Without a lease of one's own this
        works only while another client's lease lives; its task then goes on. Returns `ResumeResponse`."""
        request = control_pb2.ResumeRequest(lease_id=_id(lease), tokens=tokens, actor=self.name)
        return self._call(self.control.Resume, request)

    def clear_stop(self, lease: Lease | None = None) -> Sequence[Any]:
        """Acknowledge a Stop. Returns the holds that `resume` has to end."""
        request = control_pb2.ClearStopRequest(lease_id=_id(lease), actor=self.name)
        return list(self._call(self.control.ClearStop, request).holds)

    # Working beside the arm.

    def start_attended(self, reason: str, minutes: float = 10, lease: Lease | None = None, actor: str = "") -> Any:
        """Somebody works beside the arm (`actor`; default: this client's name): for so long it goes gently instead of being
        held when they are in a keep-out zone. Returns `Attended`. Without a lease of one's own only while another's lives."""
        request = control_pb2.StartAttendedRequest(lease_id=_id(lease), actor=actor or self.name, reason=reason)
        request.duration.FromNanoseconds(int(minutes * 60e9))
        return self._call(self.control.StartAttended, request).attended

    def extend_attended(self, minutes: float, lease: Lease | None = None, actor: str = "") -> Any:
        """It shall last for `minutes` from now on. Returns `Attended`."""
        request = control_pb2.ExtendAttendedRequest(lease_id=_id(lease), actor=actor or self.name)
        request.duration.FromNanoseconds(int(minutes * 60e9))
        return self._call(self.control.ExtendAttended, request).attended

    def end_attended(self, actor: str = "") -> None:
        """End it now; needs no lease."""
        self._call(self.control.EndAttended, control_pb2.EndAttendedRequest(actor=actor or self.name))

    def create_task(self, lease: Lease, **fields: Any) -> Any:
        """Start a task (fields of `CreateTaskRequest`; a request_id is made up if there is none). Returns `Task`."""
        fields.setdefault("request_id", f"r-{uuid.uuid4().hex}")
        request = task_pb2.CreateTaskRequest(lease_id=lease.lease_id, **fields)
        return self._call(self.tasks.CreateTask, request).task

    def cancel(self, lease: Lease, task_id: str) -> Any:
        request = task_pb2.CancelTaskRequest(lease_id=lease.lease_id, task_id=task_id)
        return self._call(self.tasks.CancelTask, request).task

    def set_speed(self, task_id: str, speed_scale: float, lease: Lease | None = None) -> float:
        """How fast a task under way goes on, 0.1 to 1. Without a lease: the one that lives, whoever has it."""
        request = task_pb2.SetSpeedRequest(lease_id=_id(lease), task_id=task_id, speed_scale=speed_scale)
        return float(self._call(self.tasks.SetSpeed, request).speed_scale)

    def say(self, instruction: str, on_event: Callable[[Any], None] | None = None, **fields: Any) -> Any:
        """Say a sentence and wait for the end of its task. Returns the `Task` as it ended.

        `on_event` gets every TaskEvent. Ctrl-C (KeyboardInterrupt) cancels the task. Raises Refused.
        """
        return self._run(on_event, instruction=instruction, **fields)

    def park(self, on_event: Callable[[Any], None] | None = None, **fields: Any) -> Any:
        """Move to the parking pose and wait for the end. Returns the `Task` as it ended. Raises Refused."""
        return self._run(on_event, movement=task_pb2.MOVEMENT_PARK, **fields)

    def _run(self, on_event: Callable[[Any], None] | None, **fields: Any) -> Any:
        fields.setdefault("request_id", f"r-{uuid.uuid4().hex}")
        with self.lease() as lease:
            try:
                task = self.create_task(lease, **fields)
            except KeyboardInterrupt:  # it may have begun, though its answer was not waited for
                active = self.state().task
                if active.request_id == fields["request_id"]:
                    self.cancel(lease, active.task_id)
                raise
            return task if fields.get("dry_run") else self.follow(task.task_id, lease, on_event)

    def follow(self, task_id: str, lease: Lease | None, on_event: Callable[[Any], None] | None = None) -> Any:
        """Wait for the end of a task, also across a restart of the service. Ctrl-C cancels it if a lease is given."""
        sequence = 0
        while True:
            try:
                for event in self.watch_task(task_id, sequence):
                    sequence = event.sequence
                    if on_event is not None:
                        on_event(event)
                return self.task(task_id)
            except KeyboardInterrupt:
                if lease is not None and not lease.lost.is_set():
                    self.cancel(lease, task_id)
                raise
            except Refused as e:
                if e.reason != "UNREACHABLE":
                    raise
                self._wait_until_back(e)

    def _wait_until_back(self, lost: Refused, patience_s: float = 30.0) -> None:
        end = time.monotonic() + patience_s
        while True:
            try:
                self.info()
                return
            except Refused:
                if time.monotonic() > end:
                    raise lost from None
                time.sleep(0.2)


def _id(lease: Lease | None) -> str:
    return lease.lease_id if lease is not None else ""


def _channel(address: str, certs: str | Path | None) -> grpc.Channel:
    options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
    if certs is None:
        return grpc.insecure_channel(address, options)
    certificate, key, authority = ((Path(certs) / name).read_bytes() for name in _CERTIFICATES)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(authority, key, certificate), options)


def refusal(error: grpc.RpcError) -> Refused:
    """What a gRPC error says, for people and programs."""
    code, text = error.code(), error.details() or ""
    reason, metadata, retry_after_s = code.name, {}, None
    status = rpc_status.from_call(cast(grpc.Call, error))
    for detail in status.details if status is not None else ():
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(retry):
            retry_after_s = retry.retry_delay.ToNanoseconds() * 1e-9
    if code is grpc.StatusCode.UNAVAILABLE and status is None:
        reason, text = "UNREACHABLE", f"the service was not reached ({text}); is 'wardarm run' up?"
    return Refused(reason, text, metadata, retry_after_s)
