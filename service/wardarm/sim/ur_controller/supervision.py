"""What the controller's safety system watches while the arm moves: speed, range and deviation of its targets."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wardarm.sim.ur_controller.modes import CYCLE_S, SafetyMode
from wardarm.sim.ur_controller.safety import BRAKE_CATEGORY_0, OFF_ITS_PATH

if TYPE_CHECKING:
    from wardarm.sim.ur_controller.controller import Controller


def check(c: Controller) -> None:
    """Once a cycle while the arm moves: a target beyond a limit is a protective stop."""
    if not c.safety.may_move:
        return
    limits = c.limits
    if not _positions(c):
        return
    frame = c.target_tcp_frame
    here, before = (frame[9], frame[10], frame[11]), c.tool_at
    c.tool_at = here
    if before is not None:
        speed = math.dist(here, before) / CYCLE_S
        most = limits.reduced_tcp_m_s if c.safety.mode is SafetyMode.REDUCED else limits.tcp_m_s
        if speed > most:
            c.safety.protective_stop(c.time_s, f"TCP at {speed:.2f} m/s, limit {most:.2f}")


def _positions(c: Controller) -> bool:
    """Targets that can still stop within the joints' range, joints close to their targets.

    A target that comes back is no violation.
    """
    limits, servo = c.limits, c.servo
    off = 0.0
    for joint, (target, actual, speed) in enumerate(zip(servo.q, c.state.q, servo.qd, strict=True)):
        stops_at = abs(target) + abs(speed) * CYCLE_S + speed * speed / (2 * BRAKE_CATEGORY_0)
        if stops_at > limits.joint_rad and target * speed > 0:
            text = (
                f"joint {joint} at {math.degrees(target):.1f} deg cannot stop before its limit, "
                f"{math.degrees(limits.joint_rad):.0f} deg"
            )
            c.safety.protective_stop(c.time_s, text)
            return False
        off = max(off, abs(target - actual))
    if off > limits.deviation_rad:
        text = f"a joint is {math.degrees(off):.0f} deg from its target, limit {math.degrees(limits.deviation_rad):.0f}"
        c.safety.protective_stop(c.time_s, text, OFF_ITS_PATH)
        return False
    if off > limits.deviation_rad * c.deviation_warning:
        c.note(f"position deviation: a joint is {math.degrees(off):.1f} deg from its target")
    return True
