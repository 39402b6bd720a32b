"""Whose turn it is to decide: brokers that keep the cluster alive come before everybody else."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from raftlog.errors import OverloadedError


class Turns:
    """A lock with two queues. Within each of them, who came first is served first.

    Args:
        max_waiting: of ordinary callers; one more is refused.
    """

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._taken = False
        self._vital: deque[asyncio.Future[None]] = deque()
        self._ordinary: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self, *, vital: bool) -> AsyncIterator[None]:
        """Hold the lock.

        Raises:
            OverloadedError: too many ordinary callers wait.
        """
        await self._acquire(vital)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, vital: bool) -> None:
        if not self._taken:
            self._taken = True
            return
        queue = self._vital if vital else self._ordinary
        if not vital and len(queue) >= self._max_waiting:
            raise OverloadedError(
                f"{len(queue)} requests wait for the controller's decision; nothing was done: send it again later"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._release()  # It was given at the very moment.
            raise

    def _release(self) -> None:
        """Give the lock to the next caller who still waits."""
        for queue in (self._vital, self._ordinary):
            while queue:
                turn = queue.popleft()
                if not turn.cancelled():
                    turn.set_result(None)
                    return
        self._taken = False
