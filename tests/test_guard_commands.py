"""The ready-made camera commands: each that can run without its hardware runs here and delivers what guard reads; of those
that need it everything behind the device does, and the device's absence is a lost camera that says so."""

from __future__ import annotations

import os
import select
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from patience import PATIENCE_S
from wardarm import config as configuration
from wardarm.config import ConfigError, Guard, RoomCamera
from wardarm.guard.camera import CameraProgram, Frame
from wardarm.guard.commands import SOURCES, command, toml
from wardarm.guard.main import check

GUARD = Guard(width=320, height=180, fps=15, still_percent=0.0, lost_s=2.0)
ZONE = [(0.0, 0.0), (300.0, 0.0), (300.0, 170.0)]
LIVE = "videotestsrc is-live=true pattern=ball animation-mode=frames"
needs_gstreamer = pytest.mark.skipif(
    shutil.which("gst-launch-1.0") is None or shutil.which("gst-inspect-1.0") is None,
    reason="gst-launch-1.0 is not installed (Debian's gstreamer1.0-tools): camera commands are not run",
)


def run(text: str, frames: int = 12, limit_s: float = PATIENCE_S) -> list[Frame]:
    """Frames of a camera command, read as guard reads them; stops at `frames`. Fails with its fault if they do not come."""
    program = CameraProgram(RoomCamera(name="bed", command=text, keep_out=ZONE), GUARD, Path("x.toml"))
    got: list[Frame] = []
    faults: set[str] = set()
    end = time.monotonic() + limit_s
    try:
        while len(got) < frames:
            assert time.monotonic() < end, f"{len(got)} frames; {faults}"
            select.select(program.fds, [], [], 0.02)
            frame = program.poll(time.monotonic_ns())
            faults.add(program.fault)
            if frame is not None:
                got.append(Frame(frame.grey.copy(), frame.arrival_ns, frame.number))
        assert not program.lost
        return got
    finally:
        program.stop()


def is_the_test_picture(frames: list[Frame]) -> bool:
    """A white ball that moves on black, in every frame at another place."""
    places = [tuple(f.grey.argmax(0)) for f in frames]
    return (
        all(f.grey.shape == (180, 320) and f.grey.max() > 200 and f.grey.mean() < 60 for f in frames)
        and len(set(places)) > len(frames) // 2
    )


def test_every_command_fits_the_configuration_and_none_repeats_or_keeps_a_frame() -> None:
    for kind, source in SOURCES.items():
        data = tomllib.loads(toml(kind, name=f"cam-{kind}"))
        camera = RoomCamera(**data["guard"]["cameras"][0])
        assert camera.command == command(kind)
        assert "DEVICE" not in camera.command
        assert ("videorate drop-only=true" in camera.command) != kind.startswith("rtsp")
        assert camera.command.endswith("fdsink fd=1 sync=true" if kind == "file" else "fdsink fd=1 sync=false")
        assert camera.command.startswith("gst-launch-1.0 -q "), "without -q GStreamer talks into the picture"
        assert kind in ("file", "test") or "leaky=downstream max-size-buffers=1" in camera.command
        CameraProgram(camera, GUARD, Path("x.toml"))
        assert source.note


@needs_gstreamer
def test_the_test_picture_arrives() -> None:
    assert is_the_test_picture(run(command("test")))


@needs_gstreamer
def test_a_recording_arrives(tmp_path: Path) -> None:
    made = f"gst-launch-1.0 -q videotestsrc num-buffers=90 pattern=ball animation-mode=frames ! video/x-raw,width=640,height=360,framerate=30/1 ! jpegenc ! avimux ! filesink location={tmp_path}/x.avi"
    subprocess.run(made.split(), check=True, timeout=60)
    assert is_the_test_picture(run(command("file", f"{tmp_path}/x.avi")))


@needs_gstreamer
@pytest.mark.parametrize(
    ("kind", "device", "stands_in"),
    [
        ("v4l2", "v4l2src device=/dev/v4l/by-path/PATH", f"{LIVE} ! video/x-raw,format=YUY2,width=1280,height=720,framerate=30/1"),
        ("uvc", "v4l2src device=/dev/v4l/by-path/PATH", f"{LIVE} ! video/x-raw,width=1280,height=720,framerate=30/1 ! jpegenc"),
        ("csi", "nvarguscamerasrc sensor-id=0 ! video/x-raw(memory:NVMM),", f"{LIVE} ! video/x-raw,"),
    ],
)  # fmt: skip
def test_what_stands_behind_the_device_works(kind: str, device: str, stands_in: str) -> None:
    """The device is replaced by the test picture; on a Jetson's own converter, `nvvidconv`, by GStreamer's."""
    assert device in command(kind)
    text = command(kind).replace(device, stands_in).replace("nvvidconv", "videoscale ! videoconvert")
    assert is_the_test_picture(run(text))


