"""Writes rows to topics.

One task attempt has one producer id and numbers each partition's batches, so a batch that is sent again is stored once.
Its records become visible when the job is committed (commits.py). With `guarantee` at-least-once they are visible at
once, and a task that Spark runs again writes its rows again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from pyspark_raftlog import commits
from pyspark_raftlog.background import BackgroundLoop, background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.commits import (
    Attempt,
    Work,
    Written,
    batch_work,
    micro_batch_work,
    this_attempt,
    work_of_task,
    works_to_abort,
)
from pyspark_raftlog.error_output import plain_errors
from pyspark_raftlog.sink import Router, SinkOptions, cut, sink_columns
from pyspark_raftlog.task_traces import task_span
from raftlog.model import MAX_SEQUENCE, TopicPartition
from raftlog.record.arrow import build_batch_from_arrow
from raftlog.runtime import SystemClock
from raftlog.wire.transactions import SetMember

FIRST_ATTEMPT = Attempt("0.0")
_log = logging.getLogger(__name__)


class RaftlogWriter(DataSourceArrowWriter):  # type: ignore[misc] # pyspark is untyped here
    """One batch write. In `foreachBatch` with a `transactionalId`, it counts once for each micro-batch."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, options)
        self._work = None
        if options.guarantee == "exactly-once":
            self._work = batch_work(options.batch_set_id, options.batch_id, formerly=options.earlier_batch_set_id)

    @plain_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        work = None if self._work is None else work_of_task(self._options, self._work)
        return write_rows(self._options, self._columns, iterator, work, this_attempt())

    @plain_errors()
    def commit(self, messages: Sequence[Written | None]) -> None:
        _commit(self._options, messages)

    @plain_errors()
    def abort(self, messages: Sequence[Written | None]) -> None:
        _abort(self._options, messages, [] if self._work is None else works_to_abort(self._options, self._work))


class RaftlogStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc] # pyspark is untyped here
    """The sink of one stream. Spark creates one for each batch, and another for its commit."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = sink_columns(schema, options)

    @plain_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        work = None
        if self._options.guarantee == "exactly-once":
            work = micro_batch_work(self._options.transactional_id, self._options.topic)
            if work is None:
                raise RuntimeError("Spark did not pass the micro-batch's number: set guarantee to at-least-once")
        return write_rows(self._options, self._columns, iterator, work, this_attempt())

    @plain_errors()
    def commit(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: ARG002, N803 -- Spark's names
        _commit(self._options, messages)

    @plain_errors()
    def abort(self, messages: Sequence[Written | None], batchId: int) -> None:  # noqa: ARG002, N803 -- Spark's names
        _abort(self._options, messages)


def _commit(options: SinkOptions, messages: Sequence[Written | None]) -> None:
    loop = background()
    loop.run(commits.commit(loop.cluster(options), messages))


def _abort(options: SinkOptions, messages: Sequence[Written | None], works: Sequence[Work] = ()) -> None:
    """Abort the work of the messages; without any, the next attempt or the transaction timeout aborts it."""
    finished = [message for message in messages if message is not None]
    if options.guarantee == "exactly-once":
        loop = background()
        told = [message.work for message in finished if message.work is not None]
        for work in told[:1] or works:
            loop.run(commits.abort(loop.cluster(options), work))
    elif stored := sum(message.records for message in finished):
        _log.warning("the write was aborted; %d records of finished tasks stay in the log", stored)


def write_rows(
    options: SinkOptions,
    columns: dict[str, str],
    batches: Iterator[pa.RecordBatch],
    work: Work | None = None,
    attempt: Attempt = FIRST_ATTEMPT,
) -> Written:
    """Write all rows; while one Arrow batch is in flight, the next is prepared.

    Args:
        work: the commit unit of the rows; None: they are visible at once.
        attempt: this attempt of the task.
    """
    with task_span("send", "send", filter(None, [options.topic]), options.traceparent) as span:
        written = _write_rows(replace(options, traceparent=span.traceparent), columns, batches, work, attempt)
        span.note_records(written.records)
        return written


def _write_rows(
    options: SinkOptions,
    columns: dict[str, str],
    batches: Iterator[pa.RecordBatch],
    work: Work | None,
    attempt: Attempt,
) -> Written:
    loop = background()
    cluster = loop.cluster(options)
    if work is not None and loop.run(commits.is_done(cluster, work)):
        return _nothing_of(batches, work)
    writing: WriteAttempt | None = None
    clock, records = SystemClock(), 0
    sending: Future[None] | None = None
    try:
        for rows in filter(len, batches):
            if writing is None:
                # Again: the first row may come long after the start. A transaction begun after the commit stays open.
                if work is not None and loop.run(commits.is_done(cluster, work)):
                    return _nothing_of(batches, work)
                writing = _begin(loop, cluster, options, columns, work, attempt)
            loop.run(writing.learn_topics(rows))
            ready = writing.build(rows, now_us=clock.wall_us())
            if sending is not None:
                sending.result()
            sending = loop.spawn(writing.send(ready))
            records += rows.num_rows
        if sending is not None:
            sending.result()
    finally:
        if sending is not None:
            sending.cancel()  # Does nothing unless this attempt has failed meanwhile.
    return Written(records, work, writing.producer if writing and work else None)


def _nothing_of(batches: Iterator[pa.RecordBatch], work: Work) -> Written:
    """Take all rows and write none: Spark commits the state of an aggregation only once all of them were taken."""
    deque(batches, maxlen=0)
    return Written(0, work, was_done=True)


def _begin(
    loop: BackgroundLoop,
    cluster: Cluster,
    options: SinkOptions,
    columns: dict[str, str],
    work: Work | None,
    attempt: Attempt,
) -> WriteAttempt:
    """Begin a transaction at the first row: tasks without rows have none."""
    if work is None:
        given = loop.run(cluster.producer_id())
        producer = SetMember(transactional_id="", producer_id=given.producer_id, producer_epoch=given.producer_epoch)
    else:
        producer = loop.run(commits.begin(cluster, work, attempt, timeout_ms=options.transaction_timeout_ms))
    partitions: dict[str, int] = {}
    # Tasks start at different partitions, so that small writes spread. The last bit of an id is not part of its number.
    turn = producer.producer_id >> 1
    router = Router(columns, options.topic, partitions, turn=turn, table=options.table, traceparent=options.traceparent)
    return WriteAttempt(cluster, producer, router, options, partitions=partitions)


@dataclass
class WriteAttempt:
    """One task attempt: its producer id and epoch, and the next sequence of each partition."""

    cluster: Cluster
    producer: SetMember
    """Without a transactional id, the records are visible at once."""
    router: Router
    options: SinkOptions
    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    async def learn_topics(self, rows: pa.RecordBatch) -> None:
        """Fetch the metadata of new topics.

        Raises:
            NotFoundError: a topic does not exist.
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
            pieces = cut(records, self.options.batch_bytes)
            ready[partition] = [self._numbered(partition, piece) for piece in pieces]
        return ready

    def _numbered(self, partition: TopicPartition, records: pa.RecordBatch) -> bytearray:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = (sequence + records.num_rows) % (MAX_SEQUENCE + 1)
        return build_batch_from_arrow(
            records,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            base_sequence=sequence,
            compression=self.options.compression,
            transactional=bool(self.producer.transactional_id),
        )

    async def send(self, ready: dict[TopicPartition, list[bytearray]]) -> None:
        """Send batches: partitions concurrently, the batches of a partition one after another."""
        results = await asyncio.gather(
            *(self._send_in_order(partition, batches) for partition, batches in ready.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _send_in_order(self, partition: TopicPartition, batches: list[bytearray]) -> None:
        for batch in batches:
            await self.cluster.produce(
                partition,
                batch,
                topic_id=self.topic_ids[partition.topic],
                transactional_id=self.producer.transactional_id,
                traceparent=self.options.traceparent,
            )
