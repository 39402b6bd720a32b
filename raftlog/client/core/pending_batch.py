"""A batch that a producer has not finished: its records, their handles, and what became of its attempts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from raftlog.errors import RaftlogError
from raftlog.model import ProducerEpoch, ProducerId, TopicId
from raftlog.record.model import Headers, NewRecord, RecordColumns

RECORD_OVERHEAD_BYTES = 32
"""An estimate of a record's bytes in a batch besides key, value and headers."""
NO_SEQUENCE = -1
H = TypeVar("H")
"""The handle through which the caller gets a record's outcome."""


class Divisible(ABC):
    """A handle of several consecutive records."""

    __slots__ = ("count",)
    count: int

    def take_back(self) -> int:
        """End its reservation of bytes in its batch; return how many were left."""
        return 0

    @abstractmethod
    def divided(self, at: int) -> tuple[Any, Any]:
        """Split it: return the handles of the first `at` records and of the rest."""


def columns_bytes(records: RecordColumns) -> int:
    """Return about how many bytes records take in a batch."""
    return sum(map(record_bytes, records.rows()))


def record_bytes(record: NewRecord) -> int:
    """Return about how many bytes a record takes in a batch."""
    value, key, _, headers = record
    return RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0) + headers_bytes(headers)


def headers_bytes(headers: Headers) -> int:
    """Return about how many bytes a record's headers take in a batch."""
    size = 0
    for name, content in headers:
        size += len(name) + len(content or b"") + 16
    return size


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch of a partition's batches."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = 0


@dataclass(slots=True, eq=False)
class PendingBatch(Generic[H]):
    """A batch without an outcome."""

    created_ms: int
    """When the application sent the oldest record."""
    records: RecordColumns = field(default_factory=RecordColumns)
    handles: list[H] = field(default_factory=list)
    """In the order of the records. A handle covers one record, or several (`Divisible`)."""
    shared: Any = None
    """The handle that single records share. Further records join it while it is the last handle."""
    size: int = 0
    closed: bool = False
    """Whether it accepts no more records: it is full, or was sent."""
    identity: ProducerIdentity | None = None
    sequence: int = NO_SEQUENCE
    topic_id: TopicId = ""
    """The id of the topic that it was first sent to."""
    encoded: bytes | bytearray = b""
    """The encoded batch; empty until it is first sent under its identity and sequence."""
    attempts: int = 0
    in_flight: bool = False
    sent_as_first: bool = False
    """Whether every earlier batch had its outcome when the last attempt began."""
    may_be_appended: bool = False
    """Whether an attempt has an unknown outcome."""
    cause: RaftlogError | None = None
    """The last error that a broker returned; without one, the last error."""
    acknowledged: bool = False

    def end_lease(self) -> int:
        """Take back what is reserved for further records of the shared handle; return its bytes."""
        if self.shared is None:
            return 0
        unused: int = self.shared.take_back()
        self.size -= unused
        return unused


def divide(handles: Sequence[H], at: int) -> tuple[list[H], list[H]]:
    """Split handles into those of the first `at` records and the rest."""
    left = at
    for place, handle in enumerate(handles):
        count = handle.count if isinstance(handle, Divisible) else 1
        if left < count and left and isinstance(handle, Divisible):
            first, rest = handle.divided(left)
            return [*handles[:place], first], [rest, *handles[place + 1 :]]
        if not left:
            return list(handles[:place]), list(handles[place:])
        left -= count
    return list(handles), []
