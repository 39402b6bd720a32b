"""Fetch: the long poll of raftlog's own consumers, with the batches found in Kafka's form.

Limits count the unpacked size of what is sent, unlike the size of what is stored. A follower answers a consumer that
named its rack, because only the leader sends such a one to a follower (KIP-392).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import ParkedFetches
from raftlog.broker.kafka.converted import ConvertedBatches
from raftlog.errors import CorruptBatchError, InvalidRequestError, RaftlogError
from raftlog.model import NO_LEADER_EPOCH, AbortedTransaction, Isolation, LeaderEpoch, Offset, TopicId
from raftlog.partition.consumer_fetch import ReadSpace, Served, serve_fetch
from raftlog.partition.core.epochs import require_same_epoch
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.replica import Replica
from raftlog.record.batch import iter_batches
from raftlog.record.kafka.convert import FEW_RECORDS
from raftlog.record.kafka.loading import is_loaded
from raftlog.record.kafka.reading import for_reader
from raftlog.record.unpacking import first_that_unpack_to, unpacked_bytes
from raftlog.runtime import in_slices
from raftlog.security.access import TopicReads
from raftlog.security.identity import Sender
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire.data import MAX_REQUEST_PARTITIONS, FetchPartition, FetchRequest, FetchResult
from raftlog.wire.errors import WireError

_SLICE = 512
"""Partitions of a fetch that are prepared in one turn of the event loop."""
MOST_BYTES = 16 << 20
"""The most bytes of one answer, which is in memory, apart from a single larger batch."""
_BATCH_BYTES = 1 << 20
"""What a partition may add to an answer whatever its own limit: a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPosition:
    """Where to read one partition from."""

    topic: str
    partition: int
    offset: Offset
    max_bytes: int
    topic_id: TopicId = ""
    current_leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """The leader epoch that the reader knows; -1: none."""
    last_fetched_epoch: LeaderEpoch = NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRead:
    """One partition of the answer."""

    result: FetchResult
    batches: tuple[bytes, ...] = ()
    """In Kafka's form."""
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))


