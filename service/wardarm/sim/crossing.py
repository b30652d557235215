"""A visitor crosses the line while the arm moves: exposure to word, exposure to rest, and the way the arm still made.

One running system does many runs: the arm goes to and fro between two poses, somebody walks over the edge of the
keep-out floor, guard sees them, the arm comes to rest; they leave, a person resumes. The clock starts with the exposure of
the first room picture in which the visitor covers 0.5 % of that camera's zone (counted from the pictures, against the same
view a moment before), and stops with the first sample of the controller's own 500 Hz record in which every joint is at rest.
`stop_ms` is that time on CLOCK_MONOTONIC; a simulation that falls behind stretches what the controller does, so
`stop_controller_ms` counts the part after the word on the controller's clock. `crossing_record` says what the parts are.

    python -m wardarm.sim.crossing --runs 3 --profile ward --out DIR --json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from wardarm import config as configuration
from wardarm.client import Client, Refused
from wardarm.sim import scenes
from wardarm.sim.control import ask
from wardarm.sim.crossing_record import NotDone, Run, Watch
from wardarm.sim.demo.run import System, desk_config
from wardarm.v1 import hold_pb2, task_pb2

__all__ = ["Crossing", "NotDone", "Run", "Watch", "summary"]

WALK_M_S = 1.4
OUTSIDE, INSIDE = (3.4, -1.45), (0.70, -1.00)  # (x, y) m: in the corridor, and a step inside the keep-out floor
POSES = {"poses.home": [0.30, 0.0, 0.42, 0, 0, 0], "poses.park": [0.45, -0.40, 0.30, 0, 0, 0]}
ROOM_FPS = 15.0
PATIENCE_S = 90.0


class Crossing:
    """A running bedside for many runs. `close` it."""

    def __init__(self, out: Path, profile: str = "ward", more: dict[str, object] | None = None) -> None:
        out.mkdir(parents=True, exist_ok=True)
        scene = scenes.demo_scene(7)
        scenes.save(scene, out / "scene.json")
        base = desk_config(out, scene.seed, out / "scene.json")
        configuration.dump(base, out / "desk.json")
        overrides: dict[str, object] = {
            "profile": profile, "sim.room_fps": ROOM_FPS, "guard.fps": ROOM_FPS, "guard.fps_min_percent": 0.0,
            "sim.d455_fps": 4.0, "camera.lost_s": 3.0, "gate.word_deadline_ms": 250.0, "alert.enabled": False,
        }  # fmt: skip
        self.config = configuration.load(out / "desk.json", overrides | POSES | (more or {}))
        self.system = System(self.config, out / "run")
        try:
            for _ in self.system.wait_ready():
                pass
        except BaseException:
            self.system.stop()
            raise
        self.client = Client(self.config.api.address, self.config.api.stop_address, name="crossing")
        self._to_park = True

    def close(self) -> None:
        self.client.close()
        self.system.stop()

    def world(self, command: str, **fields: Any) -> dict[str, Any]:
        return ask(self.config.sim.address, self.config.sim.control_port, command, **fields)

    def _wait(self, what: str, when: Any, seconds: float = PATIENCE_S) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.client.state()
            if when(state):
                return state
            time.sleep(0.05)
        raise NotDone(f"{what}: not within {seconds:g} s")

    def run(self) -> Run:
        """One crossing. Raises NotDone."""
        self.world("visitor", x_m=OUTSIDE[0], y_m=OUTSIDE[1], at_once=True)
        self.free()
        watch = Watch(self.config, self.system.run_dir / "guard.log")
        task = threading.Thread(target=self._to_and_fro, name="task", daemon=True)
        try:
            task.start()
            self._wait("the arm moves", lambda s: not s.arm.at_rest, 30)
            watch.start()
            time.sleep(0.35)  # pictures of the view as it is now
            self.world("visitor", x_m=INSIDE[0], y_m=INSIDE[1], speed_m_s=WALK_M_S)
            self._wait("a hold", lambda s: len(s.holds) > 0 and s.arm.at_rest, 30)
            time.sleep(0.3)
        finally:
            watch.ended.set()
            watch.join()
            self.world("visitor", x_m=OUTSIDE[0], y_m=OUTSIDE[1], at_once=True)
            self.free()
            task.join(PATIENCE_S)
        return watch.result()

    def _to_and_fro(self) -> None:
        movement = task_pb2.MOVEMENT_PARK if self._to_park else task_pb2.MOVEMENT_HOME
        self._to_park = not self._to_park
        with contextlib.suppress(Refused):
            self.move(movement)

    def move(self, movement: int) -> int:
        """Carry a movement out and wait for its end; the task's state. Raises Refused."""
        with self.client.lease() as lease:
            task = self.client.create_task(lease, movement=movement)
            return int(self.client.follow(task.task_id, lease).state)

    def free(self) -> None:
        """Once every cause is gone, resume what is held."""
        arm = hold_pb2.PROCESS_NAME_ARM
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            state = self._wait("clear views", lambda s: all(w.ok for w in s.words if w.process != arm))
            if not state.holds:
                return
            tokens = [h.token for h in state.holds]
            try:
                self.client.resume(tokens)  # while the task's own lease lives
            except Refused:
                with contextlib.suppress(Refused), self.client.lease() as lease:
                    self.client.resume(tokens, lease)
            time.sleep(0.2)
        raise NotDone("the hold cannot be resumed")


def summary(runs: list[Run], failed: list[str], profile: str) -> dict[str, Any]:
    """p50, p99 and the largest of every figure."""
    out: dict[str, Any] = {
        "profile": profile,
        "runs": len(runs),
        "failed": failed,
        "room_fps": ROOM_FPS,
        "simulated": True,
    }
    for key in [f.name for f in fields(Run) if f.name != "camera"]:
        values = [float(getattr(r, key)) for r in runs]
        if values:
            p50, p99 = np.percentile(values, [50, 99])
            out[key] = {
                "p50": round(float(p50), 3),
                "p99": round(float(p99), 3),
                "max": max(values),
                "min": min(values),
            }
    return out


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="wardarm.sim.crossing", description="a visitor crosses the line of the simulated bedside"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", default="ward")
    parser.add_argument("--out", type=Path, default=Path("out/crossing"))
    parser.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    args = parser.parse_args()
    bed = Crossing(args.out, args.profile)
    runs: list[Run] = []
    failed: list[str] = []
    try:
        for _ in range(args.runs):
            try:
                runs.append(bed.run())
            except NotDone as e:
                failed.append(str(e))
    finally:
        bed.close()
    figures = summary(runs, failed, args.profile)
    print(json.dumps(figures) if args.json else json.dumps({**figures, "each": [asdict(r) for r in runs]}, indent=1))
    return 0 if runs else 1


if __name__ == "__main__":
    sys.exit(main())
