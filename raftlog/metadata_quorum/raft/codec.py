"""Raft messages as bytes: plain data only. Decoding can build nothing but the types named here, whatever the bytes say.

One tag byte, then the value; integers are signed 64-bit little-endian, lengths unsigned 32-bit.
"""

from __future__ import annotations

import struct
from typing import Any

from raftlog.errors import RaftlogError

MAX_DEPTH = 8
_INT = struct.Struct("<q")
_FLOAT = struct.Struct("<d")
_LENGTH = struct.Struct("<I")


class MessageFormatError(RaftlogError):
    """The bytes are no message of this format."""


def encode(value: object) -> bytes:
    """Encode None, booleans, integers, floats, text, bytes, sequences and dictionaries of these."""
    out = bytearray()
    _encode(value, out)
    return bytes(out)


def _encode(value: object, out: bytearray) -> None:
    if value is None or isinstance(value, bool):
        out += {None: b"N", True: b"T", False: b"F"}[value]
        return
    match value:
        case int():
            out += b"i" + _INT.pack(value)
        case float():
            out += b"f" + _FLOAT.pack(value)
        case str():
            text = value.encode()
            out += b"s" + _LENGTH.pack(len(text)) + text
        case bytes() | bytearray():
            out += b"b" + _LENGTH.pack(len(value)) + value
        case list() | tuple():
            out += b"l" + _LENGTH.pack(len(value))
            for item in value:
                _encode(item, out)
        case dict():
            out += b"d" + _LENGTH.pack(len(value))
            for key, item in value.items():
                _encode(key, out)
                _encode(item, out)
        case _:
            raise TypeError(f"cannot encode {type(value).__name__}")


def decode(data: bytes) -> Any:
    """Decode one message. Sequences come back as tuples.

    Raises:
        MessageFormatError: a tag is unknown, something is too short, too long or too deep.
    """
    try:
        value, end = _decode(data, 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError, TypeError) as error:
        raise MessageFormatError(f"not a message: {error}") from None
    if end != len(data):
        raise MessageFormatError(f"{len(data) - end} bytes follow the message")
    return value


def _decode(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise MessageFormatError(f"nested more than {MAX_DEPTH} deep")
    tag, at = data[at : at + 1], at + 1
    if tag in (b"N", b"T", b"F"):
        return {b"N": None, b"T": True, b"F": False}[tag], at
    if tag == b"i":
        return _INT.unpack_from(data, at)[0], at + 8
    if tag == b"f":
        return _FLOAT.unpack_from(data, at)[0], at + 8
    (length,) = _LENGTH.unpack_from(data, at)
    return _decode_sized(tag, data, at + 4, length, depth)


def _decode_sized(tag: bytes, data: bytes, at: int, length: int, depth: int) -> tuple[Any, int]:
    if length > len(data) - at:  # Of items too: each has at least one byte.
        raise MessageFormatError(f"length {length} exceeds the {len(data) - at} bytes left")
    if tag == b"s":
        return data[at : at + length].decode(), at + length
    if tag == b"b":
        return data[at : at + length], at + length
    items = []
    for _ in range(length * (2 if tag == b"d" else 1)):
        item, at = _decode(data, at, depth + 1)
        items.append(item)
    if tag == b"l":
        return tuple(items), at
    if tag == b"d":
        return dict(zip(items[::2], items[1::2], strict=True)), at
    raise MessageFormatError(f"unknown tag {tag!r}")
