"""A checkpoint as a function of the contract's inputs: what an export is compared with (PyTorch)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from wardarm.model.accuracy import Run
from wardarm.model.samples import Feed
from wardarm.policy import contract
from wardarm.training.export import served
from wardarm.training.trainer import restore


def checkpoint_run(path: Path) -> Run:
    """The averaged network of a checkpoint in FP32."""
    network = served(restore(path)[0])

    def run(feed: Feed) -> list[NDArray[Any]]:
        with torch.no_grad():
            values = network(*(torch.from_numpy(feed[t.name]) for t in contract.INPUTS))
        return [v.numpy() for v in values]

    return run
