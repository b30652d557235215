"""Rendered pictures in shared memory: `views` writes them, the simulated cameras hand them on.

File `/dev/shm/<prefix>wardarm_sim_<name>`: a 64-byte header and three slots, each `sequence, number, stamp` and the
pixels. The sequence is odd while a slot is written; a reader that was overtaken takes the next one.
"""

from __future__ import annotations

import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wardarm.shm import ring

SLOTS = 3
_MAGIC = 0x50494353
_HEADER = np.dtype(
    [("magic", "<u4"), ("width", "<u4"), ("height", "<u4"), ("bytes", "<u4"), ("pid", "<u8"), ("start", "<u8"),
     ("head", "<u8"), ("pad", "u1", 24)]
)  # fmt: skip
_SLOT = np.dtype([("seq", "<u8"), ("number", "<u8"), ("stamp_ns", "<i8"), ("pad", "u1", 40)])


@dataclass(frozen=True)
class Picture:
    """`pixels`: uint8, flat, a copy. `stamp_ns`: CLOCK_MONOTONIC of the exposure. `number` counts pictures."""

    pixels: NDArray[np.uint8]
    stamp_ns: int
    number: int


def path(prefix: str, name: str) -> Path:
    return ring.SHM / f"{prefix}wardarm_sim_{name}"


class PictureWriter:
    """Creates the block anew. `slot()` gives the buffer to draw into, `publish()` hands it out."""

    def __init__(self, prefix: str, name: str, width: int, height: int, size: int) -> None:
        """`size`: bytes a picture."""
        self.path, self.size = path(prefix, name), size
        head = np.zeros((), _HEADER)
        head["magic"], head["width"], head["height"], head["bytes"] = _MAGIC, width, height, size
        head["pid"], head["start"] = os.getpid(), ring.start_ticks(os.getpid())
        self._stride = _SLOT.itemsize + -(-size // 64) * 64
        scratch = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with scratch.open("w+b") as f:
            scratch.chmod(0o600)
            f.write(head.tobytes())
            f.truncate(_HEADER.itemsize + SLOTS * self._stride)
            f.flush()
            self._map = mmap.mmap(f.fileno(), 0)
        scratch.rename(self.path)
        self._head = np.frombuffer(self._map, _HEADER, 1)
        self.number = 0

    def _at(self, number: int) -> int:
        return _HEADER.itemsize + number % SLOTS * self._stride

    def slot(self) -> NDArray[np.uint8]:
        """The next picture's bytes, marked as being written."""
        at = self._at(self.number + 1)
        np.frombuffer(self._map, _SLOT, 1, at)["seq"] = 2 * self.number + 1
        return np.frombuffer(self._map, np.uint8, self.size, at + _SLOT.itemsize)

    def publish(self, stamp_ns: int) -> None:
        self.number += 1
        slot = np.frombuffer(self._map, _SLOT, 1, self._at(self.number))
        slot["number"], slot["stamp_ns"] = self.number, stamp_ns
        slot["seq"] = 2 * self.number
        self._head["head"] = self.number

    def close(self) -> None:
        self.path.unlink(missing_ok=True)


class PictureReader:
    """Raises FileNotFoundError while there is no block, ring.BlockForeign if it is something else."""

    def __init__(self, prefix: str, name: str) -> None:
        self.path = path(prefix, name)
        with self.path.open("rb") as f:
            self._inode = os.fstat(f.fileno()).st_ino
            self._map = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        self._head = np.frombuffer(self._map, _HEADER, 1)
        if int(self._head["magic"][0]) != _MAGIC:
            raise ring.BlockForeign(f"{self.path}: not a picture block of this version")
        self.width, self.height, self.size = (int(self._head[k][0]) for k in ("width", "height", "bytes"))
        self._stride = _SLOT.itemsize + -(-self.size // 64) * 64

    @property
    def number(self) -> int:
        return int(self._head["head"][0])

    def latest(self) -> Picture | None:
        """A copy of the newest picture, None while there is none."""
        for _ in range(4):
            number = self.number
            if number == 0:
                return None
            at = _HEADER.itemsize + number % SLOTS * self._stride
            slot = np.frombuffer(self._map, _SLOT, 1, at)
            stamp = int(slot["stamp_ns"][0])
            pixels = np.frombuffer(self._map, np.uint8, self.size, at + _SLOT.itemsize).copy()
            if int(slot["seq"][0]) == 2 * number:
                return Picture(pixels, stamp, number)
        return None

    def replaced(self) -> bool:
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True


class PictureFeed:
    """Follows a block across restarts of `views`."""

    def __init__(self, prefix: str, name: str) -> None:
        self._prefix, self._name = prefix, name
        self._reader: PictureReader | None = None
        self._seen = 0

    def next(self, timeout_s: float, interval_s: float = 0.004) -> Picture | None:
        """The next new picture, None if none came within `timeout_s`."""
        end = time.monotonic() + timeout_s
        while True:
            if self._reader is None or self._reader.replaced():
                self._reader, self._seen = self._open(), 0
            if self._reader is not None and self._reader.number != self._seen:
                picture = self._reader.latest()
                if picture is not None:
                    self._seen = picture.number
                    return picture
            if time.monotonic() >= end:
                return None
            time.sleep(interval_s)

    def _open(self) -> PictureReader | None:
        try:
            return PictureReader(self._prefix, self._name)
        except (FileNotFoundError, ValueError):
            return None
