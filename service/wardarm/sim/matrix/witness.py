"""What the controller did, from its own 500 Hz record, as it happens."""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wardarm.config import Arm
from wardarm.ops import limits
from wardarm.ops.rtde_log import SAMPLE, RtdeLog

_KEEP = 60_000  # samples: two minutes
REST_RAD_S = 0.002


class Witness:
    """A thread that receives RTDE; reconnects by itself. `samples` never shrinks under a reader: it is a copy."""

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self._raw: list[bytes] = []
        self._arrived: list[int] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.connections = 0
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(OSError, ConnectionError, RuntimeError):
                log = RtdeLog(self.arm.host)
                log.socket.settimeout(0.5)
                self.connections += 1
                try:
                    self._receive(log)
                finally:
                    log.socket.close()
            time.sleep(0.1)

    def _receive(self, log: RtdeLog) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                log.receive()
            with self._lock:
                self._raw += log.samples
                self._arrived += log.arrival_ns
                if len(self._raw) > 2 * _KEEP:
                    del self._raw[:_KEEP], self._arrived[:_KEEP]
            log.samples.clear()
            log.arrival_ns.clear()

    def last(self) -> Any:
        """The newest sample (a record of rtde_log.SAMPLE), or None."""
        with self._lock:
            raw = self._raw[-1] if self._raw else None
        return None if raw is None else np.frombuffer(raw, SAMPLE)[0]

    def since(self, controller_s: float) -> NDArray[Any]:
        """All samples from a controller time on, native byte order."""
        with self._lock:
            raw = list(self._raw)
        at = len(raw)
        while at > 0 and np.frombuffer(raw[at - 1], SAMPLE)["timestamp"][0] >= controller_s:
            at -= 200
        rows = np.frombuffer(b"".join(raw[max(at, 0) :]), SAMPLE)
        rows = rows[rows["timestamp"] >= controller_s]
        return rows.astype(np.dtype([(n, SAMPLE[n].newbyteorder("=")) for n in SAMPLE.names or ()]))

    def at(self, monotonic_ns: int) -> float | None:
        """Controller time of the newest sample that had arrived by then; None if there is none."""
        with self._lock:
            number = bisect.bisect_right(self._arrived, monotonic_ns)
            raw = self._raw[number - 1] if number else None
        return None if raw is None else float(np.frombuffer(raw, SAMPLE)["timestamp"][0])

    def arrived_ns(self, controller_s: float) -> int:
        """When the sample of this controller time had arrived, CLOCK_MONOTONIC; of the next one if there is none."""
        with self._lock:
            raw, arrived = list(self._raw), list(self._arrived)
        number = bisect.bisect_left(raw, controller_s, key=lambda r: float(np.frombuffer(r, SAMPLE)["timestamp"][0]))
        return arrived[min(number, len(arrived) - 1)]

    def speed_m_s(self) -> float:
        """TCP speed of the target over the last 20 ms of controller time."""
        with self._lock:
            raw = self._raw[-11:]
        if len(raw) < 2:
            return 0.0
        rows = np.frombuffer(b"".join(raw), SAMPLE)
        passed = float(rows["timestamp"][-1] - rows["timestamp"][0])
        if passed <= 0:
            return 0.0
        at, _ = limits.forward(np.asarray(rows["target_q"][[0, -1]], float), self.arm)
        return float(np.linalg.norm(at[1] - at[0])) / passed

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


def moving(sample: Any) -> bool:
    return bool(np.abs(sample["target_qd"]).max() > REST_RAD_S)
