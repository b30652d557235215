"""One thing at a time that blocks, done in a thread while the loop goes on: connect, dashboard, upload."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What came of it: `value`, or the `error` that it raised."""

    name: str
    value: T | None
    error: Exception | None


class Errand(Generic[T]):
    """`start` if not `busy`; `take` gives the outcome once."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._done: Done[T] | None = None

    @property
    def busy(self) -> bool:
        """From `start` until its outcome was taken."""
        return self._thread is not None

    def start(self, name: str, do: Callable[[], T]) -> None:
        assert self._thread is None, "one errand at a time"

        def run() -> None:
            try:
                self._done = Done(name, do(), None)
            except Exception as e:  # handed to the loop, which decides
                self._done = Done(name, None, e)

        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def take(self) -> Done[T] | None:
        """The outcome, once; None while it runs or if nothing was started."""
        if self._thread is None or self._thread.is_alive():
            return None
        done, self._thread, self._done = self._done, None, None
        return done
