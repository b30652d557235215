"""Attended mode: somebody of the staff works in the zone while the arm goes on, gently and for a limited time.

Asked for through the API (StartAttended, ExtendAttended, EndAttended; `wardarm attend`), or by who can log in when the API is
not there (`wardarm guard attend`). The request is a file in /dev/shm beside the words: guard reads it, checks it, and counts the time down by itself. While
it lasts somebody in a keep-out zone makes guard's word *go on, but gently* (the profile `guard.slow_profile`) instead of
*hold*. Everything else holds as ever. Guard does not trust that the arm became slow: somebody in the zone and an arm that
is still faster than that profile's `tcp_m_s` allows a moment later is a hold. Start and end are lines in the log.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wardarm.config import Config
from wardarm.shm import ring

GRACE_S = 2.5  # until the arm has to be gentle: a period of eye, the longest join, and the slowing down
SPEED_OVER = 1.2  # times tcp_m_s that count as gentle: the measured speed of an arm on its limit ripples
WINDOW_S = 0.15  # over which the arm's speed is taken
TEXT_MAX = 64


class NotAttended(ValueError):
    """The request is not one; the text says why. `field`: minutes, actor or reason; "" for a file that cannot be used."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


@dataclass(frozen=True)
class Attended:
    """CLOCK_MONOTONIC: `since_ns` when it was asked for, last; `until_ns` when it ends; `began_ns` when it began, before it
    was extended."""

    actor: str
    reason: str
    since_ns: int
    until_ns: int
    began_ns: int = 0

    def left_s(self, now_ns: int) -> float:
        return max(0.0, (self.until_ns - now_ns) * 1e-9)


def path(prefix: str) -> Path:
    return ring.SHM / f"{prefix}wardarm_attended"


def start(config: Config, minutes: float, actor: str, reason: str, began_ns: int = 0) -> Attended:
    """Ask for it, from now on; `began_ns` of the one that this goes on from, if any. Raises NotAttended naming field,
    value and limit, OSError when there is no room for the request."""
    if not 0 < minutes <= config.guard.attended_max_min:
        raise NotAttended(
            f"minutes = {minutes:g}: more than 0, at most {config.guard.attended_max_min:g} (guard.attended_max_min)",
            "minutes",
        )
    for name, value in (("actor", actor), ("reason", reason)):
        if not 1 <= len(value.strip()) <= TEXT_MAX:
            raise NotAttended(f"{name} = {value!r}: give 1 to {TEXT_MAX} characters; it goes into the log", name)
    now = time.monotonic_ns()
    asked = Attended(actor.strip(), reason.strip(), now, now + int(minutes * 60e9), began_ns or now)
    scratch = path(config.shm.prefix).with_name(f".{path(config.shm.prefix).name}.{os.getpid()}")
    try:
        scratch.write_text(json.dumps(vars(asked)), "utf-8")
        scratch.chmod(0o600)
        scratch.rename(path(config.shm.prefix))
    finally:
        scratch.unlink(missing_ok=True)
    return asked


def end(config: Config) -> bool:
    """True if there was something to end."""
    there = path(config.shm.prefix).exists()
    path(config.shm.prefix).unlink(missing_ok=True)
    return there


class AttendedWatch:
    """What guard obeys and `api` shows. `look` each step."""

    def __init__(self, config: Config) -> None:
        self._path, self._max_ns = path(config.shm.prefix), int(config.guard.attended_max_min * 60e9)
        self._stamp: tuple[int, int] | None = None
        self.now: Attended | None = None
        self.refused = ""

    def look(self, now_ns: int) -> Attended | None:
        """The mode in force, or None. A file that is damaged, too long, or from before a boot counts as none."""
        try:
            stat = self._path.stat()
        except OSError:
            self._stamp = self.now = None
            return None
        if (stat.st_ino, stat.st_mtime_ns) != self._stamp:
            self._stamp = (stat.st_ino, stat.st_mtime_ns)
            self.now, self.refused = None, ""
            try:
                if stat.st_uid not in (0, os.getuid()):
                    raise NotAttended(f"it belongs to user {stat.st_uid}, not to root or to guard's own user")
                self.now = self._read(now_ns)
            except (OSError, ValueError, KeyError, TypeError) as e:
                self.refused = f"{self._path}: {e}"
        if self.now is not None and now_ns >= self.now.until_ns:
            self.now = None
        return self.now

    def _read(self, now_ns: int) -> Attended:
        fields = json.loads(self._path.read_text("utf-8"))
        asked = Attended(
            str(fields["actor"])[:TEXT_MAX], str(fields["reason"])[:TEXT_MAX], int(fields["since_ns"]),
            int(fields["until_ns"]), int(fields.get("began_ns", 0)),
        )  # fmt: skip
        if not asked.since_ns <= now_ns + 1_000_000_000 or asked.until_ns - asked.since_ns > self._max_ns:
            raise NotAttended(f"longer than guard.attended_max_min = {self._max_ns / 60e9:g}, or from another boot")
        return asked


class Speed:
    """How fast the TCP moves, from the poses that arm reports."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, np.ndarray]] = deque()

    def add(self, status: np.void) -> None:
        stamp = int(status["stamp_ns"])
        if self._seen and stamp <= self._seen[-1][0]:
            return
        self._seen.append((stamp, np.array(status["tcp_pose"][:3])))
        while len(self._seen) > 2 and self._seen[1][0] < stamp - WINDOW_S * 1e9:
            self._seen.popleft()

    def m_s(self) -> float:
        """Mean over the last WINDOW_S; 0 while nothing is known: an arm whose status stopped has no permit."""
        if len(self._seen) < 2:
            return 0.0
        (t0, p0), (t1, p1) = self._seen[0], self._seen[-1]
        return float(np.linalg.norm(p1 - p0)) / max(1e-3, (t1 - t0) * 1e-9)


class Gentle:
    """Is the arm as slow as it should be while somebody is near? `check` each step."""

    def __init__(self, config: Config) -> None:
        self.limit_m_s = SPEED_OVER * config.profiles[config.guard.slow_profile].tcp_m_s
        self._since_ns = 0

    def check(self, near: bool, speed_m_s: float, now_ns: int) -> bool:
        """False if somebody has been near for longer than GRACE_S and the arm is faster than the limit."""
        if not near:
            self._since_ns = 0
            return True
        self._since_ns = self._since_ns or now_ns
        return speed_m_s <= self.limit_m_s or (now_ns - self._since_ns) * 1e-9 < GRACE_S
