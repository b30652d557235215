"""`wardarm plot trajectory FILE`: every kind of file it takes, the numbers on the page, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from postproc_cases import Array, Bench, Fetch, knot_table, rpy_of
from typer.testing import CliRunner
from wardarm import _native
from wardarm.cli import app
from wardarm.ops.rtde_log import SAMPLE
from wardarm.policy import contract

RAMPING = 3


@pytest.fixture(scope="module")
def chunk(tmp_path_factory: pytest.TempPathFactory) -> tuple[Array, Array, np.void, Bench]:
    """Points (64, 6) m and deg, openings, the same as a RawChunk."""
    bench = Bench.make(Path(tmp_path_factory.mktemp("params")))
    pose = bench.tcp(bench.home())
    state = np.concatenate([pose[:3], rpy_of(pose), [1.0, 0.0]])
    raw = Fetch(np.array([0.52, -0.2, 0.1])).chunk(state, np.random.default_rng(2), 0)
    points = contract.denormalise(np.asarray(raw["traj"]).view(np.float16).reshape(64, 6).astype(np.float64))
    points[:, 3:] = np.degrees(points[:, 3:])
    return points, np.asarray(raw["grip"]).view(np.float16).astype(np.float64), raw, bench


def plot(file: Path, *more: str) -> dict[str, Any]:
    result = CliRunner().invoke(
        app, ["plot", "trajectory", str(file), "--out", str(file.with_suffix(".png")), "--json", *more]
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def refused(file: Path, *more: str) -> str:
    result = CliRunner().invoke(app, ["plot", "trajectory", str(file), "--out", str(file.with_suffix(".png")), *more])
    assert result.exit_code == 2, result.output
    assert not file.with_suffix(".png").exists()
    return " ".join(result.stderr.split())


def record(bench: Bench, raw: np.void, ramp_from: int | None = None) -> np.ndarray[Any, Any]:
    """What `rtde_log` would have written of the planned motion."""
    rows = _native.sample(knot_table(bench.plan(raw, bench.home())), 0.002)
    samples = np.zeros(len(rows) + 200, SAMPLE.newbyteorder("="))
    samples["timestamp"] = 100 + np.arange(len(samples)) * 0.002
    samples["target_q"] = np.concatenate(
        [np.repeat(rows[:1, 1:7], 100, 0), rows[:, 1:7], np.repeat(rows[-1:, 1:7], 100, 0)]
    )
    samples["output_int_register_12"] = 2
    if ramp_from is not None:
        samples["output_int_register_12"][ramp_from:] = RAMPING
    return samples


@pytest.mark.parametrize("kind", ["json", "npz", "bin", "npy"])
def test_every_kind_of_file_becomes_a_page_with_the_same_numbers(
    kind: str, chunk: tuple[Array, Array, np.void, Bench], tmp_path: Path
) -> None:
    points, grip, raw, bench = chunk
    file = tmp_path / f"motion.{kind}"
    if kind == "json":
        file.write_text(json.dumps({"points": points.tolist(), "grip": grip.tolist()}))
    elif kind == "npz":
        np.savez(file, points=points, grip=grip)
    elif kind == "bin":
        file.write_bytes(raw.tobytes())
    else:
        np.save(file, record(bench, raw))
    numbers = plot(file)
    assert numbers["profile"] == "ward"
    assert 0.5 < numbers["max_ratio_plan"] <= 1.002
    assert numbers["max_ratio_stop"] == 0.0
    assert 0.1 < numbers["tcp_m_s"] <= 0.25
    assert 2.0 < numbers["seconds"] < 8.0
    assert 0.2 < numbers["slosh_mm"] < 8.0
    picture = np.asarray(Image.open(numbers["picture"]).convert("L"))
    assert picture.shape[0] > 1400
    assert 0.02 < (picture < 200).mean() < 0.5  # something is drawn, and it is a page


def test_a_ramp_in_a_record_is_held_against_the_stop_limits(
    chunk: tuple[Array, Array, np.void, Bench], tmp_path: Path
) -> None:
    *_, raw, bench = chunk
    file = tmp_path / "rtde.npy"
    np.save(file, record(bench, raw, ramp_from=300))
    numbers = plot(file)
    assert 0 < numbers["max_ratio_stop"] <= 1.0


def test_another_profile_moves_the_limits(chunk: tuple[Array, Array, np.void, Bench], tmp_path: Path) -> None:
    *_, raw, bench = chunk
    file = tmp_path / "rtde.npy"
    np.save(file, record(bench, raw))
    assert (
        plot(file, "--profile", "patient")["max_ratio_plan"] > 2.0 * plot(file, "--profile", "fast")["max_ratio_plan"]
    )


def test_a_page_can_be_a_pdf(chunk: tuple[Array, Array, np.void, Bench], tmp_path: Path) -> None:
    *_, raw, bench = chunk
    file = tmp_path / "rtde.npy"
    np.save(file, record(bench, raw))
    out = tmp_path / "page.pdf"
    assert plot(file, "--out", str(out))["picture"] == str(out)
    assert out.read_bytes().startswith(b"%PDF")


def test_what_is_no_trajectory_is_refused_with_the_reason(
    chunk: tuple[Array, Array, np.void, Bench], tmp_path: Path
) -> None:
    points, _, raw, bench = chunk
    (tmp_path / "a.txt").write_text("x")
    assert "expected .npy" in refused(tmp_path / "a.txt")
    (tmp_path / "b.json").write_text("{")
    assert "not JSON" in refused(tmp_path / "b.json")
    (tmp_path / "c.json").write_text(json.dumps({"points": points[:9].tolist()}))
    assert "(9, 6)" in refused(tmp_path / "c.json")
    (tmp_path / "d.bin").write_bytes(raw.tobytes()[:-1])
    assert "a RawChunk has" in refused(tmp_path / "d.bin")
    np.save(tmp_path / "e.npy", np.zeros(30))
    assert "missing: timestamp" in refused(tmp_path / "e.npy")
    np.save(tmp_path / "f.npy", record(bench, raw)[:50])
    assert "the arm stands" in refused(tmp_path / "f.npy")
    assert "No such file" in refused(tmp_path / "g.json")
    np.savez(tmp_path / "h.npz", points=points)
    assert "profile" in refused(tmp_path / "h.npz", "--profile", "none_such")
    jumping = points.copy()
    jumping[20:, 0] += 0.2
    (tmp_path / "i.json").write_text(json.dumps({"points": jumping.tolist()}))
    assert "point 20" in refused(tmp_path / "i.json")
    far = points.copy()
    far[:, :3] = [0.99, 0.59, 0.74]
    (tmp_path / "j.json").write_text(json.dumps({"points": far.tolist()}))
    assert "cannot be reached" in refused(tmp_path / "j.json")
    bad = raw.copy()
    values = np.asarray(bad["traj"]).view(np.float16).copy()
    values.reshape(-1)[6 * 7] = np.nan
    bad["traj"] = values.view(np.uint16).reshape(bad["traj"].shape)
    (tmp_path / "k.bin").write_bytes(bad.tobytes())
    assert "point 7 is not finite" in refused(tmp_path / "k.bin")
    torn = record(bench, raw)
    torn["target_q"][123, 2] = np.nan
    np.save(tmp_path / "l.npy", torn)
    assert "sample 123: timestamp or target_q is not a finite number" in refused(tmp_path / "l.npy")
