"""Demonstrations as tensors on the device that trains (PyTorch)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch import Tensor

from wardarm.policy import contract
from wardarm.policy.tokenizer import Tokenizer
from wardarm.training import shards

BRIGHTNESS, CONTRAST, TINT, NOISE = 0.10, 0.125, 0.06, 0.02
"""What a picture in [-1, 1] is changed by in training: offset and gain (half-widths), colour cast and grain (std)."""
INVALID_SHARE = 0.35
"""Of what is presented in training: the sentence is replaced by one that names nothing in this picture."""
LEAST_TOKENS = 64
"""The same width for every data set of this grammar: what was compiled for one serves the next."""
_MEMORY_SHARE = 0.7


def vocabulary_size(tokenizer: Path) -> int:
    """Pieces of a SentencePiece model: rows of the network's word table."""
    return int(sentencepiece.SentencePieceProcessor(model_file=str(tokenizer)).get_piece_size())


class Dataset:
    """All shards of a split in memory: on a GPU about 0.17 MB a demonstration. Raises shards.DatasetError."""

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, device: torch.device) -> None:
        found = shards.read_all(folder, split)
        pictures = sum(len(s.pictures) for s in found)
        nbytes = sum(s.pictures.nbytes for s in found)
        if device.type == "cuda" and nbytes > _MEMORY_SHARE * torch.cuda.mem_get_info(device)[0]:
            raise shards.DatasetError(
                f"{folder}: {pictures} pictures are {nbytes / 1e9:.1f} GB, more than {_MEMORY_SHARE:.0%} of the GPU's free "
                "memory; train on fewer shards or a larger GPU"
            )
        self.device = device
        self.seeds = sorted({(int(s.meta["seed"]), int(s.meta["process"])) for s in found})
        self.images = torch.empty((pictures, *found[0].pictures.shape[1:]), dtype=torch.uint8, device=device)
        at, which = 0, []
        for shard in found:
            self.images[at : at + len(shard.pictures)] = torch.from_numpy(np.array(shard.pictures)).to(device)
            which.append(shard.picture + at)
            at += len(shard.pictures)
        self.picture = torch.from_numpy(np.concatenate(which)).to(device)
        self.numbers = {
            k: torch.from_numpy(np.concatenate([s.numbers[k] for s in found])).to(device) for k in shards.NUMBERS
        }
        self.texts: dict[str, NDArray[np.str_]] = {k: np.concatenate([s.texts[k] for s in found]) for k in shards.TEXTS}
        numbers: dict[str, int] = {}
        # which sentences each demonstration may be presented with: rows of the table of all sentences
        every = zip(*(self.texts[k].tolist() for k in shards.SENTENCE_TEXTS), strict=True)
        self.sentences = torch.tensor(
            [[numbers.setdefault(t, len(numbers)) for t in "\n".join(texts).split("\n")] for texts in every],
            device=device,
        )
        self.said = torch.from_numpy(np.concatenate([s.said for s in found])).to(device)
        ids, mask = _table(list(numbers), tokenizer)
        self.ids, self.mask = torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)

    def __len__(self) -> int:
        return len(self.picture)

    def batch(self, index: Tensor, vary: torch.Generator | None = None) -> dict[str, Tensor]:
        """`image` float (B, 3, H, W) in about [-1, 1], `ids`, `mask` and the labels; with `vary` the picture's light,
        colour and grain and the sentence are drawn, INVALID_SHARE of them to be refused."""
        x = self.images[self.picture[index]].permute(0, 3, 1, 2).float() / 127.5 - 1
        if vary is not None:
            n, like = len(x), {"device": self.device, "generator": vary}
            x = x * (1 + CONTRAST * (2 * torch.rand(n, 1, 1, 1, **like) - 1))
            x = x + BRIGHTNESS * (2 * torch.rand(n, 1, 1, 1, **like) - 1)
            x = x + TINT * torch.randn(n, 3, 1, 1, **like) + NOISE * torch.randn(x.shape, **like)
        if self.device.type == "cuda":
            x = x.contiguous(memory_format=torch.channels_last)
        labels = {k: v[index] for k, v in self.numbers.items()}
        which = torch.zeros_like(index)
        if vary is not None:
            refuse = torch.rand(len(index), device=self.device, generator=vary) < INVALID_SHARE
            which = torch.where(
                refuse,
                shards.SENTENCES_HERE + self._draw(index, shards.SENTENCES_NOT_HERE, vary),
                self._draw(index, shards.SENTENCES_HERE, vary),
            )
            for key in ("valid", "done"):
                labels[key] = labels[key] * ~refuse
        text = self.sentences[index, which]
        labels["said"] = self.said[index, which].long()
        return {"image": x, "ids": self.ids[text], "mask": self.mask[text], **labels}

    def _draw(self, index: Tensor, count: int, generator: torch.Generator) -> Tensor:
        return torch.randint(count, index.shape, device=self.device, generator=generator)


def _table(sentences: list[str], tokenizer: Tokenizer) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """ids and mask of many sentences, as Tokenizer.encode but narrower: LEAST_TOKENS, or as the longest needs in steps of it."""
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer.path))
    tokens = pieces.encode(sentences, num_threads=-1)
    lengths = np.array([len(t) for t in tokens])
    if lengths.min() < 1 or lengths.max() > contract.TOKENS:
        raise shards.DatasetError(
            f"a sentence has {lengths.min()} or {lengths.max()} tokens, 1 to {contract.TOKENS} fit"
        )
    longest = min(contract.TOKENS, -(-int(lengths.max()) // LEAST_TOKENS) * LEAST_TOKENS)
    mask = np.arange(longest) < lengths[:, None]
    ids = np.zeros((len(tokens), longest), np.int32)
    ids[mask] = np.concatenate([np.asarray(t, np.int32) for t in tokens])
    return ids, mask.astype(np.int32)
