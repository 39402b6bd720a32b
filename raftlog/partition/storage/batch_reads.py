"""Unverified reads of whole batches, and the search of an offset by time."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.partition.storage.index import NO_TIMESTAMP
from raftlog.partition.storage.segment import Segment
from raftlog.record.arrow import to_arrow_with_offsets
from raftlog.record.batch import verify_payload_crc
from raftlog.record.compute import pc


def read_batches(segment: Segment, offset: Offset, max_bytes: int, limit_offset: Offset) -> bytes:
    """Return whole batches: from the one that holds `offset`, below `limit_offset`, about `max_bytes` long.

    Raises:
        CorruptBatchError: the first of them is damaged; batches before later damage are returned.
    """
    start = end = -1
    try:
        for position, header in segment.headers(offset):
            if header.last_offset < offset:
                continue
            if header.last_offset >= limit_offset:
                break
            if start < 0:
                start = position
            elif position + header.batch_length - start > max_bytes:
                break
            end = position + header.batch_length
    except CorruptBatchError:
        if start < 0:
            raise
    return segment.read_at(start, end - start) if start >= 0 else b""


def offset_for_timestamp(
    segments: Sequence[Segment], timestamp_us: int, log_start_offset: Offset, limit_offset: Offset
) -> Offset | None:
    """Return the first offset in [log_start_offset, limit_offset) whose record is at or after a time."""
    for segment in segments:
        if segment.max_timestamp < timestamp_us:
            continue
        for position, header in segment.headers_since(timestamp_us):
            if header.max_timestamp < timestamp_us or header.last_offset < log_start_offset:
                continue
            if header.is_empty or header.is_control:  # Neither has rows.
                continue
            batch = segment.read_at(position, header.batch_length)
            verify_payload_crc(header, batch)
            rows = to_arrow_with_offsets(header, batch, from_offset=log_start_offset)
            row = pc.index(pc.greater_equal(rows.column("timestamp").cast("int64"), timestamp_us), True).as_py()
            if row >= 0:
                found = rows.column("offset")[row].as_py()
                return found if found < limit_offset else None
    return None


def newest_timestamp(segments: Sequence[Segment], limit_offset: Offset) -> int:
    """Return the newest time (us since 1970) of the batches below `limit_offset`; `NO_TIMESTAMP`: there is none.

    Whole segments and the sparse index have most of it; the headers of a few batches are read.

    Raises:
        CorruptBatchError: a batch that is read is damaged.
    """
    whole = [segment.max_timestamp for segment in segments if segment.next_offset <= limit_offset]
    cut = [_newest_below(segment, limit_offset) for segment in segments if segment.next_offset > limit_offset]
    return max([*whole, *cut], default=NO_TIMESTAMP)


def _newest_below(segment: Segment, limit_offset: Offset) -> int:
    newest = segment.load_index().newest_at(limit_offset)
    for _, header in segment.headers(max(segment.base_offset, limit_offset - 1)):
        if header.next_offset > limit_offset:
            break
        newest = max(newest, header.max_timestamp)
    return newest
