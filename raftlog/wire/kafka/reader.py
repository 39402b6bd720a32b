"""Reads the fields of a message from received bytes.

Nothing is allocated for a length or a count before it is compared with the bytes that are left. The elements of a
message's arrays, nested ones included, are counted: an element of 2 bytes on the wire becomes an object of 100.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482.
"""

from __future__ import annotations

import re
import struct
from typing import Any

from raftlog.wire.kafka.errors import KafkaProtocolError, TooManyElementsError, shown

Buffer = bytes | bytearray | memoryview

MAX_ELEMENTS = 30_000
"""The default limit of a message's array elements and tagged fields: they take up to 120 ms and 6 MB.

With 100,000 of them, freeing the message alone held an event loop for 100 ms.
"""
LOOP_ELEMENTS = 1_000
"""The limit for an event loop: so many take up to 4 ms and 250 kB, whatever the size of the frame."""
PRODUCE_ELEMENTS = 10_000
"""The limit of a Produce request."""
MAX_STRING_BYTES = 0x7FFF
"""The longest string, compact ones included, as in Kafka's own clients and brokers."""
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT8 = struct.Struct(">b")
_KIND = re.compile(r"16s|[a-zA-Z?]")
_MAX_VARINT_BYTES = 5
_MAX_UINT32 = 0xFFFFFFFF


