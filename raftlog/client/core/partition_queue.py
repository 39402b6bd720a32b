"""One partition's batches: which may be sent now, and how responses change them. No IO, no clock.

Several batches are in flight at once, and still each record is stored once and in order: the leader accepts only a
producer's next sequence, and recognises its last five batches. The producer keeps these rules:

- A batch is sent only if it is among the first `max_in_flight` batches without an outcome. So every retried batch is
  one that the leader still recognises, however many responses were lost.
- A leader without state of the producer accepts any sequence. So the first batch is sent alone until it is
  acknowledged: at the start of an epoch, after a pause, and after any failure. Later batches follow in order.
- Only the first batch can fail. A later batch that is refused waits until it is the first: the leader may have refused
  it because an earlier one was missing.
- A failed batch leaves a gap in the sequence. Once no response is outstanding, later batches continue in a new producer
  epoch (KIP-360), which also fences late copies of the old one. Only batches whose every attempt was refused are sent
  again; the outcome of the others is unknown.
- If another process wrote in a later epoch, later batches continue under a new producer id: that epoch fences late
  copies. If another process's batch has a batch's sequence, that batch is certainly not in the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Generic, TypeAlias, TypeVar, cast

from raftlog.client.core import delivery_errors
from raftlog.client.core.backoff import backoff_ms
from raftlog.client.core.pending_batch import (
    NO_SEQUENCE,
    Divisible,
    PendingBatch,
    ProducerIdentity,
    columns_bytes,
    divide,
)
from raftlog.errors import RaftlogError, RetriableError, TransactionAbortedError
from raftlog.model import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, TopicId
from raftlog.record.model import Headers, NewRecord

MAX_IN_FLIGHT = 5
"""The number of batches that a leader remembers of a producer."""
QUIET_MS = 1_000
"""After this long without an acknowledgement, the leader may have changed or dropped the producer's state."""
BUSY_LINGER_MS = 5
"""How long at most a batch waits for more records while an earlier one is in flight, if `linger_ms` is shorter.

What a request costs hardly depends on its records. Records that are sent faster than they are acknowledged would keep
the brokers busy with requests, and would wait longer. After J. Nagle, RFC 896.
"""
H = TypeVar("H")
D = TypeVar("D", bound=Divisible)
Failed: TypeAlias = tuple[PendingBatch[H], RaftlogError]


