"""Gathers records into batches, one queue for each partition. No IO, no clock; see `partition_queue` for the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from raftlog.client.core.partition_queue import (
    MAX_IN_FLIGHT,
    D,
    Failed,
    H,
    PartitionQueue,
    PendingBatch,
    ProducerIdentity,
    record_bytes,
)
from raftlog.errors import RaftlogError
from raftlog.model import TopicId, TopicPartition
from raftlog.record.model import NewRecord


class Accumulator(Generic[H]):
    """All batches of one producer.

    Args:
        max_in_flight: how many batches of one partition may be on their way at once, 1 to 5.
        transactional: a coordinator decides on identities.
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
        """Send without lingering."""
        self.size = 0
        """Bytes of all records that have no outcome yet."""
        self.used = False
        """Whether anything was sent under the present identity."""

    def add(self, partition: TopicPartition, record: NewRecord, handle: H, sent_ms: int, size: int = 0) -> None:
        """Queue a record that was given to the producer at `sent_ms`: from then on its time runs.

        Args:
            size: its `record_bytes`, where they are known.
        """
        if not size:
            size = record_bytes(record)
        self._queue(partition).add(record, size, handle, sent_ms)
        self.size += size

    def join(self, partition: TopicPartition, record: NewRecord, sent_ms: int, size: int, new: Callable[[], D]) -> D:
        """Queue a record of `size` bytes as `add` does; it shares a handle with those before it in its batch."""
        self.size += size
        return self._queue(partition).join(record, size, sent_ms, new)

    def queue(self, partition: TopicPartition) -> PartitionQueue[H]:
        """Return the queue of a partition that something was queued for."""
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
    ) -> None:
        """Queue records that go together and have one handle, of `size` bytes in all."""
        self._queue(partition).add_run(values, key, timestamp, size, handle, sent_ms)
        self.size += size

    def begin(self, identity: ProducerIdentity) -> None:
        """Send under an identity from now on; partitions that have one keep it, unless it is a transaction's."""
        self._identity, self.used = identity, False
        for queue in self._queues.values():
            if self._transactional or queue.identity is None:
                queue.begin(identity)

    @property
    def wants_identity(self) -> bool:
        """Whether something to send has no producer id yet, or none any more."""
        return any(queue.identity is None for queue in self._open.values())

    def due(self, now_ms: int) -> list[TopicPartition]:
        """Return the partitions that have a batch to send now."""
        times = ((partition, queue.due_ms(now_ms, flushing=self.flushing)) for partition, queue in self._open.items())
        return [partition for partition, due in times if due is not None and due <= now_ms]

    def next_due_ms(self, now_ms: int) -> int | None:
        """Return when another batch than those of now may be sent; None if none will by itself."""
        times = (queue.due_ms(now_ms, flushing=self.flushing) for queue in self._open.values())
        return min((due for due in times if due is not None and due > now_ms), default=None)

    def take(
        self, partition: TopicPartition, topic_id: TopicId, now_ms: int
    ) -> tuple[list[PendingBatch[H]], list[Failed[H]]]:
        """Return what goes to the partition's leader now, in order, and what fails instead; see `PartitionQueue`."""
        taken, failed = self._queues[partition].take(topic_id, now_ms, flushing=self.flushing)
        self.used = self.used or bool(taken)
        return taken, self._settle(partition, failed)

    def on_acknowledged(self, partition: TopicPartition, batch: PendingBatch[H], now_ms: int) -> list[Failed[H]]:
        """Learn that a batch is in the log; return those that fail now."""
        self.size -= batch.size
        return self._settle(partition, self._queues[partition].on_acknowledged(batch, now_ms))

    def on_refused(
        self, partition: TopicPartition, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float
    ) -> list[Failed[H]]:
        """Learn that an attempt has failed; return the batches that fail for good."""
        return self._settle(partition, self._queues[partition].on_refused(batch, error, now_ms, jitter=jitter))

    def on_unroutable(
        self, partition: TopicPartition, error: RaftlogError, now_ms: int, *, jitter: float
    ) -> list[Failed[H]]:
        """Learn that what is due could not be sent, since its leader, or a producer id, cannot be had."""
        return self._settle(partition, self._queues[partition].on_unroutable(error, now_ms, jitter=jitter))

    def expire(self, now_ms: int) -> list[Failed[H]]:
        """Give up what is too old and not on its way."""
        return [
            item
            for partition, queue in list(self._open.items())
            for item in self._settle(partition, queue.expire(now_ms))
        ]

    def take_waiting(self) -> list[PendingBatch[H]]:
        """Take out every batch that is not on its way."""
        taken = []
        for partition, queue in list(self._open.items()):
            waiting = queue.take_waiting()
            taken += waiting
            self.size -= sum(batch.size for batch in waiting)
            self._settle(partition, [])
        return taken

    def take_all(self) -> list[PendingBatch[H]]:
        """Take out every batch; one that is on its way may be in the log."""
        for queue in self._open.values():
            for batch in queue.batches:
                batch.may_be_appended = batch.may_be_appended or batch.in_flight
                batch.in_flight = False
        return self.take_waiting()

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition that has something to send."""
        return list(self._open)

    @property
    def empty(self) -> bool:
        return not self._open

    @property
    def epoch_bumps(self) -> int:
        """How often partitions had to go on in a new epoch."""
        return sum(queue.epoch_bumps for queue in self._queues.values())

    def _queue(self, partition: TopicPartition) -> PartitionQueue[H]:
        """Return the queue of a partition that gets something to send."""
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
        self.size -= sum(batch.size for batch, _ in failed)
        if not self._queues[partition].batches:
            self._open.pop(partition, None)
        return failed
