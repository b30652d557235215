"""The protos, the committed code, the documents and the served methods say the same."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from api_bed import Bed, Server, bedside, clean
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from wardarm.api import roles
from wardarm.api.errors import Refused
from wardarm.api.rpc import NOT_BUILT
from wardarm.client import refusal
from wardarm.shm.layouts import ArmState, HoldReason, ProcessId, StepKind, StepState
from wardarm.v1 import bedside_pb2, control_pb2, generate, hold_pb2, record_pb2, state_pb2, task_pb2

ROOT = Path(__file__).parents[1]
SERVICES = [
    service
    for module in (control_pb2, task_pb2, state_pb2, record_pb2, bedside_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, Server]]:
    with bedside(tmp_path_factory.mktemp("api")) as pair:
        yield pair


def test_the_committed_code_is_what_the_protos_say() -> None:
    assert generate.differences() == []


def test_a_stale_file_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "wardarm" / "v1"
    package.mkdir(parents=True)
    for file in [*generate.HERE.glob("*.proto"), *generate.HERE.glob("*_pb2*.py")]:
        (package / file.name).write_bytes(file.read_bytes())
    proto = package / "hold.proto"
    proto.write_text(proto.read_text("utf-8").replace("string detail = 5;", "string details = 5;"), "utf-8")
    monkeypatch.setattr(generate, "HERE", package)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    assert generate.differences() == ["hold_pb2.py"]


def test_buf_lint_is_clean() -> None:
    buf = Path(sys.executable).with_name("buf")
    done = subprocess.run([buf, "lint"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("proto", "ours", "prefix"),
    [
        (hold_pb2.HoldReason, HoldReason, "HOLD_REASON_"),
        (hold_pb2.ProcessName, ProcessId, "PROCESS_NAME_"),
        (task_pb2.StepKind, StepKind, "STEP_KIND_"),
        (task_pb2.StepState, StepState, "STEP_STATE_"),
        (state_pb2.ArmState, ArmState, "ARM_STATE_"),
    ],
)
def test_the_numbers_of_the_protos_are_the_layouts(proto: object, ours: type, prefix: str) -> None:
    numbers = {name.removeprefix(prefix): number for name, number in proto.items()}
    assert {v.name: int(v) for v in ours if int(v)} == {n: v for n, v in numbers.items() if v}


def test_what_is_not_built_says_so_and_is_documented(running: tuple[Bed, Server]) -> None:
    document = (ROOT / "docs" / "api.md").read_text("utf-8")
    listed = re.findall(r"^\| `(\w+/\w+)` \|", document.split("## Not built")[1], re.MULTILINE)
    assert sorted(listed) == sorted(NOT_BUILT)
    with grpc.insecure_channel(running[1].address) as channel:
        for service in SERVICES:
            for method in service.methods:
                name = f"{service.name}/{method.name}"
                request = message_factory.GetMessageClass(method.input_type)()
                call = (channel.unary_stream if method.server_streaming else channel.unary_unary)(
                    f"/{service.full_name}/{method.name}",
                    request_serializer=lambda m: m.SerializeToString(),
                    response_deserializer=message_factory.GetMessageClass(method.output_type).FromString,
                )
                code, reason, text = _outcome(call, request, method.server_streaming)
                assert (reason == "NOT_BUILT") == (name in NOT_BUILT), name
                assert (code is grpc.StatusCode.UNIMPLEMENTED) == (name in NOT_BUILT), name
                assert NOT_BUILT.get(name, "") in text


def _outcome(call: Callable[..., Any], request: object, streams: bool) -> tuple[grpc.StatusCode, str, str]:
    """Code, reason and text of one call."""
    try:
        answer = call(request, timeout=5)
        if streams:
            next(answer)
            answer.cancel()
    except grpc.RpcError as e:
        return e.code(), refusal(e).reason, refusal(e).text
    return grpc.StatusCode.OK, "", ""


def test_every_rpc_has_a_role_and_every_role_can_stop() -> None:
    names = {method.name for service in SERVICES for method in service.methods}
    assert roles.MAY["engineer"] == names
    for role, rpcs in roles.MAY.items():
        assert {"Pause", "Stop"} <= rpcs <= names, role


def test_a_role_that_may_not_is_told_which_may() -> None:
    with pytest.raises(Refused, match="allowed: ward, nurse, engineer") as refused:
        roles.check(roles.Caller("voice", "speaker 1"), "Resume")
    assert refused.value.reason == "ROLE_NOT_ALLOWED"


def test_health_and_reflection_name_every_service(running: tuple[Bed, Server]) -> None:
    with grpc.insecure_channel(running[1].address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in SERVICES:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service.full_name), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        asks = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        listed = {s.name for s in next(asks.ServerReflectionInfo(iter([request]))).list_services_response.service}
    assert {s.full_name for s in SERVICES} <= listed


def test_the_server_says_what_runs_here(running: tuple[Bed, Server]) -> None:
    with running[1].client() as client:
        info = client.info()
    assert info.simulated
    assert info.guard_enabled
    assert info.limits.profile == "ward"
    assert info.limits.tcp_m_s == 0.25
    assert list(info.objects) == ["bottle", "bowl", "cup", "spoon"]
    assert info.lease_time_to_live.ToSeconds() == 1
    assert sorted(info.unimplemented) == sorted(f"wardarm.v1.{name}" for name in NOT_BUILT)
    repository = ROOT / "model_repository" / "groot_n15" / "1"
    assert bool(info.model.sha256) == any(
        (repository / n).is_file() for n in ("model.plan", "policy.onnx", "model.onnx")
    )


def test_the_state_is_complete(running: tuple[Bed, Server]) -> None:
    with running[1].client() as client:
        clean(running[0], client)
        state = client.state()
    assert state.arm.state == state_pb2.ARM_STATE_READY
    assert len(state.arm.q_rad) == len(state.arm.tcp_pose) == 6
    assert not state.arm.stale
    spoken = {hold_pb2.ProcessName.Name(w.process).removeprefix("PROCESS_NAME_"): w.required for w in state.words}
    assert spoken == {"GATE": False, "ARM": True, "EYE": False, "GUARD": True, "API": True}
    assert not state.permit.stale


def test_the_pool_knows_the_package() -> None:
    assert descriptor_pool.Default().FindServiceByName("wardarm.v1.TaskService").full_name == "wardarm.v1.TaskService"
