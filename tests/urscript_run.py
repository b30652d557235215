"""One URScript program on a whole controller in lock-step: what it says and how it ends."""

from __future__ import annotations

from typing import Any

from wardarm.sim.lockstep import Lockstep
from wardarm.sim.ur_controller import Runtime


def run(body: str, cycles: int = 2000, **more: Any) -> tuple[list[str], str]:
    """What a program says, and the error it ends with. The body begins on line 2."""
    with Lockstep(**more) as sim:
        sim.controller.submit(f"def prog():\n{body}\nend\n")
        sim.step()
        for _ in range(cycles):
            if sim.controller.slot.runtime is not Runtime.PLAYING:
                break
            sim.step()
        said = [line.removeprefix("textmsg: ") for line in sim.log(1000) if line.startswith("textmsg: ")]
        return said, sim.controller.slot.last_error


def said(body: str, **more: Any) -> list[str]:
    lines, error = run(body, **more)
    assert not error
    return lines
