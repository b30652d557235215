"""Tell systemd how the service is: READY, STATUS, WATCHDOG, STOPPING (the sd_notify datagram protocol).

Without NOTIFY_SOCKET in the environment every call does nothing, so the same code runs on a desk. A failed send is
not an error of ours: systemd's own deadline (TimeoutStartSec, WatchdogSec) then acts.
"""

from __future__ import annotations

import os
import socket


def notify(state: str) -> bool:
    """Send one or more `KEY=VALUE` lines. True if systemd's socket took them."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or address[0] not in "@/":
        return False
    if address[0] == "@":
        address = "\0" + address[1:]  # Linux abstract namespace
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.setblocking(False)  # a full queue must not hold up a control loop
        try:
            sock.sendto(state.encode(), address)
        except OSError:
            return False
    return True


def ready(status: str = "") -> bool:
    """Start-up is finished. `status` is what `systemctl status` shows."""
    return notify("READY=1" + (f"\nSTATUS={_line(status)}" if status else ""))


def status(text: str) -> bool:
    return notify(f"STATUS={_line(text)}")


def watchdog() -> bool:
    """A sign of life. Send it from the loop that did the checking, never from a timer of its own."""
    return notify("WATCHDOG=1")


def stopping(status: str = "") -> bool:
    return notify("STOPPING=1" + (f"\nSTATUS={_line(status)}" if status else ""))


def watchdog_period_s() -> float | None:
    """Half of WatchdogSec, as systemd advises; None if no watchdog is set for this process."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not usec.isdigit() or int(usec) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(usec) * 1e-6 / 2


def _line(text: str) -> str:
    return " ".join(text.split())
