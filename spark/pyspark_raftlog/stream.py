"""Streams: a position for each partition, which Spark stores in its checkpoint.

Spark asks `latestOffset(start)` for the next end, plans `partitions(start, end)`, and stores `end` before it runs the
batch. After a crash it plans the same two positions again, so planning a batch asks no broker: the same two positions
always mean the same offsets. A partition that appears while a stream runs is read from offset 0.

Without new records, Spark would ask again every few milliseconds. `latestOffset` long-polls a broker instead, up to
`IDLE_WAIT_MS`, and returns as soon as a record arrives.
"""

# ruff: noqa: N802 -- Spark names these methods.

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from pyspark_raftlog.admission import NO_LIMIT, Admission
from pyspark_raftlog.background import background
from pyspark_raftlog.checkpoint import (
    BEGIN,
    JsonPositions,
    StreamPosition,
    TopicIds,
    encode_positions,
    recreated_topics,
    without_recreated,
)
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.error_output import plain_errors
from pyspark_raftlog.offsets import LogEnds, Positions, data_loss, expand, ranges_between, require_readable
from pyspark_raftlog.options import SourceOptions
from pyspark_raftlog.progress import GroupProgress
from pyspark_raftlog.reader import (
    RangePartition,
    describe_topics,
    partitions_of,
    plan_tasks,
    read_task,
    resolve_starting,
)
from pyspark_raftlog.schema import check_projection
from raftlog.errors import RaftlogError
from raftlog.model import INTERNAL_TOPICS, NO_LEADER_EPOCH, TopicPartition

IDLE_WAIT_MS = 500
SETTLE_MS = 10_000
"""How long a log may end before the stream's position, or differ, without counting as a loss: a new leader may not have
its high watermark yet, and a broker's metadata may be old."""
_log = logging.getLogger(__name__)


class RaftlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # untyped here
    """One stream. Spark has one instance in the driver for the offsets, and pickles a copy for `read`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_projection(schema)
        self._options = options
        self._schema = schema
        self._topic_ids: TopicIds = {}
        self._latest: Positions = {}
        self._begin: JsonPositions | None = None
        """Where this run begins; None: where the checkpoint says, as far as is known."""
        self._available_now = False
        self._target: Positions | None = None
        """The end of an AvailableNow run, fixed by its first `latestOffset`."""
        self._admission = Admission(options)
        self._progress = GroupProgress(options)

    @plain_errors()
    def initialOffset(self) -> JsonPositions:
        if self._begin is None:  # Spark asks more than once, and `latest` moves.
            loop = background()
            self._begin = loop.run(self._initial(loop.cluster(self._options))).encode()
        return self._begin

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return whether there is a limit: Python has no composite limit, so `latestOffset` applies all of them."""
        if not self._options.is_limited:
            return ReadAllAvailable()
        return ReadMaxRows(self._options.max_offsets_per_trigger or NO_LIMIT)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    @plain_errors()
    def latestOffset(self, start: JsonPositions, limit: ReadLimit) -> JsonPositions:
        """Return where the next batch ends. Everything before `start` is processed."""
        loop = background()
        cluster = loop.cluster(self._options)
        processed = StreamPosition.decode(start)
        # An AvailableNow run may end right after this call, so no background task may be left.
        self._progress.publish(cluster, processed.offsets, wait=self._available_now)
        limited = not isinstance(limit, ReadAllAvailable)
        begin, next_end = loop.run(self._next_batch(cluster, processed, limited=limited))
        end = next_end.encode()
        if begin.offsets != processed.offsets:
            return end | {BEGIN: begin.encode()}
        if end == {name: value for name, value in start.items() if name != BEGIN}:
            return start  # As text, too: Spark compares that.
        return end | {BEGIN: start} if start == self._begin else end

    def reportLatestOffset(self) -> JsonPositions | None:
        """Return the readable end of each log, which Spark reports in the query's progress (`pyspark_raftlog.lag`)."""
        return encode_positions(self._latest) if self._latest else None

    @plain_errors()
    def partitions(self, start: JsonPositions, end: JsonPositions) -> list[RangePartition]:
        if start == end and BEGIN in end and self._begin is None:
            # A restart whose first batch was logged, and not committed: the stream begins where that batch did,
            # whatever the options say now. Spark asks for it after this call.
            self._begin = end[BEGIN]
        if start != end:
            # A first batch that is repeated: `latest` may have moved since. Or one that goes back: a log was truncated.
            start = end.get(BEGIN, start)
        # With the position's topic ids: a batch that is planned again reads the same topics.
        before, after = StreamPosition.decode(start), StreamPosition.decode(end)
        begins = without_recreated(before.offsets, recreated_topics(before.topic_ids, after.topic_ids))
        ranges = ranges_between(begins, after.offsets, after.epochs)
        return plan_tasks(ranges, self._options, after.topic_ids)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        with plain_errors():
            yield from read_task(self._options, partition, self._schema)

    def commit(self, end: JsonPositions) -> None:
        """Do nothing: the checkpoint is the only position."""

    def stop(self) -> None:
        """Do nothing: connections belong to the process."""

    async def _next_batch(
        self, cluster: Cluster, processed: StreamPosition, *, limited: bool
    ) -> tuple[StreamPosition, StreamPosition]:
        """Return where the next batch begins and ends. It begins at what is processed, if the logs still have that."""
        begin, ends = await self._settled(cluster, processed)
        if not self._available_now and begin.offsets == _reach(begin.offsets, ends):
            await cluster.wait_for_records(begin.offsets, max_wait_ms=IDLE_WAIT_MS, isolation=self._options.isolation)
            begin, ends = await self._settled(cluster, begin)
        target = self._bounded(_reach(begin.offsets, ends), begin.offsets)
        if limited:
            existing = _without_deleted(begin.offsets, ends)
            if not self._available_now and (wait_ms := self._admission.hold_back_ms(existing, target)):
                await cluster.wait_for_records(
                    target, max_wait_ms=min(wait_ms, IDLE_WAIT_MS), isolation=self._options.isolation
                )
                begin, ends = await self._settled(cluster, begin)
                existing, target = _without_deleted(begin.offsets, ends), _reach(begin.offsets, ends)
                if self._admission.hold_back_ms(existing, target):
                    return begin, begin
            target = await self._admission.limit(cluster, {key: existing[key] for key in target}, target)
        return begin, begin.moved_to(target, ends, self._topic_ids)

    def _bounded(self, latest: Positions, positions: Positions) -> Positions:
        """Limit an AvailableNow run to the records at its start, and never move it back before what is processed."""
        if not self._available_now:
            return latest
        if self._target is None:
            self._target = latest
        known = self._target | positions
        return {key: max(known[key], self._target.get(key, 0)) for key in latest if key in known}

    async def _initial(self, cluster: Cluster) -> StreamPosition:
        ends = await self._ends(cluster)
        assert self._options.starting is not None
        starting = expand(self._options.starting, sorted(ends), option="startingOffsets")
        starts, ends = await resolve_starting(cluster, self._options, starting, ends)
        fail = self._options.fail_on_data_loss
        begins = {key: require_readable(key, starts[key], ends[key], fail_on_data_loss=fail) for key in ends}
        return StreamPosition({}).moved_to(begins, ends, self._topic_ids)

    async def _ends(self, cluster: Cluster, *, may_lack: bool = False) -> dict[TopicPartition, LogEnds]:
        topics = await describe_topics(cluster, self._options, may_lack=may_lack)
        self._topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        ends = await cluster.log_ends(partitions_of(topics, self._options), self._options.isolation)
        self._latest = {key: log.end for key, log in ends.items()}
        return ends

    async def _settled(
        self, cluster: Cluster, position: StreamPosition
    ) -> tuple[StreamPosition, dict[TopicPartition, LogEnds]]:
        """Return where a stream goes on, and the end of each log, once every log exists and has what was read of it.

        A broker with old metadata may return older topic ids than the position's for a moment.
        """
        # A topic that was deleted since the stream began is a loss, as its records are.
        may_lack = not self._options.fail_on_data_loss
        ends, waited_ms = await self._ends(cluster, may_lack=may_lack), 0
        patience_ms = min(SETTLE_MS, self._options.timeout_ms)
        while problems := _problems(position, ends, recreated_topics(position.topic_ids, self._topic_ids)):
            if waited_ms >= patience_ms:
                break
            cluster.doubt_metadata()  # The broker that answers may be cut off, and lack a topic.
            await asyncio.sleep(0.1)
            waited_ms += 100
            ends = await self._ends(cluster, may_lack=may_lack)
        for partition, problem in problems.items():
            if self._options.fail_on_data_loss:
                raise data_loss(partition, problem)
            _log.warning("%s: %s", partition, problem)
        return self._after_losses(position, ends, set(problems)), ends

    def _after_losses(
        self, position: StreamPosition, ends: dict[TopicPartition, LogEnds], lost: set[TopicPartition]
    ) -> StreamPosition:
        """Return where a stream goes on: new topics from their beginning, truncated logs from where they agree."""
        recreated = recreated_topics(position.topic_ids, self._topic_ids)
        moved = without_recreated(position.offsets, recreated)
        anew = {key for key in ends if key.topic in recreated}
        cut = lost & ends.keys() - anew
        moved |= {key: position.agreed(key, ends[key]) for key in cut}
        if self._target is not None:  # What has changed during the run ends where it ends now.
            self._target |= {key: ends[key].end for key in anew | cut}
        changed = (anew & moved.keys()) | cut
        epochs = position.epochs | {key: ends[key].epoch_before(moved[key]) for key in changed}
        read = position.read | {key: ends[key].epochs_before(moved[key]) for key in changed}
        return StreamPosition(moved, position.topic_ids | self._topic_ids, epochs, read)


