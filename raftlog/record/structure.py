"""Validation of an Arrow IPC message from an untrusted source, before pyarrow reads it.

pyarrow trusts the lengths inside an IPC message, and allocates the size that a compressed buffer declares. So the
message's own flatbuffer is checked first, by hand: every table, vector and buffer inside its bounds, every count and
declared size plausible. The work depends on the number of columns, not of records.

Messages of one writer differ only in 50 numbers at fixed positions. The positions are cached (`_Layout`): for a message
that equals a cached one everywhere else, the numbers are read and checked without walking the flatbuffer.

The format is Arrow's `Message.fbs` and `Schema.fbs`, version V5; flatbuffers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from raftlog.errors import CorruptBatchError
from raftlog.record.batch import ATTRIBUTE_COMPRESSION, HEADER_BYTES, BatchHeader, Buffer, iter_batches

_NODES = 7
"""timestamp, key, value, headers, its struct, and the struct's two fields; a compacted batch's offset_delta follows."""
_BUFFERS = 17
"""Validity, offsets and data of each node, as its type has them; a compacted batch has two more."""
_ENTRY_NODES = (4, 5, 6)
"""The nodes with one entry for each header; every other node has one for each record."""

_CONTINUATION = 0xFFFF_FFFF
_MESSAGE_RECORD_BATCH = 3
_VERSION_V5 = 4
_CODEC_OF_ATTRIBUTE = {1: 0, 2: 1}
"""Our attribute to Arrow's CompressionType: lz4 frame, zstd."""
_NOT_COMPRESSED = -1
_MAX_LAYOUTS = 64


class _Numbers(NamedTuple):
    """The numbers in a message's metadata that describe its body."""

    body_length: int
    rows: int
    nodes: tuple[int, ...]
    """Length and null count of each node."""
    buffers: tuple[int, ...]
    """Offset and length of each buffer in the body."""
    codec: int | None
    """None: not compressed."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """The positions of one writer's numbers, and the constant bytes between them."""

    constants: tuple[tuple[int, int, bytes], ...]
    """From, to (exclusive), and the bytes there."""
    at: tuple[int, int, int, int]
    """Positions of the body's length, the row count, the nodes and the buffers."""
    codec: int | None

    def read(self, metadata: bytes, nodes: int, buffers: int) -> _Numbers | None:
        """Return the numbers; None if the metadata differs in anything else."""
        for start, end, constant in self.constants:
            if metadata[start:end] != constant:
                return None
        body_at, rows_at, nodes_at, buffers_at = self.at
        return _Numbers(
            struct.unpack_from("<q", metadata, body_at)[0],
            struct.unpack_from("<q", metadata, rows_at)[0],
            struct.unpack_from(f"<{2 * nodes}q", metadata, nodes_at),
            struct.unpack_from(f"<{2 * buffers}q", metadata, buffers_at),
            self.codec,
        )


_layouts: dict[tuple[int, int], list[_Layout]] = {}
"""Cached layouts, by the metadata's length and the number of nodes; at most `_MAX_LAYOUTS` in all."""


def check_structure(header: BatchHeader, batch: Buffer) -> int:
    """Check the payload's message against the header, and return its uncompressed size in bytes.

    Raises:
        CorruptBatchError: the message says which part is wrong.
    """
    payload = memoryview(batch)[HEADER_BYTES : header.batch_length]
    marker, metadata_length = _unpack("<Ii", payload, 0)
    if marker != _CONTINUATION or metadata_length <= 0 or metadata_length % 8 or 8 + metadata_length > len(payload):
        raise CorruptBatchError(f"the payload is no Arrow IPC message: marker {marker:#x}, length {metadata_length}")
    nodes, buffers = (_NODES + 1, _BUFFERS + 2) if header.is_compacted else (_NODES, _BUFFERS)
    numbers = _numbers_of(bytes(payload[8 : 8 + metadata_length]), nodes, buffers)
    body = payload[8 + metadata_length :]
    if numbers.body_length != len(body):
        raise CorruptBatchError(f"the payload announces a body of {numbers.body_length} bytes, received {len(body)}")
    _check_nodes(numbers, header)
    return _check_buffers(numbers, body, header)


def unpacked_bytes(header: BatchHeader, batch: Buffer) -> int:
    """Return how many bytes a batch takes once it is unpacked: as many as it has, if it is not compressed.

    Raises:
        CorruptBatchError: its structure is wrong.
    """
    is_packed = header.attributes & ATTRIBUTE_COMPRESSION and not header.is_empty and not header.is_control
    return check_structure(header, batch) if is_packed else header.batch_length


