"""The matrix as JSON and as one page of HTML."""

from __future__ import annotations

import html
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from wardarm.sim.matrix.cells import FROZEN_S, KILLED_S, NOT_BUILT, PHASES, REMOTE_S, ROBOT_STOPS, Cell, ended_first

_STYLE = (
    "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}"
    "td,th{border:1px solid #bbb;padding:3px 7px;text-align:right}th{background:#eee}"
    "td:first-child,th:first-child{text-align:left}.bad{background:#fbb}.ok{background:#dfd}.none{color:#999}"
)


def judged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the cells whose phase did not come about."""
    return [r for r in rows if not r.get("not_judged")]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures that the promises are held against."""
    ours = [r for r in rows if r["target"] not in ROBOT_STOPS]
    groups: dict[str, list[float]] = defaultdict(list)
    right = asked = 0
    for r in judged(rows):
        cell = Cell(r["target"], r["action"], r["phase"], 0, r["motion"])
        reasons = [h["reason"] for h in r["holds"]]
        if cell.reasons and not ended_first(cell, r):
            asked += 1
            right += bool(reasons) and reasons[0] in cell.reasons
        if cell.deadline_s is not None and r["speed_mm_s"] > 50 and r["stop_s"] is not None:
            name = {KILLED_S: "killed", FROZEN_S: "frozen", REMOTE_S: "eye, postproc, triton"}[cell.deadline_s]
            groups[name].append(r["stop_s"] * 1e3)
    limits_ms = {"killed": KILLED_S * 1e3, "frozen": FROZEN_S * 1e3, "eye, postproc, triton": REMOTE_S * 1e3}
    return {
        "cells": len(judged(rows)),
        "not_judged": len(rows) - len(judged(rows)),
        "cells_over_50_mm_s": sum(r["speed_mm_s"] > 50 for r in rows),
        "failed": sum(bool(r["verdict"]) for r in rows),
        "stop_ms": {
            n: {"count": len(v), "median": round(sorted(v)[len(v) // 2]), "max": round(max(v)), "limit": limits_ms[n]}
            for n, v in groups.items()
        },
        "largest_plan_ratio": max((r.get("plan_ratio", 0) for r in ours), default=0),
        "largest_stop_ratio": max((r.get("stop_ratio", 0) for r in ours), default=0),
        "carried": sum("cup_kept" in r for r in rows),
        "dropped": sum(r.get("cup_kept") is False for r in rows),
        "moved_in_a_hold": sum(r.get("moved_in_hold_mm", 0) > 0.5 for r in rows),
        "right_reason": f"{right} of {asked}",
        "not_built": NOT_BUILT,
    }


def write(rows: list[dict[str, Any]], out: Path) -> None:
    """`matrix.json` and `matrix.html` in `out`."""
    total = summary(rows)
    (out / "matrix.json").write_text(json.dumps({"summary": total, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    cells: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for r in rows:
        cells[f"{r['target']} / {r['action']}", r["phase"]].append(r)
    names = sorted({k[0] for k in cells})
    body = ["<table><tr><th>what</th>" + "".join(f"<th>{p}</th>" for p in (*PHASES, *NOT_BUILT)) + "</tr>"]
    for name in names:
        body.append(f"<tr><td>{name}</td>" + "".join(_td(cells.get((name, p), [])) for p in PHASES))
        body.append("".join("<td class=none>not built</td>" for _ in NOT_BUILT) + "</tr>")
    body.append("</table><h2>What was not as promised</h2><table>")
    for r in rows:
        if r["verdict"]:
            texts = "; ".join(f"{h['reason']}: {h['detail']}" for h in r["holds"])
            body.append(
                f"<tr><td>{r['key']}</td><td>{html.escape('; '.join(r['verdict']))}</td><td>{html.escape(texts)}</td></tr>"
            )
    body.append("</table><h2>What was not judged</h2><table>")
    body += [
        f"<tr><td>{r['key']}</td><td>{html.escape(r['not_judged'])}</td></tr>" for r in rows if r.get("not_judged")
    ]
    body.append("</table><h2>What it said</h2><table>")
    said: dict[str, set[str]] = defaultdict(set)
    for r in rows:
        for h in r["holds"]:
            said[f"{r['target']} / {r['action']}"].add(f"{h['reason']}: {h['detail']}")
    body += [
        f"<tr><td>{name}</td><td>{'<br>'.join(html.escape(t) for t in sorted(said[name])[:6])}</td></tr>"
        for name in sorted(said)
    ]
    body.append("</table>")
    page = (
        f"<!doctype html><meta charset=utf-8><title>Fault matrix</title><style>{_STYLE}</style><h1>Fault matrix</h1>"
        f"<p>Times on the controller's clock, from its own 500 Hz record.</p><pre>"
        f"{html.escape(json.dumps(total, indent=1, ensure_ascii=False))}</pre>{''.join(body)}"
    )
    (out / "matrix.html").write_text(page, "utf-8")


def _td(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "<td class=none>-</td>"
    stops = [r["stop_s"] * 1e3 for r in rows if r["stop_s"] is not None and r["speed_mm_s"] > 50]
    bad, open_ = sum(bool(r["verdict"]) for r in rows), len(rows) - len(judged(rows))
    text = (
        f"{len(judged(rows))}"
        + (f" &middot; max {max(stops):.0f} ms" if stops else "")
        + (f" &middot; {bad} bad" if bad else "")
        + (f" &middot; {open_} not judged" if open_ else "")
    )
    return f"<td class={'bad' if bad else 'ok'}>{text}</td>"
