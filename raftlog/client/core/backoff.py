"""How long to wait before the next attempt: exponential, with jitter, bounded (KIP-580)."""

from __future__ import annotations

FIRST_MS = 20
MAX_MS = 1_000


def backoff_ms(attempt: int, *, jitter: float) -> int:
    """Return the wait before an attempt.

    Args:
        attempt: how many have failed, from 1.
        jitter: a random number in [0, 1), so that clients that failed together do not retry together.
    """
    exponential = min(MAX_MS, FIRST_MS * 2 ** min(attempt - 1, 16))
    return int(exponential * (0.8 + 0.4 * jitter))
