"""The short way of a record that has nothing but a value: into the batch that its topic's records go to now."""

from __future__ import annotations

from asyncio import _get_running_loop
from typing import Any

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.partition_queue import RECORD_OVERHEAD_BYTES
from raftlog.client.delivery import SharedHandle
from raftlog.client.partitioning import StickyPartition
from raftlog.client.record_outcomes import Handle
from raftlog.client.routing import Routing


class FastPath:
    """A topic's open batch, for records without a key.

    Most records take it. Whatever it does not take goes the whole way, which checks and decides all that this assumes,
    and leads to another fast_path. The sender need not be told: it waits for the batch already.

    Args:
        sticky: where the topic's records go now.
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
        """Queue a record; return the handle that counts it as its last. None: it must go the whole way."""
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
