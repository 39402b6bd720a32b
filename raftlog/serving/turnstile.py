"""Whose request begins next, when more come at once than the event loop should begin in one turn."""

from __future__ import annotations

import asyncio
from collections import deque

PER_TURN = 4
"""Requests that begin in one turn of the loop: each computes for up to a millisecond before it first waits."""


class Turnstile:
    """Lets a few requests begin in each turn of the loop; addresses take turns, whatever the number of their requests.

    Connections of raw batches do not pass it: they are not kept waiting by those that do.
    """

    def __init__(self, per_turn: int = PER_TURN) -> None:
        self._per_turn = per_turn
        self._begun = 0
        """How many have begun in this turn."""
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address; the one whose turn it is comes first."""
        self._scheduled = False

    async def enter(self, address: str) -> None:
        """Begin a request: at once, or in one of the next turns."""
        if not self._waiting and self._begun < self._per_turn:
            self._begun += 1
            self._schedule()
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._schedule()
        await turn  # One that is cancelled stays in its queue, and is passed over.

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        self._begun = 0
        while self._waiting and self._begun < self._per_turn:
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            turn = queue.popleft()
            if queue:
                self._waiting[address] = queue  # Behind all others.
            if not turn.done():
                turn.set_result(None)
                self._begun += 1
        if self._begun:
            self._schedule()
