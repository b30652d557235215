"""Reads a simulated D455 through the real librealsense pipeline; prints what it saw as JSON.

A program of its own, because librealsense's threads end badly with the interpreter: it leaves by os._exit.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import pyrealsense2 as rs
from wardarm import config as configuration
from wardarm.sim import d455


def live(file: str, count: int) -> dict[str, object]:
    config = configuration.load(file)
    camera = d455.open_device(config)
    pipeline = rs.pipeline(rs.context())
    pipeline.set_device(camera.device)
    wanted = rs.config()
    wanted.enable_stream(rs.stream.depth, d455.WIDTH, d455.HEIGHT, rs.format.z16, config.camera.fps)
    wanted.enable_stream(rs.stream.color, d455.WIDTH, d455.HEIGHT, rs.format.rgb8, config.camera.fps)
    profile = pipeline.start(wanted)
    camera.start()
    color_stream = profile.get_stream(rs.stream.color).as_video_stream_profile()
    seen: dict[str, list[float]] = {"color_ms": [], "depth_ms": [], "age_ms": [], "color_n": [], "depth_n": []}
    for _ in range(count):
        frames = pipeline.wait_for_frames(5000)
        now_ms = time.monotonic_ns() * 1e-6
        color, depth = frames.get_color_frame(), frames.get_depth_frame()
        picture, distance = np.asanyarray(color.get_data()).copy(), np.asanyarray(depth.get_data()).copy()
        seen["color_ms"].append(color.get_timestamp())
        seen["depth_ms"].append(depth.get_timestamp())
        seen["age_ms"].append(now_ms - color.get_timestamp())
        seen["color_n"].append(color.get_frame_number())
        seen["depth_n"].append(depth.get_frame_number())
    has_arrival = color.supports_frame_metadata(rs.frame_metadata_value.time_of_arrival)
    np.savez(sys.argv[4], color=picture, depth=distance)
    camera.stop()
    return {
        **seen,
        "name": profile.get_device().get_info(rs.camera_info.name),
        "fx": color_stream.get_intrinsics().fx,
        "domain": str(color.get_frame_timestamp_domain()),
        "has_arrival": has_arrival,
        "depth_scale": profile.get_device().first_depth_sensor().get_depth_scale(),
    }


def bag(file: str, path: str) -> dict[str, object]:
    written = d455.record_bag(configuration.load(file), path, 1.5)
    wanted = rs.config()
    wanted.enable_device_from_file(path, repeat_playback=False)
    pipeline = rs.pipeline()
    profile = pipeline.start(wanted)
    means: list[float] = []
    while True:
        ok, frames = pipeline.try_wait_for_frames(1500)
        if not ok:
            break
        if frames.get_color_frame():
            means.append(float(np.asanyarray(frames.get_color_frame().get_data()).mean()))
    return {"written": written, "means": means, "name": profile.get_device().get_info(rs.camera_info.name)}


if __name__ == "__main__":
    result = live(sys.argv[2], int(sys.argv[3])) if sys.argv[1] == "live" else bag(sys.argv[2], sys.argv[3])
    print(json.dumps(result), flush=True)
    os._exit(0)
