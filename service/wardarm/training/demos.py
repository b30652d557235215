"""Demonstrations for training: a scene, a sentence, a moment of a fetch, its picture, and what the expert does next.

`python -m wardarm.training.demos --seed S --count N --out DIR [--processes P] [--split held_out]`. Process p of seed
S always makes the same demonstrations. The picture is as old as the delay on the real path: `robot_state` and the
chunk begin 0.1 to 0.6 s after it.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.kinematics import Unreachable
from wardarm.policy import contract
from wardarm.sim import scenes
from wardarm.sim.scenes import HEIGHT_M, Scene, SceneObject
from wardarm.training import expert, language, shards, starts
from wardarm.training.environment import Environment
from wardarm.training.expert import STEP_S, State, Target
from wardarm.training.phrases import Split

MOMENTS: dict[str, float] = {
    "early": 0.42,  # which piece is decided here: fewer than 40 % and the wrong one is taken
    "path": 0.12,
    "grasp": 0.14,
    "end": 0.05,
    "anywhere": 0.09,
    "above": 0.09,
    "half_open": 0.03,
    "carrying": 0.06,
}
"""Shares of where in a fetch a demonstration is taken; the last four are off the path."""
CANONICAL_SHARE = 0.6
"""So many training sentences are as the instruction gate says them; the rest has the broad grammar."""
ALSO, NOT_HERE = 3, 4
"""Further sentences for each demonstration: for the same piece, and naming nothing here. The latter go with the very
pictures and arm states of the former, so `valid` cannot be read off the arm."""
INVALID_SHARE = 0.3
"""Of a held-out set: demonstrations whose only sentence names nothing here, to score."""
SIBLING_AWAY_M = 0.10
"""With open fingers, this far from the piece meant, any other piece could be asked for: a second demonstration of the
same picture."""
AIMED_OFF_SHARE, AIMED_OFF_M, AIMED_OFF_RAD = 0.6, 0.006, 0.03
"""So often the past was aimed this far off (standard deviation): what a policy's own past looks like."""
SHARD_SIZE = 1024
_PATH_STEPS, _AFTER_DONE, _OFF_PATH_STEPS, _OFF_PATH_AGE = 185, 14, 40, 14
_APPROACHING_M = 0.035
_IK_TRIES = 20


@dataclass(frozen=True)
class Moment:
    """`path[at]` is the state at the join; `seen` the state in the picture."""

    path: list[State]
    at: int
    seen: State

    @property
    def now(self) -> State:
        return self.path[self.at]


def _between(a: State, b: State, share: float) -> State:
    mixed = (p * (1 - share) + q * share for p, q in zip(a[:7], b[:7], strict=True))
    return State._make((*mixed, a.holding))


