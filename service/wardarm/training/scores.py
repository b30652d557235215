"""How well a network predicts demonstrations it was not trained on, by phase and by wording (PyTorch)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wardarm.training.dataset import Dataset
from wardarm.training.losses import HALF_BOX_MM
from wardarm.training.model import Policy
from wardarm.training.said import COLOR_CLASSES, KIND_CLASSES, PLACE_CLASSES

_BATCH = 200
GROUNDED_WITHIN_MM = 50.0
SOON, LAST = 8, 63
"""Points reported: 0.4 s on, which is carried out before the next chunk, and the end."""
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_ANY_COLOR, _ANY_PLACE = COLOR_CLASSES.index("any"), PLACE_CLASSES.index("any")
_KINDS = KIND_CLASSES.index("any")


def _quantile(values: Floats, q: float) -> float | None:
    return round(float(np.quantile(values, q)), 2) if len(values) else None


def _share(hits: NDArray[Any]) -> float | None:
    return round(float(hits.mean()), 4) if len(hits) else None


def _part(
    name: NDArray[np.bool_], grasp_mm: Floats, seen: NDArray[np.bool_], soon_mm: Floats, last_mm: Floats,
    goal_mm: Floats, placing: NDArray[np.bool_],
) -> dict[str, Any]:  # fmt: skip
    aimed = grasp_mm[name & seen]
    right = aimed[aimed < GROUNDED_WITHIN_MM]
    return {
        "samples": int(name.sum()),
        "grounded": _share(aimed < GROUNDED_WITHIN_MM),
        "grasp_mm_p50": _quantile(right, 0.5),
        "grasp_mm_p95": _quantile(right, 0.95),
        "goal_found": _share(goal_mm[name & placing] < GROUNDED_WITHIN_MM),
        "goal_mm_p50": _quantile(goal_mm[name & placing], 0.5),
        "goal_mm_p95": _quantile(goal_mm[name & placing], 0.95),
        "soon_mm_p50": _quantile(soon_mm[name], 0.5),
        "soon_mm_p95": _quantile(soon_mm[name], 0.95),
        "last_mm_p50": _quantile(last_mm[name], 0.5),
    }


class ColorQuestions(NamedTuple):
    """Samples (N,) where only the colour tells. needed: two pieces or more of the kind asked for, a colour, no place; chance:
    how often a guess among them is right; absent: the kind is there, the colour is not."""

    needed: Bools
    chance: Floats
    absent: Bools


def color_questions(said: NDArray[np.int8], pieces: Floats, valid: Bools, role: int = 0) -> ColorQuestions:
    """`said` (N, 2, 3) and `pieces` (N, n, 4) as in shards; of the piece meant (role 0) or the goal's (1)."""
    kind, color, place = said[:, role].astype(int).T
    named = (kind >= 0) & (kind < _KINDS) & (color >= 0) & (color != _ANY_COLOR) & (place == _ANY_PLACE)
    alike = (pieces[..., 2] == kind[:, None]) & (kind >= 0)[:, None]
    exact = (alike & (pieces[..., 3] == color[:, None])).any(1)
    count = alike.sum(1)
    return ColorQuestions(
        named & valid & exact & (count > 1), 1 / np.maximum(1, count), named & ~valid & (count > 0) & ~exact
    )


def _colors(asked: ColorQuestions, which: Bools, right: Bools, accepted: Bools) -> dict[str, Any]:
    needed, absent = asked.needed & which, asked.absent & which
    return {
        "needed": int(needed.sum()),
        "right": _share(right[needed]),
        "chance": _share(asked.chance[needed]),
        "accepted": _share(accepted[needed]),
        "absent": int(absent.sum()),
        "absent_refused": _share(~accepted[absent]),
    }


def score(network: Policy, data: Dataset, limit: int = 4000) -> dict[str, Any]:
    """Errors in mm and shares, on the first `limit` samples. Leaves the network in training mode."""
    count = min(limit, len(data))
    found: dict[str, list[Floats]] = {"traj": [], "grasp": [], "goal": [], "valid": [], "done": []}
    network.eval()
    with torch.no_grad():
        for first in range(0, count, _BATCH):
            batch = data.batch(torch.arange(first, min(count, first + _BATCH), device=data.device))
            out = network(batch["image"], batch["ids"], batch["mask"], batch["state"])
            for key, values in found.items():
                values.append(getattr(out, key).double().cpu().numpy())
    network.train()
    traj, grasp, goal, valid, done = (np.concatenate(found[k]) for k in ("traj", "grasp", "goal", "valid", "done"))
    label = {k: v[:count].double().cpu().numpy() for k, v in data.numbers.items()}
    off_mm = np.linalg.norm((traj - label["traj"])[..., :3] * HALF_BOX_MM, axis=-1)
    grasp_mm = np.linalg.norm((grasp[:, :2] - label["target"][:, :2]) * HALF_BOX_MM[:2], axis=-1)
    goal_mm = np.linalg.norm((goal[:, :2] - label["goal"][:, :2]) * HALF_BOX_MM[:2], axis=-1)
    placing = label["placing"] > 0.5
    is_valid, is_done = label["valid"] > 0.5, label["done"] > 0.5
    seen = is_valid & (label["standing"] > 0.5)
    kinds = data.texts["task"][:count]
    phases, wordings = data.texts["phase"][:count], data.texts["wording"][:count]

    said, pieces = data.said[:count, 0].cpu().numpy(), label["pieces"]
    by_piece, by_goal = (color_questions(said, pieces, is_valid, role) for role in (0, 1))
    by_piece = by_piece._replace(needed=by_piece.needed & seen)
    by_goal = by_goal._replace(needed=by_goal.needed & placing)
    accepted = valid > 0

    def colors(where: Bools) -> dict[str, Any]:
        return {
            "piece": _colors(by_piece, where, grasp_mm < GROUNDED_WITHIN_MM, accepted),
            "goal": _colors(by_goal, where, goal_mm < GROUNDED_WITHIN_MM, accepted),
        }

    def part(where: NDArray[np.bool_]) -> dict[str, Any]:
        return _part(where & is_valid, grasp_mm, seen, off_mm[:, SOON], off_mm[:, LAST], goal_mm, placing)

    return {
        "all": part(np.ones(count, bool)),
        "colors": colors(np.ones(count, bool)),
        "phase": {str(p): part(phases == p) for p in np.unique(phases) if p != "invalid"},
        "task": {str(k): part(kinds == k) for k in np.unique(kinds)},
        "wording": {
            str(w): part(wordings == w)
            | {
                "colors": colors(wordings == w),
                "valid_accepted": _share((valid > 0)[(wordings == w) & is_valid]),
                "invalid_refused": _share((valid <= 0)[(wordings == w) & ~is_valid]),
            }
            for w in np.unique(wordings)
        },
        "done_seen": _share((done > 0)[is_done]),
        "done_too_early": _share((done > 0)[is_valid & ~is_done]),
    }
