"""How a thread iterates over a consumer that another thread runs, without asking that thread for each record.

A record counts as returned once it is handed out, as in the async iteration: the consumer keeps what is ready, and the
iterating thread takes one after another, each with its position. It may, as long as the loop's thread does nothing with
the consumer. Whatever else the application calls stops it meanwhile; and so does time, since what is due between two
records (commits, rebalances) is done in the loop's thread.
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
"""After so long the loop's thread looks after the consumer: it also hears then that the application is alive."""


class Steps:
    """Says when a thread may take records by itself."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # A signal's handler may call while this thread has it.
        self._others = 0
        """What else was asked of the consumer, and is under way."""
        self._until_s = 0.0

    def take(self, reader: PartitionReader) -> Record | None:
        """Return the next record; None if the loop's thread must make some ready first."""
        with self._guard:
            if self._others or not reader.ready or time.monotonic() >= self._until_s:
                return None
            return reader.next_ready()

    def allow(self) -> None:
        """Let threads take what is ready, for a while."""
        with self._guard:
            self._until_s = time.monotonic() + STEPPING_S

    def stop(self) -> None:
        """Let nobody take records until that is allowed anew."""
        with self._guard:
            self._until_s = 0.0

    def forked(self) -> None:
        """Let nobody take records in this process: they are the parent's."""
        self._guard = threading.RLock()  # Another thread of the parent may have had it.
        self._until_s = 0.0

    def begin_other(self) -> None:
        """Let nobody take records while something else is done with the consumer."""
        with self._guard:
            self._others += 1

    def end_other(self) -> None:
        """Note that it is done."""
        with self._guard:
            self._others -= 1


class SteppedConsumer(client.Consumer):
    """The async consumer, as the facade runs it."""

    @property
    def reader(self) -> PartitionReader:
        """Return what holds the records that are ready."""
        return self._reader

    async def prepare(self, steps: Steps) -> None:
        """Do what is due between two records, and have some ready to be taken."""
        reader = self._reader
        if reader.ready and self._group is not None:
            with self._polling():  # The application asks for the next record: it is done with the last.
                if self._group.has_due_work:
                    await self._group.run_due_work()
        while not reader.ready:
            if records := await self.fetch(max_wait_ms=ITERATION_WAIT_MS):
                reader.keep_ready(records)
        steps.allow()

    async def take_back(self, taken: Iterable[object]) -> None:
        """Go back to before what was read, but never reached the application."""
        firsts: dict[TopicPartition, Offset] = {}
        for each in taken:
            for topic, partition, offset in _places(each):
                firsts.setdefault(TopicPartition(topic, partition), offset)
        still = self._reader.positions.keys() & firsts.keys()
        self._reader.begin({partition: firsts[partition] for partition in still})


def _places(read: Any) -> Iterable[tuple[str, int, Offset]]:
    """Return where records are, in a list or a table."""
    if isinstance(read, list):
        return [(record.topic, record.partition, record.offset) for record in read]
    columns = [read.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    return zip(*columns, strict=True)
