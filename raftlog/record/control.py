"""Control batches: transaction markers, which partition leaders write and applications never read (KIP-98).

A marker ends one transaction of one producer in one partition. It is a batch of one record, with the control and the
transactional bit, the producer's id and epoch, and no sequence. Its payload is not Arrow but 24 bytes. With
`first_offset` and `stable_offset`, the index of aborted transactions can be rebuilt from the segment alone.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_SEQUENCE, AbortedTransaction, Offset, ProducerEpoch, ProducerId
from raftlog.record.batch import (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    verify_payload_crc,
    write_header,
)

NO_OFFSET: Offset = -1
_PAYLOAD = struct.Struct("<HHiqq")
_VERSION, _ABORT, _COMMIT = 0, 0, 1
MARKER_BYTES = HEADER_BYTES + _PAYLOAD.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The payload of a transaction marker."""

    committed: bool
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition: fences a coordinator that was replaced."""
    first_offset: Offset = NO_OFFSET
    """Where the transaction began in this partition; `NO_OFFSET` if it wrote nothing here."""
    stable_offset: Offset
    """Every transaction that ends after this marker began at or after it; a search for aborted ones may stop here."""


def build_marker(
    marker: Marker, *, producer_id: ProducerId, producer_epoch: ProducerEpoch, timestamp_us: int
) -> bytearray:
    """Encode a marker as one unstamped control batch."""
    kind = _COMMIT if marker.committed else _ABORT
    batch = bytearray(HEADER_BYTES)
    batch += _PAYLOAD.pack(_VERSION, kind, marker.coordinator_epoch, marker.first_offset, marker.stable_offset)
    write_header(
        batch,
        record_count=1,
        max_timestamp=timestamp_us,
        attributes=ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
    )
    return batch


def parse_marker(header: BatchHeader, batch: Buffer) -> Marker:
    """Decode and check the marker in a control batch.

    Raises:
        CorruptBatchError: a checksum is wrong, or it is not a valid marker.
    """
    verify_payload_crc(header, batch)
    as_written = header.is_transactional and header.record_count == 1 and header.last_offset_delta == 0
    if header.batch_length != MARKER_BYTES or not as_written or header.producer_id < 0 or header.producer_epoch < 0:
        raise CorruptBatchError(f"the control batch at offset {header.base_offset} is no transaction marker: {header}")
    version, kind, epoch, first_offset, stable_offset = _PAYLOAD.unpack_from(batch, HEADER_BYTES)
    if version != _VERSION or kind not in (_ABORT, _COMMIT):
        raise CorruptBatchError(
            f"the marker at offset {header.base_offset} has version {version}, kind {kind}; known are version "
            f"{_VERSION}, kinds {_ABORT} and {_COMMIT}: upgrade this program"
        )
    return Marker(
        committed=kind == _COMMIT, coordinator_epoch=epoch, first_offset=first_offset, stable_offset=stable_offset
    )


class AbortedBatches:
    """The set of batches that belong to aborted transactions."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._ranges: dict[ProducerId, list[tuple[Offset, Offset]]] = {}
        for transaction in sorted(aborted, key=attrgetter("first_offset")):
            ends = (transaction.first_offset, transaction.last_offset)
            self._ranges.setdefault(transaction.producer_id, []).append(ends)

    def __contains__(self, header: BatchHeader) -> bool:
        if not header.is_transactional or header.is_control:
            return False
        ranges = self._ranges.get(header.producer_id, ())
        # A producer's transactions do not overlap: only the last one that began before the batch can contain it.
        at = bisect_right(ranges, header.base_offset, key=itemgetter(0))
        return at > 0 and header.base_offset <= ranges[at - 1][1]


NOTHING_ABORTED = AbortedBatches()


def readable_batches(
    batches: Iterable[tuple[BatchHeader, memoryview]],
    aborted: AbortedBatches = NOTHING_ABORTED,
    *,
    from_offset: Offset = 0,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Return the batches for applications: no markers, aborted or empty batches, none below `from_offset`."""
    for header, batch in batches:
        if header.attributes & ATTRIBUTE_CONTROL or header.is_empty or header.last_offset < from_offset:
            continue
        if header.attributes & ATTRIBUTE_TRANSACTIONAL and header in aborted:
            continue
        yield header, batch
