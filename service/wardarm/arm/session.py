"""From nothing to a running player: connect, check, let what moves come to rest, upload, wait for its call.

`step` is called each loop and never blocks. Nothing is uploaded before the arm stood still for REST_S, whoever moved it: a
player that an earlier arm left behind gets no beat any more, ramps to rest by itself, and only then is replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

from wardarm.arm.channel import PlayerServer
from wardarm.arm.errand import Errand
from wardarm.arm.link import RobotError, RobotLink, Sample
from wardarm.arm.state import RobotMode, RuntimeState, SafetyMode, at_rest

REST_S = 0.2
RETRY_S = 1.0
LINK_DEAD_S = 1.0  # no packet for this long: the connection is given up and made anew
STOP_S = 0.2  # for the controller to say that the program has stopped
CALL_DEADLINE_S = 10.0  # from the upload to the player's connection


class Phase(Enum):
    OFFLINE = "no connection"
    LINKED = "connected"
    CALLING = "player uploaded, waiting for its call"
    UP = "player running"


class Session:
    """`link`, `sample` (the newest, or None) and `phase` are for arm to read. `script` gives the player's text."""

    def __init__(self, host: str, hz: float, script: Callable[[], str], server: PlayerServer) -> None:
        self._host, self._hz, self._script, self._server = host, hz, script, server
        self.link: RobotLink | None = None
        self.sample: Sample | None = None
        self.phase = Phase.OFFLINE
        self.trouble = "not connected yet"
        self._errand: Errand[RobotLink | None] = Errand()
        self._next_try_s = 0.0
        self._rest_since_s: float | None = None
        self._linked_s = 0.0
        self._called_s = 0.0
        self._beat_at_upload = 0

    def fresh(self, deadline_s: float) -> bool:
        """Whether the newest packet is younger than `deadline_s`."""
        return self.sample is not None and time.monotonic_ns() - self.sample.stamp_ns < deadline_s * 1e9

    def step(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        self._take_errand(now)
        if self.link is None:
            if not self._errand.busy and now >= self._next_try_s:
                self._errand.start("connect", lambda: RobotLink(self._host, self._hz))
            return
        sample = self.link.sample()
        if sample is not None:
            self.sample = sample
            self._watch_rest(sample, now)
        elif now - self._linked_s > LINK_DEAD_S and not self.fresh(LINK_DEAD_S):
            self.lose(f"no packet from the controller for {LINK_DEAD_S:.0f} s; check the robot network's cable")
            return
        if self.sample is None:
            return
        if self.phase is Phase.UP and self.sample.runtime_state != RuntimeState.PLAYING:
            self._back("the player program was stopped")
        elif self.phase is Phase.CALLING:
            self._await_call(now)
        elif self.phase is Phase.LINKED:
            self._upload_when_possible(now)

    def _take_errand(self, now: float) -> None:
        done = self._errand.take()
        if done is None:
            return
        if done.error is not None:
            self.trouble = str(done.error)
            self._next_try_s = now + RETRY_S
            if not isinstance(done.error, RobotError):
                raise done.error
            if done.name == "upload":
                self.phase = Phase.LINKED
        elif done.name == "connect":
            self.link, self.sample = done.value, None
            self.phase, self.trouble = Phase.LINKED, "waiting for the first packet"
            self._linked_s = now
        elif done.name == "upload":
            self.phase, self._called_s, self.trouble = Phase.CALLING, now, "waiting for the player's call"

    def _watch_rest(self, sample: Sample, now: float) -> None:
        if not (at_rest(sample.qd) and at_rest(sample.target_qd)):
            self._rest_since_s = None
        elif self._rest_since_s is None:
            self._rest_since_s = now

    def rested(self) -> bool:
        """At rest for REST_S."""
        return self._rest_since_s is not None and time.monotonic() - self._rest_since_s >= REST_S

    def _upload_when_possible(self, now: float) -> None:
        assert self.sample is not None
        assert self.link is not None
        able = self.sample.robot_mode == RobotMode.RUNNING and self.sample.safety_mode in (
            SafetyMode.NORMAL,
            SafetyMode.REDUCED,
        )
        if not able or self._errand.busy or now < self._next_try_s:
            return
        if not self.rested():
            self.trouble = "waiting for the arm to come to rest"
            return
        link, script = self.link, self._script()
        if self.sample.runtime_state != RuntimeState.STOPPED:
            self.trouble = "stopping the program that runs"
            self._errand.start("stop", link.dashboard.stop_program)
            self._next_try_s = now + STOP_S
            return
        self._beat_at_upload = self.sample.registers.beat
        self._server.drop_all()  # from now on only the new player calls

        def upload() -> None:
            link.dashboard.demand_remote_control()
            link.upload(script)

        self.trouble = "uploading the player"
        self._errand.start("upload", upload)

    def _await_call(self, now: float) -> None:
        assert self.sample is not None
        beats = self.sample.registers.beat != self._beat_at_upload
        if self._server.connected and beats and self.sample.runtime_state == RuntimeState.PLAYING:
            self.phase, self.trouble = Phase.UP, ""
        elif now - self._called_s > CALL_DEADLINE_S:
            self._back(
                f"the player did not call within {CALL_DEADLINE_S:.0f} s; check arm.own_address and arm.trajectory_port, "
                "and the pendant's log for a script error"
            )

    def _back(self, trouble: str) -> None:
        self.phase, self.trouble = Phase.LINKED, trouble
        self._next_try_s = time.monotonic() + RETRY_S

    def lose(self, trouble: str) -> None:
        """Give the connection up. It is closed in a thread: a frozen controller holds up its goodbye."""
        if self.link is not None:
            threading.Thread(target=self.link.close, name="goodbye", daemon=True).start()
        self.link, self.sample, self.phase, self.trouble = None, None, Phase.OFFLINE, trouble
        self._rest_since_s = None
        self._next_try_s = time.monotonic() + RETRY_S
