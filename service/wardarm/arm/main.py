"""arm: the only process that speaks to the robot. Trajectories that pass every check go to the player; holds latch here.

In: `groot_traj`, the words, gate's status, `wardarm_command`, RTDE, the gripper's socket. Out: trajectories and
registers to the player, `wardarm_arm` at `arm.rtde_hz`, its own word. Deadline: one loop each 1/rtde_hz; an RTDE packet
older than `gate.word_deadline_ms` counts as no connection.
Death: gate's beat is forwarded no longer, so the player ramps to rest; its word goes stale, so gate drops the PWM. The
next arm uploads nothing before the arm stands still, and keeps the holds.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time

from wardarm import config as configuration
from wardarm import journal
from wardarm.arm.operate import Arm
from wardarm.config import Config, ConfigError
from wardarm.shm import ring

LEAVE_DEADLINE_S = 4.0


def run(config: Config) -> int:
    """Loop until SIGTERM or SIGINT, then come to rest and leave. Returns the exit status."""
    log = journal.setup("arm", config)
    arm = Arm(config, log)
    leave_by_s = float("inf")

    def ask_to_leave(_signal: int, _frame: object) -> None:
        nonlocal leave_by_s
        leave_by_s = min(leave_by_s, time.monotonic() + LEAVE_DEADLINE_S)
        arm.leaving = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask_to_leave)
    period_s = 1.0 / config.arm.rtde_hz
    gc.collect()
    gc.freeze()  # a full collection of what lives as long as the process would stall the loop
    due = time.monotonic()
    while not (arm.leaving and (arm.may_leave or time.monotonic() > leave_by_s)):
        arm.loop()
        due = max(due + period_s, time.monotonic() - period_s)
        time.sleep(max(0.0, due - time.monotonic()))
    arm.farewell()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m wardarm.arm.main", description="Robot connection, holds, trajectories."
    )
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    try:
        return run(configuration.load(parser.parse_args().config))
    except (ConfigError, ring.BlockError, OSError) as e:
        print(f"arm: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # no destructors: ur_rtde's would end the process with SIGABRT if a connection is gone (see link.py)
    os._exit(status)