class RefusedStream(DataSourceStreamReader):  # type: ignore[misc] # untyped here
    """A stream with invalid options: raises the error in `initialOffset`.

    Spark 4.3 replaces an error that is raised earlier, in the reader's constructor, by one of its own: it stops a
    reader that does not exist. It calls `getDefaultReadLimit` first, which must succeed.
    """

    def __init__(self, error: RaftlogError) -> None:
        self._error = error

    @plain_errors()
    def initialOffset(self) -> JsonPositions:
        raise self._error

    @plain_errors()
    def latestOffset(self, start: JsonPositions, limit: ReadLimit) -> JsonPositions:  # noqa: ARG002 -- Spark's names
        raise self._error

    @plain_errors()
    def partitions(self, start: JsonPositions, end: JsonPositions) -> list[RangePartition]:  # noqa: ARG002 -- as above
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 -- as above
        raise self._error


def _reach(positions: Positions, ends: dict[TopicPartition, LogEnds]) -> Positions:
    """Return the furthest end of a batch from `positions` on."""
    return {key: log.next_end(positions.get(key, 0)) for key, log in ends.items()}


def _without_deleted(positions: Positions, ends: dict[TopicPartition, LogEnds]) -> Positions:
    """Return where reading can begin: limits count only records that exist."""
    return {key: max(positions.get(key, 0), log.log_start_offset) for key, log in ends.items()}


def _problems(
    position: StreamPosition, ends: dict[TopicPartition, LogEnds], recreated: set[str]
) -> dict[TopicPartition, str]:
    problems = {}
    for key, offset in sorted(position.offsets.items()):
        epoch = position.epochs.get(key, NO_LEADER_EPOCH)
        if key.topic in recreated:
            problems[key] = f"the topic was deleted and recreated; the stream was at offset {offset} of the one before"
        elif key.topic in INTERNAL_TOPICS and key not in ends:
            continue  # A pattern's topic that was deleted.
        elif key not in ends:
            problems[key] = "the partition no longer exists, or the options no longer name it"
        elif ends[key].next_end(offset) < offset:
            problems[key] = f"the stream is at offset {offset}, the log ends at {ends[key].end}"
        elif ends[key].was_truncated(offset, epoch):
            problems[key] = (
                f"the log was truncated: the record before offset {offset} had leader epoch {epoch} when the stream "
                f"read it, and has {ends[key].epoch_before(offset)} now; what agrees ends at offset "
                f"{position.agreed(key, ends[key])}"
            )
    return problems
