"""The short form of a batch: one record without headers, and without Arrow's metadata, which takes 530 bytes.

The payload is `i32 key length | i32 value length | key | value`, little-endian, and zero bytes up to a multiple of 8.
The length -1 means null. The record's timestamp is the header's `max_timestamp`. See docs/adr/0045.
"""

from __future__ import annotations

import struct

from raftlog.errors import CorruptBatchError
from raftlog.record.batch import ALIGNMENT, HEADER_BYTES, BatchHeader, Buffer
from raftlog.record.small import encode_one, payload_bytes

_LENGTHS = struct.Struct("<ii")
_NULL = -1


def encode_short(key: bytes | None, value: bytes | None) -> bytes:
    """Return the payload of a short batch."""
    lengths = _LENGTHS.pack(_NULL if key is None else len(key), _NULL if value is None else len(value))
    content = lengths + (key or b"") + (value or b"")
    return content + bytes(-len(content) % ALIGNMENT)


def read_short(header: BatchHeader, batch: Buffer) -> tuple[bytes | None, bytes | None]:
    """Return the key and the value of a short batch.

    Raises:
        CorruptBatchError: the payload is not one that `encode_short` returns.
    """
    payload = bytes(memoryview(batch)[HEADER_BYTES : header.batch_length])
    key_bytes, value_bytes = _LENGTHS.unpack_from(payload)
    value_at = _LENGTHS.size + max(0, key_bytes)
    end = value_at + max(0, value_bytes)
    if min(key_bytes, value_bytes) < _NULL or end + -end % ALIGNMENT != len(payload) or any(payload[end:]):
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: a short batch with a key of {key_bytes} bytes and a value of "
            f"{value_bytes} has another payload than the {len(payload)} bytes received"
        )
    key = None if key_bytes == _NULL else payload[_LENGTHS.size : value_at]
    return key, None if value_bytes == _NULL else payload[value_at:end]


def as_arrow(header: BatchHeader, batch: Buffer) -> bytes:
    """Return the payload that the batch would have without the short form: an Arrow IPC message.

    Raises:
        CorruptBatchError: the payload is damaged.
    """
    return encode_one(header.max_timestamp, *read_short(header, batch))


def arrow_bytes(header: BatchHeader, batch: Buffer) -> int:
    """Return the size of the batch without the short form, its header included.

    Raises:
        CorruptBatchError: the payload is damaged.
    """
    key, value = read_short(header, batch)
    return HEADER_BYTES + payload_bytes(_NULL if key is None else len(key), _NULL if value is None else len(value))
