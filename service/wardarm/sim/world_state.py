"""The world's state in shared memory: `sim` writes it about 60 times a second, `views` draws from it.

File `/dev/shm/<prefix>wardarm_sim_world`: a 64-byte header and a ring of slots, each `sequence, size, CRC-32` and a
`STATE` payload; the sequence is odd while a slot is written. One writer, any number of readers, nobody waits.
"""

from __future__ import annotations

import mmap
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.shm import ring
from wardarm.sim.scenes import KINDS, PER_KIND
from wardarm.sim.visitor import PARTS

PIECES = len(KINDS) * PER_KIND
NQ = 14 + 7 * PIECES
"""6 arm joints, 8 finger joints, 7 numbers a piece."""
NMOCAP = 1 + len(PARTS)
_SLOTS = 4
_MAGIC = 0x57524C44
_HEADER = np.dtype(
    [("magic", "<u4"), ("slots", "<u4"), ("payload", "<u4"), ("crc", "<u4"), ("pid", "<u8"), ("start", "<u8"),
     ("head", "<u8"), ("pad", "u1", 24)]
)  # fmt: skip
_SLOT = np.dtype([("seq", "<u8"), ("size", "<u4"), ("crc", "<u4")])

STATE = np.dtype(
    [
        ("t_ns", "<i8"),  # CLOCK_MONOTONIC when the world was so
        ("time_s", "<f8"),  # simulated time
        ("sim_rate", "<f8"),  # simulated seconds a real second, about the last second
        ("light", "<f8"),  # brightness, 1 = nominal
        ("scene_id", "<u4"),  # changes when pieces are repainted or a scene is loaded
        ("blackout", "<u4"),  # bit 0: the D455 gives no picture; bits 1..3: room views, in order
        ("qpos", "<f8", NQ),
        ("mocap_pos", "<f8", (NMOCAP, 3)),
        ("mocap_quat", "<f8", (NMOCAP, 4)),
        ("colors", "<f4", (PIECES, 3)),  # of each piece, RGB 0..1
        ("camera_shift_m", "<f4", 3),  # by which the D455 was knocked, base frame
        ("camera_turn_rad", "<f4", 3),  # and turned: rotation vector, its own frame (MuJoCo's: x right, y up)
        ("pad", "u1", 24),
    ]
)
_SLOT_BYTES = _SLOT.itemsize + STATE.itemsize


def path(prefix: str) -> Path:
    return ring.SHM / f"{prefix}wardarm_sim_world"


class WorldWriter:
    """Creates the block anew and publishes into it."""

    def __init__(self, prefix: str) -> None:
        self.path = path(prefix)
        head = np.zeros((), _HEADER)
        head["magic"], head["slots"], head["payload"] = _MAGIC, _SLOTS, STATE.itemsize
        head["pid"], head["start"] = os.getpid(), ring.start_ticks(os.getpid())
        scratch = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        scratch.write_bytes(head.tobytes() + bytes(_SLOTS * _SLOT_BYTES))
        scratch.chmod(0o600)
        with scratch.open("r+b") as f:
            self._map = mmap.mmap(f.fileno(), 0)
        scratch.rename(self.path)
        self._head = np.frombuffer(self._map, _HEADER, 1)
        self._generation = 0

    def publish(self, state: Any) -> None:
        """`state`: a 0-d array of dtype STATE."""
        raw = state.tobytes()
        self._generation += 1
        at = _HEADER.itemsize + self._generation % _SLOTS * _SLOT_BYTES
        slot = np.frombuffer(self._map, _SLOT, 1, at)
        slot["seq"] = 2 * self._generation - 1
        slot["size"], slot["crc"] = len(raw), zlib.crc32(raw)
        self._map[at + _SLOT.itemsize : at + _SLOT_BYTES] = raw
        slot["seq"] = 2 * self._generation
        self._head["head"] = self._generation

    def close(self) -> None:
        self.path.unlink(missing_ok=True)


class WorldReader:
    """Reads the newest state. Raises FileNotFoundError while there is no block, ring.BlockForeign for another size."""

    def __init__(self, prefix: str) -> None:
        self.path = path(prefix)
        with self.path.open("rb") as f:
            self._inode = os.fstat(f.fileno()).st_ino
            self._map = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
        self._head = np.frombuffer(self._map, _HEADER, 1)
        if int(self._head["magic"][0]) != _MAGIC or int(self._head["payload"][0]) != STATE.itemsize:
            raise ring.BlockForeign(f"{self.path}: not this version's world state; start 'wardarm sim bedside' anew")

    def latest(self) -> Any | None:
        """A checked copy (numpy.void of STATE), or None while nothing is published."""
        for _ in range(8):
            generation = int(self._head["head"][0])
            if generation == 0:
                return None
            at = _HEADER.itemsize + generation % _SLOTS * _SLOT_BYTES
            slot = np.frombuffer(self._map, _SLOT, 1, at)
            before, crc = int(slot["seq"][0]), int(slot["crc"][0])
            raw = self._map[at + _SLOT.itemsize : at + _SLOT_BYTES]
            if before == 2 * generation == int(slot["seq"][0]) and zlib.crc32(raw) == crc:
                return np.frombuffer(raw, STATE)[0]
        return None

    def writer_alive(self) -> bool:
        pid = int(self._head["pid"][0])
        return ring.start_ticks(pid) == int(self._head["start"][0]) != 0

    def replaced(self) -> bool:
        """True if `sim` made the block anew: open a new reader."""
        try:
            return self.path.stat().st_ino != self._inode
        except FileNotFoundError:
            return True


def wait_for(prefix: str, timeout_s: float = 60.0) -> WorldReader:
    """Open a reader, waiting for `sim`. Raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            reader = WorldReader(prefix)
            if reader.latest() is not None and reader.writer_alive():
                return reader
        except (
            FileNotFoundError,
            ValueError,
            ring.BlockForeign,
        ):  # not there yet, of no size yet, or another version's
            pass
        if time.monotonic() > end:
            raise TimeoutError(
                f"{path(prefix)}: no living world state in {timeout_s:.0f} s; is 'wardarm sim bedside' running?"
            )
        time.sleep(0.02)
