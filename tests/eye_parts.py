"""What the tests of eye and of the inference server share: configurations on free ports, a running server."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wardarm.config import Config, load
from wardarm.ops.triton_server import EmbeddedServer
from wardarm.shm.ring import SHM


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()


def configuration(**sections: dict[str, Any]) -> Config:
    """The desk's configuration with a shm prefix and ports of its own; `sections` overrides keys."""
    grpc, http, metrics = free_ports(3)
    data = load("desk").model_dump(by_alias=True)
    data["shm"]["prefix"] = f"t{uuid.uuid4().hex[:8]}_"
    data["triton"] |= {"url": f"127.0.0.1:{grpc}", "http_port": http, "metrics_port": metrics}
    for name, values in sections.items():
        data[name] |= values
    return Config.model_validate(data)


def remove_blocks(config: Config) -> None:
    for file in SHM.glob(f"{config.shm.prefix}*"):
        file.unlink(missing_ok=True)


@contextmanager
def running_server(config: Config) -> Iterator[EmbeddedServer]:
    with open(os.devnull, "wb") as quiet:
        server = EmbeddedServer(config, output=quiet.fileno())
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()
