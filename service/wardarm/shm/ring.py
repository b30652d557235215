"""One writer, many readers, nobody waits: a ring of checked slots in a file (of /dev/shm).

The writer marks a slot odd, writes it, and marks it even with its CRC; a reader takes a copy and accepts it
only if the mark was even, did not change and the CRC fits. A torn or foreign slot is never returned. On Arm
pure Python has no acquire fence: there the CRC is what tells.

Errors: `BlockMissing` (no such file yet), `BlockForeign` (another layout, size or version: names what differs),
`BlockTaken` (a living process writes it already).
"""

from __future__ import annotations

import mmap
import os
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.shm import layouts
from wardarm.shm.layouts import BLOCK_HEADER, BLOCKS, LAYOUT_VERSION, MAGIC, SLOT_HEADER, BlockKind, ProcessId

SHM = Path("/dev/shm")
_HEADER_BYTES = BLOCK_HEADER.itemsize
_SEQ, _GEN, _PUBLISH, _BYTES, _CRC = 0, 8, 16, 24, 28
_HEAD, _BEAT = 64, 72


class BlockError(RuntimeError):
    """A shared-memory block cannot be used; the text names the file and what is wrong."""


class BlockMissing(BlockError): ...


class BlockForeign(BlockError): ...


class BlockTaken(BlockError): ...


def block_path(kind: BlockKind, prefix: str, process: ProcessId | None = None) -> Path:
    """`/dev/shm/<prefix><name>`; a word's name carries its process. The customer's two names stay bare with prefix ''."""
    name = BLOCKS[kind][0]
    if kind is BlockKind.WORD:
        assert process is not None
        name = f"{name}_{process.name.lower()}"
    return SHM / f"{prefix}{name}"


def boot_id() -> bytes:
    return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))


