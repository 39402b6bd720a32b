"""A lock that admits urgent callers first: requests that keep brokers in the cluster precede all others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class PriorityLock:
    """A lock with two queues, each first in, first out. The urgent queue is served first."""

    def __init__(self) -> None:
        self._locked = False
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._ordinary: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def acquire(self, *, urgent: bool) -> AsyncIterator[None]:
        """Hold the lock."""
        await self._wait(urgent)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, urgent: bool) -> None:
        if not self._locked:
            self._locked = True
            return
        queue = self._urgent if urgent else self._ordinary
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._release()  # The lock was granted just before the cancellation.
            raise

    def _release(self) -> None:
        """Pass the lock to the next caller that still waits."""
        for queue in (self._urgent, self._ordinary):
            while queue:
                waiter = queue.popleft()
                if not waiter.cancelled():
                    waiter.set_result(None)
                    return
        self._locked = False
