"""What the policy is trained to get right, and by how much each part counts (PyTorch)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from wardarm.policy import contract
from wardarm.training.grounding import Spotted
from wardarm.training.model import Output, Policy
from wardarm.training.said import UNKNOWN

WEIGHTS: dict[str, float] = {
    "position": 10.0,
    "turn": 10.0,
    "velocity": 20.0,
    "grip": 0.2,
    "valid": 0.6,
    "presence": 1.0,
    "done": 0.2,
    "cell": 0.15,
    "grasp_xy": 5.0,
    "grasp_z": 2.0,
    "grasp_yaw": 0.3,
    "goal_cell": 0.15,
    "goal_xy": 5.0,
    "goal_z": 2.0,
    "placing": 0.3,
    "tilting": 0.3,
    "here": 1.0,
    "kind": 0.3,
    "color": 0.5,
    "said_kind": 0.3,
    "said_color": 0.3,
    "said_place": 0.3,
}
SOON_GAIN, SOON_POINTS = 2.0, 10.0
"""Points that are carried out before the next chunk (the first half second) count up to three times."""
STILL_GAIN, STILL = 2.0, 1e-5
"""Points at rest (closing fingers, arrived) count three times: drift there opens a grasp."""
_TURN_BETA = 0.02
_PRESENCE_SCALE = 0.1
HALF_BOX_MM = (np.array(contract.HIGH) - np.array(contract.LOW)) / 2 * 1e3
"""Millimetres per unit of a normalised x, y, z."""


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean over samples with weight; 0 if there are none. `values` and `weight` are (B,)."""
    return (values * weight).sum() / weight.sum().clamp(min=1)


def loss(network: Policy, out: Output, batch: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum, and each part before its weight (detached). Labels as shards.NUMBERS.

    Invalid samples have no chunk; where the piece is in the fingers, the picture does not show where it stood.
    """
    device = out.traj.device
    traj, valid = batch["traj"], batch["valid"]
    axes = torch.tensor(HALF_BOX_MM / HALF_BOX_MM[0], dtype=torch.float32, device=device)
    soon = 1 + SOON_GAIN * torch.exp(-torch.arange(contract.HORIZON, device=device) / SOON_POINTS)
    soon = soon / soon.mean()
    steps = traj[:, 1:] - traj[:, :-1]
    still = 1 + STILL_GAIN * (steps[..., :3].abs().amax(-1) < STILL).float()
    weight = torch.cat([still[:, :1], still], 1) * soon
    position = ((out.traj - traj)[..., :3].abs() * axes).mean(-1) * weight
    turn = functional.smooth_l1_loss(out.traj[..., 3:], traj[..., 3:], beta=_TURN_BETA, reduction="none").mean(-1)
    moved = out.traj[:, 1:] - out.traj[:, :-1]
    velocity = ((moved - steps)[..., :3].abs() * axes).mean(-1) * soon[1:]
    grip = functional.binary_cross_entropy_with_logits(out.grip[:, 1:], batch["grip"][:, 1:], reduction="none")
    seen = batch["standing"] * valid
    cell, goal_cell = _cell(network, batch["pixel"]), _cell(network, batch["goal_pixel"])
    chunk = valid * batch["weight"]
    spot = batch["placing"] * chunk
    parts = {
        "position": _mean(position.mean(1), chunk),
        "turn": _mean((turn * weight).mean(1), chunk),
        "velocity": _mean(velocity.mean(1), chunk),
        "grip": _mean((grip * soon[1:]).mean(1), chunk),
        "valid": functional.binary_cross_entropy_with_logits(out.valid, valid),
        "presence": _presence(out.presence, (cell, goal_cell), (valid, valid * batch["placing"]), batch["standing"]),
        "done": functional.binary_cross_entropy_with_logits(out.done, batch["done"]),
        "cell": _mean(functional.cross_entropy(out.cell, cell, reduction="none"), seen),
        "grasp_xy": _mean((out.grasp[:, :2] - batch["target"][:, :2]).abs().mean(-1), seen),
        "grasp_z": _mean((out.grasp[:, 2] - batch["grasp_z"]).abs(), valid),
        "grasp_yaw": _mean((out.yaw2 - batch["target"][:, 2:]).abs().mean(-1), seen),
        "goal_cell": _mean(functional.cross_entropy(out.goal_cell, goal_cell, reduction="none"), spot),
        "goal_xy": _mean((out.goal[:, :2] - batch["goal"][:, :2]).abs().mean(-1), spot),
        "goal_z": _mean((out.goal[:, 2] - batch["goal"][:, 2]).abs(), spot),
        "placing": _mean(_binary(out.placing, batch["placing"]), valid),
        "tilting": _mean(_binary(out.tilting, batch["tilting"]), valid),
        **_spotted(network, out.spotted, batch["pieces"]),
    }
    for i, (name, logits) in enumerate(out.heard._asdict().items()):
        parts[f"said_{name}"] = _classes(logits, batch["said"][..., i])
    total = torch.stack([WEIGHTS[k] * v for k, v in parts.items()]).sum()
    return total, {k: v.detach() for k, v in parts.items()}


def _binary(logits: Tensor, wanted: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")


def _cell(network: Policy, pixel: Tensor) -> Tensor:
    """The cell (...) that a pixel (..., 2), shares of width and height, is in."""
    column = (pixel[..., 0].clamp(0, 0.999) * network.columns).long()
    row = (pixel[..., 1].clamp(0, 0.999) * (network.size.height / 8)).long()
    return row.clamp(max=network.rows - 1) * network.columns + column


def _presence(logits: Tensor, cells: tuple[Tensor, Tensor], named: tuple[Tensor, Tensor], standing: Tensor) -> Tensor:
    """Cells that the sentence names (B, cells, 2): the one of the piece meant and the one of its goal, none for a sentence
    that names nothing here. Summed over cells, mean over samples whose picture shows all pieces standing."""
    each = [
        _binary(logits[..., i], functional.one_hot(cell, logits.shape[1]).to(logits.dtype) * here[:, None])
        for i, (cell, here) in enumerate(zip(cells, named, strict=True))
    ]
    return _mean((each[0] + 0.5 * each[1]).sum(1), standing) * _PRESENCE_SCALE


def _classes(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean cross-entropy of logits (..., classes) over those `wanted` (...) that are known, not -1."""
    each = functional.cross_entropy(
        logits.flatten(0, -2), wanted.flatten().long(), ignore_index=UNKNOWN, reduction="sum"
    )
    return each / (wanted != UNKNOWN).sum().clamp(min=1)


def _spotted(network: Policy, spotted: Spotted, pieces: Tensor) -> dict[str, Tensor]:
    """Every piece of a picture, `pieces` (B, n, 4) as shards.NUMBERS: its cell among all, its kind and colour there.

    A picture whose pieces are not known teaches nothing here.
    """
    there = pieces[..., 2] >= 0
    cell = _cell(network, pieces[..., :2])
    wanted = torch.zeros_like(spotted.here).scatter_add(1, cell, there.to(spotted.here.dtype)).clamp(max=1)
    known = there.any(1).to(wanted.dtype)

    def at_pieces(logits: Tensor) -> Tensor:
        return logits.gather(1, cell[..., None].expand(-1, -1, logits.shape[-1]))

    return {
        "here": _mean(_binary(spotted.here, wanted).sum(1), known) * _PRESENCE_SCALE,
        "kind": _classes(at_pieces(spotted.kind), pieces[..., 2]),
        "color": _classes(at_pieces(spotted.color), pieces[..., 3]),
    }
