"""Process `sim`: the bedside in real time. Arm, gripper, tableware, patient and visitor in one 500 Hz loop.

In: URScript programs, RTDE, dashboard, PWM edges, commands on the control port. Out: the controller's sockets, the
gripper's socket, the world state in /dev/shm for `views`. Deadline: a 2 ms cycle; when the machine is too slow the
simulated time slows with the controller, and `sim_rate` says by how much. When it dies, the controller is gone:
OFFLINE.

    python -m wardarm.sim.bedside --config desk [--scene FILE] [--record FILE]
"""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from wardarm import config as configuration
from wardarm.sim import robot, scenes
from wardarm.sim.control import worded
from wardarm.sim.gripper import GripperPort
from wardarm.sim.injections import Injections
from wardarm.sim.judge import Judge
from wardarm.sim.mujoco_plant import MujocoPlant
from wardarm.sim.recording import Recorder
from wardarm.sim.ur_controller import Controller, DhParameters, Server, run_realtime
from wardarm.sim.world import STEP_S, World
from wardarm.sim.world_state import WorldWriter

log = logging.getLogger("wardarm.sim")
_PUBLISH_S = 1 / 60


class Bedside:
    """The simulated bedside: world, judge, controller, ports. After each controller tick call `after_tick`.

    Raises OSError if a port is taken.
    """

    def __init__(self, config: configuration.Config, scene: scenes.Scene, record: str | Path | None = None) -> None:
        self.world = World()
        self.world.load(scene)
        self.judge = Judge(self.world)
        self.plant = MujocoPlant(self.world, self.judge)
        self.injections = Injections(self.world, self.judge)
        arm = config.arm
        dh = DhParameters(a=arm.dh_a, d=arm.dh_d, alpha=arm.dh_alpha)
        self.controller = Controller(self.plant, dh, arm.tcp, q=robot.HOME_Q_RAD)
        pwm = config.gate.output.removeprefix("unix:") if config.gate.output.startswith("unix:") else None
        self.server = Server(
            self.controller,
            config.sim.address,
            pwm_path=pwm,
            pwm_pin=arm.encoder_pins[0],
            services=[GripperPort(self.plant.fingers, arm.gripper_port)],
            commands={
                name: worded(function)
                for name, function in {
                    **self.injections.commands(),
                    "report": self.report,
                    "record": self.record,
                }.items()
            },
            control_port=config.sim.control_port,
        )
        self._writer = WorldWriter(config.shm.prefix)
        self._recorder: Recorder | None = None
        self.record(str(record) if record else None)
        self._publish_at_s = 0.0

    def after_tick(self) -> None:
        """The visitor walks; about every eighth cycle the world state is published."""
        self.injections.advance(STEP_S)
        if self.world.data.time >= self._publish_at_s:
            self._publish_at_s = self.world.data.time + _PUBLISH_S
            self.publish()

    def publish(self) -> None:
        i = self.injections
        state = self.world.state(time.monotonic_ns(), self.server.sim_rate, i.light, i.scene_id, i.blackout)
        state["camera_shift_m"], state["camera_turn_rad"] = i.camera_shift_m, i.camera_turn_rad
        self._writer.publish(state)
        if self._recorder is not None:
            self._recorder.offer(state)

    def report(self) -> dict[str, Any]:
        """Where everything is and what happened so far."""
        return {
            **self.judge.report(),
            **self.injections.report(),
            "time_s": self.world.data.time,
            "sim_rate": self.server.sim_rate,
        }

    def record(self, path: str | None = None) -> None:
        """Record world states to a file made anew, or end the recording."""
        if self._recorder is not None:
            self._recorder.close()
        self._recorder = Recorder(path) if path else None

    def close(self) -> None:
        self.server.close()
        self._writer.close()
        if self._recorder is not None:
            self._recorder.close()


def scene_of(config: configuration.Config) -> scenes.Scene:
    return scenes.load(config.sim.scene) if config.sim.scene else scenes.demo_scene(config.sim.seed)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 after a signal, 1 if a port is taken or the scene cannot be used."""
    parser = argparse.ArgumentParser(prog="wardarm.sim.bedside", description="run the simulated bedside")
    parser.add_argument("--config", required=True)
    parser.add_argument("--scene", help="a scene file (JSON); default: sim.scene, or drawn from sim.seed")
    parser.add_argument("--record", help="write world states to this file, 30 a second")
    parser.add_argument("--write-scene", metavar="FILE", help="write the scene to this file and end")
    args = parser.parse_args(argv)
    config = configuration.load(args.config)
    logging.basicConfig(level=config.log.level.upper())
    ended: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        ended.append(number)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    sys.setswitchinterval(0.0005)  # the script compiler's thread must not hold up the 2 ms cycle
    try:
        scene = scenes.load(args.scene) if args.scene else scene_of(config)
        if args.write_scene:
            scenes.save(scene, args.write_scene)
            return 0
        bedside = Bedside(config, scene, args.record or config.sim.record or None)
    except (OSError, scenes.SceneError) as e:
        print(f"wardarm sim ({config.sim.address}): {e}", file=sys.stderr)
        return 1
    gc.collect()
    gc.freeze()  # the model's objects live as long as the process: keep the collector off them
    log.info("bedside up on %s: %d pieces on the table", config.sim.address, len(scene.objects))
    try:
        run_realtime(bedside.controller, bedside.server, bedside.after_tick, lambda: bool(ended))
    finally:
        bedside.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
