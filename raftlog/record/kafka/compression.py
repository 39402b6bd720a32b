"""Unpacking of records, bounded before memory is allocated.

- gzip: zlib stops at the limit. Producers send one member; each further one would be copied with all that follow.
- snappy: a block states its size, which is checked first. Java's clients send xerial's framing of blocks.
- lz4 frames and zstd: pyarrow streams them, up to the limit.
"""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record.batch import Buffer
from raftlog.record.kafka.header import GZIP, LZ4, NONE, SNAPPY, ZSTD, invalid

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_BLOCK = struct.Struct(">i")
_GZIP_WINDOW = 31
"""zlib's `wbits` for a gzip header and the largest window."""
_MAX_SNAPPY_RATIO = 64
"""A snappy block cannot unpack to more than this times its length: 64 bytes are copied by 2 or 3."""
_STREAM_OF = {LZ4: "lz4", ZSTD: "zstd"}
_LEAST_CHUNK_BYTES, _CHUNK_BYTES = 1 << 10, 1 << 20


def unpack(packed: Buffer, compression: int, *, most: int) -> Buffer:
    """Return unpacked records.

    Args:
        most: the limit of their size, in bytes.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE; INVALID_RECORD: they cannot be unpacked.
    """
    if len(packed) > most:  # Also compressed: a block may be all head, and millions of them take long.
        raise too_large(most)
    if compression == NONE:
        return packed
    try:
        if compression == GZIP:
            return _gzip(packed, most)
        if compression == SNAPPY:
            return _snappy(packed, most)
        return _streamed(packed, _STREAM_OF[compression], most)
    except pa.ArrowMemoryError as error:
        raise MemoryError(str(error)) from None  # Not an error of the records.
    except (zlib.error, pa.ArrowException, OSError) as error:
        raise invalid(f"the compressed records cannot be unpacked: {error}") from None


def _gzip(packed: Buffer, most: int) -> Buffer:
    member = zlib.decompressobj(_GZIP_WINDOW)
    unpacked = member.decompress(packed, most + 1)
    if len(unpacked) > most:
        raise too_large(most)
    if not member.eof or member.unused_data:
        raise invalid("the records are not one gzip stream")
    return unpacked


def _snappy(packed: Buffer, most: int) -> Buffer:
    view = memoryview(packed)
    if bytes(view[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(view, most)
    unpacked, at = bytearray(), _XERIAL_HEADER_BYTES
    while at < len(view):
        if at + _BLOCK.size > len(view):
            raise invalid("a snappy block's length is cut")
        (size,) = _BLOCK.unpack_from(view, at)
        at += _BLOCK.size
        if not 0 <= size <= len(view) - at:
            raise invalid(f"a snappy block states {size} bytes, {len(view) - at} are left")
        unpacked += _snappy_block(view[at : at + size], most - len(unpacked))
        at += size
    return unpacked


def _snappy_block(block: memoryview, most: int) -> Buffer:
    size = _stated_size(block)
    if size > _MAX_SNAPPY_RATIO * len(block):
        raise invalid(f"a snappy block of {len(block)} bytes states an impossible size of {size}")
    if size > most:
        raise too_large(most)
    unpacked = pa.decompress(block, decompressed_size=size, codec="snappy")
    return memoryview(unpacked).cast("B")  # Arrow's buffers have signed bytes.


def _stated_size(block: memoryview) -> int:
    size = 0
    for number, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            return size
    raise invalid("a snappy block does not state its size")


def _streamed(packed: Buffer, codec: str, most: int) -> Buffer:
    unpacked, chunk = bytearray(), bytearray(min(_CHUNK_BYTES, most + 1, _LEAST_CHUNK_BYTES + 4 * len(packed)))
    with pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(packed)), codec) as stream:
        # Not `read`: it never frees the bytes for its result when the stream is damaged (pyarrow 26).
        while size := stream.readinto(chunk):
            unpacked += memoryview(chunk)[:size]
            if len(unpacked) > most:
                raise too_large(most)
    return unpacked


def too_large(most: int) -> InvalidRequestError:
    """Return the error for records of more than `most` unpacked bytes."""
    return InvalidRequestError(
        f"the unpacked records have more than {most} bytes, which are left of the topic's max_message_bytes or of the "
        "broker's max_request_bytes: send smaller batches; the limits are of unpacked records, unlike Kafka's",
        code=ErrorCode.MESSAGE_TOO_LARGE,
        details={"max_message_bytes": most},
    )
