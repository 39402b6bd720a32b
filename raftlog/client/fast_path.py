"""The fast path of `send_nowait`: a record without a key and headers joins its topic's open batch."""

from __future__ import annotations

from asyncio import _get_running_loop
from typing import Any

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import RECORD_OVERHEAD_BYTES
from raftlog.client.delivery import SharedHandle
from raftlog.client.partitioning import StickyPartition
from raftlog.client.record_outcomes import Handle
from raftlog.client.routing import Routing


class FastPath:
    """A topic's open batch, for records without a key.

    Most records take it. A record that it refuses goes through `RecordAppender`, which makes every check and opens a
    new fast path. The sender is not woken: it already waits for the batch.

    Args:
        sticky: the topic's current sticky partition.
    """

    __slots__ = ("_accumulator", "_buffer_bytes", "_queue", "_routing", "_sticky")

    def __init__(
        self, sticky: StickyPartition, accumulator: Accumulator[Handle], routing: Routing[Any], buffer_bytes: int
    ) -> None:
        self._sticky = sticky
        self._accumulator = accumulator
        self._queue = accumulator.queue(sticky.partition)
        self._routing = routing
        self._buffer_bytes = buffer_bytes

    def take(self, value: bytes, timestamp: int) -> SharedHandle | None:
        """Queue a record; return the handle, whose last record it is. None: `RecordAppender` must queue it."""
        accumulator, sticky = self._accumulator, self._sticky
        size = RECORD_OVERHEAD_BYTES + len(value)
        batch = self._queue.open_batch(size)
        if (
            batch is None
            or sticky.filled >= sticky.limit
            or self._routing.size
            or accumulator.size + size > self._buffer_bytes
        ):
            return None
        handle: SharedHandle = batch.shared
        if handle.loop is not _get_running_loop():
            return None
        sticky.filled += size
        accumulator.size += size
        batch.size += size
        batch.records.append_value(value, timestamp)
        handle.count += 1
        return handle
