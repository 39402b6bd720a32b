"""Appends a producer's records to the accumulator: waits for buffer space and chooses the partition.

`add` and `add_nowait` queue one record, `add_runs` many. A record without cached metadata of its topic waits in
`Routing`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from raftlog.client.arguments import require_topic_name
from raftlog.client.buffer_limit import BufferLimit
from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import headers_bytes
from raftlog.client.delivery import Delivery, SharedHandle
from raftlog.client.fast_path import FastPath
from raftlog.client.metrics import ProducerCounters
from raftlog.client.partitioning import Partitioning
from raftlog.client.producer_settings import ProducerSettings
from raftlog.client.record_input import in_runs, new_record
from raftlog.client.record_outcomes import Handle, PartialHandle, RecordMetadata, Run, fail
from raftlog.client.routing import Routing, Unrouted
from raftlog.client.send_gate import SendGate
from raftlog.client.sender import Sender
from raftlog.errors import InvalidRequestError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.record import NewRecord

if TYPE_CHECKING:
    from raftlog.wire.transactions import TransactionalProducer


class RecordAppender:
    """Queues records in the order of the calls.

    Without transactions, records without a key may take a `FastPath` until `close_fast_paths`: it does not ask the
    gate.
    """

    def __init__(
        self,
        connection: Connection,
        accumulator: Accumulator[Handle],
        counters: ProducerCounters,
        sender: Sender,
        gate: SendGate,
        settings: ProducerSettings,
    ) -> None:
        self._connection = connection
        self._accumulator = accumulator
        self._counters = counters
        self._sender = sender
        self._gate = gate
        self._batch_bytes = settings.batch_bytes
        self._has_fast_paths = not settings.transactional_id
        self._partitioning = Partitioning(settings.batch_bytes, settings.partitioner)
        block_ms = settings.longest_block_ms
        self.buffer = BufferLimit(settings.buffer_bytes, lambda: self.size, sender, max_block_ms=block_ms)
        self._routing: Routing[Handle] = Routing(
            connection, timeout_ms=block_ms, route=self._route_late, fail=self._refuse
        )
        self.fast_paths: dict[str, FastPath] = {}
        """The open fast paths, by topic."""
        self.marker = sender.marker

    @property
    def size(self) -> int:
        """Bytes of all records that have no outcome yet, and bytes that fast paths reserve."""
        return self._accumulator.size + self._routing.size

    @property
    def buffered_bytes(self) -> int:
        """Bytes of all records that have no outcome yet."""
        return self.size - sum(fast_path.unused for fast_path in self.fast_paths.values())

    async def add(
        self, topic: str, partition: int | None, record: NewRecord, size: int
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record of `size` bytes once the buffer has space."""
        sent_ms = _now_ms()
        if self.marker.is_on:
            record, size = self.traced(record, size)
        await self.buffer.wait(size, sent_ms)
        chosen = self._place(topic, partition, record, size)
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        if isinstance(chosen, TopicPartition):
            self._accumulator.add(chosen, record, future, sent_ms, size)
            self._sender.wake()
        else:
            self._set_aside(chosen, Unrouted(topic, partition, record, future, sent_ms, size))
        return future

    def add_nowait(self, topic: str, partition: int | None, record: NewRecord, size: int) -> Delivery:
        """Queue a record of `size` bytes now.

        Raises:
            OverloadedError: the buffer has no space.
        """
        sent_ms = _now_ms()
        if self.marker.is_on:
            record, size = self.traced(record, size)
        chosen = self._place(topic, partition, record, size)
        if isinstance(chosen, TopicPartition):
            handle = self._accumulator.join(chosen, record, sent_ms, size, _new_handle)
            self._sender.wake()
            if partition is None and record.key is None:
                self._open_fast_path(topic)
        else:
            handle = _new_handle()
            handle.count = 1
            self._set_aside(chosen, Unrouted(topic, partition, record, handle, sent_ms, size))
        return Delivery(handle, handle.count - 1)

    async def add_each(
        self, topic: str, values: Sequence[bytes | None], key: bytes | None
    ) -> list[asyncio.Future[RecordMetadata]]:
        """Queue values one at a time; each may go to another partition.

        If one cannot be queued, this raises once the earlier ones have an outcome.
        """
        futures: list[asyncio.Future[RecordMetadata]] = []
        try:
            for value in values:
                futures.append(await self.add(topic, None, *new_record(value, key, None, None)))  # noqa: PERF401  (kept if a later one fails)
        except Exception:
            if futures:
                await asyncio.wait(futures)
            raise
        return futures

    async def add_runs(self, topic: str, values: Sequence[bytes | None], key: bytes | None) -> list[Run]:
        """Queue values of a topic with cached metadata, one batch at a time; yield to other tasks after each.

        If one cannot be queued, this raises once the earlier ones have an outcome.
        """
        runs: list[Run] = []
        try:
            await self._add_runs(topic, values, key, runs)
        except Exception:
            for run in runs:
                await run.outcome()
            raise
        return runs

    async def _add_runs(self, topic: str, values: Sequence[bytes | None], key: bytes | None, runs: list[Run]) -> None:
        headers = self.marker.headers()
        for some, size in in_runs(values, key, min(self._batch_bytes, self.buffer.buffer_bytes), headers):
            sent_ms = _now_ms()
            await self.buffer.wait(size, sent_ms)
            self._gate.require_open()
            self.buffer.require(size)
            run = Run(len(some))
            self._accumulator.add_run(
                self._partitioning.choose(topic, self._partition_count(topic), None, key, None, size),
                some,
                key=key,
                timestamp=time.time_ns() // 1_000,
                size=size,
                handle=PartialHandle(run, 0, len(some)),
                sent_ms=sent_ms,
                headers=headers,
            )
            self._sender.wake()
            runs.append(run)
            await asyncio.sleep(0)

    def traced(self, record: NewRecord, size: int) -> tuple[NewRecord, int]:
        """Return a record of `size` bytes with the context of the current span, and its bytes then."""
        headers = self.marker.marked(record.headers)
        if headers is record.headers:
            return record, size
        return record._replace(headers=headers), size + headers_bytes(headers) - headers_bytes(record.headers)

    def knows(self, topic: str) -> bool:
        """Return whether a topic's metadata is cached and no earlier record waits for it."""
        return self._connection.cached_topic(topic) is not None and not self._routing.is_asking(topic)

    @property
    def asks_about_each(self) -> bool:
        """Whether the application's partitioner chooses the partition of each record."""
        return self._partitioning.is_custom

    async def flush(self) -> None:
        """Return once every queued record has an outcome."""
        await self._routing.flush()
        await self._sender.flush()

    async def discard(self, error: RaftlogError) -> None:
        """Fail the queued records; return once no batch is in flight."""
        self._routing.discard(error)
        await self._sender.discard(error)

    @property
    def used(self) -> bool:
        """Return whether a batch was sent under the current identity."""
        return self._sender.used

    def begin_epoch(self, producer: TransactionalProducer) -> None:
        """Use this producer id and epoch from now on, each partition from sequence 0."""
        self._sender.begin_epoch(producer)

    def close_fast_paths(self) -> None:
        """Use no fast path from now on."""
        self._has_fast_paths = False
        self.fast_paths.clear()

    async def close(self) -> None:
        """Stop requesting metadata."""
        await self._routing.close()

    def _place(
        self, topic: str, partition: int | None, record: NewRecord, size: int
    ) -> TopicPartition | InvalidRequestError | None:
        """Return the partition of a record of `size` bytes, or why it has none; None: metadata is missing.

        Raises:
            OverloadedError: the buffer has no space.
            RuntimeError: the producer may not send now.
            TypeError: the partition is not an int, or the topic not a str.
            InvalidRequestError: the topic has an empty name.
        """
        self._gate.require_open()
        self.buffer.require(size)
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition: expected an int or None, received {type(partition).__name__}")
        if not self.knows(topic):
            require_topic_name(topic)
            return None
        count = self._partition_count(topic)
        if partition is not None and partition >= count:
            self._connection.forget_leader_of([topic])
            return None  # It may be newer than the metadata. `_route_late` raises if it does not exist.
        try:
            return self._partitioning.choose(topic, count, partition, record.key, record.value, size)
        except InvalidRequestError as error:
            return error

    def _set_aside(self, error: InvalidRequestError | None, record: Unrouted[Handle]) -> None:
        """Fail a record that has no partition, or let it wait for its topic's metadata."""
        if error is None:
            self.fast_paths.pop(record.topic, None)  # Later records of the topic must not overtake it.
            self._routing.add(record)
        else:
            self._refuse(record.handle, error)

    def _open_fast_path(self, topic: str) -> None:
        """Let the topic's next records without a key join its open batch directly."""
        sticky = self._partitioning.sticky(topic)
        if self.marker.is_on:
            self.fast_paths.pop(topic, None)  # Every record needs a look at its span.
        elif sticky is not None and self._has_fast_paths:
            self.fast_paths[topic] = FastPath(sticky, self._accumulator, self._routing, self.buffer.buffer_bytes)

    def _partition_count(self, topic: str) -> int:
        info = self._connection.cached_topic(topic)
        if info is None:
            raise NotFoundError(f"there is no topic {topic!r} any more")
        return len(info.partitions)

    def _refuse(self, handle: Handle, error: RaftlogError) -> None:
        """Fail a record that was never queued for a partition."""
        self._counters.on_failed(1, error)
        fail([handle], error)
        self._gate.on_failed(error)
        self._sender.room_was_made()

    def _route_late(self, late: Unrouted[Handle]) -> None:
        """Queue a record whose topic's metadata has arrived."""
        record = late.record
        try:
            count = self._partition_count(late.topic)
            chosen = self._partitioning.choose(late.topic, count, late.partition, record.key, record.value, late.size)
        except InvalidRequestError as error:
            self._refuse(late.handle, error)
        else:
            self._accumulator.add(chosen, record, late.handle, late.sent_ms, late.size)
            self._sender.wake()


def _new_handle() -> SharedHandle:
    return SharedHandle(asyncio.get_running_loop())


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
