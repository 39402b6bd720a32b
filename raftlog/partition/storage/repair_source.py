"""Finds intact batches in a log's files for the repair of another replica, whatever the state of the log.

The log may be open, damaged elsewhere, or quarantined. Only the segment files are needed: an index just saves reads,
and each batch is verified before it is sent.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.storage.batch_scan import Read, ends_amid_batch, find_header, iter_headers
from raftlog.partition.storage.files import is_unreadable, list_names
from raftlog.partition.storage.index import read_index
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.segment import segment_path
from raftlog.record.batch import ALIGNMENT, HEADER_BYTES, BatchHeader, parse_header, verify_payload_crc
from raftlog.wire.repair import Holding

Found = tuple[Holding, bytes]
_SEARCH_BYTES = 64 << 20
"""How far to search for a batch whose predecessors are damaged."""
_UNREADABLE_BYTES = 4 << 10


def find_batches(folders: Sequence[Path], offset: Offset, epoch: LeaderEpoch, max_bytes: int) -> Found:
    """Return batches from the one at `offset` of `epoch` on, from the first folder that has it intact.

    Args:
        epoch: NO_LEADER_EPOCH: of any epoch.

    Raises:
        OSError: a folder cannot be read.
    """
    best = Holding.ABSENT
    for folder in folders:
        holding, data = _find_in(folder, offset, epoch, max_bytes)
        if holding is Holding.WHOLE:
            return holding, data
        # Another intact batch is the strongest answer: that log continues without the requested one.
        best = holding if best is Holding.ABSENT or holding is Holding.OTHER else best
    return best, b""


@dataclass(frozen=True, slots=True)
class SegmentAt:
    """An open segment file. `start`: the position of a batch at or before the wanted offset, unverified."""

    read: Read
    size: int
    start: int
    is_last: bool


@contextmanager
def segment_at(folder: Path, offset: Offset) -> Iterator[SegmentAt | None]:
    """Open the segment file that covers an offset; None: there is none."""
    bases = segment_bases(list_names(folder))
    number = bisect_right(bases, offset) - 1
    if number < 0:
        yield None
        return
    path = segment_path(folder, bases[number])
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None  # Retention or compaction has just removed it.
        return
    try:
        read = zeros_if_unreadable(lambda length, position: os.pread(descriptor, length, position))
        yield SegmentAt(read, os.fstat(descriptor).st_size, _start(path, offset), number == len(bases) - 1)
    finally:
        os.close(descriptor)


def _find_in(folder: Path, offset: Offset, epoch: LeaderEpoch, max_bytes: int) -> Found:
    with segment_at(folder, offset) as file:
        return (Holding.ABSENT, b"") if file is None else _find_from(file, offset, epoch, max_bytes)


def _start(path: Path, offset: Offset) -> int:
    """Return the position of a batch at or before `offset` from the index, unverified."""
    read = read_index(path.with_suffix(".index"))
    entry = read[1].entry_for(offset) if read is not None else None
    return entry[1] if entry else 0


def intact_batch(file: SegmentAt, offset: Offset) -> tuple[int, BatchHeader] | None:
    """Return position and header of the batch that contains `offset`, if the batch is intact."""
    position = _position_of(file.read, file.size, file.start, offset)
    if position is None or (header := _header(file.read, position)) is None:
        return None
    return None if _whole(file.read, position, header, file.size) is None else (position, header)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a log by its valid headers; the payloads may be damaged."""

    offset: Offset
    is_certain: bool
    """False: bytes without a valid header follow, which may be further batches."""


def log_end(folder: Path) -> LogEnd:
    """Return the end of a log, whatever is damaged in it.

    Raises:
        OSError: the folder cannot be read.
    """
    end = LogEnd(0, is_certain=True)
    for base in segment_bases(list_names(folder)):
        with segment_at(folder, base) as file:
            if file is None:
                continue
            offset, after = base, 0
            for position, header in _headers(file):
                offset, after = header.next_offset, position + header.batch_length
            # Less than a header is a torn write; so is a batch that goes beyond the file.
            is_torn = file.size - after < HEADER_BYTES or ends_amid_batch(file.read, after, file.size)
            end = LogEnd(max(end.offset, offset), is_certain=is_torn)
    return end


