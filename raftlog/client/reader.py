"""`PartitionReader`: reads partitions from positions and resolves offsets, for consumers with and without a group."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from raftlog import record
from raftlog.client.completed_fetch import MOST_UNPACKED_BYTES, CompletedFetch
from raftlog.client.connection import Connection
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.fetching import REFRESH_REST_S, Failure, Fetcher
from raftlog.client.start_offsets import Start, offset_at
from raftlog.errors import CorruptBatchError, ErrorCode, NotFoundError, RaftlogError, RetriableError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId, TopicPartition
from raftlog.record import Record
from raftlog.runtime import concurrently

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger(__name__)
DECIDE_S = 3.0
"""How much longer than its own timeout a call may take to resolve an out-of-range position."""
MAX_RECORDS = 500
"""The default number of records of one call (Kafka: `max.poll.records`).

It is below the garbage collector's first threshold: records dropped before the next call cost no collection.
"""


class PartitionReader:
    """Reads a set of partitions, each from its position.

    Args:
        on_out_of_range: where to continue when a position is not in the log; None raises.
    """

    def __init__(self, connection: Connection, fetcher: Fetcher, *, on_out_of_range: Start | None) -> None:
        self.connection = connection
        self.fetcher = fetcher
        self.positions: dict[TopicPartition, Offset] = {}
        """The offset of the next record to return."""
        self.epochs: dict[TopicPartition, LeaderEpoch] = {}
        """The leader epoch of the last returned record; -1: unknown."""
        self.epochs_read = EpochsRead()
        self._tables = record.NamedTables()
        self.ready: deque[Record] = deque()
        """Records that an iteration has fetched and not returned yet, all of one partition."""
        self._ready_of = TopicPartition("", -1)
        self._ready_end: Offset = 0
        self._on_out_of_range = on_out_of_range
        self.drop_vanished: Callable[[], None] = lambda: None
        """Drops partitions that their topics lack, or raises; the coordinator does so for members of groups."""

    def begin(
        self,
        offsets: Mapping[TopicPartition, Offset],
        epochs: Mapping[TopicPartition, LeaderEpoch] | None = None,
        topic_ids: Mapping[TopicPartition, TopicId] | None = None,
        *,
        is_chosen: bool = True,
    ) -> None:
        """Add partitions, or move the positions of some.

        Args:
            epochs: the leader epochs of the records before the offsets, where known.
            topic_ids: the ids of the topics that the offsets are of, where known; the others are of the topics as the
                metadata has them now.
            is_chosen: the application chose the offsets.
        """
        for partition, offset in offsets.items():
            epoch, topic_id = (epochs or {}).get(partition, NO_LEADER_EPOCH), (topic_ids or {}).get(partition, "")
            self._drop_ready(partition)
            self.positions[partition], self.epochs[partition] = offset, epoch
            self.fetcher.seek(partition, offset, epoch, topic_id=topic_id)
            topic_id = self.fetcher.topic_id(partition)
            self.epochs_read.begin(partition, offset, epoch, topic_id, is_chosen=is_chosen)

    def move(
        self,
        offsets: Mapping[TopicPartition, Offset],
        epochs: Mapping[TopicPartition, LeaderEpoch] | None = None,
        topic_ids: Mapping[TopicPartition, TopicId] | None = None,
    ) -> None:
        """Move the positions of the partitions that are still read; the others were given up meanwhile."""
        still = {partition: offset for partition, offset in offsets.items() if partition in self.positions}
        self.begin(still, epochs, topic_ids)

    def move_back(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Move positions within the topics that are read: the application has not got the records from there on."""
        self.begin(offsets, topic_ids={partition: self.fetcher.topic_id(partition) for partition in offsets})

    def drop_recreated(self, partition: TopicPartition) -> None:
        """Return no more of what was fetched of a topic that was recreated, by the metadata.

        The next fetch finds that the position is not in the log.
        """
        info = self.connection.cached_topic(partition.topic)
        if info is not None and self.fetcher.topic_id(partition) not in ("", info.topic_id):
            self.fetcher.drop_ahead(partition)

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading some partitions; their fetched records are dropped."""
        for partition in partitions:
            self._drop_ready(partition)
            self.positions.pop(partition, None)
            self.epochs.pop(partition, None)
            self.epochs_read.forget(partition)
            self._tables.forget(partition)
            self.fetcher.forget(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of some partitions until `resume`."""
        for partition in partitions:
            if partition not in self.fetcher.paused:
                self._drop_ready(partition)
                self.fetcher.pause(partition, self.positions[partition], self.epochs[partition])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Return records of paused partitions again."""
        self.fetcher.paused.difference_update(partitions)

    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets below the high watermark are unread; None: no broker has reported it yet."""
        high_watermark = self.fetcher.positions[partition].high_watermark
        return None if high_watermark < 0 else max(0, high_watermark - self.positions[partition])

    async def next_completed(self, max_wait_ms: int, *, all_ready: bool = False) -> CompletedFetch | None:
        """Return the first completed fetch; None after the timeout or an interrupt.

        Args:
            all_ready: the caller also takes the completed fetches behind it.
        """
        await self.fetcher.wait(max_wait_ms)
        while (failure := self.fetcher.next_failure()) is not None:
            await self._decide(failure)
        await self.fetcher.read_ahead(len(self.fetcher.completed) if all_ready else 1)
        return self.fetcher.completed[0] if self.fetcher.completed else None

    def take(self, fetch: CompletedFetch, max_records: int | None) -> list[Record]:
        """Remove and return records of a fetch; none if its first batch was damaged and is fetched again.

        Raises:
            CorruptBatchError: a checksum is wrong, in a batch that the broker had verified. Nothing is skipped: the
                batch is fetched again.
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
        """Remove and return the records that are ready, up to `MOST_UNPACKED_BYTES`; see `take`."""
        tables: list[pa.Table] = []
        size = 0
        while fetch is not None and size < MOST_UNPACKED_BYTES:
            try:
                rows = self._arrow(fetch, quietly=bool(tables))
            except Exception:
                if not tables:
                    raise
                break  # The next call raises.
            if rows is not None:
                size += fetch.arrow_bytes
                tables.append(rows)
            fetch = self.fetcher.completed[0] if self.fetcher.completed else None
        table = self._tables.joined(tables)
        self.fetcher.counters.records += table.num_rows
        return table

    def take_table(self, fetch: CompletedFetch) -> pa.Table:
        """Remove and return the records of one fetch, up to `MOST_UNPACKED_BYTES`; see `take`."""
        rows = self._arrow(fetch)
        table = self._tables.joined([] if rows is None else [rows])
        self.fetcher.counters.records += table.num_rows
        return table

    def _arrow(self, fetch: CompletedFetch, *, quietly: bool = False) -> pa.Table | None:
        """Remove and return the records of one fetch; None: it has none, or was damaged and is fetched again.

        After any error, the position has not moved, and the records are fetched again.
        """
        partition = fetch.partition
        try:
            rows = fetch.arrow()
            named = None if rows is None else self._tables.named(rows, partition)
        except CorruptBatchError as error:
            self._refetch(fetch, error, quietly=quietly)
            return None
        except Exception:  # A lack of memory.
            self._fetch_again(partition, self.positions[partition])
            raise
        self._drop_if_read(fetch)
        self._note(fetch)
        return named

    def _drop_if_read(self, fetch: CompletedFetch) -> None:
        if fetch.is_read:
            self.fetcher.completed.popleft()

    def _refetch(self, fetch: CompletedFetch, error: CorruptBatchError, *, quietly: bool = False) -> None:
        """Fetch a damaged batch again. The broker verifies it then, and resigns leadership if its copy is damaged.

        Args:
            quietly: do not raise now; the next fetch raises if the batch is still damaged.
        """
        self._fetch_again(fetch.partition, fetch.position, check_crcs=True)
        if fetch.was_checked and not quietly:
            raise error
        _log.warning("%s: %s; asking again", fetch.partition, error.message)

    def _fetch_again(self, partition: TopicPartition, offset: Offset, *, check_crcs: bool = False) -> None:
        topic_id = self.fetcher.topic_id(partition)
        self.fetcher.seek(partition, offset, self.epochs[partition], topic_id=topic_id, check_crcs=check_crcs)

    def _note(self, fetch: CompletedFetch) -> None:
        """Move the partition's position to the end of the records that were returned."""
        self.positions[fetch.partition] = fetch.position
        if fetch.leader_epoch >= 0:
            self.epochs[fetch.partition] = fetch.leader_epoch
            topic_id = self.fetcher.topic_id(fetch.partition)
            self.epochs_read.read(fetch.partition, fetch.position, fetch.leader_epoch, topic_id)

    def keep_ready(self, records: list[Record]) -> None:
        """Store records of one partition for an iteration; `next_ready` moves the position with each."""
        self._ready_of = TopicPartition(records[0].topic, records[0].partition)
        self.ready.extend(records)
        self._ready_end, self.positions[self._ready_of] = self.positions[self._ready_of], records[0].offset

    def next_ready(self) -> Record:
        """Remove and return the next stored record."""
        record = self.ready.popleft()
        self.positions[self._ready_of] = record.offset + 1 if self.ready else self._ready_end
        return record

    def take_ready(self, max_records: int | None) -> list[Record]:
        """Remove and return stored records of an iteration that the application left."""
        count = len(self.ready) if max_records is None else min(max_records, len(self.ready))
        return [self.next_ready() for _ in range(count)]

    async def offsets(self, partitions: Iterable[TopicPartition], at: Start) -> dict[TopicPartition, Offset]:
        """Return the offset of each partition at a start position."""
        listed = sorted(partitions)  # Sets have another order in each process; requests have the same.
        isolation = self.fetcher.isolation
        answers = await concurrently([offset_at(self.connection, p, at, isolation) for p in listed])
        return dict(zip(listed, answers, strict=True))

    async def offsets_in_time(
        self, partitions: Iterable[TopicPartition], at: Start | None, deadline: float
    ) -> tuple[dict[TopicPartition, Offset], RaftlogError | TimeoutError | None]:
        """Return the offsets that leaders tell before `deadline` (the loop's time), and why others are missing.

        A partition without a leader is not waited for: the next call asks for its leader again. One that does not exist
        may be new, or its topic was deleted: the coordinator takes it back.
        """
        found, late = dict[TopicPartition, Offset](), list[RaftlogError | TimeoutError]()

        async def ask(partition: TopicPartition) -> None:
            assert at is not None
            try:
                async with asyncio.timeout_at(deadline):
                    if self.connection.leader(*partition) is None:
                        await self.connection.refresh([partition.topic], max_age_s=REFRESH_REST_S)
                    await self.connection.require_leader(*partition)
                    found[partition] = await offset_at(self.connection, partition, at, self.fetcher.isolation)
            except (NotFoundError, RetriableError, TimeoutError) as error:
                late.append(error)

        await concurrently([ask(partition) for partition in sorted(partitions)])
        return found, late[0] if late else None

    async def _decide(self, failure: Failure) -> None:
        self.drop_vanished()
        if failure.partition not in self.positions:
            return
        out_of_range = failure.error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if not out_of_range or self._on_out_of_range is None:
            raise failure.error
        if (diverging := failure.error.details.get("diverging_offset")) is not None:
            _log.warning("%s; continuing there", failure.error.message)
            if failure.partition in self.positions:
                self.move_back({failure.partition: min(diverging, self.positions[failure.partition])})
            return
        info = self.connection.cached_topic(failure.partition.topic)
        if info is not None and failure.partition.partition >= len(info.partitions):
            # The coordinator takes it back. If it is there again before, all its records are new.
            self.begin({failure.partition: 0}, is_chosen=False)
            return
        before = self.fetcher.positions[failure.partition]
        try:
            async with asyncio.timeout(DECIDE_S):
                (offset,) = (await self.offsets([failure.partition], self._on_out_of_range)).values()
        except TimeoutError:
            return  # The next fetch fails the same way, and is handled then.
        if self.fetcher.positions.get(failure.partition) is before:  # Otherwise a seek or a rebalance came meanwhile.
            self.begin({failure.partition: offset}, is_chosen=False)

    def _drop_ready(self, partition: TopicPartition) -> None:
        if self.ready and (self.ready[0].topic, self.ready[0].partition) == partition:
            self.ready.clear()
