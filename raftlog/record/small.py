"""The payload of a few small records without headers, written from a template: byte for byte what pyarrow writes.

Arrow objects for so few records cost more than their bytes. The metadata of such a payload differs only in numbers that
follow from how many records there are, and from the lengths of their keys and values.

The encoding is canonical. A payload that equals the encoding of what it contains is valid, and needs no other check.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import NamedTuple

from raftlog.record.batch import ALIGNMENT, Buffer
from raftlog.record.model import NewRecord, RecordColumns
from raftlog.record.structure import places_in

MOST_RECORDS = 32
"""More records go through Arrow, which costs the same whatever their number."""
LARGEST_BYTES = 16 << 10
"""Larger columns and payloads go through Arrow: copying them costs more than Arrow's objects."""
_NULL = -1
"""The length of a column of nulls."""
_KEY_NODE, _VALUE_NODE = 1, 2
"""The numbers of the columns key and value among the metadata's nodes."""
_KEY_DATA, _VALUE_DATA = 4, 7
"""The numbers of their data among its buffers."""
_INT64 = struct.Struct("<q")
_TIMESTAMPS = [struct.Struct(f"<{count}q") for count in range(MOST_RECORDS + 1)]
_OFFSETS = [struct.Struct(f"<{count + 1}i") for count in range(MOST_RECORDS + 1)]


class FewRecords(NamedTuple):
    """At most `MOST_RECORDS` records without headers, by column."""

    timestamps: Sequence[int]
    keys: Sequence[bytes] | None
    """None: all are null."""
    values: Sequence[bytes] | None


def one_record(records: object) -> tuple[int, bytes | None, bytes | None] | None:
    """Return timestamp, key and value of a record whose payload `encode_one` can write; None: there are others."""
    if isinstance(records, RecordColumns):
        if len(records.values) != 1 or records.headers is not None:
            return None
        key = None if records.keys is None else records.keys[0]
        value, timestamp = records.values[0], records.timestamps[0]
    else:
        if not isinstance(records, list | tuple) or len(records) != 1 or type(records[0]) is not NewRecord:
            return None
        (record,) = records
        if record.headers:
            return None
        key, value, timestamp = record.key, record.value, record.timestamp
    if not (_is_small(key) and _is_small(value)) or type(timestamp) is not int or not -(1 << 63) <= timestamp < 1 << 63:
        return None
    return timestamp, key, value


def few_records(records: object) -> FewRecords | None:
    """Return records whose payload `encode` can write; None: it cannot."""
    if (
        not isinstance(records, RecordColumns)
        or records.headers is not None
        or not 0 < len(records.values) <= MOST_RECORDS
    ):
        return None
    keys, values = records.keys, records.values
    if not ((keys is None or _are_small(keys)) and _are_small(values)):
        return None
    return FewRecords(records.timestamps, _unless_null(keys), _unless_null(values))


def _is_small(value: object) -> bool:
    return value is None or (type(value) is bytes and len(value) <= LARGEST_BYTES)


def _are_small(column: Sequence[object]) -> bool:
    """Return whether a column is small, and has either nulls only or none."""
    kinds = set(map(type, column))
    return kinds == {type(None)} or (kinds == {bytes} and sum(map(len, column)) <= LARGEST_BYTES)  # type: ignore[arg-type]


def _unless_null(column: Sequence[bytes | None] | None) -> Sequence[bytes] | None:
    return None if column is None or column[0] is None else column  # type: ignore[return-value]


def newest_of_few(payload: Buffer, count: int) -> int | None:
    """Return the newest timestamp of `count` records in a payload that `encode` could have returned; None: any other.

    The time it takes grows with `MOST_RECORDS` and `LARGEST_BYTES`, not with what the payload says.
    """
    if not 0 < count <= MOST_RECORDS or not _body_at() < len(payload) <= LARGEST_BYTES:
        return None
    content = bytes(payload)
    lengths = _lengths_in(content)
    if max(lengths) > LARGEST_BYTES or min(lengths) < _NULL:
        return None
    shape = _shape_of(count, *lengths)
    if len(content) != shape.end or not content.startswith(shape.prefix):
        return None
    if any(content[start:end] != zeros for start, end, zeros in shape.zeros):
        return None
    for at, length in shape.columns:
        offsets = _OFFSETS[count].unpack_from(content, at)
        if offsets[0] or offsets[-1] != length or any(map(operator.gt, offsets, offsets[1:])):
            return None
    newest: int = max(_TIMESTAMPS[count].unpack_from(content, _body_at()))
    return newest


def _lengths_in(content: bytes) -> list[int]:
    """Return the lengths of all keys and of all values by the metadata, which may be wrong."""
    template = _template()
    lengths = list[int]()
    for node, data in ((_KEY_NODE, _KEY_DATA), (_VALUE_NODE, _VALUE_DATA)):
        (nulls,) = _INT64.unpack_from(content, template.nodes_at + 16 * node + 8)
        (length,) = _INT64.unpack_from(content, template.buffers_at + 16 * data + 8)
        lengths.append(_NULL if nulls else length)
    return lengths


def encode(timestamps: Sequence[int], keys: Sequence[bytes] | None, values: Sequence[bytes] | None) -> bytes:
    """Return the payload of a few records without headers; None for a column of nulls."""
    count = len(timestamps)
    key_bytes = _NULL if keys is None else sum(map(len, keys))
    value_bytes = _NULL if values is None else sum(map(len, values))
    parts = (
        _shape_of(count, key_bytes, value_bytes).prefix,
        _TIMESTAMPS[count].pack(*timestamps),
        _column(keys, count),
        _column(values, count),
        _no_headers(count),
    )
    return b"".join(parts)


