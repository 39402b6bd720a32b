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
    time that the loop stalled.

    Raises:
        TimeoutError: the body took longer than `seconds`.
    """
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    async with asyncio.timeout(None) as limit:

        def expire_after(delay: float) -> None:
            timers[:] = [loop.call_later(delay, expire, loop.time() + delay)]

        def expire(at: float) -> None:
            late = loop.time() - at
            if late > LATE_S:
                expire_after(min(late, seconds))
            else:
                limit.reschedule(loop.time())

        expire_after(seconds)
        try:
            yield
        finally:
            timers[0].cancel()
