"""What stands on the table: drawn from a seed, written to and read from JSON.

A scene is 3 to 6 pieces of tableware in six colours and a dark mat. Positions are base frame metres on the table
top (z = 0); nothing is ever put on the set-down leaf. The ranges are those the policy was trained on: change
them and train again.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("cup", "bowl", "bottle", "spoon")
PER_KIND = 2
"""The world holds this many pieces of each kind; a scene uses some of them."""

COLORS: dict[str, tuple[float, float, float]] = {
    "blue": (0.10, 0.25, 0.85),
    "red": (0.85, 0.10, 0.10),
    "green": (0.10, 0.60, 0.20),
    "yellow": (0.92, 0.80, 0.10),
    "white": (0.93, 0.93, 0.93),
    "purple": (0.50, 0.15, 0.65),
    "orange": (0.95, 0.42, 0.05),
    "black": (0.07, 0.07, 0.08),
}
DESK_COLORS = ("blue", "red", "green", "yellow", "white", "purple")
"""What `demo_scene` and `scene_for` draw from; tasks are drawn in all eight."""
HEIGHT_M = {"cup": 0.090, "bowl": 0.045, "bottle": 0.200, "spoon": 0.013}
GRASP_Z_M = {"cup": 0.062, "bowl": 0.030, "bottle": 0.172, "spoon": 0.021}
"""Height of the TCP above the table when the fingers close on a piece. Fingertips reach 18 mm beyond the TCP when they
are closed: a spoon at 0.010 m is held 10 times of 30, at 0.013 held but the table is pressed, at 0.021 held 30 times
of 30 and the table not touched."""

TABLE_X_M, TABLE_Y_M = (0.18, 0.76), (-0.46, 0.46)
LEAF_X_M, LEAF_Y_M = (0.36, 0.60), (0.46, 0.60)
"""The over-bed leaf: where a fetched piece is set down, within the patient's reach."""

SET_DOWN_M = (0.48, 0.53)
"""Where a fetched piece stands on the leaf, as `poses.leaf` of the configuration."""
BESIDE_M, BESIDE_SPOON_M = 0.125, 0.17
"""Middle to middle of two pieces that stand beside each other; a spoon lies level with its neighbour and is longer."""
SPOT_Y_M = 0.40
_SPOT_SPACING_M = 0.115
REACH_M = (0.30, 0.765)
"""A piece stands this far from the arm's axis, so that a tool-down grasp is within reach."""
_SPACING_M = 0.125
_MAT_SPACING_M = 0.12


class SceneError(ValueError):
    """A scene file cannot be used; the text names the field, the value and the limit."""


@dataclass(frozen=True)
class SceneObject:
    """`yaw_rad` is the tool yaw (relative to tool-down) that grasps it; `body_yaw_rad` turns its body (a cup's
    handle, a spoon's length). `name` is its body in the world: kind and number."""

    kind: str
    color: str
    x_m: float
    y_m: float
    yaw_rad: float
    body_yaw_rad: float
    name: str


@dataclass(frozen=True)
class Scene:
    """`mat` is the middle of the dark round mat, (x, y) m."""

    objects: tuple[SceneObject, ...]
    mat: tuple[float, float]
    seed: int = 0

    def find(self, kind: str | None = None, color: str | None = None) -> list[SceneObject]:
        return [o for o in self.objects if kind in (None, o.kind) and color in (None, o.color)]

    def to_json(self) -> dict[str, Any]:
        return {"seed": self.seed, "mat": list(self.mat), "objects": [asdict(o) for o in self.objects]}


def is_corner(x_m: float, y_m: float) -> bool:
    """At a corner of the table, as the instructions mean it (桌角)."""
    return (x_m < 0.36 or x_m > 0.56) and abs(y_m) > 0.27


def on_leaf(x_m: float, y_m: float, margin_m: float = 0.0) -> bool:
    return (
        LEAF_X_M[0] - margin_m <= x_m <= LEAF_X_M[1] + margin_m
        and LEAF_Y_M[0] - margin_m <= y_m <= LEAF_Y_M[1] + margin_m
    )


