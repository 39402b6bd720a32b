"""When a consumer may be used, how it begins, and what a call for records waits for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, nullcontext
from math import ceil
from typing import TYPE_CHECKING, Any

from raftlog.client.completed_fetch import CompletedFetch
from raftlog.client.consumer_options import ConsumerOptions
from raftlog.client.iterations import Iterations
from raftlog.client.loop_affinity import LoopAffinity
from raftlog.errors import InvalidRequestError, RetriableError
from raftlog.runtime import close_all

if TYPE_CHECKING:
    from raftlog.client.group_session import GroupSession

DUE_WORK_MS = 5_000
"""While it waits for records, a consumer runs due work (commits, rebalances, new partitions) this often."""
RETRY_MS = 200
_log = logging.getLogger(__name__)


class ConsumerPolling:
    """The part of `Consumer` that begins to read, waits for completed fetches, and closes."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._start = options.start
        self._loop = LoopAffinity("consumer")
        self._connection = options.connection()
        self._reader = options.reader(self._connection)
        self._manual = options.manual_assignment(self._connection, self._reader)
        self._group = options.group_session(self._connection, self._reader)
        self._started = self._closed = self._busy = False
        self._starting = asyncio.Lock()
        self._iterations: Iterations[asyncio.Task[Any]] = Iterations(
            "task", lambda task: repr(task.get_name()), asyncio.Task.done
        )

    async def _close(self, *, commit: bool) -> None:
        if self._closed:
            return
        try:
            if self._group is not None:
                await self._group.close(commit=commit)
        finally:
            self._closed = True
            await close_all(self._manual.close, self._reader.fetcher.close, self._connection.close)

    async def _ensure_started(self) -> None:
        self._require_open()
        if self._started:
            return
        async with self._starting:
            if not self._started:
                await (self._manual.begin_at(self._start) if self._group is None else self._group.start())
                self._started = True

    async def _next_completed(self, max_wait_ms: int, *, all_ready: bool = False) -> CompletedFetch | None:
        await self._ensure_started()
        if self._group is not None:
            return await self._next_of_group(self._group, max_wait_ms, all_ready=all_ready)
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        while True:
            self._manual.run_due_work()
            if self._reader.ready:
                return None  # An iteration that was left has fetched them.
            wait_ms = min(left_ms(deadline), DUE_WORK_MS)
            fetch = await self._or_nothing(self._reader.next_completed(wait_ms, all_ready=all_ready))
            if fetch is not None or self._reader.ready or left_ms(deadline) == 0:
                return fetch

    async def _or_nothing(self, next_completed: Awaitable[CompletedFetch | None]) -> CompletedFetch | None:
        """Return the next completed fetch; None if brokers do not answer: a consumer waits through an outage."""
        try:
            return await next_completed
        except RetriableError as error:
            _log.info("no records for now: %s: %s", error.code, error.message)
            await asyncio.sleep(0.05)
            return None

    async def _next_of_group(self, group: GroupSession, max_wait_ms: int, *, all_ready: bool) -> CompletedFetch | None:
        """Run the group's due work, then wait for records; repeat if the assignment changes meanwhile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        while True:
            await group.run_due_work()
            if self._reader.ready:
                return None
            wait_ms = min(left_ms(deadline), RETRY_MS if group.waits_to_take else DUE_WORK_MS)
            fetch = await self._or_nothing(self._reader.next_completed(wait_ms, all_ready=all_ready))
            if not group.must_rebalance and (fetch is not None or loop.time() >= deadline):
                return fetch
            if loop.time() >= deadline:
                return None

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """Guard against a second reading task: it would commit records that the first has not processed."""
        self._require_open()
        if self._busy:
            raise InvalidRequestError("another task is reading from this consumer; create one consumer for each task")
        self._busy = True
        try:
            with nullcontext() if self._group is None else self._group.polling():
                yield
        finally:
            self._busy = False

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidRequestError("this consumer is closed; make another one")
        self._loop.require()

    def _require_group(self) -> GroupSession:
        self._require_open()
        if self._group is None:
            raise InvalidRequestError("group_id: missing; only members of a group commit")
        return self._group


def left_ms(deadline: float) -> int:
    """Return the milliseconds until a loop time, rounded up: rounded down, the last one would be a busy wait."""
    return max(0, ceil(1000 * (deadline - asyncio.get_running_loop().time())))
