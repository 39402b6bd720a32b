"""The block of one transaction of the blocking producer, in the loop's thread.

An interruption (Ctrl-C, an exception of a signal handler) may come while the block begins or ends. The transaction is
aborted then: it would stay open otherwise, and the producer could not begin another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from raftlog.client.transactions import Transaction
from raftlog.errors import TransactionInDoubtError

_log = logging.getLogger(__name__)


class TransactionBlock:
    """Begins and ends one transaction.

    Args:
        passed: returns once the producer has every record that was accepted before.
        turn: held while a block of this producer begins or ends, so that the next one waits for an abort.
    """

    def __init__(self, work: Transaction, passed: Callable[[], Awaitable[None]], turn: asyncio.Lock) -> None:
        self.work = work
        self._passed = passed
        self._turn = turn
        self._is_open = False

    async def begin(self) -> None:
        """Begin the transaction, after what was queued before."""
        await self._passed()
        async with self._turn:
            await self.work.__aenter__()
            self._is_open = True

    async def end(self, error: BaseException | None = None) -> None:
        """Commit, or abort after an error; nothing if it has not begun. A cancellation aborts."""
        async with self._turn:
            if not self._is_open:
                return
            self._is_open = False
            try:
                await self._passed()
            except asyncio.CancelledError as cancelled:
                await self._leave(cancelled)
                raise
            await self._leave(error)

    async def give_up(self) -> None:
        """Abort, if `end` was cancelled before it began."""
        await self.end(asyncio.CancelledError())

    async def _leave(self, error: BaseException | None) -> None:
        try:
            await self.work.__aexit__(None if error is None else type(error), error, None)
        except TransactionInDoubtError as doubt:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                _log.warning("%s", doubt.message)  # The caller has left with the interruption.
            raise
