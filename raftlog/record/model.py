"""A record, before and after it is in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from raftlog.model import Offset

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class NewRecord(NamedTuple):
    """A record to be written. `timestamp` is in microseconds since 1970 UTC."""

    value: bytes | None
    key: bytes | None = None
    timestamp: int = 0
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read. `timestamp` is in microseconds since 1970 UTC."""

    topic: str
    partition: int
    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