def last_header_below(folder: Path, offset: Offset) -> BatchHeader | None:
    """Return the last valid header of a log's batches that begin below an offset; their payloads may be damaged.

    Raises:
        OSError: the folder cannot be read.
    """
    for base in reversed(segment_bases(list_names(folder))):
        with segment_at(folder, base) as file:
            below = [] if file is None else [header for _, header in _headers(file) if header.base_offset < offset]
            if below:
                return below[-1]
    return None


def _headers(file: SegmentAt) -> Iterator[tuple[int, BatchHeader]]:
    """Iterate over (position, header) of a segment's whole batches, stepping over damaged headers."""
    position, offset = 0, 0
    while position + HEADER_BYTES <= file.size:
        header = _header(file.read, position)
        if header is None or header.base_offset < offset or position + header.batch_length > file.size:
            later = iter_headers(file.read, position + ALIGNMENT, file.size)
            fitting = ((at, h) for at, h in later if h.base_offset >= offset and at + h.batch_length <= file.size)
            if (found := next(fitting, None)) is None:
                return
            position, header = found
        yield position, header
        position, offset = position + header.batch_length, header.next_offset


def _find_from(file: SegmentAt, offset: Offset, epoch: LeaderEpoch, max_bytes: int) -> Found:
    read, size, start = file.read, file.size, file.start
    position = _position_of(read, size, start, offset)
    if position is None:
        return (
            (Holding.ABSENT, b"")
            if file.is_last and _ends_before(read, size, start, offset)
            else (Holding.DAMAGED, b"")
        )
    header = parse_header(read(HEADER_BYTES, position))
    if header.base_offset != offset or epoch not in (NO_LEADER_EPOCH, header.leader_epoch):
        sound = _whole(read, position, header, size) is not None
        return (Holding.OTHER if sound else Holding.DAMAGED), b""
    data = bytearray()
    while (batch := _whole(read, position, header, size)) is not None:
        data += batch
        position += header.batch_length
        try:
            following = parse_header(read(HEADER_BYTES, position))
        except CorruptBatchError:
            break
        if following.base_offset != header.next_offset or len(data) + following.batch_length > max_bytes:
            break
        header = following
    return (Holding.WHOLE, bytes(data)) if data else (Holding.DAMAGED, b"")


def _position_of(read: Read, size: int, start: int, offset: Offset) -> int | None:
    """Return the position of the batch whose header covers `offset`: by stepping, then by searching."""
    for position in dict.fromkeys((start, 0)):
        at = position
        while at + HEADER_BYTES <= size and (header := _header(read, at)) is not None:
            if header.base_offset <= offset <= header.last_offset:
                return at
            if header.base_offset > offset:
                break
            at += header.batch_length
        else:
            found = find_header(read, at, min(size, at + _SEARCH_BYTES), base_offset=offset)
            if found is not None:
                return found
    return None


def _ends_before(read: Read, size: int, start: int, offset: Offset) -> bool:
    """Return whether every header from `start` to the file's end is valid and before `offset`."""
    at = start
    while at + HEADER_BYTES <= size and (header := _header(read, at)) is not None and header.last_offset < offset:
        at += header.batch_length
    return at >= size


def _header(read: Read, position: int) -> BatchHeader | None:
    try:
        return parse_header(read(HEADER_BYTES, position))
    except CorruptBatchError:
        return None


def _whole(read: Read, position: int, header: BatchHeader, size: int) -> bytes | None:
    if position + header.batch_length > size:
        return None
    batch = read(header.batch_length, position)
    try:
        verify_payload_crc(header, batch)
    except CorruptBatchError:
        return None
    return batch


def zeros_if_unreadable(read: Read) -> Read:
    """Wrap a read so that unreadable blocks are returned as zeros, which no checksum matches."""

    def piecewise(length: int, position: int) -> bytes:
        pieces = []
        while length > 0:
            count = min(length, _UNREADABLE_BYTES - position % _UNREADABLE_BYTES)
            try:
                piece = read(count, position)
            except OSError as error:
                if not is_unreadable(error):
                    raise
                piece = bytes(count)
            pieces.append(piece)
            if len(piece) < count:
                break
            length, position = length - count, position + count
        return b"".join(pieces)

    def attempt(length: int, position: int) -> bytes:
        try:
            return read(length, position)
        except OSError as error:
            if not is_unreadable(error):
                raise
            return piecewise(length, position)

    return attempt
