"""Demonstrations for training: a scene, a task, a sentence, a moment of it, its picture, and what the expert does next.

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
from wardarm.sim.scenes import COLORS, HEIGHT_M, KINDS, Scene
from wardarm.training import expert, shards, starts, tasks
from wardarm.training.environment import IMAGE_HEIGHT, IMAGE_WIDTH, WIDE, Environment
from wardarm.training.expert import HAND_OVER, STEP_S, Goal, State, Target
from wardarm.training.phrases import Split
from wardarm.training.tasks import Task

MOMENTS: dict[str, float] = {
    "early": 0.40,  # which piece is decided here: fewer than 40 % and the wrong one is taken
    "path": 0.11,
    "grasp": 0.12,
    "end": 0.06,
    "anywhere": 0.08,
    "above": 0.08,
    "half_open": 0.03,
    "carrying": 0.06,
    "arriving": 0.06,
}
"""Shares of where in a task a demonstration is taken; the last five are off the path."""
FAILED_WEIGHT = 2.0
"""A demonstration whose past had failed (fingers closed on nothing, or would have) counts twice."""
FAILED_BEYOND_M = 0.010
"""Aimed this far off, every fifth grasp fails in physics (82 % at 10 mm)."""
CANONICAL_SHARE = 0.6
"""So many training sentences are as the instruction gate says them; the rest has the broad grammar."""
ALSO, NOT_HERE = shards.SENTENCES_HERE - 1, shards.SENTENCES_NOT_HERE
"""Further sentences for each demonstration: for the same piece, and naming nothing here. The latter go with the very
pictures and arm states of the former, so `valid` cannot be read off the arm."""
INVALID_SHARE = 0.3
"""Of a held-out set: demonstrations whose only sentence names nothing here, to score."""
SIBLING_AWAY_M = 0.10
"""With open fingers, this far from the piece meant, any other piece could be asked for: a second demonstration of the
same picture."""
AIMED_OFF_SHARE, AIMED_OFF_M, AIMED_OFF_RAD = 0.6, 0.006, 0.03
"""So often the past was aimed this far off (standard deviation): what a policy's own past looks like."""
WIDE_SHARE = 0.5
"""So many pictures have the camera as a careful installer leaves it, dim light and glass; the others vary less."""
GOAL_PIXEL_Z_M = 0.03
"""Height of a goal's label in the picture: that of the network's grid of cells."""
SHARD_SIZE = 1024
_LONG_STEPS = 270
_PATH_STEPS, _AFTER_DONE, _OFF_PATH_STEPS, _OFF_PATH_AGE = 185, 14, 40, 14
_APPROACHING_M = 0.035
_IK_TRIES = 20


@dataclass(frozen=True)
class Moment:
    """`path[at]` is the state at the join; `seen` the state in the picture."""

    path: list[State]
    at: int
    seen: State
    failed: bool = False

    @property
    def now(self) -> State:
        return self.path[self.at]


def _between(a: State, b: State, share: float) -> State:
    mixed = (p * (1 - share) + q * share for p, q in zip(a[:7], b[:7], strict=True))
    return State._make((*mixed, a.holding))


def draw_moment(rng: np.random.Generator, target: Target, goal: Goal = HAND_OVER) -> Moment:
    """A moment of taking `target` to `goal`, by the shares of MOMENTS, with the delay between picture and join."""
    name = str(rng.choice(list(MOMENTS), p=list(MOMENTS.values())))
    aim = target
    if rng.random() < AIMED_OFF_SHARE:
        dx, dy = rng.normal(0, AIMED_OFF_M, 2)
        aim = target._replace(
            x_m=target.x_m + dx, y_m=target.y_m + dy, yaw_rad=target.yaw_rad + rng.normal(0, AIMED_OFF_RAD)
        )
    if name in ("early", "path", "grasp", "end"):
        path = expert.roll_out(starts.near_home(rng), aim, _PATH_STEPS if goal == HAND_OVER else _LONG_STEPS, goal)
        finished = next((i for i, s in enumerate(path) if expert.done(s, goal)), len(path) - 1)
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
            "arriving": lambda: starts.arriving(rng, target, goal),
        }[name]()
        path = expert.roll_out(start, aim, _OFF_PATH_STEPS, goal)
        at = int(rng.integers(0, _OFF_PATH_AGE))
    age = rng.uniform(contract.DELAY_MIN_S, contract.DELAY_MAX_S) / STEP_S
    k = max(0.0, at - age)
    i = int(k)
    failed = name == "half_open" or math.hypot(aim.x_m - target.x_m, aim.y_m - target.y_m) > FAILED_BEYOND_M
    return Moment(path, at, _between(path[i], path[min(i + 1, len(path) - 1)], k - i), failed)


