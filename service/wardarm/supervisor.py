"""Starts the rows of `processes.py`, keeps them alive within a budget, and takes them down: arm first.

In: the configuration. Out: the shared-memory blocks, the parameter files of the C++ programs, one child process a
row, `status.json` (pids, restarts, CPU time), systemd notifications. A dead gate means PWM off before anything
else. When this process dies the kernel ends every child (PR_SET_PDEATHSIG); systemd's ExecStopPost switches the
PWM off once more.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from wardarm import config as configuration
from wardarm import journal, notify
from wardarm.arm.params import write_envelope_params, write_planner_params
from wardarm.config import Config
from wardarm.processes import Process, enabled, required_words
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, ProcessId

STOP_DEADLINE_S = 8.0
_PR_SET_PDEATHSIG = 1
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


class BudgetSpent(RuntimeError):
    """A process died too often; the whole system stops and systemd decides."""


class AlreadyRunning(RuntimeError):
    """Another system uses these names; the text says which process."""


@dataclass
class Child:
    row: Process
    process: subprocess.Popen[bytes]
    pidfd: int
    started_s: float
    deaths: deque[float] = field(default_factory=deque)
    restarts: int = 0
    cpu_before_s: float = 0.0  # of earlier incarnations

    def cpu_s(self) -> float:
        """User and system CPU seconds of this process and its waited-for children, restarts included."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return self.cpu_before_s
        own = sum(int(x) for x in fields[11:15]) * _TICK_S
        return self.cpu_before_s + own + _children_cpu_s(self.process.pid)


def _children_cpu_s(pid: int) -> float:
    """CPU seconds of the living children of a process (a server started by a launcher, say)."""
    total = 0.0
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                total += sum(int(x) for x in fields[11:15]) * _TICK_S + _children_cpu_s(int(child))
    return total


def _in_child(nice: int) -> Callable[[], None]:
    parent = os.getpid()
    libc = ctypes.CDLL(None)

    def prepare() -> None:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        with contextlib.suppress(OSError):  # only root may go below zero; the order among them still holds
            os.nice(nice)

    return prepare


