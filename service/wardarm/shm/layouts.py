"""The Python mirror of `postproc_cpp/include/wardarm/layout.hpp`: same names, same offsets, same units.

`tests/test_layouts.py` compares the two field by field. Every dtype here is C-aligned and padded to 64 bytes.
Times that end in `_ns` are CLOCK_MONOTONIC nanoseconds (`time.monotonic_ns()`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

MAGIC = 0x4D524157
LAYOUT_VERSION = 1
POINTS = 64
DOF = 6
MAX_KNOTS = 160
MAX_HOLDS = 8
TEXT = 96
INSTRUCTION_BYTES = 512


class ProcessId(IntEnum):
    SUPERVISOR = 0
    API = 1
    EYE = 2
    POSTPROC = 3
    ARM = 4
    GATE = 5
    GUARD = 6
    ALERT = 7
    TRITON = 8


class BlockKind(IntEnum):
    RAW_CHUNK = 1
    TRAJECTORY = 2
    ARM_STATUS = 3
    WORD = 4
    GATE_STATUS = 5
    STEP = 6
    PROGRESS = 7
    COMMAND = 8
    FRAME_META = 9


class HoldReason(IntEnum):
    NONE = 0
    CLIENT = 1
    INTRUDER = 2
    LEASE_LOST = 3
    CAMERA_LOST = 4
    CAMERA_MOVED = 5
    ROOM_CAMERA_LOST = 6
    VIEW_CHANGED = 7
    INFERENCE_STALE = 8
    PLAN_REFUSED = 9
    GRIP_LOST = 10
    ROBOT = 11
    THERMAL = 12
    GATE_FAULT = 13
    WATCHDOG = 14
    STARTING = 15
    STOP = 16


class RefusalReason(IntEnum):
    NONE = 0
    PLAN = 1
    ENVELOPE = 2
    LATE = 3
    UNKNOWN_JOIN = 4
    NOT_READY = 5
    CHECKSUM = 6
    DISCONTINUOUS = 7
    EPOCH = 8
    START = 9


class PlanStatus(IntEnum):
    OK = 0
    NOT_FINITE = 1
    OUT_OF_RANGE = 2
    JUMP = 3
    OUTSIDE_BOX = 4
    UNREACHABLE = 5
    SINGULAR = 6
    JOINT_LIMIT = 7
    COLLISION = 8
    NO_LAW = 9
    BAD_JOIN = 10
    STALE = 11
    START_MISMATCH = 12


class Source(IntEnum):
    MODEL = 0
    SCRIPTED = 1


class ArmState(IntEnum):
    OFFLINE = 0
    CONNECTED = 1
    READY = 2
    LOADED = 3
    RUNNING = 4
    RAMP_DOWN = 5
    HELD = 6
    SAFEGUARD = 7
    PROTECTIVE = 8
    ESTOP = 9
    FAULT = 10


class Holding(IntEnum):
    NO = 0
    YES = 1
    UNKNOWN = 2


class StepKind(IntEnum):
    NONE = 0
    FETCH = 1
    PUT = 2
    POUR = 3
    PUT_BACK = 4
    HAND_OVER = 5
    PARK = 16
    HOME = 17
    SET_DOWN_HERE = 18
    RELEASE = 19


class StepState(IntEnum):
    IDLE = 0
    LOOKING = 1
    MOVING = 2
    SETTING_DOWN = 3
    RETURNING = 4
    DONE = 5
    REFUSED = 6
    FAILED = 7
    HELD = 8


class CommandKind(IntEnum):
    NONE = 0
    RESUME = 1
    STOP = 2
    RECOVER = 3
    POWER_ON = 4


def _struct(fields: list[tuple[Any, ...]]) -> np.dtype[np.void]:
    """A C-aligned dtype, padded to a multiple of 64 bytes (alignas(64))."""
    base = np.dtype(fields, align=True)
    assert base.fields is not None
    assert base.names is not None
    return np.dtype(
        {
            "names": list(base.names),
            "formats": [base.fields[n][0] for n in base.names],
            "offsets": [base.fields[n][1] for n in base.names],
            "itemsize": (base.itemsize + 63) // 64 * 64,
        }
    )


BLOCK_HEADER = _struct(
    [
        ("magic", "<u4"), ("version", "<u2"), ("kind", "<u2"), ("header_bytes", "<u4"), ("slot_bytes", "<u4"),
        ("slot_count", "<u4"), ("payload_bytes", "<u4"), ("writer_pid", "<u4"), ("reserved0", "<u4"),
        ("writer_start_ticks", "<u8"), ("boot_id", "u1", 16), ("reserved1", "<u8"), ("head", "<u8"),
        ("beat_ns", "<u8"), ("reserved2", "<u8", 6),
    ]
)  # fmt: skip
SLOT_HEADER = _struct(
    [
        ("seq", "<u8"), ("generation", "<u8"), ("publish_ns", "<u8"), ("bytes", "<u4"), ("crc", "<u4"),
        ("reserved", "<u8", 4),
    ]
)  # fmt: skip
POINT = np.dtype([(n, "<f4") for n in ("x_mm", "y_mm", "z_mm", "roll_deg", "pitch_deg", "yaw_deg")])
KNOT = np.dtype(
    [("t_s", "<f8"), ("q_rad", "<f8", DOF), ("qd_rad_s", "<f8", DOF), ("qdd_rad_s2", "<f8", DOF), ("grip", "<f8")]
)
RAW_CHUNK = _struct(
    [
        ("id", "<u8"), ("step_seq", "<u8"), ("plan_epoch", "<u8"), ("frame_number", "<u8"), ("capture_ns", "<u8"),
        ("infer_start_ns", "<u8"), ("infer_end_ns", "<u8"), ("join_trajectory_id", "<u8"), ("join_path_s", "<f8"),
        ("source", "<u4"), ("profile", "<u4"), ("valid", "<f4"), ("done", "<f4"), ("payload_kg", "<f4"),
        ("speed_scale", "<f4"), ("traj", "<u2", POINTS * DOF), ("grip", "<u2", POINTS),
    ]
)  # fmt: skip
TRAJECTORY = _struct(
    [
        ("id", "<u8"), ("raw_id", "<u8"), ("step_seq", "<u8"), ("plan_epoch", "<u8"), ("capture_ns", "<u8"),
        ("infer_start_ns", "<u8"), ("infer_end_ns", "<u8"), ("plan_start_ns", "<u8"), ("plan_end_ns", "<u8"),
        ("join_trajectory_id", "<u8"), ("join_path_s", "<f8"), ("duration_s", "<f8"), ("ramp_s", "<f8"),
        ("status", "<u4"), ("limited", "<u4"), ("source", "<u4"), ("profile", "<u4"), ("point_count", "<u4"),
        ("knot_count", "<u4"), ("max_ratio_plan", "<f4"), ("max_ratio_stop", "<f4"), ("payload_kg", "<f4"),
        ("reserved0", "<u4"), ("reason", f"S{TEXT}"), ("raw_points", POINT, POINTS), ("points", POINT, POINTS),
        ("knots", KNOT, MAX_KNOTS),
    ]
)  # fmt: skip
HOLD = np.dtype([("seq", "<u8"), ("since_ns", "<u8"), ("reason", "<u4"), ("writer", "<u4"), ("detail", f"S{TEXT}")])
ARM_STATUS = _struct(
    [
        ("stamp_ns", "<u8"), ("controller_s", "<f8"), ("state", "<u4"), ("robot_mode", "<u4"), ("safety_mode", "<u4"),
        ("runtime_state", "<u4"), ("q_rad", "<f8", DOF), ("qd_rad_s", "<f8", DOF), ("target_q_rad", "<f8", DOF),
        ("target_qd_rad_s", "<f8", DOF), ("tcp_pose", "<f8", DOF), ("speed_scaling", "<f8"), ("plan_epoch", "<u8"),
        ("playing_id", "<u8"), ("path_s", "<f8"), ("path_rate", "<f8"), ("path_duration_s", "<f8"),
        ("loaded_id", "<u8"), ("finished_id", "<u8"), ("refused_id", "<u8"), ("refusal", "<u4"), ("at_rest", "<u4"),
        ("motion_request", "<u4"), ("request_seq", "<u4"), ("grip_opening", "<f4"), ("grip_target", "<f4"),
        ("holding", "<u4"), ("grip_moving", "<u4"), ("load_ms", "<f4"), ("check_ms", "<f4"),
        ("permit_edge_cycle", "<u8"), ("permit_accept_cycle", "<u8"), ("first_motion_cycle", "<u8"),
        ("hold_count", "<u4"), ("command_seq", "<u4"), ("command_result", "<u4"), ("reserved0", "<u4"),
        ("command_reason", f"S{TEXT}"), ("robot_serial", "S24"), ("robot_version", "S24"), ("holds", HOLD, MAX_HOLDS),
    ]
)  # fmt: skip
WORD = _struct(
    [
        ("beat_ns", "<u8"), ("process", "<u4"), ("ok", "<u4"), ("hold_seq", "<u8"), ("reason", "<u4"),
        ("reserved0", "<u4"), ("detail", f"S{TEXT}"),
    ]
)  # fmt: skip
GATE_STATUS = _struct(
    [
        ("beat", "<u8"), ("beat_ns", "<u8"), ("pwm_on", "<u4"), ("request_seq", "<u4"), ("drop_seq", "<u8"),
        ("edge_ns", "<u8"), ("drop_ns", "<u8"), ("missing", "<u4"), ("first_missing", "<u4"), ("detail", f"S{TEXT}"),
    ]
)  # fmt: skip
STEP = _struct(
    [
        ("seq", "<u8"), ("kind", "<u4"), ("attempt", "<u4"), ("task_id", "S40"), ("object_kind", "S24"),
        ("object_color", "S24"), ("language", "S8"), ("speed_scale", "<f4"), ("profile", "<u4"),
        ("text", f"S{INSTRUCTION_BYTES}"),
    ]
)  # fmt: skip
PROGRESS = _struct(
    [
        ("step_seq", "<u8"), ("state", "<u4"), ("chunks", "<u4"), ("accepted", "<u4"), ("refused", "<u4"),
        ("valid", "<f4"), ("done", "<f4"), ("fraction", "<f4"), ("grasp_attempts", "<u4"), ("frame_number", "<u8"),
        ("capture_ns", "<u8"), ("camera_ms", "<f4"), ("queue_ms", "<f4"), ("infer_ms", "<f4"), ("validate_ms", "<f4"),
        ("camera_fps", "<f4"), ("delay_s", "<f4"), ("first_capture_ns", "<u8"), ("first_motion_ns", "<u8"),
        ("model_version", "<u8"), ("reason", f"S{2 * TEXT}"), ("model_tasks", "<u4"), ("reserved0", "<u4"),
    ]
)  # fmt: skip
COMMAND = _struct(
    [("seq", "<u8"), ("kind", "<u4"), ("hold_count", "<u4"), ("hold_seqs", "<u8", MAX_HOLDS), ("actor", f"S{TEXT}")]
)
FRAME_META = _struct(
    [
        ("frame_number", "<u8"), ("capture_ns", "<u8"), ("arrival_ns", "<u8"), ("sensor_ms", "<f8"),
        ("pixel_slot", "<u4"), ("width", "<u4"), ("height", "<u4"), ("channels", "<u4"), ("brightness", "<f4"),
        ("reserved0", "<u4"),
    ]
)  # fmt: skip

STRUCTS: dict[str, np.dtype[np.void]] = {
    "BlockHeader": BLOCK_HEADER,
    "SlotHeader": SLOT_HEADER,
    "RawChunk": RAW_CHUNK,
    "TrajectoryPoint": POINT,
    "Knot": KNOT,
    "Trajectory": TRAJECTORY,
    "Hold": HOLD,
    "ArmStatus": ARM_STATUS,
    "Word": WORD,
    "GateStatus": GATE_STATUS,
    "Step": STEP,
    "Progress": PROGRESS,
    "Command": COMMAND,
    "FrameMeta": FRAME_META,
}
BLOCKS: dict[BlockKind, tuple[str, np.dtype[np.void], int]] = {
    # kind: (file name after the prefix, payload, slots). Words are one file a process: `word_<process>`.
    BlockKind.RAW_CHUNK: ("groot_raw", RAW_CHUNK, 4),
    BlockKind.TRAJECTORY: ("groot_traj", TRAJECTORY, 4),
    BlockKind.ARM_STATUS: ("wardarm_arm", ARM_STATUS, 4),
    BlockKind.WORD: ("wardarm_word", WORD, 2),
    BlockKind.GATE_STATUS: ("wardarm_gate", GATE_STATUS, 2),
    BlockKind.STEP: ("wardarm_step", STEP, 4),
    BlockKind.PROGRESS: ("wardarm_progress", PROGRESS, 4),
    BlockKind.COMMAND: ("wardarm_command", COMMAND, 4),
    BlockKind.FRAME_META: ("wardarm_frame_meta", FRAME_META, 8),
}
