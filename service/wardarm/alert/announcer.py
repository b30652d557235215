"""When to say what. No sound in here: times and words in, the name of a message out.

Rules: after the pause and never before it (the arm is at rest, or says nothing any more); a hold's cause at once and
again every `alert.repeat_s` while it persists; an arm that goes on gently because somebody is near is said once when it
begins and again as often; nothing within the quiet hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wardarm.shm.layouts import HoldReason

SAID: dict[HoldReason, str] = {
    HoldReason.INTRUDER: "intruder",
    HoldReason.VIEW_CHANGED: "view_changed",
    HoldReason.ROOM_CAMERA_LOST: "room_camera_lost",
}
"""Reasons with words of their own; any other hold that began while something moved is `held`."""
SILENT = frozenset({HoldReason.NONE, HoldReason.STARTING, HoldReason.CLIENT, HoldReason.STOP})
"""Nobody has to be told what they just did."""


@dataclass(frozen=True)
class Seen:
    """What the alert process reads. `holds`: latched reasons; `causes`: those that guard says are there now; `slow`: its
    word says go on, but gently. `at_rest`: the arm is, or says nothing any more (no permit then)."""

    now_s: float
    holds: Sequence[HoldReason]
    causes: Sequence[HoldReason]
    slow: bool
    at_rest: bool
    quiet: bool


class Announcer:
    """Call `next` often; it names a message when one is due."""

    def __init__(self, repeat_s: float) -> None:
        self.repeat_s = repeat_s
        self._said: dict[str, float] = {}  # of this hold, or of this time of going gently: message -> when

    def next(self, seen: Seen) -> str | None:
        """The message to say now, or None."""
        loud = [r for r in seen.holds if r not in SILENT]
        if loud and not seen.at_rest:
            return None
        if not loud and not seen.slow:
            self._said.clear()
            return None
        present = [r for r in loud if r in seen.causes]
        name = SAID.get((present or loud)[0], "held") if loud else "near"
        if loud:
            self._said.pop("near", None)
        elif set(self._said) - {"near"}:
            self._said.clear()  # the hold is over: what is said now is another matter
        last = self._said.get(name)
        due = last is None or ((present or not loud) and seen.now_s - last >= self.repeat_s)
        if not due or seen.quiet:
            return None
        self._said[name] = seen.now_s
        return name
