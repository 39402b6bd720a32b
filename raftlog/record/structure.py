"""Validation of an Arrow IPC message from an untrusted source, before pyarrow reads it.

pyarrow trusts the lengths inside an IPC message, and allocates the size that a compressed buffer declares. So the
message's own flatbuffer is checked first, by hand: every table, vector and buffer inside its bounds, every count and
declared size plausible. The work depends on the number of columns, not of records.

Most messages are known (`layouts.py`), and most batches are ordinary (`ordinary.py`): they need neither a walk through
the flatbuffer (`ipc_message.py`) nor a validation of each column.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections.abc import Sequence

from raftlog.errors import CorruptBatchError
from raftlog.record.batch import (
    ATTRIBUTE_COMPACTED,
    ATTRIBUTE_COMPRESSION,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
)
from raftlog.record.ipc_message import numbers_of, walk
from raftlog.record.layouts import BUFFERS, NODES, Numbers, Positions
from raftlog.record.ordinary import columns_with_contents

_ENTRY_NODES = (4, 5, 6)
"""The nodes with one entry for each header; every other node has one for each record."""

_PREFIX = struct.Struct("<Ii")
_CONTINUATION = 0xFFFF_FFFF
_CODEC_OF_ATTRIBUTE = {1: 0, 2: 1}
"""Our attribute to Arrow's CompressionType: lz4 frame, zstd."""
_NOT_COMPRESSED = -1


def check_structure(header: BatchHeader, batch: Buffer) -> tuple[int, tuple[int, ...] | None]:
    """Check the payload's message against the header.

    Returns:
    The uncompressed size in bytes, and the columns that have to be validated; None: all, with those below the headers.

    Raises:
        CorruptBatchError: the message says which part is wrong.
    """
    payload = memoryview(batch)[HEADER_BYTES : header.batch_length]
    marker, metadata_length = _PREFIX.unpack_from(payload) if len(payload) >= _PREFIX.size else (0, 0)
    if marker != _CONTINUATION or metadata_length <= 0 or metadata_length % 8 or 8 + metadata_length > len(payload):
        raise CorruptBatchError(f"the payload is no Arrow IPC message: marker {marker:#x}, length {metadata_length}")
    metadata, body = bytes(payload[8 : 8 + metadata_length]), payload[8 + metadata_length :]
    if not header.attributes & (ATTRIBUTE_COMPRESSION | ATTRIBUTE_COMPACTED):
        columns = columns_with_contents(metadata, body, header.record_count)
        if columns is not None:
            return len(body), columns
    nodes, buffers = (NODES + 1, BUFFERS + 2) if header.is_compacted else (NODES, BUFFERS)
    numbers = numbers_of(metadata, nodes, buffers)
    if numbers.body_length != len(body):
        raise CorruptBatchError(f"the payload announces a body of {numbers.body_length} bytes, received {len(body)}")
    _check_nodes(numbers, header)
    return _check_buffers(numbers, body, header), None


def places_in(payload: bytes) -> Positions:
    """Return where a payload of our own has the body's length, the row count, the nodes and the buffers."""
    _, metadata_length = _PREFIX.unpack_from(payload)
    _, at = walk(payload[_PREFIX.size : _PREFIX.size + metadata_length], NODES, BUFFERS)
    assert at is not None
    return Positions(*(_PREFIX.size + place for place in at))


def _check_nodes(numbers: Numbers, header: BatchHeader) -> None:
    rows = numbers.rows
    if rows != header.record_count:
        raise CorruptBatchError(f"the header counts {header.record_count} records, the payload holds {rows}")
    lengths, nulls = numbers.nodes[::2], numbers.nodes[1::2]
    entries = lengths[_ENTRY_NODES[0]]
    expected = (rows,) * 4 + (entries,) * 3 + (rows,) * (len(lengths) - NODES)
    if lengths != expected or min(nulls) < 0 or any(map(operator.gt, nulls, lengths)):
        raise CorruptBatchError(f"the payload's columns do not have {rows} rows each: {numbers.nodes}")


def _check_buffers(numbers: Numbers, body: memoryview, header: BatchHeader) -> int:
    offsets, lengths = numbers.buffers[::2], numbers.buffers[1::2]
    size = len(body)
    is_outside = min(numbers.buffers) < 0 or max(map(operator.add, offsets, lengths)) > size
    if is_outside or functools.reduce(operator.or_, offsets) % 8:
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
