"""`python -m wardarm.gate.deadman --config FILE`: gate's companion, which switches the PWM off when gate cannot.

Gate starts it with a pipe on its standard input and writes `1` at least every beat while the PWM is on, `0` when it is off.
No byte within the deadline, or the end of the pipe (gate was killed), means off, at once and without the GPIO library.
It holds nothing that gate needs, imports next to nothing and sleeps while the PWM is off.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys

from wardarm.gate.pwm_off import gate_section, switch_off

ON, OFF = b"1", b"0"


class DeadmanGone(RuntimeError):
    """The companion ended; without it gate does not go on."""


class Deadman:
    """Gate's side of the pipe. `deadline_s`: silence after which the companion acts."""

    def __init__(self, config_file: str, deadline_s: float) -> None:
        command = [
            sys.executable,
            "-m",
            "wardarm.gate.deadman",
            "--config",
            config_file,
            "--deadline",
            f"{deadline_s:.3f}",
        ]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        self._fd = self._process.stdin.fileno()
        os.set_blocking(self._fd, False)

    def beat(self, on: bool) -> None:
        """Raises DeadmanGone."""
        try:
            os.write(self._fd, ON if on else OFF)
        except BlockingIOError:
            pass  # it has more than enough to read
        except BrokenPipeError as e:
            code = self._process.poll()
            raise DeadmanGone(f"gate's companion process ended (exit {code}); gate ends too, with the PWM off") from e

    def close(self) -> None:
        """Let it end: it switches off once more."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()


def watch(fd: int, deadline_s: float, gate: dict[str, object]) -> list[str]:
    """Serve the pipe until it ends. Returns what could not be switched off."""
    on = False
    failures: list[str] = []
    while True:
        ready, _, _ = select.select([fd], [], [], deadline_s if on else None)
        data = os.read(fd, 4096) if ready else OFF
        if not ready or not data:
            failures = switch_off(gate)
            for line in failures:
                print(line, file=sys.stderr, flush=True)
        if not data:
            return failures
        on = data[-1:] == ON


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m wardarm.gate.deadman", description="Switch gate's PWM off in its place."
    )
    parser.add_argument("--config", required=True)
    parser.add_argument("--deadline", type=float, required=True, help="s")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with gate, not before
    return 1 if watch(sys.stdin.fileno(), args.deadline, gate_section(args.config)) else 0


if __name__ == "__main__":
    sys.exit(main())
