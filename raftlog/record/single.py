"""The payload of one record without headers, written from a template: byte for byte what pyarrow writes.

Arrow objects for one record cost ten times as much as its bytes. The metadata of such a payload differs only in numbers
that follow from the lengths of key and value, so each pair of lengths has a constant prefix.

The encoding is canonical. A payload that equals the encoding of what it contains is valid, and needs no other check.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import NamedTuple

from raftlog.record.batch import Buffer
from raftlog.record.model import NewRecord, RecordColumns
from raftlog.record.structure import places_in

LARGEST_BYTES = 16 << 10
"""Larger keys, values and payloads go through Arrow: copying them costs more than Arrow's objects."""
_NULL = -1
"""The length of a key or value that is null."""
_NODES = (1, 2)
"""The numbers of the columns key and value in the metadata."""
_INT64 = struct.Struct("<q")
_OFFSETS = struct.Struct("<ii")
_NO_HEADERS = bytes(32)
"""Validity and offsets of the headers, and the offsets of their keys and values."""
_NULL_PART = bytes(16)
"""Validity and offsets."""


def single_record(records: object) -> tuple[int, bytes | None, bytes | None] | None:
    """Return timestamp, key and value of one record without headers; None: there are others, or one is too large."""
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
    if not (_is_plain(key) and _is_plain(value)) or type(timestamp) is not int or not -(1 << 63) <= timestamp < 1 << 63:
        return None
    return timestamp, key, value


def timestamp_of_single(payload: Buffer) -> int | None:
    """Return the timestamp of the record in a payload that `encode` could have returned; None: any other one."""
    view = memoryview(payload)
    template = _template()
    if not len(template.prefix) + _body_bytes(0, 0) <= len(view) <= LARGEST_BYTES:
        return None
    (timestamp,) = _INT64.unpack_from(view, at := len(template.prefix))
    at += _INT64.size
    parts = list[bytes | None]()
    for node in _NODES:
        (is_null,) = _INT64.unpack_from(view, template.nodes_at + 16 * node + 8)
        if (part := None if is_null else _read_part(view, at)) is None and not is_null:
            return None
        parts.append(part)
        at += len(_part(part))
    return timestamp if view == encode(timestamp, *parts) else None


def _read_part(view: memoryview, at: int) -> bytes | None:
    """Return a key or value whose offsets are at `at`; None if they point outside."""
    begin = at + _OFFSETS.size
    if begin > len(view):
        return None
    _, length = _OFFSETS.unpack_from(view, at)
    return bytes(view[begin : begin + length]) if 0 <= length <= len(view) - begin else None


def _is_plain(value: object) -> bool:
    return value is None or (type(value) is bytes and len(value) <= LARGEST_BYTES)


def encode(timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    """Return the payload of a record without headers."""
    lengths = (_NULL if key is None else len(key), _NULL if value is None else len(value))
    return b"".join((_prefix(*lengths), _INT64.pack(timestamp), _part(key), _part(value), _NO_HEADERS))


def _part(value: bytes | None) -> bytes:
    """Return the buffers of a column: offsets and data, or validity and offsets of a null."""
    if value is None:
        return _NULL_PART
    length = len(value)
    return _OFFSETS.pack(0, length) + value + bytes(-length % 8)


@lru_cache(maxsize=256)
def _prefix(key_bytes: int, value_bytes: int) -> bytes:
    """Return what comes before the body, for these lengths of key and value."""
    template = _template()
    prefix = bytearray(template.prefix)
    buffers, end = _buffers(key_bytes, value_bytes)
    _INT64.pack_into(prefix, template.body_length_at, end)
    struct.pack_into(f"<{len(buffers)}q", prefix, template.buffers_at, *buffers)
    for node, length in zip(_NODES, (key_bytes, value_bytes), strict=True):
        _INT64.pack_into(prefix, template.nodes_at + 16 * node + 8, int(length == _NULL))
    return bytes(prefix)


def _buffers(key_bytes: int, value_bytes: int) -> tuple[list[int], int]:
    """Return offset and length of each of the 17 buffers, and the length of the body."""
    lengths = [0, 8]  # The timestamp: validity and data.
    for length in (key_bytes, value_bytes):
        lengths += [1, 8, 0] if length == _NULL else [0, 8, length]
    lengths += [1, 8, 0, 0, 4, 0, 0, 4, 0]  # Null headers; their entries, keys and values.
    buffers, end = list[int](), 0
    for length in lengths:
        buffers += [end, length]
        end += length + -length % 8
    return buffers, end


class _Template(NamedTuple):
    """What comes before the body as pyarrow writes it, and the positions of its numbers in it."""

    prefix: bytes
    body_length_at: int
    nodes_at: int
    buffers_at: int


@cache
def _template() -> _Template:
    from raftlog.record.arrow import encode_rows, rows_to_write  # noqa: PLC0415  (it imports this module)

    payload = bytes(encode_rows(rows_to_write([NewRecord(b"", timestamp=1)]), None))
    body_length_at, _, nodes_at, buffers_at = places_in(payload)
    return _Template(payload[: -_body_bytes(_NULL, 0)], body_length_at, nodes_at, buffers_at)


def payload_bytes(key_bytes: int, value_bytes: int) -> int:
    """Return the length of a payload for these lengths of key and value; -1: null."""
    return len(_template().prefix) + _body_bytes(key_bytes, value_bytes)


def _body_bytes(key_bytes: int, value_bytes: int) -> int:
    return _buffers(key_bytes, value_bytes)[1]
