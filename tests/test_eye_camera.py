"""The camera through the real pipeline: pairing, clocks, slots, loss and return, recordings."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import eye_camera
import numpy as np
import pyrealsense2 as rs
import pytest
from eye_parts import configuration, remove_blocks
from patience import PATIENCE_S
from wardarm.config import Config
from wardarm.eye.frames import FrameBoard, FrameRegion
from wardarm.eye.realsense import Pairing, RealSense, SensorClock, why_not_started
from wardarm.shm.layouts import BlockKind
from wardarm.shm.ring import Reader

SMALL = {"source": eye_camera.SOURCE, "width": 320, "height": 180, "fps": 30, "lost_s": 0.3, "dark_below": 0}


@pytest.fixture
def config() -> Iterator[Config]:
    made = configuration(camera=SMALL)
    yield made
    remove_blocks(made)


def board_for(config: Config) -> FrameBoard:
    c = config.camera
    return FrameBoard(FrameRegion(config.shm.prefix, c.width, c.height, c.slots), config.shm.prefix)


@pytest.fixture
def camera(config: Config) -> Iterator[RealSense]:
    made = RealSense(config, board_for(config))
    made.start()
    yield made
    made.stop()


def wait(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_frames_arrive_paired_and_are_what_was_sent(camera: RealSense, config: Config) -> None:
    board = camera.board
    wait(lambda: camera.pairs >= 10)
    meta, ways_s = Reader(BlockKind.FRAME_META, config.shm.prefix), list[float]()
    for _ in range(5):
        frame = board.pin_latest()
        assert frame is not None
        colour, depth = board.region.colour(frame.slot), board.region.depth(frame.slot)
        number = int(colour[0, 0, 0])
        assert (colour == number).all()
        assert (depth == 10 * number).all()
        assert frame.brightness == pytest.approx(number)
        assert frame.arrival_ns >= frame.capture_ns
        ways_s.append((frame.arrival_ns - frame.capture_ns) * 1e-9)
        slot = meta.at(frame.number)
        if slot is not None:
            assert int(slot.data["capture_ns"]) == frame.capture_ns
            assert int(slot.data["pixel_slot"]) == frame.slot
        board.unpin(frame)
        wait(lambda n=frame.number: board.latest is not None and board.latest.number > n)
    assert min(ways_s) < 0.05, "load only ever adds"
    wait(lambda: board.fps() == pytest.approx(30, rel=0.4))


def test_a_silent_camera_is_seen_and_comes_back(camera: RealSense, config: Config) -> None:
    wait(lambda: camera.pairs >= 3)
    eye_camera.MADE[-1].muted.set()
    wait(lambda: camera.board.silent_s() > config.camera.lost_s)
    eye_camera.MADE[-1].muted.clear()
    wait(lambda: camera.board.silent_s() < 0.2)


def test_a_dark_picture_is_as_good_as_none_and_says_so(config: Config) -> None:
    dark = configuration(camera=SMALL | {"dark_below": 6})
    camera = RealSense(dark, board_for(dark))
    camera.start()
    try:
        wait(lambda: camera.board.latest is not None)
        eye_camera.MADE[-1].picture = np.zeros((180, 320, 3), np.uint8)
        wait(lambda: camera.board.silent_s() > 0.3)
        assert "the picture is dark (mean 0.0 of 255" in camera.error
        eye_camera.MADE[-1].picture = np.full((180, 320, 3), 90, np.uint8)
        wait(lambda: camera.board.silent_s() < 0.2 and camera.error == "")
    finally:
        camera.stop()
        remove_blocks(dark)


def test_a_camera_silent_for_long_is_opened_again(camera: RealSense) -> None:
    wait(lambda: camera.pairs >= 3)
    opened = len(eye_camera.MADE)
    eye_camera.MADE[-1].muted.set()
    wait(lambda: len(eye_camera.MADE) > opened)
    wait(lambda: camera.board.silent_s() < 0.2 and camera.error == "")


def test_depth_of_another_moment_is_not_paired(camera: RealSense) -> None:
    wait(lambda: camera.pairs >= 3)
    eye_camera.MADE[-1].depth_late = True
    wait(lambda: camera.dropped > 5)
    before = camera.pairs
    wait(lambda: camera.dropped > 10)
    assert camera.pairs <= before + 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("serial:123", "D455 123: not connected"),
        ("file:/nowhere.db3", "no such recording"),
        ("factory:no_such_module:f", "no_such_module"),
        ("usb:0", "must start with serial:"),
    ],
)
def test_a_source_that_cannot_be_opened_says_what_to_check(source: str, words: str) -> None:
    config = configuration(camera=SMALL | {"source": source})
    made = RealSense(config, board_for(config))
    made.start()
    wait(lambda: made.error != "")
    made.stop()
    assert words in made.error
    remove_blocks(config)


@pytest.mark.parametrize(
    ("usb", "fps", "taken", "words"),
    [
        ("2.1", 15, False, "connected by USB 2.1, which has no 320x180 colour and depth at 30 fps; use a USB 3 port"),
        ("3.2", 15, False, "has no 320x180 colour and depth at 30 fps; set camera.width"),
        ("3.2", 30, True, "held by another program"),
    ],
)
def test_a_camera_that_does_not_start_says_what_to_do(
    config: Config, monkeypatch: pytest.MonkeyPatch, usb: str, fps: int, taken: bool, words: str
) -> None:
    """The library's own refusals, of a device that streams for somebody else or does not offer what is configured."""
    device = eye_camera.TestCamera(320, 180, fps)
    device.device.register_info(rs.camera_info.usb_type_descriptor, usb)
    monkeypatch.setattr(eye_camera, "open_device", lambda _config: device)
    sensors = device.device.query_sensors()
    if taken:
        for sensor in sensors:
            sensor.open(sensor.get_stream_profiles()[0])
            sensor.start(lambda _frame: None)
    made = RealSense(config, board_for(config))
    made.start()
    wait(lambda: made.error != "")
    made.stop()
    for sensor in sensors if taken else ():
        sensor.stop()
        sensor.close()
    assert words in made.error
    assert made.pairs == 0


