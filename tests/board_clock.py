"""CLOCK_MONOTONIC in the test's hand, for whatever reads the words and blocks; and block names of one's own."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from wardarm.gate import words
from wardarm.shm import ring


class Clock:
    """Stands in for module `time` in `gate.words` and `shm.ring`."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns * 1e-9

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def take(self, patch: pytest.MonkeyPatch, *modules: object) -> Clock:
        for module in (words, ring, *modules):
            patch.setattr(module, "time", self)
        return self


_count = 0


def blocks() -> Iterator[str]:
    """A prefix of its own; its blocks are removed at the end."""
    global _count
    _count += 1
    prefix = f"wb{os.getpid()}_{_count}_{time.monotonic_ns() % 100000}_"
    yield prefix
    for file in (*Path("/dev/shm").glob(f"{prefix}*"), *Path("/dev/shm").glob(f".{prefix}*")):
        file.unlink(missing_ok=True)