class PartitionQueue(Generic[H]):
    """The batches of one partition, oldest first, and its next sequence.

    Args:
        transactional: the coordinator assigns epochs: after a gap in the sequence every batch fails.
    """

    def __init__(
        self, *, batch_bytes: int, linger_ms: int, max_in_flight: int, delivery_timeout_ms: int, transactional: bool
    ) -> None:
        self._batch_bytes = batch_bytes
        self._linger_ms = linger_ms
        self._max_in_flight = max_in_flight
        self._delivery_timeout_ms = delivery_timeout_ms
        self._transactional = transactional
        self.identity: ProducerIdentity | None = None
        self.batches: deque[PendingBatch[H]] = deque()
        self.epoch_bumps = 0
        """How often the partition continued in a new producer epoch."""
        self._next_sequence = 0
        self._topic_id: TopicId = ""
        self._one_at_a_time = True
        """Whether only the first batch may be sent."""
        self._draining = False
        """Whether the sequence has a gap: no batch is sent until every response has arrived."""
        self._needs_new_id = False
        """Whether the next epoch would be refused, too: later batches need another producer id."""
        self._not_before_ms = 0
        self._acknowledged_ms = 0

    def begin(self, identity: ProducerIdentity) -> None:
        """Use an identity from now on, from sequence 0."""
        self.identity, self._next_sequence, self._one_at_a_time, self._draining = identity, 0, True, False

    def add(self, record: NewRecord, size: int, handle: H, sent_ms: int) -> None:
        """Queue a record of `size` bytes that the application sent at `sent_ms`."""
        batch = self._open_batch(size, sent_ms)
        batch.records.append(record)
        batch.handles.append(handle)

    def join(self, record: NewRecord, size: int, sent_ms: int, new_handle: Callable[[], D]) -> D:
        """Queue a record under its batch's shared handle; return the handle, which counts the record."""
        batch = self._open_batch(size, sent_ms)
        batch.records.append(record)
        handle: D = batch.shared
        if handle is None or batch.handles[-1] is not handle:
            handle = batch.shared = new_handle()
            batch.handles.append(cast("H", handle))
        handle.count += 1
        return handle

    def open_batch(self, size: int) -> PendingBatch[H] | None:
        """Return the newest batch if a record of `size` bytes can join its shared handle without filling it.

        The caller has ended its lease.
        """
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.closed or batch.shared is None or batch.size + size >= self._batch_bytes:
            return None
        return batch if batch.handles[-1] is batch.shared else None

    def end_lease(self) -> int:
        """Take back what is reserved in the newest batch, since another record comes; return its bytes."""
        return self.batches[-1].end_lease() if self.batches else 0

    def add_run(
        self,
        values: Sequence[bytes | None],
        key: bytes | None,
        timestamp: int,
        size: int,
        handle: H,
        sent_ms: int,
        headers: Headers = (),
    ) -> None:
        """Queue records that share a handle and take `size` bytes in all, in one batch."""
        batch = self._open_batch(size, sent_ms)
        batch.records.extend(values, key, timestamp, headers)
        batch.handles.append(handle)

    def _open_batch(self, size: int, sent_ms: int) -> PendingBatch[H]:
        """Return a batch with space for `size` more bytes, and add them to its size."""
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.closed or batch.size + size > self._batch_bytes:
            if batch is not None:
                batch.closed = True
            batch = PendingBatch(created_ms=sent_ms)
            self.batches.append(batch)
        elif sent_ms < batch.created_ms:
            batch.created_ms = sent_ms  # The record waited for buffer space or metadata.
        batch.size += size
        batch.closed = batch.size >= self._batch_bytes
        return batch

    def due_ms(self, now_ms: int, *, flushing: bool) -> int | None:
        """Return when the next batch is due; None: only an event makes one due."""
        for batch in self._window(now_ms):
            if not batch.in_flight and not batch.acknowledged:
                return max(self._not_before_ms, batch.created_ms if flushing else self._ready_ms(batch))
        return None

    def take(self, topic_id: TopicId, now_ms: int, *, flushing: bool) -> tuple[list[PendingBatch[H]], list[Failed[H]]]:
        """Return the batches to send to the leader now, in this order, and those that fail.

        Args:
            topic_id: the topic's current id. A batch that was sent to another id fails.
        """
        if not self.batches or self._draining:
            return [], []
        first = self.batches[0]
        if not first.in_flight and first.topic_id not in ("", topic_id):
            return [], self._give_up(first, delivery_errors.recreated(first, topic_id))
        taken = []
        quiet = self._is_quiet(now_ms)
        for batch in list(self._window(now_ms)):
            if batch.in_flight or batch.acknowledged:
                continue
            if not (flushing or now_ms >= self._ready_ms(batch)):
                break
            if not self._assign(batch, topic_id):
                break
            taken.append(batch)
        self._one_at_a_time = self._one_at_a_time or (quiet and bool(taken))
        return taken, []

    def on_acknowledged(self, batch: PendingBatch[H], now_ms: int) -> list[Failed[H]]:
        """Note that a batch was acknowledged; return the batches that fail now."""
        batch.in_flight, batch.acknowledged, batch.encoded = False, True, b""
        self._acknowledged_ms = now_ms
        while self.batches and self.batches[0].acknowledged:
            if not self._is_outlived(self.batches.popleft()):
                self._one_at_a_time = False
        return self._after_draining()

    def on_refused(self, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float) -> list[Failed[H]]:
        """Note that an attempt failed; return the batches that fail finally."""
        if self._is_outlived(batch):
            self.batches = deque(other for other in self.batches if other is not batch and not other.acknowledged)
            return [(batch, TransactionAbortedError("the transaction was aborted"))]
        batch.in_flight, self._one_at_a_time = False, True
        batch.may_be_appended = not delivery_errors.is_certainly_not_appended(error) and (
            batch.may_be_appended or delivery_errors.is_ambiguous(error)
        )
        lost = delivery_errors.is_lost_sequence(error)
        if not lost or batch.sent_as_first:
            batch.cause = delivery_errors.cause(batch.cause, error)
        elif (earlier := self.batches[0].cause) is not None:
            # An earlier batch was missing: its cause delays this one, too.
            batch.cause = delivery_errors.cause(batch.cause, earlier)
        if self._draining:
            return self._after_draining()
        return self._decide_retry(batch, error, now_ms, jitter=jitter, lost=lost)

    def on_unroutable(self, error: RaftlogError, now_ms: int, *, jitter: float) -> list[Failed[H]]:
        """Note that no leader or no producer id is available for due batches; return the batches that fail finally."""
        if self.batches and self.batches[0].in_flight:
            self._not_before_ms = now_ms + backoff_ms(1, jitter=jitter)
        failed: list[Failed[H]] = []
        while self.batches and not self._draining and not self.batches[0].in_flight:
            first = self.batches[0]
            first.attempts += 1
            first.cause = delivery_errors.cause(first.cause, error)
            failed += self._decide_retry(first, error, now_ms, jitter=jitter, lost=False)
            if self.batches and self.batches[0] is first:
                break  # It waits, and so do the later ones.
        return failed

    def expire(self, now_ms: int) -> list[Failed[H]]:
        """Return the batches whose delivery timeout passed; batches in flight stay."""
        failed: list[Failed[H]] = []
        while self.batches and not self._draining and not self.batches[0].in_flight:
            first = self.batches[0]
            if now_ms - first.created_ms < self._delivery_timeout_ms:
                break
            failed += self._give_up(first, delivery_errors.timed_out(first, self._delivery_timeout_ms))
        return failed

    def take_waiting(self) -> list[PendingBatch[H]]:
        """Remove and return every batch that is not in flight."""
        waiting = [batch for batch in self.batches if not batch.in_flight and not batch.acknowledged]
        self.batches = deque(batch for batch in self.batches if batch.in_flight)
        return waiting

    def _decide_retry(
        self, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float, lost: bool
    ) -> list[Failed[H]]:
        """Decide whether a batch whose attempt failed is sent again, split, sent in a new epoch, or fails.

        Args:
            lost: the leader expects another sequence or epoch.
        """
        if batch is not self.batches[0] or (lost and not batch.sent_as_first):
            return []  # Decided when it is the first.
        if delivery_errors.is_too_large(error) and len(batch.records) > 1 and not batch.may_be_appended:
            self._split(batch)
            return []
        in_time = now_ms - batch.created_ms < self._delivery_timeout_ms
        if lost and in_time and self._may_bump_epoch(batch):
            self._draining = True
            self._needs_new_id = self._needs_new_id or delivery_errors.is_lost_identity(error)
        elif not isinstance(error, RetriableError):
            return self._give_up(batch, delivery_errors.refused(batch, error))
        elif not in_time:
            return self._give_up(batch, delivery_errors.timed_out(batch, self._delivery_timeout_ms))
        self._not_before_ms = now_ms + backoff_ms(max(1, batch.attempts), jitter=jitter)
        return self._after_draining()

    def _ready_ms(self, batch: PendingBatch[H]) -> int:
        """Return until when a batch waits for other records."""
        if batch.closed:
            return batch.created_ms
        linger_ms = self._linger_ms
        if linger_ms < BUSY_LINGER_MS and self._is_busy():
            linger_ms = BUSY_LINGER_MS
        return batch.created_ms + linger_ms

    def _window(self, now_ms: int) -> Iterator[PendingBatch[H]]:
        reach = 1 if self._one_at_a_time or self._is_quiet(now_ms) else self._max_in_flight
        return islice(self.batches, 0 if self._draining else reach)

    def _is_quiet(self, now_ms: int) -> bool:
        return now_ms - self._acknowledged_ms >= QUIET_MS and not self._is_busy()

    def _is_busy(self) -> bool:
        return any(batch.in_flight for batch in islice(self.batches, self._max_in_flight))

    def _assign(self, batch: PendingBatch[H], topic_id: TopicId) -> bool:
        """Assign identity and sequence to a batch that is sent now; False: it must wait."""
        is_first = batch is self.batches[0]
        if batch.topic_id not in ("", topic_id):
            return False
        if self._topic_id not in ("", topic_id) and batch.sequence == NO_SEQUENCE:
            if not is_first:
                return False
            self._new_epoch()
        if batch.sequence == NO_SEQUENCE:
            if self.identity is None:
                return False
            batch.identity, batch.sequence, self._topic_id = self.identity, self._next_sequence, topic_id
            self._next_sequence = _after(batch.sequence, len(batch.records))
        batch.topic_id, batch.closed, batch.in_flight, batch.sent_as_first = topic_id, True, True, is_first
        batch.attempts += 1
        return True

    def _may_bump_epoch(self, first: PendingBatch[H]) -> bool:
        """Return whether the first batch may be sent again in a new epoch: no duplicates, and order is kept."""
        later = any(batch.acknowledged for batch in self.batches)
        return not (self._transactional or first.may_be_appended or later)

    def _is_outlived(self, batch: PendingBatch[H]) -> bool:
        """Return whether a batch is of an aborted transaction; another one has begun. It has no later batches."""
        return self._transactional and batch.identity not in (None, self.identity)

    def _give_up(self, first: PendingBatch[H], error: RaftlogError) -> list[Failed[H]]:
        self.batches.popleft()
        self._draining = first.sequence != NO_SEQUENCE and not self._is_outlived(first)
        while self.batches and self.batches[0].acknowledged:
            self.batches.popleft()
        return [(first, error), *self._after_draining()]

    def _after_draining(self) -> list[Failed[H]]:
        """Start a new epoch once no response is outstanding; batches that must not be sent in it fail."""
        if not self._draining or any(batch.in_flight for batch in self.batches):
            return []
        self._draining = False
        kept: deque[PendingBatch[H]] = deque()
        failed: list[Failed[H]] = []
        last = max((place for place, batch in enumerate(self.batches) if batch.acknowledged), default=-1)
        for place, batch in enumerate(self.batches):
            if batch.acknowledged:
                continue
            if batch.may_be_appended or place < last or self._transactional:
                failed.append((batch, delivery_errors.follows_a_hole(batch, transactional=self._transactional)))
                continue
            batch.identity, batch.sequence, batch.encoded = None, NO_SEQUENCE, b""
            kept.append(batch)
        self.batches = kept
        self._new_epoch()
        return failed

    def _new_epoch(self) -> None:
        self._one_at_a_time = True
        if self._transactional or self.identity is None:
            return
        self.epoch_bumps += 1
        producer_id, epoch = self.identity.producer_id, self.identity.producer_epoch
        another = self._needs_new_id or epoch == MAX_PRODUCER_EPOCH
        self.identity, self._needs_new_id = None if another else ProducerIdentity(producer_id, epoch + 1), False
        self._next_sequence = 0

    def _split(self, batch: PendingBatch[H]) -> None:
        """Replace the first batch by its halves, which keep its sequence range (KIP-126)."""
        half, count = len(batch.records) // 2, len(batch.records)
        head, tail = divide(batch.handles, half)
        self.batches.popleft()
        for start, stop, handles in ((half, count, tail), (0, half, head)):
            records = batch.records.part(start, stop)
            self.batches.appendleft(
                PendingBatch(
                    created_ms=batch.created_ms,
                    records=records,
                    handles=handles,
                    size=columns_bytes(records),
                    closed=True,
                    identity=batch.identity,
                    sequence=_after(batch.sequence, start),
                    topic_id=batch.topic_id,
                    attempts=batch.attempts,
                    cause=batch.cause,
                )
            )
        self._batch_bytes = min(self._batch_bytes, max(self.batches[0].size, self.batches[1].size))


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % (MAX_SEQUENCE + 1)
