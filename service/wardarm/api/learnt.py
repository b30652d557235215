"""What the served model was trained for, as eye reads it from Triton: a sentence beyond it is turned down before anything moves."""

from __future__ import annotations

from dataclasses import replace

from wardarm.api.board import Picture
from wardarm.policy.instruction import Instructions, Reading
from wardarm.policy.refusal import refuse
from wardarm.shm.layouts import StepKind

_OF_THE_MODEL = {
    StepKind.FETCH: ("拿东西", "to fetch"),
    StepKind.PUT: ("把东西放到别的东西旁边", "to put one thing beside another"),
    StepKind.POUR: ("倒水", "to pour"),
    StepKind.PUT_BACK: ("放回", "to put back"),
    StepKind.HAND_OVER: ("递到手上", "to hand over"),
}


def kinds(picture: Picture) -> frozenset[StepKind]:
    """What the served model can do; empty while eye has not said so (it then judges each step itself)."""
    mask = 0 if picture.progress is None else int(picture.progress["model_tasks"])
    return frozenset(k for k in _OF_THE_MODEL if mask >> k & 1)


def judge(reading: Reading, known: frozenset[StepKind], instructions: Instructions) -> Reading:
    """`reading`, or a refusal NOT_LEARNT if a step needs what is not in `known`. What is said instead is within it too."""
    if not known:
        return reading
    for step in reading.steps:
        if _beyond(step.kind, known):
            what_zh, what_en = _OF_THE_MODEL[step.kind]
            refusal = refuse("NOT_LEARNT", reading.language, what_zh=what_zh, what_en=what_en)
            reading = replace(reading, steps=(), refusal=refusal, read_back="")
            break
    if reading.refusal is None:
        return reading
    instead = tuple(
        sentence
        for sentence in reading.refusal.say_instead
        if not any(_beyond(s.kind, known) for s in instructions.read(sentence).steps)
    )
    return replace(reading, refusal=replace(reading.refusal, say_instead=instead))


def _beyond(kind: StepKind, known: frozenset[StepKind]) -> bool:
    return kind in _OF_THE_MODEL and kind not in known
