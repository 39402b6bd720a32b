"""Gathers records into batches, one queue for each partition, and decides what may be sent. No IO, no clock.

At most one batch of a partition is in flight, and a batch that failed retriably keeps its bytes: its producer id and
sequence too. So the broker recognises a repeat, and order holds whatever fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from raftlog.model import TopicPartition
from raftlog.record import NewRecord

RECORD_OVERHEAD_BYTES = 32
"""What a record adds to a batch beside its key, value and headers; an estimate."""
H = TypeVar("H")
"""The handle by which the caller is told the outcome of a record."""


def record_bytes(record: NewRecord) -> int:
    """Return about how many bytes a record takes in a batch."""
    headers = sum(len(key) + len(value or b"") + 16 for key, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD_BYTES


@dataclass(slots=True)
class PendingBatch(Generic[H]):
    """Records that go out together."""

    created_ms: int
    records: list[NewRecord] = field(default_factory=list)
    handles: list[H] = field(default_factory=list)
    size: int = 0
    closed: bool = False
    """Takes no more records: full, or sent once."""
    encoded: bytes = b""
    """Empty until it is sent for the first time."""
    attempts: int = 0
    not_before_ms: int = 0
    may_be_appended: bool = False
    """Some attempt ended without a known outcome."""


class Accumulator(Generic[H]):
    """All batches of one producer."""

    def __init__(self, *, batch_bytes: int, linger_ms: int) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._queues: dict[TopicPartition, deque[PendingBatch[H]]] = {}
        self._in_flight: set[TopicPartition] = set()
        self.flushing = False
        """Send without lingering."""
        self.size = 0
        """Bytes of all records that have no outcome yet."""

    def add(self, partition: TopicPartition, record: NewRecord, handle: H, now_ms: int) -> None:
        """Queue a record."""
        queue = self._queues.setdefault(partition, deque())
        size = record_bytes(record)
        if not queue or queue[-1].closed or queue[-1].size + size > self._batch_bytes:
            if queue:
                queue[-1].closed = True
            queue.append(PendingBatch(created_ms=now_ms))
        batch = queue[-1]
        batch.records.append(record)
        batch.handles.append(handle)
        batch.size += size
        batch.closed = batch.size >= self._batch_bytes
        self.size += size

    def ready(self, now_ms: int) -> list[tuple[TopicPartition, PendingBatch[H]]]:
        """Return the batches that may be sent now: at most one for each partition."""
        return [
            (partition, queue[0])
            for partition, queue in self._queues.items()
            if queue and partition not in self._in_flight and self._due_ms(queue) <= now_ms
        ]

    def next_due_ms(self) -> int | None:
        """Return when the next batch becomes ready; None if no batch will by itself."""
        due = [
            self._due_ms(queue)
            for partition, queue in self._queues.items()
            if queue and partition not in self._in_flight
        ]
        return min(due, default=None)

    def sending(self, partition: TopicPartition) -> None:
        """Note that the partition's first batch is in flight."""
        self._queues[partition][0].closed = True
        self._in_flight.add(partition)

    def retry(self, partition: TopicPartition, *, not_before_ms: int) -> None:
        """Note that the batch in flight has failed, and goes again later."""
        self._in_flight.discard(partition)
        self._queues[partition][0].not_before_ms = not_before_ms

    def first(self, partition: TopicPartition) -> PendingBatch[H]:
        """Return the partition's first batch."""
        return self._queues[partition][0]

    def done(self, partition: TopicPartition) -> PendingBatch[H]:
        """Take the partition's first batch out: it has its outcome."""
        self._in_flight.discard(partition)
        batch = self._queues[partition].popleft()
        if not self._queues[partition]:
            del self._queues[partition]
        self.size -= batch.size
        return batch

    def take_waiting(self) -> list[PendingBatch[H]]:
        """Take out every batch that is not in flight."""
        taken = list[PendingBatch[H]]()
        for partition in list(self._queues):
            queue, first = self._queues[partition], 1 if partition in self._in_flight else 0
            taken += list(queue)[first:]
            self._queues[partition] = deque(list(queue)[:first])
            if not first:
                del self._queues[partition]
        self.size -= sum(batch.size for batch in taken)
        return taken

    def expired(self, now_ms: int, delivery_timeout_ms: int) -> list[TopicPartition]:
        """Return partitions whose first batch is too old and not in flight."""
        return [
            partition
            for partition, queue in self._queues.items()
            if partition not in self._in_flight and now_ms - queue[0].created_ms >= delivery_timeout_ms
        ]

    def partitions(self) -> Iterable[TopicPartition]:
        """Return every partition that has something to send."""
        return list(self._queues)

    @property
    def empty(self) -> bool:
        return not self._queues

    def _due_ms(self, queue: deque[PendingBatch[H]]) -> int:
        batch = queue[0]
        lingers = not (batch.closed or self.flushing or len(queue) > 1)
        return max(batch.not_before_ms, batch.created_ms + (self._linger_ms if lingers else 0))
