"""sd_notify over a real datagram socket, path and abstract, and without one."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from wardarm import notify


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@wardarm-{secrets.token_hex(6)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name if name[0] == "/" else "\0" + name[1:])
        sock.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield sock


def test_each_message_is_one_datagram(systemd: socket.socket) -> None:
    assert notify.ready("three cameras\nup")
    assert systemd.recv(4096) == b"READY=1\nSTATUS=three cameras up"
    assert notify.ready()
    assert systemd.recv(4096) == b"READY=1"
    assert notify.status("等待相机")
    assert systemd.recv(4096).decode() == "STATUS=等待相机"
    assert notify.watchdog()
    assert systemd.recv(4096) == b"WATCHDOG=1"
    assert notify.stopping()
    assert systemd.recv(4096) == b"STOPPING=1"


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify.ready()
    assert not notify.watchdog()


def test_a_socket_that_is_gone_or_full_does_not_stop_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify.watchdog()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "full"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "full"))
        sent = [notify.watchdog() for _ in range(5000)]
    assert sent[0]
    assert not sent[-1], "the queue filled up, and the call came back"


def test_the_watchdog_period_is_half_of_systemds_and_only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    assert notify.watchdog_period_s() is None
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert notify.watchdog_period_s() == 1.0
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert notify.watchdog_period_s() is None
