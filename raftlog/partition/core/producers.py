"""Idempotent producers: no batch twice, none out of order (KIP-98).

The leader remembers each producer's last five batches. An exact repeat is answered with the offsets it got then; the
next batch must continue the sequence. State is derived from batch headers, so every replica can keep it and a new
leader has it; only leaders check.

What is remembered is bounded. By count, the producer that wrote longest ago goes: that order is the log's, so leader
and followers forget the same one. By time, as in Kafka, each replica judges by its own clock: a replica that forgets
sooner accepts any next sequence of that producer, as it does from one that it never saw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import MAX_SEQUENCE, NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId
from raftlog.record.batch import BatchHeader

REMEMBERED_BATCHES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLimits:
    """How much one partition remembers of its producers."""

    expiration_ms: int = 86_400_000
    max_producers: int = 10_000


@dataclass(frozen=True, slots=True)
class AppendedBatch:
    """One batch as it is in the log."""

    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset


@dataclass(slots=True)
class _Producer:
    epoch: ProducerEpoch
    seen_ms: int
    """When this replica saw it append: not the batch's timestamp, which its producer may choose freely."""
    batches: tuple[AppendedBatch, ...] = ()


class ProducerStates:
    """What one partition knows of its producers, the one that wrote last at the end.

    Args:
        headers: of the log, from its start.
        now_ms: the time, for batches that come without one.
    """

    def __init__(
        self, headers: Iterable[BatchHeader] = (), *, limits: ProducerLimits | None = None, now_ms: int = 0
    ) -> None:
        self.limits = limits or ProducerLimits()
        self._now_ms = now_ms
        self._producers: dict[ProducerId, _Producer] = {}
        for header in headers:
            self.on_appended(header)

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, header: BatchHeader) -> AppendedBatch | None:
        """Judge a batch before it is appended: return the earlier one that it repeats, or None to append it.

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH, a newer process of this producer has written.
            InvalidRequestError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        if header.producer_id == NO_PRODUCER_ID:
            return None
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRequestError(
                f"producer {header.producer_id} sent epoch {header.producer_epoch}, sequence {header.base_sequence}: "
                "an idempotent producer's epoch and sequence start at 0"
            )
        known = self._producers.get(header.producer_id)
        if known is None:
            return None  # Its earlier batches, if any, are forgotten: any sequence may come next (KIP-360).
        if header.producer_epoch < known.epoch:
            raise FencedError(
                f"producer {header.producer_id}: epoch {header.producer_epoch} was replaced by {known.epoch}",
                code=ErrorCode.INVALID_PRODUCER_EPOCH,
            )
        if header.producer_epoch > known.epoch:
            self._require_next(header, expected=0)
            return None
        for batch in known.batches:
            if (batch.base_sequence, batch.last_sequence) == (header.base_sequence, header.last_sequence):
                return batch
        self._require_next(header, expected=(known.batches[-1].last_sequence + 1) % (MAX_SEQUENCE + 1))
        return None

    def on_appended(self, header: BatchHeader, now_ms: int | None = None) -> None:
        """Learn of a batch that is in the log now."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        self._now_ms = self._now_ms if now_ms is None else now_ms
        known = self._producers.pop(header.producer_id, None)
        if known is None or known.epoch != header.producer_epoch:
            known = _Producer(header.producer_epoch, self._now_ms)
        appended = AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        known.batches = (*known.batches[1 - REMEMBERED_BATCHES :], appended)
        known.seen_ms = self._now_ms
        self._producers[header.producer_id] = known
        if len(self._producers) > self.limits.max_producers:
            del self._producers[next(iter(self._producers))]

    def expire(self, now_ms: int) -> int:
        """Forget producers that have not written for long; return how many."""
        self._now_ms = now_ms
        limit = now_ms - self.limits.expiration_ms
        gone = []
        for producer, known in self._producers.items():
            if known.seen_ms > limit:
                break  # The others wrote later.
            gone.append(producer)
        for producer in gone:
            del self._producers[producer]
        return len(gone)

    def to_plain(self) -> list[Any]:
        """Return everything as plain data, for a snapshot."""
        return [
            [producer, known.epoch, known.seen_ms, [_batch_to_plain(batch) for batch in known.batches]]
            for producer, known in self._producers.items()
        ]

    def load(self, plain: Sequence[Any]) -> None:
        """Take in what `to_plain` returned.

        Raises:
            ValueError, TypeError: it is something else.
        """
        for producer, epoch, seen_ms, batches in plain:
            loaded = tuple(AppendedBatch(*map(int, batch)) for batch in batches)
            if not loaded:
                raise ValueError(f"producer {producer} has no batch")
            self._producers[int(producer)] = _Producer(int(epoch), int(seen_ms), loaded)

    def remembered_offsets(self) -> frozenset[Offset]:
        """Return the base offsets of all batches that are remembered: what compaction must not forget."""
        return frozenset(batch.base_offset for known in self._producers.values() for batch in known.batches)

    @staticmethod
    def _require_next(header: BatchHeader, *, expected: int) -> None:
        if header.base_sequence != expected:
            raise InvalidRequestError(
                f"producer {header.producer_id}: expected sequence {expected}, received {header.base_sequence}: "
                "a batch before it is missing",
                code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                details={"expected": expected, "received": header.base_sequence},
            )


def _batch_to_plain(batch: AppendedBatch) -> list[int]:
    return [batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset]
