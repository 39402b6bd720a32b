"""Batches that compaction leaves: fewer records than offsets, and never a gap between two batches.

A batch that loses some records keeps its base offset, last offset, leader epoch and producer; its payload says each
record's offset. One that loses all is its header alone. A run of such headers, of one leader epoch, becomes one. So
every offset of a log lies in exactly one batch, whatever was removed: a missing batch is always a fault.
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
    """Return the batch with these of its rows (by `COMPACTED_SCHEMA`); everything but its records stays.

    Args:
        cleaned_at_s: since when its tombstones wait; 0 where there are none.
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
        attributes=header.attributes | ATTRIBUTE_COMPACTED,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset_delta=header.last_offset_delta,
        cleaned_at_s=cleaned_at_s,
    )
    stamp(batch, base_offset=header.base_offset, leader_epoch=header.leader_epoch)
    return bytes(batch)


def keep_header(header: BatchHeader) -> bytes:
    """Return the batch without records: who wrote it is still known, so a repeat of it is still recognised."""
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
    """Return a transaction's marker, with a note since when nothing of the transaction is left."""
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
    """Return one empty batch in place of all that were between two offsets (inclusive)."""
    return _empty(base_offset, last_offset, leader_epoch, max_timestamp)


def is_filler(header: BatchHeader) -> bool:
    """Tell whether a batch says no more than that its offsets are gone."""
    return header.is_empty and header.producer_id == NO_PRODUCER_ID and not header.is_control


def begin_at(header: BatchHeader, offset: Offset) -> bytes:
    """Return the part of a filler from `offset` on, for a log that ends there."""
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
