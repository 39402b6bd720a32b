"""Batches concurrent linearizable reads into one request to the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.model import Offset
from raftlog.runtime import Tasks


class SharedRead:
    """Requests the offset that a linearizable read must have applied, in rounds.

    A response is valid for a caller if the request began after the call (Raft's ReadIndex, batched: Ongaro's thesis,
    6.4). So calls during a request wait for the next one, and share it.

    Args:
        ask: sends one request to the active controller.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Offset]]) -> None:
        self._ask = ask
        self._tasks = Tasks("linearizable reads")
        self._asking: asyncio.Task[Offset] | None = None
        self._next: asyncio.Task[Offset] | None = None
        """The round that has not sent its request yet."""

    async def read(self, *, timeout_ms: int) -> Offset:
        """Return an offset at or above every change that was acknowledged before this call.

        Raises:
            RetriableError: QUORUM_NOT_AVAILABLE, also if it takes longer than `timeout_ms`.
        """
        if self._next is None:
            self._next = self._tasks.spawn(self._round(self._asking), name="round", awaited=True)
        round_ = self._next
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(round_)
        except TimeoutError:
            raise RetriableError(
                f"no active controller answered within {timeout_ms} ms; nothing was done",
                code=ErrorCode.QUORUM_NOT_AVAILABLE,
            ) from None
        except RaftlogError as error:
            raise error.with_traceback(None)  # noqa: B904  (it is the same one for all who wait)

    async def _round(self, before: asyncio.Task[Offset] | None) -> Offset:
        if before is not None:
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        return await self._ask()

    async def close(self) -> None:
        """Cancel the rounds under way."""
        await self._tasks.close()
