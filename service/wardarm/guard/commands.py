"""Ready-made camera commands: programs that write a room camera's picture as guard reads it (raw GRAY8 on standard output).

`wardarm guard commands` prints them for a device. None repeats a frame (`videorate drop-only=true`: a repeated frame is a frozen camera), and none keeps old ones (`queue
leaky=downstream max-size-buffers=1`: a late picture of the room is worth less than the next one).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

_LAST = "queue leaky=downstream max-size-buffers=1 max-size-bytes=0 max-size-time=0"
_PACE = "videorate drop-only=true"
_GREY = "video/x-raw,format=GRAY8,width={width},height={height}"
_OUT = "fdsink fd=1 sync=false"
_SCALE = f"videoscale ! videoconvert ! {_PACE} ! {_GREY},framerate={{fps}}/1 ! {_OUT}"


@dataclass(frozen=True)
class Source:
    """`command` as it stands in the configuration, DEVICE where the device goes; `default` device; `note` for the engineer."""

    command: str
    default: str
    note: str
    still_percent: float | None = None  # guard.still_percent that it needs, if not the usual one


SOURCES: dict[str, Source] = {
    "csi": Source(
        "gst-launch-1.0 -q nvarguscamerasrc sensor-id=DEVICE ! "
        "video/x-raw(memory:NVMM),format=NV12,width=1280,height=720,framerate=30/1 ! "
        f"nvvidconv ! video/x-raw,format=GRAY8,width={{width}},height={{height}} ! {_LAST} ! {_PACE} ! "
        f"video/x-raw,framerate={{fps}}/1 ! {_OUT}",
        "0",
        "CSI camera through Argus (JetPack: gstreamer1.0-plugins-nvidia). Orin; on a Thor only with a carrier board and driver "
        "that still offer Argus. Scaled by the VIC, not by the CPU. Add wbmode=0 aelock=true once the picture is right.",
    ),
    "v4l2": Source(
        f"gst-launch-1.0 -q v4l2src device=DEVICE ! {_LAST} ! {_SCALE}",
        "/dev/v4l/by-path/PATH",
        "Any V4L2 camera with raw frames (GMSL, CSI with a V4L2 driver, UVC with YUYV). Thor and Orin. By path, not "
        "/dev/video0: numbers change when a cable is pulled.",
    ),
    "uvc": Source(
        f"gst-launch-1.0 -q v4l2src device=DEVICE ! image/jpeg,width=1280,height=720 ! {_LAST} ! jpegdec ! {_SCALE}",
        "/dev/v4l/by-path/PATH",
        "USB camera with MJPEG at 720p. Thor and Orin, any PC. Three on one USB 2 hub do not fit.",
    ),
    "rtsp": Source(
        "gst-launch-1.0 -q rtspsrc location=DEVICE protocols=tcp latency=50 drop-on-latency=true ! decodebin ! "
        f"{_LAST} ! videoscale ! videoconvert ! {_GREY} ! {_OUT}",
        "rtsp://ADDRESS/stream",
        "Network camera. Set its stream to guard.fps (network streams often name no rate, so nothing here can thin them out), a "
        "key frame a second, no B frames; the camera's own delay (often 0.1 to 0.3 s) adds "
        "to every stop. Its still pictures may repeat exactly.",
        still_percent=0.0,
    ),
    "rtsp-jetson": Source(
        "gst-launch-1.0 -q rtspsrc location=DEVICE protocols=tcp latency=50 drop-on-latency=true ! rtph264depay ! h264parse ! "
        f"nvv4l2decoder ! nvvidconv ! video/x-raw,format=GRAY8,width={{width}},height={{height}} ! {_LAST} ! {_OUT}",
        "rtsp://ADDRESS/stream",
        "The same, H.264, decoded by the Jetson's own unit.",
        still_percent=0.0,
    ),
    "file": Source(
        "gst-launch-1.0 -q filesrc location=DEVICE ! decodebin ! videoscale ! videoconvert ! "
        f"{_PACE} ! {_GREY},framerate={{fps}}/1 ! fdsink fd=1 sync=true",
        "/path/to/recording.avi",
        "A recording, at its own pace, for a try-out; it ends with the recording and begins anew. Its rate must be guard.fps or more.",
        still_percent=0.0,
    ),
    "test": Source(
        "gst-launch-1.0 -q videotestsrc name={name} is-live=true pattern=ball animation-mode=frames ! "
        f"video/x-raw,width=1280,height=720,framerate={{fps}}/1 ! {_SCALE}",
        "",
        "GStreamer's test picture: does the way from a pipeline to guard work at all?",
        still_percent=0.0,
    ),
}  # fmt: skip


def command(kind: str, device: str = "") -> str:
    """The command of a kind for a device (its default if none is given). Raises KeyError."""
    source = SOURCES[kind]
    return source.command.replace("DEVICE", device or source.default)


def toml(kind: str, device: str = "", name: str = "room") -> str:
    """A [[guard.cameras]] entry to paste; the zone is still to be drawn."""
    source = SOURCES[kind]
    lines = [f"# {source.note}"]
    if source.still_percent is not None:
        lines.append(f"# needs still_percent = {source.still_percent:g} in [guard]")
    lines += ["[[guard.cameras]]", f"name = {json.dumps(name)}", f"command = {json.dumps(command(kind, device))}"]
    lines.append("keep_out = []  # draw it: 'wardarm guard preview' shows what this camera sees")
    return "\n".join(lines) + "\n"
