"""gate: the words of all who must agree become a 1 kHz PWM, or its absence.

In: `wardarm_word_<process>` of every required process and arm's status. Out: the PWM, `wardarm_gate` each loop, its own
word. Deadline: one loop each `gate.loop_ms`; a loop that is late by more than `gate.word_deadline_ms` switches the PWM
off before it looks at anything.
Death: the beat that arm forwards stops, so the player ramps to rest. Every way out writes PWM off; after SIGKILL, and
while gate is frozen, its companion does (`deadman`), and the supervisor and systemd once more (`pwm_off`).

This requests an operational stop. It is no replacement for certified safeguarding on the robot's own inputs.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time

import numpy as np

from wardarm import config as configuration
from wardarm import journal
from wardarm.config import Config, ConfigError
from wardarm.gate import permit as rule
from wardarm.gate.deadman import Deadman, DeadmanGone
from wardarm.gate.output import PwmOutput, PwmUnavailable, open_output
from wardarm.gate.permit import Look, Permit
from wardarm.gate.words import GATE_FAREWELL, BlockWatch, Heard, OwnWord, WordBoard
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import GATE_STATUS, TEXT, BlockKind, HoldReason, ProcessId


class Gate:
    """One gate on one output. `run()` until `stop` is set; the caller closes the output."""

    def __init__(self, config: Config, output: PwmOutput, deadman: Deadman) -> None:
        prefix, settings = config.shm.prefix, config.gate
        self.output, self.deadman = output, deadman
        self.log = journal.setup("gate", config)
        self.stop = False
        self.permit = Permit()
        self._deadline_s = settings.word_deadline_ms * 1e-3
        self._loop_s = settings.loop_ms * 1e-3
        # what would be too old before the next look is too old now: off within the deadline, not a loop after it
        self._fresh_s = max(self._deadline_s - self._loop_s, 0.5 * self._deadline_s)
        self._board = WordBoard(required_words(config), prefix, self._fresh_s)
        self._arm = BlockWatch(BlockKind.ARM_STATUS, prefix)
        self._arm_files = 0
        self._writer = ring.Writer(BlockKind.GATE_STATUS, prefix)
        self._word = OwnWord(ProcessId.GATE, prefix, settings.beat_ms * 1e-3)
        self._status = np.zeros((), GATE_STATUS)
        self._take_over_counters(prefix)
        self._last_start_s = time.monotonic()
        self._beat_s = settings.beat_ms * 1e-3
        self._next_beat_s = 0.0

    def _take_over_counters(self, prefix: str) -> None:
        """A restarted gate counts on, so that a reader sees every beat and every drop change."""
        old = ring.Reader(BlockKind.GATE_STATUS, prefix).latest()
        if old is None:
            return
        for field in ("beat", "drop_seq", "edge_ns", "drop_ns", "request_seq", "first_missing"):
            self._status[field] = old.data[field]
        self.permit = Permit(
            request_seq=int(old.data["request_seq"]),
            drop_seq=int(old.data["drop_seq"]) + bool(old.data["pwm_on"]),
            first_missing=ProcessId.GATE if old.data["pwm_on"] else _process(int(old.data["first_missing"])),
        )

    def look(self, late: bool) -> tuple[Look, list[Heard]]:
        """Read the board and arm's status."""
        arm = self._arm.latest()
        heard = self._board.hear_all()
        missing = tuple(h.process for h in heard if not h.true)
        if arm is None:
            return Look(False, False, 0, missing, late), heard
        fresh = -self._deadline_s <= arm.age_s <= self._fresh_s and not self._arm.writer_ended()
        return Look(fresh, bool(arm.data["motion_request"]), int(arm.data["request_seq"]), missing, late), heard

    def loop(self) -> None:
        """One loop: off first if late, then words, then the PWM, then the status."""
        start = time.monotonic()
        late = start - self._last_start_s > self._deadline_s
        if late:
            self.output.off()
            self.log.warning("loop late", extra={"late_ms": round((start - self._last_start_s) * 1e3)})
        self._last_start_s = start
        look, heard = self.look(late)
        if self._arm.replaced_count != self._arm_files:
            self._arm_files = self._arm.replaced_count
            before = rule.forget(self.permit)
        else:
            before = self.permit
        after = rule.step(before, look)
        if self.permit.on and not after.on:
            self._status["drop_ns"] = self.output.off()
        elif after.on and not before.on:
            self.deadman.beat(True)  # before the first edge: from here on somebody else watches
            self._status["edge_ns"] = self.output.on()
        else:
            self.output.renew()
        if after.on != self.permit.on or start >= self._next_beat_s:
            self._next_beat_s = start + self._beat_s
            self.deadman.beat(after.on)
        self._publish(after, look, heard)
        if after.drop_seq != self.permit.drop_seq:
            self.log.warning("PWM dropped", extra={"by": after.first_missing, "why": ring.text(self._status["detail"])})
        elif after.on != self.permit.on:
            self.log.info("PWM on" if after.on else "PWM off", extra={"request_seq": after.request_seq})
        self.permit = after
        self._word.say(True)

    def _publish(self, permit: Permit, look: Look, heard: list[Heard]) -> None:
        status = self._status
        why = [h.why() for h in heard if not h.true]
        if not look.arm_fresh:
            why.append("arm: no fresh status")
        if look.late:
            why.insert(0, "gate: own loop late")
        mask = sum(1 << p for p in {*look.missing, *(() if look.arm_fresh else (ProcessId.ARM,))})
        status["beat"] += 1
        status["beat_ns"] = time.monotonic_ns()
        status["pwm_on"], status["request_seq"], status["drop_seq"] = permit.on, permit.request_seq, permit.drop_seq
        status["missing"], status["first_missing"] = mask, permit.first_missing
        if why or permit.on:  # what made the last drop stays readable until the next switch-on
            status["detail"] = ring.encode("; ".join(why), TEXT)
        self._writer.publish(status)

    def run(self) -> None:
        """Loop until `stop`. Raises PwmUnavailable if the line can no longer be driven."""
        gc.collect()
        gc.freeze()  # a full collection of what lives as long as the process would stall the loop
        due = time.monotonic()
        while not self.stop:
            self.loop()
            due = max(due + self._loop_s, time.monotonic() - self._loop_s)
            time.sleep(max(0.0, due - time.monotonic()))

    def farewell(self, reason: str) -> None:
        """The last status and word: PWM off."""
        self._status["pwm_on"] = 0
        self._status["detail"] = ring.encode(reason, TEXT)
        self._writer.publish(self._status)
        in_order = reason == GATE_FAREWELL
        self._word.say(False, HoldReason.STARTING if in_order else HoldReason.GATE_FAULT, reason)


def _process(value: int) -> ProcessId:
    try:
        return ProcessId(value)
    except ValueError:
        return ProcessId.GATE


def run(config: Config, config_file: str) -> int:
    """Exit status 0 after a signal. Raises PwmUnavailable, DeadmanGone."""
    output = open_output(config)
    # its deadline is later than gate's own by a loop, so that gate knows of every switch-off made in its place
    deadman = Deadman(config_file, (config.gate.word_deadline_ms + config.gate.loop_ms) * 1e-3)
    gate: Gate | None = None
    try:
        gate = Gate(config, output, deadman)

        def ask_to_stop(_signal: int, _frame: object) -> None:
            output.off()
            assert gate is not None
            gate.stop = True

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, ask_to_stop)
        gate.run()
        return 0
    finally:
        output.close()
        try:
            if gate is not None:  # before anything that takes time: arm is to know why the permit went
                gate.farewell(GATE_FAREWELL if gate.stop else "gate: the PWM line failed; see its log")
        finally:
            deadman.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.gate.main", description="Words to PWM.")
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    try:
        file = parser.parse_args().config
        return run(configuration.load(file), file)
    except (ConfigError, PwmUnavailable, DeadmanGone, ring.BlockError) as e:
        print(f"gate: {e}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
