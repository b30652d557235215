"""One cell: bring the system into the phase, let the fault happen, watch to rest, ask what was said, clear."""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any

from numpy.typing import NDArray

from wardarm.client import Refused
from wardarm.sim.control import ControlError
from wardarm.sim.matrix import faults, figures
from wardarm.sim.matrix.bed import Bed, BedLost
from wardarm.sim.matrix.cells import ROBOT_STOPS, Cell, ended_first
from wardarm.sim.matrix.witness import moving
from wardarm.v1 import hold_pb2

LOADED, RUNNING, RAMPING = 1, 2, 3  # the player's state register
_PHASE_S = 25.0
_REST_S = 4.0
_QUIET_S = 0.15


class PhaseMissed(RuntimeError):
    """The phase did not come about; the cell is tried again later."""


def run(bed: Bed, cell: Cell, rng: random.Random) -> dict[str, Any]:
    """Returns the row of the report. Raises PhaseMissed, BedLost."""
    began = time.monotonic()
    apply = faults.prepare(bed, cell)
    cup_before = cell.phase == "carrying" and bed.held()
    _reach(bed, cell, rng)
    last = bed.witness.last()
    if last is None:
        raise BedLost("no RTDE record")
    fault_s = float(last["timestamp"])
    undo = apply()
    task_after = False
    if cell.phase == "before_arming":
        task_after = _ask(bed)
    elif cell.phase == "resuming":
        pass
    rested_s = _wait_rest(bed, cell)
    said = _said(bed, cell)
    undo()
    quiet_from_s = float(bed.witness.last()["timestamp"])
    said = said or _said(bed, cell, taken_back=True)
    if said and rested_s is None:  # the hold came under way, after the time in which one had to
        later_s = _wait_rest(bed, cell)
        quiet_from_s = quiet_from_s if later_s is None else later_s
    time.sleep(0.1)
    until_s = float(bed.witness.last()["timestamp"])
    resumed = bed.settle(keep_task=True)
    until_s = until_s if bed.word_s is None else bed.word_s
    rows = bed.witness.since(fault_s - 0.6)
    rows = rows[rows["timestamp"] <= until_s]
    f = figures.stop(rows, fault_s, bed.config.arm, bed.config.limits)
    if cell.phase not in ("before_arming", "resuming"):
        quiet_from_s = _quiet_from(cell, rows, fault_s, f, said)
    # what moved between rest and the word that ends the hold
    moved_mm = figures.moved_mm(rows[rows["timestamp"] >= quiet_from_s], bed.config.arm) if said else 0.0
    row: dict[str, Any] = {
        "target": cell.target, "action": cell.action, "phase": cell.phase, "motion": cell.motion, "holds": said,
        "resumed": resumed, "speed_mm_s": f.speed_mm_s, "stop_s": f.rest_s, "path_mm": f.path_mm,
        "plan_ratio": f.plan_ratio, "bare_plan_ratio": f.bare_plan_ratio, "stop_ratio": f.stop_ratio, "worst": f.worst, "gaps": f.gaps,
        "moved_in_hold_mm": moved_mm, "rested": rested_s is not None, "task_asked": task_after,
    }  # fmt: skip
    if cup_before:
        row["cup_kept"] = bed.held()
    row["verdict"] = verdict(cell, row)
    row["seconds"] = round(time.monotonic() - began, 1)
    return row


def _quiet_from(
    cell: Cell, rows: NDArray[Any], fault_s: float, f: figures.Stop, said: list[dict[str, Any]]
) -> float:  # fmt: skip
    """From when on nothing may move any more. A movement that had ended by itself may be followed by another one until
    the hold is there; after that, no more."""
    if cell.at_once and f.rest_s is not None:
        return fault_s + f.rest_s
    since = [h["since_s"] for h in said if h.get("since_s") is not None]
    return figures.quiet_from(rows, max(fault_s, min(since, default=fault_s)))


def verdict(cell: Cell, row: dict[str, Any]) -> list[str]:
    """What was not as promised; empty if all was."""
    wrong = []
    reasons = [h["reason"] for h in row["holds"]]
    if cell.reasons and not reasons and not ended_first(cell, row):
        wrong.append("no hold")
    elif cell.reasons and reasons and reasons[0] not in cell.reasons:
        wrong.append(f"reason {reasons[0]}")
    if (cell.reasons or reasons) and cell.deadline_s is not None and row["speed_mm_s"] > 50:
        if row["stop_s"] is None:
            wrong.append("no rest")
        elif row["stop_s"] > cell.deadline_s:
            wrong.append(f"{row['stop_s'] * 1e3:.0f} ms > {cell.deadline_s * 1e3:.0f}")
    robot_stops = cell.target in ROBOT_STOPS
    if row["plan_ratio"] > 1 and not robot_stops:
        wrong.append(f"plan limit {row['plan_ratio']}")
    if row["stop_ratio"] > 1 and not robot_stops:
        wrong.append(f"stop limit {row['stop_ratio']}")
    if row["moved_in_hold_mm"] > 0.5:
        wrong.append(f"moved {row['moved_in_hold_mm']} mm in a hold")
    if row.get("cup_kept") is False:
        wrong.append("cup dropped")
    return wrong


# --- into the phase


def _ask(bed: Bed) -> bool:
    with contextlib.suppress(Refused, BedLost):
        bed.sweep()
        return True
    return False


def _until(what: str, when: Any, seconds: float = _PHASE_S) -> None:
    end = time.monotonic() + seconds
    while not when():
        if time.monotonic() > end:
            raise PhaseMissed(what)
        time.sleep(0.001)


