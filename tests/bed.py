"""A running system on its simulated devices, for tests that ask as a client would and judge by the physics."""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wardarm import config as configuration
from wardarm.client import Client, Lease, Refused
from wardarm.config import Config
from wardarm.sim import scenes
from wardarm.sim.control import ask
from wardarm.sim.demo.run import System, desk_config
from wardarm.v1 import hold_pb2, task_pb2

PATIENCE_S = 150
# What a machine that stood still for a moment is rightly held for. Nothing else is looked past.
LATE = frozenset(
    {
        hold_pb2.HOLD_REASON_WATCHDOG,
        hold_pb2.HOLD_REASON_INFERENCE_STALE,
        hold_pb2.HOLD_REASON_GATE_FAULT,
        hold_pb2.HOLD_REASON_CAMERA_LOST,
        hold_pb2.HOLD_REASON_ROOM_CAMERA_LOST,
        hold_pb2.HOLD_REASON_LEASE_LOST,
    }
)
NO_DATA = "no data"  # of a ROBOT hold that is only that: RTDE was late
RESUMES = 3  # of one task; more is a fault and not a moment


class Bed:
    """Starts in `out`; `overrides` are dotted configuration keys."""

    def __init__(self, out: Path, scene: scenes.Scene, overrides: dict[str, object] | None = None) -> None:
        out.mkdir(parents=True, exist_ok=True)
        scenes.save(scene, out / "scene.json")
        self.config: Config = desk_config(out, scene.seed, out / "scene.json")
        if overrides:
            configuration.dump(self.config, out / "desk.json")
            self.config = configuration.load(out / "desk.json", overrides)
        self.system = System(self.config, out / "run")
        for _ in self.system.wait_ready():
            pass
        self.client = Client(self.config.api.address, self.config.api.stop_address, name="test")

    def close(self) -> None:
        self.client.close()
        self.system.stop()

    def world(self, command: str = "report", **fields: Any) -> dict[str, Any]:
        return ask(self.config.sim.address, self.config.sim.control_port, command, **fields)

    def load(self, scene: scenes.Scene) -> None:
        """Lay the scene, at a bedside where nothing is under way or held: an earlier test must not fail this one."""
        state = self.client.state()
        if state.HasField("task") or state.holds:
            with self.client.lease() as lease:
                if state.HasField("task"):
                    self.client.cancel(lease, state.task.task_id)
                    self.wait("cancelled", lambda s: not s.HasField("task"))
                end = time.monotonic() + PATIENCE_S
                while (state := self.client.state()).holds:
                    assert time.monotonic() < end, f"held: {state}"
                    self._resume(state, lease)
        self.world("load_scene", scene=scene.to_json())

    def _resume(self, state: Any, lease: Lease) -> bool:
        with contextlib.suppress(Refused):  # its cause is back, or another hold came in between
            self.client.resume([h.token for h in state.holds], lease)
            return True
        time.sleep(0.5)
        return False

    def piece(self, name: str) -> dict[str, Any]:
        return next(p for p in self.world()["pieces"] if p["name"] == name)

    def wait(self, what: str, when: Callable[[Any], bool], seconds: float = PATIENCE_S) -> Any:
        """The first state of which `when` is true. Fails, naming `what`, if none comes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.client.state()
            if when(state):
                return state
            time.sleep(0.1)
        raise AssertionError(f"{what}: not within {seconds} s; last state {state}")

    def say(self, sentence: str) -> Any:
        """A sentence to the end of its task, by somebody who stands at the bed. Returns the `Task` as it ended."""
        with self.client.lease() as lease:
            return self.follow(self.client.create_task(lease, instruction=sentence), lease)

    def follow(self, task: Any, lease: Lease) -> Any:
        """The task's end, at an attended bed. More than `PATIENCE_S` of it fails with the state in words."""
        end = time.monotonic() + PATIENCE_S
        with self.attended(lease):
            while (now := self.client.task(task.task_id)).state < task_pb2.TASK_STATE_DONE:
                assert time.monotonic() < end, f"not ended within {PATIENCE_S} s: {now}; {self.client.state()}"
                time.sleep(0.1)
        return now

    @contextlib.contextmanager
    def attended(self, lease: Lease) -> Iterator[None]:
        """Somebody resumes a hold whose reason is that a program of this machine was late, with a warning."""
        over = threading.Event()

        def look() -> None:
            resumes = 0
            while not over.wait(0.5) and resumes < RESUMES:
                state = self.client.state()
                if state.holds and all(_late(h) for h in state.holds) and self._resume(state, lease):
                    resumes += 1
                    warnings.warn("late on this machine: " + "; ".join(h.detail for h in state.holds), stacklevel=1)

        nurse = threading.Thread(target=look, daemon=True)
        nurse.start()
        try:
            yield
        finally:
            over.set()
            nurse.join()

    def q_rad(self) -> list[float]:
        return list(self.client.state().arm.q_rad)


def _late(hold: Any) -> bool:
    no_data = hold.reason == hold_pb2.HOLD_REASON_ROBOT and NO_DATA in hold.detail
    return hold.clearable and (hold.reason in LATE or no_data)


def causes_gone(state: Any) -> bool:
    """Every word but arm's own is true again; arm's repeats the latched holds."""
    return all(w.ok for w in state.words if w.process != hold_pb2.PROCESS_NAME_ARM)
