"""Trials of the policy on the real path in lock-step, with Wilson intervals (`wardarm eval`).

`python -m wardarm.training.trial --tasks N --seed S --json`. Trial i of seed S is the same scene, sentence, light and
camera everywhere. With `--out FILE` every trial is written as it ends and is not run again: long runs may be interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wardarm.policy import contract
from wardarm.sim import scenes
from wardarm.sim.scenes import Scene
from wardarm.training import tasks
from wardarm.training.bedside_run import BedsideRun, Notes, TaskFailed
from wardarm.training.environment import Environment
from wardarm.training.episodes import BESIDE_WITHIN_M, END_WITHIN_M, END_WITHIN_RAD, Policy
from wardarm.training.evaluate import DEFAULT_ONNX, VALID_MIN
from wardarm.training.expert import SET_DOWN_GAP_M
from wardarm.training.expert_policy import ExpertPolicy
from wardarm.training.onnx_policy import ContractMismatch, OnnxPolicy
from wardarm.training.phrases import Split
from wardarm.training.tasks import TASKS, Task

KINDS = (*TASKS, "three_step")
RETRIES = 2
"""Counted, each with a new look from a safe height, as eye.grasp_attempts of the configuration allows."""
_Z95 = 1.959964
_LOOK = 2


def wilson(hits: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not count:
        return 0.0, 1.0
    p, z2 = hits / count, _Z95 * _Z95
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z95 * math.sqrt(p * (1 - p) / count + z2 / (4 * count * count)) / (1 + z2 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass
class Trial:
    """One trial. `grounded`: the fingers closed at the right piece (None: never closed). Times are controller seconds."""

    kind: str
    number: int
    language: str
    text: str
    success: bool = False
    refused: bool = False
    grounded: bool | None = None
    grasp_error_mm: float | None = None
    end_error_mm: float | None = None
    end_angle_deg: float | None = None
    retries: int = 0
    chunks_refused: int = 0
    limit_ratio: float = 0.0
    table_contacts: int = 0
    patient_contacts: int = 0
    seconds: float = 0.0
    reason: str = ""


class Bench:
    """What one process needs for its trials."""

    def __init__(self, onnx: Path | None, split: Split, wide: bool = True) -> None:
        self.policy = None if onnx is None else OnnxPolicy(onnx, onnx.with_name("tokenizer.model"))
        self.split, self.wide = split, wide
        self.looks = Environment(contract.IMAGE_WIDTH, contract.IMAGE_HEIGHT)

    def close(self) -> None:
        self.looks.close()

    # -- one trial
    def run(self, kind: str, seed: int, number: int) -> Trial:
        rng = np.random.default_rng([seed, number, KINDS.index(kind)])
        if kind == "three_step":
            return self._three_step(rng, number)
        scene, task = tasks.draw_for_trial(rng, kind)  # type: ignore[arg-type]
        text = tasks.ask(rng, scene, task, self.split)
        trial = Trial(kind, number, language(text), text)
        with self._bedside(rng, scene) as run:
            self._step(run, scene, task, text, trial)
            self._close(run, trial)
        return trial

    def _bedside(self, rng: np.random.Generator, scene: Scene) -> BedsideRun:
        self.looks.load(scene)
        self.looks.vary(rng)
        return BedsideRun(scene, self.looks)

    def _step(self, run: BedsideRun, scene: Scene, task: Task, text: str, trial: Trial) -> bool:
        """One step as `eye` carries it out. Fills in the trial; True if the world is as asked."""
        world, notes = run.sim.world, Notes()
        policy: Policy = self.policy or ExpertPolicy(task.target, goal=task.goal)
        before = world.piece_pos(task.piece.name)
        trial.success = False
        try:
            if self.policy is not None and not self._valid(run, text):
                trial.refused, trial.reason = True, "valid is low: refused"
                return False
            if task.kind == "fetch" and not run.choose_spot():
                trial.refused, trial.reason = True, "no free place on the leaf: refused"
                return False
            while not run.follow(policy, text, notes):
                self._note_grasp(run, task, notes, before, trial)
                if notes.retries == RETRIES:
                    trial.retries += notes.retries
                    trial.reason = "the fingers closed on nothing three times"
                    return False
                notes.retries += 1
                run.open_and_rise()
            trial.retries += notes.retries
            self._note_grasp(run, task, notes, before, trial)
            self._finish(run, task, notes, trial)
        except (TaskFailed, TimeoutError) as e:  # the latter: the simulated robot stopped by itself
            trial.reason = str(e)
            return False
        finally:
            trial.chunks_refused += notes.refused
        trial.success = self._as_asked(run, scene, task, notes, trial)
        trial.reason = "" if trial.success else "not as asked"
        return trial.success

    def _valid(self, run: BedsideRun, text: str) -> bool:
        assert self.policy is not None
        plan, _ = run.planned(0.0)
        state = contract.robot_state(plan.pose.xyz_m, plan.pose.rpy_rad, contract.snap_grip(plan.opening), plan.holding)
        seen = []
        for _ in range(_LOOK):
            seen.append(self.policy.infer(run.picture(), text, state).valid)
            run.sim.run(0.1)
        return float(np.mean(seen)) >= VALID_MIN

    def _note_grasp(self, run: BedsideRun, task: Task, notes: Notes, before: Any, trial: Trial) -> None:
        if notes.grasp is not None:
            off = float(np.hypot(*(notes.grasp.xyz_m[:2] - before[:2])))
            trial.grounded, trial.grasp_error_mm = off < 0.05, round(off * 1e3, 2)

    def _finish(self, run: BedsideRun, task: Task, notes: Notes, trial: Trial) -> None:
        """What a script does once the policy has said done."""
        z_m = float(notes.grasp.xyz_m[2]) + SET_DOWN_GAP_M if notes.grasp is not None else task.goal.z_m
        if task.kind in ("fetch", "hand_over"):
            run.set_down(*(run.spot or run.config.poses.leaf), z_m)
        elif task.kind == "pour" and notes.grasp is not None:
            run.pour_and_right()
            run.set_down(float(notes.grasp.xyz_m[0]), float(notes.grasp.xyz_m[1]), z_m)
        run.open_and_rise()
        run.home()

    def _as_asked(self, run: BedsideRun, scene: Scene, task: Task, notes: Notes, trial: Trial) -> bool:
        verdict = run.sim.judge.piece(task.piece.name)
        if notes.end_pose is not None and task.kind in ("hand_over", "pour"):
            position, rotation = notes.end_pose
            wanted = contract.rotation_from_rpy(np.array([0.0, task.goal.pitch_rad, 0.0]))
            turn = float(np.linalg.norm(contract.rotvec_from_rotation(rotation @ wanted.T)))
            off = float(np.linalg.norm(position - np.array(task.goal[:3])))
            trial.end_error_mm, trial.end_angle_deg = round(off * 1e3, 2), round(math.degrees(turn), 2)
            return bool(off < END_WITHIN_M and turn < END_WITHIN_RAD and verdict.lifted)
        if task.kind == "fetch":
            return verdict.fetched
        off = float(np.hypot(verdict.pos_m[0] - task.goal.x_m, verdict.pos_m[1] - task.goal.y_m))
        trial.end_error_mm = round(off * 1e3, 2)
        if task.kind == "put" and task.other is not None:
            apart = float(np.hypot(*(np.array(verdict.pos_m[:2]) - run.sim.world.piece_pos(task.other.name)[:2])))
            return bool(verdict.standing and not verdict.held and BESIDE_WITHIN_M[0] < apart < BESIDE_WITHIN_M[1])
        lean = 0.0 if task.piece.kind == "spoon" else run.sim.world.piece_tilt_rad(task.piece.name)
        trial.end_angle_deg = round(math.degrees(lean), 2)
        return bool(verdict.standing and not verdict.held and off < END_WITHIN_M and lean < END_WITHIN_RAD)

    def _three_step(self, rng: np.random.Generator, number: int) -> Trial:
        """拿杯子 -> 倒水 -> 放回: a cup to the leaf, water from the only bottle, the cup onto the mat."""
        while True:
            scene = tasks.draw_scene(rng, "fetch", tasks.spoken_colors())
            if tasks.on_leaf(scene) or len(scene.find("bottle")) != 1:
                continue
            first = [t for t in tasks.possible(scene, "fetch") if t.piece.kind == "cup"]
            if first:
                break
        task = first[int(rng.integers(len(first)))]
        text = tasks.ask(rng, scene, task, self.split)
        trial = Trial("three_step", number, language(text), text)
        with self._bedside(rng, scene) as run:
            if self._step(run, scene, task, text, trial):
                for kind in ("pour", "put_back"):
                    scene = seen_scene(run, scene)
                    follow_up = [t for t in tasks.possible(scene, kind) if t.bare or kind == "put_back"]
                    if not follow_up:
                        trial.success, trial.reason = False, f"{kind}: not possible any more"
                        break
                    said = tasks.ask(rng, scene, follow_up[0], self.split)
                    trial.text += " / " + said
                    if not self._step(run, scene, follow_up[0], said, trial):
                        trial.reason = f"{kind}: {trial.reason}"
                        break
            self._close(run, trial)
        return trial

    def _close(self, run: BedsideRun, trial: Trial) -> None:
        from wardarm.ops import limits

        touches = run.sim.judge.touches
        trial.table_contacts, trial.patient_contacts = touches.table, touches.patient + touches.bed
        trial.seconds = round(run.sim.time_s, 2)
        rows = run.sim.history
        samples = np.zeros(len(rows), [("timestamp", "<f8"), ("target_q", "<f8", 6), ("output_int_register_12", "<i4")])
        samples["timestamp"], samples["target_q"] = rows["cycle"] * 0.002, rows["target_q_rad"]
        samples["output_int_register_12"] = rows["ints"][:, 0]
        moving = limits.motion(samples, run.config.arm)
        trial.limit_ratio = round(limits.ratios(moving, run.config.profiles["ward"]).largest, 4)

    def refusals(self, seed: int, number: int) -> tuple[bool, bool]:
        """(what is there was refused, what is not was accepted): one sentence each, once from home."""
        rng = np.random.default_rng([seed, number, 99])
        scene, task = tasks.draw_for_trial(rng, TASKS[int(rng.integers(len(TASKS)))])
        said, nothing = tasks.ask(rng, scene, task, self.split), tasks.ask_for_nothing_here(rng, scene, self.split)
        with self._bedside(rng, scene) as run:
            return not self._valid(run, said), self._valid(run, nothing)


def seen_scene(run: BedsideRun, scene: Scene) -> Scene:
    """The scene as it is now: where every piece of it stands."""
    from dataclasses import replace

    now = []
    for o in scene.objects:
        x, y, _ = run.sim.world.piece_pos(o.name)
        now.append(replace(o, x_m=float(x), y_m=float(y)))
    return scenes.Scene(tuple(now), scene.mat, scene.seed)


def language(text: str) -> str:
    """`en` or `zh`."""
    return "en" if text.isascii() else "zh"


def summary(trials: Sequence[Trial], refused: Sequence[tuple[bool, bool]] = ()) -> dict[str, Any]:
    """The figures, each share with its 95 % Wilson interval."""

    def share(hits: Iterable[bool]) -> dict[str, Any]:
        values = list(hits)
        low, high = wilson(sum(values), len(values))
        value = round(sum(values) / len(values), 4) if values else None
        return {"n": len(values), "success": value, "low": round(low, 4), "high": round(high, 4)}

    def quantiles(values: Iterable[float | None]) -> dict[str, float | None]:
        known = [v for v in values if v is not None]
        return {q: round(float(np.quantile(known, int(q[1:]) / 100)), 2) if known else None for q in ("p50", "p95")}

    found: dict[str, Any] = {"tasks": {}}
    for kind in KINDS:
        of_kind = [t for t in trials if t.kind == kind]
        if of_kind:
            found["tasks"][kind] = share(t.success for t in of_kind) | {
                "without_retry": share(t.success and not t.retries for t in of_kind),
                "end_error_mm": quantiles(t.end_error_mm for t in of_kind),
                "end_angle_deg": quantiles(t.end_angle_deg for t in of_kind),
                "seconds": quantiles(t.seconds for t in of_kind),
            }
    closed = [t for t in trials if t.grounded is not None]
    languages = sorted({t.language for t in trials})
    found |= {
        "grounding": {la: share(bool(t.grounded) for t in closed if t.language == la) for la in languages},
        "languages": {la: share(t.success for t in trials if t.language == la) for la in languages},
        "grasp_error_mm": quantiles(t.grasp_error_mm for t in closed if t.grounded),
        "retries": sum(t.retries for t in trials),
        "chunks_refused": sum(t.chunks_refused for t in trials),
        "limit_violations": sum(t.limit_ratio > 1.0 for t in trials),
        "max_limit_ratio": max((t.limit_ratio for t in trials), default=0.0),
        "table_contacts": sum(t.table_contacts for t in trials),
        "patient_contacts": sum(t.patient_contacts for t in trials),
        "failures": [f"{t.kind} {t.number}: {t.reason}: {t.text}" for t in trials if not t.success][:40],
    }
    if refused:
        found["false_refusals"] = share(r[0] for r in refused)
        found["false_acceptances"] = share(r[1] for r in refused)
    return found


def _share_of(order: tuple[argparse.Namespace, int]) -> tuple[list[Trial], list[tuple[bool, bool]]]:
    a, process = order
    bench: Any
    if a.daemon:
        from wardarm.training.daemon_trial import DaemonBench  # starts whole systems; lock-step needs none of it

        bench = DaemonBench(a.split)
    else:
        bench = Bench(None if a.expert else a.onnx, a.split)
    done: dict[tuple[str, int], Trial] = {}
    path = a.out.with_name(f"{a.out.name}.{process}") if a.out else None
    if path is not None and path.is_file():
        for line in path.read_text("utf-8").splitlines():
            trial = Trial(**json.loads(line))
            done[trial.kind, trial.number] = trial
    found: list[Trial] = []
    for number in range(process, a.tasks, a.processes):
        for kind in a.kinds:
            trial = done.get((kind, number)) or bench.run(kind, a.seed, number)
            found.append(trial)
            if (kind, number) not in done:
                word = "done" if trial.success else "FAILED"
                print(
                    f"{number:5d} {kind:10s} {word:7s}{trial.seconds:6.1f} s  {trial.text}  {trial.reason}",
                    file=sys.stderr,
                    flush=True,
                )
                if path is not None:
                    with path.open("a", encoding="utf-8") as f:
                        f.write(json.dumps(asdict(trial), ensure_ascii=False) + "\n")
    looks = a.refusals if not (a.expert or a.daemon) else 0
    refused = [bench.refusals(a.seed, n) for n in range(process, looks, a.processes)]
    bench.close()
    return found, refused


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m wardarm.training.trial", description=__doc__)
    p.add_argument("--onnx", type=Path, default=DEFAULT_ONNX)
    p.add_argument("--tasks", type=int, default=300, help="trials of each kind")
    p.add_argument("--kind", dest="kinds", action="append", choices=TASKS)
    p.add_argument("--three-step", action="store_true")
    p.add_argument("--refusals", type=int, default=0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--split", choices=("canonical", "train", "held_out"), default="canonical")
    p.add_argument("--expert", action="store_true")
    p.add_argument("--daemon", action="store_true", help="in real time through a running system; fetches only")
    p.add_argument("--processes", type=int, default=1)
    p.add_argument("--out", type=Path)
    p.add_argument("--json", action="store_true")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    a = parser().parse_args(argv)
    a.kinds = (
        ["three_step"]
        if a.three_step and not a.kinds
        else [*(a.kinds or TASKS), *(["three_step"] if a.three_step else [])]
    )
    if a.daemon and (a.expert or a.processes > 1 or a.kinds != ["fetch"] or a.onnx != DEFAULT_ONNX):
        print("--daemon runs fetches of the served file in one process: add --kind fetch", file=sys.stderr)
        return 2
    if not a.expert:
        try:
            OnnxPolicy(a.onnx, a.onnx.with_name("tokenizer.model"))
        except (ContractMismatch, FileNotFoundError, OSError, RuntimeError) as e:
            print(f"{a.onnx}: {e}", file=sys.stderr)
            return 2
    begun = time.monotonic()
    orders = [(a, p) for p in range(a.processes)]
    if a.processes == 1:
        parts = [_share_of(orders[0])]
    else:  # spawned: a GL context does not survive a fork
        with multiprocessing.get_context("spawn").Pool(a.processes) as pool:
            parts = pool.map(_share_of, orders, chunksize=1)
    trials = [t for found, _ in parts for t in found]
    figures = summary(trials, [r for _, refused in parts for r in refused])
    figures |= {
        "seed": a.seed,
        "split": a.split,
        "expert": a.expert,
        "lock_step": not a.daemon,
        "wall_s": round(time.monotonic() - begun, 1),
    }
    if a.out:
        a.out.write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", "utf-8")
    print(json.dumps(figures, ensure_ascii=False) if a.json else json.dumps(figures, ensure_ascii=False, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
