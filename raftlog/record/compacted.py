"""Compacted batches: they have fewer records than offsets, and there is never a gap between two batches.

- A batch that loses some records keeps its base offset, last offset, leader epoch and producer; its payload has each
  record's offset.
- A batch that loses all records becomes a header without payload. Consecutive such headers of one leader epoch are
  merged into one filler.
- So every offset of a log is in exactly one batch: a missing batch is always damage.
"""

from __future__ import annotations

import pyarrow as pa

from raftlog.model import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
)
from raftlog.record.arrow import COMPACTED_SCHEMA, encode_rows
from raftlog.record.batch import (
    ATTRIBUTE_COMPACTED,
    ATTRIBUTE_COMPRESSION,
    ATTRIBUTE_SHORT,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    stamp,
    write_header,
)
from raftlog.record.compute import pc
from raftlog.record.model import Compression

MAX_OFFSET_DELTA = 2**32 - 1
_COMPRESSION_OF: dict[int, Compression | None] = {0: None, 1: "lz4", 2: "zstd"}


def keep_rows(header: BatchHeader, rows: pa.RecordBatch, *, cleaned_at_s: int) -> bytes:
    """Return the batch with only these rows (by `COMPACTED_SCHEMA`); everything else is kept.

    Args:
        cleaned_at_s: see `BatchHeader`; 0 without tombstones.
    """
    if rows.num_rows == 0:
        return keep_header(header)
    assert rows.schema.equals(COMPACTED_SCHEMA)
    batch = bytearray(HEADER_BYTES)
    batch += encode_rows(rows, _COMPRESSION_OF[header.attributes & ATTRIBUTE_COMPRESSION])
    write_header(
        batch,
        record_count=rows.num_rows,
        max_timestamp=pc.max(rows.column(0)).value,
        attributes=(header.attributes | ATTRIBUTE_COMPACTED) & ~ATTRIBUTE_SHORT,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset_delta=header.last_offset_delta,
        cleaned_at_s=cleaned_at_s,
    )
    stamp(batch, base_offset=header.base_offset, leader_epoch=header.leader_epoch)
    return bytes(batch)


def keep_header(header: BatchHeader) -> bytes:
    """Return the batch without records; its producer and sequences are kept, so that a duplicate is still detected."""
    return _empty(
        header.base_offset,
        header.last_offset,
        header.leader_epoch,
        header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def keep_marker(header: BatchHeader, batch: Buffer, *, cleaned_at_s: int) -> bytes:
    """Return a transaction's marker, stamped with the time when all records of the transaction had been removed."""
    marker = bytearray(batch)
    write_header(
        marker,
        record_count=header.record_count,
        max_timestamp=header.max_timestamp,
        attributes=header.attributes | ATTRIBUTE_COMPACTED,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        cleaned_at_s=cleaned_at_s,
    )
    stamp(marker, base_offset=header.base_offset, leader_epoch=header.leader_epoch)
    return bytes(marker)


def build_filler(base_offset: Offset, last_offset: Offset, *, leader_epoch: LeaderEpoch, max_timestamp: int) -> bytes:
    """Return one empty batch that replaces all batches between two offsets (inclusive)."""
    return _empty(base_offset, last_offset, leader_epoch, max_timestamp)


def is_filler(header: BatchHeader) -> bool:
    """Return whether a batch is a filler: no records and no producer."""
    return header.is_empty and header.producer_id == NO_PRODUCER_ID and not header.is_control


def begin_at(header: BatchHeader, offset: Offset) -> bytes:
    """Return the part of a filler from `offset` on, for a log that ends at `offset`."""
    assert is_filler(header)
    assert header.base_offset <= offset <= header.last_offset
    return build_filler(
        offset, header.last_offset, leader_epoch=header.leader_epoch, max_timestamp=header.max_timestamp
    )


def _empty(
    base_offset: Offset,
    last_offset: Offset,
    leader_epoch: LeaderEpoch,
    max_timestamp: int,
    *,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    batch = bytearray(HEADER_BYTES)
    write_header(
        batch,
        record_count=0,
        max_timestamp=max_timestamp,
        attributes=ATTRIBUTE_COMPACTED,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        last_offset_delta=last_offset - base_offset,
    )
    stamp(batch, base_offset=base_offset, leader_epoch=leader_epoch)
    return bytes(batch)
