"""Idempotent producers: no batch twice, none out of order (KIP-98).

The leader remembers each producer's last five batches. An exact repeat is answered with the offsets it got then; the
next batch must continue the sequence. State is derived from batch headers, so every replica can keep it and a new
leader has it; only leaders check.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import MAX_SEQUENCE, NO_PRODUCER_ID, Offset, ProducerEpoch, ProducerId
from raftlog.record.batch import BatchHeader

REMEMBERED_BATCHES = 5


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
    batches: deque[AppendedBatch] = field(default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES))


class ProducerStates:
    """What one partition knows of its producers."""

    def __init__(self, headers: Iterable[BatchHeader] = ()) -> None:
        self._producers: dict[ProducerId, _Producer] = {}
        for header in headers:
            self.on_appended(header)

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
            return None  # Its earlier batches, if any, have been retained away: any sequence may come next (KIP-360).
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

    def on_appended(self, header: BatchHeader) -> None:
        """Learn of a batch that is in the log now."""
        if header.producer_id == NO_PRODUCER_ID:
            return
        known = self._producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self._producers[header.producer_id] = _Producer(header.producer_epoch)
        known.batches.append(
            AppendedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
        )

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
