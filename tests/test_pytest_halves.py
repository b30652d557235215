"""`make test` fails unless every test of both halves passed, the second time at the latest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYTHON = """#!/usr/bin/env bash
# Stands in for python -m pytest --part NAME -o cache_dir=FOLDER/NAME: ends as told.
echo "$4 $*" >>"{said}"
folder=${{6#cache_dir=}}
case "$*" in *--last-failed*) turn=second ;; *) turn=first ;; esac
status=$(cat "{ends}/$4.$turn")
case "$turn$status" in
  first1) mkdir -p "$folder/v/cache" && echo '{{"tests/test_x.py::test_y": true}}' >"$folder/v/cache/lastfailed" ;;
  first9) status=1 ;;
esac
exit "$status"
"""
FAILED, UNRECORDED, INTERRUPTED, INTERNAL, USAGE, NOTHING, KILLED = 1, 9, 2, 3, 4, 5, 137


def halves(folder: Path, computed: tuple[int, int], real_time: tuple[int, int]) -> subprocess.CompletedProcess[str]:
    """Each half's ends, of its first and its second run."""
    for name, ends in (("computed", computed), ("real-time", real_time)):
        for turn, status in zip(("first", "second"), ends, strict=True):
            (folder / f"{name}.{turn}").write_text(str(status))
    python = folder / "python"
    python.write_text(PYTHON.format(said=folder / "said", ends=folder))
    python.chmod(0o755)
    argv = [str(ROOT / ".ci" / "pytest-halves"), str(python), str(folder / "caches")]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("first", [0, FAILED])
def test_what_passes_passes_and_what_failed_is_named_before_it_runs_again(tmp_path: Path, first: int) -> None:
    done = halves(tmp_path, (0, USAGE), (first, 0))
    assert done.returncode == 0, done.stdout
    assert ("test_x.py::test_y" in done.stdout) is bool(first)
    runs = (tmp_path / "said").read_text().splitlines()
    assert sum("--last-failed" in run for run in runs) == bool(first)


@pytest.mark.parametrize("half", [0, 1], ids=["computed", "real-time"])
@pytest.mark.parametrize("ends", [
    (FAILED, FAILED), (FAILED, INTERNAL), (FAILED, NOTHING), (UNRECORDED, 0), (INTERRUPTED, 0), (INTERNAL, 0), (USAGE, 0),
    (NOTHING, 0), (KILLED, 0),
])  # fmt: skip
def test_a_half_that_failed_twice_or_did_not_come_to_its_end_fails(
    tmp_path: Path, half: int, ends: tuple[int, int]
) -> None:
    both = [(0, 0), (0, 0)]
    both[half] = ends
    assert halves(tmp_path, both[0], both[1]).returncode != 0


def test_what_an_earlier_run_recorded_counts_for_nothing(tmp_path: Path) -> None:
    old = tmp_path / "caches" / "real-time" / "v" / "cache"
    old.mkdir(parents=True)
    (old / "lastfailed").write_text('{"tests/test_x.py::test_y": true}')
    assert halves(tmp_path, (0, 0), (UNRECORDED, 0)).returncode != 0
