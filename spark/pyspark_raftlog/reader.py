"""Batch queries: start and end are fixed when Spark plans, so that a retried task reads the same records."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from pyspark_raftlog import offsets
from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.error_output import plain_errors
from pyspark_raftlog.fetch import read_range
from pyspark_raftlog.offsets import LogEnds, OffsetRange, Positions
from pyspark_raftlog.options import SourceOptions
from pyspark_raftlog.parsing import Assign, AtTime, Position, Subscribe, SubscribePattern
from pyspark_raftlog.pushdown import ANYTHING, AllowedValues, Pruning, prune
from pyspark_raftlog.schema import check_projection, needed_columns
from pyspark_raftlog.task_traces import task_span
from raftlog.errors import ConfigError, NotFoundError, RetriableError
from raftlog.model import INTERNAL_TOPICS, Offset, TopicPartition
from raftlog.wire.metadata import TopicInfo

_log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):  # type: ignore[misc] # pyspark is untyped here
    """The ranges that one Spark task reads, one after another."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """Detects a topic that was recreated between planning and reading; a missing id is unknown."""


class RaftlogReader(DataSourceReader):  # type: ignore[misc] # pyspark is untyped here
    """One batch query.

    Spark keeps one plan for each frame or view (`PythonDataSourceV2.readInfo`), and pushed filters replace it: another
    query of the same frame, with other filters or none, uses the reduced plan. So filters are used only with the option
    `pushDownPredicate`, which promises that the frame is read once.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_projection(schema)
        self._options = options
        self._schema = schema
        self.pruning = Pruning()
        if options.push_down_predicate:
            self.pushFilters = PushFilters(self)
            """An attribute instead of a method: see `PushFilters`."""
        if plans_are_of_scans():
            self.pruneColumns = self._prune_columns

    def _prune_columns(self, required: object) -> StructType:
        """Build only the columns that the query needs; return the schema, which may have more."""
        if isinstance(required, StructType):
            self._schema = needed_columns(self._schema, required)
        return self._schema

    @plain_errors()
    def partitions(self) -> list[RangePartition]:
        loop = background()
        topics, ranges = loop.run(plan_batch(loop.cluster(self._options), self._options, self.pruning))
        return plan_tasks(ranges, self._options, {name: topic.topic_id for name, topic in topics.items()})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Without partitions, Spark plans one itself, without a range.
        if isinstance(partition, RangePartition):
            with plain_errors():
                yield from read_task(self._options, partition, self._schema, times=self.pruning.timestamp_us)


def plans_are_of_scans() -> bool:
    """Return whether this Spark has column pruning for Python sources and keeps a plan for each scan.

    Spark 4.3 has neither: `pruneColumns` is a proposal (SPARK-51713), and all queries of a frame share a plan, so a
    column that one query does not need would be missing in the next. A Spark with `pushLimit` (SPARK-58551) keeps a
    plan for each scan.
    """
    return all(hasattr(DataSourceReader, name) for name in ("pruneColumns", "pushLimit"))


class PushFilters:
    """Uses the query's filters for pruning, and returns all of them for Spark to apply.

    Spark refuses a reader that overrides `pushFilters` while pushdown is off, which is the default. It detects an
    override by the method's `__func__`, so this object in place of the method has the `__func__` of the base class.
    Spark calls it only with pushdown on.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: RaftlogReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> list[Filter]:
        self._reader.pruning = prune(filters)
        return filters


async def plan_batch(
    cluster: Cluster, options: SourceOptions, pruning: Pruning
) -> tuple[dict[str, TopicInfo], list[OffsetRange]]:
    """Resolve the offset ranges of a batch query."""
    topics = await describe_topics(cluster, options)
    partitions = partitions_of(topics, options)
    assert options.starting is not None
    assert options.ending is not None
    starting = offsets.expand(options.starting, partitions, option="startingOffsets")
    ending = offsets.expand(options.ending, partitions, option="endingOffsets")
    kept = [key for key in partitions if pruning.admits(key)]
    ends = await cluster.log_ends(kept, options.isolation)
    starts, ends = await resolve_starting(cluster, options, starting, ends)
    wanted = {key: ending[key] for key in kept}
    stops = offsets.ending_offsets(wanted, ends, await _found(cluster, options, wanted))
    readable = [_readable(OffsetRange(*key, starts[key], stops[key]), ends[key], options) for key in kept]
    return topics, await _pruned(cluster, options, pruning, readable)


def plan_tasks(ranges: list[OffsetRange], options: SourceOptions, topic_ids: Mapping[str, str]) -> list[RangePartition]:
    """Cut or join ranges into tasks by the options."""
    cut = offsets.split_ranges(
        ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition
    )
    shared = offsets.share_ranges(cut, options.max_partitions)
    return [RangePartition(task, {item.topic: topic_ids.get(item.topic, "") for item in task}) for task in shared]


def read_task(
    options: SourceOptions, partition: RangePartition, schema: StructType, *, times: AllowedValues = ANYTHING
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one task; see `read_range`."""
    with task_span("receive", "fetch", (item.topic for item in partition.ranges), options.traceparent) as span:
        records = 0
        for item in partition.ranges:
            topic_id = partition.topic_ids.get(item.topic, "")
            for rows in read_range(options, item, schema, topic_id=topic_id, times=times):
                records += rows.num_rows
                yield rows
        span.note_records(records)