def start_ticks(pid: int) -> int:
    """Start time of a process in clock ticks since boot; 0 if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


@dataclass(frozen=True)
class Slot:
    """A copy of one published payload."""

    data: Any  # numpy.void of the payload's dtype
    generation: int
    publish_ns: int

    @property
    def age_s(self) -> float:
        return (time.monotonic_ns() - self.publish_ns) * 1e-9


def create(kind: BlockKind, prefix: str, process: ProcessId | None = None) -> Path:
    """Make the file with an empty ring, mode 0600, unless one of this layout is there. Returns its path."""
    path = block_path(kind, prefix, process)
    _, payload, slots = BLOCKS[kind]
    slot_bytes = SLOT_HEADER.itemsize + payload.itemsize
    total = _HEADER_BYTES + slots * slot_bytes
    if path.exists():
        try:
            _check(path, kind)
            return path
        except BlockForeign:
            path.unlink()
    head = np.zeros((), BLOCK_HEADER)
    head["magic"], head["version"], head["kind"] = MAGIC, LAYOUT_VERSION, kind
    head["header_bytes"], head["slot_bytes"], head["slot_count"] = _HEADER_BYTES, slot_bytes, slots
    head["payload_bytes"] = payload.itemsize
    head["boot_id"] = np.frombuffer(boot_id(), np.uint8)
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(scratch, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        os.write(fd, head.tobytes() + bytes(total - _HEADER_BYTES))
    finally:
        os.close(fd)
    os.rename(scratch, path)  # readers never see half a block
    return path


def _check(path: Path, kind: BlockKind) -> None:
    _, payload, slots = BLOCKS[kind]
    want = {
        "magic": MAGIC,
        "version": LAYOUT_VERSION,
        "kind": int(kind),
        "header_bytes": _HEADER_BYTES,
        "slot_bytes": SLOT_HEADER.itemsize + payload.itemsize,
        "slot_count": slots,
        "payload_bytes": payload.itemsize,
    }
    try:
        raw = path.read_bytes()
    except FileNotFoundError as e:
        raise BlockMissing(f"{path}: not there; is 'wardarm run' up?") from e
    if len(raw) != want["header_bytes"] + want["slot_count"] * want["slot_bytes"]:
        raise BlockForeign(f"{path}: {len(raw)} bytes is not this version's size")
    head = np.frombuffer(raw[:_HEADER_BYTES], BLOCK_HEADER)[0]
    for field, value in want.items():
        if int(head[field]) != value:
            raise BlockForeign(f"{path}: {field} is {int(head[field])}, expected {value}")
    if head["boot_id"].tobytes() != boot_id():
        raise BlockForeign(f"{path}: left over from another boot")


class _Block:
    def __init__(self, kind: BlockKind, prefix: str, process: ProcessId | None = None) -> None:
        self.kind, self.path = kind, block_path(kind, prefix, process)
        _, self.payload, self.slots = BLOCKS[kind]
        self.slot_bytes = SLOT_HEADER.itemsize + self.payload.itemsize
        _check(self.path, kind)
        fd = os.open(self.path, os.O_RDWR)
        try:
            self.inode = os.fstat(fd).st_ino
            self.map = mmap.mmap(fd, _HEADER_BYTES + self.slots * self.slot_bytes)
        finally:
            os.close(fd)
        self.words = np.frombuffer(self.map, np.uint64)  # 8-byte loads and stores are single
        self.head = np.frombuffer(self.map, BLOCK_HEADER, 1)[0]

    def _offset(self, generation: int) -> int:
        return _HEADER_BYTES + generation % self.slots * self.slot_bytes


class Writer(_Block):
    """The one writer of a block. Taking over from a dead writer is allowed, from a living one refused."""

    def __init__(self, kind: BlockKind, prefix: str = "", process: ProcessId | None = None, make: bool = True) -> None:
        if make:
            create(kind, prefix, process)
        super().__init__(kind, prefix, process)
        pid = int(self.head["writer_pid"])
        if pid not in (0, os.getpid()) and start_ticks(pid) == int(self.head["writer_start_ticks"]):
            raise BlockTaken(f"{self.path}: process {pid} is writing it")
        self.head["writer_start_ticks"] = start_ticks(os.getpid())
        self.head["writer_pid"] = os.getpid()
        self.generation = int(self.words[_HEAD // 8])

    def publish(self, data: Any) -> int:
        """Publish a payload (a 0-d array or numpy.void of the block's dtype). Returns its generation."""
        raw = bytes(data.tobytes())
        if len(raw) != self.payload.itemsize:
            raise ValueError(f"{self.path}: payload has {len(raw)} bytes, not {self.payload.itemsize}")
        generation = self.generation + 1
        at = self._offset(generation)
        now = time.monotonic_ns()
        self.words[(at + _SEQ) // 8] = 2 * generation - 1
        self.words[(at + _GEN) // 8] = generation
        self.words[(at + _PUBLISH) // 8] = now
        self.words[(at + _BYTES) // 8] = len(raw) | zlib.crc32(raw) << 32
        self.map[at + SLOT_HEADER.itemsize : at + SLOT_HEADER.itemsize + len(raw)] = raw
        self.words[(at + _SEQ) // 8] = 2 * generation
        self.words[_HEAD // 8] = generation
        self.words[_BEAT // 8] = now
        self.generation = generation
        return generation

    def beat(self) -> None:
        self.words[_BEAT // 8] = time.monotonic_ns()

    def blank(self) -> Any:
        """A zeroed payload to fill in."""
        return np.zeros((), self.payload)


class Reader(_Block):
    """A reader. `latest()` gives a checked copy of the newest payload, or None."""

    def latest(self) -> Slot | None:
        for _ in range(8):
            generation = int(self.words[_HEAD // 8])
            if generation == 0:
                return None
            slot = self.at(generation)
            if slot is not None:
                return slot
        return None

    def at(self, generation: int) -> Slot | None:
        """The payload of one generation, None if it was overwritten, is being written or does not check."""
        at = self._offset(generation)
        if int(self.words[(at + _SEQ) // 8]) != 2 * generation:
            return None
        size_crc = int(self.words[(at + _BYTES) // 8])
        publish_ns = int(self.words[(at + _PUBLISH) // 8])
        raw = self.map[at + SLOT_HEADER.itemsize : at + SLOT_HEADER.itemsize + self.payload.itemsize]
        if int(self.words[(at + _SEQ) // 8]) != 2 * generation:
            return None
        if size_crc & 0xFFFFFFFF != len(raw) or zlib.crc32(raw) != size_crc >> 32:
            return None
        return Slot(np.frombuffer(raw, self.payload)[0], generation, publish_ns)

    def writer_alive(self) -> bool:
        pid = int(self.head["writer_pid"])
        return pid != 0 and start_ticks(pid) == int(self.head["writer_start_ticks"])

    def replaced(self) -> bool:
        """True if the file was made anew: open a new reader."""
        try:
            return os.stat(self.path).st_ino != self.inode
        except FileNotFoundError:
            return True

    @property
    def generation(self) -> int:
        """The newest published generation, 0 = none: a cheap look before `latest()` copies a payload."""
        return int(self.words[_HEAD // 8])

    @property
    def beat_ns(self) -> int:
        return int(self.words[_BEAT // 8])


def wait_for(kind: BlockKind, prefix: str, process: ProcessId | None = None, timeout_s: float = 10.0) -> Reader:
    """Open a reader, waiting for the block to appear. Raises BlockMissing after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            return Reader(kind, prefix, process)
        except BlockMissing:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def poll(reader: Reader, changed: Callable[[Slot], bool], timeout_s: float, interval_s: float = 0.002) -> Slot | None:
    """The newest payload once `changed` says so, None after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        slot = reader.latest()
        if slot is not None and changed(slot):
            return slot
        time.sleep(interval_s)
    return None


def text(field: Any) -> str:
    """A NUL-padded UTF-8 field as text (a cut multi-byte character at the end is dropped)."""
    return bytes(field).split(b"\0", 1)[0].decode("utf-8", "ignore")


def encode(value: str, size: int) -> bytes:
    """Text for a field of `size` bytes: cut at a character, never inside one, with room for the NUL."""
    return value.encode()[: size - 1].decode("utf-8", "ignore").encode()


__all__ = [
    "BlockError", "BlockForeign", "BlockMissing", "BlockTaken", "Reader", "Slot", "Writer", "block_path", "create",
    "encode", "layouts", "poll", "text", "wait_for",
]  # fmt: skip
