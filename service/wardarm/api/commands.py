"""Commands to the arm process and its answer: resume, stop, recover, power on."""

from __future__ import annotations

import asyncio
import time

from wardarm.api.board import Board
from wardarm.api.errors import precondition
from wardarm.shm import ring
from wardarm.shm.layouts import MAX_HOLDS, TEXT, BlockKind, CommandKind

POLL_S = 0.005


class CommandWriter:
    """The one writer of `wardarm_command`; `seq` goes on counting after a restart."""

    def __init__(self, prefix: str, board: Board) -> None:
        self._writer = ring.Writer(BlockKind.COMMAND, prefix)
        before = ring.Reader(BlockKind.COMMAND, prefix).latest()
        self.seq = int(before.data["seq"]) if before else 0
        self._board = board

    def send(self, kind: CommandKind, actor: str, hold_seqs: list[int] | None = None) -> int:
        seqs = hold_seqs or []
        if len(seqs) > MAX_HOLDS:
            raise ValueError(f"hold_seqs has {len(seqs)} entries, limit {MAX_HOLDS}")
        block = self._writer.blank()
        self.seq += 1
        block["seq"], block["kind"], block["hold_count"] = self.seq, kind, len(seqs)
        block["hold_seqs"][: len(seqs)] = seqs
        block["actor"] = ring.encode(actor, TEXT)
        self._writer.publish(block)
        return self.seq

    async def answer(self, seq: int, timeout_s: float) -> None:
        """Returns once the arm has carried the command out. Raises Refused with the arm's text, or if it stays silent."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            arm = self._board.read().arm
            if arm is not None:
                answered = int(arm["command_seq"])
                if answered == seq:
                    if int(arm["command_result"]) == 0:
                        return
                    text = ring.text(arm["command_reason"]) or f"refusal {int(arm['command_result'])}"
                    raise precondition("ARM_REFUSED", f"the arm refused: {text}")
                if answered > seq:
                    raise precondition(
                        "SUPERSEDED", "a later command reached the arm first (a stop, most likely); see GetState"
                    )
            await asyncio.sleep(POLL_S)
        raise precondition(
            "CONTROLLER_NOT_NORMAL",
            f"the arm process did not answer within {timeout_s:g} s; see 'wardarm status' and the log of arm",
        )