def _player(bed: Bed) -> int:
    last = bed.witness.last()
    return -1 if last is None else int(last["output_int_register_12"])


def _start(bed: Bed, cell: Cell) -> None:
    """A movement is under way or has been asked for."""
    if bed.busy() and cell.phase != "permit_edge":
        return
    if bed.busy():
        bed.end_task()
        bed.settle()
        _until("the task's end", lambda: not bed.busy(), 10)
    try:
        if cell.motion == "model":
            bed.sim("load_scene", scene=bed.scene.to_json())
            bed.fetch()
        else:
            bed.sweep()
    except (Refused, ControlError) as e:
        raise PhaseMissed(f"not started: {e}") from e


def _fast(bed: Bed, limit_m_s: float) -> bool:
    last = bed.witness.last()
    if last is None or int(last["output_int_register_12"]) != RUNNING:
        return False
    return bed.witness.speed_m_s() > limit_m_s


def _under_way(bed: Bed, cell: Cell, rng: random.Random) -> None:
    limit = rng.uniform(0.06, 0.18)
    for _ in range(4):
        _start(bed, cell)
        end = time.monotonic() + _PHASE_S
        while time.monotonic() < end:
            if _fast(bed, limit) and (cell.motion != "model" or _model_moves(bed)):
                return
            if _player(bed) <= 0 and not bed.busy():
                time.sleep(0.1)
                break  # it had arrived
            time.sleep(0.004)
    raise PhaseMissed("never fast enough")


def _model_moves(bed: Bed) -> bool:
    state = bed.state()
    return bool(state and state.HasField("task") and state.task.steps and state.task.steps[0].fraction >= 0.2)


def _reach(bed: Bed, cell: Cell, rng: random.Random) -> None:
    phase = cell.phase
    if phase == "before_arming":
        bed.end_task()
        bed.settle()
        return
    if phase == "permit_edge":
        _start(bed, cell)
        _until("loaded", lambda: _player(bed) == LOADED or _just_started(bed))
        time.sleep(rng.uniform(0, 0.06))
        return
    if phase == "seam":
        for _ in range(4):
            _start(bed, cell)
            _until("running", lambda: _player(bed) == RUNNING or not bed.busy())
            if _seam(bed):
                return
        raise PhaseMissed("no seam")
    _under_way(bed, cell, rng)
    if phase == "in_the_ramp":
        bed.client.pause("matrix: in the ramp")
        _until("ramp", lambda: _player(bed) != RUNNING, 2)
        time.sleep(rng.uniform(0, 0.15))
    elif phase == "resuming":
        bed.client.pause("matrix: to resume")
        _until("rest", lambda: _player(bed) not in (RUNNING, RAMPING), 3)
        bed.settle(keep_task=True)
        time.sleep(rng.uniform(0, 0.5))


def _just_started(bed: Bed) -> bool:
    last = bed.witness.last()
    return int(last["output_int_register_12"]) == RUNNING and float(last["output_double_register_12"]) < 0.1


def _seam(bed: Bed) -> bool:
    first = int(bed.witness.last()["output_int_register_13"])
    while True:
        last = bed.witness.last()
        if int(last["output_int_register_12"]) != RUNNING:
            return False
        now = int(last["output_int_register_13"])
        if now != first and first and now:
            return True
        first = now or first
        time.sleep(0.001)


# --- after the fault


def _wait_rest(bed: Bed, cell: Cell) -> float | None:
    """Controller time at which the target stands and stays so; None if it did not within `_REST_S`."""
    patience = _REST_S if cell.reasons else 1.5
    end = time.monotonic() + patience + 2
    quiet_s: float | None = None
    begun = float(bed.witness.last()["timestamp"])
    while time.monotonic() < end:
        last = bed.witness.last()
        now = float(last["timestamp"])
        if moving(last):
            quiet_s = None
        elif quiet_s is None:
            quiet_s = now
        elif now - quiet_s > _QUIET_S and now - begun > 0.4:
            return quiet_s
        if now - begun > patience:
            break
        time.sleep(0.01)
    return None


def _said(bed: Bed, cell: Cell, seconds: float = 2.5, taken_back: bool = False) -> list[dict[str, Any]]:
    """The holds as a client is told, oldest first: for a process that has to come back first, until it does.

    `taken_back`: the fault is over, so a frozen process can speak again.
    """
    if not cell.reasons:
        seconds = 0.2
    if cell.target == "api":
        seconds = 8.0 if cell.action == "kill" or taken_back else 0.1
    if cell.target == "arm" and cell.action == "stop" and not taken_back:
        seconds = 0.1
    end = time.monotonic() + seconds
    while True:
        state = bed.state()
        if (
            state is not None
            and state.holds
            and not (cell.phase == "in_the_ramp" and _only_pause(state) and time.monotonic() < end)
        ):
            return [
                {
                    "reason": hold_pb2.HoldReason.Name(h.reason).removeprefix("HOLD_REASON_"),
                    "by": hold_pb2.ProcessName.Name(h.process).removeprefix("PROCESS_NAME_").lower(),
                    "detail": h.detail,
                    "since_s": _since_s(bed, h),
                }
                for h in state.holds
            ]
        if time.monotonic() > end:
            return []
        time.sleep(0.03)


def _since_s(bed: Bed, hold: Any) -> float | None:
    """Controller time at which it was latched."""
    ago_ns = time.time_ns() - hold.since.ToNanoseconds()
    return bed.witness.at(time.monotonic_ns() - ago_ns) if hold.HasField("since") else None


def _only_pause(state: Any) -> bool:
    return all(h.reason == hold_pb2.HOLD_REASON_CLIENT for h in state.holds)