def phase_of(state: State, target: Target, goal: Goal = HAND_OVER) -> str:
    if state.holding:
        return "done" if expert.done(state, goal) else "carry"
    if state.opening < expert.OPEN:
        return "closing"
    aside = math.hypot(state.x_m - target.x_m, state.y_m - target.y_m)
    return "approach" if aside > _APPROACHING_M else "descend"


def normalised_xy(x_m: float, y_m: float) -> NDArray[np.float64]:
    return contract.normalise(np.array([x_m, y_m, 0.0, 0.0, 0.0, 0.0]))[:2]


def labels(
    moment: Moment, target: Target, valid: bool, pixel: NDArray[np.float64], goal: Goal = HAND_OVER,
    goal_pixel: NDArray[np.float64] | None = None,
) -> dict[str, NDArray[np.float32]]:  # fmt: skip
    """The numbers of a demonstration (shards.NUMBERS). An invalid one stays where it is; its chunk is not trained on."""
    now = moment.now
    steps = contract.HORIZON - 1
    future = np.array(expert.roll_out(now, target, steps, goal) if valid else [now] * contract.HORIZON, float)
    standing = not moment.seen.holding
    low, high = contract.LOW[2], contract.HIGH[2]
    values: dict[str, Any] = {
        "state": contract.robot_state(np.array(now[:3]), np.array(now[3:6]), now.opening, now.holding),
        "traj": contract.normalise(future[:, :6]),
        "grip": future[:, 6],
        "valid": valid,
        "done": valid and expert.done(now, goal),
        "pixel": pixel,
        "target": [*normalised_xy(target.x_m, target.y_m), math.sin(2 * target.yaw_rad), math.cos(2 * target.yaw_rad)],
        "standing": standing,
        "grasp_z": (target.grasp_z_m - low) / (high - low) * 2 - 1,
        "goal": [*normalised_xy(goal.x_m, goal.y_m), (goal.z_m - low) / (high - low) * 2 - 1],
        "goal_pixel": pixel if goal_pixel is None else goal_pixel,
        "placing": goal != HAND_OVER,
        "tilting": goal.pitch_rad != 0,
        "weight": FAILED_WEIGHT if moment.failed else 1.0,
        "pieces": np.full(shards.NUMBERS["pieces"], -1.0),
    }
    return {k: np.asarray(v, np.float32) for k, v in values.items()}


