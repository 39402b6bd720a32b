"""What every consumer does, in a group or not: reads partitions from positions, and finds offsets."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from raftlog import record
from raftlog.client.completed_fetch import MOST_UNPACKED_BYTES, CompletedFetch
from raftlog.client.connection import Connection
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.fetching import Failure, Fetcher
from raftlog.client.start_offsets import Start, offset_at
from raftlog.errors import CorruptBatchError, ErrorCode
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from raftlog.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
DECIDE_S = 3.0
"""How long an application may wait beyond its own limit, when it must be asked where the log begins or ends."""
MAX_RECORDS = 500
"""At once, where the application does not say: as Kafka's `max.poll.records`.

Fewer than the garbage collector's first threshold: when they are dropped before the next come, it has nothing to do.
"""


class PartitionReader:
    """Reads the partitions that it was given.

    Args:
        on_out_of_range: where to go on when a position is not in the log; None raises.
    """

    def __init__(self, connection: Connection, fetcher: Fetcher, *, on_out_of_range: Start | None) -> None:
        self.connection = connection
        self.fetcher = fetcher
        self.positions: dict[TopicPartition, Offset] = {}
        """Of the next record that will be returned."""
        self.epochs: dict[TopicPartition, LeaderEpoch] = {}
        """In which the last record that was returned was written, as far as it is known."""
        self.epochs_read = EpochsRead()
        self._tables = record.NamedTables()
        self.ready: deque[Record] = deque()
        """What an iteration has not handed out yet: records of one partition, without gaps."""
        self._ready_of = TopicPartition("", -1)
        self._ready_end: Offset = 0
        self._on_out_of_range = on_out_of_range

    def begin(
        self, offsets: Mapping[TopicPartition, Offset], epochs: Mapping[TopicPartition, LeaderEpoch] | None = None
    ) -> None:
        """Read more partitions, or go on elsewhere in some.

        Args:
            epochs: in which the records before the offsets were written, where that is known.
        """
        for partition, offset in offsets.items():
            self._drop_ready(partition)
            self.positions[partition] = offset
            self.epochs[partition] = (epochs or {}).get(partition, NO_LEADER_EPOCH)
            self.epochs_read.begin(partition, offset, self.epochs[partition])
            self.fetcher.seek(partition, offset, self.epochs[partition])

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading some partitions; what was fetched of them is dropped."""
        for partition in partitions:
            self._drop_ready(partition)
            self.positions.pop(partition, None)
            self.epochs.pop(partition, None)
            self.epochs_read.forget(partition)
            self._tables.forget(partition)
            self.fetcher.forget(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Keep some partitions, but return no records of them."""
        for partition in partitions:
            self._drop_ready(partition)
            self.fetcher.paused.add(partition)
            self.fetcher.seek(partition, self.positions[partition], self.epochs[partition])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with paused partitions."""
        self.fetcher.paused.difference_update(partitions)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets below the high watermark are still to be read; None: nothing was heard of it yet."""
        known = self.fetcher.positions[partition].high_watermark
        return None if known < 0 else max(0, known - self.positions[partition])

    async def next_completed(self, max_wait_ms: int, *, all_ready: bool = False) -> CompletedFetch | None:
        """Return what is ready, or None: nothing came in time, or something else has to be done first.

        Args:
            all_ready: the caller takes what is ready behind the fetch, too.
        """
        await self.fetcher.wait(max_wait_ms)
        while (failure := self.fetcher.next_failure()) is not None:
            await self._decide(failure)
        await self.fetcher.read_ahead(len(self.fetcher.completed) if all_ready else 1)
        return self.fetcher.completed[0] if self.fetcher.completed else None

    def take(self, fetch: CompletedFetch, max_records: int | None) -> list[Record]:
        """Remove and return records of a fetch; none if its first batch was damaged, and is asked for again.

        Raises:
            CorruptBatchError: a checksum is wrong, of what the broker had found sound. Nothing is skipped: it is
                fetched anew.
        """
        try:
            records = fetch.take(MAX_RECORDS if max_records is None else max_records)
        except CorruptBatchError as error:
            self._refetch(fetch, error)
            return []
        self.fetcher.counters.records += len(records)
        self._note(fetch)
        self._drop_if_read(fetch)
        return records

    def take_arrow(self, fetch: CompletedFetch | None) -> pa.Table:
        """Remove and return what is ready from `fetch` on, or as much as may be unpacked at once; see `take`."""
        tables: list[pa.Table] = []
        size = 0
        while fetch is not None and size < MOST_UNPACKED_BYTES:
            try:
                rows = fetch.arrow()
            except CorruptBatchError as error:
                self._refetch(fetch, error, quietly=bool(tables))
                break
            self._drop_if_read(fetch)
            if rows is not None:
                size += rows.nbytes
                tables.append(self._tables.named(rows, fetch.partition))
            self._note(fetch)
            fetch = self.fetcher.completed[0] if self.fetcher.completed else None
        table = self._tables.joined(tables)
        self.fetcher.counters.records += table.num_rows
        return table

    def take_table(self, fetch: CompletedFetch) -> pa.Table:
        """Remove and return what one fetch holds, or as much as may be unpacked at once; see `take`."""
        try:
            rows = fetch.arrow()
        except CorruptBatchError as error:
            self._refetch(fetch, error)
            return self._tables.joined([])
        self._drop_if_read(fetch)
        self._note(fetch)
        table = self._tables.joined([] if rows is None else [self._tables.named(rows, fetch.partition)])
        self.fetcher.counters.records += table.num_rows
        return table

    def _drop_if_read(self, fetch: CompletedFetch) -> None:
        if fetch.is_read:
            self.fetcher.completed.popleft()

    def _refetch(self, fetch: CompletedFetch, error: CorruptBatchError, *, quietly: bool = False) -> None:
        """Go on at a fetch's damaged batch: if its broker had not checked it, it does now, and gives way if need be.

        Args:
            quietly: the error is raised when it comes again.
        """
        self.fetcher.seek(fetch.partition, fetch.position, self.epochs[fetch.partition], check_crcs=True)
        if fetch.was_checked and not quietly:
            raise error
        _log.warning("%s: %s; asking again", fetch.partition, error.message)

    def _note(self, fetch: CompletedFetch) -> None:
        """Note how far the application has been given a fetch."""
        self.positions[fetch.partition] = fetch.position
        if fetch.leader_epoch >= 0:
            self.epochs[fetch.partition] = fetch.leader_epoch
            self.epochs_read.read(fetch.partition, fetch.position, fetch.leader_epoch)

    def keep_ready(self, records: list[Record]) -> None:
        """Hand records of one partition out one by one: a record counts as returned once it is."""
        self._ready_of = TopicPartition(records[0].topic, records[0].partition)
        self.ready.extend(records)
        self._ready_end, self.positions[self._ready_of] = self.positions[self._ready_of], records[0].offset

    def next_ready(self) -> Record:
        """Return the next of the records kept."""
        record = self.ready.popleft()
        self.positions[self._ready_of] = record.offset + 1 if self.ready else self._ready_end
        return record

    def take_ready(self, max_records: int | None) -> list[Record]:
        """Return the rest of an iteration that was left."""
        count = len(self.ready) if max_records is None else min(max_records, len(self.ready))
        return [self.next_ready() for _ in range(count)]

    async def offsets(self, partitions: Iterable[TopicPartition], at: Start) -> dict[TopicPartition, Offset]:
        """Return where each partition begins, ends, or was at a time."""
        listed = list(partitions)
        isolation = self.fetcher.isolation
        answers = await asyncio.gather(*(offset_at(self.connection, p, at, isolation) for p in listed))
        return dict(zip(listed, answers, strict=True))

    async def _decide(self, failure: Failure) -> None:
        out_of_range = failure.error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if not out_of_range or self._on_out_of_range is None:
            raise failure.error
        if (cut := failure.error.details.get("diverging_offset")) is not None:
            _log.warning("%s; going on there", failure.error.message)
            if failure.partition in self.positions:
                self.begin({failure.partition: min(cut, self.positions[failure.partition])})
            return
        try:
            async with asyncio.timeout(DECIDE_S):
                (offset,) = (await self.offsets([failure.partition], self._on_out_of_range)).values()
        except TimeoutError:
            return  # The next fetch fails as this one, and is decided then.
        if failure.partition in self.positions:
            self.begin({failure.partition: offset})

    def _drop_ready(self, partition: TopicPartition) -> None:
        if self.ready and (self.ready[0].topic, self.ready[0].partition) == partition:
            self.ready.clear()
