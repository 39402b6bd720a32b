"""The producer: batches records, sends each batch until it is acknowledged, and never stores one twice.

Idempotence: each partition's batches carry a producer id and a sequence, and keep them when they are sent again, so the
leader answers a repeat with the offsets it got before. When a batch is given up, the partition goes on in a new epoch
from sequence 0: a gap in the old one's sequence would be refused, and is never papered over.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Self, get_args

from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT
from raftlog.client.deliveries import Acknowledged, Handle, Part, Placed, RecordMetadata, Run, fail
from raftlog.client.delivery import Delivery, Stretch
from raftlog.client.lane import Lane
from raftlog.client.metrics import ProducerCounters, ProducerMetrics
from raftlog.client.options import known_options, require_at_least
from raftlog.client.own_loop import OwnLoop
from raftlog.client.partitioning import Partitioner, Partitioning
from raftlog.client.record_input import HeadersLike, bytes_or_none, checked_values, ends_of, new_record
from raftlog.client.room import Room
from raftlog.client.routing import Routing, Unrouted
from raftlog.client.sender import Sender
from raftlog.errors import ConfigError, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.record import Compression, NewRecord
from raftlog.wire.data import AcksText

if TYPE_CHECKING:
    from raftlog.client.transactions import Transaction, TransactionManager


class Producer:
    """Writes records. Use as an async context manager: leaving it sends what is queued.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        acks: `all` (every in-sync replica has it on disk), `1` (the leader has), `0` (do not wait).
        linger_ms: how long a record may wait for others to go with it.
        batch_bytes: how large a batch may grow.
        buffer_bytes: how much may be queued; beyond, `send` waits and `send_nowait` refuses.
        max_block_ms: how long `send` may wait for room, and any record for its topic's metadata.
        delivery_timeout_ms: how long a record may take from `send` on, every wait and attempt included.
        partitioner: chooses partitions for records that name none; see `Partitioner`. None: by murmur2 of the key, as
            Kafka does, and without a key the same one until a batch is full.
        max_in_flight: how many batches of one partition may be on their way at once, 1 to 5; order holds anyway.
        transactional_id: whose transactions these are: a name that stays the same when the process starts anew, and
            that no other producer has at the same time. With it, records are sent in a `transaction`.
        transaction_timeout_ms: how long a transaction may take before the cluster aborts it.
    """

    @known_options
    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *,
        acks: AcksText | Literal[0, 1, -1] = "all",
        linger_ms: int = 5,
        batch_bytes: int = 256 << 10,
        buffer_bytes: int = 32 << 20,
        max_block_ms: int = 60_000,
        delivery_timeout_ms: int = 120_000,
        request_timeout_ms: int = 30_000,
        max_in_flight: int = MAX_IN_FLIGHT,
        compression: Compression | None = None,
        partitioner: Partitioner | None = None,
        transactional_id: str = "",
        transaction_timeout_ms: int = 60_000,
        dial: Mapping[str, str] | None = None,
    ) -> None:
        if transactional_id and _acks_text(acks) != "all":
            raise ConfigError(f"transactional_id: a transaction needs acks='all', received {acks!r}")
        require_at_least(0, linger_ms=linger_ms, max_block_ms=max_block_ms)
        require_at_least(1, batch_bytes=batch_bytes, buffer_bytes=buffer_bytes, request_timeout_ms=request_timeout_ms)
        require_at_least(linger_ms, delivery_timeout_ms=delivery_timeout_ms)
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            raise ConfigError(f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, received {max_in_flight}")
        if compression not in (None, *get_args(Compression)):
            raise ConfigError(f"compression: expected None, lz4 or zstd, received {compression!r}")
        if partitioner is not None and not callable(partitioner):
            raise ConfigError(f"partitioner: expected a function, received {partitioner!r}")
        self._connection = Connection(bootstrap, timeout_ms=request_timeout_ms, dial=dial)
        self._accumulator: Accumulator[Handle] = Accumulator(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            max_in_flight=max_in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional=bool(transactional_id),
        )
        self._batch_bytes = batch_bytes
        self._partitioning = Partitioning(batch_bytes, partitioner)
        self._counters = ProducerCounters(batch_bytes)
        self._loop = OwnLoop("producer")
        self._max_block_ms = min(max_block_ms, delivery_timeout_ms)
        self._routing: Routing[Handle] = Routing(
            self._connection, timeout_ms=self._max_block_ms, route=self._route_late, fail=self._refuse
        )
        self._closed = False
        self._sender = Sender(
            self._connection,
            self._accumulator,
            self._counters,
            acks=_acks_text(acks),
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            compression=compression,
            transactional_id=transactional_id,
            on_failed=self._on_failed,
        )
        self._room = Room(buffer_bytes, self._queued_bytes, self._sender, max_block_ms=self._max_block_ms)
        self._lanes: dict[str, Lane] = {}
        self._transactions: TransactionManager | None = None
        if transactional_id:
            from raftlog.client.transactions import TransactionManager  # noqa: PLC0415  (few producers need them)

            self._transactions = TransactionManager(
                self._connection,
                self._sender,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                timeout_ms=delivery_timeout_ms,
                flush=self.flush,
                discard=self._discard,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(flush=kind is not asyncio.CancelledError)

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; waits before while the buffer is full.

        Being cancelled does not take the record back: it is queued already.

        Args:
            timestamp: microseconds since 1970 UTC; now when None.

        Raises:
            InvalidRequestError: the record cannot be stored; it is not in the log.
            OverloadedError: BUFFER_EXHAUSTED, there was no room within max_block_ms.
            UnknownOutcomeError: it may or may not be in the log.
            RaftlogError: it is not in the log.
        """
        self._require_open()
        record, size = new_record(value, key, headers, timestamp)
        sent_ms = _now_ms()
        await self._room.wait(size, sent_ms)
        return await self._add(topic, partition, record, size, sent_ms)

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Queue one record; return a future of its metadata, to await, to give a callback, or to drop.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED; nothing was queued.
            TypeError: a key or value is not bytes.
        """
        if key is None and partition is None and timestamp is None and not headers and type(value) is bytes:
            lane = self._lanes.get(topic)
            stretch = lane.take(value, time.time_ns() // 1_000) if lane is not None else None
            if stretch is not None:
                return Delivery(stretch, stretch.count - 1)
        record, size = new_record(value, key, headers, timestamp)
        sent_ms = time.monotonic_ns() // 1_000_000
        chosen = self._place(topic, partition, record, size)
        if isinstance(chosen, TopicPartition):
            stretch = self._accumulator.join(chosen, record, sent_ms, size, self._new_stretch)
            self._sender.wake()
            if key is None and partition is None:
                self._open_lane(topic)
        else:
            stretch = self._new_stretch()
            stretch.count = 1
            self._set_aside(chosen, Unrouted(topic, partition, record, stretch, sent_ms, size))
        return Delivery(stretch, stretch.count - 1)

    async def send_many(
        self, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None
    ) -> Sequence[RecordMetadata]:
        """Send several values; return their metadata in order once all are acknowledged.

        The cheapest way to send: what goes to one partition in a row is queued at once, and its outcome told at once.

        Raises:
            TypeError: one is not bytes or None; nothing was queued.
            RaftlogError: of the first that has failed, once each has an outcome. Others may be in the log: where it
                matters which, use `send_nowait`.
        """
        self._require_open()
        checked, key = checked_values(values), bytes_or_none("key", key)
        if self._partitioning.is_custom:
            return await self._send_each(topic, checked, key)
        placed: list[Placed] = []
        if checked and not self._knows(topic):
            (first,) = await self._send_each(topic, checked[:1], key)
            placed.append(Placed(TopicPartition(topic, first.partition), first.offset, [first.timestamp]))
            checked = checked[1:]
        runs = await self._queue_runs(topic, checked, key)
        for run in runs:
            placed += await run.outcome()
        for run in runs:
            if run.error is not None:
                raise run.error
        return Acknowledged(placed)

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._counters.snapshot(buffered_bytes=self._queued_bytes(), epoch_bumps=self._accumulator.epoch_bumps)

    def transaction(self) -> Transaction:
        """Return a transaction: `async with producer.transaction(): ...`.

        What is sent within the block counts as a whole once the block has ended, for readers with
        `isolation="read_committed"`. If it raises, nothing counts.

        Raises:
            ConfigError: the producer has no transactional_id.
            RuntimeError: it is closed.
        """
        if self._closed:
            raise RuntimeError("the producer is closed; make another one")
        if self._transactions is None:
            raise ConfigError("a transaction needs Producer(transactional_id=...): a name of its own that stays")
        return self._transactions.transaction()

    async def flush(self) -> None:
        """Wait until every queued record has an outcome."""
        self._loop.require()
        await self._routing.flush()
        await self._sender.flush()

    async def close(self, *, flush: bool = True) -> None:
        """Send what is queued (unless not wanted), and close every connection. What is left fails as unknown."""
        self._closed = True
        self._lanes.clear()
        try:
            if self._transactions is not None and flush:
                await self._transactions.abort()  # One that is under way was not ended by its block.
            elif flush:
                await self.flush()
        finally:
            await self._routing.close()
            await self._sender.close()
            await self._connection.close()

    def _on_failed(self, error: RaftlogError) -> None:
        if self._transactions is not None:
            self._transactions.fail(error)

    async def _discard(self, error: RaftlogError) -> None:
        """Fail what is queued; return once nothing is on its way."""
        self._routing.discard(error)
        await self._sender.discard(error)

    async def _send_each(self, topic: str, values: Sequence[bytes | None], key: bytes | None) -> list[RecordMetadata]:
        """Send values that go to any partition, one by one."""
        deliveries = []
        for value in values:
            record, size = new_record(value, key, None, None)
            sent_ms = _now_ms()
            await self._room.wait(size, sent_ms)
            deliveries.append(self._add(topic, None, record, size, sent_ms))
        if deliveries:
            await asyncio.wait(deliveries)
        return [delivery.result() for delivery in deliveries]

    async def _queue_runs(self, topic: str, values: Sequence[bytes | None], key: bytes | None) -> list[Run]:
        """Queue values of a known topic, as many at once as a batch has; give way to other tasks after each."""
        runs: list[Run] = []
        ends = ends_of(values, key)
        begin = at = 0
        while at < len(values):
            after = max(at + 1, bisect_right(ends, begin + min(self._batch_bytes, self._room.buffer_bytes)))
            size, sent_ms = ends[after - 1] - begin, _now_ms()
            await self._room.wait(size, sent_ms)
            self._require_open()
            self._room.require(size)
            run = Run(after - at)
            self._accumulator.add_run(
                self._partitioning.choose(topic, self._partition_count(topic), None, key, None, size),
                values[at:after],
                key=key,
                timestamp=time.time_ns() // 1_000,
                size=size,
                handle=Part(run, 0, after - at),
                sent_ms=sent_ms,
            )
            self._sender.wake()
            runs.append(run)
            at, begin = after, ends[after - 1]
            await asyncio.sleep(0)
        return runs

    def _add(
        self, topic: str, partition: int | None, record: NewRecord, size: int, sent_ms: int
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record of `size` bytes, given to the producer at `sent_ms`."""
        chosen = self._place(topic, partition, record, size)
        future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
        if isinstance(chosen, TopicPartition):
            self._accumulator.add(chosen, record, future, sent_ms, size)
            self._sender.wake()
        else:
            self._set_aside(chosen, Unrouted(topic, partition, record, future, sent_ms, size))
        return future

    def _place(
        self, topic: str, partition: int | None, record: NewRecord, size: int
    ) -> TopicPartition | InvalidRequestError | None:
        """Return where a record of `size` bytes goes, or why it cannot; None: that is not known yet.

        Raises:
            OverloadedError: there is no room for it.
            RuntimeError: the producer is closed, has no transaction, or belongs to another event loop.
            TypeError: the partition is no number.
        """
        if self._closed or self._transactions is not None:
            self._require_open()
        self._loop.require()
        if self._accumulator.size + self._routing.size + size > self._room.buffer_bytes:
            self._room.require(size)
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition: expected an int or None, received {type(partition).__name__}")
        info = self._connection.known(topic)
        if info is None or (self._routing.size and self._routing.is_asking(topic)):
            return None
        try:
            return self._partitioning.choose(topic, len(info.partitions), partition, record.key, record.value, size)
        except InvalidRequestError as error:
            return error

    def _set_aside(self, error: InvalidRequestError | None, record: Unrouted[Handle]) -> None:
        """Fail a record that cannot be placed, or have it wait until its topic is known."""
        if error is None:
            self._routing.add(record)
        else:
            self._refuse(record.handle, error)

    def _open_lane(self, topic: str) -> None:
        """Let what comes next join the batch that a topic's records without a key go to now."""
        sticky = self._partitioning.sticky(topic)
        if sticky is not None and self._transactions is None:
            self._lanes[topic] = Lane(sticky, self._accumulator, self._routing, self._room.buffer_bytes)

    def _new_stretch(self) -> Stretch:
        return Stretch(asyncio.get_running_loop())

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the producer is closed; make another one")
        if self._transactions is not None:
            self._transactions.require_open()
        self._loop.require()

    def _knows(self, topic: str) -> bool:
        """Tell whether records of a topic can be routed now: it is known, and none wait before them."""
        return self._connection.known(topic) is not None and not self._routing.is_asking(topic)

    def _partition_count(self, topic: str) -> int:
        info = self._connection.known(topic)
        if info is None:
            raise NotFoundError(f"there is no topic {topic!r} any more")
        return len(info.partitions)

    def _queued_bytes(self) -> int:
        return self._accumulator.size + self._routing.size

    def _refuse(self, handle: Handle, error: RaftlogError) -> None:
        """Fail a record that was never queued for a partition."""
        self._counters.on_failed(1, error)
        fail([handle], error)
        self._on_failed(error)
        self._sender.room_was_made()

    def _route_late(self, late: Unrouted[Handle]) -> None:
        """Queue a record whose topic is known now."""
        count, record = self._partition_count(late.topic), late.record
        try:
            chosen = self._partitioning.choose(late.topic, count, late.partition, record.key, record.value, late.size)
        except InvalidRequestError as error:
            self._refuse(late.handle, error)
        else:
            self._accumulator.add(chosen, record, late.handle, late.sent_ms, late.size)
            self._sender.wake()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _acks_text(acks: AcksText | Literal[0, 1, -1]) -> AcksText:
    known: dict[object, AcksText] = {"all": "all", -1: "all", "1": "1", 1: "1", "0": "0", 0: "0"}
    if acks not in known:
        raise ConfigError(f"acks: expected 'all', 1 or 0, received {acks!r}")
    return known[acks]
