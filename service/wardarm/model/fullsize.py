"""The full-size architecture behind the same contract (PyTorch), with random weights: to export, check and time it.

ResNet-50 whose features stay spatial, an 8-layer text encoder with all its layer norms, and a decoder of two paths,
8 layers each, for positions and for orientations, each attending to the other. 147 M parameters. It is the shape of the
model that was reported on a Thor, not that model: nothing here is trained.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from wardarm.policy import contract
from wardarm.training.state import StateReader

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""ResNet-50: width and number of bottlenecks of each stage."""
_EXPANSION = 4
_STRIDE = 32
_MASKED = -1e4


@dataclass(frozen=True)
class FullSize:
    """Widths and depths; the defaults are the reported model's."""

    vocabulary: int = 8000
    width: int = 512
    heads: int = 8
    text_layers: int = 8
    fusion_layers: int = 3
    path_layers: int = 8


class Bottleneck(nn.Module):  # type: ignore[misc]
    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        wide = width * _EXPANSION
        self.body = nn.Sequential(
            nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide),
        )  # fmt: skip
        same = stride == 1 and width_in == wide
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(width_in, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet50() -> nn.Sequential:
    """(B, 3, H, W) -> (B, 2048, H/32, W/32): no pooling to a vector at the end, the features stay where they are."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    width_in = 64
    for stage, (width, count) in enumerate(_STAGES):
        for k in range(count):
            layers.append(Bottleneck(width_in, width, 2 if stage and not k else 1))
            width_in = width * _EXPANSION
    return nn.Sequential(*layers)


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        q = self.query(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.key_value(y).unflatten(-1, (2, self.heads, q.shape[-1])).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, bias)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):  # type: ignore[misc]
    """Attention among `x`, then to each of `others`, then a feed-forward part; each behind its norm."""

    def __init__(self, width: int, heads: int, others: int = 0) -> None:
        super().__init__()
        self.among = Attention(width, heads)
        self.across = nn.ModuleList(Attention(width, heads) for _ in range(others))
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 + others))

    def forward(self, x: Tensor, *others: Tensor, bias: Tensor | None = None) -> Tensor:
        h = self.norms[0](x)
        x = x + self.among(h, h, bias)
        for attention, norm, other in zip(self.across, self.norms[1:], others, strict=False):
            x = x + attention(norm(x), other)
        return x + self.feed(self.norms[-1](x))


class FullSizePolicy(nn.Module):  # type: ignore[misc]
    """The contract's inputs (batch first) -> its outputs, all in the weights' own type."""

    def __init__(self, size: FullSize | None = None) -> None:
        super().__init__()
        s = size or FullSize()
        width = s.width
        rows, columns = -(-contract.IMAGE_HEIGHT // _STRIDE), -(-contract.IMAGE_WIDTH // _STRIDE)
        self.picture, self.to_width = resnet50(), nn.Conv2d(_STAGES[-1][0] * _EXPANSION, width, 1)
        self.picture_places = nn.Parameter(torch.randn(1, rows * columns, width) * 0.02)
        self.words = nn.Embedding(s.vocabulary, width)
        self.word_places = nn.Parameter(torch.randn(1, contract.TOKENS, width) * 0.02)
        self.text = nn.ModuleList(Layer(width, s.heads) for _ in range(s.text_layers))
        self.text_norm = nn.LayerNorm(width)
        self.read_state = StateReader()
        self.state = nn.Sequential(nn.Linear(14, width), nn.GELU(approximate="tanh"), nn.Linear(width, width))
        self.fusion = nn.ModuleList(Layer(width, s.heads) for _ in range(s.fusion_layers))
        self.point_queries, self.turn_queries = (
            nn.Parameter(torch.randn(1, contract.HORIZON, width) * 0.02) for _ in range(2)
        )
        self.points = nn.ModuleList(Layer(width, s.heads, 2) for _ in range(s.path_layers))
        self.turns = nn.ModuleList(Layer(width, s.heads, 2) for _ in range(s.path_layers))
        self.point_norm, self.turn_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.point_head, self.turn_head = nn.Linear(width, 3), nn.Linear(width, 4)
        self.said_head = nn.Linear(width, 2)

    def forward(
        self, image: Tensor, input_ids: Tensor, attention_mask: Tensor, robot_state: Tensor
    ) -> tuple[Tensor, ...]:
        kind = self.point_queries.dtype
        x = image.to(kind).permute(0, 3, 1, 2) / 127.5 - 1
        seen = self.to_width(self.picture(x)).flatten(2).transpose(1, 2) + self.picture_places
        bias = ((1 - attention_mask.to(kind)) * _MASKED)[:, None, None]
        said = self.words(input_ids) + self.word_places
        for layer in self.text:
            said = layer(said, bias=bias)
        said = self.text_norm(said)
        position, angles, columns = self.read_state(robot_state.float())
        now = self.state(torch.cat([position, columns, angles, robot_state.float()[:, 6:8]], -1).to(kind))[:, None]
        both = torch.cat([now, seen, said], 1)
        free = torch.zeros_like(bias[..., :1]).expand(-1, -1, -1, 1 + seen.shape[1])
        everything = torch.cat([free, bias], -1)
        for layer in self.fusion:
            both = layer(both, bias=everything)
        points, turns = self.point_queries + now, self.turn_queries + now
        for point_layer, turn_layer in zip(self.points, self.turns, strict=True):
            points, turns = point_layer(points, both, turns), turn_layer(turns, both, points)
        away, turned = self.point_head(self.point_norm(points)), self.turn_head(self.turn_norm(turns))
        here = torch.cat([position, angles], -1).to(kind)[:, None]
        later = here + 0.1 * torch.tanh(torch.cat([away, turned[..., :3]], -1))[:, 1:]
        traj = torch.cat([here, later], 1).clamp(-1, 1)
        grip = torch.cat([robot_state[:, 6:7].to(kind), torch.sigmoid(turned[:, 1:, 3])], 1)
        known = torch.sigmoid(self.said_head(both[:, 0]))
        return traj, grip, known[:, :1], known[:, 1:]