def first_that_unpack_to(most: int, batches: Buffer) -> Buffer:
    """Return the first of some whole batches, at least one, whose uncompressed size is at most `most` bytes in total.

    A batch of 1 kB may decompress to 8 MiB, so the stored length is no bound.

    Raises:
        CorruptBatchError: a header or a structure is wrong.
    """
    total = at = 0
    for header, batch in iter_batches(batches):
        total += unpacked_bytes(header, batch)
        if at and total > most:
            return memoryview(batches)[:at]
        at += header.batch_length
    return batches


def _numbers_of(metadata: bytes, nodes: int, buffers: int) -> _Numbers:
    key = len(metadata), nodes
    for layout in _layouts.get(key, ()):
        if (found := layout.read(metadata, nodes, buffers)) is not None:
            return found
    numbers, at = _walk(metadata, nodes, buffers)
    if at is not None:
        if sum(map(len, list(_layouts.values()))) >= _MAX_LAYOUTS:  # A copy: several threads read batches.
            _layouts.clear()  # Layouts in use are cached again, so a client cannot block the cache with others.
        layout = _Layout(_between(metadata, at, nodes, buffers), at, numbers.codec)
        _layouts.setdefault(key, []).append(layout)
    return numbers


def _between(
    metadata: bytes, at: tuple[int, int, int, int], nodes: int, buffers: int
) -> tuple[tuple[int, int, bytes], ...]:
    """Return the constant parts of the metadata around the numbers."""
    taken = _spans(at, nodes, buffers)
    ends = [(0, 0), *((start, start + size) for start, size in taken), (len(metadata), len(metadata))]
    gaps = ((left[1], right[0]) for left, right in pairwise(ends))
    return tuple((start, end, metadata[start:end]) for start, end in gaps if start < end)


def _spans(at: tuple[int, int, int, int], nodes: int, buffers: int) -> list[tuple[int, int]]:
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


def _walk(metadata: bytes, nodes: int, buffers: int) -> tuple[_Numbers, tuple[int, int, int, int] | None]:
    """Return the flatbuffer's numbers and their positions; None if the positions may not be cached."""
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
    numbers = _Numbers(message.scalar(3, "<q"), batch.scalar(0, "<q"), node_numbers, buffer_numbers, codec)
    at = (message.field(3), batch.field(0), nodes_at, buffers_at)
    spans = _spans(at, nodes, buffers)
    apart = min(at) > 0 and all(start + size <= after for (start, size), (after, _) in pairwise(spans))
    return numbers, at if apart else None


def _check_nodes(numbers: _Numbers, header: BatchHeader) -> None:
    rows = numbers.rows
    if rows != header.record_count:
        raise CorruptBatchError(f"the header counts {header.record_count} records, the payload holds {rows}")
    lengths, nulls = numbers.nodes[::2], numbers.nodes[1::2]
    entries = lengths[_ENTRY_NODES[0]]
    for node, (length, null_count) in enumerate(zip(lengths, nulls, strict=True)):
        expected = entries if node in _ENTRY_NODES else rows
        if length != expected or not 0 <= null_count <= length:
            raise CorruptBatchError(f"the payload's columns do not have {rows} rows each: {numbers.nodes}")


def _check_buffers(numbers: _Numbers, body: memoryview, header: BatchHeader) -> int:
    offsets, lengths = numbers.buffers[::2], numbers.buffers[1::2]
    size = len(body)
    for offset, length in zip(offsets, lengths, strict=True):
        if offset < 0 or length < 0 or offset % 8 or offset + length > size:
            raise CorruptBatchError(f"a column's buffer lies outside the payload's body of {size} bytes")
    if sum(lengths) > size:
        raise CorruptBatchError("the payload's buffers overlap")
    attribute = header.attributes & ATTRIBUTE_COMPRESSION
    if numbers.codec is None:
        if attribute:
            raise CorruptBatchError(f"the header says compression {attribute}, the payload is not compressed")
        return size
    if _CODEC_OF_ATTRIBUTE.get(attribute) != numbers.codec:
        raise CorruptBatchError(f"the header says compression {attribute}, the payload says another")
    return _unpacked_size(offsets, lengths, body)


def _unpacked_size(offsets: Sequence[int], lengths: Sequence[int], body: memoryview) -> int:
    total = 0
    for offset, length in zip(offsets, lengths, strict=True):
        if length == 0:
            continue
        if length < 8:
            raise CorruptBatchError("a compressed buffer is too short to state its size")
        (declared,) = struct.unpack_from("<q", body, offset)
        if declared < _NOT_COMPRESSED:
            raise CorruptBatchError(f"a compressed buffer states a size of {declared} bytes")
        total += length - 8 if declared == _NOT_COMPRESSED else declared
    return total
