"""Writes the fields of a message.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

from raftlog.wire.kafka.errors import KafkaProtocolError

Buffer = bytes | bytearray | memoryview
Records = Buffer | list[Buffer] | None
"""Record batches: one buffer, or several in order. Decoded ones are a view of the received bytes."""
T = TypeVar("T")

LARGE_BYTES = 16 << 10
"""Records of so many bytes are a part of their own and are not copied."""
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_BYTE = [bytes((value,)) for value in range(128)]
NO_TAGS, ONE_TAG = _BYTE[:2]
ZERO_UUID = bytes(16)
_NULL16, _NULL32, _COMPACT_NULL = _INT16.pack(-1), _INT32.pack(-1), _BYTE[0]
NULL_STRUCT, STRUCT_FOLLOWS = b"\xff", b"\x01"
_MAX_INT16 = 0x7FFF
_UUID_BYTES = 16


def uvarint(value: int) -> bytes:
    """Return an unsigned varint."""
    if value < 128:
        return _BYTE[value]
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


def uuid(value: bytes) -> bytes:
    """Return a uuid after a check: `struct` would cut or fill another length."""
    if len(value) != _UUID_BYTES:
        raise ValueError(f"a uuid has 16 bytes, this one {len(value)}")
    return value


class Writer:
    """Gathers the bytes of one message.

    Args:
        message: names the message for errors, such as "FetchResponse v12".

    Raises (every method):
        KafkaProtocolError: null where the version has none, or a string that is too long.
    """

    __slots__ = ("_parts", "_pieces", "add", "message")

    def __init__(self, message: str) -> None:
        self.message = message
        self._parts: list[Buffer] = []
        self._pieces: list[bytes] = []
        self.add: Callable[[bytes], None] = self._pieces.append
        """Append encoded bytes."""

    def parts(self) -> list[Buffer]:
        """Return the message: buffers to be sent in order, all but large records joined."""
        self._join()
        return self._parts

    def _join(self) -> None:
        if self._pieces:
            self._parts.append(b"".join(self._pieces))
            self._pieces.clear()

    # Strings and bytes.

    def string(self, value: str | None, where: str) -> None:
        if value is None:
            raise self.null(where)
        data = self._text(value, where)
        self.add(_INT16.pack(len(data)) + data)

    def nullable_string(self, value: str | None, where: str) -> None:
        if value is None:
            self.add(_NULL16)
        else:
            self.string(value, where)

    def compact_string(self, value: str | None, where: str) -> None:
        if value is None:
            raise self.null(where)
        data = self._text(value, where)
        self.add(uvarint(len(data) + 1) + data)

    def compact_nullable_string(self, value: str | None, where: str) -> None:
        if value is None:
            self.add(_COMPACT_NULL)
        else:
            self.compact_string(value, where)

    def _text(self, value: str, where: str) -> bytes:
        data = value.encode()
        if len(data) > _MAX_INT16:
            raise self.error(where, f"expected at most {_MAX_INT16} bytes, received {len(data)}")
        return data

    def octets(self, value: Buffer | None, where: str) -> None:
        if value is None:
            raise self.null(where)
        self.add(_INT32.pack(len(value)) + value)

    def nullable_octets(self, value: Buffer | None, where: str) -> None:
        if value is None:
            self.add(_NULL32)
        else:
            self.octets(value, where)

    def compact_octets(self, value: Buffer | None, where: str) -> None:
        if value is None:
            raise self.null(where)
        self.add(uvarint(len(value) + 1) + value)

    def compact_nullable_octets(self, value: Buffer | None, where: str) -> None:
        if value is None:
            self.add(_COMPACT_NULL)
        else:
            self.compact_octets(value, where)

    def nullable_records(self, value: Records, where: str) -> None:  # noqa: ARG002 # one signature for all
        if value is None:
            self.add(_NULL32)
        elif isinstance(value, list):
            self._add_records(_INT32.pack(sum(map(len, value))), value)
        else:
            self._add_buffer(_INT32.pack(len(value)), value)

    def compact_nullable_records(self, value: Records, where: str) -> None:  # noqa: ARG002 # one signature for all
        if value is None:
            self.add(_COMPACT_NULL)
        elif isinstance(value, list):
            self._add_records(uvarint(sum(map(len, value)) + 1), value)
        else:
            self._add_buffer(uvarint(len(value) + 1), value)

    def _add_records(self, length: bytes, value: list[Buffer]) -> None:
        self.add(length)
        for part in value:
            self._add_buffer(b"", part)

    def _add_buffer(self, before: bytes, value: Buffer) -> None:
        if len(value) < LARGE_BYTES:
            self.add(before + value)
        else:
            self.add(before)
            self._join()
            self._parts.append(value)

    # Arrays and structs.

    def count(self, count: int) -> None:
        self.add(_INT32.pack(count))

    def compact_count(self, count: int) -> None:
        self.add(uvarint(count + 1))

    def numbers(self, kind: str, values: Sequence[int]) -> None:
        """Append the elements of an array after its count; `kind` is a letter of `struct`, such as "i"."""
        self.add(struct.pack(f">{len(values)}{kind}", *values))

    # Tagged fields.

    def begin_tag(self, tag: int) -> int:
        """Begin a tagged field, which has no records; return what `end_tag` takes."""
        self.add(uvarint(tag))
        self.add(b"")
        return len(self._pieces)

    def end_tag(self, first: int) -> None:
        """Put the size before a tagged field whose pieces begin at `first`."""
        self._pieces[first - 1] = uvarint(sum(map(len, self._pieces[first:])))

    # Errors.

    def not_null(self, value: T | None, where: str) -> T:
        """Return a value that the version requires."""
        if value is None:
            raise self.null(where)
        return value

    def null(self, where: str) -> KafkaProtocolError:
        """Return the error for null where the version has none."""
        return self.error(where, "expected a value, received null")

    def unsupported(self, where: str) -> KafkaProtocolError:
        """Return the error for a field that is set and that the version lacks."""
        return self.error(where, "this version has no such field, and it is set")

    def error(self, where: str, problem: str) -> KafkaProtocolError:
        """Return the error for a field that cannot be encoded."""
        return KafkaProtocolError(f"{self.message}, {where}: cannot be encoded: {problem}")
