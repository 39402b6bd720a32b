"""The outcomes of a producer's records, and the handles that deliver them to callers: for one record or many."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import NamedTuple, Protocol, TypeAlias, overload

from raftlog.client.core.pending_batch import Divisible
from raftlog.errors import RaftlogError
from raftlog.model import Offset, TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record is."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    offset: Offset
    """The record's offset; -1 with acks=0, since no broker reported it."""
    timestamp: int
    """The record's time, in microseconds since 1970 UTC."""


class Placed(NamedTuple):
    """Records with consecutive offsets in the log."""

    partition: TopicPartition
    base_offset: Offset
    timestamps: Sequence[int]

    def rows(self) -> Iterator[RecordMetadata]:
        """Return the metadata of all of them; the loop runs in C."""
        count = len(self.timestamps)
        offsets = repeat(-1) if self.base_offset < 0 else range(self.base_offset, self.base_offset + count)
        fields = zip(
            repeat(self.partition.topic), repeat(self.partition.partition), offsets, self.timestamps, strict=False
        )
        return map(tuple.__new__, repeat(RecordMetadata), fields)

    def metadata(self, at: int) -> RecordMetadata:
        """Return the metadata of one of them."""
        offset = self.base_offset if self.base_offset < 0 else self.base_offset + at
        return RecordMetadata(self.partition.topic, self.partition.partition, offset, self.timestamps[at])


class Acknowledged(Sequence[RecordMetadata]):
    """The metadata of acknowledged records, in the order of the call; each item is created when it is read."""

    def __init__(self, placed: Sequence[Placed]) -> None:
        self._placed = placed
        self._ends: list[int] = []
        for row in placed:
            self._ends.append(len(self) + len(row.timestamps))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, at: int) -> RecordMetadata: ...
    @overload
    def __getitem__(self, at: slice) -> list[RecordMetadata]: ...
    def __getitem__(self, at: int | slice) -> RecordMetadata | list[RecordMetadata]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = at + len(self) if at < 0 else at
        if not 0 <= number < len(self):
            raise IndexError(f"expected 0 to {len(self) - 1}, received {at}")
        place = bisect_right(self._ends, number)
        return self._placed[place].metadata(number - (self._ends[place - 1] if place else 0))

    def __iter__(self) -> Iterator[RecordMetadata]:
        return chain.from_iterable(row.rows() for row in self._placed)


class Run:
    """The outcome of records that one call queued for one partition."""

    def __init__(self, count: int) -> None:
        self.error: RaftlogError | None = None
        """The error of the first record that failed."""
        self._placed: dict[int, Placed] = {}
        self._missing = count
        self._settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def outcome(self) -> list[Placed]:
        """Wait until each record has an outcome; return the acknowledged ones in order."""
        if self._missing:
            await self._settled
        return [self._placed[first] for first in sorted(self._placed)]

    def acknowledged_from(self, first: int, placed: Placed) -> None:
        """Note that records from number `first` on are acknowledged."""
        self._placed[first] = placed
        self._settle(len(placed.timestamps))

    def failed_from(self, first: int, count: int, error: RaftlogError) -> None:  # noqa: ARG002  (all count alike)
        """Note that `count` records failed."""
        self.error = self.error or error
        self._settle(count)

    def _settle(self, count: int) -> None:
        self._missing -= count
        if self._missing == 0 and not self._settled.done():
            self._settled.set_result(None)


class MultiHandle(Divisible):
    """A handle of several consecutive records, which get their outcome together."""

    __slots__ = ()

    @abstractmethod
    def acknowledged(self, placed: Placed) -> None:
        """Set the outcome: acknowledged."""

    @abstractmethod
    def failed(self, error: RaftlogError) -> None:
        """Set the outcome: failed, or unknown."""


class OutcomeListener(Protocol):
    """Receives the outcomes of many records, in parts."""

    def acknowledged_from(self, first: int, placed: Placed) -> None: ...
    def failed_from(self, first: int, count: int, error: RaftlogError) -> None: ...


class PartialHandle(MultiHandle):
    """The handle of `count` records, from number `first` on."""

    __slots__ = ("_first", "_listener")

    def __init__(self, listener: OutcomeListener, first: int, count: int) -> None:
        self._listener = listener
        self._first = first
        self.count = count

    def divided(self, at: int) -> tuple[PartialHandle, PartialHandle]:
        return PartialHandle(self._listener, self._first, at), PartialHandle(
            self._listener, self._first + at, self.count - at
        )

    def acknowledged(self, placed: Placed) -> None:
        self._listener.acknowledged_from(self._first, placed)

    def failed(self, error: RaftlogError) -> None:
        self._listener.failed_from(self._first, self.count, error)


Handle: TypeAlias = "asyncio.Future[RecordMetadata] | MultiHandle"
"""The handle of one record, or of several."""


def acknowledge(
    handles: Sequence[Handle], timestamps: Sequence[int], partition: TopicPartition, base_offset: Offset
) -> None:
    """Complete the handles of an acknowledged batch; `base_offset` is -1 with acks=0."""
    batch = Placed(partition, base_offset, timestamps)
    at = 0
    for handle in handles:
        if isinstance(handle, MultiHandle):
            first = batch.metadata(at)
            handle.acknowledged(Placed(partition, first.offset, timestamps[at : at + handle.count]))
            at += handle.count
        else:
            if not handle.done():
                handle.set_result(batch.metadata(at))
            at += 1


def fail(handles: Sequence[Handle], error: RaftlogError) -> None:
    """Complete handles with an error: the records failed, or their outcome is unknown."""
    for handle in handles:
        if isinstance(handle, MultiHandle):
            handle.failed(error)
        elif not handle.done():
            handle.set_exception(error)
            handle.exception()  # Marks it as retrieved: the application may drop the future.