class Supervisor:
    """One run of the system. `start()`, then `watch()` until stopped, then `stop()`."""

    def __init__(self, config: Config, run_dir: Path) -> None:
        self.config, self.run_dir = config, run_dir
        self.file = run_dir / "wardarm.json"
        self.children: dict[str, Child] = {}
        self.selector = selectors.DefaultSelector()
        self.log = journal.setup("supervisor", config)
        self.stopping = False
        self.ready = False
        self.claimed = False
        self.ended = ""  # why this system ends by itself
        self._locks: list[int] = []
        self._later: dict[str, float] = {}  # what died too often but is not essential: when it is tried again
        self._readers: dict[tuple[BlockKind, ProcessId | None], ring.Reader] = {}
        self._blocked_since: dict[ProcessId, float] = {}

    def _claim(self) -> None:
        """One system a set of shared-memory names, and one a run folder; the kernel frees both when this process ends."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        for path in (ring.SHM / f"{self.config.shm.prefix}wardarm.lock", self.run_dir / "lock"):
            lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = os.read(lock, 32).decode().strip() or "unknown"
                os.close(lock)
                raise AlreadyRunning(
                    f"wardarm already runs (pid {pid}, {path} is taken): stop it first, or give this one its own "
                    "--run-dir and shm.prefix"
                ) from None
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            self._locks.append(lock)

    def start(self) -> None:
        """Raises AlreadyRunning before anything is touched."""
        self._claim()
        self.claimed = True
        configuration.dump(self.config, self.file)
        write_planner_params(self.config, self.run_dir / "planner.params")
        write_envelope_params(self.config, self.run_dir / "envelope.params")
        self._pwm_off()
        for row in enabled(self.config):
            for kind in row.blocks:
                ring.create(kind, self.config.shm.prefix, row.id if kind is BlockKind.WORD else None)
        for row in enabled(self.config):
            self._spawn(row)
        self._write_status()

    def _spawn(self, row: Process) -> None:
        log = (self.run_dir / f"{row.name}.log").open("ab")
        env = os.environ | {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "LP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
        }
        env.pop("NOTIFY_SOCKET", None)
        process = subprocess.Popen(
            row.command(self.config, self.file),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, preexec_fn=_in_child(row.nice),
        )  # fmt: skip
        log.close()
        old = self.children.get(row.name)
        child = Child(row, process, os.pidfd_open(process.pid), time.monotonic())
        child.deaths = deque(maxlen=self.config.supervisor.restart_budget)
        if old is not None:
            child.deaths, child.restarts, child.cpu_before_s = old.deaths, old.restarts + 1, old.cpu_before_s
        self.children[row.name] = child
        self.selector.register(child.pidfd, selectors.EVENT_READ, row.name)
        self.log.info("started", extra={"child": row.name, "child_pid": process.pid, "restarts": child.restarts})

    def watch(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve deaths and status until a signal or `until`. Raises BudgetSpent."""
        next_status = 0.0
        notify.ready()  # the processes run; a robot that is switched off is no reason to restart them
        while not self.stopping and not until():
            for key, _ in self.selector.select(timeout=0.2):
                self._died(str(key.data))
            if time.monotonic() >= next_status:
                next_status = time.monotonic() + 0.5
                for name in [n for n, at_s in self._later.items() if time.monotonic() >= at_s]:
                    del self._later[name]
                    self._spawn(self.children[name].row)
                self._write_status()
                if not self.ready and self.is_ready():
                    self.ready = True
                    self.log.info("ready")
                notify.status("ready" if self.is_ready() else "; ".join(self.waiting_for()) or "not ready")
                if self._beats_fresh():
                    notify.watchdog()

    def _died(self, name: str) -> None:
        child = self.children[name]
        self.selector.unregister(child.pidfd)
        os.close(child.pidfd)
        if child.row.id is ProcessId.GATE:
            self._pwm_off()
        _, status, usage = os.wait4(child.process.pid, 0)
        child.process.returncode = os.waitstatus_to_exitcode(status)
        child.cpu_before_s += usage.ru_utime + usage.ru_stime
        if self.stopping:
            return
        now = time.monotonic()
        child.deaths.append(now)
        self.log.error("died", extra={"child": name, "exit": child.process.returncode, "promise": child.row.death})
        budget, window_s = self.config.supervisor.restart_budget, self.config.supervisor.restart_window_s
        spent = len(child.deaths) == budget and now - child.deaths[0] < window_s
        if spent and not child.row.essential:
            self._later[name] = now + window_s
            self.log.warning("given up for a while", extra={"child": name, "again_in_s": window_s})
            return
        if spent:
            raise BudgetSpent(
                f"{name} died {budget} times in {window_s:.0f} s (last exit {child.process.returncode}); "
                f"see {self.run_dir / (name + '.log')}"
            )
        self._spawn(child.row)

    def _reader(self, kind: BlockKind, process: ProcessId | None = None) -> ring.Reader | None:
        key = (kind, process)
        if key not in self._readers:
            with contextlib.suppress(ring.BlockError):
                self._readers[key] = ring.Reader(kind, self.config.shm.prefix, process)
        return self._readers.get(key)

    def _beats_fresh(self) -> bool:
        """Every process that owns a block wrote it within the last second (systemd's watchdog is fed by this)."""
        now = time.monotonic_ns()
        for child in self.children.values():
            if child.row.id is None or not child.row.blocks:
                continue
            kind = child.row.blocks[-1]
            reader = self._reader(kind, child.row.id if kind is BlockKind.WORD else None)
            if reader is None or now - reader.beat_ns > 1_000_000_000:
                since = self._blocked_since.setdefault(child.row.id, time.monotonic())
                if time.monotonic() - max(since, child.started_s) > child.row.start_deadline_s:
                    return False
            else:
                self._blocked_since.pop(child.row.id, None)
        return True

    def is_ready(self) -> bool:
        """All words true and the arm at rest, ready for a first step."""
        for process in [*required_words(self.config), ProcessId.EYE]:
            reader = self._reader(BlockKind.WORD, process)
            word = reader.latest() if reader else None
            if word is None or not word.data["ok"] or word.age_s > 1.0:
                return False
        arm = self._reader(BlockKind.ARM_STATUS)
        status = arm.latest() if arm else None
        return status is not None and status.age_s < 1.0 and int(status.data["state"]) == ArmState.READY

    def waiting_for(self) -> list[str]:
        """In plain words, what is not ready yet."""
        out = []
        for process in [*required_words(self.config), ProcessId.EYE]:
            reader = self._reader(BlockKind.WORD, process)
            word = reader.latest() if reader else None
            if word is None or word.age_s > 1.0:
                out.append(f"{process.name.lower()}: no word yet")
            elif not word.data["ok"]:
                out.append(f"{process.name.lower()}: {ring.text(word.data['detail']) or 'starting'}")
        arm = self._reader(BlockKind.ARM_STATUS)
        status = arm.latest() if arm else None
        if status is None:
            out.append("arm: no status yet")
        elif (state := int(status.data["state"])) != ArmState.READY:
            known = state in ArmState._value2member_map_
            out.append(f"arm: {ArmState(state).name.lower() if known else f'state {state}, which there is not'}")
        return out

    def _write_status(self) -> None:
        status = {
            "pid": os.getpid(),
            "ready": self.ready and not self.stopping,
            "waiting_for": [] if self.ready or self.stopping else self.waiting_for(),
            "ended": self.ended,
            "processes": {
                name: {"pid": c.process.pid, "restarts": c.restarts, "cpu_s": round(c.cpu_s(), 2)}
                for name, c in self.children.items()
            },
        }
        scratch = self.run_dir / ".status.json"
        scratch.write_text(json.dumps(status, indent=1))
        scratch.rename(self.run_dir / "status.json")

    def _pwm_off(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "wardarm.gate.pwm_off", "--config", str(self.file)], timeout=10, check=False
        )

    def stop(self) -> None:
        """The arm to rest and the PWM off first, then bottom to top: SIGTERM, SIGKILL to what does not end in time."""
        self.stopping = True
        notify.stopping()
        notify.status(self.ended or "stopping: the arm comes to rest, then every process ends")
        self._write_status()
        gate, arm = self.children.get("gate"), self.children.get("arm")
        if arm is not None and arm.process.poll() is None:
            arm.process.send_signal(signal.SIGTERM)  # it knows that the system ends before it hears that gate did
        if gate is not None:
            self._end([gate])
        self._pwm_off()
        rest = [c for name, c in reversed(self.children.items()) if name != "gate"]
        self._end(
            [c for c in rest if c.row.name == "arm"]
        )  # the player ramps and the fingers stay while the robot is there
        self._end([c for c in rest if c.row.name not in ("arm", "gate", "sim", "views")])
        self._end([c for c in rest if c.row.name in ("sim", "views")])
        self.log.info("stopped", extra={"cpu_s": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 1)})

    def _end(self, children: list[Child]) -> None:
        running = [c for c in children if c.process.poll() is None]
        for child in running:
            child.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + STOP_DEADLINE_S
        for child in running:
            try:
                child.process.wait(max(0.05, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.log.warning("killed", extra={"child": child.row.name})
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait()


def run(config: Config, run_dir: Path) -> int:
    """Run until SIGTERM or SIGINT. Exit status 0, or 1 when a process spent its restart budget."""
    supervisor = Supervisor(config, run_dir)

    def ask_to_stop(_signal: int, _frame: object) -> None:
        supervisor.stopping = True

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        supervisor.start()
        supervisor.watch()
        return 0
    except (BudgetSpent, AlreadyRunning) as e:
        supervisor.ended = str(e)
        supervisor.log.critical(supervisor.ended)
        return 1
    finally:
        if supervisor.claimed:
            supervisor.stop()
