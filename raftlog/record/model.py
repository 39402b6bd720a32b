"""A record, before and after it is in the log."""

from __future__ import annotations

from collections.abc import Sequence
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
    """Records to be written, by column: what a batch is built of.

    Many records wait here at once, and lists of bytes and numbers give the garbage collector nothing to walk through.
    """

    __slots__ = ("headers", "keys", "timestamps", "values")

    def __init__(
        self,
        values: Sequence[bytes | None] = (),
        keys: Sequence[bytes | None] = (),
        timestamps: Sequence[int] = (),
        headers: Sequence[Headers] = (),
    ) -> None:
        self.values = list(values)
        self.keys = list(keys)
        self.timestamps = list(timestamps)
        self.headers = list(headers)

    def __len__(self) -> int:
        return len(self.values)

    def append(self, record: NewRecord) -> None:
        """Add a record."""
        value, key, timestamp, headers = record
        self.values.append(value)
        self.keys.append(key)
        self.timestamps.append(timestamp)
        self.headers.append(headers)

    def append_value(self, value: bytes, timestamp: int) -> None:
        """Add a record that has nothing else."""
        self.values.append(value)
        self.keys.append(None)
        self.timestamps.append(timestamp)
        self.headers.append(())

    def extend(self, values: Sequence[bytes | None], key: bytes | None, timestamp: int) -> None:
        """Add records that differ in nothing but their values."""
        count = len(values)
        self.values += values
        self.keys += [key] * count
        self.timestamps += [timestamp] * count
        self.headers += [()] * count

    def part(self, start: int, stop: int) -> RecordColumns:
        """Return a copy of some of the records."""
        columns = (self.values, self.keys, self.timestamps, self.headers)
        return RecordColumns(*(column[start:stop] for column in columns))  # type: ignore[arg-type]


class Record(NamedTuple):
    """A record as read. `timestamp` is in microseconds since 1970 UTC.

    A tuple, because reading makes millions of them, and a frozen dataclass takes five times as long to make.
    """

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
