"""Turns: callers get in one at a time, in the order in which they took their turns."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

Turn: TypeAlias = asyncio.Future[None]
"""Done once its owner may begin."""


class Turns:
    """A queue. A lock's waiters have the order in which their tasks began to run; these that of the calls of `take`."""

    def __init__(self) -> None:
        self._queue: deque[Turn] = deque()

    def take(self) -> Turn:
        """Return the next turn; its owner must `end` it, also one that has not come."""
        turn: Turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._call_next()
        return turn

    def end(self, turn: Turn) -> None:
        """Let the next one begin; it may be called again."""
        turn.cancel()
        if turn in self._queue:
            self._queue.remove(turn)
            self._call_next()

    def is_last(self, turn: Turn) -> bool:
        """Return whether no later turn was taken."""
        return self._queue[-1] is turn

    def _call_next(self) -> None:
        if self._queue and not self._queue[0].done():
            self._queue[0].set_result(None)
