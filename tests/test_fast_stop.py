"""What the stop chain's fast paths see: a writer that died, a feed that died or froze, a server that froze."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from patience import PATIENCE_S
from tritonclient.grpc import service_pb2, service_pb2_grpc
from wardarm.arm.causes import FEED_DEADLINES, FEED_S, Board
from wardarm.config import Config
from wardarm.eye import pulse
from wardarm.eye.pulse import ServerPulse
from wardarm.gate.words import BlockWatch, WordBoard
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId

PREFIX = f"tf{os.getpid()}_"
DEADLINE_S = 0.2
CONFIG = Config.model_validate(
    {"schema": 1, "shm": {"prefix": PREFIX}, "gate": {"word_deadline_ms": int(DEADLINE_S * 1e3)}}
)
_WRITER = """
import sys, time
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId
kind = BlockKind[sys.argv[2]]
writer = ring.Writer(kind, sys.argv[1], ProcessId[sys.argv[3]] if kind is BlockKind.WORD else None)
payload = writer.blank()
if kind is BlockKind.WORD:
    payload["ok"], payload["process"] = True, ProcessId[sys.argv[3]]
print("up", flush=True)
while True:
    if kind is BlockKind.WORD:
        payload["beat_ns"] = time.monotonic_ns()
    writer.publish(payload)
    time.sleep(0.01)
"""


class Speaker:
    """A process of its own that writes one block a hundred times a second."""

    def __init__(self, kind: BlockKind, process: ProcessId) -> None:
        arguments = [sys.executable, "-c", _WRITER, PREFIX, kind.name, process.name]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def speak() -> Iterator[Callable[[BlockKind, ProcessId], Speaker]]:
    speakers: list[Speaker] = []

    def start(kind: BlockKind, process: ProcessId) -> Speaker:
        speakers.append(Speaker(kind, process))
        return speakers[-1]

    yield start
    for speaker in speakers:
        speaker.kill()
        if speaker.process.stdout is not None:
            speaker.process.stdout.close()
    for file in Path("/dev/shm").glob(f"{PREFIX}*"):
        file.unlink()


def until(true: Callable[[], object], limit_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "not within its time"
        time.sleep(0.002)


def test_a_killed_writer_is_late_before_its_word_has_aged(speak: Any) -> None:
    guard = speak(BlockKind.WORD, ProcessId.GUARD)
    board = WordBoard([ProcessId.GUARD], PREFIX, 60.0)  # its age alone would not show within a minute
    until(lambda: board.hear(ProcessId.GUARD).true)
    guard.kill()
    heard = board.hear(ProcessId.GUARD)
    assert heard.ended
    assert heard.late
    assert not heard.true
    assert heard.age_s < 60.0
    assert "process ended" in heard.why()


def test_a_frozen_writer_has_not_ended_and_a_successor_takes_over(speak: Any) -> None:
    first = speak(BlockKind.WORD, ProcessId.GUARD)
    watch = BlockWatch(BlockKind.WORD, PREFIX, ProcessId.GUARD)
    until(lambda: watch.latest() is not None)
    assert not watch.writer_ended()
    first.signal(signal.SIGSTOP)
    until(lambda: watch.beat_age_s() > 0.1)
    assert not watch.writer_ended()
    first.kill()
    assert watch.writer_ended()
    assert watch.writer_ended()  # and stays so
    speak(BlockKind.WORD, ProcessId.GUARD)
    until(lambda: not watch.writer_ended())


def test_a_block_that_nobody_wrote_has_no_writer_to_lose(speak: Any) -> None:
    watch = BlockWatch(BlockKind.WORD, PREFIX, ProcessId.GUARD)
    assert not watch.writer_ended()
    ring.create(BlockKind.WORD, PREFIX, ProcessId.GUARD)
    time.sleep(0.25)
    assert not watch.writer_ended()
    assert watch.beat_age_s() == float("inf")


@pytest.mark.parametrize("lost", [ProcessId.EYE, ProcessId.POSTPROC])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_feed_that_died_or_froze_is_inference_stale(speak: Any, lost: ProcessId, how: int) -> None:
    feeds = {
        ProcessId.EYE: speak(BlockKind.WORD, ProcessId.EYE),
        ProcessId.POSTPROC: speak(BlockKind.TRAJECTORY, ProcessId.POSTPROC),
    }
    board = Board(CONFIG)
    until(lambda: board.feed_causes() == [])
    if how == signal.SIGKILL:
        feeds[lost].kill()
        causes = [c for c in board.feed_causes() if c.writer is lost]  # the very next look
        assert "ended under way" in causes[0].detail
    else:
        feeds[lost].signal(how)
        until(lambda: [c for c in board.feed_causes() if c.writer is lost])
        causes = [c for c in board.feed_causes() if c.writer is lost]
        assert "silent for" in causes[0].detail
        silent_ms = float(causes[0].detail.split("silent for ")[1].split()[0])
        assert silent_ms >= 1e3 * max(FEED_S, FEED_DEADLINES * DEADLINE_S)  # a late beat is forgiven
    assert (causes[0].reason, causes[0].writer) == (HoldReason.INFERENCE_STALE, lost)


class _Live(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    """Answers that it lives, unless `frozen`."""

    def __init__(self) -> None:
        self.frozen, self.asked = threading.Event(), 0

    def ServerLive(self, request: Any, context: Any) -> Any:
        self.asked += 1
        if self.frozen.is_set():
            time.sleep(2 * pulse.SILENT_S)
        return service_pb2.ServerLiveResponse(live=True)


@pytest.fixture
def live() -> Iterator[tuple[_Live, ServerPulse]]:
    service = _Live()
    server = grpc.server(futures.ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    watched = ServerPulse(f"127.0.0.1:{port}")
    yield service, watched
    service.frozen.clear()
    watched.close()
    server.stop(None).wait(5)


def test_a_frozen_server_is_silent_while_it_is_wanted_only(live: tuple[_Live, ServerPulse]) -> None:
    service, watched = live
    assert watched.silent_s == 0.0
    assert service.asked == 0  # nobody asked for it
    watched.want(True)
    until(lambda: service.asked >= 3 and watched.silent_s < pulse.SILENT_S)
    service.frozen.set()
    until(lambda: watched.silent_s > pulse.SILENT_S)
    watched.want(False)
    assert watched.silent_s == 0.0
    service.frozen.clear()
    watched.want(True)
    asked = service.asked
    until(lambda: service.asked > asked + 2 and watched.silent_s < pulse.SILENT_S)
