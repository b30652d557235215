"""The whole state space of words, gate, latch, line, player and a person, bound by bound. Minutes long; resumable.

Writes `out/prove/model.json`: states, steps and depth of each bound. A bound that is in there is not searched again unless
the model or what it calls has changed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from model_board import Bounds, Model, explore

pytestmark = pytest.mark.timeout(7200)
FILE = Path("out/prove/model.json")
ROOT = Path(__file__).resolve().parents[2]
CALLED = [
    ROOT / "tests" / "model_board.py",
    *(
        ROOT / "service" / "wardarm" / p
        for p in ("gate/permit.py", "gate/words.py", "arm/causes.py", "arm/holds.py", "arm/status.py")
    ),
]
BOUNDS = {
    "nothing goes wrong": Bounds(0, 0, 1, 0),
    "nothing goes wrong, two plans": Bounds(0, 0, 2, 0),
    "a danger": Bounds(0, 1, 1, 0),
    "a danger and a resume": Bounds(0, 1, 1, 1),
    "a death": Bounds(1, 0, 1, 0),
    "a death and a resume": Bounds(1, 0, 1, 1),
    "arm's block is lost": Bounds(0, 0, 1, 0, 1),
}
MOST_STATES = 3_000_000


def results() -> dict[str, Any]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.mark.parametrize("name", BOUNDS)
def test_no_reachable_state_breaks_an_invariant(name: str) -> None:
    of = hashlib.sha256(b"".join(f.read_bytes() for f in CALLED)).hexdigest()[:16]
    row = results().get(name, {})
    if row.get("of") != of:
        row = {"of": of, "bounds": asdict(BOUNDS[name]), **asdict(explore(Model(BOUNDS[name]), MOST_STATES))}
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(results() | {name: row}, indent=1) + "\n")
    assert row["broken"] == "", row["trace"]
    assert row["complete"], f"{row['states']} states and not at an end"