def _readable(wanted: OffsetRange, ends: LogEnds, options: SourceOptions) -> OffsetRange:
    key, fail = wanted.topic_partition, options.fail_on_data_loss
    start = offsets.require_readable(key, wanted.start, ends, fail_on_data_loss=fail)
    end = offsets.require_readable(key, wanted.end, ends, fail_on_data_loss=fail)
    if end > ends.end:
        raise RetriableError(
            f"{key}: the query would end at offset {end}, after the transaction that is open at offset {ends.end}; "
            "wait until it has ended, or set isolation=read_uncommitted"
        )
    if start > end:
        raise ConfigError(f"{key}: the query would begin at offset {start} and end before it, at {end}")
    return replace(wanted, start=start, end=end, last_epoch=ends.epoch_before(end))


async def _pruned(
    cluster: Cluster, options: SourceOptions, pruning: Pruning, ranges: list[OffsetRange]
) -> list[OffsetRange]:
    """Return the ranges without the offsets that the query's filters exclude, and without empty ranges."""
    ranges = [pruning.cut(item) for item in ranges]
    ranges = [item for item in ranges if item.size > 0]
    if (since_us := pruning.timestamp_us.low) <= 0:
        return ranges
    # Rounded down: the index has milliseconds. All records before the first match are too early.
    times = dict.fromkeys((item.topic_partition for item in ranges), since_us // 1000)
    found = await cluster.first_offsets_at(times, options.isolation)
    late = {item: found[item.topic_partition] for item in ranges}
    return [
        replace(item, start=max(item.start, first))
        for item, first in late.items()
        if first is not None and first < item.end
    ]


async def describe_topics(cluster: Cluster, options: SourceOptions, *, may_lack: bool = False) -> dict[str, TopicInfo]:
    """Return the topics that match the subscription now.

    Args:
        may_lack: named topics may be missing.

    Raises:
        NotFoundError: a named topic does not exist.
    """
    match options.subscription:
        case Subscribe(topics):
            return await cluster.topics(topics, may_lack=may_lack)
        case Assign(partitions):
            return await cluster.topics({partition.topic for partition in partitions}, may_lack=may_lack)
        case SubscribePattern(pattern):
            every = await cluster.all_topics()
            matching = {
                name: topic
                for name, topic in every.items()
                if name not in INTERNAL_TOPICS and re.fullmatch(pattern, name)
            }
            if not matching:
                _log.warning("no topic matches subscribePattern %r", pattern)
            return matching


def partitions_of(topics: dict[str, TopicInfo], options: SourceOptions) -> list[TopicPartition]:
    """List the partitions of these topics to read, sorted.

    Raises:
        NotFoundError: one of the topics lacks an assigned partition.
    """
    every = sorted(TopicPartition(name, info.partition) for name, topic in topics.items() for info in topic.partitions)
    if not isinstance(options.subscription, Assign):
        return every
    assigned = [partition for partition in options.subscription.partitions if partition.topic in topics]
    if missing := sorted(set(assigned) - set(every)):
        counts = {key.topic: len(topics[key.topic].partitions) for key in missing}
        raise NotFoundError(f"assign names partitions that do not exist: {', '.join(map(str, missing))}; "
                            f"partitions by topic: {counts}")  # fmt: skip
    return assigned


async def resolve_starting(
    cluster: Cluster,
    options: SourceOptions,
    starting: dict[TopicPartition, Position],
    ends: dict[TopicPartition, LogEnds],
) -> tuple[Positions, dict[TopicPartition, LogEnds]]:
    """Resolve starting positions to one offset for each partition of `ends`.

    Returns:
        The offsets, and the ends, moved to offsets of times that were found later than these.
    """
    positions = {key: starting[key] for key in sorted(ends)}
    found = await _found(cluster, options, positions)
    reached = {key: log.reaching(found.get(key)) for key, log in ends.items()}
    return offsets.starting_offsets(positions, reached, found, without_match=options.without_match), reached


async def _found(
    cluster: Cluster, options: SourceOptions, positions: dict[TopicPartition, Position]
) -> dict[TopicPartition, Offset | None]:
    times = {key: position.timestamp_ms for key, position in positions.items() if isinstance(position, AtTime)}
    return await cluster.first_offsets_at(times, options.isolation)
