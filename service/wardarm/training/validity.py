"""Whether `valid`, asked once from home, tells what is there from what is not, for every way of saying it.

`python -m wardarm.training.validity --onnx FILE --count N --seed S --out FIGURES.json`. Scene i of seed S, its light and
camera and the sentences asked of it are the same on every computer. `--merge A.json B.json` adds up runs of several seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.policy import contract
from wardarm.sim import scenes
from wardarm.training import language
from wardarm.training.environment import Environment
from wardarm.training.episodes import GROUNDED_WITHIN_M
from wardarm.training.evaluate import DEFAULT_ONNX
from wardarm.training.language import FAULTS, FORMS
from wardarm.training.onnx_policy import Chunk, ContractMismatch, OnnxPolicy
from wardarm.training.phrases import Split
from wardarm.training.starts import near_home

THRESHOLDS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_REFUSED_SHARE, _ACCEPTED_SHARE = 0.95, 0.98
Values = dict[str, list[float]]


def ask_all(policy: OnnxPolicy, env: Environment, seed: int, count: int, split: Split) -> tuple[Values, Values]:
    """`valid` for `count` scenes: every form and every fault that a scene allows, asked once each.

    Returns (by what was asked, nearest approach to the piece meant in m by form): keys are `present/FORM` and
    `absent/FAULT/FORM`.
    """
    valid: Values = {}
    aside: Values = {}
    for i in range(count):
        rng = np.random.default_rng([seed, i, 2])
        scene = scenes.sample(rng)
        env.load(scene)
        env.vary(rng)
        start = near_home(rng)
        env.pose(start)
        state = contract.robot_state(np.array(start[:3]), np.array(start[3:6]), start.opening, start.holding)
        image = env.draw()

        def ask(text: str, image: Any = image, state: Any = state) -> Chunk:
            return policy.infer(image, text, state)

        for form in FORMS:
            for k in rng.permutation(len(scene.objects)):
                piece = scene.objects[int(k)]
                reference = language.choose_reference(rng, scene.objects, piece, form)
                if reference is None:
                    continue
                chunk = ask(language.ask_for(rng, reference, split))
                valid.setdefault(f"present/{form}", []).append(chunk.valid)
                gap = np.linalg.norm(chunk.points[:, :2] - [piece.x_m, piece.y_m], axis=1).min()
                aside.setdefault(form, []).append(float(gap))
                break
        for fault in FAULTS[:4]:
            reference = language.faulty_reference(rng, scene.objects, fault)
            if reference is not None:
                key = f"absent/{fault}/{language.form_of(reference)}"
                valid.setdefault(key, []).append(ask(language.ask_for(rng, reference, split)).valid)
        text = language.ask_for_nothing_here(rng, scene.objects, split, "never_there")
        valid.setdefault("absent/never_there/-", []).append(ask(text).valid)
    return valid, aside


def threshold(present: Sequence[float], absent: Sequence[float]) -> tuple[float, float] | None:
    """The (lowest, highest) threshold with at most 2 % of the present refused and 95 % of the absent; None if none."""
    low = float(np.quantile(absent, _REFUSED_SHARE))
    high = float(np.quantile(present, 1 - _ACCEPTED_SHARE))
    return (round(low, 3), round(high, 3)) if low <= high else None


def figures(valid: Values, aside: Values) -> dict[str, Any]:
    """Shares at every threshold, medians, and where the threshold may lie."""
    groups: Values = {}
    for key, values in valid.items():
        what, *rest = key.split("/")
        for name in {what, key, *(f"{what}/*/{rest[1]}" for _ in rest[1:]), *(f"{what}/{rest[0]}" for _ in rest[:1])}:
            groups.setdefault(name, []).extend(values)
    table = {}
    for name, values in sorted(groups.items()):
        v = np.array(values)
        sign = 1 if name.startswith("present") else -1
        right = {str(t): round(float((sign * (v - t) >= 0).mean()), 4) for t in THRESHOLDS}
        quantiles = {f"p{q}": round(float(np.quantile(v, q / 100)), 3) for q in (2, 5, 50, 95)}
        table[name] = {"asked": len(v), "right_at": right, **quantiles}
    return {
        "right": table,
        "threshold": threshold(groups.get("present", [1.0]), groups.get("absent", [0.0])),
        "heads_for_it": {
            f: [sum(g < GROUNDED_WITHIN_M for g in a), len(a)] for f, a in sorted(aside.items())
        },
    }  # fmt: skip


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.validity", description=__doc__)
    p.add_argument("--onnx", type=Path, default=DEFAULT_ONNX)
    p.add_argument("--tokenizer", type=Path, help="default: tokenizer.model beside the ONNX file")
    p.add_argument("--count", type=int, default=100, help="scenes; each is asked about ten sentences")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--split", choices=("canonical", "plain", "train", "held_out"), default="canonical")
    p.add_argument("--out", type=Path, help="write every answer here, for --merge")
    p.add_argument("--merge", type=Path, nargs="+", help="add up files of earlier runs instead of asking")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    valid: Values = {}
    aside: Values = {}
    if a.merge:
        for path in a.merge:
            data = json.loads(path.read_text("utf-8"))
            for into, key in ((valid, "valid"), (aside, "aside_m")):
                for name, values in data[key].items():
                    into.setdefault(name, []).extend(values)
    else:
        try:
            policy = OnnxPolicy(a.onnx, a.tokenizer or a.onnx.with_name("tokenizer.model"))
        except (ContractMismatch, FileNotFoundError) as e:
            print(f"{a.onnx}: {e}", file=sys.stderr)
            return 2
        env = Environment(contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT)
        valid, aside = ask_all(policy, env, a.seed, a.count, a.split)
        env.close()
    if a.out:
        a.out.write_text(json.dumps({"valid": valid, "aside_m": aside}), "utf-8")
    print(json.dumps(figures(valid, aside), indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
