"""The producer's background half: sends ready batches to leaders, several partitions in one request, and retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from raftlog.client.connection import Connection
from raftlog.client.core.accumulator import Accumulator, PendingBatch
from raftlog.client.core.backoff import backoff_ms
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.model import MAX_SEQUENCE, Address, Offset, ProducerEpoch, ProducerId, TopicPartition
from raftlog.record import build_batch
from raftlog.record.arrow import Compression
from raftlog.runtime import Tasks
from raftlog.transport.session import PeerAnswerError
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import (
    AcksText,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProducerIdResponse,
)
from raftlog.wire.transactions import TransactionalProducer


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record is. With acks=0 the offset is -1: nobody said."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    """Microseconds since 1970 UTC."""


Batch: TypeAlias = PendingBatch["asyncio.Future[RecordMetadata]"]


@dataclass(slots=True)
class _Identity:
    """Under which producer id a partition's batches go, and the next one's sequence."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = 0
    next_sequence: int = 0


class Sender:
    """Runs while there is anything to send."""

    def __init__(
        self,
        connection: Connection,
        accumulator: Accumulator[asyncio.Future[RecordMetadata]],
        *,
        acks: AcksText,
        delivery_timeout_ms: int,
        request_timeout_ms: int,
        compression: Compression | None,
        transactional_id: str = "",
        on_failed: Callable[[RaftlogError], None] = lambda _: None,
    ) -> None:
        self._connection = connection
        self._accumulator = accumulator
        self._acks = acks
        self._delivery_timeout_ms = delivery_timeout_ms
        self._request_timeout_ms = request_timeout_ms
        self._compression: Compression | None = compression
        self._identities: dict[TopicPartition, _Identity] = {}
        self._producer_id: ProducerId | None = None
        self._transactional_id = transactional_id
        self._on_failed = on_failed
        self._transactional: TransactionalProducer | None = None
        self._tasks = Tasks("producer")
        self._running: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        """Set whenever some record got its outcome, or is no longer on its way."""

    def wake(self) -> None:
        """Say that a record was queued."""
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._run(), name="send")
        self._wake.set()

    @property
    def used(self) -> bool:
        """Whether anything was sent under the present transactional identity."""
        return bool(self._identities)

    def begin_epoch(self, producer: TransactionalProducer) -> None:
        """Send under this identity from now on, each partition from sequence 0."""
        self._transactional = producer
        self._identities.clear()

    async def discard(self, error: RaftlogError) -> None:
        """Fail what is queued; return once nothing is on its way."""
        while not self._accumulator.empty:
            for batch in self._accumulator.take_waiting():
                self._fail(batch, error)
            if not self._accumulator.empty:
                await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until some record gets its outcome."""
        self._settled.clear()
        await self._settled.wait()

    async def flush(self) -> None:
        """Send without lingering until nothing is left."""
        self._accumulator.flushing = True
        self._wake.set()
        try:
            while not self._accumulator.empty:
                await self.wait_for_room()
        finally:
            self._accumulator.flushing = False

    async def close(self) -> None:
        """Stop; records that have no outcome get an unknown one."""
        await self._tasks.close()
        for partition in self._accumulator.partitions():
            while partition in self._accumulator.partitions():
                self._fail(self._accumulator.done(partition), UnknownOutcomeError("the producer was closed"))

    async def _run(self) -> None:
        while not self._accumulator.empty:
            self._wake.clear()
            now = _now_ms()
            for partition in self._accumulator.expired(now, self._delivery_timeout_ms):
                self._expire(partition)
            await self._send_ready(now)
            due = self._accumulator.next_due_ms()
            wait_s = 0.1 if due is None else max(0.0, min((due - _now_ms()) / 1000, 0.1))
            try:
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _send_ready(self, now_ms: int) -> None:
        ready = self._accumulator.ready(now_ms)
        if not ready:
            return
        routes: dict[Address, list[tuple[TopicPartition, Batch]]] = defaultdict(list)
        for partition, batch in ready:
            try:
                address = await self._connection.require_leader(*partition)
                await self._encode(partition, batch)
            except RaftlogError as error:
                self._accumulator.sending(partition)
                batch.attempts += 1
                self._on_error(partition, batch, error)
                continue
            routes[address].append((partition, batch))
        for address, batches in routes.items():
            for partition, batch in batches:
                self._accumulator.sending(partition)
                batch.attempts += 1
            self._tasks.spawn(self._send(address, batches), name=f"produce to {address}")

    async def _encode(self, partition: TopicPartition, batch: Batch) -> None:
        """Give a batch its bytes, its producer id and sequence, once and for all."""
        if batch.encoded:
            return
        batch.closed = True
        identity = self._identities.get(partition)
        if identity is None:
            identity = self._identities[partition] = await self._new_identity()
        batch.encoded = bytes(
            build_batch(
                batch.records,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=identity.next_sequence,
                compression=self._compression,
                transactional=self._transactional is not None,
            )
        )
        identity.next_sequence = (identity.next_sequence + len(batch.records)) % (MAX_SEQUENCE + 1)

    async def _new_identity(self) -> _Identity:
        if self._transactional is not None:
            return _Identity(self._transactional.producer_id, self._transactional.producer_epoch)
        return _Identity(await self._current_producer_id())

    async def _current_producer_id(self) -> ProducerId:
        """Return the id that all partitions share until one of them gives a batch up; then the next takes a new one."""
        if self._producer_id is None:
            answer = await self._connection.ask_any(ProducerIdResponse, "POST", paths.PRODUCERS)
            self._producer_id = answer.producer_id
        return self._producer_id

    async def _send(self, address: Address, batches: Sequence[tuple[TopicPartition, Batch]]) -> None:
        now = _now_ms()
        left_ms = min(self._delivery_timeout_ms - (now - batch.created_ms) for _, batch in batches)
        timeout_ms = max(1, min(self._request_timeout_ms, left_ms))
        asked = tuple(
            ProducePartition(topic=p.topic, partition=p.partition, length=len(b.encoded), topic_id=self._topic_id(p))
            for p, b in batches
        )
        head = ProduceRequest(
            acks=self._acks, timeout_ms=timeout_ms, transactional_id=self._transactional_id, partitions=asked
        )
        try:
            response = await self._connection.session.call(
                ProduceResponse,
                "POST",
                address,
                paths.PRODUCE,
                timeout_ms=timeout_ms + 100,
                body=encode_frame(head, [batch.encoded for _, batch in batches]),
                content_type=media.FRAME,
            )
            results = {TopicPartition(result.topic, result.partition): result for result in response.partitions}
        except PeerAnswerError as error:
            # The batch arrived somewhere, and the answer says nothing: it may be in the log.
            unknown = UnknownOutcomeError(error.message)
            for partition, batch in batches:
                self._on_error(partition, batch, unknown)
        except RaftlogError as error:
            for partition, batch in batches:
                self._on_error(partition, batch, error)
        else:
            for partition, batch in batches:
                self._on_result(partition, batch, results.get(partition))
        self._wake.set()

    def _on_result(self, partition: TopicPartition, batch: Batch, result: ProduceResult | None) -> None:
        if result is None:
            self._on_error(partition, batch, UnknownOutcomeError("the broker's answer leaves out a batch"))
        elif result.error is not None:
            self._on_error(partition, batch, result.error.to_error())
        else:
            self._accumulator.done(partition)
            offset = result.base_offset
            for record, delivery in zip(batch.records, batch.handles, strict=True):
                if not delivery.done():
                    delivery.set_result(RecordMetadata(partition.topic, partition.partition, offset, record.timestamp))
                offset += offset >= 0
            self._settled.set()

    def _on_error(self, partition: TopicPartition, batch: Batch, error: RaftlogError) -> None:
        """Try again later if that may help and the same bytes can be recognised as a repeat; else give up."""
        if isinstance(error, UnknownOutcomeError) or error.details.get("appended"):
            batch.may_be_appended = True
        if isinstance(error, StaleRouteError | UnknownOutcomeError) or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            self._connection.forget_leader_of([partition.topic])
        now = _now_ms()
        in_time = now - batch.created_ms < self._delivery_timeout_ms
        if isinstance(error, RetriableError) and in_time:
            wait = backoff_ms(max(1, batch.attempts), jitter=random.random())  # noqa: S311
            self._accumulator.retry(partition, not_before_ms=now + wait)
            self._settled.set()  # Who discards can take it now.
        elif isinstance(error, RetriableError):
            self._give_up(partition, self._timed_out(batch, error))
        else:
            self._give_up(partition, self._fatal(batch, error))

    def _expire(self, partition: TopicPartition) -> None:
        batch = self._accumulator.first(partition)
        self._give_up(partition, self._timed_out(batch, None))

    def _give_up(self, partition: TopicPartition, error: RaftlogError) -> None:
        """Fail a batch. Its sequence will never be continued, so the next batch starts under a fresh id."""
        if self._transactional is None:
            self._identities.pop(partition, None)
            self._producer_id = None
        self._on_failed(error)  # A transaction that lacks a batch can only be aborted.
        self._fail(self._accumulator.done(partition), error)

    def _timed_out(self, batch: Batch, last: RaftlogError | None) -> RaftlogError:
        why = f"not acknowledged within {self._delivery_timeout_ms} ms ({batch.attempts} attempts)"
        reason = f"{why}; the last: {last.message}" if last else why
        if batch.may_be_appended:
            return UnknownOutcomeError(f"{reason}; it may be in the log")
        return RetriableError(f"{reason}; it is not in the log", code=ErrorCode.REQUEST_TIMED_OUT)

    def _fatal(self, batch: Batch, error: RaftlogError) -> RaftlogError:
        if batch.may_be_appended:
            return UnknownOutcomeError(f"an earlier attempt may be in the log; the last was refused: {error.message}")
        if error.code is ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            message = f"a batch of {len(batch.records)} records: {error.message}; lower batch_bytes"
            return InvalidRequestError(message, code=error.code, details=error.details)
        return error

    def _fail(self, batch: Batch, error: RaftlogError) -> None:
        for delivery in batch.handles:
            if not delivery.done():
                delivery.set_exception(error)
        self._settled.set()

    def _topic_id(self, partition: TopicPartition) -> str:
        info = self._connection.known(partition.topic)
        return info.topic_id if info else ""


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
