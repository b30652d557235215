"""A UR e-Series controller in software: it executes URScript and speaks RTDE, dashboard and script ports.

`Controller` is the core (one `tick()` = 2 ms), `Server` its ports, `run_realtime` the loop. docs/sim_ur.md.
"""

from wardarm.sim.ur_controller.connection import Connection, Service
from wardarm.sim.ur_controller.controller import Controller
from wardarm.sim.ur_controller.kinematics import DhParameters
from wardarm.sim.ur_controller.modes import CYCLE_S, RobotMode, Runtime, SafetyMode
from wardarm.sim.ur_controller.server import Server, run_realtime

__all__ = [
    "CYCLE_S", "Connection", "Controller", "DhParameters", "RobotMode", "Runtime", "SafetyMode", "Server", "Service",
    "run_realtime",
]  # fmt: skip