def encode_one(timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """Return the payload of a record without headers."""
    lengths = (_NULL if key is None else len(key), _NULL if value is None else len(value))
    prefix = _shape_of(1, *lengths).prefix
    return b"".join((prefix, _INT64.pack(timestamp), _part(key), _part(value), _no_headers(1)))


def _part(value: bytes | None) -> bytes:
    """Return what `_column` does for a single value, by fewer steps: for a record alone each of them runs cold."""
    if value is None:
        return _null_column(1)
    length = len(value)
    return _OFFSETS[1].pack(0, length) + value + bytes(-length % ALIGNMENT)


def _column(column: Sequence[bytes] | None, count: int) -> bytes:
    """Return the buffers of a column: offsets and data, or validity and offsets of nulls."""
    if column is None:
        return _null_column(count)
    data = b"".join(column)
    offsets = _OFFSETS[count].pack(0, *accumulate(map(len, column)))
    return b"".join((offsets, bytes(-len(offsets) % ALIGNMENT), data, bytes(-len(data) % ALIGNMENT)))


@cache
def _null_column(count: int) -> bytes:
    return bytes(_aligned(_bitmap_bytes(count)) + _aligned(_OFFSETS[count].size))


@cache
def _no_headers(count: int) -> bytes:
    """Return validity and offsets of the headers, and the offsets of their keys and values."""
    return _null_column(count) + bytes(16)


class _Shape(NamedTuple):
    """What the number of records and the lengths of all their keys and all their values say about a payload."""

    prefix: bytes
    """What comes before the body."""
    end: int
    """The payload's length."""
    columns: tuple[tuple[int, int], ...]
    """Where the offsets of a column with contents are, and the last offset."""
    zeros: tuple[tuple[int, int, bytes], ...]
    """Begin and end of what must be zero, and as many zeros: columns of nulls, what aligns others, the headers."""


@lru_cache(maxsize=256)
def _shape_of(count: int, key_bytes: int, value_bytes: int) -> _Shape:
    buffers, body_bytes = _buffers(count, key_bytes, value_bytes)
    offset_bytes, at = _OFFSETS[count].size, _body_at() + 8 * count
    columns, zeros = list[tuple[int, int]](), list[tuple[int, int, bytes]]()

    def must_be_zero(start: int, end: int) -> int:
        if end > start:
            zeros.append((start, end, bytes(end - start)))
        return end

    for length in (key_bytes, value_bytes):
        if length == _NULL:
            at = must_be_zero(at, at + len(_null_column(count)))
            continue
        columns.append((at, length))
        at = must_be_zero(at + offset_bytes, at + _aligned(offset_bytes)) + length
        at = must_be_zero(at, at + -length % ALIGNMENT)
    end = must_be_zero(at, at + len(_no_headers(count)))
    assert end == _body_at() + body_bytes
    return _Shape(_prefix(count, key_bytes, value_bytes, buffers, body_bytes), end, tuple(columns), tuple(zeros))


def _prefix(count: int, key_bytes: int, value_bytes: int, buffers: Sequence[int], body_bytes: int) -> bytes:
    template = _template()
    prefix = bytearray(template.prefix)
    _INT64.pack_into(prefix, template.body_length_at, body_bytes)
    _INT64.pack_into(prefix, template.rows_at, count)
    struct.pack_into(f"<{len(buffers)}q", prefix, template.buffers_at, *buffers)
    key_nulls, value_nulls = (count if length == _NULL else 0 for length in (key_bytes, value_bytes))
    nodes = (count, 0, count, key_nulls, count, value_nulls, count, count)
    struct.pack_into(f"<{len(nodes)}q", prefix, template.nodes_at, *nodes)
    return bytes(prefix)


def _buffers(count: int, key_bytes: int, value_bytes: int) -> tuple[list[int], int]:
    """Return offset and length of each of the 17 buffers, and the length of the body."""
    bitmap, offsets = _bitmap_bytes(count), _OFFSETS[count].size
    lengths = [0, 8 * count]  # The timestamps: validity and data.
    for length in (key_bytes, value_bytes):
        lengths += [bitmap, offsets, 0] if length == _NULL else [0, offsets, length]
    lengths += [bitmap, offsets, 0, 0, 4, 0, 0, 4, 0]  # Null headers; their entries, keys and values.
    buffers, end = list[int](), 0
    for length in lengths:
        buffers += [end, length]
        end += _aligned(length)
    return buffers, end


def _aligned(length: int) -> int:
    return length + -length % ALIGNMENT


def _bitmap_bytes(count: int) -> int:
    return -(-count // 8)


class _Template(NamedTuple):
    """What comes before the body as pyarrow writes it, and the positions of its numbers in it."""

    prefix: bytes
    body_length_at: int
    rows_at: int
    nodes_at: int
    buffers_at: int


@cache
def _template() -> _Template:
    from raftlog.record.arrow import encode_rows, rows_to_write  # noqa: PLC0415  (it imports this module)

    payload = bytes(encode_rows(rows_to_write([NewRecord(b"", timestamp=1)]), None))
    return _Template(payload[: -_buffers(1, _NULL, 0)[1]], *places_in(payload))


def payload_bytes(key_bytes: int, value_bytes: int) -> int:
    """Return the length of the payload of one record for these lengths of key and value; -1: null."""
    return _body_at() + _buffers(1, key_bytes, value_bytes)[1]


def _body_at() -> int:
    return len(_template().prefix)
