"""Batches concurrent linearizable reads into one request to the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.model import Offset
from raftlog.runtime import Tasks
from raftlog.serving.metered import current

ROUND_S = 0.0017
"""About what the controllers compute for a round: 0.9 ms of the active one, and 0.4 ms of each of two others."""


@dataclass(slots=True)
class _Round:
    task: asyncio.Task[Offset]
    callers: int = 0


class SharedRead:
    """Requests the offset that a linearizable read must have applied, in rounds.

    A response is valid for a caller if the request began after the call (Raft's ReadIndex, batched: Ongaro's thesis,
    6.4). So calls during a request wait for the next one, and share it. They also share its computing time: otherwise
    an address within its share of this broker's event loop may keep the controllers busy.

    Args:
        ask: sends one request to the active controller.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Offset]]) -> None:
        self._ask = ask
        self._tasks = Tasks("linearizable reads")
        self._asking: _Round | None = None
        self._next: _Round | None = None
        """The round that has not sent its request yet."""

    async def read(self, *, timeout_ms: int) -> Offset:
        """Return an offset at or above every change that was acknowledged before this call.

        Raises:
            RetriableError: QUORUM_NOT_AVAILABLE, also if it takes longer than `timeout_ms`.
        """
        if self._next is None:
            self._next = _Round(self._tasks.spawn(self._ask_after(self._asking), name="round", awaited=True))
        round_ = self._next
        round_.callers += 1
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await asyncio.shield(round_.task)
        except TimeoutError:
            raise RetriableError(
                f"no active controller answered within {timeout_ms} ms; nothing was done",
                code=ErrorCode.QUORUM_NOT_AVAILABLE,
            ) from None
        except RaftlogError as error:
            raise error.with_traceback(None)  # noqa: B904  (it is the same one for all who wait)
        finally:
            if (request := current()) is not None:
                request.add(ROUND_S / round_.callers)

    async def _ask_after(self, before: _Round | None) -> Offset:
        if before is not None:
            await asyncio.wait([before.task])
        self._asking, self._next = self._next, None
        return await self._ask()

    async def close(self) -> None:
        """Cancel the rounds under way."""
        await self._tasks.close()
