"""The quick part of the mutants: gate's rule and the player's permit. All of them: `make prove` (tests/prove/test_mutants.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutation.mutants import CPP, URSCRIPT, python_mutants, text_mutants

ROOT = Path(__file__).resolve().parents[1]
QUICK = {
    "gate": """
from mutation import python_run
from mutation.equivalent import EQUIVALENT
python_run.prepare()
runs = python_run.run("wardarm.gate.permit", ["tests/test_gate_permit_edges.py"])
""",
    "player": """
from mutation import player_run
from mutation.equivalent import EQUIVALENT
cases = player_run.prepare(["test_player_permit"])
keys = {m.key for m in player_run.mutants_of(["permit"]) if (m.file, m.key) not in EQUIVALENT}
runs = ((m, not noticed) for m, noticed in player_run.run(["permit"], cases, keys))
""",
}
REPORT = """
results = [(m, survived) for m, survived in runs]
print(len(results), "mutants;", *[f"{m.file}:{m.line}: {m.key}" for m, survived in results if survived], sep="\\n")
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", QUICK)
def test_every_mutant_of_the_permit_is_killed(part: str) -> None:
    paths = os.environ | {"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'service'}"}
    done = subprocess.run(
        [sys.executable, "-c", QUICK[part] + REPORT], cwd=ROOT, env=paths, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    count, _, *survivors = done.stdout.split("\n")[0:1] + done.stdout.split("\n")[1:]
    assert int(count) > 40
    assert [row for row in survivors if row] == []


def changes(mutants: list[object]) -> list[str]:
    return [str(m.key).rpartition(" | ")[2] for m in mutants]  # type: ignore[attr-defined]


def test_a_python_mutant_is_one_comparison_constant_flag_or_condition() -> None:
    source = 'def f(a, b=3):\n    """Doc 1 < 2."""\n    if a and not b:\n        return True\n    return a < 1.5\n'
    found = changes(python_mutants("f.py", source))
    assert sorted(found) == sorted(
        ["3 -> 4", "3 -> 2", "a and not b -> ((not b))", "a and not b -> ((a))", "a and not b -> (not (a and not b))",
         "not b -> (b)", "True -> False", "< -> <=", "< -> >=", "1.5 -> 3.0", "1.5 -> 0.75", "a < 1.5 -> not (a < 1.5)"]
    )  # fmt: skip
    for mutant in python_mutants("f.py", source):
        compile(mutant.source, "f.py", "exec")
        assert mutant.source != source


def test_a_text_mutant_leaves_comments_and_texts_alone() -> None:
    script = 'def g():\n  # 1 < 2\n  if a < 0 and b == True:\n    say("1 < 2")\n  end\nend\n'
    found = changes(text_mutants("g.script", script, URSCRIPT, "def g", "end\nend", "#"))
    assert sorted(found) == sorted(
        ["< -> <=", "< -> >=", "0 -> 1", "0 -> -1", "and -> or", "== -> !=", "True -> False"]
    )
    cpp = "bool h(double x) {\n  return x <= 0.5 && !done;  // 3\n}\n"
    found = changes(text_mutants("h.cpp", cpp, CPP, "bool h", "}", "//"))
    assert sorted(found) == sorted(["<= -> <", "<= -> >", "0.5 -> 1.0", "0.5 -> 0.25", "&& -> ||", "! -> "])
