"""The consumer: reads partitions in order, with or without a group."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from raftlog.client.arguments import offset_argument, partition_argument, partitions_option, require_id
from raftlog.client.completed_fetch import CompletedFetch
from raftlog.client.connection import Connection
from raftlog.client.fetching import Fetcher
from raftlog.client.loop_affinity import LoopAffinity
from raftlog.client.manual_assignment import ManualAssignment
from raftlog.client.metrics import ConsumerMetrics, GroupCounters, Percentiles
from raftlog.client.offsets import OffsetAndMetadata, OffsetsToCommit, full
from raftlog.client.options import defaults_of, known_options, require_at_least, require_effect
from raftlog.client.reader import PartitionReader
from raftlog.client.security import Security
from raftlog.client.start_offsets import Start
from raftlog.errors import ConfigError, InvalidRequestError, RetriableError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.record import Record
from raftlog.runtime import close_all

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.client.core.membership import GroupMetadata
    from raftlog.client.group_session import GroupSession, OnRebalance
    from raftlog.wire.groups import Assignor

__all__ = ["Consumer", "OffsetAndMetadata", "OutOfRange", "Reset", "Start"]

OutOfRange: TypeAlias = Literal["error", "earliest", "latest"]
Reset: TypeAlias = Literal["earliest", "latest", "none"] | timedelta
ITERATION_WAIT_MS = 60_000
DUE_WORK_MS = 5_000
"""While it waits for records, a consumer runs due work (commits, rebalances, new partitions) this often."""
RETRY_MS = 200
_log = logging.getLogger(__name__)


class Consumer:
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

    Args: callbacks of a group (functions or coroutine functions that take a list of partitions)
        on_assigned: called after partitions were taken.
        on_revoked: called before partitions are given up, also when the consumer closes.
        on_lost: called when other members may read the partitions already; None: `on_revoked` is called.

    Args: how records are fetched
        fetch_max_wait_ms: how long a broker may hold a fetch that finds too few bytes.
        fetch_min_bytes: a broker answers a fetch once it has so many bytes.
        fetch_max_bytes: the most bytes of one answer; a single larger batch is returned all the same.
        partition_max_bytes: the most bytes of one partition in one answer; a single larger batch is returned, too.
        request_timeout_ms: how long one call of a broker or a coordinator may take, attempts included.
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
        partition_max_bytes: int = 4 << 20,
        request_timeout_ms: int = 30_000,
        isolation: Isolation = "read_uncommitted",
        client_rack: str = "",
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
    ) -> None:
        given = locals()
        if not topics and pattern is None:
            raise ConfigError("topics: expected at least one, received none")
        if odd := next((topic for topic in topics if not isinstance(topic, str)), None):
            raise ConfigError(f"topics: expected names, one argument each, received {odd!r}")
        if isolation not in get_args(Isolation):
            raise ConfigError(f"isolation: expected read_committed or read_uncommitted, received {isolation!r}")
        if group_id is not None:
            require_id("group_id", group_id)
        _require_reset(auto_offset_reset)
        if on_out_of_range not in get_args(OutOfRange):
            raise ConfigError(
                f"on_out_of_range: expected one of {', '.join(get_args(OutOfRange))}, received {on_out_of_range!r}"
            )
        require_effect(given, _DEFAULTS, _ONLY_IN_GROUPS if group_id is None else _ONLY_ALONE)
        require_at_least(0, fetch_max_wait_ms=fetch_max_wait_ms, fetch_min_bytes=fetch_min_bytes)
        require_at_least(1, fetch_max_bytes=fetch_max_bytes, partition_max_bytes=partition_max_bytes)
        require_at_least(1, request_timeout_ms=request_timeout_ms)
        require_at_least(1, max_poll_interval_ms=max_poll_interval_ms, auto_commit_interval_ms=auto_commit_interval_ms)
        self._start: Start = start
        self._loop = LoopAffinity("consumer")
        self._connection = Connection(
            bootstrap,
            timeout_ms=request_timeout_ms,
            dial=dial,
            waits=True,
            security=security,
            client_id=client_id,
        )
        fetcher = Fetcher(
            self._connection,
            max_wait_ms=fetch_max_wait_ms,
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            partition_max_bytes=partition_max_bytes,
            rack=client_rack,
            isolation=isolation,
        )
        reset: Start | None = None if auto_offset_reset == "none" else auto_offset_reset
        if group_id is None:
            reset = None if on_out_of_range == "error" else on_out_of_range
        self._reader = PartitionReader(self._connection, fetcher, on_out_of_range=reset)
        chosen = None if partitions is None else partitions_option(partitions)
        self._manual = ManualAssignment(self._connection, self._reader, topics, chosen)
        self._group: GroupSession | None = None
        if group_id is not None:
            from raftlog.client.core.membership import MemberOptions, Membership  # noqa: PLC0415  (only groups need them)
            from raftlog.client.group_session import GroupOptions, GroupSession  # noqa: PLC0415

            options = MemberOptions(
                topics=topics,
                pattern=pattern or "",
                instance_id=group_instance_id,
                assignor=assignor,
                rack=client_rack,
                client_id=self._connection.session.client_id,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=max_poll_interval_ms,
            )
            self._group = GroupSession(
                self._connection,
                self._reader,
                Membership(uuid.uuid4().hex, options),
                group_id=group_id,
                max_poll_interval_ms=max_poll_interval_ms,
                options=GroupOptions(
                    reset=reset,
                    auto_commit_interval_ms=auto_commit_interval_ms if enable_auto_commit else None,
                    timeout_ms=request_timeout_ms,
                    on_assigned=on_assigned,
                    on_revoked=on_revoked,
                    on_lost=on_lost,
                ),
            )
        self._started = self._closed = self._busy = False
        self._starting = asyncio.Lock()

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

    def __aiter__(self) -> Self:
        return self

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

    async def _close(self, *, commit: bool) -> None:
        if self._closed:
            return
        try:
            if self._group is not None:
                await self._group.close(commit=commit)
        finally:
            self._closed = True
            await close_all(self._manual.close, self._reader.fetcher.close, self._connection.close)

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
                max_wait_ms = _left_ms(deadline)

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
                    self._reader.begin({TopicPartition(first.topic, first.partition): first.offset})
                    continue
                table = self._reader.take_arrow(fetch)
                if table.num_rows or fetch is None:
                    return table
                max_wait_ms = _left_ms(deadline)

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads."""
        return list(self._reader.positions)

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._reader.positions[self._require_assigned(topic, partition)]

    def lag(self, topic: str, partition: int) -> int | None:
        """Return how many offsets are still to be read; return None until a broker has reported the end.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._reader.lag(self._require_assigned(topic, partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of some partitions until `resume`. The partitions stay assigned.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._reader.pause(self._chosen(partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._reader.resume(self._chosen(partitions))

    async def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Continue at an offset.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            offset: the offset of the next record to return.

        Raises:
            InvalidRequestError: it is no offset, or this consumer does not read the partition.
        """
        offset_argument(offset)
        await self._ensure_started()
        self._reader.begin({self._require_assigned(topic, partition): offset})

    async def seek_to(self, start: Start, *partitions: tuple[str, int]) -> None:
        """Continue at the earliest or latest offset, or at a time.

        Times are looked up by the millisecond: `seek_to(record.timestamp)` continues at this record, or at one before
        it of the same millisecond.

        Args:
            start: `earliest`, `latest`, µs since 1970 UTC, a datetime (local if it has no zone), or a timedelta ago.
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: INVALID_TIMESTAMP, a number that looks like another unit; or this consumer does not
                read one of the partitions.
        """
        await self._ensure_started()
        self._reader.begin(await self._reader.offsets(self._chosen(partitions), start))

    async def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that this consumer reads."""
        await self._ensure_started()
        return await self._reader.offsets(self._reader.positions, "earliest")

    async def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the end of each partition that this consumer reads: its high watermark, or its last stable offset."""
        await self._ensure_started()
        return await self._reader.offsets(self._reader.positions, "latest")

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this member's place in its group: the argument of `Transaction.send_offsets`.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        return self._require_group().metadata

    async def seek_to_committed(self) -> None:
        """Continue at what the group has committed: later records are returned again.

        A member that the group has dropped joins again with the next call for records.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        await self._ensure_started()
        await self._require_group().rewind(frozenset(self.assignment))

    async def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commit the group's offsets; return once they are replicated.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            FencedError: the membership has ended, or another member has one of the partitions. That member goes on from
                the last commit. Nothing of that partition was committed.
            UnknownOutcomeError: no answer came, or an error after an attempt without an answer; the commit may count.
            RetriableError: the coordinator cannot be reached; commit again.
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        group = self._require_group()
        await group.commit(self._to_commit(offsets))

    def commit_nowait(self, offsets: OffsetsToCommit | None = None) -> asyncio.Task[None]:
        """Commit in the background, after earlier commits; return a future, which may be awaited or dropped.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        return self._require_group().commit_soon(self._to_commit(offsets))

    async def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None stands for a partition without one.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        wanted = [partition_argument(partition) for partition in partitions] or self.assignment
        answer = await self._require_group().committed(wanted)
        return {
            TopicPartition(item.topic, item.partition): OffsetAndMetadata(
                offset=item.offset, metadata=item.metadata, leader_epoch=item.leader_epoch
            )
            if item.offset >= 0
            else None
            for item in answer
        }

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

    async def _ensure_started(self) -> None:
        self._require_open()
        if self._started:
            return
        async with self._starting:
            if not self._started:
                await (self._manual.begin(self._start) if self._group is None else self._group.start())
                self._started = True

    async def _next_completed(self, max_wait_ms: int, *, all_ready: bool = False) -> CompletedFetch | None:
        await self._ensure_started()
        if self._group is not None:
            return await self._next_of_group(self._group, max_wait_ms, all_ready=all_ready)
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        while True:
            self._manual.run_due_work()
            left_ms = _left_ms(deadline)
            fetch = await self._or_nothing(self._reader.next_completed(min(left_ms, DUE_WORK_MS), all_ready=all_ready))
            if fetch is not None or self._reader.ready or _left_ms(deadline) == 0:
                return fetch

    async def _or_nothing(self, next_completed: Awaitable[CompletedFetch | None]) -> CompletedFetch | None:
        """Return the next completed fetch; None if brokers do not answer: a consumer waits through an outage."""
        try:
            return await next_completed
        except RetriableError as error:
            _log.info("no records for now: %s: %s", error.code, error.message)
            await asyncio.sleep(0.05)
            return None

    async def _next_of_group(self, group: GroupSession, max_wait_ms: int, *, all_ready: bool) -> CompletedFetch | None:
        """Run the group's due work, then wait for records; repeat if the assignment changes meanwhile."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_ms / 1000
        while True:
            await group.run_due_work()
            if self._reader.ready:
                return None
            left_ms = min(_left_ms(deadline), RETRY_MS if group.waits_to_take else DUE_WORK_MS)
            fetch = await self._or_nothing(self._reader.next_completed(left_ms, all_ready=all_ready))
            if not group.must_rebalance and (fetch is not None or loop.time() >= deadline):
                return fetch
            if loop.time() >= deadline:
                return None

    @contextmanager
    def _polling(self) -> Iterator[None]:
        """Guard against a second reading task: it would commit records that the first has not processed."""
        self._require_open()
        if self._busy:
            raise InvalidRequestError("another task is reading from this consumer; create one consumer for each task")
        self._busy = True
        try:
            with nullcontext() if self._group is None else self._group.polling():
                yield
        finally:
            self._busy = False

    def _require_open(self) -> None:
        if self._closed:
            raise InvalidRequestError("this consumer is closed; make another one")
        self._loop.require()

    def _require_group(self) -> GroupSession:
        self._require_open()
        if self._group is None:
            raise InvalidRequestError("group_id: missing; only members of a group commit")
        return self._group

    def _to_commit(self, offsets: OffsetsToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._require_group().positions(self._reader.positions) if offsets is None else full(offsets)

    def _chosen(self, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        """Return the given partitions, all of which must be assigned; without any, every assigned one."""
        return [self._require_assigned(*partition_argument(named)) for named in partitions] or self.assignment

    def _require_assigned(self, topic: str, partition: int) -> TopicPartition:
        wanted = TopicPartition(topic, partition)
        if wanted not in self._reader.positions:
            read = ", ".join(map(str, self._reader.positions)) or "none yet"
            raise InvalidRequestError(f"{wanted} is not read by this consumer, which reads {read}")
        return wanted


_DEFAULTS = defaults_of(Consumer.__init__)
_MEMBERS = "only members of a group have it: set group_id"
_ONLY_IN_GROUPS = {
    "auto_offset_reset": f"{_MEMBERS}, or use start and on_out_of_range without one",
    **dict.fromkeys(
        (
            "pattern",
            "group_instance_id",
            "enable_auto_commit",
            "auto_commit_interval_ms",
            "session_timeout_ms",
            "max_poll_interval_ms",
            "assignor",
            "on_assigned",
            "on_revoked",
            "on_lost",
        ),
        _MEMBERS,
    ),
}
_ONLY_ALONE = {
    "start": "not in a group, which goes on from its commits: use auto_offset_reset",
    "on_out_of_range": "not in a group: use auto_offset_reset",
    "partitions": "not with a group_id, whose coordinator assigns them",
}


def _left_ms(deadline: float) -> int:
    """Return the milliseconds until a loop time, rounded up: rounded down, the last one would be a busy wait."""
    return max(0, ceil(1000 * (deadline - asyncio.get_running_loop().time())))


def _require_reset(reset: Reset) -> None:
    if not isinstance(reset, timedelta) and reset not in ("earliest", "latest", "none"):
        raise ConfigError(f"auto_offset_reset: expected earliest, latest, none or a timedelta, received {reset!r}")
