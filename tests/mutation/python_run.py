"""Mutants of Python modules: a prepared process forks for each, puts the mutant in the module's place, runs the tests.

A fork starts with pytest and numpy loaded and none of the product, so a mutant costs what its tests cost.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from mutation.mutants import Mutant, python_mutants

ROOT = Path(__file__).resolve().parents[2]
CPU_LIMIT_S = 60  # of processor time: a mutant that hangs its tests is noticed, a busy machine kills none


class _InPlaceOf(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads one module from a text."""

    def __init__(self, name: str, source: str, path: Path) -> None:
        self.name, self.source, self.path = name, source, path

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.util.spec_from_loader(fullname, self, origin=str(self.path))
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, str(self.path), "exec"), module.__dict__)


def module_file(module: str) -> Path:
    return ROOT / "service" / (module.replace(".", "/") + ".py")


def mutants_of(module: str) -> list[Mutant]:
    file = module_file(module)
    return python_mutants(str(file.relative_to(ROOT)), file.read_text())


def survives(module: str, source: str, tests: Sequence[str]) -> bool:
    """Whether every test still passes with `source` in the place of `module`. Forks; the parent must not hold wardarm."""
    assert not any(name.startswith("wardarm") for name in sys.modules), "the tests would see the module as it is"
    child = os.fork()
    if child == 0:
        os._exit(_child(module, source, tests))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _child(module: str, source: str, tests: Sequence[str]) -> int:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.meta_path.insert(0, _InPlaceOf(module, source, module_file(module)))
    try:
        code = pytest.main(
            ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--no-header", "--tb=no",
             "-o", "addopts=", "--rootdir", str(ROOT), *(str(ROOT / t) for t in tests)]
        )  # fmt: skip
    except BaseException:
        return 1
    return int(code)


def prepare() -> None:
    """Load what every fork needs, and settle how hypothesis searches: the same examples each time, nothing kept."""
    import hypothesis
    import numpy  # noqa: F401
    import pytest  # noqa: F401

    hypothesis.settings.register_profile(
        "mutants", derandomize=True, database=None, max_examples=60, deadline=None, phases=(hypothesis.Phase.generate,)
    )
    hypothesis.settings.load_profile("mutants")
    sys.dont_write_bytecode = True
    for folder in ("service", "tests"):
        with contextlib.suppress(ValueError):
            sys.path.remove(str(ROOT / folder))
        sys.path.insert(0, str(ROOT / folder))


def run(module: str, tests: Sequence[str], keys: set[str] | None = None) -> Iterator[tuple[Mutant, bool]]:
    """Each mutant and whether it survived. `keys`: only these. The module as it is must pass."""
    source = module_file(module).read_text()
    if not survives(module, source, tests):
        raise RuntimeError(f"{module}: its tests fail without any mutation: {' '.join(tests)}")
    for mutant in mutants_of(module):
        if keys is None or mutant.key in keys:
            yield mutant, survives(module, mutant.source, tests)


def main() -> int:
    """`python -m mutation.python_run MODULE TEST...`: prints what survives."""
    prepare()
    killed = survived = 0
    for mutant, alive in run(sys.argv[1], sys.argv[2:]):
        if alive:
            survived += 1
            print(f"{mutant.file}:{mutant.line}: {mutant.key}", flush=True)
        else:
            killed += 1
    print(f"{killed} killed, {survived} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
