"""A running system on its simulated devices, for tests that ask as a client would and judge by the physics."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wardarm import config as configuration
from wardarm.client import Client, Lease, Refused
from wardarm.config import Config
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind
from wardarm.sim import scenes
from wardarm.sim.control import ask
from wardarm.sim.demo.attendant import Attendant
from wardarm.sim.demo.run import System, desk_config
from wardarm.v1 import hold_pb2, task_pb2

PATIENCE_S = 150
UNHURRIED: dict[str, object] = {"gate.word_deadline_ms": 1000.0}
"""For tests that are about no deadline: the machine may stand still for a while."""


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
        self.world("knock_camera")
        self.world("blackout", camera="d455", on=False)
        self.world("visitor", to="away")
        state = self.client.state()
        if state.HasField("task") or state.holds:
            with self.client.lease() as lease:
                if state.HasField("task"):
                    self.client.cancel(lease, state.task.task_id)
                    self.wait("cancelled", lambda s: not s.HasField("task"))
                end = time.monotonic() + PATIENCE_S
                while (state := self.client.state()).holds:
                    assert time.monotonic() < end, f"held: {state}"
                    with contextlib.suppress(Refused):  # its cause is back, or another hold came in between
                        self.client.resume([h.token for h in state.holds], lease)
                    time.sleep(0.2)
        self.world("load_scene", scene=scene.to_json())

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

    def attended(self, lease: Lease) -> Attendant:
        """Somebody who resumes, with a warning, what is held because a program of this machine was late."""
        return Attendant(self.client, lambda late: warnings.warn(f"late on this machine: {late}", stacklevel=1), lease)

    def wait_pictures(self, count: int = 3) -> None:
        """Until the bedside camera has given so many more: what was done to the world before is in them."""
        meta = ring.Reader(BlockKind.FRAME_META, self.config.shm.prefix)

        def number() -> int:
            slot = meta.latest()
            return 0 if slot is None else int(slot.data["frame_number"])

        last = number() + count
        self.wait("pictures", lambda _: number() >= last)

    def q_rad(self) -> list[float]:
        return list(self.client.state().arm.q_rad)


def causes_gone(state: Any) -> bool:
    """Every word but arm's own is true again; arm's repeats the latched holds. What ends by itself has ended."""
    starting = any(h.reason == hold_pb2.HOLD_REASON_STARTING for h in state.holds)
    return not starting and all(w.ok for w in state.words if w.process != hold_pb2.PROCESS_NAME_ARM)
