"""Mutual TLS on both listeners, roles from the certificates."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from api_bed import HOST, Bed, Server, bedside, wait_until
from wardarm.client import Client, Refused
from wardarm.v1 import control_pb2, control_pb2_grpc

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the test's certificates")


def _openssl(*arguments: str, cwd: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


def _certificate(folder: Path, name: str, subject: str, names: str) -> None:
    _openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.csr",
        "-subj",
        f"/CN={subject}",
        cwd=folder,
    )
    (folder / "san").write_text(f"subjectAltName={names}\n")
    _openssl(
        "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
        "-out", f"{name}.pem", "-extfile", "san", cwd=folder,
    )  # fmt: skip


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a server's certificate, and one folder a client role."""
    folder = tmp_path_factory.mktemp("certs")
    _openssl(
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=ward",
        cwd=folder,
    )
    _certificate(folder, "server", "bed 3", f"IP:{HOST}")
    for role in ("viewer", "nurse", "local"):
        names = f"URI:wardarm://role/{role},DNS:{role}.ward"
        _certificate(folder, role, f"{role} 7", names)
        client = folder / f"as_{role}"
        client.mkdir()
        for source, target in ((f"{role}.pem", "client.pem"), (f"{role}.key", "client.key"), ("ca.pem", "ca.pem")):
            shutil.copy(folder / source, client / target)
    return folder


def test_roles_come_from_the_certificate(tmp_path: Path, certs: Path) -> None:
    with bedside(tmp_path, api_extra=f'tls = true\ncerts = "{certs}"') as (bed, server):
        wait_until(bed.motion_allowed)
        with Client(server.address, server.stop_address, certs / "as_nurse", name="display") as nurse:
            with nurse.lease() as lease:
                nurse.pause()
                wait_until(lambda: all(h.latched for h in nurse.state().holds))
                nurse.resume([h.token for h in nurse.state().holds], lease)
            with pytest.raises(Refused) as refused:
                nurse.audit()
            assert refused.value.reason == "ROLE_NOT_ALLOWED"
        for role in ("viewer", "local"):  # a certificate cannot make itself local
            with Client(server.address, server.stop_address, certs / f"as_{role}") as client:
                assert client.state().arm.at_rest
                with pytest.raises(Refused) as refused, client.lease():
                    pass
                assert refused.value.reason == "ROLE_NOT_ALLOWED"
                assert "viewer" in refused.value.text
                client.pause("from the corridor")
                with pytest.raises(Refused):
                    client.start_attended("dressing")
        log = (tmp_path / "log" / "api.jsonl").read_text("utf-8")
        assert '"actor": "display [nurse:nurse 7]"' in log
        assert "[viewer:viewer 7]" in log
        turned_down = [line for line in map(json.loads, log.splitlines()) if line["event"] == "attended_started"]
        assert (turned_down[0]["actor"], turned_down[0]["accepted"]) == ("wardarm client [viewer:viewer 7]", False)
        assert all(line["detail"].startswith("ROLE_NOT_ALLOWED: role 'viewer'") for line in turned_down)
        assert len(turned_down) == 2


@pytest.mark.parametrize("listener", ["address", "stop_address"])
def test_without_a_certificate_nobody_is_let_in(tmp_path: Path, certs: Path, listener: str) -> None:
    with bedside(tmp_path, api_extra=f'tls = true\ncerts = "{certs}"') as (bed, server):
        wait_until(bed.motion_allowed)
        authority = (certs / "ca.pem").read_bytes()
        for channel in (
            grpc.insecure_channel(getattr(server, listener)),
            grpc.secure_channel(getattr(server, listener), grpc.ssl_channel_credentials(authority)),
        ):
            with channel, pytest.raises(grpc.RpcError) as error:
                control_pb2_grpc.ControlServiceStub(channel).Pause(control_pb2.PauseRequest(), timeout=2)
            assert error.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        assert bed.motion_allowed()


def test_tls_without_files_refuses_to_start_and_says_what_is_missing(tmp_path: Path) -> None:
    bed = Bed(f"apitls{tmp_path.name[-1]}_{id(tmp_path) % 10000}_")
    try:
        server = Server(bed, tmp_path, api_extra=f'tls = true\ncerts = "{tmp_path}/none"')
        done = subprocess.run(
            [sys.executable, "-m", "wardarm.api.main", "--config", str(server.file)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "server.pem" in done.stderr
        assert "api.certs" in done.stderr
        assert not bed.motion_allowed()  # its word never became true
    finally:
        bed.close()
