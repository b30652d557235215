"""The demonstration's client: asks through gRPC as ward software would, and shows how it goes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from wardarm.client import Client, Refused
from wardarm.config import Config
from wardarm.ops import installation
from wardarm.policy.instruction import Instructions
from wardarm.sim.demo.attendant import Attendant
from wardarm.sim.demo.staging import reference
from wardarm.training.language import Reference
from wardarm.v1 import task_pb2

CLIENT = "wardarm demo"
REST_DEADLINE_S = 6.0
HELD_PATIENCE_S = 12.0


@dataclass
class Outcome:
    """How the task ended. `state` is the task's name without its prefix; REFUSED also when no task was made."""

    state: str
    reason: str = ""
    steps: list[dict[str, Any]] = field(default_factory=list)
    model: dict[str, str] = field(default_factory=dict)
    at_rest: bool = False
    resumed: list[str] = field(default_factory=list)  # why, each time: this machine was late, and Resume was pressed

    @property
    def done(self) -> bool:
        return self.state == "DONE"


def named(instruction: str) -> Reference | None:
    """What the sentence's first fetch names, in the scene's words; None for sentences that name nothing."""
    tokenizer = installation.within("model_repository") / "groot_n15" / "1" / "tokenizer.model"
    for step in Instructions(tokenizer).read(instruction).steps:
        if step.object:
            return reference(step.object, step.color, step.place)
    return None


def say(config: Config, instruction: str, deadline_s: float, console: Console) -> Outcome:
    """Say the sentence and follow its task to the end, at most `deadline_s`; then it is stopped, and FAILED.

    Never raises for a sentence that is refused: that is an outcome. What is held because this machine was late is
    resumed, as somebody at the bed would (`Attendant`), and kept in `resumed`.
    """
    with Client(config.api.address, config.api.stop_address, name=CLIENT) as client:
        info = client.info().model
        outcome = Outcome("REFUSED", model={"name": info.name, "sha256": info.sha256})
        patience = _Patience(client, deadline_s)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        try:
            with (
                Progress(*columns, console=console, transient=True) as bar,
                Attendant(client, outcome.resumed.append),
            ):
                row = bar.add_task("asking", total=1.0)

                def show(event: Any) -> None:
                    patience.seen(event)
                    words = _name(task_pb2.StepState, event.step_state, "STEP_STATE_").lower().replace("_", " ")
                    bar.update(row, completed=event.fraction, description=f"{words}: {event.text_en}"[:70])

                task = client.say(instruction, show)
        except Refused as e:
            outcome.reason = e.text
        else:
            outcome.state = _name(task_pb2.TaskState, task.state, "TASK_STATE_")
            outcome.reason = task.text_en
            outcome.steps = [
                {
                    "kind": _name(task_pb2.StepKind, s.kind, "STEP_KIND_").lower(),
                    "object": s.object,
                    "color": s.color,
                    "text": s.model_text,
                    "state": _name(task_pb2.StepState, s.state, "STEP_STATE_").lower(),
                    "reason": s.reason,
                    "grasp_attempts": s.grasp_attempts,
                }
                for s in task.steps
            ]
        finally:
            patience.end()
        outcome.at_rest = _wait_for_rest(client)
        return outcome


class _Patience:
    """Stops a task that takes too long, or that is held with nobody there to say that it may go on."""

    def __init__(self, client: Client, deadline_s: float) -> None:
        self._client = client
        self._held: threading.Timer | None = None
        self._late = self._timer(deadline_s, f"the demonstration's {deadline_s:.0f} s were over")

    def _timer(self, after_s: float, why: str) -> threading.Timer:
        timer = threading.Timer(after_s, lambda: self._client.stop(why))
        timer.daemon = True
        timer.start()
        return timer

    def seen(self, event: Any) -> None:
        held = event.state == task_pb2.TASK_STATE_HELD
        if held and self._held is None:
            self._held = self._timer(HELD_PATIENCE_S, f"held, and nobody resumed: {event.text_en}")
        elif not held and self._held is not None:
            self._held.cancel()
            self._held = None

    def end(self) -> None:
        for timer in (self._late, self._held):
            if timer is not None:
                timer.cancel()


def _wait_for_rest(client: Client) -> bool:
    end = time.monotonic() + REST_DEADLINE_S
    while time.monotonic() < end:
        if client.state().arm.at_rest:
            return True
        time.sleep(0.1)
    return False


def _name(enum: Any, value: int, prefix: str) -> str:
    return str(enum.Name(value)).removeprefix(prefix)
