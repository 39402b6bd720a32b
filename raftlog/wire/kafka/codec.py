"""Decodes and encodes one message in all of its versions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from raftlog.errors import ErrorCode
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.reader import MAX_ELEMENTS, Buffer, Reader
from raftlog.wire.kafka.writer import Writer

T = TypeVar("T")


class Codec(Generic[T]):
    """A message's functions by version, as generated modules list them.

    Args:
        name: Kafka's name of the message.
        first: the first version.
        readers: a function for each version from `first` on.
        writers: the same.
    """

    __slots__ = ("_readers", "_writers", "first", "last", "name")

    def __init__(
        self,
        name: str,
        first: int,
        readers: Sequence[Callable[[Reader], T]],
        writers: Sequence[Callable[[Writer, T], None]],
    ) -> None:
        assert len(readers) == len(writers)
        self.name = name
        self.first = first
        self.last = first + len(readers) - 1
        self._readers = tuple(readers)
        self._writers = tuple(writers)

    def decode(
        self, version: int, data: Buffer, at: int = 0, *, max_elements: int = MAX_ELEMENTS, ends: bool = False
    ) -> T:
        """Decode a message.

        Args:
            data: what was received; records are views of it.
            at: where the message begins.
            max_elements: limit of array elements and tagged fields. An element takes 1 to 4 µs and up to 200 bytes of
                memory.
            ends: the message must end with `data`. False: bytes that follow are ignored, as Kafka ignores them.

        Raises:
            KafkaProtocolError: the version is unknown, or the bytes are not such a message.
            TooManyElementsError: more elements than `max_elements`.
        """
        reader = Reader(f"{self.name} v{version}", data, at, max_elements=max_elements)
        message = self._readers[self._index(version)](reader)
        if ends:
            reader.finish()
        return message

    def encode(self, version: int, message: T) -> list[Buffer]:
        """Encode a message: buffers to be sent in order. Large records are buffers of their own, without a copy.

        Raises:
            KafkaProtocolError: the version is unknown, a value does not fit its field, or a field is set that the
                version lacks and that readers may not ignore.
        """
        writer = Writer(f"{self.name} v{version}")
        try:
            self._writers[self._index(version)](writer, message)
        except (AttributeError, OverflowError, TypeError, ValueError, struct.error) as reason:
            raise KafkaProtocolError(f"{writer.message} cannot be encoded: {reason}") from reason
        return writer.parts()

    def _index(self, version: int) -> int:
        if not self.first <= version <= self.last:
            raise KafkaProtocolError(
                f"{self.name}: expected a version from {self.first} to {self.last}, received {version}",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        return version - self.first
