"""Checks of passwords, which are slow on purpose: in a thread of their own, one at a time; addresses alternate.

An address with many checks waits behind every other address, and may queue only a few. So a flood of wrong passwords
delays the logins of other addresses by one check each.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from raftlog.errors import OverloadedError
from raftlog.serving.in_turn import InTurn

PER_ADDRESS = 8
"""Checks of one address that run or wait."""
IN_ALL = 512
_THREAD = ThreadPoolExecutor(1, thread_name_prefix="logins")


class PasswordChecks:
    """Runs checks; equal ones that are under way at the same time run once."""

    def __init__(self, *, per_address: int = PER_ADDRESS, in_all: int = IN_ALL) -> None:
        self._per_address = per_address
        self._in_all = in_all
        self._under_way: dict[Hashable, asyncio.Task[bool]] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By address; the next address comes first."""
        self._busy = False
        self._in_turn = InTurn()

    async def run(self, key: Hashable, address: str, check: Callable[[], bool]) -> bool:
        """Return what `check` returns, from the thread.

        A caller that is cancelled does not end the check: the thread would still run it.

        Args:
            key: equal for equal checks.

        Raises:
            OverloadedError: too many checks of this address, or of all, wait.
        """
        task = self._under_way.get(key)
        if task is None:
            if self._counts[address] >= self._per_address or len(self._under_way) >= self._in_all:
                raise OverloadedError(
                    f"{self._counts[address]} passwords from {address} are being checked here, "
                    f"{len(self._under_way)} in all; send the request again later"
                )
            self._counts[address] += 1
            task = self._under_way[key] = asyncio.create_task(self._check(address, check))
            task.add_done_callback(lambda _: self._forget(key, address))
        fits = await asyncio.shield(task)
        await self._in_turn.take()  # After a restart, all clients of an application wait for one check.
        return fits

    async def _check(self, address: str, check: Callable[[], bool]) -> bool:
        await self._turn(address)
        try:
            return await asyncio.get_running_loop().run_in_executor(_THREAD, partial(check))
        finally:
            self._begin_next()

    def _forget(self, key: Hashable, address: str) -> None:
        del self._under_way[key]
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    async def _turn(self, address: str) -> None:
        """Wait until no other check runs and it is this address' turn."""
        if not self._busy:
            self._busy = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        await turn

    def _begin_next(self) -> None:
        self._busy = False
        while self._waiting and not self._busy:
            address, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            del self._waiting[address]
            if turns:
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                self._busy = True
