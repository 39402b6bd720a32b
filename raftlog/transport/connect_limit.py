"""A time limit that does not count the time in which the own event loop stalled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LATE_S = 0.02
"""A timer that fires later than this shows that the loop stalled: its process was paused, or a call blocked it."""


@asynccontextmanager
async def connect_limit(seconds: float) -> AsyncIterator[None]:
    """Limit the time of the body, which must be short: a connection attempt.

    A loop that stalls for longer than the limit sees the peer's answer and the timer's end in the same turn. Without
    more, a peer that answered at once would count as one that did not answer. The limit is therefore extended by the
    time that the loop stalled, once, and by at most `seconds`.

    Raises:
        TimeoutError: the body took longer.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(None) as limit:

        def end() -> None:
            limit.reschedule(loop.time())

        def expire(at: float) -> None:
            late = loop.time() - at
            if late > LATE_S:
                timers.append(loop.call_later(min(late, seconds), end))
            else:
                end()

        timers.append(loop.call_later(seconds, expire, loop.time() + seconds))
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
