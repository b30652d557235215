"""The simulated D455: a pyrealsense2 software device that hands on what `views` draws.

To the code that uses it this is a D455 like any other: `rs.pipeline`, colour RGB8 and depth Z16 1280x720,
intrinsics, extrinsics, frame metadata. It is named "(simulated)" in the device's own information.

    camera = open_device(config)
    pipeline = rs.pipeline(rs.context())
    pipeline.set_device(camera.device)
    pipeline.start(rs_config)
    camera.start()

Frame timestamps are CLOCK_MONOTONIC milliseconds of the exposure, in the domain `hardware_clock`; the colour
metadata `time_of_arrival` is wall-clock milliseconds. Pictures come when `views` draws them: no picture, no frame.
"""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

import numpy as np
import pyrealsense2 as rs
from numpy.typing import NDArray

from wardarm.config import Config
from wardarm.sim.pictures import Picture, PictureFeed

WIDTH, HEIGHT = 1280, 720
FOVY_DEG = 58.0
FOCAL_PX = HEIGHT / 2 / math.tan(math.radians(FOVY_DEG) / 2)
SERIAL = "SIM000000455"
DEPTH_UNITS_M = 0.001
_STEREO_BASELINE_MM = 95.0  # D455 data sheet
_INFORMATION = {
    "name": "Intel RealSense D455 (simulated)",
    "serial_number": SERIAL,
    "product_line": "D400",
    "product_id": "0B5C",
    "firmware_version": "5.16.0.1",
    "usb_type_descriptor": "3.2",
    "physical_port": "simulated-0",
}


def intrinsics() -> rs.intrinsics:
    """Of colour and depth alike: a pinhole without distortion, pixels."""
    i = rs.intrinsics()
    i.width, i.height = WIDTH, HEIGHT
    i.ppx, i.ppy, i.fx, i.fy = WIDTH / 2, HEIGHT / 2, FOCAL_PX, FOCAL_PX
    i.model, i.coeffs = rs.distortion.brown_conrady, [0.0] * 5
    return i


class SimulatedD455:
    """`device` is the rs.software_device. `start()` begins handing on frames, `stop()` ends it."""

    def __init__(self, prefix: str, profile_fps: int = 30, delivered_fps: float = 30.0) -> None:
        """`profile_fps` is what a pipeline asks for; `delivered_fps` what comes, told in each frame's metadata."""
        self._feed = PictureFeed(prefix, "d455")
        self._profile_fps, self._delivered_mfps = profile_fps, round(delivered_fps * 1000)
        self.device = rs.software_device()
        for key, value in _INFORMATION.items():
            self.device.register_info(getattr(rs.camera_info, key), value)
        self._depth = self.device.add_sensor("Stereo Module")
        self._color = self.device.add_sensor("RGB Camera")
        self._depth_profile = self._depth.add_video_stream(self._stream(rs.stream.depth, 0, rs.format.z16, 2), True)
        self._color_profile = self._color.add_video_stream(self._stream(rs.stream.color, 1, rs.format.rgb8, 3), True)
        self._depth.add_read_only_option(rs.option.depth_units, DEPTH_UNITS_M)
        self._depth.add_read_only_option(rs.option.stereo_baseline, _STEREO_BASELINE_MM)
        same = rs.extrinsics()  # depth is drawn from the colour camera: aligned
        same.rotation, same.translation = [1, 0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0]
        self._depth_profile.register_extrinsics_to(self._color_profile, same)
        self.device.create_matcher(rs.matchers.dlr_c)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def _stream(self, kind: rs.stream, uid: int, pixel_format: rs.format, size: int) -> rs.video_stream:
        s = rs.video_stream()
        s.type, s.index, s.uid = kind, 0, uid
        s.width, s.height, s.fps, s.bpp, s.fmt = WIDTH, HEIGHT, self._profile_fps, size, pixel_format
        s.intrinsics = intrinsics()
        return s

    def start(self) -> None:
        """Begin handing on frames; call it after the pipeline has started."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._push, name="d455", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End handing on frames; returns when the last one is through."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _push(self) -> None:
        number = 0
        while not self._ending.is_set():
            number += self.push_next(number + 1)

    def push_next(self, number: int, timeout_s: float = 0.1) -> bool:
        """Wait for the next picture and hand it on as frame `number`. False if none came."""
        picture = self._feed.next(timeout_s)
        if picture is not None:
            self._hand_on(picture, number)
        return picture is not None

    def _hand_on(self, picture: Picture, number: int) -> None:
        """Give one picture to librealsense as a depth and a colour frame with the same number and stamp."""
        pixels = WIDTH * HEIGHT
        color = picture.pixels[: pixels * 3].reshape(HEIGHT, WIDTH, 3)
        depth = picture.pixels[pixels * 3 :].view(np.uint16).reshape(HEIGHT, WIDTH)
        stamp_ms, arrival_ms = picture.stamp_ns * 1e-6, round(time.time() * 1000)
        for sensor, profile, image, size in (
            (self._depth, self._depth_profile, depth, 2),
            (self._color, self._color_profile, color, 3),
        ):
            for key, value in (
                # without the true rate librealsense holds a frame back or passes it on unmatched
                (rs.frame_metadata_value.actual_fps, self._delivered_mfps),
                (rs.frame_metadata_value.frame_counter, number),
                (rs.frame_metadata_value.time_of_arrival, arrival_ms),
            ):
                sensor.set_metadata(key, value)
            sensor.on_video_frame(_frame(profile, image, size, stamp_ms, number))


def _frame(
    profile: rs.stream_profile, image: NDArray[np.generic], size: int, stamp_ms: float, number: int
) -> rs.software_video_frame:
    f = rs.software_video_frame()
    f.pixels, f.stride, f.bpp = image, WIDTH * size, size
    f.timestamp, f.domain, f.frame_number = stamp_ms, rs.timestamp_domain.hardware_clock, number
    f.profile, f.depth_units = profile.as_video_stream_profile(), DEPTH_UNITS_M
    return f


def open_device(config: Config) -> SimulatedD455:
    """The desk's D455, for `camera.source = "factory:wardarm.sim.d455:open_device"`."""
    return SimulatedD455(config.shm.prefix, config.camera.fps, config.sim.d455_fps)


def record_bag(config: Config, path: str | Path, seconds: float) -> int:
    """Record what `views` draws into a .db3 file, uncompressed, for a run without simulation. Returns frames written.

    Raises ValueError for another suffix: librealsense 2.59 writes only .db3.
    """
    if Path(path).suffix != ".db3":
        raise ValueError(f"{path}: recordings are .db3 files")
    camera = open_device(config)
    recorder = rs.recorder(str(path), camera.device, False)
    sensors = recorder.query_sensors()
    queue = rs.frame_queue(8)
    for sensor in sensors:
        sensor.open(sensor.get_stream_profiles()[0])
        sensor.start(queue)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += camera.push_next(number + 1)
        queue.poll_for_frame()
    time.sleep(0.3)  # the recorder writes behind
    for sensor in sensors:
        sensor.stop()
        sensor.close()
    del sensors, recorder
    return number
