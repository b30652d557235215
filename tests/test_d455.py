"""The simulated D455 as a RealSense user sees it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bedside_bench import Bench, running
from wardarm.sim import d455
from wardarm.sim.furniture import D455_FOVY_DEG, D455_LOOK, D455_POS
from wardarm.sim.room_views import RoomView, project

_READER = Path(__file__).with_name("d455_reader.py")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with running(tmp_path_factory.mktemp("d455")) as b:
        b.picture("d455", most_s=60)
        yield b


def _read(*args: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(_READER), *args], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_the_pipeline_delivers_matched_fresh_frames_with_the_cameras_geometry(bench: Bench, tmp_path: Path) -> None:
    seen = _read("live", str(bench.file), "20", str(tmp_path / "last.npz"))
    assert "(simulated)" in seen["name"]
    assert seen["fx"] == pytest.approx(d455.FOCAL_PX, rel=1e-4)
    assert seen["domain"].endswith("hardware_clock")
    assert seen["has_arrival"]
    assert seen["depth_scale"] == pytest.approx(0.001)
    matched = np.equal(seen["color_n"], seen["depth_n"])
    assert matched.mean() >= 0.9
    assert np.allclose(np.array(seen["color_ms"])[matched], np.array(seen["depth_ms"])[matched])
    steps = np.diff(seen["color_ms"])
    assert (steps >= 0).all()
    assert steps[steps > 0].min() == pytest.approx(1000 / bench.config.sim.d455_fps, rel=0.5)  # load only ever adds
    assert min(seen["age_ms"]) < 500

    last = np.load(tmp_path / "last.npz")
    view = RoomView("d455", D455_POS, D455_LOOK, D455_FOVY_DEG)
    cup = next(o for o in bench.ask("scene")["scene"]["objects"] if (o["kind"], o["color"]) == ("cup", "blue"))
    u, v = project(view, (cup["x_m"], cup["y_m"], 0.045), d455.WIDTH, d455.HEIGHT)
    red, green, blue = last["color"][round(v), round(u)].astype(int)
    assert blue > 2 * red
    assert blue > 1.5 * green
    u, v = project(view, (0.70, 0.0, 0.0), d455.WIDTH, d455.HEIGHT)  # nothing stands there: the table top
    axis = np.subtract(D455_LOOK, D455_POS) / np.linalg.norm(np.subtract(D455_LOOK, D455_POS))
    assert last["depth"][round(v), round(u)] * 0.001 == pytest.approx(
        float(axis @ np.subtract((0.70, 0, 0), D455_POS)), abs=0.005
    )


def test_a_recording_plays_back_as_a_d455(bench: Bench, tmp_path: Path) -> None:
    seen = _read("bag", str(bench.file), str(tmp_path / "clip.db3"))
    assert seen["written"] >= 5
    assert len(seen["means"]) >= seen["written"] - 2
    assert min(seen["means"]) > 20
    assert "(simulated)" in seen["name"]


def test_only_db3_files_are_written(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="db3"):
        d455.record_bag(bench.config, tmp_path / "clip.bag", 0.1)
