"""Full validation of one batch from an untrusted producer: what passes here cannot hurt a consumer's pyarrow.

pyarrow trusts the lengths inside an IPC message, and allocates what a compressed buffer claims to need. So the
message's own flatbuffer is checked first, by hand: every table, vector and buffer inside its bounds, every count and
declared size plausible. Only then does pyarrow decode it, and check offsets, UTF-8 and null counts. The work depends
on the number of columns, not of records, up to there.

The layout is Arrow's `Message.fbs` and `Schema.fbs`, format version V5; flatbuffers are little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_ID
from raftlog.record.arrow import to_arrow
from raftlog.record.batch import (
    ATTRIBUTE_COMPRESSION,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    parse_header,
    verify_payload_crc,
)
from raftlog.record.compute import pc

_NODES = 7
"""timestamp, key, value, headers, its struct, and the struct's two fields."""
_BUFFERS = 17
"""Validity, offsets and data of each node, as its type has them."""
_ROW_NODES = 4
"""The first four nodes have one entry for each record."""

_CONTINUATION = 0xFFFF_FFFF
_MESSAGE_RECORD_BATCH = 3
_VERSION_V5 = 4
_CODEC_OF_ATTRIBUTE = {1: 0, 2: 1}
"""Our attribute to Arrow's CompressionType: lz4 frame, zstd."""
_NOT_COMPRESSED = -1


def validate_batch(buffer: Buffer, *, max_message_bytes: int) -> BatchHeader:
    """Check that `buffer` is exactly one sound batch, stored and unpacked within `max_message_bytes`.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE.
        CorruptBatchError: says which part is wrong.
    """
    header = parse_header(buffer)
    _require_size(header.batch_length, max_message_bytes, "the batch")
    if header.batch_length != len(buffer):
        raise CorruptBatchError(f"the header announces a batch of {header.batch_length} bytes, received {len(buffer)}")
    if header.last_offset_delta != header.record_count - 1:
        raise CorruptBatchError(
            f"last_offset_delta must be record_count - 1: received {header.last_offset_delta}, {header.record_count}"
        )
    if header.is_control or header.is_compacted:
        raise CorruptBatchError("control and compacted batches cannot be produced by a client")
    if header.is_transactional and header.producer_id == NO_PRODUCER_ID:
        raise CorruptBatchError("a transactional batch names its producer, received none")
    verify_payload_crc(header, buffer)
    _check_message(memoryview(buffer)[HEADER_BYTES:], header, max_message_bytes)
    _check_rows(to_arrow(header, buffer), header)
    return header


def require_keys(header: BatchHeader, batch: Buffer) -> None:
    """Check that every record has a key, as compaction needs. `batch` was validated.

    Raises:
        InvalidRequestError: INVALID_RECORD.
    """
    keys = to_arrow(header, batch).column(1)
    if keys.null_count:
        first = pc.index(keys.is_null(), True).as_py()
        raise InvalidRequestError(
            f"the topic is compacted, so every record needs a key: record {first} of the batch's {len(keys)} has none; "
            "nothing was appended",
            code=ErrorCode.INVALID_RECORD,
            details={"record": first, "without_key": keys.null_count},
        )


def _require_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise InvalidRequestError(
            f"{what} has {size} bytes, the topic's max_message_bytes is {limit}: send smaller batches",
            code=ErrorCode.MESSAGE_TOO_LARGE,
            details={"max_message_bytes": limit, "received": size},
        )


