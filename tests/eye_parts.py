"""What the tests of eye and of the inference server share: configurations on an address of their own, a running server."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from addresses import free_ports, own_address
from wardarm.config import Config, load
from wardarm.ops.triton_server import EmbeddedServer
from wardarm.shm.ring import SHM


def configuration(**sections: dict[str, Any]) -> Config:
    """The desk's configuration with a shm prefix and ports of its own; `sections` overrides keys."""
    host = own_address()
    grpc, http, metrics = free_ports(host, 3)
    data = load("desk").model_dump(by_alias=True)
    data["shm"]["prefix"] = f"t{uuid.uuid4().hex[:8]}_"
    data["triton"] |= {"url": f"{host}:{grpc}", "http_port": http, "metrics_port": metrics}
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
