"""One partition's batches: which may be sent now, and what an answer means for them. No IO, no clock.

Several batches are on their way at once, and still each record is stored once and in order, because the leader accepts
only the next sequence of a producer and knows its last five batches again. What that needs from this side:

- A batch goes only if fewer than `max_in_flight` from the first without an outcome come before it. So whatever is sent
  again is among those that the leader remembers, however many answers were lost.
- A leader that does not know the producer accepts any sequence. So the first batch goes alone until it is acknowledged:
  at the beginning of an epoch, after a pause, and after any failure. All later ones follow in their order.
- Only the first batch can fail. A later one that is refused waits until it is the first: its refusal may have been for
  want of one before it.
- A batch that is given up leaves a hole in the sequence, which is never papered over. When no answer is awaited any
  more, what follows goes on in a new epoch (KIP-360), which also shuts out late copies of the old one. Only batches of
  which every attempt was refused are sent anew; the outcome of the others is unknown.
- Where somebody else has written in a later epoch, what follows goes on under a new id, likewise: that epoch shuts out
  late copies. Where somebody else's batch has a batch's numbers, that batch is certainly not in the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar, cast

from raftlog.client.core import delivery_errors
from raftlog.client.core.backoff import backoff_ms
from raftlog.errors import RaftlogError, RetriableError
from raftlog.model import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, ProducerEpoch, ProducerId, TopicId
from raftlog.record.model import NewRecord, RecordColumns

MAX_IN_FLIGHT = 5
"""As many batches as a leader remembers of a producer."""
QUIET_MS = 1_000
"""After so long without an acknowledgement the leader may have forgotten the producer, or be another one."""
RECORD_OVERHEAD_BYTES = 32
"""What a record adds to a batch beside its key, value and headers; an estimate."""
NO_SEQUENCE = -1
H = TypeVar("H")
"""The handle by which the caller is told the outcome of a record."""


class Divisible(ABC):
    """A handle of several records in a row."""

    __slots__ = ("count",)
    count: int

    @abstractmethod
    def divided(self, at: int) -> tuple[Any, Any]:
        """Return the handles of the first `at` of them, and of the others."""


def columns_bytes(records: RecordColumns) -> int:
    """Return about how many bytes records take in a batch."""
    return sum(map(record_bytes, records.rows()))


def record_bytes(record: NewRecord) -> int:
    """Return about how many bytes a record takes in a batch."""
    value, key, _, headers = record
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += len(name) + len(content or b"") + 16
    return size


D = TypeVar("D", bound=Divisible)


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Under which a partition's batches go."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = 0


@dataclass(slots=True, eq=False)
class PendingBatch(Generic[H]):
    """Records that go out together."""

    created_ms: int
    """When the first of them was given to the producer."""
    records: RecordColumns = field(default_factory=RecordColumns)
    handles: list[H] = field(default_factory=list)
    """In the order of the records; of one or of several, see `Divisible`."""
    shared: Any = None
    """The handle that single records have in common; more join it as long as it is the last one."""
    size: int = 0
    closed: bool = False
    """Takes no more records: full, or sent once."""
    identity: ProducerIdentity | None = None
    sequence: int = NO_SEQUENCE
    topic_id: TopicId = ""
    """Of the topic that it was first sent to."""
    encoded: bytes | bytearray = b""
    """Empty until it is sent for the first time under its identity and sequence."""
    attempts: int = 0
    in_flight: bool = False
    sent_as_first: bool = False
    """The last attempt began when every batch before it had its outcome."""
    may_be_appended: bool = False
    """Some attempt ended without a known outcome."""
    cause: RaftlogError | None = None
    """Why the last attempt has failed of which a broker said so; else why the last one has."""
    acknowledged: bool = False


Failed: TypeAlias = tuple[PendingBatch[H], RaftlogError]


class PartitionQueue(Generic[H]):
    """The batches of one partition, oldest first, and its place in the producer's sequence.

    Args:
        transactional: epochs are the coordinator's: after a hole in the sequence everything fails.
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
        """How often it had to go on in a new epoch."""
        self._next_sequence = 0
        self._topic_id: TopicId = ""
        self._one_at_a_time = True
        """Only the first batch may go."""
        self._draining = False
        """There is a hole in the sequence: nothing goes until every answer has come."""
        self._needs_new_id = False
        """The producer's next epoch would be refused, too: what follows goes under another id."""
        self._not_before_ms = 0
        self._acknowledged_ms = 0

    def begin(self, identity: ProducerIdentity) -> None:
        """Send under an identity from now on, from sequence 0."""
        self.identity, self._next_sequence, self._one_at_a_time, self._draining = identity, 0, True, False

    def add(self, record: NewRecord, size: int, handle: H, sent_ms: int) -> None:
        """Queue a record of `size` bytes, given to the producer at `sent_ms`."""
        batch = self._open_batch(size, sent_ms)
        batch.records.append(record)
        batch.handles.append(handle)

    def join(self, record: NewRecord, size: int, sent_ms: int, new_handle: Callable[[], D]) -> D:
        """Queue a record that shares the handle of those before it in its batch; return it, with this one counted."""
        batch = self._open_batch(size, sent_ms)
        batch.records.append(record)
        handle: D = batch.shared
        if handle is None or batch.handles[-1] is not handle:
            handle = batch.shared = new_handle()
            batch.handles.append(cast("H", handle))
        handle.count += 1
        return handle

    def open_batch(self, size: int) -> PendingBatch[H] | None:
        """Return the newest batch, if another record of `size` bytes may share its handle and leaves it open."""
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.closed or batch.shared is None or batch.size + size >= self._batch_bytes:
            return None
        return batch if batch.handles[-1] is batch.shared else None

    def add_run(
        self, values: Sequence[bytes | None], key: bytes | None, timestamp: int, size: int, handle: H, sent_ms: int
    ) -> None:
        """Queue records that go together and have one handle, of `size` bytes in all."""
        batch = self._open_batch(size, sent_ms)
        batch.records.extend(values, key, timestamp)
        batch.handles.append(handle)

    def _open_batch(self, size: int, sent_ms: int) -> PendingBatch[H]:
        """Return the batch that takes so many bytes more, and count them."""
        batch = self.batches[-1] if self.batches else None
        if batch is None or batch.closed or batch.size + size > self._batch_bytes:
            if batch is not None:
                batch.closed = True
            batch = PendingBatch(created_ms=sent_ms)
            self.batches.append(batch)
        elif sent_ms < batch.created_ms:
            batch.created_ms = sent_ms  # Who waited for room or metadata comes late.
        batch.size += size
        batch.closed = batch.size >= self._batch_bytes
        return batch

    def due_ms(self, now_ms: int, *, flushing: bool) -> int | None:
        """Return when a batch may go; None if first something else must happen."""
        for batch in self._window(now_ms):
            if not batch.in_flight and not batch.acknowledged:
                lingers = not (batch.closed or flushing)
                return max(self._not_before_ms, batch.created_ms + (self._linger_ms if lingers else 0))
        return None

    def take(self, topic_id: TopicId, now_ms: int, *, flushing: bool) -> tuple[list[PendingBatch[H]], list[Failed[H]]]:
        """Return the batches that go to the leader now, in this order, and those that fail.

        Args:
            topic_id: of the topic as it is known now; a batch that was sent to another one before has lost it.
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
            if not (batch.closed or flushing or now_ms >= batch.created_ms + self._linger_ms):
                break
            if not self._assign(batch, topic_id):
                break
            taken.append(batch)
        self._one_at_a_time = self._one_at_a_time or (quiet and bool(taken))
        return taken, []

    def on_acknowledged(self, batch: PendingBatch[H], now_ms: int) -> list[Failed[H]]:
        """Learn that a batch is in the log; return those that fail now."""
        batch.in_flight, batch.acknowledged, batch.encoded = False, True, b""
        self._acknowledged_ms = now_ms
        while self.batches and self.batches[0].acknowledged:
            self.batches.popleft()
            self._one_at_a_time = False
        return self._after_draining()

    def on_refused(self, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float) -> list[Failed[H]]:
        """Learn that an attempt has failed; return the batches that fail for good."""
        batch.in_flight, self._one_at_a_time = False, True
        batch.may_be_appended = not delivery_errors.is_certainly_not_appended(error) and (
            batch.may_be_appended or delivery_errors.is_ambiguous(error)
        )
        batch.cause = delivery_errors.cause(batch.cause, error)
        if self._draining:
            return self._after_draining()
        lost = delivery_errors.is_lost_sequence(error)
        return self._decide_retry(batch, error, now_ms, jitter=jitter, lost=lost)

    def on_unroutable(self, error: RaftlogError, now_ms: int, *, jitter: float) -> list[Failed[H]]:
        """Learn that what is due could not be sent: its leader, or a producer id, cannot be had."""
        if self.batches and self.batches[0].in_flight:
            self._not_before_ms = now_ms + backoff_ms(1, jitter=jitter)
        failed: list[Failed[H]] = []
        while self.batches and not self._draining and not self.batches[0].in_flight:
            first = self.batches[0]
            first.attempts += 1
            first.cause = delivery_errors.cause(first.cause, error)
            failed += self._decide_retry(first, error, now_ms, jitter=jitter, lost=False)
            if self.batches and self.batches[0] is first:
                break  # It waits, and so do the others.
        return failed

    def expire(self, now_ms: int) -> list[Failed[H]]:
        """Give up what is too old and not on its way."""
        failed: list[Failed[H]] = []
        while self.batches and not self._draining and not self.batches[0].in_flight:
            first = self.batches[0]
            if now_ms - first.created_ms < self._delivery_timeout_ms:
                break
            failed += self._give_up(first, delivery_errors.timed_out(first, self._delivery_timeout_ms))
        return failed

    def take_waiting(self) -> list[PendingBatch[H]]:
        """Take out every batch that is not on its way."""
        waiting = [batch for batch in self.batches if not batch.in_flight and not batch.acknowledged]
        self.batches = deque(batch for batch in self.batches if batch.in_flight)
        return waiting

    def _decide_retry(
        self, batch: PendingBatch[H], error: RaftlogError, now_ms: int, *, jitter: float, lost: bool
    ) -> list[Failed[H]]:
        """Decide whether a batch whose attempt has failed goes again, in parts, in a new epoch, or not at all.

        Args:
            lost: the leader expects another sequence or epoch.
        """
        if batch is not self.batches[0] or (lost and not batch.sent_as_first):
            return []  # Its turn comes when it is the first.
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

    def _window(self, now_ms: int) -> Iterator[PendingBatch[H]]:
        reach = 1 if self._one_at_a_time or self._is_quiet(now_ms) else self._max_in_flight
        return islice(self.batches, 0 if self._draining else reach)

    def _is_quiet(self, now_ms: int) -> bool:
        quiet = now_ms - self._acknowledged_ms >= QUIET_MS
        return quiet and not any(batch.in_flight for batch in islice(self.batches, self._max_in_flight))

    def _assign(self, batch: PendingBatch[H], topic_id: TopicId) -> bool:
        """Give a batch that goes now its place; False if it must wait after all."""
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
        """Tell whether nothing of the first batch and what follows can be in the log, or come there out of order."""
        later = any(batch.acknowledged for batch in self.batches)
        return not (self._transactional or first.may_be_appended or later)

    def _give_up(self, first: PendingBatch[H], error: RaftlogError) -> list[Failed[H]]:
        self.batches.popleft()
        self._draining = first.sequence != NO_SEQUENCE
        while self.batches and self.batches[0].acknowledged:
            self.batches.popleft()
        return [(first, error), *self._after_draining()]

    def _after_draining(self) -> list[Failed[H]]:
        """Once no answer is awaited, begin a new epoch; what must not be sent in it fails."""
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
        """Replace the first batch by its halves, which take its place in the sequence (KIP-126)."""
        half, count = len(batch.records) // 2, len(batch.records)
        head, tail = _divide(batch.handles, half)
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


def _divide(handles: Sequence[H], at: int) -> tuple[list[H], list[H]]:
    """Divide handles into those of the first `at` records and the others."""
    left = at
    for place, handle in enumerate(handles):
        count = handle.count if isinstance(handle, Divisible) else 1
        if left < count and left and isinstance(handle, Divisible):
            first, rest = handle.divided(left)
            return [*handles[:place], first], [rest, *handles[place + 1 :]]
        if not left:
            return list(handles[:place]), list(handles[place:])
        left -= count
    return list(handles), []


def _after(sequence: int, count: int) -> int:
    return (sequence + count) % (MAX_SEQUENCE + 1)
