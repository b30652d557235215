"""The bedside as it runs: real processes, sockets and shared memory."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from bedside_bench import Bench, running
from wardarm import config as configuration
from wardarm.sim import recording, world_state
from wardarm.sim.control import ControlError
from wardarm.sim.pictures import PictureFeed
from wardarm.sim.room_views import ROOM_HEIGHT, ROOM_VIEWS, ROOM_WIDTH, project
from wardarm.sim.tableware import names
from wardarm.sim.views import D455_HEIGHT, D455_WIDTH
from wardarm.sim.visitor import FLOOR_Z_M, SPOTS

_GRASP_Z, _UP_Z = 0.062, 0.26


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with running(tmp_path_factory.mktemp("bedside")) as b:
        yield b


def _down(x: float, y: float, z: float) -> str:
    """A tool-down pose as URScript: half a turn about the diagonal of x and y."""
    return f"p[{x}, {y}, {z}, 2.22144147, 2.22144147, 0]"


def _grip(bench: Bench, pos: int, ends: str) -> None:
    """Until the fingers say that they ended so; right after the command they may still say how the one before ended."""
    assert bench.gripper(f"SET POS {pos} SPE 255 FOR 80") == "ack"
    end = time.monotonic() + 60
    while (obj := bench.gripper("GET OBJ")) != ends:
        assert time.monotonic() < end, obj


def test_a_urscript_program_and_the_gripper_fetch_a_cup_by_physics(bench: Bench, tmp_path: Path) -> None:
    bench.ask("load_scene", seed=7)
    bench.ask("record", path=str(tmp_path / "world.states"))
    cup = next(p for p in bench.ask("report")["pieces"] if p["kind"] == "cup" and p["color"] == "blue")
    x, y, _ = cup["pos_m"]
    bench.run_script(
        f" movej(get_inverse_kin({_down(x, y, _UP_Z)}), a=2.0, v=1.4)\n movel({_down(x, y, _GRASP_Z)}, a=1.2, v=0.4)"
    )
    _grip(bench, 255, "OBJ 2")
    bench.run_script(
        f" movel({_down(x, y, _UP_Z)}, a=1.2, v=0.4)\n movej(get_inverse_kin({_down(0.48, 0.5, _UP_Z)}), a=2.0, v=1.4)\n"
        f" movel({_down(0.48, 0.5, _GRASP_Z + 0.002)}, a=1.2, v=0.4)"
    )
    held = next(p for p in bench.ask("report")["pieces"] if p["name"] == cup["name"])
    assert held["lifted"]
    assert not held["fetched"]
    _grip(bench, 0, "OBJ 3")
    bench.run_script(f" movel({_down(0.48, 0.5, _UP_Z)}, a=1.2, v=0.4)")
    report = bench.ask("report")
    assert report["fetched"] == [cup["name"]]
    assert report["touches"]["patient"] == report["touches"]["bed"] == report["touches"]["table"] == 0
    bench.ask("record")
    states = recording.read(tmp_path / "world.states")
    apart_s = np.diff(states["time_s"])
    assert len(states) > 60
    assert np.median(apart_s) == pytest.approx(1 / 30, abs=0.005)


def test_the_world_state_is_published_sixty_times_a_simulated_second(bench: Bench) -> None:
    reader = world_state.wait_for(bench.config.shm.prefix)
    seen: dict[int, float] = {}
    while len(seen) < 40:
        state = reader.latest()
        assert state is not None
        seen[int(state["t_ns"])] = float(state["time_s"])
        time.sleep(0.002)
    stamps, times = np.array(list(seen)), np.array(list(seen.values()))
    assert (np.diff(stamps) > 0).all()
    assert np.diff(times).min() == pytest.approx(1 / 60, abs=0.003)  # a reader that is late misses some


def test_room_cameras_run_by_the_desk_command_and_two_frames_of_a_still_room_differ(bench: Bench) -> None:
    cameras, size = configuration.load("desk").guard.cameras, ROOM_WIDTH * ROOM_HEIGHT
    commands = [
        c.command.format(python=sys.executable, config=bench.file, width=ROOM_WIDTH, height=ROOM_HEIGHT, fps=5)
        for c in cameras
    ]
    processes = [subprocess.Popen(shlex.split(c), stdout=subprocess.PIPE) for c in commands]
    try:
        for camera, process in zip(cameras, processes, strict=True):
            assert process.stdout is not None
            frames = [np.frombuffer(process.stdout.read(size), np.uint8).astype(int) for _ in range(3)]
            assert all(len(f) == size for f in frames), camera.name
            difference = np.abs(frames[1] - frames[2])
            assert difference.any(), f"{camera.name}: no sensor noise"
            assert difference.mean() < 6
            assert frames[0].std() > 15, f"{camera.name}: an empty picture"
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_a_visitor_near_the_arm_is_plain_in_a_keep_out_region(bench: Bench) -> None:
    guard = configuration.load("desk").guard
    empty = {v.name: bench.picture(f"room_{v.name}").pixels.astype(int) for v in ROOM_VIEWS}
    for spot in ("table", "corner", "foot", "arm"):
        bench.ask("visitor", to=spot, at_once=True)
        now, shares = time.monotonic_ns(), {}
        for camera, view in zip(guard.cameras, ROOM_VIEWS, strict=True):
            person = bench.picture(f"room_{view.name}", now).pixels.astype(int)
            changed = (np.abs(person - empty[view.name]) > 25).reshape(ROOM_HEIGHT, ROOM_WIDTH)
            inside = np.zeros(changed.shape, np.uint8)
            cv2.fillPoly(inside, [np.array(camera.keep_out, np.int32)], 1)
            shares[view.name] = 100 * (changed & (inside > 0)).sum() / changed.size
        assert max(shares.values()) > 3 * guard.min_area_percent, f"{spot}: % of the picture {shares}"
    corner = (*SPOTS["corner"], FLOOR_Z_M)
    for camera, view in zip(guard.cameras, ROOM_VIEWS, strict=True):
        feet = project(view, corner, ROOM_WIDTH, ROOM_HEIGHT)
        assert cv2.pointPolygonTest(np.array(camera.keep_out, np.float32), feet, False) > 0, view.name
    bench.ask("visitor", to="away")
    left = bench.until("report", lambda r: not r["visitor"]["walking"])
    assert not left["visitor"]["in_room"]


def test_lights_and_colours_reach_the_picture(bench: Bench) -> None:
    def mean(after_ns: int) -> float:
        return float(bench.picture("d455", after_ns).pixels[: D455_WIDTH * D455_HEIGHT * 3].mean())

    bright = mean(0)
    bench.ask("light", 0.5)
    assert mean(time.monotonic_ns()) < 0.7 * bright
    bench.ask("light", 1.0)
    assert mean(time.monotonic_ns()) == pytest.approx(bright, rel=0.03)
    reader = world_state.wait_for(bench.config.shm.prefix)
    a, b = (o["name"] for o in bench.ask("scene")["scene"]["objects"][:2])
    before = reader.latest()
    assert before is not None
    named = {p["name"]: p["color"] for p in bench.ask("report")["pieces"]}
    bench.ask("swap_colors", a, b)
    swapped = {p["name"]: p["color"] for p in bench.ask("report")["pieces"]}
    assert (swapped[a], swapped[b]) == (named[b], named[a])
    end = time.monotonic() + 60
    while (after := reader.latest()) is None or after["scene_id"] == before["scene_id"]:
        assert time.monotonic() < end
        time.sleep(0.01)
    i, j = (names().index(n) for n in (a, b))
    assert (after["colors"][i] == before["colors"][j]).all()
    assert (after["colors"][j] == before["colors"][i]).all()
    assert (after["colors"][i] != before["colors"][i]).any()


def test_a_camera_can_go_dark_and_come_back(bench: Bench) -> None:
    bench.picture("d455")
    bench.ask("blackout", "d455", "on")
    feed, end = PictureFeed(bench.config.shm.prefix, "d455"), time.monotonic() + 60
    while feed.next(1.0) is not None:  # a picture being drawn is still handed out
        assert time.monotonic() < end
    bench.picture("room_bed", time.monotonic_ns())
    bench.ask("blackout", "d455", "off")
    bench.picture("d455", time.monotonic_ns())


def test_a_piece_can_be_moved_while_everything_runs(bench: Bench) -> None:
    before = bench.ask("report")["pieces"][0]
    after = bench.ask("place", name=before["name"], x_m=0.03, y_m=0.0, relative=True)["pos_m"]
    assert after[0] == pytest.approx(before["pos_m"][0] + 0.03, abs=1e-3)


@pytest.mark.parametrize(
    ("command", "fields", "word"),
    [
        ("place", {"name": "plate0", "x_m": 0.4, "y_m": 0}, "plate0"),
        ("paint", {"name": "cup0", "color": "pink"}, "pink"),
        ("visitor", {"to": "moon"}, "moon"),
        ("visitor", {"x_m": 0.5, "y_m": 0.1}, "nobody can stand there"),
        ("light", {"gain": -1}, "gain"),
        ("blackout", {"camera": "attic"}, "attic"),
        ("dance", {}, "dance"),
    ],
)
def test_a_command_that_does_not_fit_is_refused_by_name(
    bench: Bench, command: str, fields: dict[str, object], word: str
) -> None:
    with pytest.raises(ControlError, match=word):
        bench.ask(command, **fields)
