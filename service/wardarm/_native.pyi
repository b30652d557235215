"""The C++ side as Python sees it: planner, independent check, UR5e kinematics, layouts (postproc_cpp/src/native.cpp)."""

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

class Verdict(TypedDict):
    ok: bool
    reason: str
    max_ratio_plan: float
    max_ratio_stop: float
    which: str
    at_s: float

class Planner:
    """A planner with `planner.params`. One thread at a time. Raises RuntimeError if the file cannot be used."""

    def __init__(self, params: str) -> None: ...
    def plan(
        self,
        raw_chunk: bytes,
        q_rad: NDArray[np.float64],
        qd_rad_s: NDArray[np.float64],
        qdd_rad_s2: NDArray[np.float64],
        *,
        free: bool = False,
        stops: bool = True,
        limit_share: float = 1.0,
        opening: float = -1.0,
    ) -> bytes:
        """Plan a RawChunk (`.tobytes()`) from a joint state (6 each); bytes of a Trajectory. All zero qd, qdd: from rest.

        `opening`: what the fingers were told last, 0..1; below 0: the chunk's first.

        For measurements: `free` plans faster than the chunk's own timing where the limits allow, `stops=False` leaves
        out that a ramp to rest of the profile's longest must keep the stop limits, `limit_share` scales every limit.
        """

    def fk(self, q_rad: NDArray[np.float64]) -> NDArray[np.float64]:
        """TCP pose in base: x y z (m), rotation vector (rad)."""

    def ik(self, pose: NDArray[np.float64], near_rad: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Joints (rad) for a TCP pose on the branch of `near_rad`, each within pi of it; None if out of reach."""

    def jacobian(self, q_rad: NDArray[np.float64]) -> NDArray[np.float64]:
        """6x6: TCP velocity (m/s) and angular velocity (rad/s) in base per rad/s."""

    @property
    def profiles(self) -> list[str]: ...
    @property
    def last_rounds(self) -> int:
        """Fits that the last plan needed."""

class Answerer:
    """What `wardarm-postproc` does with a chunk: joins, epochs, the last published trajectories."""

    def __init__(self, params: str) -> None: ...
    def answer(self, raw_chunk: bytes, arm_status: bytes | None, now_ns: int) -> bytes: ...

class Envelope:
    """The independent check, with `envelope.params`. Raises RuntimeError if the file cannot be used."""

    def __init__(self, params: str) -> None: ...
    def check(
        self,
        knots: NDArray[np.float64],
        ramp_s: float,
        profile: int = 0,
        start: NDArray[np.float64] | None = None,
        loaded: bool = False,
    ) -> Verdict:
        """Check the player's motion through `knots` (N x 20: t, q, qd, qdd, grip) and every ramp to rest from it.

        `start`: 18 numbers, commanded q, qd, qdd that the motion continues. Ratios are value / limit. `loaded`: something may
        be in the fingers, and they may not open under way either.
        """

def sample(knots: NDArray[np.float64], dt_s: float) -> NDArray[np.float64]:
    """The player's motion every `dt_s`: rows of t, q, qd, qdd, grip (M x 20)."""

def process_groot_output(raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalised points (64 x 6) to mm and degrees. Raises ValueError naming a point that is not finite or out of range."""

def layout() -> dict[str, Any]:
    """{"structs": {name: {"size", "fields": {field: (offset, bytes)}}}, "blocks": {name: (kind, slots, payload bytes)}}."""

def crc32(data: bytes) -> int:
    """CRC-32 as the rings use it: the one of zlib."""
