"""The metadata of an Arrow IPC message, read from its flatbuffer by hand: no access leaves its bounds.

The format is Arrow's `Message.fbs` and `Schema.fbs`, version V5; flatbuffers are little-endian.
"""

from __future__ import annotations

import struct
from itertools import pairwise

from raftlog.errors import CorruptBatchError
from raftlog.record.batch import Buffer
from raftlog.record.layouts import Numbers, Positions, known_numbers, remember

_MESSAGE_RECORD_BATCH = 3
_VERSION_V5 = 4


def numbers_of(metadata: bytes, nodes: int, buffers: int) -> Numbers:
    """Return the numbers of a message's metadata.

    Raises:
        CorruptBatchError: the message says which part is wrong.
    """
    if (numbers := known_numbers(metadata, nodes, buffers)) is not None:
        return numbers
    numbers, at = walk(metadata, nodes, buffers)
    if at is not None:
        remember(metadata, at, numbers.codec, nodes, buffers)
    return numbers


def walk(metadata: bytes, nodes: int, buffers: int) -> tuple[Numbers, Positions | None]:
    """Return the flatbuffer's numbers and their positions; None if these overlap."""
    message = _Table(metadata, _unpack("<I", metadata, 0)[0])
    version, kind = message.scalar(0, "<h"), message.scalar(1, "<B")
    if version != _VERSION_V5 or kind != _MESSAGE_RECORD_BATCH:
        raise CorruptBatchError(f"expected an Arrow V5 RecordBatch message, received version {version}, kind {kind}")
    batch = message.table(2)
    if batch is None:
        raise CorruptBatchError("the payload has no record batch")
    if batch.field(4):
        raise CorruptBatchError("the payload's record batch has buffers of a type that no column has")
    nodes_at, node_numbers = batch.pairs(1, nodes)
    buffers_at, buffer_numbers = batch.pairs(2, buffers)
    compression = batch.table(3)
    if compression is not None and compression.scalar(1, "<b") != 0:
        raise CorruptBatchError("the payload is compressed by an unknown method")
    codec = None if compression is None else compression.scalar(0, "<b")
    numbers = Numbers(message.scalar(3, "<q"), batch.scalar(0, "<q"), node_numbers, buffer_numbers, codec)
    at = Positions(message.field(3), batch.field(0), nodes_at, buffers_at)
    spans = _spans(at, nodes, buffers)
    apart = min(at) > 0 and all(start + size <= after for (start, size), (after, _) in pairwise(spans))
    return numbers, at if apart else None


def _spans(at: Positions, nodes: int, buffers: int) -> list[tuple[int, int]]:
    """Return start and length of each group of numbers, in order."""
    return sorted(zip(at, (8, 8, 16 * nodes, 16 * buffers), strict=True))


class _Table:
    """A flatbuffer table: every access is checked against the metadata's bounds."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        (back,) = _unpack("<i", data, at)
        self._vtable = at - back
        (self._vtable_size,) = _unpack("<H", data, self._vtable)

    def field(self, number: int) -> int:
        """Return the position of a field; 0 when absent."""
        slot = 4 + 2 * number
        if slot + 2 > self._vtable_size:
            return 0
        (offset,) = _unpack("<H", self._data, self._vtable + slot)
        return self._at + int(offset) if offset else 0

    def scalar(self, number: int, layout: str) -> int:
        """Return a number; 0 when absent, the flatbuffers default."""
        at = self.field(number)
        return int(_unpack(layout, self._data, at)[0]) if at else 0

    def table(self, number: int) -> _Table | None:
        at = self.field(number)
        return _Table(self._data, at + _unpack("<I", self._data, at)[0]) if at else None

    def pairs(self, number: int, expected: int) -> tuple[int, tuple[int, ...]]:
        """Return the position and numbers of a vector of `expected` two-int64 structs."""
        at = self.field(number)
        at = at + _unpack("<I", self._data, at)[0] if at else 0
        (count,) = _unpack("<I", self._data, at) if at else (0,)
        if count != expected:
            raise CorruptBatchError(f"the payload does not fit the schema: expected {expected} entries, found {count}")
        return at + 4, _unpack(f"<{2 * count}q", self._data, at + 4)


def _unpack(layout: str, data: Buffer, at: int) -> tuple[int, ...]:
    if at < 0 or at + struct.calcsize(layout) > len(data):
        raise CorruptBatchError(f"the payload's metadata points outside itself: byte {at} of {len(data)}")
    return struct.unpack_from(layout, data, at)
