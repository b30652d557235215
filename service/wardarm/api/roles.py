"""Who is on the other end: the role in a client certificate, and what it may do.

A certificate carries its role as a URI in the subject alternative names: `wardarm://role/nurse`. Without TLS (loopback
only) every caller is `local` and may do everything. Pause and Stop are open to every role.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import grpc

from wardarm.api.errors import Refused

PREFIX = "wardarm://role/"
_READ = frozenset(
    {
        "GetState",
        "WatchState",
        "GetServerInfo",
        "GetTask",
        "ListTasks",
        "WatchTask",
        "CheckInstruction",
        "Pause",
        "Stop",
    }
)
_MOVE = _READ | {
    "AcquireLease",
    "RetainLease",
    "ReturnLease",
    "CreateTask",
    "CancelTask",
    "AnswerClarification",
    "SetSpeed",
}
_CARE = _MOVE | {"Resume", "ClearStop", "TakeLease", "ListPoses", "SubmitTranscript", "ConfirmTranscript"}
_CARE |= {"StartAttended", "ExtendAttended", "EndAttended"}
_ALL = _CARE | {"Recover", "PowerOn", "TeachPose", "ListAuditEvents", "ListIncidents"}
MAY: dict[str, frozenset[str]] = {
    "viewer": _READ,
    "voice": _MOVE | {"SubmitTranscript", "ConfirmTranscript"},
    "ward": _CARE,  # the ward's own software and displays
    "nurse": _CARE,
    "engineer": _ALL,
    "local": _ALL,
}


@dataclass(frozen=True)
class Caller:
    """`name`: the certificate's common name, '' without TLS."""

    role: str
    name: str


def caller(context: Any) -> Caller:
    """The caller of an RPC. A certificate without a role is a viewer."""
    facts = context.auth_context()
    if b"ssl" not in facts.get("transport_security_type", []):
        return Caller("local", "")
    name = next((v.decode("utf-8", "replace") for v in facts.get("x509_common_name", [])), "")
    for value in facts.get("x509_subject_alternative_name", []):
        uri = value.decode("utf-8", "replace")
        if uri.startswith(PREFIX) and uri[len(PREFIX) :] in MAY and uri != PREFIX + "local":
            return Caller(uri[len(PREFIX) :], name)
    return Caller("viewer", name)


def check(who: Caller, rpc: str) -> None:
    """Raises ROLE_NOT_ALLOWED."""
    if rpc not in MAY[who.role]:
        allowed = ", ".join(r for r, rpcs in MAY.items() if rpc in rpcs and r != "local")
        raise Refused(
            grpc.StatusCode.PERMISSION_DENIED, "ROLE_NOT_ALLOWED",
            f"role '{who.role}' of certificate '{who.name}' may not call {rpc}; allowed: {allowed}",
            {"role": who.role, "rpc": rpc},
        )  # fmt: skip


def signed(actor: str, who: Caller) -> str:
    """The name for the audit: what the client says, and what its certificate says."""
    if not who.name:
        return actor
    certificate = f"{who.role}:{who.name}"
    return f"{actor} [{certificate}]" if actor else certificate
