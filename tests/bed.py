"""A running system on its simulated devices, for tests that ask as a client would and judge by the physics."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wardarm import config as configuration
from wardarm.client import Client
from wardarm.config import Config
from wardarm.sim import scenes
from wardarm.sim.control import ask
from wardarm.sim.demo.run import System, desk_config
from wardarm.v1 import hold_pb2

PATIENCE_S = 150


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

    def q_rad(self) -> list[float]:
        return list(self.client.state().arm.q_rad)


def causes_gone(state: Any) -> bool:
    """Every word but arm's own is true again; arm's repeats the latched holds."""
    return all(w.ok for w in state.words if w.process != hold_pb2.PROCESS_NAME_ARM)
