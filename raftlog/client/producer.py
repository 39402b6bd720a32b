"""The producer: batches records, sends each batch until it is acknowledged, and never stores one twice.

Idempotence: each partition's batches carry a producer id and a sequence, and keep them when they are sent again, so the
leader answers a repeat with the offsets it got before. When a batch is given up, the partition goes on in a new epoch
from sequence 0: a gap in the old one's sequence would be refused, and is never papered over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, Self, TypeAlias

from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT, record_bytes
from raftlog.client.routing import Routing, Unrouted
from raftlog.client.sender import RecordMetadata, Sender
from raftlog.client.transactions import Transaction, TransactionManager
from raftlog.errors import ConfigError, ErrorCode, InvalidRequestError, OverloadedError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.record import NewRecord
from raftlog.record.arrow import Compression
from raftlog.record.model import Headers
from raftlog.record.partitioner import partition_for_key
from raftlog.wire.data import AcksText

HeadersLike: TypeAlias = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None
Delivery: TypeAlias = "asyncio.Future[RecordMetadata]"


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
        max_in_flight: how many batches of one partition may be on their way at once, 1 to 5; order holds anyway.
        transactional_id: whose transactions these are: a name that stays the same when the process starts anew, and
            that no other producer has at the same time. With it, records are sent in a `transaction`.
        transaction_timeout_ms: how long a transaction may take before the cluster aborts it.
    """

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
        transactional_id: str = "",
        transaction_timeout_ms: int = 60_000,
        dial: Mapping[str, str] | None = None,
    ) -> None:
        if transactional_id and _acks_text(acks) != "all":
            raise ConfigError(f"transactional_id: a transaction needs acks='all', received {acks!r}")
        if delivery_timeout_ms < linger_ms:
            raise ConfigError(f"delivery_timeout_ms must be at least linger_ms, received {delivery_timeout_ms}")
        if not 1 <= max_in_flight <= MAX_IN_FLIGHT:
            raise ConfigError(f"max_in_flight must be 1 to {MAX_IN_FLIGHT}, received {max_in_flight}")
        self._connection = Connection(bootstrap, timeout_ms=request_timeout_ms, dial=dial)
        self._accumulator: Accumulator[Delivery] = Accumulator(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            max_in_flight=max_in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional=bool(transactional_id),
        )
        self._buffer_bytes = buffer_bytes
        self._batch_bytes = batch_bytes
        self._sticky: dict[str, tuple[int, int]] = {}
        self._max_block_ms = min(max_block_ms, delivery_timeout_ms)
        self._routing: Routing[Delivery] = Routing(
            self._connection, timeout_ms=self._max_block_ms, route=self._route, fail=self._refuse
        )
        self._closed = False
        self._sender = Sender(
            self._connection,
            self._accumulator,
            acks=_acks_text(acks),
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            compression=compression,
            transactional_id=transactional_id,
            on_failed=self._on_failed,
        )
        self._transactions = (
            TransactionManager(
                self._connection,
                self._sender,
                transactional_id=transactional_id,
                transaction_timeout_ms=transaction_timeout_ms,
                timeout_ms=delivery_timeout_ms,
                flush=self.flush,
                discard=self._discard,
            )
            if transactional_id
            else None
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
        record = _record(value, key, headers, timestamp)
        return await (await self._add_when_there_is_room(topic, partition, record))

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
        return self._add(topic, partition, _record(value, key, headers, timestamp), _now_ms())

    async def send_many(self, topic: str, values: Sequence[bytes], *, key: bytes | None = None) -> list[RecordMetadata]:
        """Send several values; return their metadata in order once all are acknowledged."""
        deliveries = []
        for value in values:
            record = _record(value, key, None, None)
            deliveries.append(await self._add_when_there_is_room(topic, None, record))
        return list(await asyncio.gather(*deliveries))

    def transaction(self) -> Transaction:
        """Return a transaction: `async with producer.transaction(): ...`.

        What is sent within the block counts as a whole once the block has ended, for readers with
        `isolation="read_committed"`. If it raises, nothing counts.

        Raises:
            ConfigError: the producer has no transactional_id.
        """
        if self._transactions is None:
            raise ConfigError("a transaction needs Producer(transactional_id=...): a name of its own that stays")
        return Transaction(self._transactions)

    async def flush(self) -> None:
        """Wait until every queued record has an outcome."""
        await self._routing.flush()
        await self._sender.flush()

    async def close(self, *, flush: bool = True) -> None:
        """Send what is queued (unless not wanted), and close every connection. What is left fails as unknown."""
        self._closed = True
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

    async def _add_when_there_is_room(self, topic: str, partition: int | None, record: NewRecord) -> Delivery:
        sent_ms, size = _now_ms(), record_bytes(record)
        while not self._has_room(size):
            left_ms = sent_ms + self._max_block_ms - _now_ms()
            if left_ms <= 0:
                break  # It is refused.
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._sender.wait_for_room()
        return self._add(topic, partition, record, sent_ms)

    def _add(self, topic: str, partition: int | None, record: NewRecord, sent_ms: int) -> Delivery:
        """Queue a record, given to the producer at `sent_ms`."""
        if self._closed:
            raise RuntimeError("the producer is closed")
        if self._transactions is not None:
            self._transactions.require_open()
        size = record_bytes(record)
        if not self._has_room(size):
            raise OverloadedError(
                f"{self._queued_bytes} bytes are queued, this record has {size}, buffer_bytes is {self._buffer_bytes}; "
                f"it is not in the log: wait, or use send, which waits for up to {self._max_block_ms} ms",
                code=ErrorCode.BUFFER_EXHAUSTED,
            )
        delivery: Delivery = asyncio.get_running_loop().create_future()
        delivery.add_done_callback(_observe)
        unrouted = Unrouted(topic, partition, record, delivery, sent_ms, size)
        if self._routing.is_asking(topic) or self._connection.known(topic) is None:
            self._routing.add(unrouted)
        else:
            self._route(unrouted)
        return delivery

    @property
    def _queued_bytes(self) -> int:
        return self._accumulator.size + self._routing.size

    def _has_room(self, size: int) -> bool:
        """Tell whether a record may be queued.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE, it never may.
        """
        if size > self._buffer_bytes:
            raise InvalidRequestError(
                f"the record has {size} bytes, buffer_bytes is {self._buffer_bytes}", code=ErrorCode.MESSAGE_TOO_LARGE
            )
        return self._queued_bytes + size <= self._buffer_bytes

    def _refuse(self, unrouted: Unrouted[Delivery], error: RaftlogError) -> None:
        """Fail a record that was never queued for a partition."""
        if not unrouted.handle.done():
            unrouted.handle.set_exception(error)
        self._on_failed(error)
        self._sender.room_was_made()

    def _route(self, unrouted: Unrouted[Delivery]) -> None:
        topic, partition, record = unrouted.topic, unrouted.partition, unrouted.record
        info = self._connection.known(topic)
        assert info is not None
        count = len(info.partitions)
        if partition is None:
            key, size = record.key, unrouted.size
            partition = self._stick(topic, count, size) if key is None else partition_for_key(key, count)
        elif not 0 <= partition < count:
            error = InvalidRequestError(f"topic {topic!r} has partitions 0 to {count - 1}, received {partition}")
            self._refuse(unrouted, error)
            return
        self._accumulator.add(TopicPartition(topic, partition), record, unrouted.handle, unrouted.sent_ms)
        self._sender.wake()

    def _stick(self, topic: str, count: int, size: int) -> int:
        """Choose a partition for a record without a key: the same one until a batch is full (KIP-794)."""
        partition, filled = self._sticky.get(topic, (random.randrange(count), 0))  # noqa: S311
        if filled >= self._batch_bytes:
            partition, filled = (partition + 1 + random.randrange(max(1, count - 1))) % count, 0  # noqa: S311
        self._sticky[topic] = (partition, filled + size)
        return partition


def _observe(delivery: Delivery) -> None:
    """Mark an error as seen: a delivery may be dropped."""
    if not delivery.cancelled():
        delivery.exception()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _record(value: object, key: object, headers: HeadersLike, timestamp: int | None) -> NewRecord:
    return NewRecord(
        _bytes_or_none("value", value),
        _bytes_or_none("key", key),
        time.time_ns() // 1_000 if timestamp is None else timestamp,
        _headers(headers),
    )


def _acks_text(acks: AcksText | Literal[0, 1, -1]) -> AcksText:
    known: dict[object, AcksText] = {"all": "all", -1: "all", "1": "1", 1: "1", "0": "0", 0: "0"}
    if acks not in known:
        raise ConfigError(f"acks: expected 'all', 1 or 0, received {acks!r}")
    return known[acks]


def _bytes_or_none(name: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    hint = ": encode it, for example with .encode()" if isinstance(value, str) else ""
    raise TypeError(f"{name}: expected bytes or None, received {type(value).__name__}{hint}")


def _headers(headers: HeadersLike) -> Headers:
    if not headers:
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((_text(key), _bytes_or_none(f"headers[{key!r}]", value)) for key, value in pairs)


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"headers: expected str keys, received {type(key).__name__}")
    return key
