"""The producer: batches records, sends each batch until it is acknowledged, and never stores one twice.

A record passes `RecordAppender` (buffer limit, partition), the accumulator (batches) and `Sender` (requests).

Idempotence: a batch carries a producer id and a base sequence, and keeps them when it is sent again, so the leader
answers a repeat with the first append's offsets. After a batch fails, the partition continues in a new producer epoch
from sequence 0: the leader would refuse a gap in the old epoch's sequence.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import time_ns
from typing import TYPE_CHECKING, Literal, Self

from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT
from raftlog.client.delivery import Delivery
from raftlog.client.metrics import ProducerCounters, ProducerMetrics
from raftlog.client.options import known_options, require_at_least
from raftlog.client.partitioning import Partitioner
from raftlog.client.producer_settings import TRANSACTION_TIMEOUT_MS, ProducerSettings, acks_text
from raftlog.client.record_appender import RecordAppender
from raftlog.client.record_input import HeadersLike, bytes_or_none, checked_values, new_record
from raftlog.client.record_outcomes import Acknowledged, Handle, Placed, RecordMetadata
from raftlog.client.security import Security
from raftlog.client.send_gate import SendGate
from raftlog.client.sender import Sender
from raftlog.errors import ConfigError
from raftlog.model import TopicPartition
from raftlog.record import Compression
from raftlog.runtime import close_all
from raftlog.wire.data import AcksText

if TYPE_CHECKING:
    from raftlog.client.times import Time
    from raftlog.client.transactions import Transaction, TransactionManager

_log = logging.getLogger(__name__)


class Producer:
    """Writes records. Use as an async context manager: leaving it sends what is queued.

    Args: the cluster
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        request_timeout_ms: how long one request may take.
        dial: for each address as brokers announce it (`host:port`), the address to connect to instead.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).
        client_id: the application's name, for quotas; "": the variable
            `RAFTLOG_CLIENT_ID`, or none.

    Args: safety
        acks: which replicas must have a record before it is acknowledged: `all` (every in-sync replica, on disk), `1`
            (the leader), `0` (none: the producer does not wait).
        delivery_timeout_ms: how long a record may take after `send`, every wait and attempt included.
        max_in_flight: how many batches of one partition may be under way at once, 1 to 5. Order holds in any case.

    Args: batches
        linger_ms: how long a record may wait for other records of its batch. While an earlier batch of its partition
            is under way, it waits until that one is acknowledged, but 5 ms at most, even if this is less.
        batch_bytes: the largest size of a batch.
        compression: `lz4` or `zstd`; None: batches are not compressed.
        partitioner: chooses partitions for records that name none; see `Partitioner`. None: by murmur2 of the key, as
            Kafka does, and without a key the same partition until a batch is full.

    Args: bounds
        buffer_bytes: how many bytes may be queued. Beyond, `send` waits and `send_nowait` raises. Values that a library
            made may take more memory than their length until they are sent: those of orjson 3.13 take 4 KB each.
        max_block_ms: how long `send` may wait for room, and any record for its topic's metadata.
        close_timeout_ms: how long the producer still sends queued records when Ctrl-C, a time-out or another
            cancellation leaves the `async with` block; the log says how many records were not acknowledged by then.
            Aborting an open transaction may take as long.

    Args: transactions
        transactional_id: names this producer across restarts; no other producer may have it at the same time. With it,
            records are sent in a `transaction`.
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
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        close_timeout_ms: int = 3_000,
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
        client_id: str = "",
    ) -> None:
        self._settings = settings = ProducerSettings(
            acks=acks_text(acks),
            linger_ms=linger_ms,
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            max_block_ms=max_block_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            max_in_flight=max_in_flight,
            compression=compression,
            partitioner=partitioner,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            close_timeout_ms=close_timeout_ms,
        )
        self._process = os.getpid()
        self._gate = SendGate()
        self._connection = Connection(
            bootstrap, timeout_ms=request_timeout_ms, dial=dial, security=security, client_id=client_id
        )
        self._accumulator: Accumulator[Handle] = Accumulator(
            batch_bytes=batch_bytes,
            linger_ms=linger_ms,
            max_in_flight=max_in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional=bool(transactional_id),
        )
        self._counters = ProducerCounters(batch_bytes)
        self._sender = Sender(self._connection, self._accumulator, self._counters, self._gate, settings)
        self._appender = RecordAppender(
            self._connection, self._accumulator, self._counters, self._sender, self._gate, settings
        )
        if transactional_id:
            from raftlog.client.transactions import TransactionManager  # noqa: PLC0415  (few producers need them)

            self._gate.transactions = TransactionManager(self._connection, self._appender, settings)

    def __del__(self) -> None:
        appender = getattr(self, "_appender", None)  # None: an option was refused.
        if appender is None or self._gate.closed or os.getpid() != self._process:
            return  # A forked child has a copy, which is not its own to send.
        if size := appender.buffered_bytes:
            _log.warning("a producer was never closed, and had %d bytes of records to send: use 'async with'", size)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_hurried = kind is not None and not issubclass(kind, Exception)  # A cancellation, Ctrl-C or SystemExit.
        await self.close(timeout_ms=self._settings.close_timeout_ms if is_hurried else None)

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: Time | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; wait before while the buffer is full.

        A cancelled call may have queued the record, which is sent then; or not, if it still waited for room.

        Args:
            topic: the topic's name.
            value: the record's value; None is a tombstone in a compacted topic.
            key: the record's key, which chooses the partition and which compaction goes by.
            headers: names and values, as a mapping or as pairs.
            partition: the partition's number; None: the producer chooses.
            timestamp: microseconds since 1970 UTC, or a datetime (local time if it has no zone); None: now.

        Raises:
            InvalidRequestError: the record cannot be stored; it is not in the log.
            OverloadedError: BUFFER_EXHAUSTED, there was no room within max_block_ms.
            UnknownOutcomeError: the record may or may not be in the log.
            RaftlogError: the record is not in the log.
        """
        self._gate.require_open()
        return await (await self._appender.add(topic, partition, *new_record(value, key, headers, timestamp)))

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: Time | None = None,
    ) -> Delivery:
        """Queue one record; return a future of its metadata, to await, to give a callback, or to drop.

        Args:
            topic: the topic's name.
            value: the record's value; None is a tombstone in a compacted topic.
            key: the record's key, which chooses the partition and which compaction goes by.
            headers: names and values, as a mapping or as pairs.
            partition: the partition's number; None: the producer chooses.
            timestamp: microseconds since 1970 UTC, or a datetime (local time if it has no zone); None: now.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED; nothing was queued.
            TypeError: a key or value is not bytes.
            InvalidRequestError: the record cannot be stored, or its time is a number in another unit.
        """
        if key is None and partition is None and timestamp is None and not headers and type(value) is bytes:
            fast_path = self._appender.fast_paths.get(topic)
            if fast_path is not None and (handle := fast_path.take(value, time_ns() // 1_000)) is not None:
                return Delivery(handle, handle.count - 1)
        return self._appender.add_nowait(topic, partition, *new_record(value, key, headers, timestamp))

    async def send_many(
        self, topic: str, values: Sequence[bytes | None], *, key: bytes | None = None
    ) -> Sequence[RecordMetadata]:
        """Send several values; return their metadata in order once all are acknowledged.

        This is the cheapest way to send: a run of values for one partition is queued and acknowledged as one.

        Args:
            topic: the topic's name.
            values: the records' values.
            key: the key that all the records have.

        Raises:
            TypeError: a value is not bytes or None; nothing was queued.
            RaftlogError: the first failure, raised once each record has an outcome. Other records may be in the log:
                use `send_nowait` where it matters which.
        """
        self._gate.require_open()
        checked, key = checked_values(values), bytes_or_none("key", key)
        if self._appender.asks_about_each:
            return await self._send_each(topic, checked, key)
        placed: list[Placed] = []
        if checked and not self._appender.knows(topic):
            (first,) = await self._send_each(topic, checked[:1], key)
            placed.append(Placed(TopicPartition(topic, first.partition), first.offset, [first.timestamp]))
            checked = checked[1:]
        runs = await self._appender.add_runs(topic, checked, key)
        for run in runs:
            placed += await run.outcome()
        for run in runs:
            if run.error is not None:
                raise run.error
        return Acknowledged(placed)

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._counters.snapshot(
            self._connection.session.throttles,
            buffered_bytes=self._appender.buffered_bytes,
            epoch_bumps=self._accumulator.epoch_bumps,
        )

    def transaction(self) -> Transaction:
        """Return a transaction: `async with producer.transaction(): ...`.

        What is sent within the block is committed as a whole when the block ends, for readers with
        `isolation="read_committed"`. If the block raises, the transaction is aborted.

        Raises:
            ConfigError: the producer has no transactional_id.
            RuntimeError: the producer is closed.
        """
        return self._manager().transaction()

    async def init_transactions(self) -> None:
        """Take over the transactional id now, rather than with the first transaction. Later calls have no effect.

        This fences the producer that had the id before. Its open transaction is decided, and what it committed can be
        read, once this returns: call it before reading what the next transaction depends on.

        Raises:
            ConfigError: the producer has no transactional_id.
            RuntimeError: the producer is closed, or another call of this is under way.
            FencedError: another producer has taken over this transactional id.
            RaftlogError: the coordinator refused, or could not be reached in time.
        """
        await self._manager().init()

    def _manager(self) -> TransactionManager:
        if self._gate.closed:
            raise RuntimeError("the producer is closed; make another one")
        if self._gate.transactions is None:
            raise ConfigError("a transaction needs Producer(transactional_id=...): a name of its own that stays")
        return self._gate.transactions

    async def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until every queued record has an outcome: at most `delivery_timeout_ms`.

        Args:
            timeout_ms: how long to wait; None: until each record has an outcome.

        Raises:
            TimeoutError: some record had none within `timeout_ms`. The records stay queued, and are sent.
        """
        self._gate.loop.require()
        if timeout_ms is not None:
            require_at_least(0, timeout_ms=timeout_ms)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            await self._appender.flush()

    async def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Send what is queued, and close every connection.

        Records that have no outcome then fail: a record that no broker was sent is not in the log; the others' outcome
        is unknown. The log says how many records these are, and how many were refused meanwhile.

        Args:
            flush: send what is queued first.
            timeout_ms: how long sending may take; None: until each record has an outcome (`delivery_timeout_ms`).
        """
        if timeout_ms is not None:
            require_at_least(0, timeout_ms=timeout_ms)
        self._gate.close()
        self._appender.close_fast_paths()
        before = self._counters.records_failed, self._counters.records_unknown
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    await self._finish(flush=flush)
        finally:
            try:
                await close_all(self._appender.close, self._sender.close)
            finally:
                self._log_failed_records(*before)
                await self._connection.close()

    async def _finish(self, *, flush: bool) -> None:
        if self._gate.transactions is not None and flush:
            await self._gate.transactions.abort()  # Aborts a transaction whose block did not end it.
        elif flush:
            await self.flush()

    def _log_failed_records(self, failed: int, unknown: int) -> None:
        """Log how many records failed during `close`; the arguments are the counts before it."""
        failed, unknown = self._counters.records_failed - failed, self._counters.records_unknown - unknown
        if failed or unknown:
            _log.warning(
                "the producer was closed with records that are not acknowledged: %d are not in the log, %d may be "
                "(sent, but not answered)",
                failed,
                unknown,
            )

    async def _send_each(self, topic: str, values: Sequence[bytes | None], key: bytes | None) -> list[RecordMetadata]:
        """Send values one at a time; each may go to another partition."""
        futures = await self._appender.add_each(topic, values, key)
        if futures:
            await asyncio.wait(futures)
        return [future.result() for future in futures]