@needs_gstreamer
@pytest.mark.parametrize("kind", ["v4l2", "uvc", "csi"])
def test_a_device_that_is_not_there_is_a_lost_camera_that_says_so(kind: str) -> None:
    text = command(kind, "7" if kind == "csi" else "/dev/video97")
    program = CameraProgram(RoomCamera(name="bed", command=text, keep_out=ZONE), GUARD, Path("x.toml"))
    end, said = time.monotonic() + PATIENCE_S, set[str]()
    try:
        while not any(word in f for f in said for word in ("device '/dev/video97'", '"nvarguscamerasrc"')):
            assert time.monotonic() < end, said
            select.select(program.fds, [], [], 0.02)
            program.poll(time.monotonic_ns())
            said.add(program.fault)
        assert program.lost
    finally:
        program.stop()


SENDERS: list[subprocess.Popen[bytes]] = []


class _Rtsp(socketserver.StreamRequestHandler):
    """As much of an RTSP server as a player asks of a camera: one JPEG stream, interleaved on the RTSP connection (RFC 2326)."""

    def handle(self) -> None:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(20)
        sender: subprocess.Popen[bytes] | None = None
        base = f"rtsp://127.0.0.1:{self.server.server_address[1]}/stream"
        sdp = f"v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=room\r\nt=0 0\r\nm=video 0 RTP/AVP 26\r\na=rtpmap:26 JPEG/90000\r\na=control:{base}/1\r\n"
        try:
            while line := self.rfile.readline().decode().strip():
                method, headers = line.partition(" ")[0], {}
                while header := self.rfile.readline().decode().strip():
                    key, _, value = header.partition(":")
                    headers[key.lower()] = value.strip()
                more, body = "Session: 1\r\n", ""
                if method == "OPTIONS":
                    more = "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN\r\n"
                elif method == "DESCRIBE":
                    more, body = f"Content-Type: application/sdp\r\nContent-Base: {base}/\r\n", sdp
                elif method == "SETUP":
                    more += "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n"
                answer = f"RTSP/1.0 200 OK\r\nCSeq: {headers['cseq']}\r\n{more}"
                answer += f"Content-Length: {len(body)}\r\n\r\n{body}" if body else "\r\n"
                self.wfile.write(answer.encode())
                if method == "PLAY":
                    picture = f"gst-launch-1.0 -q {LIVE} ! video/x-raw,format=I420,width=640,height=360,framerate=30/1 ! jpegenc ! rtpjpegpay ! udpsink host=127.0.0.1 port={udp.getsockname()[1]}"
                    sender = subprocess.Popen(picture.split(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    SENDERS.append(sender)
                    while True:
                        packet = udp.recv(65536)
                        self.wfile.write(b"$\0" + len(packet).to_bytes(2, "big") + packet)
        except (OSError, KeyError):
            pass  # the player hung up
        finally:
            udp.close()
            if sender is not None:
                sender.kill()
                sender.wait()


@contextmanager
def rtsp_camera() -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Rtsp) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"rtsp://127.0.0.1:{server.server_address[1]}/stream"
        finally:
            server.shutdown()
            for sender in SENDERS:
                sender.kill()
                sender.wait()
            SENDERS.clear()


@needs_gstreamer
def test_a_network_camera_arrives() -> None:
    with rtsp_camera() as address:
        assert is_the_test_picture(run(command("rtsp", address)))


def test_the_command_line_prints_an_entry_for_a_device() -> None:
    argv = [sys.executable, "-m", "wardarm.cli", "guard", "commands"]
    env = os.environ | {"COLUMNS": "80"}
    done = subprocess.run([*argv, "rtsp", "--device", "rtsp://10.0.0.7/1", "--name", "door"], capture_output=True, text=True, timeout=60, env=env)  # fmt: skip
    entry = tomllib.loads(done.stdout)["guard"]["cameras"][0]
    assert (entry["name"], "location=rtsp://10.0.0.7/1" in entry["command"]) == ("door", True)
    every = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env)
    assert len(tomllib.loads(every.stdout)["guard"]["cameras"]) == len(SOURCES)
    assert subprocess.run([*argv, "film"], capture_output=True, text=True, timeout=60, env=env).returncode == 2


def test_one_device_by_two_names_is_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/v4l/by-path/... is a link to /dev/videoN."""
    monkeypatch.setattr("os.path.realpath", lambda p: "/dev/video0" if "by-path" in str(p) else str(p))
    for other, same in (("/dev/v4l/by-path/pci-0", True), ("/dev/video0", True), ("/dev/video2", False)):
        cameras = [
            {"name": f"c{i}", "command": command("v4l2", device), "keep_out": ZONE}
            for i, device in enumerate(("/dev/v4l/by-path/usb-1", other))
        ]
        config = configuration.parse({"schema": 1, "guard": {"cameras": cameras}}, "x")
        if same:
            with pytest.raises(ConfigError, match="'/dev/video0' is already used by 'c0'"):
                check(config, Path("x.toml"))
        else:
            check(config, Path("x.toml"))
