"""The inference client against the real embedded server: answers, refusals, restarts, silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from eye_parts import configuration, remove_blocks, running_server
from patience import PATIENCE_S
from tritonclient.utils import InferenceServerException
from wardarm.config import Config
from wardarm.eye import triton as client_module
from wardarm.eye.frames import FrameRegion
from wardarm.eye.triton import (
    ContractMismatch,
    DeadlinePassed,
    InferenceClient,
    InferenceError,
    OutputInvalid,
    ServerUnavailable,
)
from wardarm.kinematics import TcpPose
from wardarm.ops import installation
from wardarm.ops.triton_server import EmbeddedServer, TritonServerError, golden_inference, region_prefix
from wardarm.policy import contract
from wardarm.policy.tokenizer import Tokenizer
from wardarm.shm.ring import SHM

TOKENIZER = installation.root() / "model_repository" / contract.MODEL / "1" / "tokenizer.model"
HOME = TcpPose(np.array([0.30, 0.0, 0.42]), np.zeros(3))
STATE = contract.robot_state(HOME.xyz_m, HOME.rpy_rad, 1.0, False)


@pytest.fixture(scope="module")
def config() -> Iterator[Config]:
    made = configuration(camera={"slots": 2})
    yield made
    remove_blocks(made)


@pytest.fixture(scope="module")
def server(config: Config) -> Iterator[EmbeddedServer]:
    with running_server(config) as s:
        yield s


@pytest.fixture(scope="module")
def region(config: Config) -> FrameRegion:
    r = FrameRegion(config.shm.prefix, config.camera.width, config.camera.height, config.camera.slots)
    rng = np.random.default_rng(1)
    r.colour(0)[:] = rng.integers(0, 255, r.colour(0).shape, np.uint8)
    r.colour(1)[:] = 0
    return r


@pytest.fixture
def client(config: Config, server: EmbeddedServer, region: FrameRegion) -> Iterator[InferenceClient]:
    c = InferenceClient(config.triton.url, config.triton.model, region, config.triton.infer_deadline_s)
    yield c
    c.close()


def connect(client: InferenceClient) -> None:
    """As eye does: a machine that stands still may cost an attempt."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            client.connect(contract.parameters(TOKENIZER))
        except (ServerUnavailable, DeadlinePassed):
            assert time.monotonic() < end
        else:
            return


@pytest.fixture(scope="module")
def tokens() -> tuple[np.ndarray, np.ndarray]:
    return Tokenizer(TOKENIZER).encode("bring me the blue cup")


def test_the_servers_metadata_is_the_contract(config: Config, server: EmbeddedServer) -> None:
    raw = triton.InferenceServerClient(config.triton.url)
    metadata = raw.get_model_metadata(contract.MODEL)
    for served, wanted in ((metadata.inputs, contract.INPUTS), (metadata.outputs, contract.OUTPUTS)):
        assert [(t.name, t.datatype, tuple(t.shape)) for t in served] == [
            (t.name, t.triton, (-1, *t.shape)) for t in wanted
        ]
    raw.close()


def test_the_frame_goes_in_by_shared_memory_and_768_bytes_come_back(client: InferenceClient, tokens: tuple) -> None:
    connect(client)
    answer = client.infer(0, *tokens, STATE)
    assert answer.traj.nbytes == 768
    assert answer.model_version == 1
    assert answer.end_ns > answer.start_ns
    start = contract.denormalise(answer.traj[0])
    np.testing.assert_allclose(start[:3], HOME.xyz_m, atol=5e-4)  # point 0 is the planned state
    other = client.infer(1, *tokens, STATE)
    assert np.abs(other.traj.astype(float) - answer.traj.astype(float)).max() > 1e-3  # it really saw the slot's pixels


def test_shared_memory_and_inline_pixels_give_the_same_answer(
    client: InferenceClient, config: Config, region: FrameRegion, tokens: tuple
) -> None:
    connect(client)
    by_region = client.infer(0, *tokens, STATE)
    raw = triton.InferenceServerClient(config.triton.url)
    inputs = []
    for tensor, value in zip(contract.INPUTS, (region.colour(0), *tokens, STATE), strict=True):
        entry = triton.InferInput(tensor.name, [1, *tensor.shape], tensor.triton)
        entry.set_data_from_numpy(np.ascontiguousarray(value)[None])
        inputs.append(entry)
    inline = raw.infer(contract.MODEL, inputs).as_numpy("output_traj")
    raw.close()
    np.testing.assert_array_equal(inline[0], by_region.traj)


def test_a_model_with_another_contract_is_refused(client: InferenceClient) -> None:
    with pytest.raises(ContractMismatch, match="tokenizer_sha256"):
        client.connect(contract.parameters(TOKENIZER) | {"tokenizer_sha256": "0" * 64})


def test_a_renamed_tensor_is_refused(client: InferenceClient, monkeypatch: pytest.MonkeyPatch) -> None:
    renamed = (contract.Tensor("output_path", "FP16", (64, 6), ""), *contract.OUTPUTS[1:])
    monkeypatch.setattr(contract, "OUTPUTS", renamed)
    with pytest.raises(ContractMismatch, match="output_path"):
        client.connect({})


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("robot_state", (1, 7), "robot_state"),
        ("image", (1, 360, 640, 3), "image"),
        ("input_ids", (5, 128), "batch"),
    ],
)
def test_the_server_refuses_a_wrong_shape_by_name(
    config: Config, server: EmbeddedServer, name: str, shape: tuple[int, ...], message: str
) -> None:
    raw = triton.InferenceServerClient(config.triton.url)
    inputs = []
    for tensor in contract.INPUTS:
        dims = shape if tensor.name == name else (shape[0], *tensor.shape)
        entry = triton.InferInput(tensor.name, list(dims), tensor.triton)
        entry.set_data_from_numpy(np.ones(dims, tensor.dtype))
        inputs.append(entry)
    with pytest.raises(InferenceServerException, match=message):
        raw.infer(contract.MODEL, inputs)
    raw.close()


