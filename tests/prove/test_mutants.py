"""Every mutant of what decides about motion is killed by its tests, or has a reason why it changes nothing.

Minutes long; resumable: `out/prove/mutants.json` keeps each result for as long as the source and its tests stay as
they are. One part a module; parts that fork run in a process of their own, as their parent must not hold the product.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutation.prove import PARTS
from mutation.record import FILE

pytestmark = pytest.mark.timeout(7200)
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("part", PARTS)
def test_every_mutant_is_killed_or_equivalent(part: str) -> None:
    done = subprocess.run([sys.executable, "-m", "mutation.prove", part], cwd=ROOT, env=_environment(), text=True)
    assert done.returncode == 0, f"{part}: see {FILE}"
    row = json.loads((ROOT / FILE).read_text())[part]
    assert row["survived"] == 0
    assert row["killed"] > 0


def _environment() -> dict[str, str]:
    import os

    return os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'service'}"}
