"""A UR5e controller in software: unmodified robot programs and client libraries talk to it like to a robot.

    wardarm sim ur                       # 127.0.0.1, the ports of a real one
    wardarm sim ur --address 127.0.0.2 --version 5.15 --power-off --inject "at 10 protective"

It executes URScript, streams on 30001-30003, and answers RTDE 30004, dashboard 29999, interpreter mode 30020 and a Robotiq
gripper 63352. Perfect joints, free fingers. It ends at Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import shlex
import signal
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

from wardarm.sim.gripper import FreeFingers, GripperPort
from wardarm.sim.plant import KinematicPlant
from wardarm.sim.ur_controller.control_port import JOINT_MAX_RAD, PINS
from wardarm.sim.ur_controller.controller import ELBOW_UP, READS_PER_CYCLE, Controller
from wardarm.sim.ur_controller.external_control import PORT
from wardarm.sim.ur_controller.faults import INJECTIONS, rehearse, within
from wardarm.sim.ur_controller.functions_tool import PAYLOAD_MAX_KG
from wardarm.sim.ur_controller.kinematics import DhParameters
from wardarm.sim.ur_controller.modes import CYCLE_S, RobotMode
from wardarm.sim.ur_controller.server import Server, run_realtime
from wardarm.sim.ur_controller.stepping import Stepper

_OLDEST, _NEWEST = (5, 11), (5, 21)


def _numbers(count: int, least: float, most: float) -> Callable[[str], list[float]]:
    def parse(text: str) -> list[float]:
        try:
            values = [float(v) for v in text.replace(",", " ").split()]
        except ValueError:
            values = []
        if len(values) != count or not all(least <= v <= most for v in values):
            raise argparse.ArgumentTypeError(
                f"{text!r}: {count} numbers are needed, as in '0,0,0.1', each within [{least:g}, {most:g}]"
            )
        return values

    return parse


def _number(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            return within("", text, least, most)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: a number within [{least:g}, {most:g}] is needed") from None

    return parse


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number within [{least}, {most}] is needed")
        return value

    return parse


def _folder(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: no such folder")
    return Path(text)


def _version(text: str) -> list[int]:
    parts = [int(v) if v.isdecimal() else -1 for v in text.split(".")]
    if not 2 <= len(parts) <= 4 or min(parts) < 0 or not _OLDEST <= tuple(parts[:2]) <= _NEWEST:
        raise argparse.ArgumentTypeError(f"{text!r}: give 5.11 to 5.21, e.g. 5.15 or 5.21.0.0")
    return parts + [0] * (4 - len(parts))


def _address(text: str) -> str:
    try:
        loopback = ipaddress.IPv4Address(text).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise argparse.ArgumentTypeError(f"{text!r}: loopback addresses only (127.0.0.1, 127.0.0.2, ...)")
    return text


def _host(text: str) -> tuple[str, int]:
    host, _, port = text.partition(":")
    if not host or not (port or "1").isdecimal() or not 0 < int(port or PORT) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r}: HOST or HOST:PORT, as in 127.0.0.1:50002")
    return host, int(port or PORT)


def _injection(text: str) -> tuple[float, list[str]]:
    """When, in controller time, and the words of `inject`."""
    try:
        words, at_s = shlex.split(text), 0.0
        if words[:1] == ["at"]:
            if len(words) < 3:
                raise ValueError("at what time what? as in 'at 10 protective'")
            at_s, words = within("at", words[1], 0.0, 1e9), words[2:]
        if not words or words[0] not in INJECTIONS:
            raise ValueError(f"begins with one of {', '.join(INJECTIONS)}, or with 'at SECONDS'")
        rehearse(words)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{text!r}: {e}") from None
    return at_s, words


def parser() -> argparse.ArgumentParser:
    """The command line; its help is the product's."""
    made = argparse.ArgumentParser(
        prog="wardarm sim ur", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="A simulated UR5e: it executes URScript and answers on the ports of a real controller, so that\n"
        "ur_rtde, Universal Robots' own clients, a driver or a script of yours just work.",
        epilog="injections:\n" + "\n".join(f"  {n + ' ' + w:<34} {t}" for n, (w, t) in INJECTIONS.items())
        + "\n\nwhile it runs:  wardarm sim inject NAME ...      (docs/sim_ur.md)",
    )  # fmt: skip
    made._negative_number_matcher = re.compile(r"-[\d.]")  # --q -1.57,0,... is a value, no option
    add = made.add_argument
    add(
        "--address",
        type=_address,
        default="127.0.0.1",
        help="listen here; 127.0.0.2 and so on for several side by side",
    )
    add("--version", type=_version, default=[5, 21, 0, 0], metavar="5.x", help="PolyScope version, 5.11 to 5.21 (5.21)")
    add("--calibration", type=Path, metavar="FILE", help="a robot's calibration.conf: kinematics as that robot's")
    add("--programs", type=_folder, metavar="DIR", help="what the dashboard can `load`: NAME.urp means DIR/NAME.script")
    add(
        "--external-control",
        type=_host,
        metavar="HOST[:PORT]",
        help="the External Control URCap is installed: `load external_control.urp` and `play` ask this driver for the"
        " program (port 50002)",
    )
    add(
        "--q",
        type=_numbers(6, -JOINT_MAX_RAD, JOINT_MAX_RAD),
        default=list(ELBOW_UP),
        metavar="Q0,..,Q5",
        help="joint positions at the start, rad",
    )
    add(
        "--tcp",
        type=_numbers(6, -10.0, 10.0),
        default=[0.0] * 6,
        metavar="X,..,RZ",
        help="installation: flange to TCP, m, rotation vector in rad (zeros: the flange, as on a new controller)",
    )
    add("--payload", type=_number(0.0, PAYLOAD_MAX_KG), default=0.0, metavar="KG", help="installation: payload (0)")
    add(
        "--payload-cog",
        type=_numbers(3, -10.0, 10.0),
        default=[0.0] * 3,
        metavar="X,Y,Z",
        help="its centre of gravity, m",
    )
    add("--power-off", action="store_true", help="start powered off: power on and brake release are needed")
    add("--power-on-s", type=_number(0.0, 3600.0), default=3.0, metavar="S", help="how long powering on takes (3)")
    add(
        "--brake-release-s",
        type=_number(0.0, 3600.0),
        default=1.0,
        metavar="S",
        help="how long releasing the brakes takes (1)",
    )
    add("--local", action="store_true", help="start in local control: scripts and most dashboard commands are refused")
    add(
        "--inject",
        type=_injection,
        action="append",
        default=[],
        metavar="'[at S] NAME ...'",
        help="see below; repeatable",
    )
    add("--gripper-inactive", action="store_true", help="the gripper needs SET ACT 1 first, as after power on")
    add("--pwm", default=None, metavar="PATH", help="datagram socket for PWM edges on an input")
    add("--pwm-pin", type=_whole(0, PINS - 1), default=8, metavar="N", help="digital input the PWM is wired to (8)")
    add(
        "--lag-ms",
        type=_number(0.0, 1000.0),
        default=34.0,
        metavar="MS",
        help="how far the joints lag behind their target (34)",
    )
    add(
        "--reads-per-cycle",
        type=_whole(1, 1000),
        default=READS_PER_CYCLE,
        metavar="N",
        help=f"socket reads of one thread that fit into 2 ms ({READS_PER_CYCLE})",
    )
    add("--lock-step", action="store_true", help="time passes only when port 30100 says 'step N' (cycles of 2 ms)")
    add("--seed", type=_whole(0, 2**63), default=0, metavar="N", help="of URScript's random() (0)")
    return made


