"""The eye process with an expert in the model's place: `python eye_program.py --config FILE`. To be killed by a test."""

from __future__ import annotations

import sys

from eye_bedside import HAND_OVER, THING
from eye_expert import ExpertModel
from wardarm.config import Config
from wardarm.eye import main
from wardarm.eye.frames import FrameBoard
from wardarm.policy.tokenizer import Tokenizer


class Expert(ExpertModel):
    """Needs no server."""

    def close(self) -> None:
        """Nothing is open."""


def expert(_config: Config, board: FrameBoard, _tokenizer: Tokenizer) -> Expert:
    return Expert(board, THING, HAND_OVER)


if __name__ == "__main__":
    main.Model = expert  # type: ignore[assignment,misc]
    sys.exit(main.main())
