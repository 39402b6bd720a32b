"""The producer without async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar

from raftlog.blocking.facade import Facade
from raftlog.blocking.outbox import Outbox, QueueingProducer
from raftlog.blocking.transaction_block import TransactionBlock
from raftlog.client.arguments import require_topic_name
from raftlog.client.core.membership import GroupMetadata
from raftlog.client.core.partition_queue import MAX_IN_FLIGHT
from raftlog.client.metrics import ProducerMetrics
from raftlog.client.offsets import OffsetsToCommit
from raftlog.client.options import known_options, require_at_least
from raftlog.client.partitioning import Partitioner
from raftlog.client.record_input import HeadersLike, new_record
from raftlog.client.record_outcomes import RecordMetadata
from raftlog.client.security import Security
from raftlog.client.times import Time
from raftlog.record import Compression
from raftlog.wire.data import AcksText

P = ParamSpec("P")
T = TypeVar("T")
SendOffsets: TypeAlias = Callable[[OffsetsToCommit, GroupMetadata | str], None]


class Producer(Facade[QueueingProducer]):
    """Writes records. Use as a context manager: leaving it sends what is queued.

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
            cancellation leaves the `with` block; the log says how many records were not acknowledged by then.
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
        transaction_timeout_ms: int = 60_000,
        close_timeout_ms: int = 3_000,
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
        client_id: str = "",
    ) -> None:
        self._flushes = True
        self._limit_ms: int | None = None
        super().__init__(
            lambda: QueueingProducer(
                bootstrap,
                acks=acks,
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
                dial=dial,
                security=security,
                client_id=client_id,
            )
        )
        self._outbox = Outbox(self._client, self._begin, self._closed_error)
        self._turn = asyncio.Lock()
        """See `TransactionBlock`."""

    def send(
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
        return self._run(
            self._in_turn,
            self._client.send,
            topic,
            value,
            key=key,
            headers=headers,
            partition=partition,
            timestamp=timestamp,
        )

    def send_nowait(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        headers: HeadersLike = None,
        partition: int | None = None,
        timestamp: Time | None = None,
    ) -> Future[RecordMetadata]:
        """Queue one record; return a future of its metadata, to wait for or to drop. Waits while the buffer is full.

        The records of one thread go to the log in the order of its calls; `flush` and `close` wait for them. Callbacks
        of the future run in the thread that does the work: they must neither wait nor call this producer.

        Args:
            topic: the topic's name.
            value: the record's value; None is a tombstone in a compacted topic.
            key: the record's key, which chooses the partition and which compaction goes by.
            headers: names and values, as a mapping or as pairs.
            partition: the partition's number; None: the producer chooses.
            timestamp: microseconds since 1970 UTC, or a datetime (local time if it has no zone); None: now.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED, there was no room within max_block_ms; nothing was queued.
            InvalidRequestError: MESSAGE_TOO_LARGE, or the topic has an empty name; nothing was queued.
            TypeError: the topic is not a str, a key or value not bytes, or the partition no int.
            RuntimeError: the producer is closed, or a callback has called it.
        """
        require_topic_name(topic)
        record, size = new_record(value, key, headers, timestamp)
        if partition is not None and type(partition) is not int:
            raise TypeError(f"partition: expected an int or None, received {type(partition).__name__}")
        self._require_can_wait()
        record, size = self._client.traced(record, size)
        return self._outbox.put(topic, partition, record, size)

    def send_many(
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
        return self._run(self._in_turn, self._client.send_many, topic, values, key=key)

    def metrics(self) -> ProducerMetrics:
        """Return what this producer has done so far."""
        return self._ask(self._client.metrics)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Run a block as one transaction: `with producer.transaction(): ...`.

        What is sent within the block is committed as a whole when the block ends, for readers with
        `isolation="read_committed"`. If the block raises, the transaction is aborted.

        Raises:
            ConfigError: the producer has no transactional_id.
            RuntimeError: the producer is closed.
        """
        block = TransactionBlock(self._client.transaction(), self._outbox.passed, self._turn)
        try:
            self._run(block.begin)
            yield Transaction(lambda offsets, group: self._run(self._in_turn, block.work.send_offsets, offsets, group))
        except BaseException as error:
            self._end_block(block, error)
            raise
        self._end_block(block)

    def _end_block(self, block: TransactionBlock, error: BaseException | None = None) -> None:
        try:
            self._run(block.end, error)
        except BaseException:
            with suppress(RuntimeError):  # The producer is closed, which aborts, too.
                self._begin(block.give_up)
            raise

    @property
    def _exit_limit_s(self) -> float:
        return self._client.close_timeout_ms / 1000

    def init_transactions(self) -> None:
        """Take over the transactional id now, rather than with the first transaction. Later calls have no effect.

        This fences the producer that had the id before. Its open transaction is decided, and what it committed can be
        read, once this returns: call it before reading what the next transaction depends on.

        Raises:
            ConfigError: the producer has no transactional_id.
            RuntimeError: the producer is closed, or another call of this is under way.
            FencedError: another producer has taken over this transactional id.
            RaftlogError: the coordinator refused, or could not be reached in time.
        """
        self._run(self._in_turn, self._client.init_transactions)

    def flush(self, *, timeout_ms: int | None = None) -> None:
        """Wait until every queued record has an outcome: at most `delivery_timeout_ms`.

        Args:
            timeout_ms: how long to wait; None: until each record has an outcome.

        Raises:
            TimeoutError: some record had none within `timeout_ms`. The records stay queued, and are sent.
        """
        self._run(self._in_turn, self._client.flush, timeout_ms=timeout_ms)

    def close(self, *, flush: bool = True, timeout_ms: int | None = None) -> None:
        """Send what is queued, and close every connection. Closing again does nothing.

        Records that have no outcome then fail: a record that no broker was sent is not in the log; the others' outcome
        is unknown. The log says how many records these are.

        Args:
            flush: send what is queued first.
            timeout_ms: how long sending may take; None: until each record has an outcome (`delivery_timeout_ms`).

        Raises:
            RuntimeError: a callback has called it.
        """
        if timeout_ms is not None:
            require_at_least(0, timeout_ms=timeout_ms)
        self._flushes, self._limit_ms = flush, timeout_ms
        super().close()

    def _closed_error(self) -> Exception:
        return RuntimeError("the producer is closed; make another one")

    async def _in_turn(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Do something after what was queued before."""
        await self._outbox.passed()
        return await work(*arguments, **options)

    async def _end(self, reason: tuple[Any, ...]) -> None:
        is_hurried = reason[0] is not None and not issubclass(reason[0], Exception)
        limit_ms = self._client.close_timeout_ms if is_hurried else self._limit_ms
        try:
            self._outbox.close()
            if self._flushes:
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if limit_ms is None else limit_ms / 1000):
                        await self._outbox.passed()
        finally:
            await self._client.close(flush=self._flushes, timeout_ms=limit_ms)


class Transaction:
    """One transaction: commits when the block ends, aborts when the block raises.

    Raises:
        TransactionAbortedError: the block's end found the transaction aborted; run the block again.
        FencedError: another producer has this transactional id; close this one.
        UnknownOutcomeError: no answer came in time, or before another producer took over; the transaction may be
            committed or not.
        TransactionInDoubtError: the block was cancelled while it committed; the transaction may be committed or not.
            This error takes the place of `CancelledError`, which means that the transaction is aborted.
    """

    def __init__(self, send_offsets: SendOffsets) -> None:
        self._send_offsets = send_offsets

    def send_offsets(
        self,
        offsets: OffsetsToCommit,
        group: GroupMetadata | str,
    ) -> None:
        """Commit a group's offsets with the transaction: input offsets and output records become visible together.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read.
            group: `Consumer.group_metadata` of the member that has read the records; a member that has lost its
                partitions is refused. A group's name alone is enough where partitions are assigned by hand.

        Raises:
            TransactionAbortedError, FencedError: the transaction cannot be committed any more.
            RaftlogError: the offsets were refused; the transaction can only be aborted.
        """
        self._send_offsets(offsets, group)
