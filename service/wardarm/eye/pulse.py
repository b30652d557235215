"""Whether the inference server still answers at all, asked ten times a second while a model's chunk plays.

A question about a picture may take long on a busy machine; a live server says that it is alive within milliseconds. So
one that was killed or is frozen shows here long before the next chunk is missed. Own connection, own thread.
"""

from __future__ import annotations

import threading
import time

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

PERIOD_S = 0.1
SILENT_S = 0.45
"""With the ramp (0.34 s) and the beats in between, the arm stands 1.1 s after the server froze."""
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
]  # fmt: skip


class ServerPulse:
    """`want(True)` while the server matters. `silent_s`: since it last answered, 0 while it is not asked."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._wanted, self._ended = threading.Event(), threading.Event()
        self._heard_s = 0.0
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._thread.start()

    def want(self, wanted: bool) -> None:
        if wanted and not self._wanted.is_set():
            self._heard_s = time.monotonic()
            self._wanted.set()
        elif not wanted:
            self._wanted.clear()

    @property
    def silent_s(self) -> float:
        return time.monotonic() - self._heard_s if self._wanted.is_set() else 0.0

    def _run(self) -> None:
        client = triton.InferenceServerClient(self._url, channel_args=_CHANNEL)
        while not self._ended.is_set():
            if not self._wanted.wait(0.5):
                continue
            asked_s = time.monotonic()
            try:
                if client.is_server_live(client_timeout=SILENT_S):
                    self._heard_s = time.monotonic()
            except InferenceServerException:
                pass  # silence is what is measured
            self._ended.wait(max(0.0, PERIOD_S - (time.monotonic() - asked_s)))
        client.close()

    def close(self) -> None:
        self._ended.set()
        self._wanted.set()
        self._thread.join(2.0)