def draw_moment(rng: np.random.Generator, target: Target) -> Moment:
    """A moment of a fetch of `target`, by the shares of MOMENTS, with the delay between picture and join."""
    name = str(rng.choice(list(MOMENTS), p=list(MOMENTS.values())))
    aim = target
    if rng.random() < AIMED_OFF_SHARE:
        dx, dy = rng.normal(0, AIMED_OFF_M, 2)
        aim = target._replace(
            x_m=target.x_m + dx, y_m=target.y_m + dy, yaw_rad=target.yaw_rad + rng.normal(0, AIMED_OFF_RAD)
        )
    if name in ("early", "path", "grasp", "end"):
        path = expert.roll_out(starts.near_home(rng), aim, _PATH_STEPS)
        finished = next((i for i, s in enumerate(path) if expert.done(s)), len(path) - 1)
        path = path[: finished + _AFTER_DONE]
        closing = next((i for i, s in enumerate(path) if s.opening < expert.OPEN), len(path) // 2)
        first, last = {
            "early": (0, max(1, closing // 2)),
            "path": (0, len(path)),
            "grasp": (closing - 16, closing + 14),
            "end": (finished - 6, finished + _AFTER_DONE),
        }[name]
        at = int(np.clip(rng.integers(first, last), 0, len(path) - 1))
    else:
        start = {
            "anywhere": lambda: starts.anywhere(rng),
            "above": lambda: starts.above(rng, target),
            "half_open": lambda: starts.half_open(rng, target),
            "carrying": lambda: starts.anywhere(rng, True, target),
        }[name]()
        path = expert.roll_out(start, aim, _OFF_PATH_STEPS)
        at = int(rng.integers(0, _OFF_PATH_AGE))
    age = rng.uniform(contract.DELAY_MIN_S, contract.DELAY_MAX_S) / STEP_S
    k = max(0.0, at - age)
    i = int(k)
    return Moment(path, at, _between(path[i], path[min(i + 1, len(path) - 1)], k - i))


def phase_of(state: State, target: Target) -> str:
    if state.holding:
        return "done" if expert.done(state) else "carry"
    if state.opening < expert.OPEN:
        return "closing"
    aside = math.hypot(state.x_m - target.x_m, state.y_m - target.y_m)
    return "approach" if aside > _APPROACHING_M else "descend"


def normalised_xy(x_m: float, y_m: float) -> NDArray[np.float64]:
    return contract.normalise(np.array([x_m, y_m, 0.0, 0.0, 0.0, 0.0]))[:2]


def labels(moment: Moment, target: Target, valid: bool, pixel: NDArray[np.float64]) -> dict[str, NDArray[np.float32]]:
    """The numbers of a demonstration (shards.NUMBERS). An invalid one stays where it is; its chunk is not trained on."""
    now = moment.now
    future = np.array(expert.roll_out(now, target, contract.HORIZON - 1) if valid else [now] * contract.HORIZON, float)
    standing = not moment.seen.holding
    low, high = contract.LOW[2], contract.HIGH[2]
    values: dict[str, Any] = {
        "state": contract.robot_state(np.array(now[:3]), np.array(now[3:6]), now.opening, now.holding),
        "traj": contract.normalise(future[:, :6]),
        "grip": future[:, 6],
        "valid": valid,
        "done": valid and expert.done(now),
        "pixel": pixel,
        "target": [*normalised_xy(target.x_m, target.y_m), math.sin(2 * target.yaw_rad), math.cos(2 * target.yaw_rad)],
        "standing": standing,
        "grasp_z": (target.grasp_z_m - low) / (high - low) * 2 - 1,
    }
    return {k: np.asarray(v, np.float32) for k, v in values.items()}


class Demonstrator:
    """Makes demonstrations, one after the other. `msaa` as in what is pooled from 720p."""

    def __init__(self, seed: Sequence[int], split: Split, msaa: int = 4) -> None:
        self._rng = np.random.default_rng(seed)
        self._split = split
        self._env = Environment(msaa=msaa)
        self._waiting: list[shards.Demo] = []

    def close(self) -> None:
        self._env.close()

    def _wording(self) -> Split:
        """Held-out sets use training wording for half of it, to compare."""
        if self._split == "train" and self._rng.random() < CANONICAL_SHARE:
            return "canonical"
        return "train" if self._split == "held_out" and self._rng.random() < 0.5 else self._split

    def _asked_for(self, scene: Scene, piece: SceneObject) -> dict[str, str] | None:
        """Sentences for a piece and for nothing here (shards.TEXTS but the phase); None if no sentence means just it."""
        rng, here = self._rng, scene.objects
        wordings = [self._wording() for _ in range(1 + ALSO)]
        said = []
        for wording in wordings:
            reference = language.choose_reference(rng, here, piece)
            if reference is None:
                return None
            said.append(language.ask_for(rng, reference, wording))
        not_here = [language.ask_for_nothing_here(rng, here, self._wording()) for _ in range(NOT_HERE)]
        return {"text": said[0], "wording": wordings[0], "also": "\n".join(said[1:]), "not_here": "\n".join(not_here)}

    def make(self) -> shards.Demo:
        """The next demonstration. A second one of the same picture follows the first at once."""
        if not self._waiting:
            self._waiting = self._of_one_picture()
        return self._waiting.pop(0)

    def _of_one_picture(self) -> list[shards.Demo]:
        while True:
            scene = scenes.sample(self._rng)
            piece = scene.objects[int(self._rng.integers(len(scene.objects)))]
            texts = self._asked_for(scene, piece)
            if texts is None:
                continue
            valid = self._split != "held_out" or self._rng.random() >= INVALID_SHARE
            if not valid:
                texts |= {"text": texts["not_here"].split("\n")[0]}
            target = expert.target_of(piece)
            for _ in range(_IK_TRIES):
                moment = draw_moment(self._rng, target)
                self._env.load(scene)
                try:
                    self._env.pose(moment.seen, piece, self._rng)
                except Unreachable:
                    continue
                self._env.vary(self._rng)
                image = self._env.draw().copy()
                made = [self._demo(image, moment, piece, texts, valid)]
                sibling = self._sibling(scene, piece, moment) if valid else None
                return made if sibling is None else [*made, self._demo(image, moment, *sibling, True)]

    def _demo(
        self, image: NDArray[np.uint8], moment: Moment, piece: SceneObject, texts: dict[str, str], valid: bool
    ) -> shards.Demo:
        target = expert.target_of(piece)
        pixel = self._env.project(np.array([piece.x_m, piece.y_m, HEIGHT_M[piece.kind] / 2]))
        phase = phase_of(moment.now, target) if valid else "invalid"
        return shards.Demo(image, labels(moment, target, valid, pixel), texts | {"phase": phase})

    def _sibling(self, scene: Scene, piece: SceneObject, moment: Moment) -> tuple[SceneObject, dict[str, str]] | None:
        """Another piece that could be asked for at this moment, and the sentences; None once it is too late."""
        now, others = moment.now, [o for o in scene.objects if o.name != piece.name]
        away = math.hypot(now.x_m - piece.x_m, now.y_m - piece.y_m)
        if now.opening < expert.OPEN or now.holding or moment.seen.holding or away < SIBLING_AWAY_M:
            return None
        other = others[int(self._rng.integers(len(others)))]
        texts = self._asked_for(scene, other)
        return None if texts is None else (other, texts)


@dataclass(frozen=True)
class Order:
    """What one process makes: up to `count` demonstrations within `seconds`."""

    seed: int
    process: int
    count: int
    seconds: float
    split: Split
    out: Path
    msaa: int


def carry_out(order: Order) -> int:
    """Make and write shards; returns how many demonstrations."""
    demonstrator = Demonstrator((order.seed, order.process), order.split, order.msaa)
    ends, made, number = time.monotonic() + order.seconds, 0, 0
    meta = {"seed": order.seed, "process": order.process, "split": order.split, "msaa": order.msaa}
    while made < order.count and time.monotonic() < ends:
        demos: list[shards.Demo] = []
        while len(demos) < min(SHARD_SIZE, order.count - made) and time.monotonic() < ends:
            demos.append(demonstrator.make())
        if demos:
            shards.write(order.out, f"{order.split}-{order.seed}-{order.process:03d}-{number:04d}", demos, meta)
        made, number = made + len(demos), number + 1
    demonstrator.close()
    return made


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.demos", description=__doc__)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--count", type=int, required=True, help="demonstrations, all processes together")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--processes", type=int, default=1)
    p.add_argument("--seconds", type=float, default=math.inf, help="stop after this, whatever the count")
    p.add_argument("--split", choices=("canonical", "plain", "train", "held_out"), default="train")
    p.add_argument("--msaa", type=int, default=4, help="samples a pixel: small pictures then look like pooled 720p")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    begun = time.monotonic()
    each = [a.count // a.processes + (p < a.count % a.processes) for p in range(a.processes)]
    orders = [Order(a.seed, p, n, a.seconds, a.split, a.out, a.msaa) for p, n in enumerate(each)]
    if a.processes == 1:
        made = carry_out(orders[0])
    else:  # spawned: a GL context does not survive a fork
        with multiprocessing.get_context("spawn").Pool(a.processes) as pool:
            made = sum(pool.map(carry_out, orders, chunksize=1))
    took = time.monotonic() - begun
    print(f"{made} demonstrations in {took:.1f} s ({made / took:.0f}/s) in {a.out}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
