"""State of idempotent producers: no batch is appended twice or out of order (KIP-98).

- The leader stores each producer's last five batches. A duplicate (same sequences, same payload checksum) returns the
  offsets of the first append. The same sequences with another payload are an error: another process uses the id.
- The next batch must continue the sequence.
- State is derived from batch headers, so every replica has it, and a new leader, too. Only leaders check it.

The number of producers is bounded. The one that wrote least recently is evicted first; that order is the log's, so
leader and followers evict the same one. The leader refuses a new producer rather than evict one that may still retry a
batch. By time, as in Kafka, each replica expires producers by its own clock. A replica without state of a producer
accepts any sequence from it. A producer with an open transaction is never evicted: the last stable offset depends on
it.

A transaction's marker has the transaction's epoch plus one (KIP-890), with which the producer continues. So a batch
that arrives after its transaction ended has an old epoch, and so has a marker that arrives after the next one began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, OverloadedError, RetriableError
from raftlog.model import MAX_SEQUENCE, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId
from raftlog.partition.core.transactions import Transactions
from raftlog.record.batch import BatchHeader
from raftlog.record.control import Marker

REMEMBERED_BATCHES = 5
MOST_KEPT = 1_000
"""Limit of producers whose state outlives their batches. It is copied on the event loop."""
_NO_MARKER = -1
_UNKNOWN_PAYLOAD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLimits:
    """Limits of the producer state of one partition."""

    expiration_ms: int = 86_400_000
    max_producers: int = 10_000
    min_idle_ms: int = 180_000
    """A producer that wrote within this time is not evicted for a new one: it may retry a batch."""


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One batch as it is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    payload_crc: int = _UNKNOWN_PAYLOAD
    """Of the payload as sent; unknown after compaction, or if read from an earlier version's snapshot."""

    def is_repeated_by(self, header: BatchHeader) -> bool:
        """Return whether a batch has the sequences of this one.

        Raises:
            InvalidRequestError: DUPLICATE_SEQUENCE_NUMBER: it has another payload.
        """
        if (self.base_sequence, self.last_sequence) != (header.base_sequence, header.last_sequence):
            return False
        if self.payload_crc not in (_UNKNOWN_PAYLOAD, header.payload_crc32c):
            raise InvalidRequestError(
                f"producer {header.producer_id}: sequences {self.base_sequence} to {self.last_sequence} of epoch "
                f"{header.producer_epoch} are in the log, at offset {self.base_offset}, with other records: another "
                "process uses this producer id; this batch was not appended: send it under a new producer id",
                code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                details={"base_offset": self.base_offset},
            )
        return True


@dataclass(frozen=True, slots=True)
class ProducerDescription:
    """A producer of one partition, for administrators; -1 where there is nothing."""

    producer_id: ProducerId
    epoch: ProducerEpoch
    last_sequence: int
    seen_ms: int
    """When its last batch or marker was appended here."""
    coordinator_epoch: int
    began: Offset
    """The first offset of its open transaction."""


@dataclass(slots=True)
class _ProducerEntry:
    epoch: ProducerEpoch
    seen_ms: int
    """When this replica appended its last batch: not the batch's timestamp, which its producer chooses."""
    batches: tuple[AppendedBatch, ...] = ()
    before: AppendedBatch | None = None
    """The last batch of the epoch before, and that epoch: the sequences of some producers go on (Kafka's TV1)."""
    before_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    coordinator_epoch: int = _NO_MARKER
    """Of its last marker."""
    marker_offset: Offset = _NO_MARKER


