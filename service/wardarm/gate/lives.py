"""Whether the process that writes a block still lives: its death is seen at once, not when its beat has aged.

A pidfd of the writer that the block's header names (pid and start time: a number used again is another process). A block
that nobody wrote yet has no writer to lose. Only death shows here; a frozen process keeps its pidfd and loses its beat.
"""

from __future__ import annotations

import contextlib
import os
import select
from typing import Any

from wardarm.shm import ring


class Life:
    """The writer of one block, looked up anew when the header names another."""

    def __init__(self) -> None:
        self._named = (0, 0)
        self._fd = -1
        self._poll = select.poll()
        self._ended = False

    def ended(self, head: Any) -> bool:
        """`head`: the block's BLOCK_HEADER. True once its writer is gone, until another one has taken over."""
        named = int(head["writer_pid"]), int(head["writer_start_ticks"])
        if named != self._named:
            self._look_up(*named)
        if not self._ended and self._fd >= 0 and self._poll.poll(0):
            self._ended = True
            self.close()
        return self._ended

    def _look_up(self, pid: int, start_ticks: int) -> None:
        self.close()
        self._named, self._ended = (pid, start_ticks), False
        if pid == 0:
            return
        try:
            self._fd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._ended = True
            return
        except OSError:
            return  # no pidfd to be had (a foreign number, no descriptors left): the beat's age has to do
        if ring.start_ticks(pid) != start_ticks:
            self._ended = True
            self.close()
            return
        self._poll.register(self._fd, select.POLLIN)

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(KeyError):
                self._poll.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()
