"""Produce: batches of Kafka's clients become raftlog's and are appended like any other.

Batches of a request are converted before the first of them is appended, and appended in the order of the request.
Appends wait for their replicas together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from raftlog.broker.appending import append_batch
from raftlog.broker.context import BrokerContext
from raftlog.broker.internal_topics import require_ordinary
from raftlog.broker.kafka.transactional import KafkaTransactions, PartitionBatch, already_admitted, numbered_error
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, RaftlogError
from raftlog.model import ACKS_ALL, NO_PRODUCER_EPOCH, Acks, Offset, ProducerEpoch, TopicId
from raftlog.record.batch import Buffer, parse_header
from raftlog.record.kafka.compression import too_large
from raftlog.record.kafka.convert import FEW_RECORDS, from_kafka
from raftlog.record.kafka.header import HEADER_BYTES, invalid, is_compressed, record_count
from raftlog.record.kafka.loading import is_loaded
from raftlog.record.unpacking import unpacked_bytes
from raftlog.runtime import concurrently, in_slices
from raftlog.security.identity import Sender
from raftlog.serving.limits import InflightLimits
from raftlog.serving.workers import INLINE_BYTES, in_worker

FIRST_VERSION = 3
"""Earlier versions send message sets of magic 0 and 1. They are advertised, because librdkafka expects it
(KAFKA-18659), and refused."""
_PACKED_INLINE_BYTES = 1 << 10
"""Up to so many compressed bytes are unpacked in the event loop, if they unpack to at most `INLINE_BYTES`."""
_ACKS: dict[int, Acks] = {-1: ACKS_ALL, 0: 0, 1: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaBatch:
    """One partition of a produce request."""

    topic: str
    partition: int
    records: Buffer | None
    """As they were received; None: null."""
    topic_id: TopicId = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaAppend:
    """What happened to one batch: `error`, or its first offset."""

    base_offset: Offset = -1
    log_start_offset: Offset = -1
    error: RaftlogError | None = None


class KafkaProduce:
    """Appends the batches of produce requests.

    Args:
        inflight: counts converted batches beside the received ones, which the connection counts; None: they do not
            count.
    """

    def __init__(self, context: BrokerContext, inflight: InflightLimits | None = None) -> None:
        self._context = context
        self._inflight = inflight
        self._transactions = KafkaTransactions(context)

    async def append(
        self,
        batches: Sequence[KafkaBatch],
        *,
        acks: int,
        timeout_ms: int,
        sender: Sender,
        transactional_id: str = "",
        on_placed: Callable[[], None] | None = None,
        joins: bool = True,
    ) -> list[KafkaAppend]:
        """Append each batch; the results are in the order of the request.

        Args:
            acks: -1: all; 1; 0.
            transactional_id: empty: none.
            on_placed: called when each batch has its place in its log, or has ended: the connection's next request may
                begin, and both wait for their replicas together. None: requests do not overlap.
            joins: a batch adds its partition to the transaction (TV2).
        """
        try:
            if acks not in _ACKS:
                raise InvalidRequestError(
                    f"expected acks -1, 0 or 1, received {acks}", code=ErrorCode.INVALID_REQUIRED_ACKS
                )
            if transactional_id:
                self._context.access.require(sender, "write", "transactional_id", transactional_id)
        except RaftlogError as error:
            return [KafkaAppend(error=error) for _ in batches]
        most_ms = max(1, min(timeout_ms, self._context.config.broker.request_timeout_ms))
        places = _Places(len(batches))
        works = await self._works(batches, sender, _ACKS[acks], most_ms, transactional_id, joins, places)
        if on_placed is None:
            return [await works[0]] if len(works) == 1 else await concurrently(works)
        appends = asyncio.ensure_future(concurrently(works))
        await places.taken(appends)
        on_placed()
        return await appends

    async def _works(
        self,
        batches: Sequence[KafkaBatch],
        sender: Sender,
        acks: Acks,
        timeout_ms: int,
        transactional_id: str,
        joins: bool,
        places: _Places,
    ) -> list[Coroutine[None, None, KafkaAppend]]:
        """Convert the batches and find their transactions; return an append for each."""
        converted = await self._convert(batches, sender)
        since = [NO_PRODUCER_EPOCH] * len(batches)
        if transactional_id:
            converted, since = await self._number(batches, converted, transactional_id, joins, timeout_ms)
        return [
            self._append(batch, ours, acks, timeout_ms, transactional_id, epoch, places)
            for batch, ours, epoch in zip(batches, converted, since, strict=True)
        ]

    async def _number(
        self,
        batches: Sequence[KafkaBatch],
        converted: Sequence[bytearray | RaftlogError],
        transactional_id: str,
        joins: bool,
        timeout_ms: int,
    ) -> tuple[list[bytearray | RaftlogError], list[ProducerEpoch]]:
        """Return the batches, or why they are refused, and for each what `ProducerStates.check` has as `since`."""
        made, since = list(converted), [NO_PRODUCER_EPOCH] * len(batches)
        places, ready = list[int](), list[PartitionBatch]()
        for place, (batch, ours) in enumerate(zip(batches, converted, strict=True)):
            try:
                require_ordinary(batch.topic)
            except RaftlogError as error:
                made[place] = ours if isinstance(ours, RaftlogError) else error
            else:
                if not isinstance(ours, RaftlogError):
                    places.append(place)
                    ready.append(PartitionBatch(batch.topic, batch.partition, ours))
        found = await self._transactions.number(transactional_id, ready, joins=joins, timeout_ms=timeout_ms)
        for place, epoch in zip(places, found, strict=True):
            if isinstance(epoch, RaftlogError):
                made[place] = numbered_error(epoch, joins=joins)
            else:
                since[place] = epoch
        return made, since

    async def _convert(self, batches: Sequence[KafkaBatch], sender: Sender) -> list[bytearray | RaftlogError]:
        limits = [self._limit_of(batch, sender) async for batch in in_slices(batches)]
        most = self._context.config.broker.max_request_bytes
        if _is_quick(batches):
            made = _converted(batches, limits, most, INLINE_BYTES)
            if not any(isinstance(one, OverloadedError) for one in made):
                return made
        return await in_worker(_converted, batches, limits, most)

    def _limit_of(self, batch: KafkaBatch, sender: Sender) -> int | RaftlogError:
        """Return the most bytes of a batch's unpacked records, if its sender may write it here."""
        try:
            self._context.access.require(sender, "write", "topic", batch.topic)
            return self._context.leader(batch.topic, batch.partition, batch.topic_id).config.max_message_bytes
        except RaftlogError as error:
            return error

    async def _append(
        self,
        batch: KafkaBatch,
        ours: bytearray | RaftlogError,
        acks: Acks,
        timeout_ms: int,
        transactional_id: str,
        since: ProducerEpoch,
        places: _Places,
    ) -> KafkaAppend:
        held, take = 0, places.one()
        try:
            if isinstance(ours, RaftlogError):
                raise ours
            if self._inflight is not None:
                self._inflight.hold(len(ours))
                held = len(ours)
            # Before the append: an acknowledged batch is not answered with an error because its replica then moved.
            log = self._context.replica(batch.topic, batch.partition, batch.topic_id).log
            done = await append_batch(
                self._context,
                batch.topic,
                batch.partition,
                ours,
                acks,
                timeout_ms,
                topic_id=batch.topic_id,
                transactional_id=transactional_id,
                admit=already_admitted if transactional_id else None,
                since=since,
                on_appended=take,
            )
        except RaftlogError as error:
            return KafkaAppend(error=_for_producer(error))
        finally:
            take()
            if self._inflight is not None:
                self._inflight.release(held)
        return KafkaAppend(base_offset=done.base_offset, log_start_offset=log.log_start_offset)


