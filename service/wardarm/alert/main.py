"""alert: says beside the bed why the arm has paused.

In: arm's status (latched holds, at rest), guard's word. Out: sound, by a configured program that plays one WAV file;
`/dev/shm/<prefix>wardarm_alert.json` (what was said, failures). Deadline: none that motion depends on: it speaks within
half a second of rest. Death, a missing sound card, a broken file: lines in the log and a count; nothing is held and
nothing waits for it.

    python -m wardarm.alert.main --config FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from wardarm import config as configuration
from wardarm import journal
from wardarm.alert.announcer import Announcer, Seen
from wardarm.alert.sounds import BadSounds, Sounds, build, load, shipped
from wardarm.config import Alert, Config
from wardarm.gate.words import BlockWatch, WordBoard
from wardarm.guard.zones import active, minute_of_day
from wardarm.shm import ring
from wardarm.shm.layouts import ArmState, BlockKind, HoldReason, ProcessId

PERIOD_S = 0.1
ARM_STALE_S = 1.0  # no status for so long: gate has dropped the permit long before
WARN_EVERY = 50  # failures between two lines in the log, after the first


@dataclass
class Counts:
    """What became of the sounds since the system started; `pid`, `start_ticks`: of the process that counts."""

    said: int = 0
    played: int = 0
    failures: int = 0
    last: str = ""
    last_failure: str = ""
    pid: int = 0
    start_ticks: int = 0


def _counts(file: Path) -> Counts:
    """Those that a process before this one, which died, left behind; else new ones."""
    counts = Counts()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(file.read_text("utf-8"))
        counts = Counts(
            int(found["said"]),
            int(found["played"]),
            int(found["failures"]),
            str(found["last"]),
            str(found["last_failure"]),
        )
    counts.pid, counts.start_ticks = os.getpid(), ring.start_ticks(os.getpid())
    return counts


class Player:
    """Plays WAV files one after the other with the configured program; never waits."""

    def __init__(self, alert: Alert, log: logging.Logger, counts: Counts) -> None:
        self.alert, self.log, self.counts = alert, log, counts
        self._queue: deque[Path] = deque()
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (the program's standard error, kept for its last line)

    @property
    def busy(self) -> bool:
        return self._process is not None or bool(self._queue)

    def play(self, files: Sequence[Path]) -> None:
        self._queue.extend(files)

    def poll(self, now_s: float) -> None:
        """Start the next file, notice the end of one, end one that takes too long."""
        if self._process is not None:
            code = self._process.poll()
            if code is None and now_s - self._began_s > self.alert.timeout_s:
                self._process.kill()
                self._process.wait()
                self.fail(f"{self.alert.command.split()[0]}: took longer than {self.alert.timeout_s:g} s and was ended")
            elif code == 0:
                self.counts.played += 1
            elif code is not None:
                self.fail(f"{self.alert.command.split()[0]}: exit {code}{self._last_words()}")
            if self._process.poll() is not None:
                self._process = None
        if self._process is None and self._queue:
            self._start(self._queue.popleft(), now_s)

    def _start(self, file: Path, now_s: float) -> None:
        try:
            words = [word.replace("{file}", str(file)) for word in shlex.split(self.alert.command)]
            self._words.seek(0)
            self._words.truncate()
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._words, start_new_session=True
            )
            self._began_s = now_s
        except FileNotFoundError as e:
            self.fail(
                f"alerts are shown, not spoken: alert.command's '{e.filename}' is not installed (aplay: alsa-utils)"
            )
        except (OSError, ValueError, IndexError) as e:
            self.fail(f"alert.command = {self.alert.command!r}: {e}")

    def _last_words(self) -> str:
        self._words.seek(0)
        lines = self._words.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""

    def fail(self, why: str) -> None:
        self._queue.clear()
        self.counts.failures += 1
        if why != self.counts.last_failure or self.counts.failures % WARN_EVERY == 0:
            self.log.warning("no sound", extra={"why": why, "failures": self.counts.failures})
        self.counts.last_failure = why

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._words.close()


class AlertLoop:
    """The loop of the process; `step` every PERIOD_S."""

    def __init__(self, config: Config) -> None:
        self.config, self.alert = config, config.alert
        self.log = journal.setup("alert", config)
        self._file = ring.SHM / f"{config.shm.prefix}wardarm_alert.json"
        self.player = Player(config.alert, self.log, _counts(self._file))
        self._folder = tempfile.TemporaryDirectory(prefix="wardarm_alert_")
        self.sounds = self._sounds()
        self.announcer = Announcer(config.alert.repeat_s)
        self._arm = BlockWatch(BlockKind.ARM_STATUS, config.shm.prefix)
        watched = [ProcessId.GUARD] if config.guard.enabled else []
        self._board = WordBoard(watched, config.shm.prefix, config.gate.word_deadline_ms * 1e-3)
        self._written: Counts | None = None
        self.stopping = False
        if config.alert.self_test and self.sounds:
            self.player.play([self.sounds.tone])

    def _sounds(self) -> Sounds | None:
        """The site's own; else those that ship; else chimes made here; else none: each loss is counted."""
        try:
            if self.alert.manifest:
                return load(Path(self.alert.manifest))
        except BadSounds as e:
            self.player.fail(f"alert.manifest: {e}; what ships with wardarm is used instead")
        try:
            return load(shipped())
        except BadSounds as e:
            self.player.fail(f"{e}; chimes are used instead")
        try:
            return load(build(Path(self._folder.name), None, "chimes", ""))
        except (BadSounds, OSError) as e:
            self.player.fail(str(e))
            return None

    def look(self) -> Seen:
        """What stands on the board now."""
        slot = self._arm.latest()
        holds: list[HoldReason] = []
        at_rest = True
        if slot is not None and slot.age_s < ARM_STALE_S and int(slot.data["state"]) != ArmState.OFFLINE:
            at_rest = bool(slot.data["at_rest"])
            holds = [_reason(int(h["reason"])) for h in slot.data["holds"][: int(slot.data["hold_count"])]]
        heard = self._board.hear_all()
        causes = [h.reason for h in heard if not h.ok and not h.late]
        quiet = bool(self.alert.quiet_start) and active(self.alert.quiet_start, self.alert.quiet_end, minute_of_day())
        return Seen(time.monotonic(), holds, causes, any(h.slow for h in heard), at_rest, quiet)

    def step(self) -> None:
        now_s = time.monotonic()
        self.player.poll(now_s)
        if not self.player.busy:
            name = self.announcer.next(self.look())
            if name is not None:
                self.player.counts.said += 1
                self.player.counts.last = name
                self.log.info("said", extra={"said": name})
                if self.sounds is not None:
                    self.player.play(self.sounds.of(name, self.alert.languages))
                    self.player.poll(now_s)
        self._write()

    def _write(self) -> None:
        if self.player.counts == self._written:
            return
        self._written = Counts(**asdict(self.player.counts))
        scratch = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # a full /dev/shm costs the count, not the sound
            scratch.write_text(json.dumps(asdict(self.player.counts), ensure_ascii=False), "utf-8")
            scratch.rename(self._file)

    def close(self) -> None:
        self.player.close()
        self._file.unlink(missing_ok=True)
        self._folder.cleanup()


def _reason(value: int) -> HoldReason:
    return HoldReason(value) if value in set(HoldReason) else HoldReason.WATCHDOG


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.alert.main", description="Says why the arm has paused.")
    parser.add_argument("--config", required=True, help="configuration file, or 'desk' or 'thor'")
    args = parser.parse_args()
    try:
        loop = AlertLoop(configuration.load(args.config))
    except configuration.ConfigError as e:
        print(e, file=sys.stderr)
        return 2

    def end(_number: int, _frame: object) -> None:
        loop.stopping = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        while not loop.stopping:
            loop.step()
            time.sleep(PERIOD_S)
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
