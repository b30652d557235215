"""A frozen process: the PWM is off within the word deadline after its last beat, not a loop of gate's after it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from board_clock import Clock, blocks
from test_model_processes import Line
from wardarm.config import Config
from wardarm.gate import main as gate_main
from wardarm.gate.main import Gate
from wardarm.gate.words import OwnWord
from wardarm.processes import required_words
from wardarm.shm import ring
from wardarm.shm.layouts import BlockKind, ProcessId

MS = 1_000_000


@pytest.mark.parametrize("silent", [ProcessId.GUARD, ProcessId.API, ProcessId.ARM, None])
@pytest.mark.parametrize(("deadline_ms", "loop_ms"), [(100, 5), (250, 10), (20, 50)])
def test_what_would_be_late_before_the_next_look_is_late_now(
    monkeypatch: pytest.MonkeyPatch, deadline_ms: int, loop_ms: int, silent: ProcessId | None
) -> None:
    """`silent` None: arm's status, not its word."""
    clock = Clock().take(monkeypatch, gate_main)
    for prefix in blocks():
        config = Config.model_validate(
            {"schema": 1, "shm": {"prefix": prefix}, "gate": {"word_deadline_ms": deadline_ms, "loop_ms": loop_ms}}
        )
        words = {p: OwnWord(p, prefix, 0.0) for p in required_words(config)}
        status = ring.Writer(BlockKind.ARM_STATUS, prefix)
        line = Line(clock)
        gate = Gate(config, line, SimpleNamespace(beat=lambda _: None))  # type: ignore[arg-type]

        def beat(
            but: ProcessId | None, arm: bool, request: int = 1, words: object = words, status: ring.Writer = status
        ) -> None:
            for process, word in words.items():  # type: ignore[attr-defined]
                if process is not but:
                    word.say(True)
            if arm:
                record = status.blank()
                record["motion_request"], record["request_seq"] = request, request
                status.publish(record)

        for request in (0, 1):
            beat(None, True, request)
            gate.loop()
        assert line.is_on
        last_ns, step_ns = clock.now_ns, max(min(loop_ms, deadline_ms // 4), 1) * MS
        while line.is_on:
            clock.now_ns += step_ns
            assert clock.now_ns - last_ns <= deadline_ms * MS, "still on after the deadline"
            beat(silent, arm=silent is not None)
            gate.loop()
        assert clock.now_ns - last_ns >= 0.5 * deadline_ms * MS
