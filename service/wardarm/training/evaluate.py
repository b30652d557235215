"""How often the policy in an ONNX file really does what is asked: closed loop, physics, 720p, through the contract.

`python -m wardarm.training.evaluate --onnx FILE --episodes N --seed S --task put --json`. Episode i of seed S is the same
scene, sentence and looks on every computer.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.policy.view import Rectifier
from wardarm.sim import scenes
from wardarm.sim.scenes import KINDS, Scene, SceneObject
from wardarm.training import language, tasks
from wardarm.training.environment import WIDE, Environment
from wardarm.training.episodes import Nudge, Outcome, Policy, Timing, run_episode
from wardarm.training.expert import HAND_OVER, State
from wardarm.training.expert_policy import ExpertPolicy
from wardarm.training.onnx_policy import Chunk, ContractMismatch, OnnxPolicy
from wardarm.training.phrases import Split
from wardarm.training.starts import near_home
from wardarm.training.tasks import TASKS, Task, TaskKind

DEFAULT_ONNX = Path("model_repository") / contract.MODEL / "1" / "policy.onnx"
NUDGE_AT_S, NUDGE_M = 1.5, 0.03
VALID_MIN = 0.5
"""As eye.valid_min of the configuration."""


@dataclass(frozen=True)
class Episode:
    """What one episode begins with."""

    scene: Scene
    task: Task
    text: str
    start: State

    @property
    def target(self) -> SceneObject:
        return self.task.piece


def draw_episode(rng: np.random.Generator, split: Split, kind: TaskKind | None = None) -> Episode:
    """A scene, a task in it, a sentence for it, the arm about home. Without `kind`: a fetch in the desk's colours."""
    if kind is not None:
        scene, task = tasks.draw(rng, kind)
        return Episode(scene, task, tasks.ask(rng, scene, task, split), near_home(rng))
    while True:
        scene = scenes.sample(rng)
        target = scene.objects[int(rng.integers(len(scene.objects)))]
        reference = language.choose_reference(rng, scene.objects, target)
        if reference is not None:
            task = Task("fetch", target, HAND_OVER)
            return Episode(scene, task, language.ask_for(rng, reference, split), near_home(rng))


def _quantile(values: Sequence[float], q: float) -> float | None:
    return round(float(np.quantile(values, q)), 2) if values else None


