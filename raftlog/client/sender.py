"""The producer's sender (Kafka: `Sender`): sends due batches to leaders and completes the records' handles.

`core.partition_queue` decides which batches may be sent and what a response means for them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from raftlog.client.connection import Connection
from raftlog.client.core import delivery_errors
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import ProducerIdentity
from raftlog.client.metrics import ProducerCounters
from raftlog.client.produce_requests import Batch, ProduceRequests, Routed, in_order
from raftlog.client.producer_settings import ProducerSettings
from raftlog.client.record_outcomes import Handle, acknowledge, fail
from raftlog.client.send_gate import SendGate
from raftlog.client.send_spans import begin_send
from raftlog.client.unexpected import explained
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    RaftlogError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.model import Address, TopicPartition
from raftlog.runtime import Tasks, TimedEvent
from raftlog.tracing import RecordMarker
from raftlog.wire import media, paths
from raftlog.wire.data import (
    ProduceResponse,
    ProduceResult,
    ProducerIdResponse,
)

if TYPE_CHECKING:
    from raftlog.wire.transactions import TransactionalProducer

_log = logging.getLogger(__name__)
MAX_WAIT_S = 0.1
TURN_BATCHES = 128
TURN_BYTES = 4 << 20
"""The most batches, and bytes of records, that one turn of the event loop encodes (and what a partition adds to them).

Encoding takes some 20 ms then, and 60 ms of batches that zstd compresses. Fewer would make the requests smaller:
brokers share a turn's batches."""
PRODUCER_ID = ""
"""The key of a producer id request, in place of a topic's name."""


