"""What is acknowledged to which clients, what is in flight, and waiting for more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from chaos.client_kinds import ClientKind
from chaos.history import Send


@dataclass(slots=True, kw_only=True)
class Acknowledgements:
    """The durable acknowledgements of one workload.

    Args:
        kinds: the kinds of its producers.
        partitions: how many its topic has.
    """

    kinds: Collection[ClientKind]
    partitions: int
    count: int = 0
    _newest: dict[tuple[ClientKind, int], int] = field(default_factory=dict)
    """By kind of client and partition, when the newest acknowledged send was invoked."""
    _pending: dict[str, int] = field(default_factory=dict)
    """By value, when a send with acks=all was invoked that has not completed."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self, kind: ClientKind, value: str) -> int:
        """Note a send that is in flight from now on; return when it was invoked."""
        invoked_ns = time.monotonic_ns()
        if kind.acks == "all":
            self._pending[value] = invoked_ns
        return invoked_ns

    def end(self, kind: ClientKind, send: Send) -> None:
        """Note a send that has completed."""
        self._pending.pop(send.value, None)
        if send.durable:
            self.count += 1
            place = kind, send.partition
            self._newest[place] = max(send.invoked_ns, self._newest.get(place, 0))
            self._news.set()

    def pending(self, begun_ns: int, ended_ns: int) -> int:
        """Return how many sends with acks=all were invoked between two moments and have not completed."""
        return sum(begun_ns <= invoked <= ended_ns for invoked in self._pending.values())

    async def more(self, count: int, *, within_s: float) -> float:
        """Wait until `count` more sends were acknowledged; return how many seconds that took.

        Raises:
            TimeoutError: they were not, before the deadline.
        """
        goal = self.count + count
        return await self._until(lambda: self.count >= goal, within_s)

    async def everywhere(self, *, within_s: float) -> float:
        """Wait until every partition acknowledged a send invoked from now on; return the seconds."""
        started = time.monotonic_ns()

        def everywhere() -> bool:
            return len({partition for (_, partition), at in self._newest.items() if at >= started}) == self.partitions

        return await self._until(everywhere, within_s)

    async def to_each_kind(self, *, within_s: float) -> None:
        """Wait until every kind of producer with acks=all got an acknowledgement of a send invoked from now on.

        Raises:
            TimeoutError: the message names the kinds that did not.
        """
        started = time.monotonic_ns()
        durable = {kind for kind in self.kinds if kind.acks == "all"}

        def silent() -> set[ClientKind]:
            return durable - {kind for (kind, _), at in self._newest.items() if at >= started}

        try:
            await self._until(lambda: not silent(), within_s)
        except TimeoutError:
            names = ", ".join(sorted(map(str, silent())))
            raise TimeoutError(f"within {within_s:g} s nothing was acknowledged to {names}") from None

    async def _until(self, done: Callable[[], bool], within_s: float) -> float:
        started = time.monotonic()
        async with asyncio.timeout(within_s):
            while not done():
                self._news.clear()
                await self._news.wait()
        return time.monotonic() - started