class Reader:
    """A position in the bytes of one message.

    Each method reads one field and moves the position. Its argument `where` names the field for errors, such as
    "FetchTopic.topic".

    Args:
        message: names the message for errors, such as "FetchRequest v12".
        data: bytes that do not change while the message is in use: records are views of them.
        at: where the message begins in `data`.
        max_elements: limit of array elements and tagged fields, in total.

    Raises (every method):
        KafkaProtocolError: the bytes end before the field does, or are not a valid value of it.
    """

    __slots__ = ("at", "data", "elements_left", "end", "message")

    def __init__(self, message: str, data: Buffer, at: int = 0, *, max_elements: int = MAX_ELEMENTS) -> None:
        self.message = message
        self.data = memoryview(data)
        self.at = at
        self.end = len(self.data)
        self.elements_left = max_elements

    # Numbers.

    def take(self, layout: struct.Struct, where: str) -> tuple[Any, ...]:
        """Return the numbers, booleans and uuids of `layout`; `where` names each: "FetchTopic.topic_id,partition"."""
        at = self.at
        end = at + layout.size
        if end > self.end:
            raise self._short_run(layout, where)
        self.at = end
        return layout.unpack_from(self.data, at)

    def numbers(self, kind: str, count: int) -> list[Any]:
        """Return the elements of an array whose count is checked; `kind` is a letter of `struct`, such as "i"."""
        found = struct.unpack_from(f">{count}{kind}", self.data, self.at)
        self.at += count * struct.calcsize(f">{kind}")
        return list(found)

    def uvarint(self, where: str) -> int:
        """Return an unsigned varint of 32 bits."""
        at = self.at
        if at < self.end and (first := self.data[at]) < 128:
            self.at = at + 1
            return first
        return self._long_uvarint(where)

    def _long_uvarint(self, where: str) -> int:
        value = 0
        for position, byte in enumerate(self.data[self.at : self.at + _MAX_VARINT_BYTES]):
            value |= (byte & 127) << (7 * position)
            if byte < 128:
                if value > _MAX_UINT32:
                    raise self.error(where, f"expected a varint up to {_MAX_UINT32}, received {value}")
                self.at += position + 1
                return value
        left = self.end - self.at
        if left < _MAX_VARINT_BYTES:
            raise self.error(where, f"expected a varint, {left} bytes are left")
        raise self.error(
            where, f"expected a varint of at most 5 bytes, received {shown(self.data[self.at : self.at + 6])}"
        )

    # Strings and bytes.

    def string(self, where: str) -> str:
        return self._text(self._length16(where), where)

    def nullable_string(self, where: str) -> str | None:
        length = self._length16(where)
        return None if length == -1 else self._text(length, where)

    def compact_string(self, where: str) -> str:
        return self._text(self.uvarint(where) - 1, where)

    def compact_nullable_string(self, where: str) -> str | None:
        length = self.uvarint(where) - 1
        return None if length < 0 else self._text(length, where)

    def octets(self, where: str) -> bytes:
        return bytes(self._slice(self._length32(where), where))

    def nullable_octets(self, where: str) -> bytes | None:
        length = self._length32(where)
        return None if length == -1 else bytes(self._slice(length, where))

    def compact_octets(self, where: str) -> bytes:
        return bytes(self._slice(self.uvarint(where) - 1, where))

    def compact_nullable_octets(self, where: str) -> bytes | None:
        length = self.uvarint(where) - 1
        return None if length < 0 else bytes(self._slice(length, where))

    def nullable_records(self, where: str) -> memoryview | None:
        """Return a view of the received bytes."""
        length = self._length32(where)
        return None if length == -1 else self._slice(length, where)

    def compact_nullable_records(self, where: str) -> memoryview | None:
        """Return a view of the received bytes."""
        length = self.uvarint(where) - 1
        return None if length < 0 else self._slice(length, where)

    def _length16(self, where: str) -> int:
        at = self.at
        if at + 2 > self.end:
            raise self._short(where, 2)
        self.at = at + 2
        return int(_INT16.unpack_from(self.data, at)[0])

    def _length32(self, where: str) -> int:
        at = self.at
        if at + 4 > self.end:
            raise self._short(where, 4)
        self.at = at + 4
        return int(_INT32.unpack_from(self.data, at)[0])

    def _slice(self, length: int, where: str) -> memoryview:
        at = self.at
        end = at + length
        if length < 0 or end > self.end:
            raise self._bad_length(where, length)
        self.at = end
        return self.data[at:end]

    def _text(self, length: int, where: str) -> str:
        at = self.at
        end = at + length
        if length < 0 or end > self.end:
            raise self._bad_length(where, length)
        if length > MAX_STRING_BYTES:
            raise self.error(where, f"expected a string of at most {MAX_STRING_BYTES} bytes, received {length}")
        try:
            text = str(self.data[at:end], "utf-8")
        except UnicodeDecodeError as reason:
            problem = f"expected UTF-8 ({reason.reason}), received {shown(self.data[at:end])}"
            raise self.error(where, problem) from None
        self.at = end
        return text

    # Arrays and structs.

    def count(self, size: int, where: str) -> int:
        """Return the count of an array's elements, which have at least `size` bytes each."""
        count = self._length32(where)
        if count < 0:
            raise self.error(where, f"expected an array, received the count {count}")
        self._check_count(count, size, where)
        return count

    def nullable_count(self, size: int, where: str) -> int:
        """Return the count of an array's elements, -1 for null."""
        count = self._length32(where)
        if count < -1:
            raise self.error(where, f"expected an array or null, received the count {count}")
        self._check_count(count, size, where)
        return count

    def compact_count(self, size: int, where: str) -> int:
        count = self.uvarint(where) - 1
        if count < 0:
            raise self.error(where, "expected an array, received null")
        self._check_count(count, size, where)
        return count

    def compact_nullable_count(self, size: int, where: str) -> int:
        count = self.uvarint(where) - 1
        self._check_count(count, size, where)
        return count

    def _check_count(self, count: int, size: int, where: str) -> None:
        left = self.end - self.at
        if count * size > left:
            raise self.error(where, f"expected {count} elements of at least {size} bytes, {left} bytes are left")
        self.elements_left -= max(count, 0)
        if self.elements_left < 0:
            problem = f"the message has more elements than its limit, {-self.elements_left} more up to here"
            raise TooManyElementsError(f"{self.message}, {where} at byte {self.at}: {problem}")

    def is_null(self, where: str) -> bool:
        """Return whether a nullable struct is null (KIP-893): -1, or 1 before its fields."""
        (mark,) = self.take(_INT8, where)
        if mark not in (-1, 1):
            raise self.error(where, f"expected -1 (null) or 1 before a struct, received {mark}")
        return bool(mark == -1)

    # Tagged fields.

    def tag_count(self, where: str) -> int:
        """Return how many tagged fields follow; each has at least 2 bytes."""
        at = self.at
        if at < self.end and not self.data[at]:
            self.at = at + 1
            return 0
        count = self.uvarint(where)
        self._check_count(count, 2, where)
        return count

    def tag(self, where: str) -> tuple[int, int]:
        """Return a tagged field's number, and where it ends."""
        tag = self.uvarint(where)
        size = self.uvarint(where)
        if size > self.end - self.at:
            raise self._bad_length(where, size)
        return tag, self.at + size

    def end_tag(self, end: int, where: str) -> None:
        """Raise if a known tagged field does not end where its size says."""
        if self.at != end:
            raise self.error(where, f"expected the tagged field to end at byte {end}")

    def skip_tags(self, where: str) -> None:
        """Pass over tagged fields: the version has none that are known."""
        at = self.at
        if at < self.end and not self.data[at]:
            self.at = at + 1
            return
        for _ in range(self.tag_count(where)):
            _, self.at = self.tag(where)

    # Errors.

    def error(self, where: str, problem: str) -> KafkaProtocolError:
        """Return the error for a field at the present position."""
        return KafkaProtocolError(f"{self.message}, {where} at byte {self.at}: {problem}")

    def finish(self) -> None:
        """Raise if bytes follow the message."""
        if self.at != self.end:
            rest = self.data[self.at :]
            raise self.error("end", f"expected the end of the message, received {shown(rest)}")

    def _short(self, where: str, size: int) -> KafkaProtocolError:
        return self.error(where, f"expected {size} bytes, {self.end - self.at} are left")

    def _bad_length(self, where: str, length: int) -> KafkaProtocolError:
        if length < 0:
            received = "null" if length == -1 else f"the length {length}"
            return self.error(where, f"expected a value, received {received}")
        return self._short(where, length)

    def _short_run(self, layout: struct.Struct, where: str) -> KafkaProtocolError:
        """Name the first field of a run of numbers that the bytes do not reach."""
        name, _, fields = where.rpartition(".")
        for kind, field in zip(_KIND.findall(layout.format), fields.split(","), strict=True):
            size = struct.calcsize(f">{kind}")
            if self.at + size > self.end:
                return self._short(f"{name}.{field}", size)
            self.at += size
        raise AssertionError(f"{where} fits")
