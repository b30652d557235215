"""Wakes everybody who waits for a change, all at once."""

from __future__ import annotations

import asyncio


class Ring:
    """One ring to come. Taken before looking, so that no change between looking and waiting is missed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """True if it rang, False after `timeout_s`."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout_s)
        except TimeoutError:
            return False
        return True


class Bell:
    """`ring()` wakes everybody who holds `next()`. Use on one event loop only."""

    def __init__(self) -> None:
        self._next = Ring()

    def next(self) -> Ring:
        return self._next

    def ring(self) -> None:
        self._next.set()
        self._next = Ring()
