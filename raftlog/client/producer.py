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
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT, record_bytes
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


@dataclass(slots=True)
class _Unrouted:
    """A record whose topic's metadata is still asked for."""

    topic: str
    partition: int | None
    record: NewRecord
    delivery: Delivery


class Producer:
    """Writes records. Use as an async context manager: leaving it sends what is queued.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        acks: `all` (every in-sync replica has it on disk), `1` (the leader has), `0` (do not wait).
        linger_ms: how long a record may wait for others to go with it.
        batch_bytes: how large a batch may grow.
        buffer_bytes: how much may be queued; beyond, `send` waits and `send_nowait` refuses.
        delivery_timeout_ms: how long a record may take, attempts included.
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
        self._unrouted: list[_Unrouted] = []
        self._unrouted_bytes = 0
        self._routing: asyncio.Task[None] | None = None
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
            UnknownOutcomeError: it may or may not be in the log.
            RaftlogError: it is not in the log.
        """
        while self._full:
            await self._sender.wait_for_room()
        return await self.send_nowait(topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp)

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
        if self._closed:
            raise RuntimeError("the producer is closed")
        if self._transactions is not None:
            self._transactions.require_open()
        if self._full:
            raise OverloadedError(
                f"{self._accumulator.size} bytes are queued, buffer_bytes is {self._buffer_bytes}: wait, or use send",
                code=ErrorCode.BUFFER_EXHAUSTED,
            )
        record = NewRecord(
            _bytes_or_none("value", value),
            _bytes_or_none("key", key),
            time.time_ns() // 1_000 if timestamp is None else timestamp,
            _headers(headers),
        )
        delivery: Delivery = asyncio.get_running_loop().create_future()
        delivery.add_done_callback(_observe)
        if self._unrouted or self._connection.known(topic) is None:
            self._route_later(_Unrouted(topic, partition, record, delivery))
        else:
            self._route(topic, partition, record, delivery)
        return delivery

    async def send_many(self, topic: str, values: Sequence[bytes], *, key: bytes | None = None) -> list[RecordMetadata]:
        """Send several values; return their metadata in order once all are acknowledged."""
        deliveries = []
        for value in values:
            while self._full:
                await self._sender.wait_for_room()
            deliveries.append(self.send_nowait(topic, value, key=key))
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
        if self._routing is not None:
            await asyncio.shield(self._routing)
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
            if self._routing is not None:
                self._routing.cancel()
                await asyncio.gather(self._routing, return_exceptions=True)
            for waiting in self._unrouted:
                waiting.delivery.cancel()
            await self._sender.close()
            await self._connection.close()

    def _on_failed(self, error: RaftlogError) -> None:
        if self._transactions is not None:
            self._transactions.fail(error)

    async def _discard(self, error: RaftlogError) -> None:
        """Fail what is queued; return once nothing is on its way."""
        waiting_now, self._unrouted, self._unrouted_bytes = self._unrouted, [], 0
        for waiting in waiting_now:
            if not waiting.delivery.done():
                waiting.delivery.set_exception(error)
        await self._sender.discard(error)

    @property
    def _full(self) -> bool:
        return self._accumulator.size + self._unrouted_bytes >= self._buffer_bytes

    def _route(self, topic: str, partition: int | None, record: NewRecord, delivery: Delivery) -> None:
        info = self._connection.known(topic)
        assert info is not None
        count = len(info.partitions)
        if partition is None:
            sized = record_bytes(record)
            partition = self._stick(topic, count, sized) if record.key is None else partition_for_key(record.key, count)
        elif not 0 <= partition < count:
            error = InvalidRequestError(f"topic {topic!r} has partitions 0 to {count - 1}, received {partition}")
            delivery.set_exception(error)
            self._on_failed(error)
            return
        self._accumulator.add(TopicPartition(topic, partition), record, delivery, _now_ms())
        self._sender.wake()

    def _stick(self, topic: str, count: int, size: int) -> int:
        """Choose a partition for a record without a key: the same one until a batch is full (KIP-794)."""
        partition, filled = self._sticky.get(topic, (random.randrange(count), 0))  # noqa: S311
        if filled >= self._batch_bytes:
            partition, filled = (partition + 1 + random.randrange(max(1, count - 1))) % count, 0  # noqa: S311
        self._sticky[topic] = (partition, filled + size)
        return partition

    def _route_later(self, waiting: _Unrouted) -> None:
        self._unrouted.append(waiting)
        self._unrouted_bytes += record_bytes(waiting.record)
        if self._routing is None or self._routing.done():
            self._routing = asyncio.ensure_future(self._ask_and_route())

    async def _ask_and_route(self) -> None:
        """Ask for the metadata of topics that are new here, and queue their records in the order they came."""
        while self._unrouted:
            failures: dict[str, RaftlogError] = {}
            for topic in dict.fromkeys(waiting.topic for waiting in self._unrouted):
                try:
                    await self._connection.topic(topic)
                except RaftlogError as error:
                    failures[topic] = error
            waiting_now, self._unrouted, self._unrouted_bytes = self._unrouted, [], 0
            for waiting in waiting_now:
                if waiting.topic not in failures and self._connection.known(waiting.topic) is not None:
                    self._route(waiting.topic, waiting.partition, waiting.record, waiting.delivery)
                elif waiting.topic not in failures:  # It came while the others were asked for.
                    self._unrouted.append(waiting)
                    self._unrouted_bytes += record_bytes(waiting.record)
                elif not waiting.delivery.done():
                    waiting.delivery.set_exception(failures[waiting.topic])
                    self._on_failed(failures[waiting.topic])


def _observe(delivery: Delivery) -> None:
    """Mark an error as seen: a delivery may be dropped."""
    if not delivery.cancelled():
        delivery.exception()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


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
