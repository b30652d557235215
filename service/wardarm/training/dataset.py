"""Demonstrations as tensors on the device that trains (PyTorch)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch import Tensor

from wardarm.policy.tokenizer import Tokenizer
from wardarm.training import shards

BRIGHTNESS, CONTRAST, TINT, NOISE = 0.10, 0.125, 0.06, 0.02
"""What a picture in [-1, 1] is changed by in training: offset and gain (half-widths), colour cast and grain (std)."""
_MEMORY_SHARE = 0.7


def vocabulary_size(tokenizer: Path) -> int:
    """Pieces of a SentencePiece model: rows of the network's word table."""
    return int(sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).get_piece_size())


class Dataset:
    """All shards of a split in memory: on a GPU about 0.17 MB a demonstration. Raises shards.DatasetError."""

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, device: torch.device) -> None:
        found = shards.read_all(folder, split)
        count = sum(len(s) for s in found)
        nbytes = sum(s.images.nbytes for s in found)
        if device.type == "cuda" and nbytes > _MEMORY_SHARE * torch.cuda.mem_get_info(device)[0]:
            raise shards.DatasetError(
                f"{folder}: {count} pictures are {nbytes / 1e9:.1f} GB, more than {_MEMORY_SHARE:.0%} of the GPU's free "
                "memory; train on fewer shards or a larger GPU"
            )
        self.device = device
        self.seeds = sorted({(int(s.meta["seed"]), int(s.meta["process"])) for s in found})
        self.images = torch.empty((count, *found[0].images.shape[1:]), dtype=torch.uint8, device=device)
        at = 0
        for shard in found:
            self.images[at : at + len(shard)] = torch.from_numpy(np.array(shard.images)).to(device)
            at += len(shard)
        self.numbers = {
            k: torch.from_numpy(np.concatenate([s.numbers[k] for s in found])).to(device) for k in shards.NUMBERS
        }
        self.texts: dict[str, NDArray[np.str_]] = {k: np.concatenate([s.texts[k] for s in found]) for k in shards.TEXTS}
        pairs = [tokenizer.encode(str(t)) for t in self.texts["text"]]
        ids, mask = np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])
        longest = -(-int(mask.sum(1).max()) // 8) * 8  # no need to attend to padding that every sentence has
        self.ids = torch.from_numpy(ids[:, :longest].copy()).to(device)
        self.mask = torch.from_numpy(mask[:, :longest].copy()).to(device)

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, index: Tensor, vary: torch.Generator | None = None) -> dict[str, Tensor]:
        """`image` float (B, 3, H, W) in about [-1, 1], `ids`, `mask` and the labels; with `vary` the picture's light,
        colour and grain are drawn."""
        x = self.images[index].permute(0, 3, 1, 2).float() / 127.5 - 1
        if vary is not None:
            n, like = len(x), {"device": self.device, "generator": vary}
            x = x * (1 + CONTRAST * (2 * torch.rand(n, 1, 1, 1, **like) - 1))
            x = x + BRIGHTNESS * (2 * torch.rand(n, 1, 1, 1, **like) - 1)
            x = x + TINT * torch.randn(n, 3, 1, 1, **like) + NOISE * torch.randn(x.shape, **like)
        if self.device.type == "cuda":
            x = x.contiguous(memory_format=torch.channels_last)
        labels = {k: v[index] for k, v in self.numbers.items()}
        return {"image": x, "ids": self.ids[index], "mask": self.mask[index], **labels}
