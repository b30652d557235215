"""The one place that speaks to the robot controller through ur_rtde: receive, inputs, dashboard, script upload.

ur_rtde's control interface is not used: it uploads a program of its own, and a lost connection under it can take the
process down. Every call here may block for as long as its socket's time-out, so `open` and the dashboard's commands
run in a thread of arm's; `sample` and `set_input` do not block.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard_client import DashboardClient
from rtde_io import RTDEIOInterface
from rtde_receive import RTDEReceiveInterface
from script_client import ScriptClient

from wardarm.arm.state import RobotMode

RTDE_PORT, DASHBOARD_PORT, SCRIPT_PORT = 30004, 29999, 30003
# `is in remote control` came with 5.6.0 (UR, "Dashboard server, e-Series")
MIN_VERSION = (5, 6)
REACH_TIMEOUT_S = 1.0
MODE_DEADLINE_S = 30.0
UNLOCK_WAIT_S = 5.0  # the controller refuses to unlock a protective stop earlier

# ur_rtde reads registers 12 to 19 and no others
_PR_SET_TIMERSLACK, _TIMER_SLACK_NS = 29, 1_000_000  # linux/prctl.h
_INT_REGISTERS = tuple(range(12, 20))
_DOUBLE_REGISTERS = tuple(range(12, 18))
# Every name must be in ur_rtde's own table: it drops one that is not, and then misreads all that follow.
_OUTPUTS = [
    "timestamp", "target_q", "target_qd", "actual_q", "actual_qd", "actual_TCP_pose", "robot_mode", "safety_mode",
    "runtime_state", "speed_scaling",
    *(f"output_int_register_{i}" for i in _INT_REGISTERS),
    *(f"output_double_register_{i}" for i in _DOUBLE_REGISTERS),
]  # fmt: skip

_PROBE = "robotmode"  # a question that changes nothing and is answered in every state, local control too

# ur_rtde's RTDEIOInterface says goodbye when it is destroyed, and ends the process if the connection is gone by then.
# So none is ever destroyed: a lost one costs its memory, and the process leaves by os._exit.
_BURIED: list[object] = []


class RobotError(RuntimeError):
    """The robot cannot be used now; the text says what to do."""


class RobotUnreachable(RobotError): ...


class RobotVersionTooOld(RobotError): ...


class NotInRemoteControl(RobotError): ...


class RobotRefused(RobotError):
    """The controller answered a command with something else than its success text."""


@dataclass(frozen=True, slots=True)
class Registers:
    """The player's output registers. Ids are the wire's 31 bits, 0 = none; cycles count 2 ms, whole numbers."""

    state: int
    playing_id: int
    accepted_id: int
    refused_id: int
    refusal: int
    finished_id: int
    beat: int
    ticks: int
    path_s: float
    path_rate: float
    opening: float
    permit_edge_cycle: float
    permit_accept_cycle: float
    first_motion_cycle: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One RTDE packet. Joint vectors of 6: rad, rad/s; TCP pose in base: m and rotation vector."""

    stamp_ns: int
    controller_s: float
    q: Sequence[float]
    qd: Sequence[float]
    target_q: Sequence[float]
    target_qd: Sequence[float]
    tcp_pose: Sequence[float]
    robot_mode: int
    safety_mode: int
    runtime_state: int
    speed_scaling: float
    registers: Registers


def _relax_timers() -> None:
    """Let this thread's sleeps, and those of threads it starts, come up to a millisecond late.

    ur_rtde's receiver asks for data every 100 us or so, at 4 to 6 % of a core; a packet comes every 8 ms.
    """
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_TIMER_SLACK_NS), 0, 0, 0)


def reachable(host: str, port: int) -> None:
    """Connect once. Raises RobotUnreachable."""
    try:
        socket.create_connection((host, port), REACH_TIMEOUT_S).close()
    except OSError as e:
        raise RobotUnreachable(
            f"controller {host}:{port}: {e.strerror or e}; check arm.host, the robot network's cable and the power"
        ) from e


