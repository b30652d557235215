"""Frames in shared memory: pixels in a region of slots that Triton reads, what they are in the FrameMeta ring.

Slot i starts at `i * slot_bytes` (a multiple of 64 KiB): colour (height x width x 3, UINT8, RGB), then at
`depth_offset` the paired depth (height x width, UINT16, little-endian, millimetres for a D455 at its default unit;
zeros if the source has none). A slot that a request still refers to is pinned: the server copies pixels when it
executes, not when it is asked, so a pinned slot is never written.

The file is made once with mode 0600 and never resized: truncating a registered file kills the server.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.shm.layouts import BlockKind
from wardarm.shm.ring import SHM, Writer

_ALIGN = 64 * 1024


@dataclass(frozen=True)
class Frame:
    """One paired picture. Times are CLOCK_MONOTONIC ns but `sensor_ms`, the camera's own clock."""

    number: int
    capture_ns: int
    arrival_ns: int
    sensor_ms: float
    slot: int
    brightness: float  # mean of the colour picture, 0..255

    @property
    def age_s(self) -> float:
        return (time.monotonic_ns() - self.capture_ns) * 1e-9


class FrameRegion:
    """The pixels: `/dev/shm/<prefix>wardarm_frames`."""

    def __init__(self, prefix: str, width: int, height: int, slots: int) -> None:
        self.name = f"{prefix}wardarm_frames"
        self.width, self.height, self.slots = width, height, slots
        self.colour_bytes = width * height * 3
        self.depth_offset = -(-self.colour_bytes // 4096) * 4096
        self.slot_bytes = -(-(self.depth_offset + width * height * 2) // _ALIGN) * _ALIGN
        self.bytes = self.slot_bytes * slots
        self.path = SHM / self.name
        if self.path.exists() and self.path.stat().st_size != self.bytes:
            self.path.unlink()  # a server that still maps the old file keeps its own copy of it
        fd = os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if os.fstat(fd).st_size == 0:
                os.ftruncate(fd, self.bytes)
            self._map = mmap.mmap(fd, self.bytes)
        finally:
            os.close(fd)

    def colour(self, slot: int) -> NDArray[np.uint8]:
        """A view, height x width x 3."""
        flat = np.frombuffer(self._map, np.uint8, self.colour_bytes, self.offset(slot))
        return flat.reshape(self.height, self.width, 3)

    def depth(self, slot: int) -> NDArray[np.uint16]:
        """A view, height x width."""
        flat = np.frombuffer(self._map, np.uint16, self.width * self.height, self.offset(slot) + self.depth_offset)
        return flat.reshape(self.height, self.width)

    def offset(self, slot: int) -> int:
        return slot * self.slot_bytes

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


class FrameBoard:
    """Where the camera's thread puts frames and the main loop takes the newest from; each call holds a lock."""

    def __init__(self, region: FrameRegion, prefix: str) -> None:
        self.region = region
        self._meta = Writer(BlockKind.FRAME_META, prefix)
        self._lock = threading.Lock()
        self._pins = [0] * region.slots
        self._latest: Frame | None = None
        self._number = 0
        self._next = 0
        self._arrivals: list[int] = []

    def put(
        self, colour: NDArray[Any], depth: NDArray[Any] | None, capture_ns: int, arrival_ns: int, sensor_ms: float
    ) -> Frame | None:
        """Copy one frame in and announce it. None (frame dropped) if every slot is pinned.

        `colour`: height x width x 3 UINT8 RGB; `depth`: height x width UINT16 or None.
        """
        slot = self._claim()
        if slot is None:
            return None
        np.copyto(self.region.colour(slot), colour)
        if depth is None:
            self.region.depth(slot)[:] = 0
        else:
            np.copyto(self.region.depth(slot), depth)
        brightness = float(colour[::16, ::16].mean())
        with self._lock:
            self._number += 1
            frame = Frame(self._number, capture_ns, arrival_ns, sensor_ms, slot, brightness)
            self._latest = frame
            self._arrivals = [*self._arrivals[-29:], arrival_ns]
        self._announce(frame)
        return frame

    def _claim(self) -> int | None:
        with self._lock:
            newest = self._latest.slot if self._latest else -1
            for step in range(self.region.slots):
                slot = (self._next + step) % self.region.slots
                if not self._pins[slot] and slot != newest:
                    self._next = slot + 1
                    return slot
        return None

    def _announce(self, frame: Frame) -> None:
        meta = self._meta.blank()
        meta["frame_number"], meta["capture_ns"], meta["arrival_ns"] = frame.number, frame.capture_ns, frame.arrival_ns
        meta["sensor_ms"], meta["pixel_slot"], meta["brightness"] = frame.sensor_ms, frame.slot, frame.brightness
        meta["width"], meta["height"], meta["channels"] = self.region.width, self.region.height, 3
        self._meta.publish(meta)

    @property
    def latest(self) -> Frame | None:
        return self._latest

    def pin_latest(self) -> Frame | None:
        """The newest frame, its slot kept from being written until `unpin`."""
        with self._lock:
            if self._latest is not None:
                self._pins[self._latest.slot] += 1
            return self._latest

    def unpin(self, frame: Frame) -> None:
        with self._lock:
            self._pins[frame.slot] -= 1

    def fps(self) -> float:
        """Frames a second over the last 30; 0 with fewer than two."""
        with self._lock:
            a = self._arrivals
            return (len(a) - 1) / ((a[-1] - a[0]) * 1e-9) if len(a) > 1 and a[-1] > a[0] else 0.0

    def silent_s(self) -> float:
        """Seconds since the newest frame arrived; infinite before the first."""
        latest = self._latest
        return float("inf") if latest is None else (time.monotonic_ns() - latest.arrival_ns) * 1e-9
