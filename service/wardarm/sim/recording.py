"""World states on disk, about 30 a second, for a film drawn afterwards. The simulation's own truth.

The file is a 16-byte header (magic, record size) and raw records of `world_state.STATE`; it is flushed every
second, so a killed process loses at most that.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.sim.world_state import STATE

_HEADER = struct.Struct("<8sII")
_MAGIC = b"WARDWRLD"


class Recorder:
    """Appends states to a file made anew, at most `rate_hz` a second of simulated time."""

    def __init__(self, path: str | Path, rate_hz: float = 30.0) -> None:
        self._file = Path(path).open("wb")  # noqa: SIM115  (stays open for the recording)
        self._file.write(_HEADER.pack(_MAGIC, STATE.itemsize, 0))
        self._period_s, self._next_s, self._flushed_s = 1 / rate_hz, 0.0, 0.0

    def offer(self, state: Any) -> None:
        """Take `state` (0-d array of STATE) if the next record is due."""
        now = float(state["time_s"])
        if now < self._next_s:
            return
        self._next_s = max(self._next_s + self._period_s, now)
        self._file.write(state.tobytes())
        if now - self._flushed_s > 1:
            self._file.flush()
            self._flushed_s = now

    def close(self) -> None:
        self._file.close()


def read(path: str | Path) -> NDArray[np.void]:
    """All whole records, dtype STATE. Raises ValueError if the file is something else."""
    raw = Path(path).read_bytes()
    if len(raw) < _HEADER.size or _HEADER.unpack_from(raw)[:2] != (_MAGIC, STATE.itemsize):
        raise ValueError(f"{path}: not a recording of this version's world states")
    return np.frombuffer(raw, STATE, (len(raw) - _HEADER.size) // STATE.itemsize, _HEADER.size)
