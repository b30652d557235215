"""Inputs to try a policy on: pictures of the simulated bedside at moments of real tasks, or noise where it cannot be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract

Feed = dict[str, NDArray[Any]]


def noise(batch: int, seed: int = 0) -> Feed:
    """Inputs of the contract's shapes: noise pictures, nine tokens, states about the workspace."""
    rng = np.random.default_rng(seed)
    ids = np.zeros((batch, contract.TOKENS), np.int32)
    mask = np.zeros((batch, contract.TOKENS), np.int32)
    ids[:, :9], mask[:, :9] = rng.integers(10, 1000, (batch, 9)), 1
    states = [
        contract.robot_state(rng.uniform([0.3, -0.4, 0.05], [0.65, 0.5, 0.45]), rng.normal(0, 0.02, 3), 1.0, False)
        for _ in range(batch)
    ]
    image = rng.integers(0, 255, (batch, contract.IMAGE_HEIGHT, contract.IMAGE_WIDTH, 3), np.uint8)
    return {"image": image, "input_ids": ids, "attention_mask": mask, "robot_state": np.stack(states)}


def bedside(count: int, tokenizer: Path, seed: int = 0) -> list[Feed]:
    """`count` moments of tasks in the simulated bedside, 720p, batch 1 each. Raises RuntimeError where nothing can draw."""
    try:
        from wardarm.policy.tokenizer import Tokenizer
        from wardarm.training.demos import Demonstrator
    except ImportError as e:
        raise RuntimeError(f"the simulated bedside is not installed: {e}") from e
    words = Tokenizer(tokenizer)
    demonstrator = Demonstrator((seed, 0), "canonical", msaa=0, full_size=True)
    feeds: list[Feed] = []
    try:
        for _ in range(count):
            demo = demonstrator.make()
            ids, mask = words.encode(demo.texts["text"])
            feeds.append(
                {
                    "image": np.ascontiguousarray(demo.image)[None], "input_ids": ids[None], "attention_mask": mask[None],
                    "robot_state": demo.numbers["state"][None],
                }
            )  # fmt: skip
    finally:
        demonstrator.close()
    return feeds