class ProducerStates:
    """The producers of one partition, in the order of their last batches.

    Args:
        headers: batch headers of the log, from its start.
        now_ms: the time of batches for which none is given.
    """

    def __init__(
        self, headers: Iterable[BatchHeader] = (), *, limits: ProducerLimits | None = None, now_ms: int = 0
    ) -> None:
        self.limits = limits or ProducerLimits()
        self.transactions = Transactions()
        self._now_ms = now_ms
        self._producers: dict[ProducerId, _ProducerEntry] = {}
        for header in headers:
            self.on_appended(header)

    def __len__(self) -> int:
        return len(self._producers)

    def knows(self, producer_id: ProducerId) -> bool:
        """Return whether there is state of a producer."""
        return producer_id in self._producers

    def described(self) -> list[ProducerDescription]:
        """Return every producer, the one that wrote least recently first."""
        return [
            ProducerDescription(
                producer_id,
                entry.epoch,
                entry.batches[-1].last_sequence if entry.batches else -1,
                entry.seen_ms,
                entry.coordinator_epoch,
                self.transactions.ongoing.get(producer_id, -1),
            )
            for producer_id, entry in self._producers.items()
        ]

    def has_open(self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
        """Return whether a transaction of this epoch is open here."""
        entry = self._producers.get(producer_id)
        return entry is not None and entry.epoch == epoch and producer_id in self.transactions

    def check(
        self, header: BatchHeader, now_ms: int = 0, *, since: ProducerEpoch = NO_PRODUCER_EPOCH
    ) -> AppendedBatch | None:
        """Check a batch before it is appended: return the batch that it duplicates, or None to append it.

        Args:
            since: the producer does not know of its later epochs (Kafka's TV1): its sequences go on from this one.
                -1: each epoch begins with sequence 0.

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH: a newer process of this producer has written.
            InvalidRequestError: OUT_OF_ORDER_SEQUENCE_NUMBER; DUPLICATE_SEQUENCE_NUMBER: its sequences are in the log
                with another payload; INVALID_TXN_STATE: it does not belong to the producer's open transaction.
            RetriableError: CONCURRENT_TRANSACTIONS: the marker of the producer's last transaction is not written here
                yet.
            OverloadedError: the producer is new here, and none may be evicted for it.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return None
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRequestError(
                f"producer {header.producer_id} sent epoch {header.producer_epoch}, sequence {header.base_sequence}: "
                "an idempotent producer's epoch and sequence start at 0"
            )
        entry = self._producers.get(header.producer_id)
        if entry is None:
            self._require_room(header.producer_id, now_ms)
            return None  # Without state, any sequence may come next (KIP-360).
        if header.producer_epoch < entry.epoch:
            raise FencedError(
                f"producer {header.producer_id}: epoch {header.producer_epoch} was replaced by {entry.epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        self._require_same_transaction(header, entry)
        if header.producer_epoch > entry.epoch:
            self._require_begin(header, entry, since)
            return None
        for batch in entry.batches:
            if batch.is_repeated_by(header):
                return batch
        if entry.batches:
            self._require_next(header, expected=_after(entry.batches[-1]))
        else:
            self._require_begin(header, entry, since)
        return None

    def begins_transaction(self, header: BatchHeader) -> bool:
        """Return whether a batch begins a transaction here; the coordinator must add the partition to it first."""
        if not header.is_transactional:
            return False
        entry = self._producers.get(header.producer_id)
        return entry is None or entry.epoch < header.producer_epoch or header.producer_id not in self.transactions

    def check_marker(self, producer_id: ProducerId, epoch: ProducerEpoch, coordinator_epoch: int) -> Offset | None:
        """Check a marker before it is appended: return its offset if it is in the log already, or None to append it.

        Raises:
            FencedError: TRANSACTION_COORDINATOR_FENCED: a later coordinator has written a marker of this producer.
            FencedError: INVALID_PRODUCER_EPOCH: the marker's transaction has ended; another one may be open.
        """
        entry = self._producers.get(producer_id)
        if entry is None:
            return None
        if coordinator_epoch < entry.coordinator_epoch:
            raise FencedError(
                f"producer {producer_id}: the coordinator of epoch {coordinator_epoch} was replaced, "
                f"by that of epoch {entry.coordinator_epoch}",
                code=ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            )
        under_way = producer_id in self.transactions
        if epoch < entry.epoch or (epoch == entry.epoch and under_way):
            raise FencedError(
                f"producer {producer_id}: a marker of epoch {epoch} came late, "
                f"epoch {entry.epoch} has {'a transaction under way' if under_way else 'begun'}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        return entry.marker_offset if epoch == entry.epoch and entry.marker_offset >= 0 else None

    def on_appended(self, header: BatchHeader, now_ms: int | None = None, *, marker: Marker | None = None) -> None:
        """Add a batch that was appended to the log.

        Args:
            marker: the payload of a control batch.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return
        self._now_ms = self._now_ms if now_ms is None else now_ms
        entry = self._producers.pop(header.producer_id, None)
        if entry is None:
            entry = _ProducerEntry(header.producer_epoch, self._now_ms)
        if entry.epoch != header.producer_epoch:
            if entry.batches:
                entry.before, entry.before_epoch = entry.batches[-1], entry.epoch
            entry.epoch, entry.batches = header.producer_epoch, ()
        entry.seen_ms = self._now_ms
        self._producers[header.producer_id] = entry
        if marker is not None:
            entry.coordinator_epoch, entry.marker_offset = marker.coordinator_epoch, header.base_offset
            self.transactions.on_marker(header.producer_id, header.base_offset)
        else:
            crc = _UNKNOWN_PAYLOAD if header.is_compacted else header.payload_crc32c
            sequences = header.base_sequence, header.last_sequence
            appended = AppendedBatch(*sequences, header.base_offset, header.last_offset, crc)
            entry.batches = (*entry.batches[1 - REMEMBERED_BATCHES :], appended)
            if header.is_transactional:
                self.transactions.on_batch(header)
        if len(self._producers) > self.limits.max_producers and (oldest := self._oldest()) is not None:
            del self._producers[oldest]

    def expire(self, now_ms: int) -> int:
        """Remove producers that have not written for `expiration_ms`; return how many."""
        self._now_ms = now_ms
        limit = now_ms - self.limits.expiration_ms
        gone = []
        for producer, entry in self._producers.items():
            if entry.seen_ms > limit:
                break  # The others wrote later.
            if producer not in self.transactions:
                gone.append(producer)
        for producer in gone:
            del self._producers[producer]
        return len(gone)

    def to_plain(self) -> dict[str, Any]:
        """Return everything as plain data, for a snapshot."""
        return self.plan_plain()()

    def plan_plain(self) -> Callable[[], dict[str, Any]]:
        """Copy the state; return a function that makes plain data of the copy, in a worker thread if need be.

        10,000 producers are copied in 4 ms. To make plain data of them takes ten times as long.
        """
        copies, transactions = [_copy(*item) for item in self._producers.items()], self.transactions.to_plain()
        return lambda: {"producers": [_to_plain(copy) for copy in copies]} | transactions

    def plan_below(self, offset: Offset, since_ms: int) -> Callable[[], dict[str, Any]]:
        """Copy what batches below an offset say of producers; return a function like that of `plan_plain`.

        For a snapshot that is written before these batches are deleted. Only producers that have written since a time
        count, at most `MOST_KEPT`: the others send no batch again. It has no transactions.
        """
        copies = list[_Copy]()
        for producer, entry in reversed(self._producers.items()):
            if entry.seen_ms < since_ms or len(copies) == MOST_KEPT:
                break
            batches = tuple(batch for batch in entry.batches if batch.last_offset < offset)
            marker = entry.marker_offset if entry.marker_offset < offset else _NO_MARKER
            if batches or marker != _NO_MARKER:
                coordinator_epoch = entry.coordinator_epoch if marker != _NO_MARKER else _NO_MARKER
                changed = replace(entry, batches=batches, marker_offset=marker, coordinator_epoch=coordinator_epoch)
                if entry.before is not None and entry.before.last_offset >= offset:
                    changed = replace(changed, before=None, before_epoch=NO_PRODUCER_EPOCH)
                copies.append(_copy(producer, changed))
        copies.reverse()
        return lambda: {"producers": [_to_plain(copy) for copy in copies]} | Transactions().to_plain()

    def load(self, plain: Mapping[str, Any]) -> None:
        """Load what `to_plain` returned; earlier versions wrote no payload checksums.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        for producer, epoch, seen_ms, batches, coordinator_epoch, marker_offset, *before in plain["producers"]:
            loaded = tuple(AppendedBatch(*map(int, batch)) for batch in batches)
            last, last_epoch = before or (None, NO_PRODUCER_EPOCH)
            ended = AppendedBatch(*map(int, last)) if last else None
            if not loaded and marker_offset < 0:
                raise ValueError(f"producer {producer} has no batch")
            self._producers[int(producer)] = _ProducerEntry(
                int(epoch), int(seen_ms), loaded, ended, int(last_epoch), int(coordinator_epoch), int(marker_offset)
            )
        self.transactions.load(plain)

    def remembered_offsets(self) -> frozenset[Offset]:
        """Return the base offsets of all stored batches and markers: compaction must keep these batches."""
        producers = self._producers.values()
        markers = {entry.marker_offset for entry in producers if entry.marker_offset >= 0}
        before = {entry.before.base_offset for entry in producers if entry.before is not None}
        return frozenset(markers | before | {batch.base_offset for entry in producers for batch in entry.batches})

    def _require_same_transaction(self, header: BatchHeader, entry: _ProducerEntry) -> None:
        if header.producer_id not in self.transactions:
            return
        if header.producer_epoch == entry.epoch and header.is_transactional:
            return
        if header.producer_epoch > entry.epoch:
            raise RetriableError(
                f"producer {header.producer_id}: its transaction of epoch {entry.epoch} is still being ended here",
                code=ErrorCode.CONCURRENT_TRANSACTIONS,
            )
        kind = "transactional" if header.is_transactional else "other"
        raise InvalidRequestError(
            f"producer {header.producer_id}: its transaction of epoch {entry.epoch} is under way here, received "
            f"{kind} records of epoch {header.producer_epoch}",
            code=ErrorCode.INVALID_TXN_STATE,
        )

    def _oldest(self) -> ProducerId | None:
        """Return the first producer to evict: the one that wrote least recently, without an open transaction."""
        return next((producer for producer in self._producers if producer not in self.transactions), None)

    def _require_room(self, producer_id: ProducerId, now_ms: int) -> None:
        """Require a free entry for a new producer, or one that may be evicted.

        Raises:
            OverloadedError: there is neither.
        """
        if len(self._producers) < self.limits.max_producers:
            return
        oldest = self._oldest()
        if oldest is None or self._producers[oldest].seen_ms > now_ms - self.limits.min_idle_ms:
            raise OverloadedError(
                f"producer {producer_id} is new here, and {len(self._producers)} others have written to this partition "
                f"within {self.limits.min_idle_ms} ms (broker.max_producer_ids, broker.producer_id_min_idle_ms): try "
                "again later; use one producer for many records"
            )

    @staticmethod
    def _require_begin(header: BatchHeader, entry: _ProducerEntry, since: ProducerEpoch) -> None:
        """Require the first sequence of an epoch: 0, or the one after the last transaction's (see `check`)."""
        epoch, last = (entry.epoch, entry.batches[-1]) if entry.batches else (entry.before_epoch, entry.before)
        goes_on = last is not None and 0 <= since <= epoch
        ProducerStates._require_next(header, expected=_after(last) if last is not None and goes_on else 0)

    @staticmethod
    def _require_next(header: BatchHeader, *, expected: int) -> None:
        if header.base_sequence != expected:
            raise InvalidRequestError(
                f"producer {header.producer_id}: expected sequence {expected}, received {header.base_sequence}: "
                "a batch before it is missing",
                code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                details={"expected": expected, "received": header.base_sequence},
            )


_Copy: TypeAlias = tuple[
    ProducerId, ProducerEpoch, int, tuple[AppendedBatch, ...], int, Offset, AppendedBatch | None, ProducerEpoch
]
"""A producer as it was, which shares what never changes."""


def _copy(producer_id: ProducerId, entry: _ProducerEntry) -> _Copy:
    return (
        producer_id,
        entry.epoch,
        entry.seen_ms,
        entry.batches,
        entry.coordinator_epoch,
        entry.marker_offset,
        entry.before,
        entry.before_epoch,
    )


def _to_plain(copy: _Copy) -> list[Any]:
    producer_id, epoch, seen_ms, batches, coordinator_epoch, marker_offset, before, before_epoch = copy
    plain = [producer_id, epoch, seen_ms, list(map(_plain_batch, batches)), coordinator_epoch, marker_offset]
    return plain if before is None else [*plain, _plain_batch(before), before_epoch]


def _plain_batch(batch: AppendedBatch) -> list[int]:
    return [batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.payload_crc]


def _after(batch: AppendedBatch) -> int:
    """Return the sequence that follows a batch."""
    return (batch.last_sequence + 1) % (MAX_SEQUENCE + 1)
