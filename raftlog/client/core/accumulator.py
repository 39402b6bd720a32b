"""Collects records into batches, in one queue for each partition. No IO, no clock. `partition_queue` has the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from raftlog.client.core.partition_queue import MAX_IN_FLIGHT, D, Failed, H, PartitionQueue
from raftlog.client.core.pending_batch import PendingBatch, ProducerIdentity, record_bytes
from raftlog.errors import RaftlogError
from raftlog.model import TopicId, TopicPartition
from raftlog.record.model import Headers, NewRecord


class Accumulator(Generic[H]):
    """All batches of one producer.

    Args:
        max_in_flight: how many batches of one partition may be in flight at once, 1 to 5.
        transactional: the transaction coordinator assigns producer ids and epochs.
    """

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        max_in_flight: int = MAX_IN_FLIGHT,
        delivery_timeout_ms: int = 120_000,
        transactional: bool = False,
    ) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._max_in_flight = max_in_flight
        self._delivery_timeout_ms = delivery_timeout_ms
        self._transactional = transactional
        self._queues: dict[TopicPartition, PartitionQueue[H]] = {}
        self._open: dict[TopicPartition, PartitionQueue[H]] = {}
        self._identity: ProducerIdentity | None = None
        self.flushing = False
        """Whether batches are sent without lingering."""
        self.size = 0
        """Bytes of all records that have no outcome yet, and bytes that are reserved for further ones."""
        self.used = False
        """Whether a batch was sent under the current identity."""

    def add(self, partition: TopicPartition, record: NewRecord, handle: H, sent_ms: int, size: int = 0) -> None:
        """Queue a record. Its delivery timeout runs from `sent_ms`.

        Args:
            size: the record's `record_bytes`; 0: computed here.
        """
        if not size:
            size = record_bytes(record)
        self._queue_for(partition, size).add(record, size, handle, sent_ms)

    def join(self, partition: TopicPartition, record: NewRecord, sent_ms: int, size: int, new: Callable[[], D]) -> D:
        """Queue a record of `size` bytes as `add` does, under the handle that its batch's records share."""
        return self._queue_for(partition, size).join(record, size, sent_ms, new)

    def lease(self, queue: PartitionQueue[H], size: int, most: int) -> PendingBatch[H] | None:
        """Reserve bytes of a queue's newest batch for records that join its shared handle without another call.

        The lease ends when another record comes, when the batch is sent, or when it leaves the queue.

        Args:
            size: the first record's bytes.
            most: the bytes that may be reserved, at least `size`.

        Returns:
            The batch, which has grown by the reserved bytes; None: a record of `size` bytes cannot join it.
        """
        self.size -= queue.end_lease()
        if (batch := queue.open_batch(size)) is None:
            return None
        reserved = min(most, max(size, batch.size), self._batch_bytes - batch.size - 1)
        self.size += reserved
        batch.size += reserved
        batch.shared.room = reserved
        return batch

    def queue(self, partition: TopicPartition) -> PartitionQueue[H]:
        """Return the queue of a partition that had a record before."""
        return self._queues[partition]

    def add_run(
        self,
        partition: TopicPartition,
        values: Sequence[bytes | None],
        *,
        key: bytes | None,
        timestamp: int,
        size: int,
        handle: H,
        sent_ms: int,
        headers: Headers = (),
    ) -> None:
        """Queue records that share a handle and take `size` bytes in all, in one batch."""
        self._queue_for(partition, size).add_run(values, key, timestamp, size, handle, sent_ms, headers)

    def begin(self, identity: ProducerIdentity) -> None:
        """Use an identity from now on. Without transactions, partitions that have one keep it."""
        self._identity, self.used = identity, False
        for queue in self._queues.values():
            if self._transactional or queue.identity is None:
                queue.begin(identity)

    def is_outlived(self, batch: PendingBatch[H]) -> bool:
        """Return whether a batch is of an earlier transaction than the current one."""
        return self._transactional and batch.identity not in (None, self._identity)

    @property
    def wants_identity(self) -> bool:
        """Whether a partition with queued batches has no producer id."""
        return any(queue.identity is None for queue in self._open.values())

    def due(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that have a batch to send now."""
        times = ((partition, queue.due_ms(now_ms, flushing=self.flushing)) for partition, queue in self._open.items())
        return [partition for partition, due in times if due is not None and due <= now_ms]

    def put_last(self, partitions: Iterable[TopicPartition]) -> None:
        """Have `due` return some partitions after the others."""
        for partition in partitions:
            if partition in self._open:
                self._open[partition] = self._open.pop(partition)

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return the next time after `now_ms` at which a batch becomes due; None: only an event makes one due."""
        times = (queue.due_ms(now_ms, flushing=self.flushing) for queue in self._open.values())
        return min((due for due in times if due is not None and due > now_ms), default=None)

    def take(
        self, partition: TopicPartition, topic_id: TopicId, now_ms: int
    ) -> tuple[list[PendingBatch[H]], list[Failed[H]]]:
        """Return the batches to send to the partition's leader now, in order, and those that fail instead."""
        taken, failed = self._queues[partition].take(topic_id, now_ms, flushing=self.flushing)
        self.used = self.used or bool(taken)
        for batch in taken:
            self.size -= batch.end_lease()
        return taken, self._settle(partition, failed)

    def on_acknowledged(self, partition: TopicPartition, batch: PendingBatch[H], now_ms: int) -> list[Failed[H]]:
        """Note that a batch was acknowledged; return the batches that fail now."""
        self.size -= batch.size
        return self._settle(partition, self._queues[partition].on_acknowledged(batch, now_ms))

    def on_refused(
        self, partition: TopicPartition, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float
    ) -> list[Failed[H]]:
        """Note that an attempt failed; return the batches that fail finally."""
        return self._settle(partition, self._queues[partition].on_refused(batch, error, now_ms, jitter=jitter))

    def on_unroutable(
        self, partition: TopicPartition, error: RaftlogError, now_ms: int, *, jitter: float
    ) -> list[Failed[H]]:
        """Note that no leader or no producer id is available for due batches; return the batches that fail finally."""
        return self._settle(partition, self._queues[partition].on_unroutable(error, now_ms, jitter=jitter))

    def expire(self, now_ms: int) -> list[Failed[H]]:
        """Return the batches whose delivery timeout passed; batches in flight stay."""
        return [
            item
            for partition, queue in list(self._open.items())
            for item in self._settle(partition, queue.expire(now_ms))
        ]

    def take_waiting(self) -> list[PendingBatch[H]]:
        """Remove and return every batch that is not in flight."""
        taken = []
        for partition, queue in list(self._open.items()):
            waiting = queue.take_waiting()
            taken += waiting
            self._remove(waiting)
            self._settle(partition, [])
        return taken

    def take_all(self) -> list[PendingBatch[H]]:
        """Remove and return every batch; the outcome of those in flight is unknown."""
        for queue in self._open.values():
            for batch in queue.batches:
                batch.may_be_appended = batch.may_be_appended or batch.in_flight
                batch.in_flight = False
        return self.take_waiting()

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition with queued batches."""
        return list(self._open)

    def has_from_before(self, time_ms: int) -> bool:
        """Return whether a record without an outcome was sent up to this time."""
        if any(queue.batches[0].created_ms <= time_ms for queue in self._open.values()):
            return True
        # A later batch may have a record that waited for space or metadata.
        return any(
            batch.created_ms <= time_ms and not batch.acknowledged
            for queue in self._open.values()
            for batch in queue.batches
        )

    @property
    def empty(self) -> bool:
        return not self._open

    @property
    def epoch_bumps(self) -> int:
        """How often partitions continued in a new producer epoch."""
        return sum(queue.epoch_bumps for queue in self._queues.values())

    def _queue_for(self, partition: TopicPartition, size: int) -> PartitionQueue[H]:
        """Return the queue of a partition that gets `size` bytes of records now."""
        queue = self._queue(partition)
        self.size += size - queue.end_lease()
        return queue

    def _remove(self, batches: Iterable[PendingBatch[H]]) -> None:
        """Note that batches have left their queues."""
        for batch in batches:
            self.size -= batch.end_lease() + batch.size

    def _queue(self, partition: TopicPartition) -> PartitionQueue[H]:
        """Return the queue of a partition that gets a record; create it if needed."""
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = self._new_queue()
        self._open[partition] = queue
        return queue

    def _new_queue(self) -> PartitionQueue[H]:
        queue: PartitionQueue[H] = PartitionQueue(
            batch_bytes=self._batch_bytes,
            linger_ms=self._linger_ms,
            max_in_flight=self._max_in_flight,
            delivery_timeout_ms=self._delivery_timeout_ms,
            transactional=self._transactional,
        )
        if self._identity is not None:
            queue.begin(self._identity)
        return queue

    def _settle(self, partition: TopicPartition, failed: list[Failed[H]]) -> list[Failed[H]]:
        self._remove(batch for batch, _ in failed)
        if not self._queues[partition].batches:
            self._open.pop(partition, None)
        return failed
