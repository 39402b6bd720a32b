"""Iteration over a consumer that another thread runs, without a call into that thread for each record.

As in the async iteration, a record counts as returned once it is yielded: the consumer stores ready records, and the
iterating thread takes them one at a time, each with its position. It may do so while the loop's thread does not use the
consumer. While another call of the application is under way, it gets each record from the loop's thread. A time limit
also sends it there, since commits and rebalances between two records run in the loop's thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from raftlog import client
from raftlog.client.reader import PartitionReader
from raftlog.model import Offset, TopicPartition
from raftlog.record import Record

ITERATION_WAIT_MS = 60_000
STEPPING_S = 0.1
"""After this long, the iteration enters the loop's thread for due work and for the poll interval."""


class Steps:
    """Controls when a thread may take records without the loop's thread."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # A signal handler may call while this thread holds it.
        self._others = set[object]()
        """The other calls of the consumer that are under way."""
        self._until_s = 0.0

    def take(self, reader: PartitionReader) -> Record | None:
        """Return the next record; None: the loop's thread must prepare records first."""
        with self._guard:
            if self._others or not reader.ready or time.monotonic() >= self._until_s:
                return None
            return reader.next_ready()

    def allow(self) -> None:
        """Let threads take ready records for `STEPPING_S`."""
        with self._guard:
            self._until_s = time.monotonic() + STEPPING_S

    def stop(self) -> None:
        """Let no thread take records until `allow`."""
        with self._guard:
            self._until_s = 0.0

    def forked(self) -> None:
        """Let no thread take records in this child process: they belong to the parent."""
        self._guard = threading.RLock()  # Another thread of the parent may have held it.
        self._until_s = 0.0

    def begin_other(self) -> object:
        """Let no thread take records during another call of the consumer; return the call, for `end_other`."""
        other = object()
        with self._guard:
            self._others.add(other)
        return other

    def end_other(self, other: object) -> None:
        """Note that another call uses the consumer no more; it may have ended before."""
        with self._guard:
            self._others.discard(other)

    @property
    def has_others(self) -> bool:
        """Return whether another call is under way, so that `take` returns nothing."""
        return bool(self._others)


class SteppedConsumer(client.Consumer):
    """The async consumer that the facade runs."""

    @property
    def reader(self) -> PartitionReader:
        """Return the reader, which stores the ready records."""
        return self._reader

    async def prepare(self, steps: Steps) -> list[Record]:
        """Run due work, and fetch records for the iteration if none are ready.

        Return the next record during another call, which may take long and lets the thread take none.
        """
        reader = self._reader
        if reader.ready and self._group is not None:
            with self._polling():  # The application has processed the last record.
                if self._group.has_due_work:
                    await self._group.run_due_work()
        while not reader.ready:
            if records := await self.fetch(max_wait_ms=ITERATION_WAIT_MS):
                reader.keep_ready(records)
        steps.allow()
        return [reader.next_ready()] if steps.has_others else []

    async def take_back(self, taken: Iterable[object]) -> None:
        """Move positions back to records that were read but did not reach the application."""
        firsts: dict[TopicPartition, Offset] = {}
        for each in taken:
            for topic, partition, offset in _places(each):
                firsts.setdefault(TopicPartition(topic, partition), offset)
        still = self._reader.positions.keys() & firsts.keys()
        self._reader.move_back({partition: firsts[partition] for partition in still})


def _places(read: Any) -> Iterable[tuple[str, int, Offset]]:
    """Return (topic, partition, offset) of each record of a list or a table."""
    if isinstance(read, list):
        return [(record.topic, record.partition, record.offset) for record in read]
    columns = [read.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    return zip(*columns, strict=True)