class KafkaFetch:
    """Reads partitions for Kafka's consumers.

    Args:
        parked: shared with the fetches of HTTP.
    """

    def __init__(self, context: BrokerContext, parked: ParkedFetches) -> None:
        self._context = context
        self._parked = parked
        self.converted = ConvertedBatches()

    async def fetch(
        self,
        positions: Sequence[KafkaPosition],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        sender: Sender,
        rack: str = "",
        space: ReadSpace | None = None,
    ) -> list[KafkaRead]:
        """Read each partition; the results are in the order of the request. Limits beyond the broker's are lowered.

        Args:
            space: memory for the batches in Kafka's form; None: there is enough. The answer may be larger: by its first
                batch, or because the deadline of a waiting fetch has passed.

        Raises:
            InvalidRequestError: too many partitions.
            OverloadedError: too many fetches wait.
        """
        if len(positions) > MAX_REQUEST_PARTITIONS:
            raise InvalidRequestError(
                f"a fetch has at most {MAX_REQUEST_PARTITIONS:,} partitions, received {len(positions):,}"
            )
        config = self._context.config.broker
        asked = sum(max(_BATCH_BYTES, one.max_bytes) for one in positions)
        most = max(1, min(max_bytes, config.fetch_max_bytes, MOST_BYTES, asked))
        wanted = [self._wanted(one, rack) async for one in in_slices(positions, _SLICE)]
        request = FetchRequest(
            partitions=tuple(wanted),
            max_wait_ms=max(0, min(max_wait_ms, config.fetch_max_wait_ms)),
            min_bytes=max(0, min(min_bytes, most)),
            max_bytes=most,
            isolation=isolation,
        )
        epochs = {(one.topic, one.partition): one.current_leader_epoch for one in positions}
        find = partial(self._find, TopicReads(self._context.access, sender), epochs)
        with self._parked.waiting(request.max_wait_ms, len(positions)):
            served = await serve_fetch(find, request, prefer=self._context.replicas.preferred, space=space)
        self._context.metrics.served(served)
        with suppress(CorruptBatchError):
            return await self._converted(positions, served, most, space)
        if space is not None:
            space.keep(0)
        checked = [replace(one, check_crcs=True) async for one in in_slices(wanted, _SLICE)]
        again = replace(request, partitions=tuple(checked), max_wait_ms=0)  # The replica notes the damage.
        served = await serve_fetch(find, again, prefer=self._context.replicas.preferred, space=space)
        return await self._converted(positions, served, most, space, were_checked=True)

    async def _converted(
        self,
        positions: Sequence[KafkaPosition],
        served: list[Served],
        most: int,
        space: ReadSpace | None,
        *,
        were_checked: bool = False,
    ) -> list[KafkaRead]:
        """Convert what was found, in a worker thread unless it is little.

        Args:
            were_checked: whether payloads were verified when they were read; then errors are in the results.

        Raises:
            CorruptBatchError: a batch is damaged, and `were_checked` is False.
        """
        if space is not None:
            most = space.taken or most
        if _is_quick(served):
            return self._read_all(positions, served, most, were_checked=were_checked)
        if space is not None:
            served, unpacked = await in_worker(_loaded, served, most)
            space.keep(unpacked)  # Others may read while a worker converts these.
        return await in_worker(self._read_all, positions, served, most, were_checked=were_checked)

    def _wanted(self, position: KafkaPosition, rack: str) -> FetchPartition:
        follows = bool(rack) and not self._leads(position)
        return FetchPartition(
            topic=position.topic,
            partition=position.partition,
            offset=position.offset,
            max_bytes=max(1, position.max_bytes),
            topic_id=position.topic_id,
            rack="" if follows else rack,
            any_replica=follows,
            last_fetched_epoch=position.last_fetched_epoch,
            check_crcs=False,  # The conversion does it, in a worker thread if it is much.
        )

    def _leads(self, position: KafkaPosition) -> bool:
        try:
            return self._context.leads(position.topic, position.partition)
        except RaftlogError:
            return False  # The read returns the error.

    def _find(
        self,
        reads: TopicReads,
        epochs: Mapping[tuple[str, int], LeaderEpoch],
        topic: str,
        partition: int,
        topic_id: str,
    ) -> Replica:
        """Return this broker's replica if the sender may read it and knows its leader, at each read of a long poll."""
        reads.require(topic)
        replica = self._context.replica(topic, partition, topic_id)
        if (epoch := epochs[topic, partition]) >= 0:
            require_same_epoch(replica.state.leader_epoch, epoch, replica.assignment.topic_partition)
        return replica

    def _read_all(
        self, positions: Sequence[KafkaPosition], served: Sequence[Served], most: int, *, were_checked: bool
    ) -> list[KafkaRead]:
        reads, left = list[KafkaRead](), most
        for position, one in zip(positions, served, strict=True):
            try:
                read = self._read(position, one, left, is_first=left == most)
            except RaftlogError as error:
                if isinstance(error, CorruptBatchError) and not were_checked:
                    raise
                result = FetchResult(topic=position.topic, partition=position.partition, error=WireError.of(error))
                read = KafkaRead(result=result)
            left -= read.size
            reads.append(read)
        return reads

    def _read(self, position: KafkaPosition, served: Served, left: int, *, is_first: bool) -> KafkaRead:
        """Return the batches of one partition. Only the answer's first batch may be larger than what is left."""
        result = served.result
        if not served.data or (left <= 0 and not is_first):
            return KafkaRead(result=result)
        data = first_that_unpack_to(max(1, min(position.max_bytes, left)), in_memory(served.data))
        if not is_first and sum(unpacked_bytes(header, batch) for header, batch in iter_batches(data)) > left:
            return KafkaRead(result=result)
        chosen = for_reader(data, position.offset, result.aborted)
        topic_id = position.topic_id or self._context.topic(position.topic).topic_id
        batches = [self.converted.get(topic_id, position.partition, *one) for one in chosen.batches]
        return KafkaRead(result=result, batches=tuple(batches), aborted=chosen.aborted)


def _loaded(served: list[Served], most: int) -> tuple[list[Served], int]:
    """Return what was found, in memory, and the bytes to which it unpacks: `most` if some of it cannot be read."""
    try:
        loaded = [one._replace(data=in_memory(one.data)) for one in served]
        return loaded, sum(unpacked_bytes(*found) for one in loaded for found in iter_batches(in_memory(one.data)))
    except RaftlogError:
        return served, most  # The conversion returns the error.


def _is_quick(served: Sequence[Served]) -> bool:
    """Return whether the batches are converted in less time than a worker thread takes to start."""
    if len(served) > _SLICE or sum(len(one.data) for one in served) > INLINE_BYTES:
        return False
    total = 0
    try:
        for one in served:
            for header, batch in iter_batches(in_memory(one.data)):
                total += unpacked_bytes(header, batch)
                if total > INLINE_BYTES or (header.record_count >= FEW_RECORDS and not is_loaded()):
                    return False
    except RaftlogError:
        return False  # The conversion returns the error.
    return True
