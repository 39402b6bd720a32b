"""The deadline of a connection's next step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Deadline:
    """One deadline, which moves with each step. Its timer moves only to an earlier time: most deadlines move on first.

    Args:
        on_passed: called when the deadline has passed.
    """

    __slots__ = ("_at", "_loop", "_on_passed", "_timer")

    def __init__(self, on_passed: Callable[[], None]) -> None:
        self._on_passed: Callable[[], None] | None = on_passed
        self._loop = asyncio.get_running_loop()
        self._at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def within(self, seconds: float) -> None:
        """Set the deadline of the next step."""
        self._at = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._at:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._at, self._look)

    def clear(self) -> None:
        """Let the next step take any time."""
        self._at = None

    def end(self) -> None:
        """Stop for good, and drop the callback: its object has this deadline, and would be freed late."""
        self._at = self._on_passed = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._at is None:
            return
        if self._loop.time() < self._at:
            self._timer = self._loop.call_at(self._at, self._look)
        elif self._on_passed is not None:
            self._on_passed()
