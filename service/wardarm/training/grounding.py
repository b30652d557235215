"""Which piece a sentence means, said outright (PyTorch): what is heard, what is spotted, and where the two agree.

The sentence alone says kind, colour and place of the piece meant and of the goal's; the picture alone says for each cell
whether a piece's middle is in it, its kind and its colour. Both are trained on labels of their own (losses.py), so the
agreement of kind and colour need not be found from rewards far away: it is a product, given to the cells as a feature.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from wardarm.sim.scenes import COLORS, KINDS
from wardarm.training.layers import Attention, Residual, full_precision
from wardarm.training.said import ATTRIBUTES, COLOR_CLASSES, KIND_CLASSES, ROLES

MARKS = 1 + 4 * len(ROLES)
"""Features of a cell: a piece is here; and for each role its kind agrees, its colour agrees, both, and the log of both."""
_ANY_KIND, _OTHER = KIND_CLASSES.index("any"), KIND_CLASSES.index("other")
_ANY_COLOR = COLOR_CLASSES.index("any")
_LEAST = 1e-3
"""Below this an agreement counts as none: its log stays finite, and what else a cell shows still decides."""
_LOG_SCALE = 0.2
_RARELY = -5.0
"""Logit of a piece in a cell to begin with: 4 or 5 of 920 have one."""


class Heard(NamedTuple):
    """Logits (B, 2 roles, classes of said.py)."""

    kind: Tensor
    color: Tensor
    place: Tensor


class Spotted(NamedTuple):
    """Logits: here (B, cells), kind (B, cells, 4), color (B, cells, 8)."""

    here: Tensor
    kind: Tensor
    color: Tensor


class Match(NamedTuple):
    """marks (B, MARKS, cells); agreed (B, 2 roles, cells), 0..1: how far a cell has the piece that is meant; summary (B, 6):
    for each role its highest, its sum (how many agree) and the share of `other` in what was heard."""

    marks: Tensor
    agreed: Tensor
    summary: Tensor


class Listener(nn.Module):  # type: ignore[misc]
    """Token features (B, T, width) and score bias (B, T) -> what is said, and its features (B, width)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        count = len(ROLES) * len(ATTRIBUTES)
        self.queries = nn.Parameter(torch.randn(1, count, width) * 0.3)
        self.attention, self.norm = Attention(width, heads), nn.LayerNorm(width)
        self.classes = nn.ModuleList(nn.Linear(width, len(a)) for a in ATTRIBUTES)
        self.out = nn.Linear(count * width, width)

    def forward(self, text: Tensor, bias: Tensor) -> tuple[Heard, Tensor]:
        queries = self.queries.expand(text.shape[0], -1, -1)
        each = self.norm(self.attention(queries, text, bias[:, None, None]))
        by_role = each.unflatten(1, (len(ROLES), len(ATTRIBUTES)))
        heard = Heard(*(classes(by_role[:, :, i]).float() for i, classes in enumerate(self.classes)))
        return heard, self.out(each.flatten(1))


class Spotter(nn.Module):  # type: ignore[misc]
    """Features (B, channels, rows, columns) of the picture alone -> the same after another look, and what stands where."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.look = Residual(channels)
        classes = nn.Conv2d(width, 1 + len(KINDS) + len(COLORS), 1)
        self.classes = nn.Sequential(nn.Conv2d(channels, width, 1), nn.ReLU(), classes)
        nn.init.zeros_(classes.bias)
        with torch.no_grad():
            classes.bias[0] = _RARELY

    def forward(self, x: Tensor) -> tuple[Tensor, Spotted]:
        x = self.look(x)
        logits = self.classes(x).float().flatten(2).transpose(1, 2)
        here, kind, color = logits.split([1, len(KINDS), len(COLORS)], -1)
        return x, Spotted(here[..., 0], kind, color)


def match(heard: Heard, spotted: Spotted) -> Match:
    """Where what is spotted is what was heard; places are left to the layers that see all cells."""
    with full_precision(spotted.here):
        said_kind, said_color = heard.kind.softmax(-1), heard.color.softmax(-1)
        here = spotted.here.sigmoid()[:, None]
        kind = said_kind[..., : len(KINDS)] @ spotted.kind.softmax(-1).transpose(1, 2)
        kind = kind + said_kind[..., _ANY_KIND, None]
        color = said_color[..., : len(COLORS)] @ spotted.color.softmax(-1).transpose(1, 2)
        color = color + said_color[..., _ANY_COLOR, None]
        agreed = here * kind * color
        marks = torch.cat([here, kind, color, agreed, _LOG_SCALE * log_of(agreed)], 1)
        summary = torch.cat([agreed.amax(-1), agreed.sum(-1), said_kind[..., _OTHER]], -1)
        return Match(marks, agreed, summary)


def log_of(agreed: Tensor) -> Tensor:
    return (agreed + _LEAST).log()
