"""The ring of checked slots: what a reader takes, what it never takes, who may write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from board_clock import Clock, blocks
from wardarm.shm import ring
from wardarm.shm.layouts import BLOCK_HEADER, BLOCKS, SLOT_HEADER, WORD, BlockKind, ProcessId

GUARD = ProcessId.GUARD
KIND = BlockKind.WORD


@pytest.fixture
def prefix() -> Iterator[str]:
    yield from blocks()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock().take(monkeypatch)


def word(number: int) -> np.ndarray:
    payload = np.zeros((), WORD)
    payload["hold_seq"] = number
    return payload


def pair(prefix: str) -> tuple[ring.Writer, ring.Reader]:
    writer = ring.Writer(KIND, prefix, GUARD)
    return writer, ring.Reader(KIND, prefix, GUARD)


def number(slot: ring.Slot | None) -> int | None:
    return None if slot is None else int(slot.data["hold_seq"])


def test_the_newest_is_read_and_old_ones_until_they_are_overwritten(clock: Clock, prefix: str) -> None:
    writer, reader = pair(prefix)
    assert reader.latest() is None
    assert reader.generation == 0
    for i in range(1, 6):
        clock.advance(0.01)
        assert writer.publish(word(i)) == i
        slot = reader.latest()
        assert slot is not None
        assert (number(slot), slot.generation, slot.publish_ns) == (i, i, clock.now_ns)
        assert reader.generation == i
        assert reader.beat_ns == clock.now_ns
    assert number(reader.at(4)) == 4
    assert reader.at(3) is None
    assert reader.at(6) is None
    clock.advance(0.25)
    slot = reader.latest()
    assert slot is not None
    assert slot.age_s == pytest.approx(0.25)


def test_a_copy_stays_as_it_was_read(prefix: str) -> None:
    writer, reader = pair(prefix)
    writer.publish(word(1))
    slot = reader.latest()
    for i in range(2, 6):
        writer.publish(word(i))
    assert number(slot) == 1


def slot_at(writer: ring.Writer, generation: int) -> int:
    return writer._offset(generation)


@pytest.mark.parametrize(
    ("field", "value"), [(ring._SEQ, 3), (ring._SEQ, 0), (ring._SEQ, 6)], ids=["being written", "never", "another"]
)
def test_a_slot_that_is_not_marked_whole_is_not_read(prefix: str, field: int, value: int) -> None:
    writer, reader = pair(prefix)
    writer.publish(word(1))
    writer.publish(word(2))
    writer.words[(slot_at(writer, 2) + field) // 8] = value
    assert reader.at(2) is None
    assert reader.latest() is None
    assert number(reader.at(1)) == 1


@pytest.mark.parametrize("at", [0, 1, 17, WORD.itemsize - 1])
def test_a_changed_byte_is_not_read(prefix: str, at: int) -> None:
    writer, reader = pair(prefix)
    writer.publish(word(1))
    writer.map[slot_at(writer, 1) + SLOT_HEADER.itemsize + at] ^= 0x10
    assert reader.latest() is None


def test_a_wrong_length_or_a_wrong_sum_is_not_read(prefix: str) -> None:
    writer, reader = pair(prefix)
    writer.publish(word(1))
    place = (slot_at(writer, 1) + ring._BYTES) // 8
    whole = int(writer.words[place])
    raw = word(1).tobytes()
    assert whole == len(raw) | zlib.crc32(raw) << 32
    for wrong in (whole + 1, whole - 1, whole ^ (1 << 32), whole ^ (1 << 63), whole & 0xFFFFFFFF):
        writer.words[place] = wrong
        assert reader.at(1) is None
    writer.words[place] = whole
    assert number(reader.at(1)) == 1


class Interrupting:
    """A mapping whose slice lets the writer publish in the middle of a reader's copy."""

    def __init__(self, reader: ring.Reader, writer: ring.Writer, times: int) -> None:
        self.map, self.writer, self.left, self.copies = reader.map, writer, times, 0

    def __getitem__(self, at: slice) -> bytes:
        self.copies += 1
        raw = self.map[at]
        if self.left:
            self.left -= 1
            for _ in range(self.writer.slots):
                self.writer.publish(word(self.writer.generation + 1))
        return raw


