"""Trials through the running daemon in real time (`wardarm eval --daemon`): camera process, Triton, postproc, arm, player.

Trial i of seed S has the scene and the sentence that it has in lock-step; light, colours and camera are nominal, as the
simulated desk shows them. Fetches only: the others' ends are judged in lock-step. What a machine that stood still was held
for is resumed (`sim.demo.attendant`) and counted with the trial.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.client import Client, Refused
from wardarm.ops import limits
from wardarm.ops.rtde_log import recorded
from wardarm.sim import scenes
from wardarm.sim.control import ask
from wardarm.sim.demo.attendant import Attendant
from wardarm.sim.demo.run import System, desk_config
from wardarm.training import tasks
from wardarm.training.phrases import Split
from wardarm.training.trial import KINDS, Trial, language
from wardarm.v1 import task_pb2

DEADLINE_S = 120.0  # of one task; then it is stopped


class DaemonBench:
    """One running system; it is started anew after a trial that did not end well."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.out = Path(tempfile.mkdtemp(prefix="wardarm_eval_"))
        self.config: Any = None
        self._system: System | None = None
        self.resumed = 0

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self.out, ignore_errors=True)

    def _stop(self) -> None:
        if self._system is not None:
            self.resumed += len(self._system.resumed)
            self._system.stop()
            self._system = None

    def _start(self, scene: scenes.Scene) -> None:
        scenes.save(scene, self.out / "scene.json")
        self.config = desk_config(self.out, scene.seed, self.out / "scene.json")
        self._system = System(self.config, self.out / "run")
        for _ in self._system.wait_ready():
            pass

    def _world(self, command: str, **fields: Any) -> dict[str, Any]:
        return ask(self.config.sim.address, self.config.sim.control_port, command, **fields)

    def run(self, kind: str, seed: int, number: int) -> Trial:
        rng = np.random.default_rng([seed, number, KINDS.index(kind)])
        scene, task = tasks.draw_for_trial(rng, kind)  # type: ignore[arg-type]
        text = tasks.ask(rng, scene, task, self.split)
        trial = Trial(kind, number, language(text), text)
        if self._system is None:
            self._start(scene)
        self._world("load_scene", scene=scene.to_json())
        touches = self._world("report")["touches"]
        with recorded(self.config.arm.host) as log:
            self._say(text, trial)
        samples = log.array()
        trial.seconds = round(len(samples) * 0.002, 2)
        trial.limit_ratio = round(limits.ratios(limits.motion(samples, self.config.arm), self.config.limits).largest, 4)
        after = self._world("report")
        pieces = {p["name"]: p for p in after["pieces"]}
        trial.success = bool(pieces[task.piece.name]["fetched"])
        lifted = [n for n, p in pieces.items() if p["lifted"]]
        trial.grounded = (lifted == [task.piece.name]) if lifted else None
        trial.table_contacts = after["touches"]["table"] - touches["table"]
        trial.patient_contacts = after["touches"]["patient"] - touches["patient"]
        if trial.success:
            trial.reason = ""
        else:
            self._stop()
        return trial

    def _say(self, text: str, trial: Trial) -> None:
        with (
            Client(self.config.api.address, self.config.api.stop_address, name="eval") as client,
            Attendant(client, self._resumes),
        ):
            late = threading.Timer(DEADLINE_S, lambda: client.stop(f"not ended within {DEADLINE_S:.0f} s"))
            late.start()
            try:
                task = client.say(text)
                trial.refused = task.state == task_pb2.TASK_STATE_REFUSED
                trial.reason = task.text_en
                trial.retries = sum(max(0, s.grasp_attempts - 1) for s in task.steps)
            except Refused as e:
                trial.refused, trial.reason = True, e.text
            finally:
                late.cancel()

    def _resumes(self, _late: str) -> None:
        self.resumed += 1
