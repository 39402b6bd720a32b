"""A clock of the time that a thread has to spare: it is slower while the thread computes, and pauses while it waits."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

THREAD_COUNTERS = "/proc/thread-self/schedstat"
COMPUTING = 0.5
"""How fast the clock is while its thread computes."""
_READ_INTERVAL_S = 0.01
"""How old the thread's times may be: reading them is a system call."""


class SpareClock:
    """Advances with the wall while the thread that creates it has nothing to do, by `COMPUTING` while it computes.

    It pauses while the thread waits for a processor. Linux counts for each thread how long it ran and how long it
    waited (`Documentation/scheduler/sched-stats.rst`). Where it does not, this is the clock `now`.

    Args:
        counters: the file with the thread's times in nanoseconds: how long it ran, and how long it waited.
    """

    def __init__(self, counters: str = THREAD_COUNTERS, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._counters: int | None = None
        with suppress(OSError):
            self._counters = os.open(counters, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._counters)
        self._taken_s = 0.0
        self._read_at = float("-inf")
        self._newest = 0.0

    def time(self) -> float:
        """Return the time in seconds; only differences have a meaning."""
        now = self._now()
        if now - self._read_at >= _READ_INTERVAL_S:
            self._read_at, self._taken_s = now, self._read_taken_s()
        self._newest = max(self._newest, now - self._taken_s)
        return self._newest

    def _read_taken_s(self) -> float:
        """Return the time in which the clock did not advance."""
        if self._counters is None:
            return 0.0
        try:
            ran_ns, waited_ns, _ = os.pread(self._counters, 100, 0).split()
            return (int(waited_ns) + (1 - COMPUTING) * int(ran_ns)) / 1e9
        except (OSError, ValueError):
            return self._taken_s
