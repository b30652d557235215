"""The way to a TensorRT plan, against the recorded faces of the real bindings, 10.13 to 11.4 (tests/tensorrt_api)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_training_evaluate import constant_policy
from wardarm.model import plan, rtx_parser
from wardarm.model.building import look_before, tensorrt
from wardarm.model.onnx_file import ModelFileError
from wardarm.model.plan import BuildError, Machine, PlanMismatch, build, verify
from wardarm.policy import contract

FACES = sorted((Path(__file__).parent / "tensorrt_api").glob("*.json"))
THOR = Machine("10.13.3.9", "NVIDIA Thor", "11.0")


class Face:
    """A TensorRT whose classes have exactly the members of one release: anything else is an AttributeError."""

    def __init__(self, face: dict[str, Any], parses: bool = True, builds: bool = True) -> None:
        self.face, self.parses, self.builds = face, parses, builds
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.__version__ = face["__version__"]

    def __getattr__(self, name: str) -> Any:
        if name not in self.face:
            raise AttributeError(f"TensorRT {self.face['__version__']} has no {name}")
        entry = self.face[name]
        if "values" in entry:
            return type(name, (), dict(entry["values"]))
        trt = self

        class Made:
            WARNING = 2

            def __init__(self, *arguments: Any) -> None:
                trt.calls.append((name, arguments))

            def __getattr__(self, member: str) -> Any:
                if member not in entry["members"]:
                    raise AttributeError(f"TensorRT {trt.face['__version__']}: {name} has no {member}")
                return lambda *arguments: trt.answer(name, member, arguments)

            def __setattr__(self, member: str, value: Any) -> None:
                if member not in entry["members"]:
                    raise AttributeError(f"TensorRT {trt.face['__version__']}: {name} has no {member}")
                trt.calls.append((f"{name}.{member}", (value,)))

        return Made

    def answer(self, name: str, member: str, arguments: tuple[Any, ...]) -> Any:
        self.calls.append((f"{name}.{member}", arguments))
        made = {
            "create_network": "INetworkDefinition", "create_builder_config": "IBuilderConfig", "create_timing_cache": "ITimingCache",
            "create_optimization_profile": "IOptimizationProfile", "get_timing_cache": "ITimingCache", "get_error": "ParserError",
            "deserialize_cuda_engine": "ICudaEngine", "create_engine_inspector": "EngineInspector",
        }  # fmt: skip
        if member in made:
            return getattr(self, made[member])()
        if member == "build_serialized_network":
            return b"a plan" if self.builds else None
        layers = {
            "Layers": [
                {"Name": "a", "Outputs": [{"Format/Datatype": "Half"}]},
                {"Name": "b", "Outputs": [{"Format/Datatype": "Float"}]},
            ]
        }
        return {
            "parse_from_file": self.parses, "set_timing_cache": True, "serialize": b"timings", "node": 7, "num_errors": 1,
            "node_operator": "Det", "node_name": "det_bad", "desc": "unsupported", "get_engine_information": json.dumps(layers),
        }.get(member)  # fmt: skip


@pytest.fixture(params=FACES, ids=lambda p: p.stem)
def face(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    return constant_policy(tmp_path / "policy.onnx")


def test_both_generations_are_recorded() -> None:
    assert {p.stem.split(".")[0] for p in FACES} == {"10", "11"}


def test_one_code_path_builds_with_every_release(face: dict[str, Any], onnx: Path, tmp_path: Path) -> None:
    trt = Face(face)
    target, cache = tmp_path / "model.plan", tmp_path / "timing.cache"
    record = build(trt, onnx, target, THOR, cache, lambda engine: {"cosine_min": 1.0})
    calls = dict(trt.calls)
    bit = face["NetworkDefinitionCreationFlag"]["values"]["STRONGLY_TYPED"]
    assert calls["Builder.create_network"] == (1 << bit,)
    assert record.layers == {"Half": 1, "Float": 1}
    shapes = {a[0]: a[1:] for name, a in trt.calls if name == "IOptimizationProfile.set_shape"}
    assert set(shapes) == {t.name for t in contract.INPUTS}
    assert all(low[0] == 1 and high[0] == 4 for low, _, high in shapes.values())
    assert cache.read_bytes() == b"timings"
    assert verify(target, onnx, THOR) == record


def test_what_11_has_removed_is_not_used(face: dict[str, Any]) -> None:
    """The check of the check: a removed name would fail in this stand-in."""
    with pytest.raises(AttributeError):
        _ = Face(face).NoSuchClass
    with pytest.raises(AttributeError, match="no such_method"):
        Face(face).Builder().such_method()


def test_nothing_is_written_where_the_gate_says_no(face: dict[str, Any], onnx: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.plan"
    target.write_bytes(b"the old plan")

    def refuse(engine: Any) -> dict[str, Any]:
        raise BuildError("cosine 0.98")

    with pytest.raises(BuildError, match=r"0\.98"):
        build(Face(face), onnx, target, THOR, None, refuse)
    assert target.read_bytes() == b"the old plan"
    assert not target.with_name("model.plan.json").exists()


def test_a_build_that_makes_no_plan_says_so(face: dict[str, Any], onnx: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="made no plan"):
        build(Face(face, builds=False), onnx, tmp_path / "model.plan", THOR)


@pytest.mark.parametrize(
    ("here", "text"),
    [
        (Machine("10.16.1.11", THOR.gpu, THOR.compute_capability), r"TensorRT 10\.13\.3\.9, here it is 10\.16"),
        (Machine(THOR.tensorrt, "NVIDIA H200", "9.0"), "GPU NVIDIA Thor, here it is NVIDIA H200"),
    ],
)
def test_a_plan_built_elsewhere_is_refused(onnx: Path, tmp_path: Path, here: Machine, text: str) -> None:
    target = tmp_path / "model.plan"
    build(Face(json.loads(FACES[0].read_text())), onnx, target, THOR)
    with pytest.raises(PlanMismatch, match=text):
        verify(target, onnx, here)


def test_a_plan_without_its_record_or_damaged_is_refused(onnx: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.plan"
    target.write_bytes(b"from somewhere")
    with pytest.raises(PlanMismatch, match="no record"):
        verify(target, onnx, THOR)
    build(Face(json.loads(FACES[0].read_text())), onnx, target, THOR)
    target.write_bytes(b"another")
    with pytest.raises(PlanMismatch, match="not the plan of its record"):
        verify(target, onnx, THOR)


def test_a_plan_of_another_file_is_refused(onnx: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.plan"
    build(Face(json.loads(FACES[0].read_text())), onnx, target, THOR)
    onnx.write_bytes(onnx.read_bytes() + b" ")
    with pytest.raises(PlanMismatch, match="ONNX"):
        verify(target, onnx, THOR)


def test_a_bad_file_is_refused_before_tensorrt_is_asked(tmp_path: Path) -> None:
    bad = tmp_path / "policy.onnx"
    bad.write_text("not a model")
    with pytest.raises(ModelFileError, match="not an ONNX file"):
        look_before(bad)


def test_without_tensorrt_the_text_says_where_to_build() -> None:
    with pytest.raises(BuildError, match="inside the container"):
        tensorrt()


def test_the_real_rtx_builder_takes_the_same_calls(onnx: Path, tmp_path: Path) -> None:
    """TensorRT-RTX has TensorRT's face and builds without a GPU: the code path with a real library behind it."""
    try:
        trt = rtx_parser.bindings()
    except (rtx_parser.NotInstalled, OSError) as e:
        pytest.skip(str(e))
    data = plan.serialize(trt, onnx, tmp_path / "timing.cache", workspace_bytes=1 << 28)
    assert len(data) > 1000
