"""One running system that serves many cells: starts it, brings it back to ready after each, knows its processes."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from wardarm import config as configuration
from wardarm.client import FINAL, Client, Lease, Refused
from wardarm.sim import scenes
from wardarm.sim.control import ControlError, ask
from wardarm.sim.demo.run import System, desk_config
from wardarm.sim.demo.staging import reference, stage
from wardarm.sim.matrix.witness import Witness
from wardarm.v1 import control_pb2, hold_pb2, state_pb2, task_pb2

SENTENCE = "把桌角的蓝色水杯拿给我"
SEED = 8
_READY = state_pb2.ARM_STATE_READY
_OVERRIDES: dict[str, object] = {
    # fewer pictures on a small machine: one room camera, both slower; every process is still there
    "sim.d455_fps": 5.0,
    "sim.room_fps": 4.0,
    "guard.fps": 4.0,
    "supervisor.restart_budget": 1000,
    "alert.command": "true",
    "poses.park": [0.55, -0.50, 0.40, 0, 0, 0],  # 0.56 m from home: a sweep of three seconds, over a seam
}


class BedLost(RuntimeError):
    """The system did not come back to ready; it has to be started anew."""


class Bed:
    def __init__(self, out: Path, overrides: dict[str, object] | None = None) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.out = out
        self.scene, self.cup = stage(reference("cup", "blue", "corner"), SEED)
        scenes.save(self.scene, out / "scene.json")
        config = desk_config(out, SEED, out / "scene.json")
        whole = config.model_copy(
            update={
                "guard": config.guard.model_copy(update={"cameras": config.guard.cameras[:1]}),
                "sim": config.sim.model_copy(update={"record": ""}),
            }
        )
        configuration.dump(whole, out / "matrix.json")
        self.config = configuration.load(out / "matrix.json", {**_OVERRIDES, **(overrides or {})})
        self.system = System(self.config, out / "run")
        try:
            for _ in self.system.wait_ready():
                pass
        except BaseException:
            self.system.stop()
            raise
        self.client = Client(self.config.api.address, self.config.api.stop_address, name="matrix", timeout_s=3.0)
        self.witness = Witness(self.config.arm)
        self.lease: Lease | None = None
        self.task_id = ""
        self.at = "home"
        self.word_s: float | None = None  # controller time of the first word that ended a hold in the last `settle`

    def close(self) -> None:
        self.witness.close()
        if self.lease is not None:
            self.lease.close()
        self.client.close()
        self.system.stop()

    # --- the simulation

    def sim(self, command: str, *words: Any, **fields: Any) -> dict[str, Any]:
        return ask(self.config.sim.address, self.config.sim.control_port, command, *words, **fields)

    def held(self) -> bool:
        assert self.cup is not None
        return any(p["name"] == self.cup.name and p["held"] for p in self.sim("report")["pieces"])

    def carries(self) -> bool:
        """The cup is between the fingers, and the arm knows it: after a restart of arm it does not."""
        state = self.state()
        return self.held() and state is not None and state.arm.holding == state_pb2.HOLDING_OBJECT

    # --- processes

    def pids(self, name: str) -> list[int]:
        """Of a process by name; gate's companion and Triton's server are their parents' children."""
        processes = self.system.status().get("processes", {})
        if name == "deadman":
            return [p for p in _children(int(processes["gate"]["pid"])) if b"wardarm.gate.deadman" in _command(p)]
        pid = int(processes[name]["pid"])
        return [pid, *_descendants(pid)] if name == "triton" else [pid]

    # --- the client's part

    def state(self) -> Any | None:
        with contextlib.suppress(Refused):
            return self.client.state()
        return None

    def owned(self, deadline_s: float = 30.0) -> Lease:
        end = time.monotonic() + deadline_s
        while self.lease is None or self.lease.lost.is_set():
            try:
                request = control_pb2.AcquireLeaseRequest(client="matrix")
                self.lease = Lease(self.client, self.client.control.AcquireLease(request, timeout=3).lease)
            except Exception as e:
                if time.monotonic() > end:
                    raise BedLost(f"no lease: {e}") from e
                time.sleep(0.2)
        return self.lease

    def sweep(self) -> None:
        """Ask for the movement to the other of two poses."""
        self.at = "park" if self.at == "home" else "home"
        kind = task_pb2.MOVEMENT_PARK if self.at == "park" else task_pb2.MOVEMENT_HOME
        self.task_id = self.client.create_task(self.owned(), movement=kind).task_id

    def fetch(self) -> None:
        self.task_id = self.client.create_task(self.owned(), instruction=SENTENCE).task_id

    def busy(self) -> bool:
        """Whether a task of ours is not over."""
        if not self.task_id:
            return False
        try:
            return self.client.task(self.task_id).state not in FINAL
        except Refused:
            return True

    def end_task(self) -> None:
        end = time.monotonic() + 10
        while self.busy() and time.monotonic() < end:
            with contextlib.suppress(Refused):
                self.client.cancel(self.owned(), self.task_id)
            time.sleep(0.1)
        self.task_id = ""

    def settle(self, deadline_s: float = 45.0, keep_task: bool = False) -> list[str]:
        """Causes gone, holds resumed, the arm READY. Returns what was resumed. Raises BedLost."""
        resumed: list[str] = []
        self.word_s = None
        end, said = time.monotonic() + deadline_s, ""
        while time.monotonic() < end:
            try:
                state = self.client.state()
                arm, holds = state.arm, list(state.holds)
                own = hold_pb2.PROCESS_NAME_ARM
                others = all(w.ok for w in state.words if w.process != own)
                if not holds and others and arm.state == _READY:
                    return resumed
                if (
                    not holds
                    and others
                    and arm.state in (state_pb2.ARM_STATE_RUNNING, state_pb2.ARM_STATE_LOADED)
                    and keep_task
                ):
                    return resumed
                if arm.state == state_pb2.ARM_STATE_PROTECTIVE:
                    self.client.control.Recover(
                        control_pb2.RecoverRequest(
                            lease_id=self.owned().lease_id, actor="matrix", reason="matrix: looked at"
                        ),
                        timeout=8,
                    )
                elif arm.robot_mode != 7 and arm.state in (state_pb2.ARM_STATE_CONNECTED, state_pb2.ARM_STATE_HELD):
                    self.client.control.PowerOn(
                        control_pb2.PowerOnRequest(lease_id=self.owned().lease_id, actor="matrix"), timeout=8
                    )
                if holds and arm.at_rest and any(h.reason == hold_pb2.HOLD_REASON_STOP for h in holds):
                    holds = list(self.client.clear_stop(self.owned()))
                if holds and all(h.clearable for h in holds) and arm.at_rest:
                    last = self.witness.last()
                    if self.word_s is None and last is not None:
                        self.word_s = float(last["timestamp"])
                    self.client.resume([h.token for h in holds], self.owned())
                    resumed += [hold_pb2.HoldReason.Name(h.reason).removeprefix("HOLD_REASON_") for h in holds]
            except Exception as e:
                said = str(e)
            time.sleep(0.1)
        raise BedLost(f"not ready again after {deadline_s:.0f} s: {said[:200]}")

    def take_cup(self) -> None:
        """Fetch until the cup is lifted, then hold it there: what follows carries it."""
        self.end_task()
        self.settle()
        self.give_cup()
        self.sim("load_scene", scene=self.scene.to_json())
        end = time.monotonic() + 150
        while (state := self.state()) is None or state.arm.holding != state_pb2.HOLDING_NOTHING:
            if time.monotonic() > end - 140:
                raise BedLost("the fingers do not say that they are empty")
            time.sleep(0.1)
        self.fetch()
        assert self.cup is not None
        while time.monotonic() < end:
            piece = next(p for p in self.sim("report")["pieces"] if p["name"] == self.cup.name)
            if piece["held"] and piece["rise_m"] > 0.08:
                self.end_task()
                self.settle()
                return
            if not self.busy():
                raise BedLost(f"the cup was not taken: {self.client.task(self.task_id).text_en}")
            time.sleep(0.05)
        raise BedLost("the cup was not taken in 150 s")

    def give_cup(self) -> None:
        """Put down what is held; where that is refused (its height is not known any more), open the fingers."""
        for movement in (task_pb2.MOVEMENT_SET_DOWN_HERE, task_pb2.MOVEMENT_RELEASE):
            if not self.held():
                return
            with contextlib.suppress(Refused, ControlError, BedLost):
                self.task_id = self.client.create_task(self.owned(), movement=movement).task_id
                end = time.monotonic() + 20
                while self.busy() and time.monotonic() < end:
                    time.sleep(0.1)
                self.settle(30)


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return b""


def _children(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(p) for p in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    return found


def _descendants(pid: int) -> list[int]:
    out = []
    for child in _children(pid):
        out += [child, *_descendants(child)]
    return out