def test_a_slot_that_is_overwritten_during_the_copy_is_read_again(prefix: str) -> None:
    writer, reader = pair(prefix)
    writer.publish(word(1))
    reader.map = Interrupting(reader, writer, 7)  # type: ignore[assignment]
    assert number(reader.latest()) == writer.generation == 15
    again = ring.Reader(KIND, prefix, GUARD)
    again.map = Interrupting(again, writer, 8)  # type: ignore[assignment]
    assert again.latest() is None
    assert again.map.copies == 8  # type: ignore[attr-defined]


def test_the_mark_is_odd_while_a_slot_is_written(prefix: str) -> None:
    """Stop the writer before each of its stores: a reader sees the old word or none, never half of one."""
    writer, reader = pair(prefix)
    writer.publish(word(1))
    writer.publish(word(2))
    stores: list[int] = []

    class Counting:
        def __init__(self, inner: object, stop: int) -> None:
            self.inner, self.stop = inner, stop

        def __getitem__(self, at: int) -> object:
            return self.inner[at]  # type: ignore[index]

        def __setitem__(self, at: object, value: object) -> None:
            stores.append(1)
            if len(stores) == self.stop:
                raise KeyboardInterrupt
            self.inner[at] = value  # type: ignore[index]

    words, mapping = writer.words, writer.map
    for stop in range(1, 9):
        stores.clear()
        writer.words, writer.map = Counting(words, stop), Counting(mapping, stop)  # type: ignore[assignment]
        before, generation = number(reader.latest()), writer.generation
        assert before is not None
        with pytest.raises(KeyboardInterrupt):
            writer.publish(word(before + 1))
        now = number(reader.latest())
        if stop == 1:
            assert now == before
        elif stop <= 7:  # the head still names the one before, which is whole
            assert now == before
            assert reader.at(generation + 1) is None or stop == 7
        else:
            assert now == before + 1
        writer.words, writer.map = words, mapping
        writer.generation = int(words[ring._HEAD // 8])
        writer.publish(word(before + 1))
        assert number(reader.latest()) == before + 1


def test_a_payload_of_another_size_is_not_published(prefix: str) -> None:
    writer, reader = pair(prefix)
    with pytest.raises(ValueError, match="has 8 bytes"):
        writer.publish(np.zeros((), "<u8"))
    assert reader.generation == 0
    assert writer.blank().tobytes() == bytes(WORD.itemsize)


def test_a_beat_is_noted_without_a_payload(clock: Clock, prefix: str) -> None:
    writer, reader = pair(prefix)
    writer.beat()
    assert reader.beat_ns == clock.now_ns
    assert reader.generation == 0


def test_the_file_is_private_whole_and_has_no_scratch_beside_it(prefix: str) -> None:
    path = ring.create(KIND, prefix, GUARD)
    assert path.name == f"{prefix}wardarm_word_guard"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_size == BLOCK_HEADER.itemsize + 2 * (SLOT_HEADER.itemsize + WORD.itemsize)
    assert not list(Path("/dev/shm").glob(f".{prefix}*"))
    assert ring.block_path(BlockKind.ARM_STATUS, prefix).name == f"{prefix}wardarm_arm"


def test_a_good_block_is_kept_and_a_foreign_one_made_anew(prefix: str) -> None:
    path = ring.create(KIND, prefix, GUARD)
    inode = path.stat().st_ino
    assert ring.create(KIND, prefix, GUARD) == path
    assert path.stat().st_ino == inode
    path.write_bytes(path.read_bytes()[:-1])
    ring.create(KIND, prefix, GUARD)
    ring.Reader(KIND, prefix, GUARD)


HEADER = ("magic", "version", "kind", "header_bytes", "slot_bytes", "slot_count", "payload_bytes", "boot_id")


@pytest.mark.parametrize("field", HEADER)
def test_a_header_that_differs_is_named(prefix: str, field: str) -> None:
    path = ring.create(KIND, prefix, GUARD)
    raw = bytearray(path.read_bytes())
    offset = BLOCK_HEADER.fields[field][1]  # type: ignore[index]
    raw[offset] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ring.BlockForeign, match="another boot" if field == "boot_id" else f"{field} is"):
        ring.Reader(KIND, prefix, GUARD)


def test_a_block_of_another_size_is_foreign_and_none_is_missing(prefix: str) -> None:
    with pytest.raises(ring.BlockMissing, match="is 'wardarm run' up"):
        ring.Reader(KIND, prefix, GUARD)
    path = ring.create(KIND, prefix, GUARD)
    whole = path.read_bytes()
    for raw in (whole[:-1], whole + b"\0", b""):
        path.write_bytes(raw)
        with pytest.raises(ring.BlockForeign, match="size"):
            ring.Reader(KIND, prefix, GUARD)


def test_a_replaced_or_removed_file_is_noticed(prefix: str) -> None:
    _, reader = pair(prefix)
    assert reader.replaced() is False
    path = ring.block_path(KIND, prefix, GUARD)
    path.unlink()
    assert reader.replaced() is True
    ring.create(KIND, prefix, GUARD)
    assert reader.replaced() is True
    assert ring.Reader(KIND, prefix, GUARD).replaced() is False


OTHER = """
import sys, time
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId
w = ring.Writer(BlockKind.WORD, sys.argv[1], ProcessId.GUARD)
w.publish(w.blank())
print("up", flush=True)
time.sleep(60)
"""


def test_a_living_writer_is_not_taken_over_a_dead_one_is(prefix: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", OTHER, prefix], stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"up\n"
        reader = ring.Reader(KIND, prefix, GUARD)
        assert reader.writer_alive()
        with pytest.raises(ring.BlockTaken, match=f"process {other.pid} is writing it"):
            ring.Writer(KIND, prefix, GUARD)
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not reader.writer_alive()
    writer = ring.Writer(KIND, prefix, GUARD)
    assert writer.publish(word(2)) == 2
    assert reader.writer_alive()
    ring.Writer(KIND, prefix, GUARD)  # this process itself may open it twice


def test_a_number_that_another_process_got_since_is_no_living_writer(prefix: str) -> None:
    writer, reader = pair(prefix)
    assert int(writer.head["writer_pid"]) == os.getpid()
    assert int(writer.head["writer_start_ticks"]) == ring.start_ticks(os.getpid()) > 0
    writer.head["writer_start_ticks"] += 1
    assert not reader.writer_alive()
    writer.head["writer_pid"] = 0
    writer.head["writer_start_ticks"] = 0
    assert not reader.writer_alive()
    writer.head["writer_pid"], writer.head["writer_start_ticks"] = os.getppid(), ring.start_ticks(os.getppid()) + 1
    ring.Writer(KIND, prefix, GUARD)


def test_who_is_gone_has_no_start_time() -> None:
    assert ring.start_ticks(2**22 + 1) == 0
    stat = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()
    assert ring.start_ticks(os.getpid()) == int(stat[19])


def test_a_writer_may_be_told_not_to_make_the_file(prefix: str) -> None:
    with pytest.raises(ring.BlockMissing):
        ring.Writer(KIND, prefix, GUARD, make=False)
    ring.Writer(KIND, prefix, GUARD)


def test_waiting_ends_with_the_block_or_after_the_limit(
    clock: Clock, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = clock.now_ns
    with pytest.raises(ring.BlockMissing):
        ring.wait_for(KIND, prefix, GUARD, 1.0)
    assert (clock.now_ns - begin) * 1e-9 == pytest.approx(1.0, abs=0.03)
    begin = clock.now_ns
    with pytest.raises(ring.BlockMissing):
        ring.wait_for(KIND, prefix, GUARD)
    assert (clock.now_ns - begin) * 1e-9 == pytest.approx(10.0, abs=0.03)
    naps: list[float] = []

    def appear(seconds: float) -> None:
        naps.append(seconds)
        clock.advance(seconds)
        if len(naps) == 3:
            ring.create(KIND, prefix, GUARD)

    monkeypatch.setattr(clock, "sleep", appear)
    ring.wait_for(KIND, prefix, GUARD, 1.0)
    assert naps == [0.02] * 3


def test_polling_returns_what_changed_or_none(clock: Clock, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = pair(prefix)
    begin = clock.now_ns
    assert ring.poll(reader, lambda s: True, 0.1) is None
    assert (clock.now_ns - begin) * 1e-9 == pytest.approx(0.1, abs=0.003)
    writer.publish(word(1))
    assert number(ring.poll(reader, lambda s: True, 0.1)) == 1
    naps: list[float] = []

    def write(seconds: float) -> None:
        naps.append(seconds)
        clock.advance(seconds)
        writer.publish(word(len(naps)))

    monkeypatch.setattr(clock, "sleep", write)
    assert number(ring.poll(reader, lambda s: number(s) == 5, 0.1)) == 5
    assert naps == [0.002] * 5


def test_texts_are_cut_at_a_character() -> None:
    assert ring.encode("杯子", 4) == "杯".encode()
    assert ring.encode("abc", 4) == b"abc"
    assert ring.encode("abcd", 4) == b"abc"
    assert ring.encode("杯子", 6) == "杯".encode()
    assert ring.encode("杯子", 7) == "杯子".encode()
    assert ring.text(np.bytes_("杯子".encode()[:5])) == "杯"
    assert ring.text(b"one\0two") == "one"


def test_every_kind_of_block_can_be_made(prefix: str) -> None:
    for kind in BLOCKS:
        ring.create(kind, prefix, GUARD)
        assert ring.Reader(kind, prefix, GUARD).slots == BLOCKS[kind][2]


def test_a_slot_carries_its_header_and_is_odd_while_it_is_written(clock: Clock, prefix: str) -> None:
    writer, _ = pair(prefix)

    def header(generation: int) -> dict[str, int]:
        row = np.frombuffer(mapping, SLOT_HEADER, 1, slot_at(writer, generation))[0]
        return {n: int(row[n]) for n in ("seq", "generation", "publish_ns", "bytes", "crc")}

    seen: list[dict[str, int]] = []

    class Looking:
        """The mapping: looks at the slot's header before the payload is stored."""

        def __setitem__(self, at: slice, raw: bytes) -> None:
            seen.append(header(writer.generation + 1))
            mapping[at] = raw

    mapping = writer.map
    for generation in range(1, 5):
        clock.advance(0.001)
        payload = word(7 * generation)
        raw = payload.tobytes()
        whole = {"generation": generation, "publish_ns": clock.now_ns, "bytes": len(raw), "crc": zlib.crc32(raw)}
        writer.map = Looking()  # type: ignore[assignment]
        writer.publish(payload)
        writer.map = mapping
        assert seen[-1] == {"seq": 2 * generation - 1, **whole}
        assert header(generation) == {"seq": 2 * generation, **whole}
        head = np.frombuffer(writer.map, BLOCK_HEADER, 1)[0]
        assert (int(head["head"]), int(head["beat_ns"])) == (generation, clock.now_ns)


def test_a_limit_of_nothing_waits_one_nap_and_polls_not_at_all(
    clock: Clock, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(clock, "sleep", lambda s: (naps.append(s), clock.advance(s)))
    with pytest.raises(ring.BlockMissing):
        ring.wait_for(KIND, prefix, GUARD, 0.0)
    assert naps == [0.02]
    writer, reader = pair(prefix)
    writer.publish(word(1))
    assert ring.poll(reader, lambda s: True, 0.0) is None
