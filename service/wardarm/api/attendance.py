"""Attended mode for clients: asked for, made longer, ended, shown, and every change of it in the audit.

The request is guard's own file (`guard/attended.py`); whoever asks another way (`wardarm guard attend`), or lets it run
out, is in the audit too. Guard alone obeys it: this process never makes anything less of a hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import grpc

from wardarm.api.errors import Refused, invalid, precondition
from wardarm.config import Config
from wardarm.guard import attended
from wardarm.guard.attended import Attended, AttendedWatch, NotAttended

Audit = Callable[[str, str, str, bool], None]
"""actor, action, detail, accepted"""


class Attendance:
    """`look` each tick."""

    def __init__(self, config: Config, audit: Audit) -> None:
        self.config, self._audit = config, audit
        self._watch = AttendedWatch(config)
        self.now: Attended | None = self._watch.look(time.monotonic_ns())
        self._was_refused = self._watch.refused

    def look(self) -> Attended | None:
        """The mode in force, or None. A change that no client of ours asked for goes into the audit here, and so does a
        request file that guard refuses."""
        before, self.now = self.now, self._watch.look(time.monotonic_ns())
        if self._watch.refused != self._was_refused:
            self._was_refused = self._watch.refused
            if self._was_refused:
                self._audit("unnamed", "attended_started", self._was_refused, False)
        if self.now == before:
            return self.now
        if self.now is not None:
            self._audit(self.now.actor, "attended_extended" if before else "attended_started", _detail(self.now), True)
        elif before is not None:
            left_s = before.left_s(time.monotonic_ns())
            when = "time is up" if left_s == 0 else f"{left_s:.0f} s before its time"
            self._audit(before.actor, "attended_ended", when, True)
        return self.now

    def start(self, actor: str, signed: str, reason: str, duration_s: float) -> Attended:
        """Raises GUARD_OFF, ALREADY_ATTENDED, FIELD_INVALID, NOT_STORED."""
        if not self.config.guard.enabled:
            raise precondition("GUARD_OFF", "guard.enabled = false: no room camera holds the arm; nothing to attend")
        if self.look() is not None:
            assert self.now is not None
            raise precondition(
                "ALREADY_ATTENDED",
                f"attended by {self.now.actor} for {self.now.left_s(time.monotonic_ns()):.0f} s more; extend or end that",
                {"actor": self.now.actor},
            )
        return self._ask("attended_started", actor, signed, reason, duration_s, 0)

    def extend(self, signed: str, duration_s: float) -> Attended:
        """`duration_s` from now on. Raises NOT_ATTENDED, FIELD_INVALID, NOT_STORED."""
        now = self._in_force()
        return self._ask("attended_extended", now.actor, signed, now.reason, duration_s, now.began_ns)

    def end(self, signed: str) -> None:
        """Raises NOT_ATTENDED."""
        now = self._in_force()
        attended.end(self.config)
        self.now = self._watch.look(time.monotonic_ns())
        left_s = now.left_s(time.monotonic_ns())
        self._audit(signed or now.actor, "attended_ended", f"{left_s:.0f} s before its time", True)

    def _in_force(self) -> Attended:
        now = self.look()
        if now is None:
            raise precondition("NOT_ATTENDED", "attended mode is not in force; StartAttended begins it")
        return now

    def _ask(self, action: str, actor: str, signed: str, reason: str, duration_s: float, began_ns: int) -> Attended:
        try:
            attended.start(self.config, duration_s / 60, actor, reason, began_ns)
        except NotAttended as e:
            field = {"minutes": "duration"}.get(e.field, e.field)
            longest_s = 60 * self.config.guard.attended_max_min
            limit = f"more than 0, at most {longest_s:g} s (guard.attended_max_min)" if field == "duration" else str(e)
            value = f"{duration_s:g} s" if field == "duration" else {"actor": actor, "reason": reason}[field]
            raise invalid(field, value, limit) from e
        except OSError as e:
            raise Refused(
                grpc.StatusCode.UNAVAILABLE, "NOT_STORED", f"the request cannot be written: {e}; nothing was changed"
            ) from e
        now = self._watch.look(time.monotonic_ns())
        if now is None:
            self._was_refused = why = self._watch.refused
            attended.end(self.config)
            raise Refused(grpc.StatusCode.UNAVAILABLE, "NOT_STORED", f"guard would refuse it: {why}")
        self.now = now
        self._audit(signed, action, _detail(now), True)
        return now


def _detail(now: Attended) -> str:
    return f"for {(now.until_ns - now.since_ns) / 60e9:.3g} min: {now.reason}"
