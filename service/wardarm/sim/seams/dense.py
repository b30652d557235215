"""Seams as close as one likes: plans joined by the player's own arithmetic, without its loading time.

In the simulated controller, as in a real one, a trajectory loads one knot a cycle: seams come 0.4 s apart at least. Here
the next plan takes over exactly `period_s` later, and the rows are the player's quintics every 2 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm import _native
from wardarm.sim.lockstep import HISTORY
from wardarm.sim.seams.course import Course, Policy
from wardarm.sim.seams.ours import LONGEST_S, TAIL_S, Ours
from wardarm.sim.ur_controller.modes import CYCLE_S, SafetyMode

Array = NDArray[np.float64]
_RUNNING = 2
_SETTLE = 100  # cycles of standing at the end


def run(ours: Ours, course: Course, policy: Policy) -> tuple[NDArray[Any], list[float]]:
    """As `Ours.run`, joints without lag: rows of HISTORY and the times of the seams. A refused chunk changes nothing."""
    cycles = max(1, round(course.period_s / CYCLE_S))
    state, opening, done = (course.start_q_rad, np.zeros(6), np.zeros(6)), course.opening, False
    rows: list[Array] = []
    seams_s: list[float] = []
    now = np.zeros((0, 20))
    at, total = 0, 0
    while total < LONGEST_S / CYCLE_S:
        if not done:
            answer = policy.ask(ours.kinematics.forward(state[0]).six, opening)
            done = answer.done
            ours.joins += not done and total > 0
            plan = None if done else ours.plan(answer, course, state)
            if plan is not None:
                if total:
                    seams_s.append(total * CYCLE_S)
                knots = np.ascontiguousarray(plan["knots"][: int(plan["knot_count"])]).view(np.float64).reshape(-1, 20)
                now, at = _native.sample(knots, CYCLE_S), 0
            elif not len(now):
                break
        until = len(now) if done or at + cycles > len(now) - TAIL_S / CYCLE_S else at + cycles
        rows.append(now[at:until, 1:7])
        total += until - at
        at = until
        if until == len(now):
            break
        row = now[until]
        state, opening = (row[1:7].copy(), row[7:13].copy(), row[13:19].copy()), float(row[19])
    q = np.concatenate([course.start_q_rad[None], *rows])
    q = np.concatenate([q, np.repeat(q[-1:], _SETTLE, 0)])
    history = np.zeros(len(q), HISTORY)
    history["cycle"] = np.arange(len(q))
    history["target_q_rad"] = history["q_rad"] = q
    history["ints"][:, 0], history["safety_mode"] = _RUNNING, SafetyMode.NORMAL
    return history, seams_s
