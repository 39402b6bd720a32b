"""The fast path of `send_nowait`: a record without a key and headers joins its topic's open batch."""

from __future__ import annotations

from asyncio import _get_running_loop
from collections.abc import Callable
from typing import Any

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import RECORD_OVERHEAD_BYTES
from raftlog.client.delivery import SharedHandle
from raftlog.client.partitioning import StickyPartition
from raftlog.client.record_outcomes import Handle
from raftlog.client.routing import Routing

LEASE_BYTES = 16 << 10
"""How much of a batch is reserved at once at most: the checks cost as much as ten records."""


class FastPath:
    """A topic's open batch, for records without a key.

    Most records take it: it reserves bytes of the batch for many of them at once. A record that it refuses goes through
    `RecordAppender`, which makes every check and opens a new fast path. The sender is not woken: it already waits for
    the batch.

    Args:
        sticky: the topic's current sticky partition.
    """

    __slots__ = ("_accumulator", "_append", "_buffer_bytes", "_handle", "_loop", "_queue", "_routing", "_sticky")

    def __init__(
        self, sticky: StickyPartition, accumulator: Accumulator[Handle], routing: Routing[Any], buffer_bytes: int
    ) -> None:
        self._sticky = sticky
        self._accumulator = accumulator
        self._queue = accumulator.queue(sticky.partition)
        self._routing = routing
        self._buffer_bytes = buffer_bytes
        self._loop = _get_running_loop()
        self._handle: SharedHandle | None = None
        self._append: Callable[[bytes, int], None]

    @property
    def unused(self) -> int:
        """Bytes that are reserved, and that no record has taken yet."""
        return 0 if self._handle is None else self._handle.room

    def take(self, value: bytes, timestamp: int) -> SharedHandle | None:
        """Queue a record; return the handle, whose last record it is. None: `RecordAppender` must queue it."""
        if self._loop is not _get_running_loop():
            return None
        size, handle = RECORD_OVERHEAD_BYTES + len(value), self._handle
        if (handle is None or handle.room < size) and (handle := self._lease(size)) is None:
            return None
        handle.room -= size
        handle.count += 1
        self._append(value, timestamp)
        return handle

    def _lease(self, size: int) -> SharedHandle | None:
        """Reserve bytes of the open batch, `size` at least; return its handle. None: it has no room for them."""
        accumulator, sticky, queued = self._accumulator, self._sticky, self._accumulator.size + self._routing.size
        if queued - self.unused + size > self._buffer_bytes or sticky.filled - self.unused >= sticky.limit:
            return None
        # In a buffer that is half full, others may need what would be reserved.
        most = LEASE_BYTES if queued < self._buffer_bytes // 2 else 0
        batch = accumulator.lease(self._queue, size, max(size, min(most, sticky.limit - sticky.filled)))
        if batch is None:
            return None
        self._handle, self._append = batch.shared, batch.records.append_value
        batch.shared.sticky = sticky
        sticky.filled += batch.shared.room
        return self._handle