class Dashboard:
    """The dashboard server. `serial` and `version` are read once. Raises RobotError.

    The controller may close this connection at any time without RTDE noticing. So each command asks a question first,
    on a new connection if the old one does not answer it: a command itself is never sent twice.
    """

    def __init__(self, host: str) -> None:
        self._lock = threading.Lock()  # one question at a time
        self._host = host
        self._client = self._connected()
        version = str(self._call("polyscopeVersion"))
        found = re.search(r"(\d+)\.(\d+)\.(\d+)(?:\.\d+)?", version)
        if not found:
            raise RobotVersionTooOld(
                f"controller {host}: version {version!r} is none that we know; PolyScope 5 is needed"
            )
        self.version = found.group(0)
        self.major, self.minor = int(found.group(1)), int(found.group(2))
        if (self.major, self.minor) < MIN_VERSION:
            raise RobotVersionTooOld(
                f"controller {host}: PolyScope {self.version}, need {MIN_VERSION[0]}.{MIN_VERSION[1]} or later; update it"
            )
        self.serial = str(self._call("getSerialNumber")).strip()

    def _connected(self) -> DashboardClient:
        """A new connection. Raises RobotUnreachable, RobotRefused."""
        reachable(self._host, DASHBOARD_PORT)
        client = DashboardClient(self._host, DASHBOARD_PORT)
        self._ask(client, "connect")
        return client

    def _ask(self, client: DashboardClient, name: str) -> object:
        try:
            return getattr(client, name)()
        except Exception as e:  # ur_rtde raises RuntimeError for any answer or socket error
            words = str(e).strip()
            words = "no answer" if words in ("", "Operation canceled") else words  # its time-out is a cancelled read
            raise RobotRefused(f"controller {self._host}: dashboard '{name}': {words}") from e

    def _call(self, name: str) -> object:
        with self._lock:
            try:
                self._ask(self._client, _PROBE)
            except RobotRefused:
                with contextlib.suppress(Exception):
                    self._client.disconnect()
                self._client = self._connected()
            try:
                return self._ask(self._client, name)
            except RobotRefused:
                # an answer that comes late would be taken for the next one's: begin anew
                with contextlib.suppress(Exception):
                    self._client.disconnect()
                raise

    def demand_remote_control(self) -> None:
        """Raises NotInRemoteControl."""
        if not self._call("isInRemoteControl"):
            raise NotInRemoteControl(
                f"controller {self._host} is in local control; switch the pendant to Remote (top right corner)"
            )

    def stop_program(self) -> None:
        self._call("stop")

    def unlock_protective_stop(self) -> None:
        self._call("unlockProtectiveStop")
        with contextlib.suppress(RobotError):  # no popup is no failure
            self._call("closeSafetyPopup")

    def power_on(self) -> None:
        """Power on, release the brakes. Raises RobotRefused if the robot is not running after half a minute."""
        with contextlib.suppress(RobotError):
            self._call("closeSafetyPopup")
        end = time.monotonic() + MODE_DEADLINE_S
        self._call("powerOn")
        released = False
        while True:
            mode = str(self._call("robotmode")).upper().replace("ROBOTMODE:", "").strip()
            if mode == RobotMode.RUNNING.name:
                return
            if mode == RobotMode.IDLE.name and not released:
                self._call("brakeRelease")
                released = True
            if time.monotonic() > end:
                raise RobotRefused(f"controller {self._host}: robot mode {mode} {MODE_DEADLINE_S:.0f} s after power on")
            time.sleep(0.2)

    def close(self) -> None:
        with self._lock, contextlib.suppress(Exception):
            self._client.disconnect()


class RobotLink:
    """A connected controller. `open` blocks (thread!); raises RobotError."""

    def __init__(self, host: str, hz: float) -> None:
        self.host = host
        self.dashboard = Dashboard(host)
        reachable(host, RTDE_PORT)
        _relax_timers()
        try:
            self._receive = RTDEReceiveInterface(host, hz, _OUTPUTS)
            self._io = RTDEIOInterface(host)
        except Exception as e:  # boost and ur_rtde errors arrive as RuntimeError
            self.dashboard.close()
            taken = "in use" in str(e)  # ur_rtde's words for IN_USE; ours are shorter: a word's detail has 96 bytes
            what = (
                "RTDE inputs are taken: switch EtherNet/IP, PROFINET, drivers off"
                if taken
                else f"RTDE: {str(e).strip()}"
            )
            raise RobotUnreachable(f"controller {host}: {what}") from e
        self._last: Sample | None = None
        self._written: dict[int, int] = {}

    def sample(self) -> Sample | None:
        """The newest packet, or None if none came since the last call."""
        receive = self._receive
        last_s = self._last.controller_s if self._last is not None else -1.0
        controller_s = receive.getTimestamp()
        if controller_s == last_s:
            return None
        for _ in range(3):  # the library fills its state packet by packet behind our back: all from one packet
            sample = self._read(controller_s)
            now_s = receive.getTimestamp()
            if now_s == controller_s:
                break
            controller_s = now_s
        self._last = sample
        return sample

    def _read(self, controller_s: float) -> Sample:
        r = self._receive
        stamp_ns = time.monotonic_ns()
        ints = [r.getOutputIntRegister(i) for i in _INT_REGISTERS]
        doubles = [r.getOutputDoubleRegister(i) for i in _DOUBLE_REGISTERS]
        return Sample(
            stamp_ns, controller_s, r.getActualQ(), r.getActualQd(), r.getTargetQ(), r.getTargetQd(),
            r.getActualTCPPose(), r.getRobotMode(), r.getSafetyMode(), r.getRuntimeState(), r.getSpeedScaling(),
            Registers(*ints, *doubles),
        )  # fmt: skip

    def set_input(self, register: int, value: int) -> None:
        """Write an input integer register (18..23) if it changes. Raises RobotUnreachable."""
        if self._written.get(register) == value:
            return
        try:
            ok = self._io.setInputIntRegister(register, value)
        except Exception as e:
            raise RobotUnreachable(f"controller {self.host}: RTDE input {register}: {str(e).strip()}") from e
        if not ok:
            raise RobotUnreachable(f"controller {self.host}: RTDE input {register} was not taken")
        self._written[register] = value

    def upload(self, script: str) -> None:
        """Start a program; whatever runs is replaced. Blocks (thread!). Raises RobotRefused."""
        reachable(self.host, SCRIPT_PORT)
        client = ScriptClient(self.host, self.dashboard.major, self.dashboard.minor, SCRIPT_PORT)
        try:
            client.connect()
            if not client.sendScriptCommand(script):
                raise RobotRefused(f"controller {self.host}:{SCRIPT_PORT}: the player script was not taken")
        except RobotRefused:
            raise
        except Exception as e:
            raise RobotRefused(f"controller {self.host}:{SCRIPT_PORT}: {str(e).strip()}") from e
        finally:
            with contextlib.suppress(Exception):
                client.disconnect()

    def close(self) -> None:
        """Let go of every connection. Blocks (thread!)."""
        _BURIED.append(self._io)
        for part in (self._receive, self._io):
            with contextlib.suppress(Exception):
                part.disconnect()
        self.dashboard.close()
