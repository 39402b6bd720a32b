"""JSON bodies and frames.

A frame carries record batches unchanged: `u32 little-endian length of the head | head (JSON) | batches`.
The head has the number of bytes of each partition, in order.
"""

from __future__ import annotations

import dataclasses
import gc
import struct
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import orjson

from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.schema import from_plain, to_plain

T = TypeVar("T")
Buffer = bytes | bytearray | memoryview

_HEAD_LENGTH = struct.Struct("<I")
MAX_FRAME_HEAD_BYTES = 16 << 20
_LARGE_BYTES = 64 << 10
_SLICE = 256


def encode_json(value: object) -> bytes:
    """Encode a wire type (or plain data) as JSON."""
    return orjson.dumps(value, default=to_plain)


def trimmed(encoded: bytes) -> bytes:
    """Return a copy of what orjson returned, for keeping.

    orjson returns its buffer with the room that it did not need: 4 KB for a text of 1 to 500 bytes (3.13). A record
    with 180,000 numbers as headers took 711 MB, not 19.
    """
    return bytes(memoryview(encoded))


def encode_listing(value: Any) -> bytes:
    """Encode a wire type of which one field may have 100,000 entries, in a worker thread; the bytes are the same.

    A slice of them at a time: orjson keeps the interpreter, and so the event loop waits, for 150 ms otherwise.
    """
    document = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    for name, entries in document.items():
        if isinstance(entries, tuple) and len(entries) > _SLICE:
            slices = (entries[begin : begin + _SLICE] for begin in range(0, len(entries), _SLICE))
            document[name] = orjson.Fragment(b"[%b]" % b",".join(encode_json(some)[1:-1] for some in slices))
    return encode_json(document)


def decode_plain(
    body: Buffer, *, error: type[RaftlogError] = InvalidRequestError, max_values: int | None = None
) -> Any:
    """Decode JSON to plain data.

    Args:
        max_values: limit of the values in a body, estimated by its brackets and commas before it is decoded: a million
            empty lists are 3 MB and take 100 ms.

    Raises:
        error: the body is not JSON (the message says where), or has more than `max_values` values.
    """
    if max_values is not None and len(body) > max_values:
        text = bytes(body)
        count = sum(text.count(mark) for mark in (b"[", b"{", b","))
        if count > max_values:
            raise error(f"the body: expected at most {max_values} values, received about {count}")
    # The garbage collector would traverse a million new lists repeatedly, which takes four times as long.
    collects = len(body) > _LARGE_BYTES and gc.isenabled()
    if collects:
        gc.disable()
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as reason:
        raise error(f"the body is not valid JSON: {reason}; received {bytes(body[:80])!r}") from None
    finally:
        if collects:
            gc.enable()


def decode_json(
    cls: type[T], body: Buffer, *, error: type[RaftlogError] = InvalidRequestError, ignore_unknown: bool = False
) -> T:
    """Decode JSON to a wire type. Decoders of responses pass `ignore_unknown=True`, so that newer peers may add fields.

    Raises:
        error: not JSON, or a field does not fit; the message names it.
    """
    return from_plain(cls, decode_plain(body, error=error), error=error, ignore_unknown=ignore_unknown)


def encode_frame(head: object, parts: Iterable[Buffer] = ()) -> list[Buffer]:
    """Return the buffers of a frame, to be written in order; the parts are not copied."""
    return [framed(encode_json(head)), *parts]


def framed(head: bytes) -> bytes:
    """Return the begin of a frame with an encoded head."""
    return _HEAD_LENGTH.pack(len(head)) + head


def split_frame(body: Buffer, *, error: type[RaftlogError] = InvalidRequestError) -> tuple[memoryview, memoryview]:
    """Return views of the frame's head and of the bytes after it.

    Raises:
        error: the frame is shorter than it claims.
    """
    view = memoryview(body)
    if len(view) < _HEAD_LENGTH.size:
        raise error(f"a frame starts with a 4-byte length, received {len(view)} bytes")
    (length,) = _HEAD_LENGTH.unpack_from(view)
    end = _HEAD_LENGTH.size + length
    if length > MAX_FRAME_HEAD_BYTES or end > len(view):
        raise error(f"the frame claims a head of {length} bytes, received {len(view) - _HEAD_LENGTH.size}")
    return view[_HEAD_LENGTH.size : end], view[end:]


def decode_frame(
    cls: type[T], body: Buffer, *, error: type[RaftlogError] = InvalidRequestError, ignore_unknown: bool = False
) -> tuple[T, memoryview]:
    """Return the frame's head and a view of the bytes after it.

    Raises:
        error: the frame is shorter than it claims, or its head does not fit `cls`.
    """
    head, rest = split_frame(body, error=error)
    return decode_json(cls, head, error=error, ignore_unknown=ignore_unknown), rest


def split_parts(
    view: memoryview, lengths: Sequence[int], *, error: type[RaftlogError] = InvalidRequestError
) -> list[memoryview]:
    """Cut the bytes after a frame's head into one view per length.

    Raises:
        error: a length is negative, or they do not add up to the bytes received.
    """
    if any(length < 0 for length in lengths) or sum(lengths) != len(view):
        raise error(f"the head announces {sum(lengths)} bytes of batches, received {len(view)}")
    parts, position = [], 0
    for length in lengths:
        parts.append(view[position : position + length])
        position += length
    return parts