class _Places:
    """The places in their logs that the batches of one request take, or do not take because they are refused.

    A batch whose producer the broker does not know waits for the controller before it takes its place.
    """

    def __init__(self, count: int) -> None:
        self._left = count
        self._all = asyncio.Event()
        if not count:
            self._all.set()

    def one(self) -> Callable[..., None]:
        """Return a function to call when a batch has taken its place, or has ended; further calls do nothing."""
        is_taken = False

        def take(*_: object) -> None:
            nonlocal is_taken
            if not is_taken:
                is_taken = True
                self._left -= 1
                if not self._left:
                    self._all.set()

        return take

    async def taken(self, appends: asyncio.Future[list[KafkaAppend]]) -> None:
        """Wait until each batch has taken its place or has ended. If this is cancelled, so are the appends."""
        try:
            await self._all.wait()
        except asyncio.CancelledError:
            appends.cancel()
            appends.add_done_callback(_retrieve)
            raise


def _retrieve(appends: asyncio.Future[list[KafkaAppend]]) -> None:
    """Retrieve the outcome of appends for which no caller waits: asyncio would log it when the future is deleted."""
    if not appends.cancelled():
        appends.exception()


def _is_quick(batches: Sequence[KafkaBatch]) -> bool:
    """Return whether the batches are probably converted in less time than a worker thread takes to start."""
    total = packed = 0
    for batch in batches:
        if batch.records is None or len(batch.records) < HEADER_BYTES:
            continue
        if record_count(batch.records) >= FEW_RECORDS and not is_loaded():
            return False
        total += len(batch.records)
        packed += len(batch.records) if _is_packed(batch) else 0
    return total <= INLINE_BYTES and packed <= _PACKED_INLINE_BYTES


