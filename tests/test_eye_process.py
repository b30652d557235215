"""The process itself, with the real server and a camera: its word, its health, its end; and the dry run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import eye_camera
import numpy as np
import pytest
from eye_parts import configuration, remove_blocks, running_server
from patience import PATIENCE_S, soonest
from wardarm.config import Config
from wardarm.eye.model import Model
from wardarm.ops import installation
from wardarm.ops.triton_server import EmbeddedServer
from wardarm.processes import PROCESSES
from wardarm.shm import layouts, ring
from wardarm.shm.layouts import BlockKind, HoldReason, ProcessId, StepKind, StepState

TESTS = Path(__file__).parent
BUILT = installation.root() / "build" / "cpp"


def toml(config: Config, path: Path) -> Path:
    """The configuration as a file: what a process is started with."""

    def value(v: Any) -> str:
        return json.dumps(v, ensure_ascii=False)

    lines = ["schema = 1", f"simulated = {value(config.simulated)}"]
    data = config.model_dump()
    for name in ("shm", "camera", "triton", "eye", "gate"):
        lines += [f"[{name}]", *(f"{k} = {value(v)}" for k, v in data[name].items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def environment() -> dict[str, str]:
    paths = [str(TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in paths if p)}


@pytest.fixture(scope="module")
def config() -> Iterator[Config]:
    made = configuration(camera={"source": eye_camera.SOURCE, "fps": 10, "lost_s": 1.0})
    yield made
    remove_blocks(made)


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[EmbeddedServer]:
    with running_server(config) as s:
        yield s


@pytest.fixture
def eye(config: Config, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    file = toml(config, tmp_path / "eye.toml")
    process = subprocess.Popen(
        [sys.executable, "-m", "wardarm.eye.main", "--config", str(file)],
        env=environment(), stdout=(tmp_path / "log").open("wb"), stderr=subprocess.STDOUT,
    )  # fmt: skip
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def word(config: Config) -> Any:
    slot = ring.wait_for(BlockKind.WORD, config.shm.prefix, ProcessId.EYE).latest()
    return slot.data if slot else None


def wait(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def says(config: Config, ok: int, reason: HoldReason) -> bool:
    w = word(config)
    return w is not None and int(w["ok"]) == ok and int(w["reason"]) == reason


def test_the_word_is_true_once_camera_and_model_answered_and_follows_both(
    config: Config, server: EmbeddedServer, eye: subprocess.Popen[bytes]
) -> None:
    wait(lambda: says(config, 1, HoldReason.NONE))
    reader = ring.Reader(BlockKind.WORD, config.shm.prefix, ProcessId.EYE)

    def longest_gap_s() -> float:
        beats, end = set(), time.monotonic() + 0.5
        while time.monotonic() < end:
            slot = reader.latest()
            if slot is not None:
                beats.add(int(slot.data["beat_ns"]))
            time.sleep(0.005)
        return float(np.diff(sorted(beats)).max(initial=0.0)) * 1e-9 if len(beats) > 5 else np.inf

    soonest(longest_gap_s, config.gate.word_deadline_ms * 1e-3)  # inference does not hold it up
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        wait(lambda: says(config, 0, HoldReason.STARTING))
        assert "infer_deadline_s" in ring.text(word(config)["detail"])
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    wait(lambda: says(config, 1, HoldReason.NONE))
    eye.terminate()
    assert eye.wait(PATIENCE_S) == 0


def test_a_restarted_eye_never_repeats_the_step_it_had_begun(
    config: Config, server: EmbeddedServer, eye: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    wait(lambda: says(config, 1, HoldReason.NONE))
    steps = ring.Writer(BlockKind.STEP, config.shm.prefix)
    step = steps.blank()
    step["seq"], step["kind"], step["text"] = 41, StepKind.FETCH, b"bring me the blue cup"
    steps.publish(step)
    progress = ring.Reader(BlockKind.PROGRESS, config.shm.prefix)

    def reported(state: StepState) -> bool:
        slot = progress.latest()
        return slot is not None and int(slot.data["step_seq"]) == 41 and int(slot.data["state"]) == state

    wait(lambda: reported(StepState.IDLE))  # there is no arm: it waits
    eye.kill()
    eye.wait()
    again = subprocess.Popen(eye.args, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        wait(lambda: reported(StepState.FAILED))
        slot = progress.latest()
        assert slot is not None
        assert "restarted" in ring.text(slot.data["reason"])
        assert int(slot.data["accepted"]) == 0
    finally:
        again.terminate()
        assert again.wait(PATIENCE_S) == 0


def test_the_models_health_is_a_real_inference(config: Config, server: EmbeddedServer) -> None:
    from wardarm.eye.frames import FrameBoard, FrameRegion
    from wardarm.eye.main import tokenizer_path
    from wardarm.policy.tokenizer import Tokenizer

    other = configuration()
    board = FrameBoard(FrameRegion(other.shm.prefix, 1280, 720, 2), other.shm.prefix)
    model = Model(other.model_copy(update={"triton": config.triton}), board, Tokenizer(tokenizer_path(config)))
    try:
        model.keep_alive()
        assert model.error == "no frame to try the model on"
        now = time.monotonic_ns()
        board.put(np.zeros((720, 1280, 3), np.uint8), None, now, now, 0.0)
        model._tried_s = -1e9

        def answered() -> bool:
            model.keep_alive()
            return model.ok

        wait(answered)
        assert model.version == 1
    finally:
        model.close()
        remove_blocks(other)


@pytest.fixture(scope="module")
def table_picture() -> np.ndarray:
    """What the D455 of the simulated bedside sees: a table with tableware, the arm at home."""
    from wardarm.sim import renderer, scenes, world

    w = world.World(world.build(width=1280, height=720))
    w.load(scenes.demo_scene(7))
    w.set_arm((2.678540, -2.057600, 1.700110, -1.213310, -1.570800, -2.033850))
    drawer = renderer.Renderer(w.model)
    picture = renderer.View(drawer, "d455", 1280, 720, renderer.D455_GROUPS).draw(w.data).copy()
    drawer.close()
    return picture


def test_a_dry_run_plans_every_chunk_of_a_recording_and_moves_nothing(
    config: Config, server: EmbeddedServer, table_picture: np.ndarray, tmp_path: Path
) -> None:
    recording = tmp_path / "bedside.db3"
    camera = eye_camera.TestCamera(1280, 720, 5)
    camera.picture = table_picture
    camera.record(recording, 10)
    played = config.model_copy(update={"camera": config.camera.model_copy(update={"fps": 5})})
    file = toml(played, tmp_path / "dry.toml")
    variables = environment()
    variables["PATH"] = f"{BUILT}{os.pathsep}{variables['PATH']}"
    command = [sys.executable, "-m", "wardarm.eye.dry_run", "--config", str(file), "--source", str(recording)]
    done = subprocess.run(
        [*command, "--instruction", "把蓝色水杯拿给我", "--json"],
        env=variables,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    summary = json.loads(done.stdout)
    assert summary["success"] is True
    assert summary["moved"] is False
    assert summary["chunks"] >= 5
    assert summary["planned"] == summary["chunks"]
    assert summary["latency_ms"]["model"]["p50"] > summary["latency_ms"]["plan"]["p50"] > 0
    assert summary["valid_mean"] > 0.5
    missing = subprocess.run(
        [*command[:-1], str(tmp_path / "none.db3"), "--instruction", "x"],
        env=variables,
        capture_output=True,
        check=False,
    )
    assert missing.returncode == 2
    assert b"none.db3: no such file" in missing.stderr
    assert not list(ring.SHM.glob(f"{config.shm.prefix[:12]}dry*"))


def test_the_row_of_the_process_list_starts_this_module() -> None:
    rows = {p.name: p for p in PROCESSES}
    command = rows["eye"].command(configuration(), Path("x.toml"))
    assert command[1:3] == ["-m", "wardarm.eye.main"]
    assert set(rows["eye"].blocks) == {
        BlockKind.RAW_CHUNK, BlockKind.PROGRESS, BlockKind.FRAME_META, BlockKind.WORD,
    }  # fmt: skip
    assert layouts.PROGRESS.names is not None
