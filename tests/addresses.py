"""Loopback addresses that nothing else uses: a port that is free there stays free until its server takes it.

On 127.0.0.1 every outgoing connection of the machine takes ports too.
"""

from __future__ import annotations

import secrets
import socket


def own_address() -> str:
    return f"127.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}.{2 + secrets.randbelow(250)}"


def free_ports(address: str, count: int) -> list[int]:
    """Different ones, free on `address`."""
    sockets = [socket.create_server((address, 0)) for _ in range(count)]
    try:
        return [int(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()
