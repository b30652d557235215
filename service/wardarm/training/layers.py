"""Building blocks of the policy's network (PyTorch). Attention always runs in fp32: in bf16 its gradients overflow."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


def full_precision(x: Tensor) -> Any:
    """A context without autocast: what is inside runs in the type of its inputs (TF32 products on a GPU)."""
    return torch.autocast(x.device.type, enabled=False)


def fourier(values: Tensor, bands: int) -> Tensor:
    """(..., n) -> (..., n + 2 n bands): the values, then sin and cos at pi/2, pi, 2 pi ..."""
    frequencies = (2.0 ** torch.arange(bands, device=values.device, dtype=values.dtype)) * (math.pi / 2)
    angles = (values[..., None] * frequencies).flatten(-2)
    return torch.cat([values, angles.sin(), angles.cos()], -1)


def fourier_width(values: int, bands: int) -> int:
    return values + 2 * values * bands


def mlp(width_in: int, hidden: int, width_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width_in, hidden), nn.GELU(approximate="tanh"), nn.Linear(hidden, width_out))


class Attention(nn.Module):  # type: ignore[misc]
    """Multi-head attention of `x` (B, N, width) over `y` (B, M, width); `bias` is added to the scores."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key_value, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        size = x.shape[-1] // self.heads
        q = self.query(x).unflatten(-1, (self.heads, size)).transpose(1, 2)
        k, v = self.key_value(y).unflatten(-1, (2, self.heads, size)).permute(2, 0, 3, 1, 4).unbind(0)
        with full_precision(x):
            scores = q.float() @ k.float().transpose(-1, -2) / math.sqrt(size)
            if bias is not None:
                scores = scores + bias.float()
            mixed = scores.softmax(-1) @ v.float()
        return self.out(mixed.transpose(1, 2).flatten(-2))


class EncoderLayer(nn.Module):  # type: ignore[misc]
    """Self-attention and a feed-forward part, each behind its norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.feed = Attention(width, heads), mlp(width, 2 * width, width)
        self.norm_attention, self.norm_feed = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        h = self.norm_attention(x)
        x = x + self.attention(h, h, bias)
        return x + self.feed(self.norm_feed(x))


class DecoderLayer(nn.Module):  # type: ignore[misc]
    """Self-attention among `x`, attention to `y`, a feed-forward part."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.among, self.across, self.feed = (
            Attention(width, heads),
            Attention(width, heads),
            mlp(width, 2 * width, width),
        )
        self.norm_among, self.norm_across, self.norm_feed = (nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.norm_among(x)
        x = x + self.among(h, h)
        x = x + self.across(self.norm_across(x), y)
        return x + self.feed(self.norm_feed(x))


def convolution(width_in: int, width_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(width_in, width_out, 3, stride, 1, bias=False), nn.BatchNorm2d(width_out), nn.ReLU())


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions with a shortcut; with `text` > 0 the sentence scales and shifts each channel (FiLM)."""

    def __init__(self, width: int, text: int = 0) -> None:
        super().__init__()
        self.first = convolution(width, width, 1)
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        self.film = nn.Linear(text, 2 * width) if text else None

    def forward(self, x: Tensor, sentence: Tensor | None = None) -> Tensor:
        h = self.second(self.first(x))
        if self.film is not None:
            scale, shift = self.film(sentence).chunk(2, -1)
            h = h * (1 + scale[..., None, None]) + shift[..., None, None]
        return functional.relu(x + h)


def upsample(cells: Tensor, height: int, width: int) -> Tensor:
    """Each cell twice as wide and high, cut to `height` x `width`."""
    return functional.interpolate(cells, scale_factor=2, mode="nearest")[:, :, :height, :width]
