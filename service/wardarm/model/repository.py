"""The model repository: which models are there, what they are, and how another file takes the place of the served one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wardarm.model.onnx_file import ModelFileError
from wardarm.model.plan import PlanMismatch, read_record, write_whole
from wardarm.ops import installation
from wardarm.policy import contract

CONFIGURATIONS = ("config.pbtxt", "configs/cpu_sim.pbtxt")
_PARAMETER = re.compile(r'key:\s*"(\w+_sha256)"\s*value:\s*\{\s*string_value:\s*"([0-9a-f]+)"')


@dataclass(frozen=True)
class Served:
    """A model of the repository. `wrong`: what does not belong together, in words; empty if all does."""

    name: str
    version: int
    onnx: str
    onnx_sha256: str
    onnx_bytes: int
    tokenizer_sha256: str
    plan: str
    wrong: tuple[str, ...]
    stand_in: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"ok": not self.wrong}


def folder() -> Path:
    return installation.root() / "model_repository"


def version_folder(repository: Path | None = None, model: str = contract.MODEL) -> Path:
    return (repository or folder()) / model / "1"


def look(model: Path) -> Served:
    """A model's folder, its hashes against both configurations and against this version of wardarm."""
    version = model / "1"
    onnx, tokenizer, plan = version / "policy.onnx", version / "tokenizer.model", version / "model.plan"
    wrong: list[str] = [f"{p.name} is missing" for p in (onnx, tokenizer) if not p.is_file()]
    wanted = contract.parameters(tokenizer) if tokenizer.is_file() else {}
    for name in CONFIGURATIONS:
        path = model / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
            continue
        said = dict(_PARAMETER.findall(path.read_text("utf-8")))
        wrong += [
            f"{name}: {key} is {said.get(key, 'missing')[:12]}, here it is {value[:12]}"
            for key, value in wanted.items()
            if said.get(key) != value
        ]
    built = ""
    if plan.is_file():
        try:
            record = read_record(plan)
            built = f"TensorRT {record.machine.tensorrt} on {record.machine.gpu}"
        except PlanMismatch as e:
            wrong.append(str(e))
    card = model / "MODEL_CARD.md"
    return Served(
        model.name, 1, str(onnx), _digest(onnx), onnx.stat().st_size if onnx.is_file() else 0, _digest(tokenizer), built,
        tuple(wrong), card.is_file() and "stands in" in card.read_text("utf-8"),
    )  # fmt: skip


def listed(repository: Path | None = None) -> list[Served]:
    root = repository or folder()
    return [look(p) for p in sorted(root.iterdir()) if (p / "config.pbtxt").is_file()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def use(path: Path, repository: Path | None = None) -> Path:
    """Serve another file: copied whole, the copy checked, then put in place in one move. Raises ModelFileError; then
    nothing has changed.

    Weights that lie in files beside it are taken into the copy. A running server goes on with the old one until it is
    started again. A plan of the old file is set aside.
    """
    from wardarm.model.check import check
    from wardarm.model.onnx_file import whole

    version = version_folder(repository)
    try:
        data = whole(path)
    except ModelFileError as e:
        raise ModelFileError(f"{e}. What is served stays as it was") from e
    copy = version / ".policy.onnx.checked"
    write_whole(copy, data)
    try:
        found = check(copy, version / "tokenizer.model")
        if not found.ok:
            raise ModelFileError(f"{path}: {found.first_bad()}. What is served stays as it was")
        copy.replace(version / "policy.onnx")
    finally:
        copy.unlink(missing_ok=True)
    plan = version / "model.plan"
    if plan.is_file():
        plan.rename(plan.with_name("model.plan.of-another-file"))
    return version / "policy.onnx"