def test_the_model_refuses_a_state_that_is_not_a_number_and_an_empty_instruction(
    client: InferenceClient, tokens: tuple
) -> None:
    connect(client)
    broken = STATE.copy()
    broken[2] = np.nan
    with pytest.raises(InferenceError, match="robot_state: not finite"):
        client.infer(0, *tokens, broken)
    with pytest.raises(InferenceError, match="attention_mask"):
        client.infer(0, tokens[0], np.zeros_like(tokens[1]), STATE)
    assert client.infer(0, *tokens, STATE).traj.nbytes == 768  # and goes on serving


def outputs_of(value: float = 0.5) -> dict[str, np.ndarray]:
    return {t.name: np.full((1, *t.shape), value, t.dtype) for t in contract.OUTPUTS}


@pytest.mark.parametrize("name", [t.name for t in contract.OUTPUTS])
def test_an_answer_with_nan_wrong_size_type_or_range_is_invalid(name: str) -> None:
    client_module.validate(outputs_of())
    for change in (
        lambda a: None,
        lambda a: np.zeros((1, 0), a.dtype),
        lambda a: a.astype(np.float32)[:, :1],
        lambda a: np.where(np.arange(a.size).reshape(a.shape) == a.size - 1, np.nan, a).astype(a.dtype),
        lambda a: a * np.float16(4),
        lambda a: a - np.float16(2),
        lambda a: np.full_like(a, np.inf),
    ):
        outputs = outputs_of()
        outputs[name] = change(outputs[name])
        with pytest.raises(OutputInvalid, match=name):
            client_module.validate(outputs)


def test_random_bits_as_an_answer_never_pass_unless_in_range() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        outputs = {t.name: rng.integers(0, 2**16, (1, *t.shape), np.uint16).view(np.float16) for t in contract.OUTPUTS}
        with pytest.raises(OutputInvalid):
            client_module.validate(outputs)


def test_the_region_is_found_again_after_the_server_forgot_it(client: InferenceClient, tokens: tuple) -> None:
    connect(client)
    before = client.infer(0, *tokens, STATE)
    client._client.unregister_system_shared_memory()
    after = client.infer(0, *tokens, STATE)
    np.testing.assert_array_equal(before.traj, after.traj)


def test_a_region_made_anew_is_read_anew(client: InferenceClient, config: Config, tokens: tuple) -> None:
    connect(client)
    before = client.infer(0, *tokens, STATE)
    old = client.region
    pixels = old.colour(1).copy()
    old.remove()
    made = FrameRegion(config.shm.prefix, old.width, old.height, old.slots)
    made.colour(0)[:] = pixels
    client.region = made
    connect(client)
    after = client.infer(0, *tokens, STATE)
    assert np.abs(after.traj.astype(float) - before.traj.astype(float)).max() > 1e-3
    made.colour(0)[:] = old.colour(0)


def test_a_frozen_server_is_seen_by_the_clients_own_deadline(
    config: Config, server: EmbeddedServer, region: FrameRegion, tokens: tuple
) -> None:
    c = InferenceClient(config.triton.url, config.triton.model, region, 0.3)
    connect(c)
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DeadlinePassed, match="infer_deadline_s"):
            c.infer(0, *tokens, STATE)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    c.deadline_s = 20.0
    assert c.infer(0, *tokens, STATE).traj.nbytes == 768
    c.close()


def test_a_killed_server_is_unavailable_at_once_and_a_restarted_one_serves_again(
    config: Config, server: EmbeddedServer, region: FrameRegion, tokens: tuple
) -> None:
    c = InferenceClient(config.triton.url, config.triton.model, region, 20.0)
    connect(c)
    os.killpg(server.process.pid, signal.SIGKILL)
    server.process.wait()
    with pytest.raises(ServerUnavailable, match="down or restarting"):
        c.infer(0, *tokens, STATE)
    with running_server(config) as again:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = c.infer(0, *tokens, STATE)
                break
            except ServerUnavailable:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        assert answer.traj.nbytes == 768
        c.close()
        assert again.process.poll() is None
    assert not list(SHM.glob(f"{region_prefix(config)}*"))


def test_a_server_that_cannot_start_says_so_before_its_deadline() -> None:
    config = configuration(triton={"config_name": "no_such", "start_deadline_s": 8})
    server = EmbeddedServer(config, output=subprocess.DEVNULL)
    try:
        with pytest.raises(TritonServerError, match=r"while starting|did not answer"):
            server.wait_ready()
    finally:
        server.stop()
    assert server.process.returncode is not None
    remove_blocks(config)


def test_the_process_forwards_sigterm_and_leaves_nothing_behind(tmp_path: Path) -> None:
    config = configuration()
    file = tmp_path / "desk.toml"
    t = config.triton
    file.write_text(
        f'schema = 1\n[shm]\nprefix = "{config.shm.prefix}"\n[triton]\nurl = "{t.url}"\nhttp_port = {t.http_port}\n'
        f'metrics_port = {t.metrics_port}\nembedded = true\nconfig_name = "cpu_sim"\n'
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "wardarm.ops.triton_server", "--config", str(file)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "ready after" in process.stdout.readline()
    assert golden_inference(t.url, t.model) > 0
    process.terminate()
    assert process.wait(PATIENCE_S) == 0
    with pytest.raises(InferenceServerException):
        golden_inference(t.url, t.model, 0.5)
    assert not list(SHM.glob(f"{region_prefix(config)}*"))
