"""What travels to the player: trajectories, discard and bye, as blocks of 20 big-endian 32-bit integers.

A trajectory is one header block and one block a knot (docs/architecture.md 3.5). The numbers are whole microseconds
and fixed fractions of a radian; `encode_trajectory` also returns the knots as the player will see them, and those are
the ones to check.

The player connects to arm. While nothing arrives for 0.5 s it sends one 32-bit integer (the last id it accepted) to
find out whether anybody is there: arm must read and may ignore it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAGIC = 0x5741524D
BLOCK = 20
"""Integers in a block; `socket_read_binary_integer` reads at most 30 at once."""
BLOCK_BYTES = 4 * BLOCK
KNOTS_MAX = 160
MODULUS = 2**31 - 1
_INT32_MAX = 2**31 - 1
_US = 1e6
_SCALE = np.array([1e6] + [1e8] * 6 + [1e7] * 6 + [1e6] * 6 + [1e6])
"""Integers a unit: t us, q 1e-8 rad, qd 1e-7 rad/s, qdd 1e-6 rad/s2, grip 1e-6."""
_COLUMNS = ("t_s", *(f"{n}[{j}]" for n in ("q_rad", "qd_rad_s", "qdd_rad_s2") for j in range(6)), "grip")


class WireError(ValueError):
    """A trajectory cannot be sent or a message cannot be read; the text names field, value and limit."""


class Kind(IntEnum):
    TRAJECTORY = 1
    DISCARD = 2
    BYE = 3


@dataclass(frozen=True)
class Header:
    """The first block of a message. Times in seconds, already on the wire's grid."""

    kind: Kind
    id: int
    knot_count: int = 0
    join_id: int = 0
    join_path_s: float = 0.0
    ramp_s: float = 0.0
    duration_s: float = 0.0
    payload_kg: float = 0.0
    flags: int = 0
    checksum: int = 0


def wire_id(number: int) -> int:
    """An id as the player knows it: its low 31 bits."""
    return number & _INT32_MAX


def checksum(numbers: NDArray[np.int64]) -> int:
    return int(numbers.sum()) % MODULUS


def _time_us(name: str, seconds: float, low_s: float, high_s: float) -> int:
    if not low_s <= seconds <= high_s:
        raise WireError(f"{name} = {seconds} s is outside [{low_s}, {high_s}]")
    return round(seconds * _US)


def encode_trajectory(
    id: int, join_id: int, join_path_s: float, ramp_s: float, duration_s: float, payload_kg: float,
    knots: NDArray[np.float64],
) -> tuple[bytes, NDArray[np.float64]]:  # fmt: skip
    """A whole trajectory message and the knots as the player will have them.

    `knots`: (N, 20) float64, 2 <= N <= 160: t_s, q_rad x 6, qd_rad_s x 6, qdd_rad_s2 x 6, grip. Raises WireError.
    """
    knots = np.asarray(knots, np.float64)
    if knots.ndim != 2 or knots.shape[1] != BLOCK or not 2 <= len(knots) <= KNOTS_MAX:
        raise WireError(f"knots have shape {knots.shape}, expected (2 to {KNOTS_MAX}, {BLOCK})")
    if not np.isfinite(knots).all():
        row, column = np.argwhere(~np.isfinite(knots))[0]
        raise WireError(f"knot {row}: {_COLUMNS[column]} = {knots[row, column]} is not finite")
    scaled = np.rint(knots * _SCALE)
    if np.abs(scaled).max() > _INT32_MAX:
        row, column = np.unravel_index(int(np.abs(scaled).argmax()), scaled.shape)
        limit = _INT32_MAX / _SCALE[column]
        raise WireError(f"knot {row}: {_COLUMNS[column]} = {knots[row, column]}, the wire carries up to {limit:g}")
    numbers = scaled.astype(np.int64)
    if numbers[0, 0] != 0 or (np.diff(numbers[:, 0]) <= 0).any():
        raise WireError("t_s of the knots must begin at 0 and grow by at least 1 us a knot")
    if not 0.0 <= float(knots[:, 19].min()) <= float(knots[:, 19].max()) <= 1.0:
        raise WireError(f"grip runs from {knots[:, 19].min()} to {knots[:, 19].max()}, expected within [0, 1]")
    duration_us = _time_us("duration_s", duration_s, 0.0, 600.0)
    if abs(duration_us - int(numbers[-1, 0])) > 1:
        raise WireError(f"duration_s = {duration_s}, but the last knot is at {numbers[-1, 0] / _US} s")
    if wire_id(id) == 0:
        raise WireError(f"id = {id}: 0 means no trajectory")
    if not 0.0 <= payload_kg <= 5.0:
        raise WireError(f"payload_kg = {payload_kg} is outside [0, 5]")
    header = np.zeros(BLOCK, np.int64)
    header[:11] = (
        MAGIC, Kind.TRAJECTORY, wire_id(id), len(knots), wire_id(join_id),
        _time_us("join_path_s", join_path_s, 0.0, 600.0), _time_us("ramp_s", ramp_s, 0.05, 10.0), duration_us,
        round(payload_kg * 1000), 0, checksum(numbers),
    )  # fmt: skip
    message = np.concatenate([header, numbers.ravel()]).astype(">i4").tobytes()
    return message, numbers / _SCALE


def encode_discard() -> bytes:
    """Forget everything and hold still; also what ends HELD."""
    return _bare(Kind.DISCARD)


def encode_bye() -> bytes:
    """End the program (from motion: after a ramp to rest)."""
    return _bare(Kind.BYE)


def _bare(kind: Kind) -> bytes:
    header = np.zeros(BLOCK, ">i4")
    header[:2] = MAGIC, kind
    return header.tobytes()


def decode(message: bytes) -> tuple[Header, NDArray[np.float64]]:
    """A message back to header and knots (N, 20), N = 0 without knots. Raises WireError if it is not whole or wrong."""
    if len(message) % BLOCK_BYTES or not message:
        raise WireError(f"{len(message)} bytes are not whole blocks of {BLOCK_BYTES}")
    blocks = np.frombuffer(message, ">i4").astype(np.int64).reshape(-1, BLOCK)
    head, numbers = blocks[0], blocks[1:]
    if head[0] != MAGIC:
        raise WireError(f"magic is {head[0]:#x}, expected {MAGIC:#x}")
    if head[1] not in list(Kind):
        raise WireError(f"kind = {head[1]}, expected 1 to 3")
    if head[3] != len(numbers):
        raise WireError(f"knot_count = {head[3]}, but {len(numbers)} knots follow")
    if head[10] != checksum(numbers):
        raise WireError(f"checksum = {head[10]}, the knots sum to {checksum(numbers)}")
    header = Header(
        Kind(head[1]), int(head[2]), int(head[3]), int(head[4]), head[5] / _US, head[6] / _US, head[7] / _US,
        head[8] / 1000, int(head[9]), int(head[10]),
    )  # fmt: skip
    return header, numbers / _SCALE
