"""Tasks that one event wakes, such as an answer that all of them wait for, continue one after another."""

from __future__ import annotations

import asyncio


class InTurn:
    """Gives each task a turn of the event loop of its own, in the order in which they ask.

    Thousands of requests may wait for one event. Woken together, they would continue in one turn of the loop, and
    nothing else would run for as long as all of them take.
    """

    def __init__(self) -> None:
        self._continues = asyncio.Lock()

    async def take(self) -> None:
        """Wait for the caller's turn."""
        async with self._continues:
            await asyncio.sleep(0)
