"""Demonstrations on disk: `NAME.images.npy` (uint8 N x 180 x 320 x 3) and `NAME.labels.npz` beside it.

Several demonstrations may share a picture: from one and the same moment, any piece can be asked for. The labels are written last, so a shard is either whole or not there. Every shard carries the contract's hash: a
dataset of another contract is refused, not trained on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.policy import contract
from wardarm.training import said

PIECES = 8
"""At most so many pieces are labelled in a picture: two of each kind."""
SENTENCES_HERE, SENTENCES_NOT_HERE = 4, 4
"""Each demonstration's sentences: text and also; not_here."""
NUMBERS: dict[str, tuple[int, ...]] = {
    "state": (8,),
    "traj": (contract.HORIZON, 6),
    "grip": (contract.HORIZON,),
    "valid": (),
    "done": (),
    "pixel": (2,),
    "target": (4,),
    "standing": (),
    "grasp_z": (),
    "goal": (3,),
    "goal_pixel": (2,),
    "placing": (),
    "tilting": (),
    "weight": (),
    "pieces": (PIECES, 4),
}
"""FP32 labels and their shapes.

state: contract.robot_state at the join. traj, grip: the chunk, normalised. valid, done: 0 or 1. pixel: where the
piece meant is in the picture, shares of width and height. target: its x, y (normalised), sin and cos of twice its
grasp yaw (fingers are alike). standing: 1 while it stands where `target` says. grasp_z: normalised.
goal: where it is brought, normalised x y z; placing: 1 if that is a spot to be found in the picture (at goal_pixel),
0 for the hand-over pose; tilting: 1 for pouring. weight: 2 for a demonstration whose past had failed, else 1.
pieces: every piece in the picture, whoever asks for what: its middle (shares of width and height), kind and colour (rows of
sim.scenes.KINDS and COLORS); -1 where there is no further one, and everywhere where it is not known.
"""
TEXTS = ("text", "phase", "wording", "also", "not_here", "task")
"""text: the sentence. also: further sentences for the same piece, not_here: sentences that name nothing in this picture
(one a line each); training draws among them. phase, wording: what scores are told apart by."""
SENTENCE_TEXTS = ("text", "also", "not_here")
_SAID = (SENTENCES_HERE + SENTENCES_NOT_HERE, *said.SHAPE)
_IMAGES, _LABELS = ".images.npy", ".labels.npz"


class DatasetError(ValueError):
    """A shard cannot be trained on; the text says which and why."""


@dataclass(frozen=True)
class Demo:
    """One sample: `image` uint8 180 x 320 x 3, `numbers` as NUMBERS, `texts` as TEXTS. Successive demonstrations with
    the same array as `image` share it on disk."""

    image: NDArray[np.uint8]
    numbers: Mapping[str, NDArray[np.float32]]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Shard:
    """`pictures` is memory-mapped, `picture` which of them each demonstration shows; `said` (N, 8, 2, 3) int8 what its
    sentences say (said.read; text, also, not_here); `meta` says seed, split and generator settings."""

    path: Path
    pictures: NDArray[np.uint8]
    picture: NDArray[np.int64]
    numbers: dict[str, NDArray[np.float32]]
    texts: dict[str, NDArray[np.str_]]
    said: NDArray[np.int8]
    meta: dict[str, Any]

    def __len__(self) -> int:
        return len(self.picture)

    @property
    def images(self) -> NDArray[np.uint8]:
        """The picture of every demonstration, copied: shared ones several times."""
        return self.pictures[self.picture]


def sentences(texts: Mapping[str, str]) -> list[str]:
    """All of a demonstration's: SENTENCES_HERE that mean it, then SENTENCES_NOT_HERE that must be refused."""
    return [line for key in SENTENCE_TEXTS for line in texts[key].split("\n")]


def _said(demo: Demo) -> NDArray[np.int8]:
    """What its sentences say, (8, 2, 3). One that means a piece in words of its own (a ward's) is unknown, not of nothing here."""
    found = np.array([said.read(t) for t in sentences(demo.texts)], np.int8)
    if demo.numbers["valid"]:
        here = found[:SENTENCES_HERE]
        here[here[:, 0, 0] == said.KIND_CLASSES.index("other")] = said.UNKNOWN
    return found


def write(folder: Path, name: str, demos: Sequence[Demo], meta: Mapping[str, Any]) -> Path:
    """Write one shard, whole or not at all. Returns the path of its labels."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures: list[NDArray[np.uint8]] = []
    picture: list[int] = []
    for demo in demos:
        if not pictures or demo.image is not pictures[-1]:
            pictures.append(demo.image)
        picture.append(len(pictures) - 1)
    images = np.stack(pictures)
    arrays: dict[str, Any] = {k: np.array([d.numbers[k] for d in demos], np.float32) for k in NUMBERS}
    arrays |= {k: np.array([d.texts[k] for d in demos]) for k in TEXTS}
    arrays["said"] = np.array([_said(d) for d in demos], np.int8)
    arrays["picture"] = np.array(picture, np.int64)
    arrays["meta"] = np.array(json.dumps({**meta, "contract_sha256": contract.contract_sha256()}))
    partial = folder / f"{name}.partial.npy"
    np.save(partial, images)
    os.replace(partial, folder / f"{name}{_IMAGES}")
    partial = folder / f"{name}.partial.npz"
    np.savez(partial, **arrays)
    final = folder / f"{name}{_LABELS}"
    os.replace(partial, final)
    return final


def read(labels: Path) -> Shard:
    """Raises DatasetError if it is of another contract or does not add up."""
    with np.load(labels) as z:
        meta = json.loads(str(z["meta"]))
        if meta.get("contract_sha256") != contract.contract_sha256():
            raise DatasetError(f"{labels}: made for another contract; make it again with wardarm.training.demos")
        missing = sorted({"picture", "said", *NUMBERS, *TEXTS} - set(z.files))
        if missing:
            raise DatasetError(f"{labels}: has no {missing[0]}; make it again with wardarm.training.demos")
        picture, spoken = z["picture"], z["said"]
        numbers = {k: z[k] for k in NUMBERS}
        texts = {k: z[k] for k in TEXTS}
    pictures = np.load(labels.with_name(labels.name.replace(_LABELS, _IMAGES)), mmap_mode="r")
    if spoken.shape != (len(picture), *_SAID):
        raise DatasetError(f"{labels}: said has shape {spoken.shape}, expected {(len(picture), *_SAID)}")
    for key, shape in NUMBERS.items():
        if numbers[key].shape != (len(picture), *shape):
            raise DatasetError(f"{labels}: {key} has shape {numbers[key].shape}, expected {(len(picture), *shape)}")
        if not np.isfinite(numbers[key]).all():
            raise DatasetError(f"{labels}: {key} is not finite everywhere")
    return Shard(labels, pictures, picture, numbers, texts, spoken, meta)


def read_all(folder: Path, split: str) -> list[Shard]:
    """Every shard `SPLIT-*` of a folder, in order. Raises DatasetError if there is none."""
    found = [read(p) for p in sorted(folder.glob(f"{split}-*{_LABELS}"))]
    if not found:
        raise DatasetError(
            f"{folder}: no {split} demonstrations; make some: python -m wardarm.training.demos --out {folder}"
        )
    return found
