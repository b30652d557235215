"""Who may move the arm: one lease at a time, kept by beats, gone without them.

A frozen client keeps its TCP connection for minutes, so the connection says nothing: the lease is the authority.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass

import grpc

from wardarm.api.errors import Refused, precondition


@dataclass
class Lease:
    """`expires_s` is on time.monotonic()."""

    lease_id: str
    client: str
    epoch: int
    expires_s: float


class Leases:
    def __init__(self, ttl_s: float) -> None:
        self.ttl_s = ttl_s
        self.current: Lease | None = None
        self._epoch = 0

    def acquire(self, client: str) -> Lease:
        if self.current is not None:
            remaining_s = max(0.0, self.current.expires_s - time.monotonic())
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION, "LEASE_HELD",
                f"'{self.current.client}' has the lease; it must return it, or go quiet for {self.ttl_s:g} s",
                {"client": self.current.client}, retry_after_s=max(remaining_s, 0.05),
            )  # fmt: skip
        self._epoch += 1
        self.current = Lease(secrets.token_hex(12), client, self._epoch, time.monotonic() + self.ttl_s)
        return self.current

    def check(self, lease_id: str) -> Lease:
        """The lease with this id. Raises LEASE_STALE."""
        if self.current is None or self.current.lease_id != lease_id:
            who = f"'{self.current.client}' has it now" if self.current else "nobody has it now"
            shown = f"'{lease_id[:32]}'" if lease_id else "empty"
            raise precondition("LEASE_STALE", f"lease_id is {shown}: not the current lease ({who}); AcquireLease first")
        return self.current

    def retain(self, lease_id: str) -> Lease:
        lease = self.check(lease_id)
        lease.expires_s = time.monotonic() + self.ttl_s
        return lease

    def give_back(self, lease_id: str) -> Lease:
        lease = self.check(lease_id)
        self.current = None
        return lease

    def expire(self, own_delay_s: float = 0.0) -> Lease | None:
        """The lease that just ran out, if one did. `own_delay_s`: how late this process itself was; not the client's fault."""
        if self.current is None:
            return None
        self.current.expires_s += own_delay_s
        if time.monotonic() < self.current.expires_s:
            return None
        lost, self.current = self.current, None
        return lost
