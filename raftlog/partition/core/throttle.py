"""Throttle of replicas that a reassignment adds: a token bucket that may go into debt.

The size of a response is known only afterwards, so it is subtracted in full, and the debt gives the time to wait. The
bucket holds at most one second's tokens.
"""

from __future__ import annotations

UNLIMITED = -1


class Throttle:
    """One limit for all partitions that reassignments add to a broker."""

    def __init__(self) -> None:
        self._rate = UNLIMITED
        self._tokens = 0.0
        self._at_ms = 0.0

    @property
    def bytes_per_second(self) -> int:
        return self._rate

    def limit(self, bytes_per_second: int, now_ms: float) -> None:
        """Change the limit; `UNLIMITED` clears the debt."""
        if bytes_per_second != self._rate:
            self._refill(now_ms)
            self._rate = bytes_per_second
            self._tokens = min(self._tokens, max(0.0, float(bytes_per_second)))

    def spend(self, count: int, now_ms: float) -> None:
        """Subtract `count` fetched bytes."""
        if self._rate != UNLIMITED:
            self._refill(now_ms)
            self._tokens -= count

    def wait_ms(self, now_ms: float) -> float:
        """Return how long to wait before the next fetch, in ms; 0: none."""
        if self._rate == UNLIMITED:
            return 0.0
        self._refill(now_ms)
        return max(0.0, -self._tokens / self._rate * 1000)

    def _refill(self, now_ms: float) -> None:
        if self._rate == UNLIMITED:
            self._tokens = 0.0
        else:
            gained = (now_ms - self._at_ms) / 1000 * self._rate
            self._tokens = min(float(self._rate), self._tokens + max(0.0, gained))
        self._at_ms = now_ms
