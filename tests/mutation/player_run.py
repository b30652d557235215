"""Mutants of the player's URScript: each runs in a fork on the lock-step controller, through the cases of its tests."""

from __future__ import annotations

import importlib
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

from mutation.mutants import URSCRIPT, Mutant, text_mutants
from mutation.python_run import ROOT

SCRIPT = ROOT / "service" / "wardarm" / "arm" / "player.script"
CPU_LIMIT_S = 60  # of processor time, so that a busy machine kills no mutant
# What decides about motion, from a line to the next that ends it.
PARTS = {
    "permit": ("thread permit_thread():", "# ---------------------------------------------------------------- trajectories"),
    "start and stop": ("if state < 2 or state == 4:", "if state == 2:\n        rate = 1.0"),
    "judge": ("def judge(bank, id, join_id):", "# reads the knots that follow"),
    "receive": ("def receive(head):", "thread socket_thread():"),
    "to rest": ("def to_rest(new_state):", "def clear_registers():"),
    "play": ("if state == 2:\n        rate = 1.0", "write_output_integer_register(12, state)\n      write_output_integer_register(13"),
}  # fmt: skip
PERMIT = ("permit", "start and stop")
TESTS = ("test_player_permit", "test_player_edges")


def mutants_of(parts: Sequence[str]) -> list[Mutant]:
    source = SCRIPT.read_text()
    name = str(SCRIPT.relative_to(ROOT))
    return [m for part in parts for m in text_mutants(name, source, URSCRIPT, *PARTS[part], "#")]


def prepare(tests: Sequence[str] = TESTS) -> list[Any]:
    """The cases: every test function without fixtures."""
    for folder in ("service", "tests"):
        if str(ROOT / folder) not in sys.path:
            sys.path.insert(0, str(ROOT / folder))
    modules = [importlib.import_module(name) for name in tests]
    return [f for m in modules for n, f in vars(m).items() if n.startswith("test_")]


class _Text:
    """Stands in for `importlib.resources` in `arm.player`."""

    def __init__(self, source: str) -> None:
        self.source = source

    def files(self, _: str) -> _Text:
        return self

    def joinpath(self, *_: str) -> Any:
        return SimpleNamespace(read_text=lambda _: self.source)


def survives(source: str, cases: Sequence[Any]) -> str:
    """Whether every case passes with this text: then "", else the case that noticed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        from wardarm.arm import player

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
        player.resources = _Text(source)  # type: ignore[assignment]
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        for case in cases:
            try:
                case()
            except BaseException:
                os.write(write, case.__name__.encode())
                os._exit(1)
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read, "rb") as f:
        name = f.read().decode()
    return name or ("" if status == 0 else "it hung")


def run(parts: Sequence[str], cases: list[Any], keys: set[str] | None = None) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and the case that noticed, "" if none did; what noticed last is tried first."""
    if noticed := survives(SCRIPT.read_text(), cases):
        raise RuntimeError(f"player.script fails {noticed} without any mutation")
    for mutant in mutants_of(parts):
        if keys is not None and mutant.key not in keys:
            continue
        noticed = survives(mutant.source, cases)
        for case in [c for c in cases if c.__name__ == noticed]:
            cases.remove(case)
            cases.insert(0, case)
        yield mutant, noticed


def main() -> int:
    """`python -m mutation.player_run PART...`: prints what survives."""
    cases = prepare()
    killed = survived = 0
    for mutant, noticed in run(sys.argv[1:] or list(PARTS), cases):
        killed, survived = killed + bool(noticed), survived + (not noticed)
        if not noticed:
            print(f"{mutant.file}:{mutant.line}: {mutant.key}", flush=True)
    print(f"{killed} killed, {survived} survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
