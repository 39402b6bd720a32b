"""Batch queries: both ends are fixed while Spark plans, so that a retried task reads the same records."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_raftlog import offsets
from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.fetch import read_range
from pyspark_raftlog.offsets import LogEnds, OffsetRange, Positions
from pyspark_raftlog.options import SourceOptions
from pyspark_raftlog.parsing import Assign, AtTime, Position, PositionSpec, Subscribe, SubscribePattern
from pyspark_raftlog.schema import check_projection
from raftlog.errors import ConfigError, NotFoundError
from raftlog.model import Offset, TopicPartition
from raftlog.wire.metadata import TopicInfo

_log = logging.getLogger(__name__)


@dataclass
class RangePartition(InputPartition):  # type: ignore[misc] # pyspark is untyped here
    """What one Spark task reads."""

    range: OffsetRange
    topic_id: str = ""
    """Fences a topic that is deleted and created again between planning and reading; empty: unknown."""


class RaftlogReader(DataSourceReader):  # type: ignore[misc] # pyspark is untyped here
    """One batch query."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_projection(schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[RangePartition]:
        loop = background()
        topics, ranges = loop.run(plan_batch(loop.cluster(self._options), self._options))
        return [RangePartition(item, topics[item.topic].topic_id) for item in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark plans one partition of its own (without a range) where we return none.
        if isinstance(partition, RangePartition):
            yield from read_range(self._options, partition.range, self._schema, topic_id=partition.topic_id)


async def plan_batch(cluster: Cluster, options: SourceOptions) -> tuple[dict[str, TopicInfo], list[OffsetRange]]:
    """Fix what a batch query reads, cut into tasks."""
    topics = await describe_topics(cluster, options)
    partitions = partitions_of(topics, options)
    assert options.starting is not None
    assert options.ending is not None
    ends = await cluster.log_ends(partitions)
    starts = await resolve_starting(cluster, options, options.starting, ends)
    positions = offsets.expand(options.ending, partitions, option="endingOffsets")
    stops = offsets.ending_offsets(positions, ends, await _found(cluster, positions))
    readable = [_readable(OffsetRange(*key, starts[key], stops[key]), ends[key], options) for key in partitions]
    ranges = [item for item in readable if item.size > 0]
    split = offsets.split_ranges(
        ranges, min_partitions=options.min_partitions, max_records=options.max_records_per_partition
    )
    return topics, split


def _readable(wanted: OffsetRange, ends: LogEnds, options: SourceOptions) -> OffsetRange:
    key, fail = wanted.topic_partition, options.fail_on_data_loss
    start = offsets.require_readable(key, wanted.start, ends, fail_on_data_loss=fail)
    end = offsets.require_readable(key, wanted.end, ends, fail_on_data_loss=fail)
    if start > end:
        raise ConfigError(f"{key}: the query would begin at offset {start} and end before it, at {end}")
    return OffsetRange(wanted.topic, wanted.partition, start, end)


async def describe_topics(cluster: Cluster, options: SourceOptions) -> dict[str, TopicInfo]:
    """Describe the topics that the subscription means now.

    Raises:
        NotFoundError: a topic that is named does not exist.
    """
    match options.subscription:
        case Subscribe(topics):
            return await cluster.topics(topics)
        case Assign(partitions):
            return await cluster.topics({partition.topic for partition in partitions})
        case SubscribePattern(pattern):
            every = await cluster.all_topics()
            matching = {name: topic for name, topic in every.items() if re.fullmatch(pattern, name)}
            if not matching:
                _log.warning("no topic matches subscribePattern %r", pattern)
            return matching


def partitions_of(topics: dict[str, TopicInfo], options: SourceOptions) -> list[TopicPartition]:
    """List the partitions to read, sorted.

    Raises:
        NotFoundError: an assigned partition does not exist.
    """
    every = sorted(TopicPartition(name, info.partition) for name, topic in topics.items() for info in topic.partitions)
    if not isinstance(options.subscription, Assign):
        return every
    if missing := sorted(set(options.subscription.partitions) - set(every)):
        counts = {key.topic: len(topics[key.topic].partitions) for key in missing}
        raise NotFoundError(f"assign names partitions that do not exist: {', '.join(map(str, missing))}; "
                            f"partitions by topic: {counts}")  # fmt: skip
    return list(options.subscription.partitions)


async def resolve_starting(
    cluster: Cluster, options: SourceOptions, spec: PositionSpec, ends: dict[TopicPartition, LogEnds]
) -> Positions:
    """Turn the starting position into one offset per partition of `ends`."""
    positions = offsets.expand(spec, sorted(ends), option="startingOffsets")
    found = await _found(cluster, positions)
    return offsets.starting_offsets(positions, ends, found, without_match=options.without_match)


async def _found(cluster: Cluster, positions: dict[TopicPartition, Position]) -> dict[TopicPartition, Offset | None]:
    times = {key: position.timestamp_ms for key, position in positions.items() if isinstance(position, AtTime)}
    return await cluster.first_offsets_at(times)
