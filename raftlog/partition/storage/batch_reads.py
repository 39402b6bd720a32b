"""Unverified reads of whole batches, and the search of an offset by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from raftlog.errors import CorruptBatchError
from raftlog.model import LeaderEpoch, Offset
from raftlog.partition.storage.index import NO_TIMESTAMP
from raftlog.partition.storage.segment import Segment
from raftlog.partition.storage.verified_reads import FileRange
from raftlog.record.batch import BatchHeader, verify_payload_crc
from raftlog.record.compute import pc
from raftlog.record.reading import to_arrow_with_offsets


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


class FoundRecord(NamedTuple):
    """A record that a search by time has found."""

    offset: Offset
    timestamp_us: int
    leader_epoch: LeaderEpoch


class Skipped(NamedTuple):
    """A part of a search that found nothing in as many headers as it may read; the search continues at an offset."""

    next_offset: Offset


class TimedBatch:
    """A batch that may have the first record at or after a time; `find` reads and decodes it.

    Args:
        from_offset: records below it do not count.
    """

    def __init__(self, segment: Segment, position: int, header: BatchHeader, from_offset: Offset) -> None:
        self.next_offset = header.next_offset
        self._header = header
        self._data = FileRange(segment, position, header.batch_length)
        self._from_offset = from_offset

    def find(self, timestamp_us: int) -> FoundRecord | None:
        """Return the first record at or after a time. Blocks; for a worker thread.

        Raises:
            CorruptBatchError: the batch is damaged.
            OSError: it cannot be read, or the log has changed since the batch was found.
        """
        header, batch = self._header, self._data.read()
        verify_payload_crc(header, batch)
        rows = to_arrow_with_offsets(header, batch, from_offset=self._from_offset)
        times = rows.column("timestamp")
        row = pc.index(pc.greater_equal(times.cast("int64"), timestamp_us), True).as_py()
        if row < 0:
            return None
        return FoundRecord(rows.column("offset")[row].as_py(), times[row].value, header.leader_epoch)


def batch_since(
    segments: Sequence[Segment], timestamp_us: int, from_offset: Offset, limit_offset: Offset, max_headers: int
) -> TimedBatch | Skipped | None:
    """Return the first batch with offsets in [from_offset, limit_offset) that may have a record at or after a time.

    Only headers are read, `max_headers` at most: old records between newer markers of transactions have no end.

    Raises:
        CorruptBatchError: a header is damaged.
        OSError: a file cannot be read.
    """
    read = 0
    for segment in segments:
        if segment.max_timestamp < timestamp_us or segment.next_offset <= from_offset:
            continue
        for position, header in segment.headers_since(timestamp_us, from_offset):
            if header.last_offset < from_offset:
                continue  # An entry of the sparse index comes first.
            if read >= max_headers:
                return Skipped(header.base_offset)
            read += 1
            if header.max_timestamp < timestamp_us:
                continue
            if header.base_offset >= limit_offset:
                return None
            if not header.is_empty and not header.is_control:  # Neither has rows.
                return TimedBatch(segment, position, header, from_offset)
    return None


def newest_timestamp(segments: Sequence[Segment], limit_offset: Offset) -> int:
    """Return the newest time (us since 1970) of the batches below `limit_offset`; `NO_TIMESTAMP`: there is none.

    It may be the time of a marker, which no record has: see `newest_of_records`. Whole segments and the sparse index
    have most of it; the headers of a few batches are read.

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


def newest_of_records(
    segment: Segment, newest: int, from_offset: Offset, limit_offset: Offset, max_headers: int
) -> tuple[int, Offset | None]:
    """Return the newest time (us since 1970) of `newest` and of a segment's batches of records in an offset range.

    Returns:
        The time, and the offset from which the search continues; None: it has read every header that it needs. The
        segment's own newest time is no answer: markers of transactions have later times than records.

    Raises:
        CorruptBatchError: a header is damaged.
        OSError: a file cannot be read.
    """
    if segment.max_timestamp <= newest:
        return newest, None
    # The index has the newest time before each entry, markers included.
    read = 0
    for _, header in segment.headers_since(newest + 1, max(segment.base_offset, from_offset)):
        if header.base_offset >= limit_offset:
            break
        if header.last_offset < from_offset:
            continue
        if read >= max_headers:
            return newest, header.base_offset
        read += 1
        if not header.is_empty and not header.is_control:
            newest = max(newest, header.max_timestamp)
    return newest, None
