"""Safety and robot modes of the simulated controller: what stops it, what lets it go again, and in which order.

Sources: UR5e user manual (e-Series), "Safety-related functions": emergency stop is stop category 1, safeguard stop
category 2, a violation or fault category 0; "Dashboard server e-Series": a protective stop cannot be unlocked for 5 s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wardarm.sim.ur_controller.modes import MAY_MOVE, RobotMode, SafetyMode

PROTECTIVE_LOCK_S = 5.0
DISCREPANCY_S = 0.5  # for which the two channels of an input may disagree; our figure
DUAL_INPUTS = ("safeguard", "estop", "system_estop")
# Deceleration of each stop, rad/s2. The manual gives stopping times, not decelerations; these are within them.
# Error codes of protective stops, of the manual's list "Error codes" (CODE_153, CODE_204, CODE_209); a cause without a
# published code of its own is 191 here, our choice.
ASKED_FOR, OFF_ITS_PATH, TARGET_JUMPS, OTHER = 209, 153, 204, 191
BRAKE_CATEGORY_0 = 40.0
BRAKE_CATEGORY_1 = 20.0
BRAKE_CATEGORY_2 = 10.0


@dataclass(frozen=True)
class SafetyLimits:
    """Beyond these a protective stop follows. Joint speed: UR5e data sheet; TCP: the factory safety preset."""

    joint_rad_s: float = 3.32  # 180 deg/s and 10 deg/s of tolerance
    tcp_m_s: float = 1.55
    reduced_tcp_m_s: float = 0.80
    joint_rad: float = 6.336  # +-363 degrees: the joints' +-360 of the data sheet and the preset's tolerance
    deviation_rad: float = 0.35  # of the joints from their target; our figure, Universal Robots publish none


class Safety:
    """Inputs go in as attributes or injections, `mode` comes out. `on_stop(mode)` runs once at each stop."""

    def __init__(self, on_stop: Callable[[SafetyMode], None], on_clear: Callable[[SafetyMode], None]) -> None:
        self.mode = SafetyMode.NORMAL
        self.robot_mode = RobotMode.RUNNING
        self.since_s = 0.0
        self.reason = ""
        self.code = OTHER
        self.safeguard_needs_reset = False
        self._reduced = False
        self._safeguard = False
        self._pressed: set[SafetyMode] = set()
        self._channels = {name: [False, False] for name in DUAL_INPUTS}
        self._disagree_s: dict[str, float] = {}
        self._on_stop, self._on_clear = on_stop, on_clear
        self._next_robot_mode: RobotMode | None = None
        self._next_at_s = 0.0
        self.power_on_s = 0.5
        self.brake_release_s = 0.5

    @property
    def may_move(self) -> bool:
        return self.mode in MAY_MOVE and self.robot_mode is RobotMode.RUNNING

    def _enter(self, mode: SafetyMode, now_s: float, reason: str) -> None:
        self.mode, self.since_s, self.reason = mode, now_s, reason
        self._on_stop(mode)

    def _clear(self, now_s: float) -> None:
        """Out of the present mode into what the inputs say now."""
        was = self.mode
        self.mode = SafetyMode.REDUCED if self._reduced else SafetyMode.NORMAL
        self.since_s, self.reason = now_s, ""
        self._on_clear(was)
        if self._pressed:
            self._enter(self._pressed_mode, now_s, "emergency stop")
        elif self._safeguard:
            self._enter(SafetyMode.SAFEGUARD_STOP, now_s, "safeguard input")

    def reset(self, now_s: float) -> None:
        """As at the start: every input released, nothing tripped, powered and brakes released."""
        self._reduced = self._safeguard = self.safeguard_needs_reset = False
        self._pressed.clear()
        self._disagree_s.clear()
        self._channels = {name: [False, False] for name in DUAL_INPUTS}
        if self.mode is not SafetyMode.NORMAL:
            self._clear(now_s)
        self.robot_mode, self._next_robot_mode = RobotMode.RUNNING, None

    # --- stops
    def protective_stop(self, now_s: float, reason: str, code: int = OTHER) -> None:
        """`code`: of the error message that the primary clients get."""
        if self.mode in MAY_MOVE or self.mode is SafetyMode.SAFEGUARD_STOP:
            self.code = code
            self._enter(SafetyMode.PROTECTIVE_STOP, now_s, reason)

    def safeguard(self, open_: bool, now_s: float) -> None:
        """The safeguard inputs: open = somebody is there."""
        self._safeguard = open_
        if open_ and self.mode in MAY_MOVE:
            self._enter(SafetyMode.SAFEGUARD_STOP, now_s, "safeguard input")
        elif not open_ and self.mode is SafetyMode.SAFEGUARD_STOP and not self.safeguard_needs_reset:
            self._clear(now_s)

    def safeguard_reset(self, now_s: float) -> bool:
        """The reset input. Does nothing while the safeguard is open."""
        if self.mode is SafetyMode.SAFEGUARD_STOP and not self._safeguard:
            self._clear(now_s)
            return True
        return False

    @property
    def _pressed_mode(self) -> SafetyMode:
        """The robot's own emergency stop comes before the system's."""
        own = SafetyMode.ROBOT_EMERGENCY_STOP
        return own if own in self._pressed else SafetyMode.SYSTEM_EMERGENCY_STOP

    def emergency_stop(self, pressed: bool, now_s: float, system: bool = False) -> None:
        """A fault or violation outlives it; releasing one of two leaves the other."""
        button = SafetyMode.SYSTEM_EMERGENCY_STOP if system else SafetyMode.ROBOT_EMERGENCY_STOP
        (self._pressed.add if pressed else self._pressed.discard)(button)
        if self.mode in (SafetyMode.VIOLATION, SafetyMode.FAULT):
            return
        stopped = self.mode in (SafetyMode.SYSTEM_EMERGENCY_STOP, SafetyMode.ROBOT_EMERGENCY_STOP)
        if self._pressed:
            self._power_off()
            if self.mode is not self._pressed_mode:
                self._enter(self._pressed_mode, now_s, "emergency stop")
        elif stopped:
            self._clear(now_s)

    def channel(self, name: str, number: int, open_: bool, now_s: float) -> None:
        """One of the two channels of a dual input (`safeguard`, `estop`, `system_estop`): either stops, both release.

        Channels that disagree for `DISCREPANCY_S` are a fault: one of the two wires or contacts is broken.
        """
        channels = self._channels[name]
        channels[number] = open_
        if open_ or not any(channels):
            if name == "safeguard":
                self.safeguard(open_, now_s)
            else:
                self.emergency_stop(open_, now_s, system=name == "system_estop")
        if channels[0] == channels[1]:
            self._disagree_s.pop(name, None)
        else:
            self._disagree_s.setdefault(name, now_s)

    def violation(self, now_s: float, reason: str, fault: bool = False) -> None:
        self._power_off()
        self._enter(SafetyMode.FAULT if fault else SafetyMode.VIOLATION, now_s, reason)

    def reduced(self, on: bool, now_s: float) -> None:
        self._reduced = on
        if self.mode in MAY_MOVE:
            self.mode, self.since_s = (SafetyMode.REDUCED if on else SafetyMode.NORMAL), now_s

    def recovery(self, on: bool, now_s: float) -> None:
        """A joint or the TCP stands outside of its limits: only freedrive moves the arm until it is back."""
        if on and self.mode in MAY_MOVE:
            self._enter(SafetyMode.RECOVERY, now_s, "outside of a safety limit")
        elif not on and self.mode is SafetyMode.RECOVERY:
            self._clear(now_s)

    # --- ways back
    def unlock_protective_stop(self, now_s: float) -> str:
        """The dashboard's answer."""
        if self.mode is SafetyMode.PROTECTIVE_STOP and now_s - self.since_s < PROTECTIVE_LOCK_S:
            return (
                "Cannot unlock protective stop until 5s after occurrence. "
                "Always inspect cause of protective stop before unlocking"
            )
        if self.mode is SafetyMode.PROTECTIVE_STOP:
            self._clear(now_s)
        return "Protective stop releasing"

    def unlock_at_once(self, now_s: float) -> None:
        """The script ports' `set unlock protective stop`: the 5 s are the dashboard's and the pendant's."""
        if self.mode is SafetyMode.PROTECTIVE_STOP:
            self._clear(now_s)

    def restart(self, now_s: float) -> str:
        """After a violation or fault. The robot stays powered off."""
        if self.mode in (SafetyMode.VIOLATION, SafetyMode.FAULT):
            self._clear(now_s)
        self._power_off()
        return "Restarting safety"

    def power_on(self, now_s: float) -> None:
        if self.mode in (*MAY_MOVE, SafetyMode.SAFEGUARD_STOP) and self.robot_mode is RobotMode.POWER_OFF:
            self.robot_mode = RobotMode.POWER_ON
            self._next_robot_mode, self._next_at_s = RobotMode.IDLE, now_s + self.power_on_s

    def brake_release(self, now_s: float) -> None:
        """Also powers on first if need be, as the dashboard's command does."""
        if self.mode not in (*MAY_MOVE, SafetyMode.SAFEGUARD_STOP):
            return
        if self.robot_mode is RobotMode.POWER_OFF:
            self.robot_mode = RobotMode.POWER_ON
            self._next_robot_mode, self._next_at_s = RobotMode.RUNNING, now_s + self.power_on_s + self.brake_release_s
        elif self.robot_mode in (RobotMode.POWER_ON, RobotMode.IDLE):
            self._next_robot_mode = RobotMode.RUNNING
            self._next_at_s = max(self._next_at_s, now_s) + self.brake_release_s

    def power_off(self) -> None:
        self._power_off()

    def _power_off(self) -> None:
        self.robot_mode = RobotMode.POWER_OFF
        self._next_robot_mode = None

    def update(self, now_s: float) -> None:
        """Once a cycle: power-on and brake release take their time."""
        if self._next_robot_mode is not None and now_s >= self._next_at_s:
            self.robot_mode, self._next_robot_mode = self._next_robot_mode, None
        for name, since_s in list(self._disagree_s.items()):
            if now_s - since_s > DISCREPANCY_S:
                del self._disagree_s[name]
                self.violation(now_s, f"the two channels of the {name} input disagree", fault=True)
