"""The simulated controller on its own: perfect joints, free fingers, all ports.

    python -m wardarm.sim.ur_controller --address 127.0.0.1 --version 5.21.0.0

It ends at SIGTERM or SIGINT. ur_rtde, a dashboard client or a program on port 30003 can talk to it like to a robot.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
from collections.abc import Sequence

from wardarm.sim.gripper import FreeFingers, GripperPort
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller.controller import ELBOW_UP, Controller
from wardarm.sim.ur_controller.kinematics import DhParameters
from wardarm.sim.ur_controller.modes import CYCLE_S
from wardarm.sim.ur_controller.server import Server, run_realtime


def _numbers(count: int) -> object:
    def parse(text: str) -> list[float]:
        values = [float(v) for v in text.replace(",", " ").split()]
        if len(values) != count:
            raise argparse.ArgumentTypeError(f"{text!r}: {count} numbers are needed")
        return values

    return parse


def _version(text: str) -> list[int]:
    parts = [int(v) for v in text.split(".")]
    if len(parts) != 4 or parts[0] != 5:
        raise argparse.ArgumentTypeError(f"{text!r}: a version is four numbers and begins with 5, e.g. 5.21.0.0")
    return parts


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 after a signal, 1 if a port is taken."""
    parser = argparse.ArgumentParser(
        prog="wardarm sim ur", description="A simulated UR5e controller that executes URScript."
    )
    parser.add_argument("--address", default="127.0.0.1", help="listen here; use 127.0.0.x for several side by side")
    parser.add_argument("--version", type=_version, default=[5, 21, 0, 0], help="PolyScope version to report (5.x)")
    parser.add_argument("--q", type=_numbers(6), default=list(ELBOW_UP), help="joint positions at the start, rad")  # type: ignore[arg-type]
    parser.add_argument(
        "--tcp", type=_numbers(6), default=[0, 0, 0.1558, 0, 0, -math.pi / 2], help="flange to TCP, m and rotation vector"  # type: ignore[arg-type]
    )  # fmt: skip
    parser.add_argument(
        "--pwm", default=None, metavar="PATH", help="datagram socket for PWM edges (gate.output unix:PATH)"
    )
    parser.add_argument("--pwm-pin", type=int, default=8, help="digital input the PWM is wired to")
    parser.add_argument("--lag-ms", type=float, default=34.0, help="how far the joints lag behind their target")
    args = parser.parse_args(argv)

    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: ended.append(n))
    sys.setswitchinterval(0.0005)  # the compiler thread must not hold up the 2 ms cycle
    fingers = FreeFingers()
    plant = KinematicPlant(args.q, args.lag_ms * 1e-3)
    controller = Controller(plant, DhParameters(), args.tcp, args.version, q=args.q)
    try:
        server = Server(
            controller, args.address, pwm_path=args.pwm, pwm_pin=args.pwm_pin, services=[GripperPort(fingers)]
        )
    except OSError as e:
        print(f"wardarm sim ur: {e.strerror or e}", file=sys.stderr)
        return 1
    with server:
        print(
            f"simulated UR5e on {args.address}: RTDE 30004, dashboard 29999, scripts 30001-30003, gripper 63352, control 30100",
            flush=True,
        )
        run_realtime(controller, server, lambda: fingers.step(CYCLE_S), lambda: bool(ended))
    return 0


if __name__ == "__main__":
    sys.exit(main())