def _share(values: Sequence[bool]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of a run. Grasp errors are over the grasps meant for the right piece; mm, deg, s, m/s."""
    closed = [o for o in outcomes if o.grounded is not None]
    right = [o for o in closed if o.grounded]
    errors = [o.grasp_error_mm for o in right if o.grasp_error_mm is not None]
    heights = [abs(o.grasp_height_error_mm) for o in right if o.grasp_height_error_mm is not None]
    yaws = [o.grasp_yaw_error_deg for o in right if o.kind == "spoon" and o.grasp_yaw_error_deg is not None]
    joins = [j for o in outcomes for j in o.joins_mm]
    ends = [o.done_s for o in outcomes if o.success and o.done_s is not None]
    end_errors = [o.end_error_mm for o in outcomes if o.grounded and o.end_error_mm is not None]
    end_angles = [o.end_angle_deg for o in outcomes if o.grounded and o.end_angle_deg is not None]
    return {
        "episodes": len(outcomes),
        "fetched": sum(o.fetched for o in outcomes),
        "by_kind": {
            k: [sum(o.fetched for o in outcomes if o.kind == k), sum(o.kind == k for o in outcomes)] for k in KINDS
        },
        "never_closed": len(outcomes) - len(closed),
        "grounded": _share([bool(o.grounded) for o in closed]),
        "grasp_error_mm": {"p50": _quantile(errors, 0.5), "p95": _quantile(errors, 0.95)},
        "grasp_height_error_mm": {"p50": _quantile(heights, 0.5), "p95": _quantile(heights, 0.95)},
        "spoon_yaw_error_deg": {"p50": _quantile(yaws, 0.5), "p95": _quantile(yaws, 0.95)},
        "valid_first_below_half": sum(o.valid_first < VALID_MIN for o in outcomes),
        "done_away": sum(o.done_away for o in outcomes),
        "others_moved_over_20_mm": sum(o.others_moved_mm > 20 for o in outcomes),
        "unreachable_points": sum(o.unreachable for o in outcomes),
        "end_error_mm": {"p50": _quantile(end_errors, 0.5), "p95": _quantile(end_errors, 0.95)},
        "end_angle_deg": {"p50": _quantile(end_angles, 0.5), "p95": _quantile(end_angles, 0.95)},
        "duration_s": {"p50": _quantile(ends, 0.5), "p95": _quantile(ends, 0.95)},
        "chunk_top_speed_m_s": {
            "p50": _quantile([o.top_speed_m_s for o in outcomes], 0.5),
            "max": max((round(o.top_speed_m_s, 3) for o in outcomes), default=None),
        },
        "join_disagreement_mm": {"p50": _quantile(joins, 0.5), "p95": _quantile(joins, 0.95)},
    }


@dataclass(frozen=True)
class Options:
    onnx: Path
    tokenizer: Path
    episodes: int
    seed: int
    split: Split
    nominal_looks: bool
    nudge: bool
    timing: Timing
    threads: int
    seconds: float
    refusals: int = 0
    task: TaskKind | None = None
    wide_looks: bool = False
    camera_moved: tuple[float, float] = (0.0, 0.0)  # m, rad, in a drawn direction
    calibrated: bool = True


def refused(options: Options, env: Environment, policy: OnnxPolicy) -> float | None:
    """Share of sentences that name nothing here which `valid` refuses: asked once, from home."""
    said_no = []
    for i in range(options.refusals):
        rng = np.random.default_rng([options.seed, i, 1])
        scene = scenes.sample(rng)
        env.load(scene)
        if not options.nominal_looks:
            env.vary(rng)
        start = near_home(rng)
        env.pose(start)
        state = contract.robot_state(np.array(start[:3]), np.array(start[3:6]), start.opening, start.holding)
        text = language.ask_for_nothing_here(rng, scene.objects, options.split)
        said_no.append(policy.infer(env.draw(), text, state).valid < VALID_MIN)
    return _share(said_no)


class Rectified:
    """A policy behind a calibrated camera that stands elsewhere than the trained one."""

    def __init__(self, policy: OnnxPolicy, rectifier: Rectifier) -> None:
        self._policy, self._rectifier = policy, rectifier

    def infer(self, image: NDArray[np.uint8], text: str, state: NDArray[np.float32]) -> Chunk:
        return self._policy.infer(self._rectifier(image), text, state)


def _move_camera(env: Environment, rng: np.random.Generator, options: Options) -> Callable[[OnnxPolicy], Policy]:
    """Move the camera as asked, in a direction of its own, and say through what the policy then sees."""
    far_m, turn_rad = options.camera_moved
    if not far_m and not turn_rad:
        return lambda policy: policy
    shift, turn = rng.normal(size=3), rng.normal(size=3)
    env.move_camera(shift / np.linalg.norm(shift) * far_m, turn / np.linalg.norm(turn) * turn_rad)
    if not options.calibrated:
        return lambda policy: policy
    return lambda policy: Rectified(policy, Rectifier(env.camera_pose()))


def evaluate(options: Options, env: Environment, policy: OnnxPolicy | None, report: bool = False) -> list[Outcome]:
    """Run the episodes, until `seconds` are over; without a policy the expert acts. `report`: a line each on stderr."""
    outcomes: list[Outcome] = []
    ends = time.monotonic() + options.seconds
    for i in range(options.episodes):
        if time.monotonic() > ends:
            break
        rng = np.random.default_rng([options.seed, i])
        episode = draw_episode(rng, options.split, options.task)
        env.load(episode.scene)
        if not options.nominal_looks:
            env.vary(rng, WIDE if options.wide_looks else None)
        env.pose(episode.start)
        seen_by = _move_camera(env, rng, options)
        angle = float(rng.uniform(0, 2 * math.pi))
        nudge = Nudge(NUDGE_AT_S, (NUDGE_M * math.cos(angle), NUDGE_M * math.sin(angle))) if options.nudge else None
        actor = seen_by(policy) if policy else ExpertPolicy(episode.task.target, goal=episode.task.goal)
        outcome = run_episode(
            env, actor, episode.scene, episode.task, episode.text, episode.start, options.timing, nudge
        )
        outcomes.append(outcome)
        if report:
            error = "never closed" if outcome.grasp_error_mm is None else f"{outcome.grasp_error_mm:.1f} mm off"
            word = "done" if outcome.success else "FAILED"
            print(
                f"{i:4d} {word:8s}{outcome.task:10s}{outcome.kind:7s}{error:14s}{outcome.end_s:5.1f} s  {outcome.text}",
                file=sys.stderr,
            )
    return outcomes


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.evaluate", description=__doc__)
    p.add_argument("--onnx", type=Path, default=DEFAULT_ONNX)
    p.add_argument("--tokenizer", type=Path, help="default: tokenizer.model beside the ONNX file")
    p.add_argument("--episodes", type=int, default=24)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--seconds", type=float, default=math.inf, help="begin no further episode after this")
    p.add_argument(
        "--split",
        choices=("canonical", "plain", "train", "held_out"),
        default="plain",
        help="wording (docs/training.md)",
    )
    p.add_argument("--nominal-looks", action="store_true", help="light, colours and camera as the desk shows them")
    p.add_argument("--nudge", action="store_true", help=f"move the piece {NUDGE_M * 1e3:.0f} mm during the approach")
    p.add_argument("--period", type=float, default=Timing().period_s, help="replan every so many s")
    p.add_argument("--delay", type=float, default=Timing().delay_s, help="from picture to join, s")
    p.add_argument("--task", choices=TASKS, help="default: a fetch in the desk's six colours")
    p.add_argument("--wide-looks", action="store_true", help="camera 10 mm and 1 degree off, dusk, cups of glass")
    p.add_argument(
        "--camera-moved", type=float, nargs=2, default=(0.0, 0.0), metavar=("MM", "DEG"),
        help="the camera stands so far from the trained view, calibrated: pictures are rectified",
    )  # fmt: skip
    p.add_argument(
        "--not-calibrated", action="store_true", help="with --camera-moved: nobody knows, nothing is rectified"
    )
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--expert", action="store_true", help="the expert instead of the file: what physics allows")
    p.add_argument("--refusals", type=int, default=0, help="also ask so often for what is not there, from home")
    p.add_argument("--json", action="store_true", help="print one JSON object to stdout")
    p.add_argument("--out", type=Path, help="write the JSON with every episode here too")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    options = Options(
        a.onnx, a.tokenizer or a.onnx.with_name("tokenizer.model"), a.episodes, a.seed, a.split, a.nominal_looks,
        a.nudge, Timing(a.period, a.delay), a.threads, a.seconds, a.refusals, a.task, a.wide_looks, (a.camera_moved[0] * 1e-3, math.radians(a.camera_moved[1])), not a.not_calibrated,
    )  # fmt: skip
    try:
        policy = None if a.expert else OnnxPolicy(options.onnx, options.tokenizer, options.threads)
    except (ContractMismatch, FileNotFoundError) as e:
        print(f"{a.onnx}: {e}", file=sys.stderr)
        return 2
    env = Environment(contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT)
    outcomes = evaluate(options, env, policy, report=True)
    figures = summary(outcomes)
    if policy and a.refusals:
        figures["invalid_refused"] = refused(options, env, policy)
    env.close()
    if a.out:
        episodes = [asdict(o) for o in outcomes]
        a.out.write_text(json.dumps({"summary": figures, "episodes": episodes}, ensure_ascii=False), "utf-8")
    if a.json:
        print(json.dumps(figures))
    else:
        print(f"{figures['fetched']}/{figures['episodes']} as asked; grasp error {figures['grasp_error_mm']} mm")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
