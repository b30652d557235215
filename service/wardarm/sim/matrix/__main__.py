"""Run the matrix: resumable, a row a cell, a report at the end (and at every 50th cell).

python -m wardarm.sim.matrix --out out/prove --minutes 80 --cells 1200
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from wardarm.sim.matrix import report, trial
from wardarm.sim.matrix.bed import Bed, BedLost
from wardarm.sim.matrix.cells import PHASES, Cell, plan

_MISSED_MOST = 3  # times a cell's phase did not come about, before it is noted as not judged
_LOST_MOST = 12  # systems that had to be started anew, before the run gives up


def rows(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {}
    return {r["key"]: r for r in map(json.loads, file.read_text().splitlines())}


def unproved(row: dict[str, Any]) -> bool:
    """Whether a row says that something was not as promised, or that it could not be judged."""
    return bool(row["verdict"] or row.get("not_judged"))


def run(
    out: Path, minutes: float, most: int, phases: tuple[str, ...], targets: tuple[str, ...] = (), repeats: int = 30,
    again: bool = False, actions: tuple[str, ...] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Carry on where `out`/matrix.jsonl ends, until `minutes` or `most` cells. `again`: what failed or was not judged, once more.

    `phases`, `targets`, `actions`: only these (no targets, no actions: all).
    """
    out.mkdir(parents=True, exist_ok=True)
    file = out / "matrix.jsonl"
    done = rows(file)
    cells = [
        c for c in plan(phases, repeats, 1)
        if (c.key not in done or (again and unproved(done[c.key]))) and (not targets or c.target in targets) and (not actions or c.action in actions)
    ]  # fmt: skip
    end, bed, lost, carrying = time.monotonic() + minutes * 60, None, 0, False
    missed: Counter[str] = Counter()
    new = 0
    try:
        while cells and time.monotonic() < end and new < most and lost < _LOST_MOST:
            cell = cells.pop(0)
            rng = random.Random(cell.key)
            try:
                if bed is None:
                    bed, carrying = Bed(out / "matrix"), False
                carrying = _hands(bed, cell, carrying)
                row = trial.run(bed, cell, rng)
            except trial.PhaseMissed as e:
                print(f"{cell.key}: not in phase: {e}", file=sys.stderr, flush=True)
                missed[cell.key] += 1
                if bed is not None:
                    bed, lost = _cleared(bed, lost)
                if missed[cell.key] < _MISSED_MOST:
                    cells.insert(min(20, len(cells)), cell)
                    continue
                row = _row(cell) | {"not_judged": f"not in phase {_MISSED_MOST} times: {e}"[:300]}
            except Exception as e:
                lost += 1
                print(f"{cell.key}: {type(e).__name__}: {e}", file=sys.stderr, flush=True)
                row = _row(cell) | {"verdict": [f"{type(e).__name__}: {e}"[:300]]}
                if bed is not None:
                    bed.close()
                    bed = None
            row["key"] = cell.key
            with file.open("a") as f:
                f.write(json.dumps(row, ensure_ascii=False) + "\n")
            done[cell.key] = row
            new += 1
            print(_line(cell, row), flush=True)
            carrying = carrying and row.get("cup_kept") is not False
            if new % 50 == 0:
                report.write(list(done.values()), out)
    finally:
        if bed is not None:
            bed.close()
        report.write(list(done.values()), out)
    return list(done.values())


def _hands(bed: Bed, cell: Cell, carrying: bool) -> bool:
    if cell.phase == "carrying" and not (carrying and bed.carries()):
        bed.take_cup()
        return True
    if cell.phase != "carrying" and carrying:
        bed.end_task()
        bed.settle()
        bed.give_cup()
        return False
    return carrying


def _cleared(bed: Bed, lost: int) -> tuple[Bed | None, int]:
    try:
        bed.settle()
        return bed, lost
    except BedLost:
        bed.close()
        return None, lost + 1


def _row(cell: Cell) -> dict[str, Any]:
    """The row of a cell in which nothing was measured."""
    return {
        "target": cell.target, "action": cell.action, "phase": cell.phase, "motion": cell.motion, "holds": [],
        "speed_mm_s": 0.0, "stop_s": None, "verdict": [],
    }  # fmt: skip


def _line(cell: Cell, row: dict[str, Any]) -> str:
    stop = "-" if row["stop_s"] is None else f"{row['stop_s'] * 1e3:.0f} ms"
    holds = ",".join(h["reason"] for h in row["holds"]) or "-"
    return (
        f"{cell.key:40} {row['speed_mm_s']:6.0f} mm/s  {stop:>8}  {row.get('path_mm', 0):6.1f} mm  {holds:24} "
        f"{row.get('seconds', 0):5.1f} s  {'; '.join(row['verdict']) or row.get('not_judged') or 'ok'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m wardarm.sim.matrix", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/prove"))
    parser.add_argument("--minutes", type=float, default=80)
    parser.add_argument("--cells", type=int, default=100_000)
    parser.add_argument("--phase", action="append", choices=PHASES, help="only this phase (may be repeated)")
    parser.add_argument("--target", action="append", help="only this process or device (may be repeated)")
    parser.add_argument(
        "--action", action="append", choices=("kill", "stop", "lie", "slow"), help="only this (may be repeated)"
    )
    parser.add_argument("--again", action="store_true", help="try once more what failed or was not judged")
    a = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))  # the system under test ends with it
    done = run(
        a.out,
        a.minutes,
        a.cells,
        tuple(a.phase or PHASES),
        tuple(a.target or ()),
        again=a.again,
        actions=tuple(a.action or ()),
    )
    return 1 if any(r["verdict"] for r in done) else 0


if __name__ == "__main__":
    sys.exit(main())
