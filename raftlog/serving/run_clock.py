"""A clock that pauses while its thread waits for a processor."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

THREAD_COUNTERS = "/proc/thread-self/schedstat"
_READ_INTERVAL_S = 0.01
"""How old the waiting time may be: reading it is a system call."""


class RunClock:
    """The time in which the thread that creates this object ran, or had nothing to do.

    Linux counts how long each thread waited for a processor (`Documentation/scheduler/sched-stats.rst`). Where it does
    not, this is the clock `now`.

    Args:
        counters: the file with the thread's times in nanoseconds: how long it ran, and how long it waited.
    """

    def __init__(self, counters: str = THREAD_COUNTERS, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._counters: int | None = None
        with suppress(OSError):
            self._counters = os.open(counters, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._counters)
        self._waited_s = 0.0
        self._read_at = float("-inf")
        self._newest = 0.0

    def time(self) -> float:
        """Return the time in seconds; only differences have a meaning."""
        now = self._now()
        if now - self._read_at >= _READ_INTERVAL_S:
            self._read_at, self._waited_s = now, self._read_waited_s()
        self._newest = max(self._newest, now - self._waited_s)
        return self._newest

    def _read_waited_s(self) -> float:
        if self._counters is None:
            return 0.0
        try:
            _, waited_ns, _ = os.pread(self._counters, 100, 0).split()
        except (OSError, ValueError):
            return self._waited_s
        return int(waited_ns) / 1e9