def _spot(rng: np.random.Generator) -> tuple[float, float]:
    """A place on the table, every fourth one at a corner."""
    if rng.random() < 0.25:
        x = float(rng.choice([rng.uniform(0.26, 0.35), rng.uniform(0.57, 0.66)]))
        return x, float(rng.choice([-1, 1]) * rng.uniform(0.28, 0.40))
    return float(rng.uniform(0.27, 0.66)), float(rng.uniform(-0.40, 0.40))


def _free(x: float, y: float, taken: list[tuple[float, float]], spacing_m: float) -> bool:
    return all(math.hypot(x - a, y - b) >= spacing_m for a, b in taken)


def _object(rng: np.random.Generator, kind: str, color: str, x: float, y: float, number: int) -> SceneObject:
    yaw = float(rng.uniform(-1.2, 1.2)) if kind == "spoon" else 0.0
    body_yaw = yaw + (math.pi / 2 if kind == "spoon" else float(rng.uniform(-3, 3)))
    return SceneObject(kind, color, x, y, yaw, body_yaw, f"{kind}{number}")


def sample(
    rng: np.random.Generator, first: tuple[SceneObject, ...] = (), avoid: tuple[str, str] | None = None,
    colors: tuple[str, ...] = DESK_COLORS,
) -> Scene:  # fmt: skip
    """Draw a scene. `first` are pieces already standing; `avoid` is a (kind, color) not to be drawn again."""
    while True:
        wanted = int(rng.integers(3, 7))
        objects = list(first)
        used = {k: sum(o.kind == k for o in first) for k in KINDS}
        taken = [(o.x_m, o.y_m) for o in first]
        for _ in range(300):
            if len(objects) == wanted:
                break
            kind = KINDS[rng.integers(len(KINDS))]
            color = colors[rng.integers(len(colors))]
            if used[kind] >= PER_KIND or (kind, color) == avoid:
                continue
            x, y = _spot(rng)
            if not REACH_M[0] < math.hypot(x, y) < REACH_M[1] or not _free(x, y, taken, _SPACING_M):
                continue
            taken.append((x, y))
            objects.append(_object(rng, kind, color, x, y, used[kind]))
            used[kind] += 1
        mat = _mat_spot(rng, taken)
        if len(objects) >= 3 and mat is not None:
            return Scene(tuple(objects), mat)


def _mat_spot(rng: np.random.Generator, taken: list[tuple[float, float]]) -> tuple[float, float] | None:
    for _ in range(200):
        x, y = float(rng.uniform(0.30, 0.64)), float(rng.uniform(-0.36, 0.36))
        if math.hypot(x, y) > 0.31 and _free(x, y, taken, _MAT_SPACING_M):
            return x, y
    return None


def piece_on_leaf(rng: np.random.Generator, kind: str, color: str) -> SceneObject:
    """A piece that was fetched: where `eye` sets down, give or take a few mm."""
    x, y = (float(rng.normal(v, 0.006)) for v in SET_DOWN_M)
    return replace(_object(rng, kind, color, x, y, 0), yaw_rad=0.0, body_yaw_rad=_leaf_yaw(rng, kind))


def _leaf_yaw(rng: np.random.Generator, kind: str) -> float:
    return math.pi / 2 + float(rng.normal(0, 0.03)) if kind == "spoon" else float(rng.uniform(-3, 3))


