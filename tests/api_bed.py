"""A stand-in for arm, gate, guard and eye: writes their real blocks beside a real api process.

Holds are latched by the arm's own `HoldLatch`; everything else is as simple as a test needs.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from addresses import free_ports, own_address
from patience import PATIENCE_S
from wardarm.api.board import reason_of
from wardarm.arm.holds import Cause, HoldLatch
from wardarm.client import Client, Lease, Refused
from wardarm.shm import ring
from wardarm.shm.layouts import (
    TEXT,
    ArmState,
    BlockKind,
    CommandKind,
    Holding,
    HoldReason,
    ProcessId,
    StepKind,
    StepState,
)

HOST = own_address()  # of every api process of this run
BEAT_S = 0.008
DEADLINE_S = 1.0  # of a word: the longest that may be configured, for the machine may stand still
WORDS = (ProcessId.ARM, ProcessId.GATE, ProcessId.GUARD, ProcessId.EYE)


def own_listeners() -> tuple[str, str]:
    """`api.address` and `api.stop_address` of one api process."""
    main, stop = free_ports(HOST, 2)
    return f"{HOST}:{main}", f"{HOST}:{stop}"


def wait_until(true: Callable[[], object], timeout_s: float = PATIENCE_S, what: str = "") -> None:
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_s} s: {what or true}")
        time.sleep(0.005)


@dataclass
class Bed:
    """One bedside. Set the fields from the test; a thread writes them every 8 ms."""

    prefix: str
    state: ArmState = ArmState.READY
    at_rest: bool = True
    playing_id: int = 0
    holding: Holding = Holding.NO
    tilt_rad: float = 0.0  # of the tool, from straight down
    speed_rad_s: float = 0.0  # of joint 1
    silent: set[ProcessId] = field(default_factory=set)
    against: dict[ProcessId, tuple[HoldReason, str]] = field(default_factory=dict)
    answer_nothing: bool = False  # the arm ignores commands
    carry_out: bool = True  # eye takes up steps by itself
    step_s: float = 0.02  # how long each of its states lasts
    final: StepState = StepState.DONE
    final_reason: str = ""
    model_tasks: int = 0  # as layout Progress has it; 0: eye has not said
    steps: list[tuple[int, StepKind, str]] = field(default_factory=list)  # (seq, kind, text), 'nothing to do' left out
    latched_ns: dict[int, int] = field(default_factory=dict)  # hold seq -> when the arm latched it
    resumes: list[list[int]] = field(default_factory=list)
    stops: int = 0

    def __post_init__(self) -> None:
        p = self.prefix
        self._arm = ring.Writer(BlockKind.ARM_STATUS, p)
        self._gate = ring.Writer(BlockKind.GATE_STATUS, p)
        self._progress = ring.Writer(BlockKind.PROGRESS, p)
        self._words = {w: ring.Writer(BlockKind.WORD, p, w) for w in WORDS}
        for kind, process in ((BlockKind.STEP, None), (BlockKind.COMMAND, None), (BlockKind.WORD, ProcessId.API)):
            ring.create(kind, p, process)
        self._step = ring.Reader(BlockKind.STEP, p)
        self._command = ring.Reader(BlockKind.COMMAND, p)
        self.api_block = ring.Reader(BlockKind.WORD, p, ProcessId.API)
        self.latch = HoldLatch()
        self.deadline_s = DEADLINE_S
        self._answered = (0, 0, "")
        self._step_seq, self._step_state, self._since = 0, StepState.IDLE, time.monotonic()
        self._fraction = 0.0
        self._hold_seqs = dict.fromkeys(WORDS, 0)
        self._beat = 0
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for path in Path("/dev/shm").glob(f"{self.prefix}*"):
            path.unlink()

    def say(self, process: ProcessId, reason: HoldReason, detail: str = "") -> None:
        """The process's word becomes false (true with NONE)."""
        with self._lock:
            if reason is HoldReason.NONE:
                self.against.pop(process, None)
            else:
                self._hold_seqs[process] += 1
                self.against[process] = (reason, detail)

    def report(self, state: StepState, fraction: float = 0.0, reason: str = "") -> None:
        """What eye says of the step that it has."""
        with self._lock:
            self._step_state, self._fraction, self.final_reason = state, fraction, reason

    def api_word(self) -> tuple[bool, HoldReason]:
        slot = self.api_block.latest()
        if slot is None:
            return False, HoldReason.STARTING
        return bool(slot.data["ok"]), reason_of(int(slot.data["reason"]))

    def look_past_a_stall(self) -> None:
        """The machine stood still for longer than a word may be old: rightly a WATCHDOG hold, and no test's affair."""
        with self._lock:
            if all(h.reason is HoldReason.WATCHDOG for h in self.latch.holds):
                self.latch.resume([h.seq for h in self.latch.holds])

    def motion_allowed(self) -> bool:
        """As gate sees it: every word true and fresh, nothing latched."""
        return not self.latch.holds and not self._causes()

    def wait_beats(self, count: int = 3) -> None:
        """Until what was set before has been written to every block."""
        last = self._beat + count
        wait_until(lambda: self._beat >= last)

    def _run(self) -> None:
        while not self._ended.wait(BEAT_S):
            with self._lock:
                self._speak()
                self._follow_step()
                self._arm_loop()

    def _speak(self) -> None:
        self._beat += 1
        gate = self._gate.blank()
        gate["beat"], gate["beat_ns"], gate["pwm_on"] = self._beat, time.monotonic_ns(), self.playing_id != 0
        self._gate.publish(gate)
        for process, writer in self._words.items():
            if process in self.silent:
                continue
            word = writer.blank()
            reason, detail = self.against.get(process, (HoldReason.NONE, ""))
            if process is ProcessId.ARM and self.latch.blocking:
                reason, detail = self.latch.holds[0].reason, "held"
            word["beat_ns"], word["process"], word["ok"] = time.monotonic_ns(), process, reason is HoldReason.NONE
            word["hold_seq"], word["reason"], word["detail"] = self._hold_seqs[process], reason, detail.encode()
            writer.publish(word)

    def _follow_step(self) -> None:
        slot = self._step.latest()
        if slot is not None and int(slot.data["seq"]) != self._step_seq:
            self._step_seq, kind = int(slot.data["seq"]), StepKind(int(slot.data["kind"]))
            self._step_state, self._since, self._fraction = StepState.IDLE, time.monotonic(), 0.0
            if kind is not StepKind.NONE:
                self.steps.append((self._step_seq, kind, ring.text(slot.data["text"])))
                self._step_state = StepState.LOOKING
        if self.carry_out and not self.latch.holds and time.monotonic() - self._since > self.step_s:
            self._since = time.monotonic()
            if self._step_state is StepState.LOOKING:
                self._step_state, self._fraction = StepState.MOVING, 0.5
            elif self._step_state is StepState.MOVING:
                self._step_state = self.final
        progress = self._progress.blank()
        progress["model_tasks"] = self.model_tasks
        progress["step_seq"], progress["state"], progress["fraction"] = self._step_seq, self._step_state, self._fraction
        ended = self._step_state in (StepState.FAILED, StepState.REFUSED)
        progress["reason"] = ring.encode(self.final_reason if ended else "", 2 * TEXT)
        self._progress.publish(progress)

    def _causes(self) -> list[Cause]:
        causes = [
            Cause(reason, process, detail, self._hold_seqs[process])
            for process, (reason, detail) in self.against.items()
            if process is not ProcessId.EYE
        ]
        slot = self.api_block.latest()
        if slot is None or slot.data["beat_ns"] == 0:
            return [*causes, Cause(HoldReason.STARTING, ProcessId.API, "no word yet")]
        if time.monotonic_ns() - int(slot.data["beat_ns"]) > self.deadline_s * 1e9:
            return [*causes, Cause(HoldReason.WATCHDOG, ProcessId.API, "silent")]
        if not slot.data["ok"]:
            text = ring.text(slot.data["detail"])
            causes.append(Cause(reason_of(int(slot.data["reason"])), ProcessId.API, text, int(slot.data["hold_seq"])))
        return causes

    def _arm_loop(self) -> None:
        for hold in self.latch.see(self._causes(), time.monotonic_ns()):
            self.latched_ns[hold.seq] = time.monotonic_ns()
        self._obey()
        status = self._arm.blank()
        status["stamp_ns"] = time.monotonic_ns()
        status["state"] = ArmState.HELD if self.latch.blocking and self.state is ArmState.READY else self.state
        status["at_rest"], status["playing_id"], status["holding"] = self.at_rest, self.playing_id, self.holding
        status["tcp_pose"][3:] = [np.pi - self.tilt_rad, 0.0, 0.0]
        status["target_qd_rad_s"][0] = self.speed_rad_s
        status["hold_count"] = len(self.latch.holds)
        for slot, hold in zip(status["holds"], self.latch.holds, strict=False):
            slot["seq"], slot["since_ns"], slot["reason"], slot["writer"] = (
                hold.seq,
                hold.since_ns,
                hold.reason,
                hold.writer,
            )
            slot["detail"] = ring.encode(hold.detail, TEXT)
        status["command_seq"], status["command_result"] = self._answered[:2]
        status["command_reason"] = ring.encode(self._answered[2], TEXT)
        self._arm.publish(status)

    def _obey(self) -> None:
        slot = self._command.latest()
        if slot is None or self.answer_nothing or int(slot.data["seq"]) == self._answered[0]:
            return
        seq, kind = int(slot.data["seq"]), CommandKind(int(slot.data["kind"]))
        refusal = ""
        if kind is CommandKind.RESUME:
            seqs = [int(s) for s in slot.data["hold_seqs"][: int(slot.data["hold_count"])]]
            self.resumes.append(seqs)
            refusal = self.latch.resume(seqs)
        elif kind is CommandKind.STOP:
            self.stops += 1
            self.latch.add(Cause(HoldReason.STOP, ProcessId.ARM, "stopped"), time.monotonic_ns())
        self._answered = (seq, 5 if refusal else 0, refusal)


