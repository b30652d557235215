"""`wardarm bench stop`: a quick sample of the fault matrix: how fast the arm stands, and what was said.

Starts a simulated system of its own, makes each of some twenty faults happen while the arm moves, and measures on the
controller's 500 Hz record. The whole matrix: `python -m wardarm.sim.matrix` (docs/faults.md).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

SAMPLE = (
    ("gate", "kill"), ("gate", "stop"), ("arm", "kill"), ("arm", "stop"), ("guard", "kill"), ("guard", "stop"),
    ("api", "kill"), ("api", "stop"), ("eye", "kill"), ("eye", "stop"), ("postproc", "kill"), ("postproc", "stop"),
    ("deadman", "kill"), ("pause", "stop"), ("pwm", "stop"), ("pwm", "lie"), ("rtde", "stop"), ("lease", "stop"),
    ("api", "lie"), ("safeguard", "stop"),
)  # fmt: skip


def bench(out: Path) -> dict[str, Any]:
    """Rows and their summary, as in matrix.json."""
    from wardarm.sim.matrix import report, trial
    from wardarm.sim.matrix.bed import Bed
    from wardarm.sim.matrix.cells import Cell

    rows: list[dict[str, Any]] = []
    bed = Bed(out / "bench")
    try:
        for number, (target, action) in enumerate(SAMPLE):
            cell = Cell(target, action, "mid_motion", number, "sweep")
            for _ in range(3):
                try:
                    row = trial.run(bed, cell, random.Random(cell.key))
                    break
                except trial.PhaseMissed:
                    bed.settle()
            else:
                continue
            rows.append(row | {"key": cell.key})
            print(f"{target} {action}: {row['stop_s']} s, {'; '.join(row['verdict']) or 'ok'}", file=sys.stderr)
    finally:
        bed.close()
    return {"summary": report.summary(rows), "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.ops.bench_stop", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="keep the run's logs here")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # the system under test ends with it
    with contextlib.ExitStack() as stack:
        out = a.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        result = bench(out)
    print(json.dumps(result if a.json else result["summary"], indent=None if a.json else 1, ensure_ascii=False))
    return 1 if result["summary"]["failed"] or not result["rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