class Sender:
    """Sends the batches of one producer; its task runs while the accumulator has any."""

    def __init__(
        self,
        connection: Connection,
        accumulator: Accumulator[Handle],
        counters: ProducerCounters,
        gate: SendGate,
        settings: ProducerSettings,
    ) -> None:
        self._connection = connection
        self._accumulator = accumulator
        self._counters = counters
        self._gate = gate
        self._delivery_timeout_ms = settings.delivery_timeout_ms
        self._request_timeout_ms = settings.request_timeout_ms
        self._transactional_id = settings.transactional_id
        self._requests = ProduceRequests(
            acks=settings.acks, compression=settings.compression, transactional_id=settings.transactional_id
        )
        self._asking: set[str] = set()
        """Requests under way: metadata by topic, and `PRODUCER_ID`. Only the partitions that need them wait."""
        self._tasks = Tasks("producer")
        self._running: asyncio.Task[None] | None = None
        self._wake = TimedEvent()
        self._resumes_in_s = MAX_WAIT_S
        """When the task looks at the queues again because the pause that a broker asked for ends."""
        self.is_awake = False
        """Whether the task will look at the queues without another `wake`."""
        self._outlived: set[str] = set()
        """Topics for which the retention warning was logged."""
        self._settled = asyncio.Event()
        """Set when a record gets its outcome, or is no longer in flight."""
        self._flushes = 0
        """How many calls of `flush` wait."""
        self.marker = RecordMarker()

    def wake(self) -> None:
        """Wake the task after a record was queued."""
        if self.is_awake:
            return
        self.is_awake = True
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._run(), name="send")
        self._wake.set()

    @property
    def used(self) -> bool:
        """Whether a batch was sent under the current transactional identity."""
        return self._accumulator.used

    def begin_epoch(self, producer: TransactionalProducer) -> None:
        """Use this producer id and epoch from now on, each partition from sequence 0."""
        self._accumulator.begin(ProducerIdentity(producer.producer_id, producer.producer_epoch))

    async def discard(self, error: RaftlogError) -> None:
        """Fail the queued records; return once no batch is in flight."""
        while not self._accumulator.empty:
            for batch in self._accumulator.take_waiting():
                self._fail_handles(batch, error)
            if not self._accumulator.empty:
                await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Wait until a record gets its outcome."""
        self._settled.clear()
        await self._settled.wait()

    def room_was_made(self) -> None:
        """Wake `wait_for_room`: a record got its outcome elsewhere."""
        self._settled.set()

    async def flush(self) -> None:
        """Send without lingering until every record that is queued now has an outcome; others may be sent meanwhile."""
        until_ms = _now_ms()
        self._flushes += 1
        self._accumulator.flushing = True
        self._wake.set()
        try:
            while self._accumulator.has_from_before(until_ms):
                await self.wait_for_room()
        finally:
            self._flushes -= 1
            self._accumulator.flushing = self._flushes > 0

    async def close(self) -> None:
        """Stop; records without an outcome fail, with an unknown outcome if they may be in the log."""
        try:
            await self._tasks.close()
        finally:
            for batch in self._accumulator.take_all():
                self._fail_handles(batch, delivery_errors.closed(batch))

    async def _run(self) -> None:
        try:
            while not self._accumulator.empty:
                self._wake.clear()
                self.is_awake = is_cut = False
                try:
                    self._fail(self._accumulator.expire(_now_ms()))
                    is_cut = self._send_due(_now_ms())
                except Exception as error:  # noqa: BLE001  (the callers that wait get it)
                    explained(error, "sending")
                    await asyncio.sleep(MAX_WAIT_S)
                if is_cut:
                    await asyncio.sleep(0)
                else:
                    await self._until_due()
        finally:
            self.is_awake = False

    async def _until_due(self) -> None:
        """Wait until a batch is due, a response arrives, or a record is queued."""
        now = _now_ms()
        due = self._accumulator.next_due_ms(now)
        wait_s = min(MAX_WAIT_S, self._resumes_in_s)
        if due is not None:
            wait_s = min((due - now) / 1000, wait_s)
        loop = asyncio.get_running_loop()
        if wait_s > 0:
            await self._wake.wait(loop.time() + wait_s)
        else:
            await asyncio.sleep(0)  # A batch that is due and cannot be sent must not keep the loop.

    def _is_throttled(self, address: Address) -> bool:
        """Return whether a broker has asked for a pause that is not over; its batches grow meanwhile."""
        left_s = self._connection.session.throttles.left_s(address)
        if left_s > 0:
            self._resumes_in_s = min(self._resumes_in_s, left_s)
        return left_s > 0

    def _send_due(self, now_ms: int) -> bool:
        """Send due batches; return whether the rest of them must wait for the event loop's next turn."""
        self._resumes_in_s = MAX_WAIT_S
        self.marker.look()
        due = self._accumulator.due(now_ms)
        if due and self._accumulator.wants_identity:
            self._ask(PRODUCER_ID, self._ask_producer_id, due)
            return False
        routes: dict[Address, list[Routed]] = defaultdict(list)
        batches = size = 0
        try:
            for at, partition in enumerate(due):
                if batches >= TURN_BATCHES or size >= TURN_BYTES:
                    self._accumulator.put_last(due[:at])
                    return True
                if (address := self._route(partition, now_ms)) is None or self._is_throttled(address):
                    continue
                taken, failed = self._accumulator.take(partition, self._topic_id(partition), now_ms)
                routes[address] += [(partition, batch) for batch in taken]
                batches += len(taken)
                size += sum(batch.size for batch in taken)
                self._fail(failed)
            return False
        finally:  # Batches that were taken are sent, whatever a later one fails with.
            for address, routed in routes.items():
                for request in self._requests.share([pair for pair in routed if self._is_encoded(*pair)]):
                    self._tasks.spawn(self._send(address, request), name=f"produce to {address}")

    def _is_encoded(self, partition: TopicPartition, batch: Batch) -> bool:
        if (error := self._requests.encode(batch, feature_level=self._connection.feature_level)) is not None:
            self._on_result(partition, batch, error)
        return error is None

    def _route(self, partition: TopicPartition, now_ms: int) -> Address | None:
        """Return the address of a partition's leader; None: a metadata request is under way, or has failed."""
        topic = partition.topic
        if self._connection.must_refresh(topic) or self._connection.cached_topic(topic) is None:
            waiting = [other for other in self._accumulator.partitions() if other.topic == topic]
            self._ask(topic, partial(self._connection.topic, topic), waiting)
            return None
        if self._connection.is_stale(topic):  # It is only old, and used until it is refreshed.
            self._ask(topic, partial(self._refresh, topic), [])
        try:
            return self._connection.cached_leader(*partition)
        except RaftlogError as error:
            self._connection.forget_leader_of([topic])
            self._unroutable([partition], error, now_ms)
            return None

    def _ask(self, what: str, request: Callable[[], Awaitable[object]], waiting: Sequence[TopicPartition]) -> None:
        """Run a request in the background, one at a time for each key; if it fails, `waiting` retry later or fail."""
        if what in self._asking:
            return

        async def ask() -> None:
            try:
                await request()
            except Exception as error:  # noqa: BLE001  (the callers that wait get it)
                self._unroutable(waiting, explained(error, "a request for metadata or a producer id"), _now_ms())
            finally:
                self._asking.discard(what)
                self._wake.set()

        self._asking.add(what)
        self._tasks.spawn(ask(), name=f"ask for {what}")

    async def _refresh(self, topic: str) -> None:
        """Refresh old metadata; an error has a pause follow, since records are sent meanwhile and ask again."""
        try:
            await self._connection.refresh([topic])
        except Exception:
            await asyncio.sleep(MAX_WAIT_S)
            raise

    async def _ask_producer_id(self) -> None:
        if self._transactional_id:
            raise InvalidRequestError("no transaction has begun", code=ErrorCode.INVALID_TXN_STATE)
        answer = await self._connection.ask_any(ProducerIdResponse, "POST", paths.PRODUCERS)
        self._accumulator.begin(ProducerIdentity(answer.producer_id, answer.producer_epoch))

    async def _send(self, address: Address, routed: Sequence[Routed]) -> None:
        now = _now_ms()
        left_ms = min(self._delivery_timeout_ms - (now - batch.created_ms) for _, batch in routed)
        timeout_ms = max(1, min(self._request_timeout_ms, left_ms))
        results: Sequence[ProduceResult | RaftlogError] = ()
        self._count(routed, now)
        span = None
        try:
            if self.marker.is_on:
                span = begin_send(address, routed, self._connection.session.client_id)
            async with self._connection.while_leading(address, [partition for partition, _ in routed]):
                response = await self._connection.session.call(
                    ProduceResponse,
                    "POST",
                    address,
                    paths.PRODUCE,
                    timeout_ms=timeout_ms + 100,
                    body=self._requests.body(routed, timeout_ms=timeout_ms),
                    content_type=media.FRAME,
                    fields=None if span is None else span.fields,
                )
            results = in_order(routed, response)
        except Exception as error:  # noqa: BLE001  (the callers that wait get it)
            failed = explained(error, f"the produce request to {address}")
            results = [self._requests.of_request(failed, len(routed))] * len(routed)
        finally:
            self._counters.on_answer(_now_ms() - now)
            if span is not None:
                span.end(results)
        for (partition, batch), result in zip(routed, results, strict=True):
            self._on_result(partition, batch, result)
        self._settled.set()  # `discard` can remove batches now that were in flight.
        self._wake.set()

    def _count(self, routed: Sequence[Routed], now_ms: int) -> None:
        self._counters.on_request()
        for _, batch in routed:
            self._counters.on_batch(
                records=len(batch.records),
                size=batch.size,
                encoded=len(batch.encoded),
                attempts=batch.attempts,
                queued_ms=now_ms - batch.created_ms,
            )

    def _on_result(self, partition: TopicPartition, batch: Batch, result: ProduceResult | RaftlogError) -> None:
        now = _now_ms()
        if isinstance(result, ProduceResult) and result.error is None:
            failed = self._accumulator.on_acknowledged(partition, batch, now)
            if result.outlived_retention_ms >= 0:
                self._warn_of_retention(partition.topic, result.outlived_retention_ms)
            self._counters.records_acknowledged += len(batch.records)
            acknowledge(batch.handles, batch.records.timestamps, partition, result.base_offset)
        else:
            error = result if isinstance(result, RaftlogError) else _error_of(result)
            if isinstance(error, StaleRouteError | UnknownOutcomeError) or error.code is ErrorCode.BROKER_NOT_AVAILABLE:
                self._connection.forget_leader_of([partition.topic])
            failed = self._accumulator.on_refused(partition, batch, error, now, jitter=random.random())  # noqa: S311
        self._fail(failed)

    def _warn_of_retention(self, topic: str, retention_ms: int) -> None:
        """Warn once for each topic that its retention deletes the acknowledged records soon."""
        if topic not in self._outlived:
            self._outlived.add(topic)
            _log.warning(
                "%s: records were sent whose timestamps are older than the topic's retention_ms (%d): the cluster "
                "deletes them soon after it has acknowledged them. Raise retention_ms, or set retention_by=append_time",
                topic,
                retention_ms,
            )

    def _unroutable(self, partitions: Iterable[TopicPartition], error: RaftlogError, now_ms: int) -> None:
        for partition in partitions:
            jitter = random.random()  # noqa: S311
            self._fail(self._accumulator.on_unroutable(partition, error, now_ms, jitter=jitter))

    def _fail(self, failed: Iterable[tuple[Batch, RaftlogError]]) -> None:
        for batch, error in failed:
            if not self._accumulator.is_outlived(batch):
                self._gate.on_failed(error)  # A transaction with a failed batch can only be aborted.
            self._fail_handles(batch, error)

    def _fail_handles(self, batch: Batch, error: RaftlogError) -> None:
        self._counters.on_failed(len(batch.records), error)
        fail(batch.handles, error)
        self._settled.set()

    def _topic_id(self, partition: TopicPartition) -> str:
        info = self._connection.cached_topic(partition.topic)
        return info.topic_id if info else ""


def _error_of(result: ProduceResult) -> RaftlogError:
    assert result.error is not None
    return result.error.to_error()


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
