"""Where this installation keeps what is not Python: the model repository, the embedded server, built programs.

A checkout is its own root. An installed wheel has no such folder around it: set WARDARM_ROOT.
"""

from __future__ import annotations

import os
from pathlib import Path


class InstallationNotFound(RuntimeError):
    """No folder with a model_repository around the package; set WARDARM_ROOT."""


def root() -> Path:
    """WARDARM_ROOT, else the nearest folder above the package (or the working directory) with a model_repository."""
    named = os.environ.get("WARDARM_ROOT")
    if named:
        path = Path(named).resolve()
        if not path.is_dir():
            raise InstallationNotFound(f"WARDARM_ROOT = {named}: no such folder")
        return path
    here = Path(__file__).resolve()
    for folder in (*here.parents, *(Path.cwd() / "x").parents):
        if (folder / "model_repository").is_dir():
            return folder
    raise InstallationNotFound(f"no model_repository above {here.parent} or {Path.cwd()}: set WARDARM_ROOT")


def within(path: str) -> Path:
    """A configured path: absolute as it is, relative against the installation root."""
    p = Path(path)
    return p if p.is_absolute() else root() / p
