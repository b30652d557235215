"""What the views look like when nobody is there, kept over a crash of guard.

A guard that died while somebody stood in a zone must not learn that person as part of the room. The file lies in
/dev/shm (gone with the machine's boot), is renewed every few seconds while every view is clear, and removed at an
orderly end: the next start then learns the room, as after an installation.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wardarm.guard.detector import Detector, ViewState
from wardarm.shm import ring

RENEW_S = 5.0
_FIELDS = ("mean", "variance", "seen")


def path(prefix: str) -> Path:
    return ring.SHM / f"{prefix}wardarm_guard_views"


def keep(detectors: Sequence[Detector], prefix: str) -> None:
    """Write all views at once; a reader never sees half a file. Raises OSError when there is no room."""
    arrays = {f"{d.name}/{f}": getattr(d, f) for d in detectors for f in _FIELDS}
    arrays |= {f"{d.name}/contrast": np.float64(d.contrast) for d in detectors}
    scratch = path(prefix).with_name(f".{path(prefix).name}.{os.getpid()}")
    try:
        with scratch.open("wb") as f:
            scratch.chmod(0o600)
            np.savez(f, **arrays)
        scratch.rename(path(prefix))
    finally:
        scratch.unlink(missing_ok=True)


def recall(detectors: Sequence[Detector], prefix: str) -> bool:
    """Bring all views back as they were kept. False, and nothing changed, if there is no file or it does not fit."""
    try:
        with np.load(path(prefix)) as kept:
            found = {name: kept[name] for name in kept.files}
    except (OSError, ValueError):
        return False
    for d in detectors:
        if any(f"{d.name}/{f}" not in found or found[f"{d.name}/{f}"].shape != d.mean.shape for f in _FIELDS):
            return False
    for d in detectors:
        for f in _FIELDS:
            setattr(d, f, found[f"{d.name}/{f}"])
        d.contrast = float(found[f"{d.name}/contrast"])
        d.had_arm = True
        d.state = ViewState.CLEAR
    return True


def forget(prefix: str) -> None:
    path(prefix).unlink(missing_ok=True)