class Demonstrator:
    """Makes demonstrations, one after the other. `msaa` as in what is pooled from 720p."""

    def __init__(self, seed: Sequence[int], split: Split, msaa: int = 4, full_size: bool = False) -> None:
        self._rng = np.random.default_rng(seed)
        self._split = split
        size = (contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT) if full_size else (IMAGE_WIDTH, IMAGE_HEIGHT)
        self._env = Environment(*size, msaa=msaa)
        self._waiting: list[shards.Demo] = []

    def close(self) -> None:
        self._env.close()

    def _wording(self) -> Split:
        """Held-out sets use training wording for half of it, to compare."""
        if self._split == "train" and self._rng.random() < CANONICAL_SHARE:
            return "canonical"
        return "train" if self._split == "held_out" and self._rng.random() < 0.5 else self._split

    def _texts(self, scene: Scene, task: Task) -> dict[str, str]:
        """Sentences for the task and for nothing here (shards.TEXTS but the phase)."""
        rng = self._rng
        wordings = [self._wording() for _ in range(1 + ALSO)]
        said = [tasks.ask(rng, scene, task, w) for w in wordings]
        not_here = [tasks.ask_for_nothing_here(rng, scene, self._wording()) for _ in range(NOT_HERE)]
        return {
            "text": said[0], "wording": wordings[0], "also": "\n".join(said[1:]), "not_here": "\n".join(not_here),
            "task": task.kind,
        }  # fmt: skip

    def make(self) -> shards.Demo:
        """The next demonstration. A second one of the same picture follows the first at once."""
        if not self._waiting:
            self._waiting = self._of_one_picture()
        return self._waiting.pop(0)

    def _of_one_picture(self) -> list[shards.Demo]:
        while True:
            scene, task = tasks.draw(self._rng)
            valid = self._split != "held_out" or self._rng.random() >= INVALID_SHARE
            for _ in range(_IK_TRIES):
                moment = draw_moment(self._rng, task.target, task.goal)
                self._env.load(scene)
                try:
                    self._env.pose(moment.seen, task.piece, self._rng)
                except Unreachable:
                    continue
                self._env.vary(self._rng, WIDE if self._rng.random() < WIDE_SHARE else None)
                image = self._env.draw().copy()
                made = [self._demo(image, moment, scene, task, valid)]
                sibling = self._sibling(scene, task, moment) if valid else None
                return made if sibling is None else [*made, self._demo(image, moment, scene, sibling, True)]

    def _demo(self, image: NDArray[np.uint8], moment: Moment, scene: Scene, task: Task, valid: bool) -> shards.Demo:
        piece, target = task.piece, task.target
        texts = self._texts(scene, task)
        if not valid:
            texts |= {"text": texts["not_here"].split("\n")[0]}
        pixel = self._env.project(np.array([piece.x_m, piece.y_m, HEIGHT_M[piece.kind] / 2]))
        towards = task.other if task.kind == "pour" and task.other else None
        goal_xy = (towards.x_m, towards.y_m) if towards else task.goal[:2]
        goal_pixel = self._env.project(np.array([*goal_xy, GOAL_PIXEL_Z_M]))
        phase = phase_of(moment.now, target, task.goal) if valid else "invalid"
        numbers = labels(moment, target, valid, pixel, task.goal, goal_pixel)
        numbers["pieces"] = self._pieces(scene)
        return shards.Demo(image, numbers, texts | {"phase": phase})

    def _pieces(self, scene: Scene) -> NDArray[np.float32]:
        """Where every piece is in the picture as it was drawn, also one in the fingers (shards.NUMBERS)."""
        data, world = self._env.world.data, self._env.world
        found = np.full(shards.NUMBERS["pieces"], -1.0, np.float32)
        for i, o in enumerate(scene.objects[: shards.PIECES]):
            body = world.body_id(o.name)
            middle = data.xpos[body] + data.xmat[body].reshape(3, 3) @ [0.0, 0.0, HEIGHT_M[o.kind] / 2]
            at = self._env.project(middle)
            if ((at >= 0) & (at < 1)).all():
                found[i] = [*at, KINDS.index(o.kind), list(COLORS).index(o.color)]
        return found

    def _sibling(self, scene: Scene, task: Task, moment: Moment) -> Task | None:
        """Another task that could be asked for at this moment; None once it is too late."""
        now, piece = moment.now, task.piece
        away = math.hypot(now.x_m - piece.x_m, now.y_m - piece.y_m)
        if now.opening < expert.OPEN or now.holding or moment.seen.holding or away < SIBLING_AWAY_M:
            return None
        return tasks.another(self._rng, scene, task)


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
    p.add_argument(
        "--format", choices=("shards", "lerobot"), default="shards", help="lerobot: whole tasks, --count of them"
    )
    p.add_argument("--msaa", type=int, default=4, help="samples a pixel: small pictures then look like pooled 720p")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    begun = time.monotonic()
    if a.format == "lerobot":
        from wardarm.training.record import record

        try:
            moments = record(a.out, a.seed, a.count, a.split, a.msaa)
        except (FileExistsError, ImportError) as e:
            print(f"{e} (the LeRobot format needs: pip install pyarrow av)", file=sys.stderr)
            return 2
        print(f"{a.count} episodes, {moments} moments in {time.monotonic() - begun:.1f} s in {a.out}", file=sys.stderr)
        return 0
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