def test_what_a_real_camera_says_when_it_is_taken_is_understood() -> None:
    """Published logs: realsenseai/librealsense #12382, #12478."""
    error = "xioctl(VIDIOC_S_FMT) failed, errno=16 Last Error: Device or resource busy"
    assert "held by another program" in why_not_started(error, "3.2", configuration().camera)


def test_a_camera_of_another_size_is_refused(config: Config) -> None:
    made = RealSense(config, FrameBoard(FrameRegion(config.shm.prefix, 640, 360, 2), config.shm.prefix))
    made.start()
    wait(lambda: made.error != "")
    made.stop()
    assert "320x180" in made.error
    assert "640x360" in made.error


def test_a_recording_is_played_to_its_end(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "bedside.db3"
    eye_camera.TestCamera(320, 180, 30).record(file, 20)
    played = config.model_copy(update={"camera": config.camera.model_copy(update={"source": f"file:{file}"})})
    made = RealSense(played, board_for(played), repeat=False)
    made.start()
    assert made.ended.wait(PATIENCE_S), made.error
    made.stop()
    assert made.pairs >= 17
    assert made.board.latest is not None


def test_a_pinned_slot_is_never_written(config: Config) -> None:
    board = FrameBoard(FrameRegion(config.shm.prefix, 320, 180, 3), config.shm.prefix)

    def put(value: int) -> bool:
        now = time.monotonic_ns()
        return board.put(np.full((180, 320, 3), value, np.uint8), None, now, now, 0.0) is not None

    assert put(1)
    asked = board.pin_latest()
    assert asked is not None
    for value in range(2, 30):
        assert put(value)
        assert (board.region.colour(asked.slot) == 1).all()
    second = board.pin_latest()
    assert second is not None
    assert put(99)
    assert not put(100)  # one pinned, one pinned, one the newest
    board.unpin(asked)
    assert put(101)


def test_the_region_is_private_aligned_and_never_resized(config: Config) -> None:
    region = FrameRegion(config.shm.prefix, 1280, 720, 2)
    info = region.path.stat()
    assert stat.S_IMODE(info.st_mode) == 0o600
    assert info.st_size == region.bytes
    assert region.offset(1) % 65536 == 0
    assert FrameRegion(config.shm.prefix, 1280, 720, 2).path.stat().st_ino == info.st_ino
    assert FrameRegion(config.shm.prefix, 1280, 720, 3).path.stat().st_ino != info.st_ino


def test_the_sensor_clock_is_found_through_jitter_and_drift() -> None:
    clock = SensorClock()
    rng = np.random.default_rng(5)
    errors_ms = []
    for k in range(1200):  # 40 s at 30 frames/s; 50 ppm of drift; 2 ms of transport and up to 20 ms of jitter
        true_ns = 7_000_000_000 + round(k * 1e9 / 30)
        sensor_ms = (true_ns * 1e-6 - 500.0) * (1 + 50e-6)
        arrival_ns = true_ns + 2_000_000 + int(rng.uniform(0, 20e6))
        errors_ms.append((clock.capture_ns(sensor_ms, arrival_ns) - true_ns) * 1e-6)
    settled = np.array(errors_ms[60:])
    assert np.abs(settled - 2).max() < 1.5  # the constant transport cannot be told from an offset


def test_the_sensor_clock_starts_over_when_a_recording_begins_again() -> None:
    clock = SensorClock()
    for k in range(30):
        clock.capture_ns(1000 + k * 33.3, 10_000_000_000 + k * 33_300_000)
    assert clock.capture_ns(1000, 20_000_000_000) == 20_000_000_000


def test_a_side_delivered_twice_is_dropped() -> None:
    pairing = Pairing(30)
    assert pairing.accept((1, 100.0), (1, 100.0))
    assert not pairing.accept((1, 100.0), (2, 133.3))
    assert not pairing.accept((2, 133.3), (1, 100.0))
    assert pairing.accept((2, 133.3), (2, 133.4))
    assert not pairing.accept((3, 166.7), (3, 183.4))
    assert pairing.dropped == 3