class Server:
    """A real api process on a loopback address of its own."""

    def __init__(self, bed: Bed, folder: Path, extra: str = "", api_extra: str = "tls = false") -> None:
        self.bed, self.folder = bed, folder
        self.address, self.stop_address = own_listeners()
        self.file = folder / "wardarm.toml"
        self.file.write_text(
            f'schema = 1\nsimulated = true\n[shm]\nprefix = "{bed.prefix}"\n[gate]\nword_deadline_ms = {DEADLINE_S * 1e3}\n{extra}\n'
            f'[log]\ndirectory = "{folder}/log"\n[api]\naddress = "{self.address}"\nstop_address = "{self.stop_address}"\n'
            f'state_dir = "{folder}/state"\n{api_extra}\n'
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        self.process = subprocess.Popen([sys.executable, "-m", "wardarm.api.main", "--config", str(self.file)])
        wait_until(self._serving, what="api did not start")
        return self

    def _serving(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"api ended with {self.process.returncode}")
        if int(self.bed.api_block.head["writer_pid"]) != self.process.pid or self.starting():
            return False
        if any(h.reason is HoldReason.STARTING for h in self.bed.latch.holds):
            return False
        return all(_listens(address) for address in (self.address, self.stop_address))

    def starting(self) -> bool:
        ok, reason = self.bed.api_word()
        return not ok and reason in (HoldReason.STARTING, HoldReason.WATCHDOG)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def client(self, name: str = "test") -> Client:
        return Client(self.address, self.stop_address, name=name)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as s:
        return s.connect_ex((host, int(port))) == 0


_count = 0


@contextlib.contextmanager
def bedside(folder: Path, extra: str = "", api_extra: str = "tls = false") -> Iterator[tuple[Bed, Server]]:
    """A bed and its api process, both gone afterwards."""
    global _count
    _count += 1
    bed = Bed(f"api{os.getpid() % 100000}_{_count}_")
    server = Server(bed, folder, extra, api_extra)
    try:
        yield bed, server.start()
    finally:
        if server.process is not None and server.process.poll() is None:
            server.stop()
        bed.close()


def clean(bed: Bed, client: Client) -> None:
    """Make the bedside ready for the next test: nobody against motion, nothing held, no task, no lease."""
    for process in list(bed.against):
        bed.say(process, HoldReason.NONE)
    bed.state, bed.at_rest, bed.playing_id, bed.tilt_rad, bed.speed_rad_s = ArmState.READY, True, 0, 0.0, 0.0
    bed.holding = Holding.NO
    wait_until(lambda: not client.state().lease.client)
    with client.lease() as lease:
        if client.state().stopped:
            client.clear_stop(lease)
        wait_until(lambda: _resumed(client, lease))
        state = client.state()
        if state.HasField("task"):
            with contextlib.suppress(Refused):  # it has just ended by itself
                client.cancel(lease, state.task.task_id)
    wait_until(lambda: bed.motion_allowed() and not client.state().HasField("task"))
    bed.steps.clear()
    bed.resumes.clear()
    bed.carry_out, bed.final, bed.final_reason = True, StepState.DONE, ""


def _resumed(client: Client, lease: Lease) -> bool:
    holds = client.state().holds
    if all(h.clearable for h in holds) and holds:
        with contextlib.suppress(Refused):  # the arm is seen at rest a moment later, or another hold came in between
            client.resume([h.token for h in holds], lease)
    return not client.state().holds