def put_down_spot(scene: Scene, moved: SceneObject, anchor: SceneObject) -> tuple[float, float] | None:
    """Where `moved` goes beside `anchor`: level with it, on the side of the table's middle, else on the other; None if
    neither is free and within reach."""
    gap = BESIDE_SPOON_M if "spoon" in (moved.kind, anchor.kind) else BESIDE_M
    inwards = -1.0 if anchor.y_m > 0 else 1.0
    others = [(o.x_m, o.y_m) for o in scene.objects if o.name not in (moved.name, anchor.name)]
    for side in (inwards, -inwards):
        x, y = anchor.x_m, anchor.y_m + side * gap
        room = _SPOT_SPACING_M + (0.05 if moved.kind == "spoon" else 0.0)
        if abs(y) <= SPOT_Y_M and REACH_M[0] < math.hypot(x, y) < REACH_M[1] and _free(x, y, others, room):
            return x, y
    return None


def scene_for(seed: int) -> Scene:
    """Any scene; the same seed gives the same one."""
    return replace(sample(np.random.default_rng(seed)), seed=seed)


def demo_scene(seed: int) -> Scene:
    """A scene with exactly one blue cup, standing at a table corner: 「把桌角的蓝色水杯拿给我」 is true in it."""
    rng = np.random.default_rng([seed, 0x64656D6F])
    while True:
        x = float(rng.choice([rng.uniform(0.27, 0.35), rng.uniform(0.57, 0.65)]))
        y = float(rng.choice([-1, 1]) * rng.uniform(0.29, 0.39))
        if REACH_M[0] < math.hypot(x, y) < REACH_M[1] - 0.02:
            break
    cup = _object(rng, "cup", "blue", x, y, 0)
    return replace(sample(rng, (cup,), avoid=("cup", "blue")), seed=seed)


def save(scene: Scene, path: str | Path) -> None:
    Path(path).write_text(json.dumps(scene.to_json(), indent=2) + "\n", "utf-8")


def load(path: str | Path) -> Scene:
    """Read a scene file. Raises SceneError naming what does not fit."""
    try:
        return from_json(json.loads(Path(path).read_text("utf-8")), str(path))
    except FileNotFoundError as e:
        raise SceneError(
            f"{path}: no such scene file; 'python -m wardarm.sim.bedside --config desk --write-scene FILE' writes one"
        ) from e
    except json.JSONDecodeError as e:
        raise SceneError(f"{path}: not JSON: {e}") from e


def from_json(data: dict[str, Any], origin: str = "scene") -> Scene:
    """Check and build a scene from `Scene.to_json()`'s form. Missing names are given out. Raises SceneError."""
    try:
        rows = data["objects"]
        mat = (float(data["mat"][0]), float(data["mat"][1])) if "mat" in data else (0.45, 0.0)
        seed = int(data.get("seed", 0))
        objects: list[SceneObject] = []
        for i, row in enumerate(rows):
            kind, color = str(row["kind"]), str(row["color"])
            _check(kind in KINDS, f"{origin}: objects[{i}].kind = {kind!r}: not one of {', '.join(KINDS)}")
            _check(color in COLORS, f"{origin}: objects[{i}].color = {color!r}: not one of {', '.join(COLORS)}")
            number = sum(o.kind == kind for o in objects)
            _check(number < PER_KIND, f"{origin}: objects[{i}]: more than {PER_KIND} of kind {kind}")
            x, y, yaw = float(row["x_m"]), float(row["y_m"]), float(row.get("yaw_rad", 0.0))
            _check(
                (TABLE_X_M[0] <= x <= TABLE_X_M[1] and TABLE_Y_M[0] <= y <= TABLE_Y_M[1]) or on_leaf(x, y),
                f"{origin}: objects[{i}] at ({x}, {y}) m: off the table, x {TABLE_X_M}, y {TABLE_Y_M}, and off the leaf",
            )
            body_yaw = float(row.get("body_yaw_rad", yaw + (math.pi / 2 if kind == "spoon" else 0.0)))
            objects.append(SceneObject(kind, color, x, y, yaw, body_yaw, f"{kind}{number}"))
    except (KeyError, TypeError, IndexError) as e:
        raise SceneError(f"{origin}: field missing or of the wrong form: {e!r}") from e
    return Scene(tuple(objects), mat, seed)


def _check(fits: bool, text: str) -> None:
    if not fits:
        raise SceneError(text)
