"""What every test relies on, whoever started the run, and which half of the tests is run."""

from __future__ import annotations

import signal
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell that starts a run in the background has it ignore SIGINT, and children inherit that: Ctrl-C would then end nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No example is too slow on the wall clock: the machine may stand still. The same examples each time: what has passed
# passes again; new ones are drawn with `--hypothesis-profile=default`.
settings.register_profile("shared", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

COMPUTED = (
    "test_alert_sounds", "test_api_reasons", "test_arm_admit", "test_arm_edges", "test_arm_holds", "test_arm_state",
    "test_bedside_world", "test_bench", "test_config", "test_contract", "test_eye_heights", "test_eye_planned",
    "test_eye_scripted", "test_gate_deadline", "test_gate_permit*", "test_guard_bedside", "test_guard_calibrate",
    "test_guard_detector", "test_guard_shadow", "test_guard_silhouette", "test_guard_texts", "test_guard_zone*",
    "test_hold_table", "test_instruction", "test_layouts", "test_lies_chunks", "test_lies_motion", "test_limits",
    "test_model_*", "test_motion_*", "test_mutation", "test_player_edges", "test_player_permit", "test_policy_view",
    "test_postproc_planner", "test_postproc_[!p]*", "test_sim_crossing", "test_sim_motion", "test_sim_room",
    "test_sim_ur_fuzz", "test_sim_ur_impossible", "test_training_*", "test_urscript_generated",
)  # fmt: skip
"""Files whose tests only compute: no deadline of theirs is a clock's, so they may run beside the others and starve."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=("computed", "real-time"), help="only the files that compute, or all the others")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    part = config.getoption("--part")
    if part is None or not collection_path.name.startswith("test_"):
        return None
    computed = any(fnmatch(collection_path.stem, pattern) for pattern in COMPUTED)
    return True if computed != (part == "computed") else None
