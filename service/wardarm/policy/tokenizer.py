"""Text of one step -> `input_ids` and `attention_mask` of the policy.

The vocabulary is SentencePiece BPE (8,000 pieces, byte fallback) in `tokenizer.model` beside the weights: both were
trained together, so their hashes travel together (contract.parameters).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from wardarm.policy import contract


class InstructionTooLong(ValueError):
    """The instruction has more tokens than the model takes; say it in fewer words."""


class Tokenizer:
    def __init__(self, model: Path) -> None:
        self.path = model
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def encode(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """(input_ids, attention_mask), each INT32 of shape (128,): tokens, then zeros.

        Raises InstructionTooLong beyond 128 tokens and ValueError for a text without any: a cut sentence may name
        another object than the whole one does.
        """
        tokens = self._pieces.encode(text)
        if not tokens:
            raise ValueError("text is empty: the model needs an instruction, such as 'bring me the blue cup'")
        if len(tokens) > contract.TOKENS:
            raise InstructionTooLong(
                f"text has {len(tokens)} tokens, the limit is {contract.TOKENS}: say it in fewer words"
            )
        ids = np.zeros(contract.TOKENS, np.int32)
        mask = np.zeros(contract.TOKENS, np.int32)
        ids[: len(tokens)] = tokens
        mask[: len(tokens)] = 1
        return ids, mask
