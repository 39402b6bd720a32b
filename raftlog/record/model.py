"""Records: to be written, and as read."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal, NamedTuple, TypeAlias

from raftlog.model import Offset

Compression: TypeAlias = Literal["lz4", "zstd"]
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to be written. `timestamp` is in microseconds since 1970 UTC."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0
    headers: Headers = ()


class RecordColumns:
    """Records to be written, by column, from which a batch is built.

    Many records are buffered at once. Lists of bytes and an array of timestamps have nothing for the garbage collector
    to traverse, and columns without values are None.
    """

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(
        self,
        values: Iterable[bytes | None] = (),
        keys: Iterable[bytes | None] | None = None,
        timestamps: Iterable[int] = (),
        headers: Iterable[Headers] | None = None,
    ) -> None:
        self.values = list(values)
        self.keys = None if keys is None else list(keys)
        """None: no record has one."""
        self.timestamps = array("q", timestamps)
        self.headers = None if headers is None else list(headers)
        """None: no record has any."""

    def __len__(self) -> int:
        return len(self.values)

    def rows(self) -> Iterator[NewRecord]:
        """Return the records, one by one."""
        keys, headers = self.keys or repeat(None), self.headers or repeat(())
        return map(NewRecord, self.values, keys, self.timestamps, headers)

    def append(self, record: NewRecord) -> None:
        """Add a record."""
        value, key, timestamp, headers = record
        self.timestamps.append(timestamp)  # First: it raises if the timestamp does not fit into 64 bits.
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [*repeat(None, len(self)), key]
        if self.headers is not None:
            self.headers.append(headers)
        elif headers:
            self.headers = [*repeat((), len(self)), headers]
        self.values.append(value)

    def append_value(self, value: bytes, timestamp: int) -> None:
        """Add a record without key and headers."""
        if self.keys is not None:
            self.keys.append(None)
        if self.headers is not None:
            self.headers.append(())
        self.values.append(value)
        self.timestamps.append(timestamp)

    def extend(self, values: Sequence[bytes | None], key: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Add records with the same key, timestamp and headers."""
        count = len(values)
        if self.keys is None and key is not None:
            self.keys = [None] * len(self)
        if self.keys is not None:
            self.keys += [key] * count
        if self.headers is None and headers:
            self.headers = [()] * len(self)
        if self.headers is not None:
            self.headers += [headers] * count
        self.values += values
        self.timestamps += array("q", (timestamp,)) * count

    def part(self, start: int, stop: int) -> RecordColumns:
        """Return a copy of some of the records."""
        keys = None if self.keys is None else self.keys[start:stop]
        headers = None if self.headers is None else self.headers[start:stop]
        return RecordColumns(self.values[start:stop], keys, self.timestamps[start:stop], headers)


class Record(NamedTuple):
    """A record as read.

    It is a tuple, because reading creates millions, and a frozen dataclass takes five times as long to create.
    """

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    offset: Offset
    """The record's offset in its partition."""
    timestamp: int
    """The record's time, in microseconds since 1970 UTC."""
    key: bytes | None
    """The record's key; None: it has none."""
    value: bytes | None
    """The record's value; None: a tombstone in a compacted topic."""
    headers: Headers = ()
    """The record's headers, as pairs of name and value."""
