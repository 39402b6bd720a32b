"""Writes rows to topics.

One task has one producer id and numbers each partition's batches, so a batch that is sent again is stored once. A task
that Spark runs again gets another id: its rows may then be stored twice (at least once).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.sink import Router, SinkOptions, cut, sink_columns
from raftlog.model import MAX_SEQUENCE, TopicPartition
from raftlog.record.arrow import build_batch_from_arrow
from raftlog.runtime import SystemClock
from raftlog.wire.data import ProducerIdResponse

_log = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc] # pyspark is untyped here
    """What one task has stored."""

    records: int


class RaftlogWriter(DataSourceArrowWriter):  # type: ignore[misc] # pyspark is untyped here
    """One batch write."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(self._options, self._columns, iterator)

    def abort(self, messages: Sequence[Written | None]) -> None:
        _report_abort(messages)


class RaftlogStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc] # pyspark is untyped here
    """The sink of one stream, built anew by Spark for each batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return write_rows(self._options, self._columns, iterator)

    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: ARG002, N803 -- Spark's names
        _report_abort(messages)


def _report_abort(messages: Sequence[Written | None]) -> None:
    stored = sum(message.records for message in messages if message is not None)
    if stored:
        _log.warning("the write was aborted; %d records of finished tasks stay in the log", stored)


def write_rows(options: SinkOptions, columns: dict[str, str], batches: Iterator[pa.RecordBatch]) -> Written:
    """Store all rows; while one Arrow batch is on its way, the next is prepared."""
    loop = background()
    attempt = loop.run(WriteAttempt.begin(loop.cluster(options), options, columns))
    clock, records = SystemClock(), 0
    sending: Future[None] | None = None
    try:
        for rows in filter(len, batches):
            loop.run(attempt.learn_topics(rows))
            ready = attempt.build(rows, now_us=clock.wall_us())
            if sending is not None:
                sending.result()
            sending = loop.spawn(attempt.send(ready))
            records += rows.num_rows
        if sending is not None:
            sending.result()
    finally:
        if sending is not None:
            sending.cancel()  # Does nothing unless this attempt has failed meanwhile.
    return Written(records)


@dataclass
class WriteAttempt:
    """One task's attempt: its producer identity, and the next sequence of each partition."""

    cluster: Cluster
    producer: ProducerIdResponse
    router: Router
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    async def begin(cls, cluster: Cluster, options: SinkOptions, columns: dict[str, str]) -> WriteAttempt:
        producer = await cluster.producer_id()
        partitions: dict[str, int] = {}
        # Tasks take turns from different partitions on, so that small writes spread too.
        router = Router(columns, options.topic, partitions, turn=producer.producer_id)
        return cls(cluster, producer, router, partitions=partitions)

    async def learn_topics(self, rows: pa.RecordBatch) -> None:
        """Describe topics not met before.

        Raises:
            NotFoundError: one of them does not exist.
        """
        fresh = [name for name in self.router.topics_of(rows) if name not in self.partitions]
        if fresh:
            for name, topic in (await self.cluster.topics(fresh)).items():
                self.topic_ids[name] = topic.topic_id
                self.partitions[name] = len(topic.partitions)

    def build(self, rows: pa.RecordBatch, *, now_us: int) -> dict[TopicPartition, list[bytearray]]:
        """Cut rows into numbered record batches by partition."""
        ready: dict[TopicPartition, list[bytearray]] = {}
        for partition, records in self.router.route(rows, now_us=now_us):
            ready[partition] = [self._numbered(partition, piece) for piece in cut(records)]
        return ready

    def _numbered(self, partition: TopicPartition, records: pa.RecordBatch) -> bytearray:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = (sequence + records.num_rows) % (MAX_SEQUENCE + 1)
        return build_batch_from_arrow(
            records,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=sequence,
        )

    async def send(self, ready: dict[TopicPartition, list[bytearray]]) -> None:
        """Store batches: partitions at once, the batches of a partition one after another."""
        results = await asyncio.gather(
            *(self._send_in_order(partition, batches) for partition, batches in ready.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _send_in_order(self, partition: TopicPartition, batches: list[bytearray]) -> None:
        for batch in batches:
            await self.cluster.produce(partition, batch, topic_id=self.topic_ids[partition.topic])
