"""Records that wait for their topic's metadata: one request for each topic, for a bounded time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from raftlog.client.connection import Connection
from raftlog.client.core.backoff import backoff_ms
from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.record.model import NewRecord
from raftlog.runtime import Tasks
from raftlog.wire.metadata import TopicInfo

H = TypeVar("H")


@dataclass(slots=True)
class Unrouted(Generic[H]):
    """A record that has no partition yet."""

    topic: str
    partition: int | None
    """The partition that the caller chose; None: the producer chooses."""
    record: NewRecord
    handle: H
    sent_ms: int
    """When the application sent it."""
    size: int


class Routing(Generic[H]):
    """Requests the metadata of topics that are not cached.

    Args:
        timeout_ms: how long a record may wait, from its `sent_ms`.
        route: called with each record of a topic whose metadata arrived, in order.
        fail: called with the handle of each record whose wait failed; the record is not in the log.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        timeout_ms: int,
        route: Callable[[Unrouted[H]], None],
        fail: Callable[[H, RaftlogError], None],
    ) -> None:
        self._connection = connection
        self._timeout_ms = timeout_ms
        self._route = route
        self._fail = fail
        self._waiting: dict[str, list[Unrouted[H]]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks("producer's routing")
        self.size = 0
        """Bytes of the waiting records."""

    def is_asking(self, topic: str) -> bool:
        """Return whether records of a topic wait; later records must wait behind them."""
        return bool(self._waiting.get(topic))

    def add(self, unrouted: Unrouted[H]) -> None:
        """Let a record wait for its topic's metadata."""
        topic = unrouted.topic
        self._waiting.setdefault(topic, []).append(unrouted)
        self.size += unrouted.size
        if topic not in self._asking:
            self._asking[topic] = self._tasks.spawn(self._ask_until_known(topic), name=f"ask for {topic}")

    async def flush(self) -> None:
        """Return once no record waits."""
        while self._asking:
            await asyncio.wait(list(self._asking.values()))

    def discard(self, error: RaftlogError) -> None:
        """Fail every waiting record."""
        for topic in list(self._waiting):
            self._fail_all(topic, error)

    async def close(self) -> None:
        """Stop requesting metadata; waiting records fail."""
        try:
            await self._tasks.close()
        finally:
            self._asking.clear()  # A task that was cancelled before it began does not remove itself.
            self.discard(RetriableError("the producer was closed before the record was sent; it is not in the log"))

    async def _ask_until_known(self, topic: str) -> None:
        """Ask for a topic's metadata until no record waits. A request outlives the records: later ones need it, too."""
        last: RaftlogError | None = None
        attempt = highest = 0
        asking: asyncio.Task[TopicInfo] | None = None
        try:
            while self.is_asking(topic):
                left_ms = self._waiting[topic][0].sent_ms + self._timeout_ms - _now_ms()
                try:
                    async with asyncio.timeout(max(0, left_ms) / 1000):
                        if last is not None:
                            await asyncio.sleep(backoff_ms(attempt, jitter=random.random()) / 1000)  # noqa: S311
                        if asking is None or asking.done():
                            highest = self._last_partition(topic)
                            work = self._connection.topic(topic, partition=highest)
                            asking = self._tasks.spawn(work, name=f"metadata of {topic}", awaited=True)
                        await asyncio.shield(asking)
                except TimeoutError:
                    self._expire(topic, last)
                except RetriableError as error:
                    last, attempt = error, attempt + 1
                except RaftlogError as error:
                    self._fail_all(topic, error)
                else:
                    if self._last_partition(topic) <= highest:  # Otherwise a record of a higher one came meanwhile.
                        self._route_all(topic)
        finally:
            self._asking.pop(topic, None)

    def _last_partition(self, topic: str) -> int:
        """Return the highest partition number of the waiting records."""
        return max((unrouted.partition or 0 for unrouted in self._waiting.get(topic, ())), default=0)

    def _route_all(self, topic: str) -> None:
        for unrouted in self._waiting.pop(topic, ()):  # `discard` may have been first.
            self.size -= unrouted.size
            self._route(unrouted)

    def _fail_all(self, topic: str, error: RaftlogError) -> None:
        for unrouted in self._waiting.pop(topic, ()):
            self.size -= unrouted.size
            self._fail(unrouted.handle, error)

    def _expire(self, topic: str, last: RaftlogError | None) -> None:
        """Fail the records that have waited for too long: the first ones."""
        limit = _now_ms() - self._timeout_ms
        waiting = self._waiting.get(topic, [])
        late = [unrouted for unrouted in waiting if unrouted.sent_ms <= limit]
        self._waiting[topic] = [unrouted for unrouted in waiting if unrouted.sent_ms > limit]
        why = f"no broker returned topic {topic!r} within {self._timeout_ms} ms; the record is not in the log"
        error = RetriableError(
            f"{why}; the last error: {last.message}" if last else why, code=ErrorCode.REQUEST_TIMED_OUT
        )
        for unrouted in late:
            self.size -= unrouted.size
            self._fail(unrouted.handle, error)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
