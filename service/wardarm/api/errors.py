"""Refusals that clients can act on: a status code, `google.rpc.ErrorInfo` (domain `wardarm`) and a text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

DOMAIN = "wardarm"


class Refused(Exception):
    """A request is turned down. `reason` is the ErrorInfo's, `text` says field, value, limit and what to do next."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        text: str,
        metadata: Mapping[str, str] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(text)
        self.code, self.reason, self.text = code, reason, text
        self.metadata = dict(metadata or {})
        self.retry_after_s = retry_after_s

    def status(self) -> Any:
        """The refusal as a grpc.Status with its details packed."""
        details = [_pack(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata))]
        if self.retry_after_s is not None:
            delay = duration_pb2.Duration()
            delay.FromNanoseconds(int(self.retry_after_s * 1e9))
            details.append(_pack(error_details_pb2.RetryInfo(retry_delay=delay)))
        return rpc_status.to_status(status_pb2.Status(code=self.code.value[0], message=self.text, details=details))


def _pack(message: Any) -> any_pb2.Any:
    packed = any_pb2.Any()
    packed.Pack(message)
    return packed


async def abort(context: Any, refused: Refused) -> NoReturn:
    await context.abort_with_status(refused.status())
    raise AssertionError("abort_with_status returned")


def invalid(field: str, value: object, limit: str, advice: str = "") -> Refused:
    """INVALID_ARGUMENT / FIELD_INVALID that names the field, its value and what is allowed."""
    text = f"{field} = {value!r}: {limit}" + (f"; {advice}" if advice else "")
    return Refused(grpc.StatusCode.INVALID_ARGUMENT, "FIELD_INVALID", text, {"field": field})


def precondition(reason: str, text: str, metadata: Mapping[str, str] | None = None) -> Refused:
    return Refused(grpc.StatusCode.FAILED_PRECONDITION, reason, text, metadata)


def checked_text(field: str, value: str, low: int, high: int) -> str:
    """`value` if it has `low` to `high` printable characters, else raises Refused."""
    if not low <= len(value) <= high:
        raise invalid(
            field, value if len(value) <= 80 else value[:80] + "...", f"{low} to {high} characters, got {len(value)}"
        )
    if not value.isprintable():
        raise invalid(field, value, "printable characters on one line only")
    return value
