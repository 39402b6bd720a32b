"""Limits each client's concurrent administrative requests, so that other clients' and heartbeats get through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from raftlog.errors import OverloadedError

AT_ONCE = 8
MAX_WAITING = 128


@dataclass(slots=True)
class _Client:
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    count: int = 0
    """Requests under way or waiting."""


class AdminLimits:
    """Runs up to `AT_ONCE` requests of each address at once, queues `MAX_WAITING` more, and refuses the rest."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}

    @asynccontextmanager
    async def slot(self, address: str) -> AsyncIterator[None]:
        """Wait for a slot, in order of arrival, and occupy it for the block.

        Raises:
            OverloadedError: too many requests of that address wait already; nothing was done.
        """
        client = self._clients.setdefault(address, _Client())
        if client.count >= AT_ONCE + MAX_WAITING:
            raise OverloadedError(
                f"{client.count} administrative requests of {address} wait here (at most {AT_ONCE} run at once); "
                "nothing was done: send fewer at a time"
            )
        client.count += 1
        try:
            async with client.gate:
                yield
        finally:
            client.count -= 1
            if not client.count:
                del self._clients[address]