def _converted(
    batches: Sequence[KafkaBatch], limits: Sequence[int | RaftlogError], most_unpacked: int, at_once: int | None = None
) -> list[bytearray | RaftlogError]:
    """Return each batch as raftlog's, or why it is refused.

    Args:
        most_unpacked: the most bytes that all compressed ones unpack to: each of thousands may be a bomb. Those for
            which nothing is left are to be sent again, in a request with fewer.
        at_once: stop after so many; what is left has an OverloadedError.
    """
    made = list[bytearray | RaftlogError]()
    left = most_unpacked if at_once is None else min(at_once, most_unpacked)
    for batch, limit in zip(batches, limits, strict=True):
        if isinstance(limit, RaftlogError):
            made.append(limit)
            continue
        if not _is_packed(batch):
            made.append(_convert_one(batch, limit))
            continue
        ours = _convert_one(batch, min(limit, left)) if left > 0 else too_large(left)
        is_cut = left < min(limit, most_unpacked)  # Alone in a request it may fit.
        if is_cut and isinstance(ours, RaftlogError) and ours.code is ErrorCode.MESSAGE_TOO_LARGE:
            ours = OverloadedError(
                f"the batches of this request unpack to more than {most_unpacked} bytes; send this one again with fewer"
            )
        left -= _unpacked(ours, min(limit, max(0, left)))
        made.append(ours)
    return made


def _is_packed(batch: KafkaBatch) -> bool:
    return batch.records is not None and len(batch.records) >= HEADER_BYTES and is_compressed(batch.records)


def _unpacked(ours: bytearray | RaftlogError, most: int) -> int:
    """Return how many bytes a compressed batch unpacked to, at most."""
    if isinstance(ours, RaftlogError):
        return 0 if ours.code is ErrorCode.CORRUPT_MESSAGE else most
    return unpacked_bytes(parse_header(ours), ours)


def _convert_one(batch: KafkaBatch, limit: int) -> bytearray | RaftlogError:
    try:
        if batch.records is None:
            raise invalid("a partition of the request has no records")
        return from_kafka(batch.records, max_message_bytes=limit)
    except RaftlogError as error:
        return error


def _for_producer(error: RaftlogError) -> RaftlogError:
    """Return the error that makes Kafka's producers do what this one asks for.

    - They take DUPLICATE_SEQUENCE_NUMBER for success. Here it says that other records have the sequence.
    - Some do not send again after an error of quotas, and some without a pause after CONCURRENT_TRANSACTIONS. All do
      after NOT_ENOUGH_REPLICAS: nothing was appended, either.
    """
    if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return InvalidRequestError(error.message, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, details=error.details)
    if isinstance(error, OverloadedError) or error.code is ErrorCode.CONCURRENT_TRANSACTIONS:
        return OverloadedError(error.message, code=ErrorCode.NOT_ENOUGH_REPLICAS, details=error.details)
    return error