def _controller(args: argparse.Namespace, plant: KinematicPlant) -> Controller:
    """Raises OSError or ValueError for a calibration that cannot be used."""
    dh = DhParameters()
    if args.calibration is not None:
        dh = dh.calibrated(args.calibration)
    c = Controller(plant, dh, args.tcp, args.version, q=args.q, seed=args.seed, compile_inline=args.lock_step)
    c.set_installation(args.tcp, args.payload, args.payload_cog)
    c.programs, c.external_control = args.programs, args.external_control
    c.remote, c.reads_per_cycle = not args.local, args.reads_per_cycle
    if args.calibration is not None:  # the real one's checksum is not published: ours says which numbers
        rows = zip(dh.theta, dh.a, dh.d, dh.alpha, strict=True)
        c.calibration_checksum = tuple(zlib.crc32(repr(row).encode()) for row in rows)
    c.safety.power_on_s, c.safety.brake_release_s = args.power_on_s, args.brake_release_s
    if args.power_off:
        c.safety.robot_mode = RobotMode.POWER_OFF
    return c


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 after a signal, 1 if a port is taken or a file cannot be used."""
    args = parser().parse_args(argv)
    ended: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: ended.append(n))
    sys.setswitchinterval(0.0005)  # the compiler thread must not hold up the 2 ms cycle
    fingers = FreeFingers()
    plant = KinematicPlant(args.q, args.lag_ms * 1e-3)
    try:
        controller = _controller(args, plant)
    except (OSError, ValueError) as e:
        print(f"wardarm sim ur: --calibration: {e}", file=sys.stderr)
        return 1
    stepper = Stepper(controller, lambda: fingers.step(CYCLE_S)) if args.lock_step else None
    try:
        server = Server(
            controller, args.address, pwm_path=args.pwm, pwm_pin=args.pwm_pin,
            services=[GripperPort(fingers, activated=not args.gripper_inactive)],
            commands={"step": stepper.step} if stepper is not None else None,
        )  # fmt: skip
    except OSError as e:
        print(f"wardarm sim ur: {e.strerror or e}", file=sys.stderr)
        return 1
    with server:
        for at_s, words in args.inject:
            server.control.at(at_s, "inject", *words)
        print(
            f"simulated UR5e on {args.address}, PolyScope {'.'.join(map(str, args.version))}\n"
            "  RTDE 30004, dashboard 29999, primary 30001, secondary 30002, real-time 30003, interpreter 30020,\n"
            "  read-only 30011-30013, Robotiq gripper 63352, the simulator's own control port 30100",
            flush=True,
        )
        if stepper is not None:
            stepper.server = server
            stepper.run(lambda: bool(ended))
        else:
            run_realtime(controller, server, lambda: fingers.step(CYCLE_S), lambda: bool(ended))
    return 0


if __name__ == "__main__":
    sys.exit(main())
