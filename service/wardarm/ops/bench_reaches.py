"""The movements that `wardarm bench postproc` plans, and how it judges their shape.

A reach: two minimum-jerk movements between random places of the workspace at up to 0.35 m/s (faster than the `ward`
profile allows), in every other one the fingers close in between. +-2 mm and +-0.8 degrees of uniform noise on every
point but the first, half precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.signal import butter, sosfiltfilt
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from wardarm.policy import contract
from wardarm.shm.layouts import RAW_CHUNK

Array = NDArray[np.float64]
NOISE_M, NOISE_RAD = 0.002, np.radians(0.8)
SPEED_M_S, TURN_RAD_S = 0.35, 0.8
AHEAD_POINTS = 25  # of the reach that may pass between two chunks
CLOSING_POINTS = 10  # half a second from open to closed
JITTER_HZ = 2.0
STILL_OPENING = 1e-3
_HIGH_PASS = butter(4, JITTER_HZ, "highpass", fs=contract.RATE_HZ, output="sos")


def reach(rng: np.random.Generator, home: Array, closes: bool) -> Array:
    """Rows (N, 7) at 20 Hz: pose six and opening, from home to a random place and on to another."""
    rows = [np.append(home, 1.0)]
    for leg in range(2):
        here = rows[-1][:6]
        goal = np.array(
            [rng.uniform(0.33, 0.6), rng.uniform(-0.35, 0.35), rng.uniform(0.1, 0.4), 0, 0, rng.uniform(-1, 1)]
        )
        length = float(np.linalg.norm(goal[:3] - here[:3]))
        # minimum jerk: its peak is 1.875 times its mean
        seconds = 1.875 * max(length / SPEED_M_S, abs(goal[5] - here[5]) / TURN_RAD_S)
        u = np.linspace(0, 1, max(int(seconds * contract.RATE_HZ), 12) + 1)[1:, None]
        way = here + (10 * u**3 - 15 * u**4 + 6 * u**5) * (goal - here)
        rows += list(np.column_stack([way, np.full(len(way), rows[-1][6])]))
        if leg == 0 and closes:
            rows += [np.append(goal, 1 - (i + 1) / CLOSING_POINTS) for i in range(CLOSING_POINTS)]
    return np.array(rows)


@dataclass(frozen=True)
class Chunk:
    """A RawChunk as a policy would say it, the same without noise, and the row of the reach that it starts from."""

    noisy: np.void
    clean: np.void
    row: int


def chunk(rows: Array, row: int, start: tuple[Array, float] | None, rng: np.random.Generator, profile: int) -> Chunk:
    """From the planned pose six and opening `start` on, at the row of the reach nearest to it from `row` on; then standing.

    A policy sees where the arm is: an arm that its profile makes slower than the reach gets the chunk of that place.
    """
    first = 0
    if start is not None:
        window = rows[row : row + AHEAD_POINTS]
        off = np.linalg.norm(window[:, :3] - start[0][:3], axis=1) + 0.05 * np.abs(window[:, 6] - start[1])
        first = row + int(off.argmin())
    at = np.minimum(np.arange(first, first + contract.HORIZON), len(rows) - 1)
    points, grip = rows[at, :6].copy(), rows[at, 6].copy()
    if start is not None:  # a policy steers back to its path over the first half second
        points += np.exp(-np.arange(contract.HORIZON) / 10)[:, None] * (start[0] - points[0])
        grip[0] = start[1]
    noise = rng.uniform(-1, 1, points.shape) * np.array([NOISE_M] * 3 + [NOISE_RAD] * 3)
    noise[0] = 0
    return Chunk(_raw(points + noise, grip, profile), _raw(points, grip, profile), first)


def _raw(points: Array, grip: Array, profile: int) -> np.void:
    raw = np.zeros((), RAW_CHUNK)
    raw["id"], raw["profile"] = 1, profile
    raw["traj"] = contract.normalise(points).astype(np.float16).reshape(-1).view(np.uint16)
    raw["grip"] = grip.astype(np.float16).view(np.uint16)
    return raw  # type: ignore[return-value]


def jitter_deg(noisy: Array, clean: Array) -> float:
    """Peak of what noise leaves in the smoothed orientation above 2 Hz, degrees an axis.

    `noisy`, `clean`: smoothed roll, pitch, yaw (N, 3; deg) of a chunk with and without noise. Their difference as a
    rotation vector through a zero-phase 4th-order Butterworth high-pass.
    """
    a, b = (Rotation.from_euler("xyz", angles, degrees=True) for angles in (noisy, clean))
    off = np.degrees((a * b.inv()).as_rotvec())
    return float(np.abs(sosfiltfilt(_HIGH_PASS, off, axis=0)).max())


def deviation_mm(points_mm: Array, tcp_m: Array) -> float:
    """Largest distance of the motion's TCP (M, 3; m) from the curve through the smoothed points (N, 3; mm)."""
    n = len(points_mm)
    curve = CubicSpline(np.arange(n), points_mm)(np.linspace(0, n - 1, 60 * n))
    return float(cKDTree(curve).query(tcp_m * 1e3)[0].max())


def stand_mm(tcp_m: Array, opening: Array, step_s: float, lag_s: float = 0.05) -> float | None:
    """Largest distance between two TCP places while the commanded opening changes and `lag_s` after; None if it does not.

    Changes farther apart than `lag_s` are stands of their own; the largest counts.
    """
    changes = np.flatnonzero(np.abs(np.diff(opening)) > STILL_OPENING)
    if not changes.size:
        return None
    lag, worst_m = round(lag_s / step_s), 0.0
    for group in np.split(changes, np.flatnonzero(np.diff(changes) > lag) + 1):
        stand = tcp_m[group[0] : group[-1] + 2 + lag]
        worst_m = max(worst_m, float(np.linalg.norm(stand.max(0) - stand.min(0))))
    return worst_m * 1e3


def sparc(speed: Array, step_s: float) -> float:
    """Spectral arc length of a speed profile (Balasubramanian et al. 2015: up to 10 Hz, 5 % of the peak). 0 is smoothest."""
    count = 2 ** (int(np.ceil(np.log2(len(speed)))) + 4)
    frequency = np.fft.rfftfreq(count, step_s)
    spectrum = np.abs(np.fft.rfft(speed, count))
    spectrum /= max(float(spectrum.max()), 1e-12)
    band = np.flatnonzero((frequency <= 10.0) & (spectrum >= 0.05))
    use = slice(0, int(band[-1]) + 1)
    f, s = frequency[use], spectrum[use]
    return -float(np.sum(np.hypot(np.diff(f) / max(f[-1] - f[0], 1e-12), np.diff(s))))


def minimum_jerk_speed(duration_s: float, step_s: float) -> Array:
    """Speed profile of a rest-to-rest minimum-jerk movement of that duration, peak 1.875."""
    u = np.arange(0, duration_s + step_s / 2, step_s) / duration_s
    return np.asarray(30 * u**2 * (1 - u) ** 2)
