"""Two gRPC listeners: the whole API, and Pause and Stop on an address of their own, never rate-limited."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from wardarm.api import control_service, state_service, task_service
from wardarm.api.loop import ControlLoop
from wardarm.config import Config
from wardarm.v1 import (
    bedside_pb2,
    bedside_pb2_grpc,
    control_pb2,
    control_pb2_grpc,
    record_pb2,
    record_pb2_grpc,
    state_pb2,
    state_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
)  # fmt: skip

CONCURRENT = 256  # RPCs under way on the main listener, watchers included; beyond: RESOURCE_EXHAUSTED
MESSAGE_BYTES = 64 * 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a second api must fail to start, not share the port
]
_CERTIFICATES = ("server.pem", "server.key", "ca.pem")


class CannotListen(RuntimeError):
    """The API cannot be served; the text names address or file and what to do."""


async def start(loop: ControlLoop) -> list[Any]:
    """Start both listeners. Returns the servers. Raises CannotListen."""
    config = loop.config
    credentials = _credentials(config)
    main = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CONCURRENT)
    control_pb2_grpc.add_ControlServiceServicer_to_server(control_service.ControlService(loop), main)
    task_pb2_grpc.add_TaskServiceServicer_to_server(task_service.TaskService(loop), main)
    state_pb2_grpc.add_StateServiceServicer_to_server(state_service.StateService(loop), main)
    record_pb2_grpc.add_RecordServiceServicer_to_server(state_service.RecordService(loop), main)
    bedside_pb2_grpc.add_PoseServiceServicer_to_server(state_service.PoseService(), main)
    bedside_pb2_grpc.add_VoiceServiceServicer_to_server(state_service.VoiceService(), main)
    services = [
        descriptor.full_name
        for module in (control_pb2, task_pb2, state_pb2, record_pb2, bedside_pb2)
        for descriptor in module.DESCRIPTOR.services_by_name.values()
    ]
    await _add_health(main, services)
    reflection.enable_server_reflection((*services, health.SERVICE_NAME, reflection.SERVICE_NAME), main)

    stop = grpc.aio.server(options=_OPTIONS)
    control_pb2_grpc.add_ControlServiceServicer_to_server(control_service.StopListener(loop), stop)
    await _add_health(stop, ["wardarm.v1.ControlService"])

    for server, key in ((main, "address"), (stop, "stop_address")):
        _listen(server, f"api.{key}", getattr(config.api, key), credentials)
    await main.start()
    await stop.start()
    return [main, stop]


async def _add_health(server: Any, services: list[str]) -> None:
    servicer = health.aio.HealthServicer()
    for name in ("", *services):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)


def _listen(server: Any, key: str, address: str, credentials: Any) -> None:
    try:
        port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    except RuntimeError as e:
        raise CannotListen(f"{key} = {address}: cannot listen there ({e}); is another wardarm running?") from e
    if port == 0 and not address.startswith("unix:"):
        raise CannotListen(f"{key} = {address}: cannot listen there; is another wardarm running?")


def _credentials(config: Config) -> Any:
    """Mutual TLS from the files in api.certs; None where the configuration allows none (loopback)."""
    if not config.api.tls:
        return None
    folder = Path(config.api.certs)
    try:
        certificate, key, authority = ((folder / name).read_bytes() for name in _CERTIFICATES)
    except OSError as e:
        raise CannotListen(
            f"api.tls = true, but api.certs = {folder}: {e.strerror}: {e.filename}; needed: {', '.join(_CERTIFICATES)} "
            "(server certificate, its key, the authority that signs client certificates)"
        ) from e
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
