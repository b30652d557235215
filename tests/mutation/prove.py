"""`python -m mutation.prove PART`: runs what is not in `out/prove/mutants.json` yet; exit 1 if a mutant survives."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from mutation import envelope_run, player_run, python_run
from mutation.equivalent import EQUIVALENT
from mutation.mutants import Mutant
from mutation.record import Record, digest

ROOT = python_run.ROOT
MODULES: dict[str, tuple[str, ...]] = {
    "wardarm.gate.permit": ("test_gate_permit_edges.py", "test_gate_permit.py"),
    "wardarm.gate.words": ("test_word_board.py",),
    "wardarm.shm.ring": ("test_shm_ring.py", "test_word_board.py"),
    "wardarm.arm.holds": ("test_arm_edges.py", "test_arm_holds.py"),
    "wardarm.arm.admit": ("test_arm_edges.py", "test_arm_admit.py"),
}
PLAYER = {f"player {part}": part for part in player_run.PARTS}
PARTS = (*MODULES, *PLAYER, *envelope_run.PARTS)
Runner = Callable[[set[str]], Iterator[tuple[Mutant, bool]]]


def _part(part: str, folder: Path) -> tuple[list[Mutant], list[Path], Runner]:
    """The mutants of a part, the files that its results depend on, and what runs some of them."""
    tests = ROOT / "tests"
    if part in MODULES:
        names = MODULES[part]
        python_run.prepare()
        files = [python_run.module_file(part), *(tests / n for n in names)]
        return python_run.mutants_of(part), files, lambda k: python_run.run(part, [f"tests/{n}" for n in names], k)
    if part in PLAYER:
        files = [player_run.SCRIPT, *(tests / f"{n}.py" for n in player_run.TESTS), tests / "lockstep_player.py"]

        def run(keys: set[str]) -> Iterator[tuple[Mutant, bool]]:
            for mutant, noticed in player_run.run([PLAYER[part]], player_run.prepare(), keys):
                yield mutant, not noticed

        return player_run.mutants_of([PLAYER[part]]), files, run
    return envelope_run.mutants(part), envelope_run.files(part), lambda keys: envelope_run.run(part, folder, keys)


def prove(part: str) -> Record:
    """Run what is left of a part; the record has every result."""
    with tempfile.TemporaryDirectory() as folder:
        mutants, files, run = _part(part, Path(folder))
        record = Record(part, digest(files))
        todo = record.todo(mutants)
        if todo:
            for mutant, survived in run(todo):
                record.note(mutant, survived)
    record.save()
    return record


def unknown_equivalents(part: str) -> list[str]:
    """Keys of `EQUIVALENT` that belong to this part's file and to none of its mutants: the source has changed."""
    mutants, files, _ = _part(part, Path())
    names = {m.file for m in mutants} or {str(files[0].relative_to(ROOT))}
    keys = {m.key for m in mutants}
    if part in PLAYER:
        keys = {m.key for m in player_run.mutants_of(list(player_run.PARTS))}
    return [key for file, key in EQUIVALENT if file in names and key not in keys]


def main() -> int:
    failed = False
    for part in sys.argv[1:] or PARTS:
        record = prove(part)
        print(f"{part}: {record.counts()}", flush=True)
        for key in record.survivors:
            print(f"  survived: {key}")
        for key in unknown_equivalents(part):
            print(f"  no such mutant any more, take it out of equivalent.py: {key}")
            failed = True
        if part in envelope_run.PARTS:
            for key in record.killed_all_the_same(str(envelope_run.source_of(part).relative_to(ROOT))):
                print(f"  a test tells it apart, take it out of equivalent.py: {key}")
                failed = True
        failed = failed or bool(record.survivors)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
