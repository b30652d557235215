"""A scene for a sentence: the seed draws it, and what the sentence names stands there exactly once (or not at all)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wardarm.sim.scenes import Scene, SceneObject, sample, scene_for
from wardarm.training.language import PLACES, Reference, matches

_DRAWS = 20_000


class NoSuchScene(ValueError):
    """No scene of this world has what the sentence names exactly once; the text says what it named."""


def reference(kind: str, color: str, place: str) -> Reference | None:
    """What a step names, in the scene's words; None if it names no piece of tableware."""
    if not kind:
        return None
    return Reference(kind, color or None, next((p for p in PLACES if p == place), None))


def stage(named: Reference | None, seed: int, absent: bool = False) -> tuple[Scene, SceneObject | None]:
    """The scene of a seed for a sentence, and the piece meant (None if nothing is named, or with `absent`).

    Same arguments, same scene. Raises NoSuchScene.
    """
    if named is None:
        return scene_for(seed), None
    rng = np.random.default_rng([seed, 0x5CE4E])
    for _ in range(_DRAWS):
        scene = replace(sample(rng), seed=seed)
        fits = matches(scene.objects, named)
        if absent and not scene.find(named.kind, named.color):
            return scene, None
        if not absent and len(fits) == 1:
            return scene, fits[0]
    words = " ".join(w for w in (named.color, named.kind, named.place) if w)
    raise NoSuchScene(f"no scene was found in {_DRAWS} draws {'without' if absent else 'with exactly one'} {words!r}")


def meant(scene: Scene, named: Reference | None) -> SceneObject | None:
    """The one piece of a given scene that a sentence means, None if there is none or more than one."""
    fits = matches(scene.objects, named) if named else []
    return fits[0] if len(fits) == 1 else None
