"""Several GPUs, one process each, started by torchrun: gradients are averaged, the first process reports and saves."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, distributed


class Group:
    """The processes of one training. Alone (no torchrun) everything is a no-op."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.local = int(os.environ.get("LOCAL_RANK", "0"))
        if self.size > 1 and not distributed.is_initialized():
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")

    @property
    def first(self) -> bool:
        return self.rank == 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the mean over all processes, in one exchange."""
        if self.size == 1:
            return
        flat = torch.cat([t.reshape(-1) for t in tensors])
        distributed.all_reduce(flat)
        flat /= self.size
        at = 0
        for t in tensors:
            t.copy_(flat[at : at + t.numel()].view_as(t))
            at += t.numel()

    def from_first(self, tensors: Sequence[Tensor]) -> None:
        """Make every tensor as the first process has it."""
        if self.size > 1:
            for t in tensors:
                distributed.broadcast(t, 0)

    def close(self) -> None:
        if self.size > 1 and distributed.is_initialized():
            distributed.destroy_process_group()
