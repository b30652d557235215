"""How high the thing that is held stood, kept over a crash of eye: *put it down here* needs it.

The file lies in /dev/shm (gone with the machine's boot) and is removed when the thing is let go, at an orderly end and
when the whole system starts: what was between the fingers meanwhile, nobody saw.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from wardarm.shm import ring


def path(prefix: str) -> Path:
    return ring.SHM / f"{prefix}wardarm_eye_grasp"


def keep(z_m: float, prefix: str) -> None:
    """`z_m`: height of the TCP when the fingers closed, base frame. A reader never sees half a file. Raises OSError."""
    scratch = path(prefix).with_name(f".{path(prefix).name}.{os.getpid()}")
    try:
        scratch.write_text(json.dumps({"z_m": z_m}), "utf-8")
        scratch.chmod(0o600)
        scratch.rename(path(prefix))
    finally:
        scratch.unlink(missing_ok=True)


def recall(prefix: str) -> float | None:
    """The height, m; None if none was kept or the file is not one of these."""
    try:
        z_m = float(json.loads(path(prefix).read_text("utf-8"))["z_m"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return z_m if math.isfinite(z_m) else None


def forget(prefix: str) -> None:
    path(prefix).unlink(missing_ok=True)
