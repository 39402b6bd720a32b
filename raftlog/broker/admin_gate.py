"""How much administration one client may ask of the controllers at once: others, and heartbeats, must get through."""

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


class AdminGate:
    """Lets a few requests of each address through at once; more wait, and too many are refused."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Pass the gate, in the order of coming.

        Raises:
            OverloadedError: too many requests of that address wait already; nothing was done.
        """
        client = self._clients.setdefault(address, _Client())
        if client.count >= AT_ONCE + MAX_WAITING:
            raise OverloadedError(
                f"{client.count} changes that {address} has asked for wait here, at most {AT_ONCE} are made at once; "
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
