"""A room camera is a program that writes raw GRAY8 frames to its standard output. This starts it, reads it without
ever blocking, and says when it cannot be relied on.

A frame counts only if it is whole, looks like a picture, differs from the one before, and is none of the last few over again
(a real sensor is never identical twice). When no such frame came for `guard.lost_s`, or too few (`guard.fps_min_percent`), or far too many, the
camera is lost, whatever the cause; it is back after three in a row. A lost camera's program is ended and started again,
at once the first time, then less and less often; `in_vain` counts starts that did not help.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wardarm.config import ConfigError, Guard, RoomCamera

START_S = 10.0  # a program may take this long to its first byte
BACK_FRAMES = 3
RESTART_DELAYS_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0)
IN_VAIN = 5  # starts that did not help: it needs a person, and says so
HEALTHY_S = 30.0  # after so long without a loss the next restart is immediate again
END_S = 1.0  # SIGTERM, then SIGKILL
PIPE_BYTES = 1 << 20  # four 640x360 frames; Linux's default of 64 KiB would wake us four times a frame
PAUSE_PERIODS, PAUSE_MIN_S = 0.6, 0.025  # a frame comes in one piece; a longer pause inside means bytes are missing
ROW_LIKENESS_MIN = 0.3  # correlation of neighbouring rows: a picture has > 0.8, random bytes about 0
COLUMNS = 80  # so many are looked at
FLAT = 8.0  # grey levels; a picture with less spread (a dark room) has no correlation to speak of
FROZEN_S = 0.6  # the same picture for so long is a lost camera, however long guard.lost_s is
RING, RING_ROWS = 8, 8  # frames that a stuck driver may hand out in turn; each so-many-th row is looked at
RATE_S = 2.0  # over which frames are counted
SLOW_END_S = 6.0  # a program that stays too slow for so long is started again
FLOOD_TIMES, FLOOD_MORE = 4, 30  # more than so many times guard.fps, and so many frames/s more, is no live camera
READS_A_POLL = 64  # a program that never stops writing must not keep the loop from its word
WORDS_BYTES = 1 << 16  # of its standard error, a poll; 3 MB/s at a beat of 20 ms
_FIELD = re.compile(r"\{([a-z_]*)\}")
_ELEMENT = re.compile(r"from element \S*:(\S+):")  # GStreamer's path of an element; its name is enough
_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Frame:
    """`grey`: uint8 (height, width), valid until the next `poll`. `arrival_ns`: CLOCK_MONOTONIC."""

    grey: NDArray[np.uint8]
    arrival_ns: int
    number: int


def argv(camera: RoomCamera, guard: Guard, config_file: Path) -> list[str]:
    """The program and its arguments, fields filled in; never a shell. Raises ConfigError."""
    fields = {
        "python": sys.executable,
        "config": str(config_file),
        "name": camera.name,
        "width": str(guard.width),
        "height": str(guard.height),
        "fps": f"{guard.fps:g}",
    }
    key = f"guard.cameras[{camera.name}].command"
    try:
        words = shlex.split(camera.command)
    except ValueError as e:
        raise ConfigError(f"{key}: {e}") from e
    if not words:
        raise ConfigError(f"{key} is empty; give a program that writes raw GRAY8 frames to its standard output")
    unknown = [name for name in _FIELD.findall(camera.command) if name not in fields]
    if unknown:
        raise ConfigError(f"{key}: {{{unknown[0]}}} is not one of {', '.join(f'{{{f}}}' for f in fields)}")
    return [_FIELD.sub(lambda m: fields[m[1]], word) for word in words]


def looks_like_a_picture(grey: NDArray[np.uint8]) -> bool:
    """False for noise and misread bytes: neighbouring rows of a picture are alike."""
    part = grey[:, :: max(4, grey.shape[1] // COLUMNS)].astype(np.float32)
    part -= part.mean()
    spread = float(np.mean(part * part))
    if spread < FLAT * FLAT:
        return True
    return float(np.mean(part[1:] * part[:-1])) / spread > ROW_LIKENESS_MIN


def _die_with(parent: int) -> Callable[[], None]:
    """A camera that outlives the guard would keep the device from the next one."""

    def prepare() -> None:
        _libc.prctl(_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class CameraProgram:
    """One camera. Call `poll` often; nothing here blocks."""

    def __init__(self, camera: RoomCamera, guard: Guard, config_file: Path) -> None:
        self.name, self.guard = camera.name, guard
        self.argv = argv(camera, guard, config_file)
        self.frame_bytes = guard.width * guard.height
        self.buffers = [bytearray(self.frame_bytes), bytearray(self.frame_bytes)]
        self.fill = 0
        self.number = 0  # frames that counted, ever
        self.starts = 0
        self.ever_good = False
        self.process: subprocess.Popen[bytes] | None = None
        self._cause = ""  # what was wrong with the last frame, or how the program ended; "" after a good frame
        self._current = 0
        self._spawn_ns = self._good_ns = self._byte_ns = self._lost_ns = 0
        self._good_run = 0
        self._lost = True
        self._last_words, self._named_error = "", False
        self._end_ns = 0  # SIGTERM sent then; 0 = it may run
        self._next_start_ns = 0
        self._failures = 0
        self._compare = False
        self._recent: deque[int] = deque(maxlen=RING)  # sums of the last frames
        self._times: deque[int] = deque()  # of the frames that counted within RATE_S
        self._frozen_ns = self._slow_ns = self._steady_ns = 0
        self._taken: deque[int] = deque()  # of all whole frames within a second

    @property
    def in_vain(self) -> int:
        """Starts of its program since it last delivered."""
        return self._failures

    @property
    def fds(self) -> list[int]:
        """What to wait for before the next `poll`."""
        p = self.process
        return [p.stdout.fileno()] if p and p.stdout and not self._end_ns else []

    @property
    def lost(self) -> bool:
        """True until three good frames came, and again when `guard.lost_s` passed without one."""
        return self._lost

    @property
    def fault(self) -> str:
        """Why it is lost, in plain words; "" if it is not."""
        if not self._lost:
            return ""
        if self._cause:
            vain = f" (started {self._failures} times in vain)" if self._failures >= IN_VAIN else ""
            return self._cause + vain
        if self.starting:
            return "starting"
        return "coming back" if self._good_run else f"no frame for {self.guard.lost_s:g} s"

    @property
    def starting(self) -> bool:
        """True while this camera has never delivered and its program may still be starting."""
        return not self.ever_good and self._failures == 0

    def poll(self, now_ns: int) -> Frame | None:
        """Read what is there; the newest frame that counts, if any."""
        if self.process is None:
            if now_ns >= self._next_start_ns:
                self._start(now_ns)
            return None
        frame = None if self._end_ns else self._read(now_ns)
        self._judge(now_ns)
        return frame

    def _start(self, now_ns: int) -> None:
        self.starts += 1
        try:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                start_new_session=True, preexec_fn=_die_with(os.getpid()),
            )  # fmt: skip
        except OSError as e:
            self._retry_later(now_ns, f"{self.argv[0]}: {e.strerror}")
            return
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        for stream in (self.process.stdout, self.process.stderr):
            os.set_blocking(stream.fileno(), False)
        with contextlib.suppress(OSError):  # a system may allow less: then it wakes us more often
            fcntl.fcntl(self.process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._spawn_ns, self._byte_ns, self._end_ns, self.fill = now_ns, 0, 0, 0
        self._compare, self._last_words, self._named_error, self._steady_ns = False, "", False, now_ns
        self._frozen_ns = self._slow_ns = 0
        self._times.clear()
        self._taken.clear()
        self._recent.clear()

    def _read(self, now_ns: int) -> Frame | None:
        assert self.process is not None
        assert self.process.stdout is not None
        self._read_words()
        fd, newest = self.process.stdout.fileno(), None
        for _ in range(READS_A_POLL):
            try:
                got = os.readv(fd, [memoryview(self.buffers[self._current])[self.fill :]])
            except BlockingIOError:
                break
            if got == 0:  # it closed its output: it ended, or is about to
                self._cause = self._ended_text()
                self._lose(now_ns)
                self._end(now_ns)
                return newest
            self._byte_ns = now_ns
            self.fill += got
            if self.fill == self.frame_bytes:
                newest = self._whole(now_ns) or newest
        pause_s = max(PAUSE_MIN_S, PAUSE_PERIODS / self.guard.fps)
        if self.fill and (now_ns - self._byte_ns) * 1e-9 > pause_s:
            self._cause = f"a frame of {self.fill} instead of {self.frame_bytes} bytes"
            self.fill = self._good_run = 0  # the next byte begins a new frame
        return newest

    def _whole(self, now_ns: int) -> Frame | None:
        """A complete frame is in the current buffer: judge it, and swap buffers."""
        this, other = self.buffers[self._current], self.buffers[1 - self._current]
        self._current, self.fill = 1 - self._current, 0
        grey = np.frombuffer(this, np.uint8).reshape(self.guard.height, self.guard.width)
        same = self._compare and self._same(grey, np.frombuffer(other, np.uint8).reshape(grey.shape))
        same = self._came_already(grey) or same
        self._compare = True
        if self._too_many(now_ns):
            self._cause, self._good_run = f"it floods: more than {len(self._taken) - 1} frames/s; pace its command", 0
            self._lose(now_ns)
            return None
        if same:
            self._cause, self._good_run = "the picture is frozen", 0
            self._frozen_ns = self._frozen_ns or now_ns
            if (now_ns - self._frozen_ns) * 1e-9 >= FROZEN_S:
                self._lose(now_ns)
            return None
        self._frozen_ns = 0
        if not looks_like_a_picture(grey):
            self._cause, self._good_run = (
                "what it sends is no picture; check width, height and format in its command",
                0,
            )
            return None
        self.number += 1
        self._good_ns = now_ns
        self._good_run += 1
        self._times.append(now_ns)
        if not self._slow(now_ns):
            self._cause = ""
            if self._lost and self._good_run >= BACK_FRAMES:
                self._lost, self.ever_good = False, True
        return Frame(grey, now_ns, self.number)

    def _same(self, grey: NDArray[np.uint8], before: NDArray[np.uint8]) -> bool:
        limit = self.guard.still_percent / 100 * grey.size
        for part in (slice(None, None, RING_ROWS), slice(None)):  # a live picture is told by some of its rows
            if int(np.count_nonzero(grey[part] != before[part])) > limit:
                return False
        return True

    def _came_already(self, grey: NDArray[np.uint8]) -> bool:
        """True if this picture is one of the last RING: a stuck driver hands its few buffers out in turn."""
        found = zlib.crc32(grey[::RING_ROWS].tobytes())
        known = found in self._recent
        self._recent.append(found)
        return known

    def _too_many(self, now_ns: int) -> bool:
        self._taken.append(now_ns)
        while self._taken[0] < now_ns - 1_000_000_000:
            self._taken.popleft()
        fps = self.guard.fps
        return len(self._taken) > max(FLOOD_TIMES * fps, fps + FLOOD_MORE)

    def _slow(self, now_ns: int) -> bool:
        """True while fewer frames came than guard.fps_min_percent asks for; known once it ran for RATE_S."""
        while self._times and self._times[0] < now_ns - RATE_S * 1e9:
            self._times.popleft()
        fps, share = self.guard.fps, self.guard.fps_min_percent / 100
        least = math.floor(share * fps * RATE_S)
        if len(self._times) >= least or (now_ns - self._steady_ns) * 1e-9 < RATE_S + 1 / fps:
            self._slow_ns = 0
            return False
        self._cause = f"{len(self._times) / RATE_S:.1f} instead of {fps:g} frames/s"
        self._slow_ns = self._slow_ns or now_ns
        return True

    def _judge(self, now_ns: int) -> None:
        lost_s = self.guard.lost_s
        if (now_ns - self._good_ns) * 1e-9 > lost_s:
            self._lose(now_ns)
        elif not self._lost and self._slow(now_ns):
            self._lost, self._lost_ns = True, now_ns
        elif not self._lost and (now_ns - self._lost_ns) * 1e-9 > HEALTHY_S:
            self._failures = 0
        assert self.process is not None
        if self._end_ns:
            self._reap(now_ns)
        elif self._lost and self._good_run == 0:
            age_s = (now_ns - self._spawn_ns) * 1e-9
            if age_s > (START_S if self._byte_ns == 0 else max(3.0, 2 * lost_s)):
                self._end(now_ns)
        elif self._lost and self._slow_ns and (now_ns - self._slow_ns) * 1e-9 > SLOW_END_S:
            self._end(now_ns)

    def _lose(self, now_ns: int) -> None:
        self._lost, self._lost_ns, self._good_run = True, now_ns, 0
        self._times.clear()
        self._steady_ns, self._slow_ns = now_ns, 0

    def _end(self, now_ns: int) -> None:
        if not self._end_ns:
            self._end_ns = now_ns
            self._signal(signal.SIGTERM)

    def _exit_code(self) -> int | None:
        """None while it runs. It stays a zombie: only while its id is taken may its session be signalled."""
        assert self.process is not None
        state = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if state is None else state.si_status

    def _reap(self, now_ns: int) -> None:
        assert self.process is not None
        if self._exit_code() is None:
            if (now_ns - self._end_ns) * 1e-9 > END_S:
                self._signal(signal.SIGKILL)
            return
        self._read_words()
        cause = self._ended_text() if self._last_words or not self._cause else self._cause
        self._close()
        self._retry_later(now_ns, cause)

    def _retry_later(self, now_ns: int, cause: str) -> None:
        delay = RESTART_DELAYS_S[min(self._failures, len(RESTART_DELAYS_S) - 1)]
        self._cause, self._failures = cause, self._failures + 1
        self._next_start_ns = now_ns + int(delay * 1e9)

    def _ended_text(self) -> str:
        code = self._exit_code()
        status = f" (exit {code})" if code is not None else ""
        return f"its program ended{status}{': ' + self._last_words if self._last_words else ''}"

    def _read_words(self) -> None:
        """What its standard error says: the first error that it names, else its last line (device busy, no such caps)."""
        assert self.process is not None
        assert self.process.stderr is not None
        try:
            words = os.read(self.process.stderr.fileno(), WORDS_BYTES)
        except BlockingIOError:
            return
        at = words.find(b"ERROR")  # GStreamer's and FFmpeg's; what they say after it is less telling
        if self._named_error or (at < 0 and not words.strip()):
            return
        self._named_error = at >= 0
        part = words[at : at + 1024].split(b"\n")[0] if at >= 0 else words[-1024:].strip().split(b"\n")[-1]
        self._last_words = _ELEMENT.sub(r"\1:", part.decode("utf-8", "replace").strip())[:200]

    def _signal(self, number: int) -> None:
        """To the program's whole session (it leads one of its own and is not yet waited for)."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def _close(self) -> None:
        """After its end: kill what else its session started (a device has one user), then wait for it."""
        assert self.process is not None
        self._signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        self.process = None
        self._end_ns = 0

    def stop(self) -> None:
        """End the program; waits up to END_S for it, then kills it."""
        if self.process is None:
            return
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + END_S
        while self._exit_code() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        self._close()

    def age_s(self, now_ns: int | None = None) -> float:
        """Seconds since the last frame that counted."""
        return ((now_ns or time.monotonic_ns()) - self._good_ns) * 1e-9
