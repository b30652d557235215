"""The independent check, on the very numbers that go to the player."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wardarm._native import Envelope
from wardarm.arm.admit import Refused
from wardarm.arm.params import write_envelope_params
from wardarm.config import Config
from wardarm.shm.layouts import KNOT, RefusalReason


class Check:
    """The envelope with the limits of this configuration. Raises RuntimeError if its parameter file cannot be read."""

    def __init__(self, config: Config) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "envelope.params"
            write_envelope_params(config, path)
            self._envelope = Envelope(str(path))
        self._profiles = len(config.profiles)

    def demand(
        self, knots: npt.NDArray[np.void], ramp_s: float, profile: int, start: npt.NDArray[np.float64] | None,
        payload_kg: float,
    ) -> None:  # fmt: skip
        """Return if the motion and a stop from anywhere on it keep every limit.

        `knots`: KNOT records as the wire carries them. `start`: q, qd, qdd (18; rad, s) that the motion must continue.
        `payload_kg`: what may be in the fingers; with it they do not open under way.
        Raises Refused (ENVELOPE) naming quantity, ratio and path time.
        """
        if not 0 <= profile < self._profiles:
            raise Refused(RefusalReason.ENVELOPE, f"profile {profile}, there are {self._profiles}")
        table = np.ascontiguousarray(knots).view(np.float64).reshape(-1, KNOT.itemsize // 8)
        verdict = self._envelope.check(table, ramp_s, profile, start, payload_kg > 0.0)
        if not verdict["ok"]:
            raise Refused(RefusalReason.ENVELOPE, str(verdict["reason"]))
