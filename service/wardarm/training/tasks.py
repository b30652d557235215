"""Tasks: a scene, what is asked for, the piece that is taken and where it goes.

| task | the policy's part | then `eye` |
|---|---|---|
| fetch, hand_over | the piece named, to the hand-over pose | sets it down on the leaf; or offers it |
| put | the piece named, onto the table beside another | opens, rises |
| pour | the only bottle, leant over the vessel named (or the one on the leaf) | rights it, takes it back |
| put_back | the piece on the leaf, onto the mat | opens, rises |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wardarm.policy.lexicon import lexicon
from wardarm.sim import scenes
from wardarm.sim.scenes import COLORS, KINDS, Scene, SceneObject
from wardarm.training import expert, language
from wardarm.training.expert import HAND_OVER, Goal, Target
from wardarm.training.language import Reference
from wardarm.training.phrases import LANGUAGES, Language, Split
from wardarm.training.task_phrases import TASK_PHRASES

TaskKind = Literal["fetch", "hand_over", "put", "pour", "put_back"]
TASKS: tuple[TaskKind, ...] = ("fetch", "hand_over", "put", "pour", "put_back")
SHARES: dict[TaskKind, float] = {"fetch": 0.34, "hand_over": 0.06, "put": 0.26, "pour": 0.18, "put_back": 0.16}
"""Of what is trained on. Fetch and hand_over move alike."""
VESSELS = ("cup", "bowl")
POUR_X_M, POUR_REACH_M = 0.40, 0.74
"""A vessel stands at least this far out and at most at this distance: the leaning wrist reaches over it."""
_EVERY_COLOR = tuple(COLORS)
_BARE_SHARE = 0.4
_LEAF_SHARE = 0.12
"""So often something stands on the leaf although nobody asks for it."""
_TRIES = 60


@dataclass(frozen=True)
class Task:
    """`piece` is grasped and brought to `goal`. `vessel` or `anchor` is the other piece meant, where there is one;
    `bare`: 倒水, said without naming the vessel."""

    kind: TaskKind
    piece: SceneObject
    goal: Goal
    other: SceneObject | None = None
    bare: bool = False

    @property
    def target(self) -> Target:
        return expert.target_of(self.piece)


def on_leaf(scene: Scene) -> list[SceneObject]:
    return [o for o in scene.objects if scenes.on_leaf(o.x_m, o.y_m)]


def can_pour_into(piece: SceneObject) -> bool:
    return piece.kind in VESSELS and piece.x_m >= POUR_X_M and math.hypot(piece.x_m, piece.y_m) <= POUR_REACH_M


def _the_bottle(scene: Scene) -> SceneObject | None:
    bottles = scene.find("bottle")
    return bottles[0] if len(bottles) == 1 else None


def possible(scene: Scene, kind: TaskKind) -> list[Task]:
    """Every task of a kind that this scene allows and that can be asked for clearly."""
    named = [o for o in scene.objects if language.clear_references(scene.objects, o)]
    leaf = on_leaf(scene)
    if kind in ("fetch", "hand_over"):
        return [Task(kind, o, HAND_OVER) for o in named]
    if kind == "put_back":
        return [Task(kind, leaf[0], expert.place_goal(*scene.mat, leaf[0].kind))] if len(leaf) == 1 else []
    if kind == "pour":
        bottle = _the_bottle(scene)
        if bottle is None or bottle in leaf:
            return []
        tasks = [Task(kind, bottle, expert.pour_goal(o), o) for o in named if can_pour_into(o)]
        bare = [o for o in leaf if can_pour_into(o)]
        return tasks + [Task(kind, bottle, expert.pour_goal(o), o, True) for o in bare[:1] if len(leaf) == 1]
    tasks = []
    for moved in named:
        for anchor in named:
            spot = scenes.put_down_spot(scene, moved, anchor) if anchor is not moved and anchor not in leaf else None
            if spot is not None:
                tasks.append(Task(kind, moved, expert.place_goal(*spot, moved.kind), anchor))
    return tasks


def draw_scene(rng: np.random.Generator, kind: TaskKind, colors: tuple[str, ...] = _EVERY_COLOR) -> Scene:
    """A scene that is likely to allow a task of this kind."""
    leaf: tuple[SceneObject, ...] = ()
    bare = kind == "pour" and rng.random() < _BARE_SHARE
    if kind == "put_back" or bare or rng.random() < _LEAF_SHARE:
        kinds = VESSELS if bare else KINDS
        piece = kinds[int(rng.integers(len(kinds)))]
        leaf = (scenes.piece_on_leaf(rng, piece, colors[int(rng.integers(len(colors)))]),)
    return scenes.sample(rng, leaf, colors=colors)


def spoken_colors() -> tuple[str, ...]:
    """The colours that the instruction gate lets through, in either language."""
    let_through = [set(lexicon(language).table["colors"]) for language in LANGUAGES]
    return tuple(c for c in COLORS if all(c in table for table in let_through))


def draw_for_trial(rng: np.random.Generator, kind: TaskKind) -> tuple[Scene, Task]:
    """As `draw`, of what the product takes on: colours of its language, and a free leaf to set a fetched piece down on."""
    while True:
        scene, task = draw(rng, kind, spoken_colors())
        if kind != "fetch" or not on_leaf(scene):
            return scene, task


def draw(
    rng: np.random.Generator, kind: TaskKind | None = None, colors: tuple[str, ...] = _EVERY_COLOR
) -> tuple[Scene, Task]:
    """A scene and a task in it, of `kind` or by SHARES."""
    wanted: TaskKind = kind or TASKS[int(rng.choice(len(TASKS), p=[SHARES[t] for t in TASKS]))]
    bare = rng.random() < 2 * _BARE_SHARE  # not every scene drawn for it allows it
    while True:
        scene = draw_scene(rng, wanted, colors)
        tasks = possible(scene, wanted)
        if wanted == "pour" and any(t.bare for t in tasks):
            tasks = [t for t in tasks if t.bare == bare] or tasks
        if tasks:
            return scene, tasks[int(rng.integers(len(tasks)))]


def another(rng: np.random.Generator, scene: Scene, not_this: Task) -> Task | None:
    """Another task in the same scene that takes another piece or goes elsewhere; None if there is none."""
    kind = TASKS[int(rng.choice(len(TASKS), p=[SHARES[t] for t in TASKS]))]
    tasks = [t for t in possible(scene, kind) if (t.piece.name, t.goal) != (not_this.piece.name, not_this.goal)]
    return tasks[int(rng.integers(len(tasks)))] if tasks else None


def ask(rng: np.random.Generator, scene: Scene, task: Task, split: Split = "train") -> str:
    """A sentence for the task, in either language."""
    spoken: Language = language.draw_language(rng)
    words: dict[str, str] = {}
    for key, piece in (("r", task.other if task.kind == "pour" else task.piece), ("s", task.other)):
        if piece is not None and not (task.kind == "put_back" or task.bare):
            reference = language.choose_reference(rng, scene.objects, piece)
            if reference is not None:
                words[key] = language.phrase(rng, reference, spoken, split)
    if task.kind in ("fetch", "hand_over"):
        return language.sentence_about(rng, words["r"], spoken, split, hand=task.kind == "hand_over")
    return _say(rng, "pour_bare" if task.bare else task.kind, words, spoken, split)


def _say(rng: np.random.Generator, name: str, words: dict[str, str], spoken: Language, split: Split) -> str:
    if split == "canonical":
        return language.template(name, spoken).format(**words)
    p = TASK_PHRASES[spoken, "held_out" if split == "held_out" else "train"]
    return language.dressed(rng, p[name][int(rng.integers(len(p[name])))].format(**words), spoken, split)


def ask_for_nothing_here(rng: np.random.Generator, scene: Scene, split: Split = "train") -> str:
    """A sentence that must be refused in this scene, of any task."""
    for _ in range(_TRIES):
        kind = TASKS[int(rng.choice(len(TASKS), p=[SHARES[t] for t in TASKS]))]
        if kind in ("fetch", "hand_over"):
            return language.ask_for_nothing_here(rng, scene.objects, split)
        said = _nothing(rng, scene, kind, split)
        if said is not None:
            return said
    return language.ask_for_nothing_here(rng, scene.objects, split)


def _nothing(rng: np.random.Generator, scene: Scene, kind: TaskKind, split: Split) -> str | None:
    spoken = language.draw_language(rng)
    leaf = on_leaf(scene)
    if kind == "put_back":
        return None if leaf else _say(rng, kind, {}, spoken, split)
    bad = language.bad_reference(rng, scene.objects)
    good = [r for o in scene.objects for r in language.clear_references(scene.objects, o)]
    if bad is None or not good:
        return None
    fits = good[int(rng.integers(len(good)))]
    if kind == "put":
        one, two = (bad, fits) if rng.random() < 0.5 else (fits, bad)
        words = {k: language.phrase(rng, r, spoken, split) for k, r in (("r", one), ("s", two))}
        return _say(rng, kind, words, spoken, split)
    can_pour = _the_bottle(scene) is not None
    if not (can_pour and any(can_pour_into(o) for o in leaf)) and rng.random() < _BARE_SHARE:
        return _say(rng, "pour_bare", {}, spoken, split)
    vessel: Reference = bad if can_pour else fits
    if can_pour and rng.random() < 0.3:
        solid = [r for r in good if r.kind not in VESSELS]
        vessel = solid[int(rng.integers(len(solid)))] if solid else bad
    return _say(rng, "pour", {"r": language.phrase(rng, vessel, spoken, split)}, spoken, split)
