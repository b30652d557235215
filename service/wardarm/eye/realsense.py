"""The D455 through pyrealsense2: a live one, a recording, or a device that a factory makes (the simulated bedside).

A thread of its own waits for framesets, pairs colour and depth by their timestamps (the pipeline does not always),
copies them to shared memory at once (held frames stall the stream) and maps the camera's clock to CLOCK_MONOTONIC.
It never ends the process: what is wrong stands in `error`, and the main loop's word says CAMERA_LOST.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pyrealsense2 as rs
from numpy.typing import NDArray

from wardarm.config import Camera, Config
from wardarm.eye.frames import FrameBoard
from wardarm.policy.view import Optics, Rectifier

_WAIT_MS = 100
_REOPEN_S = 1.0
_SAME_MOST = 2  # equal pictures in a row that are not worth a word: a source may repeat one


class CameraLost(RuntimeError):
    """The camera cannot be opened or stopped delivering; the text says which one and what to check."""


class SensorClock:
    """Camera milliseconds -> CLOCK_MONOTONIC ns.

    The offset is the smallest (arrival - sensor) of the last seconds: transport only ever adds. A constant transport
    time cannot be told from an offset, so it counts as none. A jump of either clock starts over.
    """

    def __init__(self, window_s: float = 10.0) -> None:
        self._window_ns = int(window_s * 1e9)
        self._offsets: deque[tuple[int, int]] = deque()  # (arrival_ns, offset_ns), offsets increasing
        self._last_ms = float("-inf")

    def capture_ns(self, sensor_ms: float, arrival_ns: int) -> int:
        offset = arrival_ns - round(sensor_ms * 1e6)
        if sensor_ms < self._last_ms or (self._offsets and abs(offset - self._offsets[0][1]) > 1_000_000_000):
            self._offsets.clear()  # a recording began again, or the camera was restarted
        self._last_ms = sensor_ms
        while self._offsets and self._offsets[-1][1] >= offset:
            self._offsets.pop()
        self._offsets.append((arrival_ns, offset))
        while self._offsets[0][0] < arrival_ns - self._window_ns:
            self._offsets.popleft()
        return round(sensor_ms * 1e6) + self._offsets[0][1]


class Pairing:
    """Accepts a frameset only if colour and depth belong together and neither was delivered before."""

    def __init__(self, fps: float) -> None:
        self._half_period_ms = 500 / fps
        self._colour: tuple[int, float] | None = None
        self._depth: tuple[int, float] | None = None
        self.dropped = 0

    def accept(self, colour: tuple[int, float], depth: tuple[int, float] | None) -> bool:
        """`colour`, `depth`: (frame number, timestamp in ms); depth None for a source without one."""
        repeated = colour == self._colour or (depth is not None and depth == self._depth)
        apart = depth is not None and abs(colour[1] - depth[1]) >= self._half_period_ms
        if repeated or apart:
            self.dropped += 1
            return False
        self._colour, self._depth = colour, depth
        return True


class RealSense:
    """Frames from `camera.source` into a FrameBoard until `stop`. `ended` is set at the end of a recording."""

    def __init__(
        self, config: Config, board: FrameBoard, repeat: bool = True, rectifier: Rectifier | None = None
    ) -> None:
        """`rectifier` draws every colour picture as the trained camera would see it; depth stays as it is."""
        self.config, self.board, self.repeat, self._rectifier = config, board, repeat, rectifier
        self.optics: Optics | None = None  # of the open device; None before, and of a recording without depth
        self.error = ""
        self.brightness = 255.0  # of the newest picture, mean 0..255
        self._same = 0  # pictures in a row that were the one before
        self._sparse = b""  # every 16th pixel of the newest picture: a live sensor's noise never gives the same twice
        self.ended = threading.Event()
        self.pairs = 0
        self.dropped = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="camera", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._stream()
            except (CameraLost, RuntimeError) as e:  # pyrealsense2 raises RuntimeError for everything
                self.error = str(e)
            if self.ended.is_set():
                return
            self._stop.wait(_REOPEN_S)

    def _stream(self) -> None:
        """One life of a pipeline: until stopped, ended or silent for much longer than `camera.lost_s`."""
        camera = self.config.camera
        made = pipeline = None
        try:
            pipeline, made = self._open()
            self.optics = optics_of(pipeline.get_active_profile())
            depth_there = any(s.stream_type() == rs.stream.depth for s in pipeline.get_active_profile().get_streams())
            playback = made is None and camera.source.startswith("file:")
            pairing, clock = Pairing(camera.fps), SensorClock()
            silent_since = time.monotonic()
            while not self._stop.is_set():
                there, frames = pipeline.try_wait_for_frames(_WAIT_MS)
                if there:
                    if self._take(frames, depth_there, pairing, clock):
                        silent_since = time.monotonic()
                        self.error = self._dark()
                    del frames
                elif playback and self._at_end(pipeline):
                    self.ended.set()
                    return
                if time.monotonic() - silent_since > 4 * camera.lost_s:
                    if self._same > _SAME_MOST:
                        raise CameraLost(self.error)
                    raise CameraLost(
                        f"camera '{camera.source}': no paired frame for {4 * camera.lost_s:.1f} s "
                        f"({pairing.dropped} unpaired); check the USB 3 cable; opening it again"
                    )
        finally:
            if pipeline is not None:
                pipeline.stop()
            if made is not None:
                made.stop()
            del pipeline, made  # the library aborts at exit if its objects outlive it

    def _dark(self) -> str:
        """What is wrong with a picture in which nothing can be seen; empty if it is bright enough."""
        limit = self.config.camera.dark_below
        if self.brightness >= limit:
            return ""
        return (
            f"camera '{self.config.camera.source}': the picture is dark (mean {self.brightness:.1f} of 255, "
            f"camera.dark_below {limit:g}); is the light off, or the lens covered?"
        )

    def _take(self, frames: Any, depth_there: bool, pairing: Pairing, clock: SensorClock) -> bool:
        colour, depth = frames.get_color_frame(), frames.get_depth_frame()
        if not colour or (depth_there and not depth):
            pairing.dropped += 1
            return False
        arrival_ns = time.monotonic_ns()
        sensor_ms = float(colour.get_timestamp())
        side = (depth.get_frame_number(), float(depth.get_timestamp())) if depth_there else None
        if not pairing.accept((colour.get_frame_number(), sensor_ms), side):
            self.dropped = pairing.dropped
            return False
        pixels = _rgb(np.asanyarray(colour.get_data()), colour.get_profile().format())
        region = self.board.region
        if pixels.shape != (region.height, region.width, 3):
            raise CameraLost(
                f"camera '{self.config.camera.source}': frames are {pixels.shape[1]}x{pixels.shape[0]}, "
                f"camera.width x camera.height is {region.width}x{region.height}"
            )
        distance = np.asanyarray(depth.get_data()) if depth_there else None
        if distance is not None and distance.shape != pixels.shape[:2]:
            distance = None  # another resolution than the colour's: not ours to stretch
        sparse = pixels[::16, ::16]
        self.brightness = float(sparse.mean())
        if self._dark():
            return True  # the camera works; what it shows is as good as nothing
        before, self._sparse = self._sparse, sparse.tobytes()
        self._same = self._same + 1 if self._sparse == before else 0
        if self._same and not self.config.camera.source.startswith("file:"):  # a recording may have no noise left
            if self._same > _SAME_MOST:
                self.error = (
                    f"camera '{self.config.camera.source}': the picture is frozen (new stamps, the same pixels); it is "
                    "opened again; if it stays, unplug the camera and check its USB 3 cable"
                )
            return False
        if self._rectifier is not None:
            pixels = self._rectifier(np.ascontiguousarray(pixels))
        put = self.board.put(pixels, distance, clock.capture_ns(sensor_ms, arrival_ns), arrival_ns, sensor_ms)
        if put is not None:
            self.pairs += 1
        return put is not None

    def _open(self) -> tuple[Any, Any]:
        """(running pipeline, the factory's object or None)."""
        camera = self.config.camera
        kind, _, rest = camera.source.partition(":")
        wanted = rs.config()
        if kind == "factory":
            return self._open_factory(rest, wanted)
        pipeline = rs.pipeline(rs.context())
        if kind == "file":
            if not Path(rest).is_file():
                raise CameraLost(f"camera.source = '{camera.source}': no such recording")
            rs.config.enable_device_from_file(wanted, rest, repeat_playback=self.repeat)
            pipeline.start(wanted)
            return pipeline, None
        if kind != "serial":
            raise CameraLost(f"camera.source = '{camera.source}': must start with serial:, file: or factory:")
        devices = {d.get_info(rs.camera_info.serial_number): d for d in rs.context().query_devices()}
        serials = list(devices)
        if (rest and rest not in serials) or not serials:  # start() would block for 15 s
            seen = ", ".join(serials) or "none"
            raise CameraLost(
                f"D455 {rest or '(any)'}: not connected (seen: {seen}); check the USB 3 cable and its power"
            )
        if rest:
            wanted.enable_device(rest)
        self._start_live(pipeline, wanted, devices[rest or serials[0]])
        return pipeline, None

    def _open_factory(self, name: str, wanted: Any) -> tuple[Any, Any]:
        module, _, function = name.partition(":")
        try:
            made = getattr(importlib.import_module(module), function)(self.config)
        except (ImportError, AttributeError) as e:
            raise CameraLost(f"camera.source = '{self.config.camera.source}': {e}") from e
        pipeline = rs.pipeline(rs.context())
        pipeline.set_device(made.device)
        self._start_live(pipeline, wanted, made.device)
        made.start()
        return pipeline, made

    def _start_live(self, pipeline: Any, wanted: Any, device: Any) -> None:
        """Colour and depth as configured. Raises CameraLost with what to do about it."""
        c = self.config.camera
        wanted.enable_stream(rs.stream.color, c.width, c.height, rs.format.rgb8, c.fps)
        wanted.enable_stream(rs.stream.depth, c.width, c.height, rs.format.z16, c.fps)
        try:
            pipeline.start(wanted)
        except RuntimeError as e:
            link = rs.camera_info.usb_type_descriptor
            usb = device.get_info(link) if device.supports(link) else ""
            raise CameraLost(f"camera '{c.source}': {why_not_started(str(e), usb, c)}") from e

    def _at_end(self, pipeline: Any) -> bool:
        if self.repeat:
            return False
        playback = pipeline.get_active_profile().get_device().as_playback()
        return bool(playback.current_status() == rs.playback_status.stopped)


def why_not_started(error: str, usb: str, camera: Camera) -> str:
    """What librealsense's refusal of a pipeline means. `usb`: the link's version as the device tells it, '' if it does not."""
    if "busy" in error or "is streaming" in error:  # xioctl(VIDIOC_S_FMT): EBUSY; the library's own software device
        return f"held by another program (realsense-viewer? a second wardarm?); end that one ({error})"
    if "resolve requests" in error:
        size = f"{camera.width}x{camera.height} colour and depth at {camera.fps} fps"
        if usb.startswith("2"):
            return f"connected by USB {usb}, which has no {size}; use a USB 3 port and its cable ({error})"
        return f"has no {size}; set camera.width, camera.height and camera.fps to what it has ({error})"
    return error


def optics_of(profile: Any) -> Optics | None:
    """Of a started pipeline's colour and depth; None if either is not there."""
    streams = {s.stream_type(): s.as_video_stream_profile() for s in profile.get_streams()}
    colour, depth = streams.get(rs.stream.color), streams.get(rs.stream.depth)
    if colour is None or depth is None:
        return None
    k = [
        np.array([[i.fx, 0, i.ppx], [0, i.fy, i.ppy], [0, 0, 1.0]])
        for i in (colour.get_intrinsics(), depth.get_intrinsics())
    ]
    between = depth.get_extrinsics_to(colour)
    turn = np.array(between.rotation).reshape(3, 3).T  # librealsense gives columns
    scale = next((s.get_depth_scale() for s in map(_depth_sensor, profile.get_device().query_sensors()) if s), 0.001)
    return Optics(k[0], k[1], turn, np.array(between.translation, float), float(scale))


def _depth_sensor(sensor: Any) -> Any:
    return sensor.as_depth_sensor() if sensor.is_depth_sensor() else None


def _rgb(pixels: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Whatever a recording has -> RGB, height x width x 3 UINT8."""
    if kind == rs.format.rgb8:
        return pixels
    code = {
        rs.format.bgr8: cv2.COLOR_BGR2RGB,
        rs.format.rgba8: cv2.COLOR_RGBA2RGB,
        rs.format.bgra8: cv2.COLOR_BGRA2RGB,
        rs.format.yuyv: cv2.COLOR_YUV2RGB_YUYV,
    }.get(kind)
    if code is None:
        raise CameraLost(f"colour format {kind} of the recording is not one of rgb8, bgr8, rgba8, bgra8, yuyv")
    if kind == rs.format.yuyv and pixels.dtype == np.uint16:
        pixels = pixels.view(np.uint8).reshape(*pixels.shape[:2], 2)
    return np.asarray(cv2.cvtColor(pixels, code))
