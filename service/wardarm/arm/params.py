"""The parameter files of the C++ side, written from the configuration: one `key = number number ...` a line.

`planner.params` feeds `wardarm-postproc`, `envelope.params` the independent check. They are two files on purpose: the
check must not depend on what the planner was told. The keys are listed in docs/motion.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from wardarm.config import Config, LimitProfile

PLANNER_FILE = "planner.params"
ENVELOPE_FILE = "envelope.params"
_ANY_TILT_DEG, _ANY_M_S2 = 90.0, 15.0  # where a profile limits only the other of the two

_PROFILE_FIELDS = (
    "joint_deg_s", "joint_deg_s2", "joint_deg_s3", "tcp_m_s", "tcp_m_s2", "tcp_m_s3", "tcp_deg_s", "tcp_deg_s2",
    "tcp_deg_s3", "stop_factor", "ramp_min_s", "ramp_max_s",
)  # fmt: skip


def _profile_numbers(profile: LimitProfile) -> list[float]:
    return [float(getattr(profile, field)) for field in _PROFILE_FIELDS]


def _lines(config: Config) -> list[str]:
    rows: list[tuple[str, Iterable[float]]] = [
        ("dh_a", config.arm.dh_a),
        ("dh_d", config.arm.dh_d),
        ("dh_alpha", config.arm.dh_alpha),
        ("tcp", config.arm.tcp),
        ("box_low", config.workspace.low),
        ("box_high", config.workspace.high),
        ("table_z", [config.workspace.table_z]),
        ("floor_links_z", [config.workspace.floor_links_z]),
    ]
    if config.workspace.patient_low is not None and config.workspace.patient_high is not None:
        rows += [("patient_low", config.workspace.patient_low), ("patient_high", config.workspace.patient_high)]
    rows += [(f"profile.{name}", _profile_numbers(profile)) for name, profile in config.profiles.items()]
    for name, profile in config.profiles.items():
        if profile.tilt_deg is not None or profile.lateral_m_s2 is not None:
            rows.append((f"liquid.{name}", [profile.tilt_deg or _ANY_TILT_DEG, profile.lateral_m_s2 or _ANY_M_S2]))
    return [f"{key} = {' '.join(repr(float(value)) for value in values)}" for key, values in rows]


def _write(path: Path, comment: str, lines: list[str]) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text("\n".join([f"# {comment}", *lines]) + "\n")
    scratch.replace(path)  # a reader never sees half a file


def write_planner_params(config: Config, path: str | Path) -> Path:
    """What `wardarm-postproc --params` reads: DH (m, rad), TCP (m, rotation vector rad), workspace (m), profiles.

    A profile's row is `config.LimitProfile` in field order (degrees and metres); `RawChunk.profile` counts the rows.
    """
    path = Path(path)
    _write(path, "written from the configuration for wardarm-postproc", _lines(config))
    return path


def write_envelope_params(config: Config, path: str | Path) -> Path:
    """What `wardarm._native.Envelope` reads. The same keys as the planner's file."""
    path = Path(path)
    _write(path, "written from the configuration for the independent check", _lines(config))
    return path
