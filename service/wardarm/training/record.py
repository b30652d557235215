"""Whole tasks of the expert in the simulated bedside, as a LeRobot data set (`wardarm policy demos --format lerobot`)."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from wardarm.kinematics import Unreachable
from wardarm.training import expert, starts, tasks
from wardarm.training.environment import Environment
from wardarm.training.lerobot import Recording, Writer
from wardarm.training.phrases import Split

_STEPS, _AFTER_DONE = 270, 6


def record(folder: Path, seed: int, count: int, split: Split, msaa: int = 4) -> int:
    """`count` episodes at 20 Hz, a picture a moment. Returns how many moments."""
    rng = np.random.default_rng(seed)
    env = Environment(msaa=msaa)
    writer = Writer(folder)
    moments = number = 0
    while number < count:
        scene, task = tasks.draw(rng)
        path = expert.roll_out(starts.near_home(rng), task.target, _STEPS, task.goal)
        finished = next(i for i, s in enumerate(path) if expert.done(s, task.goal))
        path = path[: finished + _AFTER_DONE]
        env.load(scene)
        env.vary(rng)
        pictures = []
        try:
            for state in path:
                env.pose(state, task.piece)
                pictures.append(env.draw().copy())
        except Unreachable:
            continue
        wording: Split = "canonical" if split == "train" else split
        text = tasks.ask(rng, scene, task, wording)
        writer.add(
            Recording(
                text,
                np.array(path, np.float64),
                np.stack(pictures),
                split="held_out" if split == "held_out" else "train",
            )
        )
        number, moments = number + 1, moments + len(path)
        if number % 10 == 0:
            print(f"{number} of {count} episodes", file=sys.stderr)
    writer.close()
    env.close()
    return moments
