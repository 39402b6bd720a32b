"""Streams: a position per partition, kept by Spark in its checkpoint.

Spark asks `latestOffset(start)` for the next end, plans `partitions(start, end)`, and stores `end` before it runs the
batch. After a crash it plans the same two positions again, so planning a batch asks no broker: the same two positions
always mean the same offsets. A partition that appears while a stream runs is read from offset 0.

When nothing is new Spark would ask again each few milliseconds; `latestOffset` waits at a broker instead, up to
`IDLE_WAIT_MS`, and comes back as soon as a record arrives.
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

from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.fetch import read_range
from pyspark_raftlog.offsets import (
    JsonPositions,
    LogEnds,
    Positions,
    data_loss,
    decode_positions,
    encode_positions,
    limit_offsets,
    ranges_between,
    require_readable,
    split_ranges,
)
from pyspark_raftlog.options import SourceOptions
from pyspark_raftlog.reader import RangePartition, describe_topics, partitions_of, resolve_starting
from pyspark_raftlog.schema import check_projection
from raftlog.model import TopicPartition

IDLE_WAIT_MS = 500
SETTLE_MS = 10_000
"""How long a log may end before the stream's position until that counts as a loss: a new leader learns its high
watermark first, and a broker may be behind with metadata."""
_log = logging.getLogger(__name__)


class RaftlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc] # untyped here
    """One stream. Spark keeps one copy in the driver for the offsets, and pickles another for `read`."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        check_projection(schema)
        self._options = options
        self._schema = schema
        self._topic_ids: dict[str, str] = {}
        self._high_watermarks: Positions = {}
        self._available_now = False
        self._target: Positions | None = None
        """Where an AvailableNow run ends: fixed by its first `latestOffset`."""

    def initialOffset(self) -> JsonPositions:
        loop = background()
        return encode_positions(loop.run(self._initial(loop.cluster(self._options))))

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._available_now = True

    def latestOffset(self, start: JsonPositions, limit: ReadLimit) -> JsonPositions:
        loop = background()
        positions = decode_positions(start)
        ends = loop.run(self._ends_after(loop.cluster(self._options), positions))
        begins = {key: positions.get(key, ends[key].log_start_offset) for key in ends}
        target = self._bounded({key: ends[key].high_watermark for key in ends}, positions)
        if isinstance(limit, ReadMaxRows):
            target = limit_offsets(begins, target, limit.max_rows)
        return encode_positions(target)

    def reportLatestOffset(self) -> JsonPositions | None:
        return encode_positions(self._high_watermarks) if self._high_watermarks else None

    def partitions(self, start: JsonPositions, end: JsonPositions) -> list[RangePartition]:
        ranges = split_ranges(
            ranges_between(decode_positions(start), decode_positions(end)),
            min_partitions=self._options.min_partitions,
            max_records=self._options.max_records_per_partition,
        )
        return [RangePartition(item, self._topic_ids.get(item.topic, "")) for item in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        return read_range(self._options, partition.range, self._schema, topic_id=partition.topic_id)

    def commit(self, end: JsonPositions) -> None:
        """Do nothing: the checkpoint is the only position."""

    def stop(self) -> None:
        """Do nothing: connections belong to the process."""

    def _bounded(self, latest: Positions, positions: Positions) -> Positions:
        """Hold an AvailableNow run to the records that were there when it began, and never move it back."""
        if not self._available_now:
            return latest
        if self._target is None:
            self._target = latest
        known = self._target | positions
        return {key: max(known[key], self._target.get(key, 0)) for key in latest if key in known}

    async def _initial(self, cluster: Cluster) -> Positions:
        ends = await self._ends(cluster)
        assert self._options.starting is not None
        starts = await resolve_starting(cluster, self._options, self._options.starting, ends)
        fail = self._options.fail_on_data_loss
        return {key: require_readable(key, starts[key], ends[key], fail_on_data_loss=fail) for key in ends}

    async def _ends(self, cluster: Cluster) -> dict[TopicPartition, LogEnds]:
        topics = await describe_topics(cluster, self._options)
        self._topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        ends = await cluster.log_ends(partitions_of(topics, self._options))
        self._high_watermarks = {key: end.high_watermark for key, end in ends.items()}
        return ends

    async def _ends_after(self, cluster: Cluster, positions: Positions) -> dict[TopicPartition, LogEnds]:
        """Return how far each log reaches, after waiting for news if there are none."""
        ends = await self._settled_ends(cluster, positions)
        if self._available_now or _has_news(positions, ends):
            return ends
        await cluster.wait_for_records(positions, max_wait_ms=IDLE_WAIT_MS)
        return await self._settled_ends(cluster, positions)

    async def _settled_ends(self, cluster: Cluster, positions: Positions) -> dict[TopicPartition, LogEnds]:
        """Return how far each log reaches, once every log is there and reaches the stream's own position."""
        ends = await self._ends(cluster)
        waited_ms = 0
        while (problems := _problems(positions, ends)) and waited_ms < min(SETTLE_MS, self._options.timeout_ms):
            await asyncio.sleep(0.1)
            waited_ms += 100
            ends = await self._ends(cluster)
        for partition, problem in problems.items():
            if self._options.fail_on_data_loss:
                raise data_loss(partition, problem)
            _log.warning("%s: %s", partition, problem)
        return ends


def _has_news(positions: Positions, ends: dict[TopicPartition, LogEnds]) -> bool:
    return set(positions) != set(ends) or any(ends[key].high_watermark != offset for key, offset in positions.items())


def _problems(positions: Positions, ends: dict[TopicPartition, LogEnds]) -> dict[TopicPartition, str]:
    problems = {}
    for key, offset in sorted(positions.items()):
        if key not in ends:
            problems[key] = "the partition does not exist any more"
        elif ends[key].high_watermark < offset:
            problems[key] = f"the stream is at offset {offset}, the log ends at {ends[key].high_watermark}"
    return problems
