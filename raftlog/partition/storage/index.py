"""A segment's sparse index: positions of batches, and the newest timestamp before each. In memory, and as a file.

The file describes the segment at one size. It is written without a sync and verified on use: checksums, sizes and order
when it is read, and the header at a position that it returns. It can be rebuilt from the log. Layout:
docs/reference/storage-format.md.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path

from raftlog.checksum import crc32c
from raftlog.model import Offset
from raftlog.partition.storage.files import atomic_write, read_file

SUFFIX = ".index"
INTERVAL_BYTES = 16 << 10
NO_TIMESTAMP = -(2**63)
_MAGIC = b"RLIDX002"
_HEAD = struct.Struct("<8sIIqqqqqqq")
"""Magic, CRC-32C of the rest of the head, of the entries, number of entries, then `SegmentFacts` in order."""
HEAD_BYTES = _HEAD.size
_CRC_END = 12


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """Facts about a segment's first `size` bytes."""

    base_offset: Offset
    size: int
    next_offset: Offset
    max_timestamp: int
    first_timestamp: int
    aborted: int = 0
    """How many aborted transactions have their marker in the segment."""


class SparseIndex:
    """One entry for each `INTERVAL_BYTES`: a batch's base offset, its position, and the newest timestamp before it."""

    __slots__ = ("newest_before", "offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.positions = array("q")
        self.newest_before = array("q")

    def __len__(self) -> int:
        return len(self.positions)

    def add(self, offset: Offset, position: int, newest_before: int) -> None:
        """Add an entry for a batch, unless there is one within `INTERVAL_BYTES` before it."""
        if not self.positions or position - self.positions[-1] >= INTERVAL_BYTES:
            self.offsets.append(offset)
            self.positions.append(position)
            self.newest_before.append(newest_before)

    def entry_for(self, offset: Offset) -> tuple[Offset, int] | None:
        """Return offset and position of the last entry at or before `offset`."""
        at = bisect_right(self.offsets, offset)
        return (self.offsets[at - 1], self.positions[at - 1]) if at else None

    def entry_after(self, offset: Offset) -> tuple[Offset, int] | None:
        """Return offset and position of the first entry after `offset`."""
        at = bisect_right(self.offsets, offset)
        return (self.offsets[at], self.positions[at]) if at < len(self.offsets) else None

    def newest_at(self, offset: Offset) -> int:
        """Return the newest timestamp before the last entry below `offset`; `NO_TIMESTAMP` without one."""
        at = bisect_left(self.offsets, offset)
        return self.newest_before[at - 1] if at else NO_TIMESTAMP

    def offset_before_time(self, timestamp: int) -> Offset | None:
        """Return the last indexed offset before which everything is older than `timestamp`."""
        at = bisect_left(self.newest_before, timestamp)
        return self.offsets[at - 1] if at else None

    def cut(self, size: int) -> None:
        """Forget entries at and after byte `size`."""
        keep = bisect_left(self.positions, size)
        for column in (self.offsets, self.positions, self.newest_before):
            del column[keep:]

    @property
    def columns(self) -> tuple[array[int], array[int], array[int]]:
        return self.offsets, self.positions, self.newest_before


def encode_index(facts: SegmentFacts, index: SparseIndex) -> bytes:
    """Return an index file's content."""
    entries = b"".join(_little_endian(column).tobytes() for column in index.columns)
    numbers = (len(index), *_plain(facts))
    rest = _HEAD.pack(_MAGIC, 0, crc32c(entries), *numbers)[_CRC_END:]
    return _MAGIC + struct.pack("<I", crc32c(rest)) + rest + entries


def decode_facts(head: bytes) -> SegmentFacts | None:
    """Decode the head of an index file; None if it is damaged."""
    if len(head) < HEAD_BYTES or head[: len(_MAGIC)] != _MAGIC:
        return None
    _, crc, _, _, *numbers = _HEAD.unpack_from(head)
    return SegmentFacts(*numbers) if crc32c(head[_CRC_END:HEAD_BYTES]) == crc else None


def decode_index(content: bytes) -> tuple[SegmentFacts, SparseIndex] | None:
    """Decode an index file; None if it is damaged or inconsistent."""
    if (facts := decode_facts(content)) is None:
        return None
    _, _, crc, count, *_ = _HEAD.unpack_from(content)
    entries = content[HEAD_BYTES:]
    if len(entries) != 24 * count or crc32c(entries) != crc:
        return None
    index = SparseIndex()
    for number, column in enumerate(index.columns):
        column.frombytes(entries[8 * count * number : 8 * count * (number + 1)])
        _little_endian(column, in_place=True)
    return (facts, index) if _is_consistent(facts, index) else None


def read_facts(path: Path) -> SegmentFacts | None:
    """Read the head of an index file; None if it is missing or damaged."""
    try:
        return decode_facts(read_file(path, limit=HEAD_BYTES) or b"")
    except OSError:
        return None


def read_index(path: Path) -> tuple[SegmentFacts, SparseIndex] | None:
    """Read an index file; None if it is missing, damaged or unreadable: it can be rebuilt from the log."""
    try:
        return decode_index(read_file(path) or b"")
    except OSError:
        return None


def write_index(path: Path, facts: SegmentFacts, index: SparseIndex) -> None:
    """Replace an index file.

    Raises:
        StorageError: the file still has its old content.
    """
    atomic_write(path, encode_index(facts, index), durable=False)


def _plain(facts: SegmentFacts) -> tuple[int, ...]:
    times = (facts.max_timestamp, facts.first_timestamp)
    return facts.base_offset, facts.size, facts.next_offset, *times, facts.aborted


def _is_consistent(facts: SegmentFacts, index: SparseIndex) -> bool:
    if not len(index):
        return facts.size == 0
    inside = index.positions[0] == 0 and index.positions[-1] < facts.size and index.offsets[-1] < facts.next_offset
    in_order = all(sorted(column) == column.tolist() for column in index.columns)
    return inside and index.offsets[0] >= facts.base_offset and in_order


def _little_endian(column: array[int], *, in_place: bool = False) -> array[int]:
    if sys.byteorder == "little":
        return column
    swapped = column if in_place else array("q", column)
    swapped.byteswap()
    return swapped