class _Table:
    """A flatbuffer table: every access is checked against the metadata's bounds."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        (back,) = _unpack("<i", data, at)
        self._vtable = at - back
        (self._vtable_size,) = _unpack("<H", data, self._vtable)

    def _field(self, number: int) -> int:
        slot = 4 + 2 * number
        if slot + 2 > self._vtable_size:
            return 0
        (offset,) = _unpack("<H", self._data, self._vtable + slot)
        return self._at + int(offset) if offset else 0

    def scalar(self, number: int, layout: str) -> int:
        """Return a number; 0 when absent, as flatbuffers say."""
        at = self._field(number)
        return int(_unpack(layout, self._data, at)[0]) if at else 0

    def table(self, number: int) -> _Table | None:
        at = self._field(number)
        return _Table(self._data, at + _unpack("<I", self._data, at)[0]) if at else None

    def pairs(self, number: int, expected: int) -> list[tuple[int, int]]:
        """Return a vector of two-int64 structs, of a known length."""
        at = self._field(number)
        at = at + _unpack("<I", self._data, at)[0] if at else 0
        (count,) = _unpack("<I", self._data, at) if at else (0,)
        if count != expected:
            raise CorruptBatchError(f"the payload does not fit the schema: expected {expected} entries, found {count}")
        numbers = _unpack(f"<{2 * count}q", self._data, at + 4)
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def _unpack(layout: str, data: memoryview, at: int) -> tuple[int, ...]:
    if at < 0 or at + struct.calcsize(layout) > len(data):
        raise CorruptBatchError(f"the payload's metadata points outside itself: byte {at} of {len(data)}")
    return struct.unpack_from(layout, data, at)


def _check_message(payload: memoryview, header: BatchHeader, max_message_bytes: int) -> None:
    marker, metadata_length = _unpack("<Ii", payload, 0)
    if marker != _CONTINUATION or metadata_length <= 0 or metadata_length % 8 or 8 + metadata_length > len(payload):
        raise CorruptBatchError(f"the payload is no Arrow IPC message: marker {marker:#x}, length {metadata_length}")
    metadata, body = payload[8 : 8 + metadata_length], payload[8 + metadata_length :]
    message = _Table(metadata, _unpack("<I", metadata, 0)[0])
    version, kind = message.scalar(0, "<h"), message.scalar(1, "<B")
    if version != _VERSION_V5 or kind != _MESSAGE_RECORD_BATCH:
        raise CorruptBatchError(f"expected an Arrow V5 RecordBatch message, received version {version}, kind {kind}")
    if (body_length := message.scalar(3, "<q")) != len(body):
        raise CorruptBatchError(f"the payload announces a body of {body_length} bytes, received {len(body)}")
    batch = message.table(2)
    if batch is None:
        raise CorruptBatchError("the payload has no record batch")
    _check_nodes(batch, header)
    _check_buffers(batch, body, header, max_message_bytes)


def _check_nodes(batch: _Table, header: BatchHeader) -> None:
    if (rows := batch.scalar(0, "<q")) != header.record_count:
        raise CorruptBatchError(f"the header counts {header.record_count} records, the payload holds {rows}")
    nodes = batch.pairs(1, _NODES)
    if any(not 0 <= nulls <= length for length, nulls in nodes) or any(
        length != rows for length, _ in nodes[:_ROW_NODES]
    ):
        raise CorruptBatchError(f"the payload's columns do not have {rows} rows each: {nodes}")


def _check_buffers(batch: _Table, body: memoryview, header: BatchHeader, max_message_bytes: int) -> None:
    buffers = batch.pairs(2, _BUFFERS)
    if any(offset < 0 or length < 0 or offset % 8 or offset + length > len(body) for offset, length in buffers):
        raise CorruptBatchError(f"a column's buffer lies outside the payload's body of {len(body)} bytes")
    if sum(length for _, length in buffers) > len(body):
        raise CorruptBatchError("the payload's buffers overlap")
    compression = batch.table(3)
    codec = header.attributes & ATTRIBUTE_COMPRESSION
    if compression is None:
        if codec:
            raise CorruptBatchError(f"the header says compression {codec}, the payload is not compressed")
        return
    if _CODEC_OF_ATTRIBUTE.get(codec) != compression.scalar(0, "<b") or compression.scalar(1, "<b") != 0:
        raise CorruptBatchError(f"the header says compression {codec}, the payload says another")
    _require_size(HEADER_BYTES + _unpacked_size(buffers, body), max_message_bytes, "the unpacked batch")


def _unpacked_size(buffers: Sequence[tuple[int, int]], body: memoryview) -> int:
    total = 0
    for offset, length in buffers:
        if length == 0:
            continue
        if length < 8:
            raise CorruptBatchError("a compressed buffer is too short to state its size")
        (declared,) = struct.unpack_from("<q", body, offset)
        if declared < _NOT_COMPRESSED:
            raise CorruptBatchError(f"a compressed buffer states a size of {declared} bytes")
        total += length - 8 if declared == _NOT_COMPRESSED else declared
    return total


def _check_rows(rows: pa.RecordBatch, header: BatchHeader) -> None:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptBatchError(f"the payload is damaged: {error}") from None
    timestamps, headers = rows.column(0), rows.column(3)
    entries = headers.values
    if timestamps.null_count or entries.null_count or entries.field(0).null_count:
        raise CorruptBatchError("a timestamp, a header or a header's key is null")
    if (newest := pc.max(timestamps).value) != header.max_timestamp:
        raise CorruptBatchError(f"max_timestamp is {header.max_timestamp}, the newest record has {newest}")
