"""The consumer: reads partitions in order, with or without a group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from raftlog.client.consumer_commits import ConsumerCommits
from raftlog.client.consumer_options import ConsumerOptions, OutOfRange, Reset
from raftlog.client.consumer_polling import left_ms
from raftlog.client.iterations import Iteration, Iterations
from raftlog.client.metrics import ConsumerMetrics, GroupCounters, Percentiles
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.options import defaults_of, known_options, require_at_least
from raftlog.client.security import Security
from raftlog.client.start_offsets import Start
from raftlog.model import Isolation, TopicPartition
from raftlog.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.client.group_session import OnRebalance
    from raftlog.client.reader import PartitionReader
    from raftlog.wire.groups import Assignor

__all__ = ["Consumer", "OffsetAndMetadata", "OutOfRange", "Reset", "Start"]

ITERATION_WAIT_MS = 60_000
CLOSING_TURNS = 10
"""Each generator around a loop takes two turns of the event loop to close."""


class Consumer(ConsumerCommits):
    """Reads topics. Use as an async context manager, and iterate: `async for record in consumer`.

    With a `group_id` the consumer is a member of a consumer group. The members share the partitions, and go on where
    the group has committed. The member heartbeats in the background. It takes partitions, gives them up and commits
    only while the application asks for records, never between two calls.

    Args: what is read
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        topics: the topics' names, one argument each.
        partitions: of each topic, only these; None: all, and those that are added later. Not in a group.
        pattern: read every topic whose whole name matches this regular expression, now or later. Groups only.
        isolation: `read_committed` reads up to the last stable offset and leaves aborted records out;
            `read_uncommitted` reads up to the high watermark.

    Args: where reading begins
        start: `earliest`, `latest`, or a time (a datetime, local if it has no zone; a timedelta ago; or µs since 1970
            UTC, as in `record.timestamp`). Not in a group.
        on_out_of_range: where to go on when the position is not in the log: `earliest`, `latest`, or `error`, which
            raises OffsetOutOfRangeError. Not in a group.
        auto_offset_reset: where a group begins that has committed nothing, or whose position is not in the log:
            `earliest`, `latest`, a timedelta ago, or `none`, which raises. Groups only.

    Args: membership of a group
        group_id: the group's id; None: read without a group.
        group_instance_id: makes this a static member: a process that comes back with the same id before the session
            times out gets the same partitions, without a rebalance.
        assignor: the assignor that this member votes for: `uniform`, `sticky` or `range`; None: no vote.
        session_timeout_ms: the group removes this member after so long without a heartbeat; None: the cluster's
            setting.
        max_poll_interval_ms: the longest time between two calls for records. After it, other members get the
            partitions, and the next call reports the loss (`on_lost`).

    Args: commits of a group
        enable_auto_commit: commit what was returned when the next records are asked for, and when the consumer closes.
        auto_commit_interval_ms: the shortest time between two automatic commits.

    Args: callbacks of a group (functions or coroutine functions that take a list of partitions; a call for records that
            is cancelled leaves them running, and the next one waits for them)
        on_assigned: called after partitions were taken.
        on_revoked: called before partitions are given up, also when the consumer closes.
        on_lost: called when other members may read the partitions already; None: `on_revoked` is called.

    Args: how records are fetched
        fetch_max_wait_ms: how long a broker may hold a fetch that finds too few bytes.
        fetch_min_bytes: a broker answers a fetch once it has so many bytes.
        fetch_max_bytes: the most bytes of one answer; a single larger batch is returned all the same.
        partition_max_bytes: the most bytes of one partition in one answer; a single larger batch is returned, too.
        request_timeout_ms: how long one call of a broker or a coordinator may take, attempts included. After as long, a
            fetch whose answers cannot be read (from a proxy, or too large) is an error.
        client_rack: the consumer's rack: it reads from in-sync replicas in the same rack, if there are any.
        dial: for each address as brokers announce it (`host:port`), the address to connect to instead.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).
        client_id: the application's name, for quotas and for descriptions of groups; "": the variable
            `RAFTLOG_CLIENT_ID`, or none.
    """

    @known_options
    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *topics: str,
        partitions: Iterable[int] | None = None,
        start: Start = "latest",
        group_id: str | None = None,
        pattern: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: Reset = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: int = 5_000,
        session_timeout_ms: int | None = None,
        max_poll_interval_ms: int = 300_000,
        assignor: Assignor | None = None,
        on_assigned: OnRebalance | None = None,
        on_revoked: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
        client_id: str = "",
        on_out_of_range: OutOfRange = "error",
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 << 20,
        partition_max_bytes: int = 8 << 20,
        request_timeout_ms: int = 30_000,
        isolation: Isolation = "read_uncommitted",
        client_rack: str = "",
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
    ) -> None:
        super().__init__(ConsumerOptions.checked(locals(), _DEFAULTS))

    async def __aenter__(self) -> Self:
        try:
            await self._ensure_started()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        # Records whose processing raised must be read again, so their offsets are not committed.
        await self._close(commit=error is None)

    def __aiter__(self) -> AsyncIterator[Record]:
        """Begin a loop. Only one task may have one under way: that of another task raises InvalidRequestError."""
        return _Loop(self, self._reader, self._iterations, has_group=self._group is not None)

    async def __anext__(self) -> Record:
        """Return the next record, however long that takes.

        Being cancelled (`asyncio.wait_for(anext(consumer), 1)`) neither loses nor repeats a record: the next call
        returns it.
        """
        reader, group = self._reader, self._group
        while True:
            if not reader.ready:
                if records := await self.fetch(max_wait_ms=ITERATION_WAIT_MS):
                    reader.keep_ready(records)
            elif group is None:
                return reader.next_ready()
            elif self._busy or self._closed or group.has_due_work:
                with self._polling():  # The application has processed the last record.
                    await group.run_due_work()
            else:
                group.member.note_poll()
            if reader.ready:
                return reader.next_ready()

    async def close(self) -> None:
        """Commit (if that is automatic), leave the group, stop fetching, and close every connection."""
        await self._close(commit=True)

    async def fetch(self, *, max_records: int | None = None, max_wait_ms: int = 500) -> list[Record]:
        """Return the next records of one partition; return an empty list if none came within `max_wait_ms`.

        Args:
            max_records: the most records to return; None: 500. Fewer cost more each; more take more memory.
            max_wait_ms: how long to wait for records.

        Raises:
            OffsetOutOfRangeError: the position is not in the log, and no option says where to go on.
            CorruptBatchError: a checksum is wrong, and was wrong again after the broker checked the batch.
            RaftlogError: the membership has failed for good.
        """
        require_at_least(0, max_wait_ms=max_wait_ms, **({} if max_records is None else {"max_records": max_records}))
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        with self._polling():
            while True:
                fetch = await self._next_completed(max_wait_ms)
                if self._reader.ready:
                    return self._reader.take_ready(max_records)
                if fetch is None:
                    return []
                if (records := self._reader.take(fetch, max_records)) or max_records == 0:
                    return records
                # The fetch had no records after compaction, or was damaged and is fetched again. Further completed
                # fetches are taken without a wait, even after the timeout.
                max_wait_ms = left_ms(deadline)

    async def fetch_arrow(self, *, max_wait_ms: int = 500) -> pa.Table:
        """Return everything that is ready as one table; return an empty table if nothing came within `max_wait_ms`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Keys, values and headers are not copied.

        Args:
            max_wait_ms: how long to wait for records.

        Raises:
            OffsetOutOfRangeError: the position is not in the log, and no option says where to go on.
            CorruptBatchError: a checksum is wrong, and was wrong again after the broker checked the batch.
            RaftlogError: the membership has failed for good.
        """
        require_at_least(0, max_wait_ms=max_wait_ms)
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        with self._polling():
            while True:
                fetch = await self._next_completed(max_wait_ms, all_ready=True)
                if self._reader.ready:  # An iteration was left: the records that it did not return are fetched again.
                    first = self._reader.ready[0]
                    self._reader.move_back({TopicPartition(first.topic, first.partition): first.offset})
                    continue
                table = self._reader.take_arrow(fetch)
                if table.num_rows or fetch is None:
                    return table
                max_wait_ms = left_ms(deadline)

    def metrics(self) -> ConsumerMetrics:
        """Return what this consumer has done so far."""
        read = self._reader.fetcher.counters
        group = GroupCounters() if self._group is None else self._group.counters
        throttles = self._connection.session.throttles
        return ConsumerMetrics(
            records_read=read.records,
            bytes_fetched=read.bytes,
            fetches=read.fetches,
            fetches_failed=read.failed,
            fetch_latency_ms=Percentiles.of(read.latency_ms),
            buffered_bytes=sum(fetch.size for fetch in self._reader.fetcher.completed),
            lag={partition: self._reader.lag(partition) for partition in self._reader.positions},
            commits=group.commits,
            commits_failed=group.commits_failed,
            rebalances=group.rebalances,
            outages=self._connection.outage.count,
            outage_s=self._connection.outage.lasts_s,
            throttled=throttles.count,
            throttle_ms=Percentiles.of(throttles.latest_ms),
        )


class _Loop(AsyncIterator[Record]):
    """One `async for`.

    It asks which task iterates when no record is ready, and after another loop: asking costs more than the record.
    """

    def __init__(
        self,
        consumer: Consumer,
        reader: PartitionReader,
        iterations: Iterations[asyncio.Task[Any]],
        *,
        has_group: bool,
    ) -> None:
        self._consumer = consumer
        self._reader = reader
        self._has_group = has_group
        self._iterations = iterations
        self._iteration = Iteration[asyncio.Task[Any]]()

    def __aiter__(self) -> AsyncIterator[Record]:  # noqa: PYI034  (two loops over it are two)
        return aiter(self._consumer)

    async def __anext__(self) -> Record:
        if self._reader.ready and self._iterations.latest is self._iteration.mark:
            if not self._has_group:
                return self._reader.next_ready()
        else:
            await self._step()
        return await self._consumer.__anext__()

    async def _step(self) -> None:
        task = asyncio.current_task()
        if task is None or self._iterations.continues(self._iteration, task):
            return
        for _ in range(CLOSING_TURNS):
            if not self._iterations.is_refused(self._iteration, task):
                break
            await asyncio.sleep(0)  # The event loop closes a generator that was left, and its loop, some turns later.
        self._iterations.step(self._iteration, task)


_DEFAULTS = defaults_of(Consumer.__init__)
