"""A small software D455 for tests: each picture's colour is its number, its depth ten times that."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyrealsense2 as rs
from wardarm.config import Config

_MODULE = "eye_camera"
SOURCE = f"factory:{_MODULE}:open_device"
MADE: list[TestCamera] = []  # the ones that the factory made, newest last


class TestCamera:
    __test__ = False

    def __init__(self, width: int, height: int, fps: int) -> None:
        self.width, self.height, self.fps = width, height, fps
        self.muted = threading.Event()
        self.depth_late = False  # depth stamped a whole period later
        self.number = 0
        self.picture: np.ndarray | None = None  # instead of the plain colour
        self.device = rs.software_device()
        self.device.register_info(rs.camera_info.name, "D455 of a test")
        self.device.register_info(rs.camera_info.serial_number, "TEST455")
        self._depth = self.device.add_sensor("Stereo Module")
        self._colour = self.device.add_sensor("RGB Camera")
        self._dp = self._depth.add_video_stream(self._stream(rs.stream.depth, 0, rs.format.z16, 2), True)
        self._cp = self._colour.add_video_stream(self._stream(rs.stream.color, 1, rs.format.rgb8, 3), True)
        self._depth.add_read_only_option(rs.option.depth_units, 0.001)
        self._depth.add_read_only_option(rs.option.stereo_baseline, 95.0)
        same = rs.extrinsics()
        same.rotation, same.translation = [1, 0, 0, 0, 1, 0, 0, 0, 1], [0, 0, 0]
        self._dp.register_extrinsics_to(self._cp, same)
        self.device.create_matcher(rs.matchers.dlr_c)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def _stream(self, kind: Any, uid: int, pixels: Any, size: int) -> rs.video_stream:
        s = rs.video_stream()
        s.type, s.index, s.uid, s.width, s.height = kind, 0, uid, self.width, self.height
        s.fps, s.bpp, s.fmt = self.fps, size, pixels
        i = rs.intrinsics()
        i.width, i.height, i.ppx, i.ppy, i.fx, i.fy = self.width, self.height, self.width / 2, self.height / 2, 300, 300
        i.model, i.coeffs = rs.distortion.brown_conrady, [0.0] * 5
        s.intrinsics = i
        return s

    def start(self) -> None:
        self._stop.clear()
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _push(self) -> None:
        while not self._stop.wait(1 / self.fps):
            if not self.muted.is_set():
                self.number += 1
                self.push(self.number, time.monotonic() * 1e3)

    def push(self, number: int, stamp_ms: float) -> None:
        depth = np.full((self.height, self.width), 10 * number, np.uint16)
        colour = np.full((self.height, self.width, 3), number % 256, np.uint8) if self.picture is None else self.picture
        late_ms = 1000 / self.fps if self.depth_late else 0.0
        for sensor, profile, image, size, ms in (
            (self._depth, self._dp, depth, 2, stamp_ms + late_ms),
            (self._colour, self._cp, colour, 3, stamp_ms),
        ):
            f = rs.software_video_frame()
            f.pixels, f.stride, f.bpp, f.timestamp = image, self.width * size, size, ms
            f.domain, f.frame_number, f.profile = (
                rs.timestamp_domain.hardware_clock,
                number,
                profile.as_video_stream_profile(),
            )
            f.depth_units = 0.001
            sensor.on_video_frame(f)

    def record(self, path: Path, frames: int) -> None:
        """A .db3 with this many pictures at the camera's rate."""
        recorder = rs.recorder(str(path), self.device, False)
        sensors = recorder.query_sensors()
        queue = rs.frame_queue(8)
        for s in sensors:
            s.open(s.get_stream_profiles()[0])
            s.start(queue)
        for n in range(1, frames + 1):
            self.push(n, 1000.0 + n * 1000 / self.fps)
            time.sleep(1 / self.fps)
            queue.poll_for_frame()
        time.sleep(0.3)  # it writes behind
        for s in sensors:
            s.stop()
            s.close()
        del sensors, recorder


def open_device(config: Config) -> TestCamera:
    c = config.camera
    MADE.append(TestCamera(c.width, c.height, c.fps))
    return MADE[-1]
