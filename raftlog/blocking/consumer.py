"""The consumer without async."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from raftlog.blocking.consumer_facade import ConsumerFacade
from raftlog.blocking.stepping import SteppedConsumer
from raftlog.client.consumer import OutOfRange, Reset
from raftlog.client.core.membership import GroupMetadata
from raftlog.client.group_session import OnRebalance
from raftlog.client.metrics import ConsumerMetrics
from raftlog.client.offsets import OffsetAndMetadata, OffsetsToCommit
from raftlog.client.options import known_options
from raftlog.client.security import Security
from raftlog.client.start_offsets import Start
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.record import Record
from raftlog.wire.groups import Assignor

if TYPE_CHECKING:
    import pyarrow as pa


class Consumer(ConsumerFacade):
    """Reads topics. Use as a context manager, and iterate: `for record in consumer`.

    With a `group_id` the consumer is a member of a consumer group. The members share the partitions, and go on where
    the group has committed. The member heartbeats in the background. It takes partitions, gives them up and commits
    only while the application asks for records, never between two calls.

    `on_assigned`, `on_revoked` and `on_lost` run in another thread, while the call for records (or `close`) waits for
    them. They may call this consumer (`commit`, `seek`, `position`), but neither read from it nor close it.

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
        super().__init__(
            lambda: SteppedConsumer(
                bootstrap,
                *topics,
                partitions=partitions,
                start=start,
                group_id=group_id,
                pattern=pattern,
                group_instance_id=group_instance_id,
                auto_offset_reset=auto_offset_reset,
                enable_auto_commit=enable_auto_commit,
                auto_commit_interval_ms=auto_commit_interval_ms,
                session_timeout_ms=session_timeout_ms,
                max_poll_interval_ms=max_poll_interval_ms,
                assignor=assignor,
                on_assigned=self._apart(on_assigned),
                on_revoked=self._apart(on_revoked),
                on_lost=self._apart(on_lost),
                client_id=client_id,
                on_out_of_range=on_out_of_range,
                fetch_max_wait_ms=fetch_max_wait_ms,
                fetch_min_bytes=fetch_min_bytes,
                fetch_max_bytes=fetch_max_bytes,
                partition_max_bytes=partition_max_bytes,
                request_timeout_ms=request_timeout_ms,
                isolation=isolation,
                client_rack=client_rack,
                dial=dial,
                security=security,
            )
        )

    def fetch(self, *, max_records: int | None = None, max_wait_ms: int = 500) -> list[Record]:
        """Return the next records of one partition; return an empty list if none came within `max_wait_ms`.

        Args:
            max_records: the most records to return; None: 500. Fewer cost more each; more take more memory.
            max_wait_ms: how long to wait for records.

        Raises:
            OffsetOutOfRangeError: the position is not in the log, and no option says where to go on.
            CorruptBatchError: a checksum is wrong, and was wrong again after the broker checked the batch.
            RaftlogError: the membership has failed for good.
        """
        return self._read(self._client.fetch, max_records=max_records, max_wait_ms=max_wait_ms)

    def fetch_arrow(self, *, max_wait_ms: int = 500) -> pa.Table:
        """Return everything that is ready as one table; return an empty table if nothing came within `max_wait_ms`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Keys, values and headers are not copied.

        Args:
            max_wait_ms: how long to wait for records.

        Raises:
            OffsetOutOfRangeError: the position is not in the log, and no option says where to go on.
            CorruptBatchError: a checksum is wrong, and was wrong again after the broker checked the batch.
            RaftlogError: the membership has failed for good.
        """
        return self._read(self._client.fetch_arrow, max_wait_ms=max_wait_ms)

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads."""
        return self._ask(lambda: self._client.assignment)

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._ask(self._client.position, topic, partition)

    def lag(self, topic: str, partition: int) -> int | None:
        """Return how many offsets are still to be read; return None until a broker has reported the end.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._ask(self._client.lag, topic, partition)

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of some partitions until `resume`. The partitions stay assigned.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._ask(self._client.pause, *partitions)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._ask(self._client.resume, *partitions)

    def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Continue at an offset.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            offset: the offset of the next record to return.

        Raises:
            InvalidRequestError: it is no offset, or this consumer does not read the partition.
        """
        self._run(self._client.seek, topic, partition, offset)

    def seek_to(self, start: Start, *partitions: tuple[str, int]) -> None:
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
        self._run(self._client.seek_to, start, *partitions)

    def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that this consumer reads."""
        return self._run(self._client.beginning_offsets)

    def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the end of each partition that this consumer reads: its high watermark, or its last stable offset."""
        return self._run(self._client.end_offsets)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this member's place in its group: the argument of `Transaction.send_offsets`.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        return self._ask(lambda: self._client.group_metadata)

    def seek_to_committed(self) -> None:
        """Continue at what the group has committed: later records are returned again.

        A member that the group has dropped joins again with the next call for records.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        self._run(self._client.seek_to_committed)

    def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commit the group's offsets; return once they are replicated.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            FencedError: the membership has ended, or another member has one of the partitions. That member goes on from
                the last commit. Nothing of that partition was committed.
            UnknownOutcomeError: no answer came, or an error after an attempt without an answer; the commit may count.
            NotFoundError: a topic or a partition does not exist, or the topic was deleted and created again since its
                records were read (UNKNOWN_TOPIC_ID). Nothing of that partition was committed. The consumer goes on in
                the new topic by `auto_offset_reset`.
            RetriableError: the coordinator cannot be reached; commit again.
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        self._run(self._client.commit, offsets)

    def commit_nowait(self, offsets: OffsetsToCommit | None = None) -> Future[None]:
        """Commit in the background, after earlier commits; return a future, to wait for or to drop.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        return self._begin_soon(self._client.commit_nowait, offsets)

    def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None stands for a partition without one.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        return self._run(self._client.committed, *partitions)

    def metrics(self) -> ConsumerMetrics:
        """Return what this consumer has done so far."""
        return self._ask(self._client.metrics)
