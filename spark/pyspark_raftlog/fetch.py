"""Reads one range of offsets as Spark's Arrow batches.

While Spark converts one chunk, the background loop fetches the next: at most `PREFETCH` chunks wait, so memory is
bounded by a few times `fetch_bytes`. Small batches are joined, because Spark has a cost per batch. Checksums are
verified.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.offsets import OffsetRange, data_loss
from pyspark_raftlog.options import SourceOptions
from pyspark_raftlog.pushdown import ANYTHING, AllowedValues
from pyspark_raftlog.schema import BatchShaper
from raftlog.errors import CorruptBatchError, NotFoundError, OffsetOutOfRangeError, RaftlogError, RetriableError
from raftlog.model import Offset
from raftlog.record.batch import BatchHeader, iter_batches, verify_payload_crc
from raftlog.record.control import AbortedBatches, readable_batches
from raftlog.record.reading import to_arrow_with_offsets
from raftlog.wire.data import FetchResult

Batches: TypeAlias = list[tuple[BatchHeader, memoryview]]

PREFETCH = 2
TARGET_ROWS = 10_000
TARGET_BYTES = 32 << 20
"""The most bytes of a batch for Spark, if its records are large; Arrow's binary columns end at 2 GB."""
_MIN_FETCH_BYTES = 64 << 10
_GUESSED_RECORD_BYTES = 1024
DOUBT_MS = 10_000
"""How long a broker may contradict the plan, by a log that ends early or a topic that it lacks: it may be cut off."""
_PLANNED_ONCE = "a frame or view that is reused is planned once: load() it again"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The batches of one fetch that may contain records of the range.

    Args:
        from_offset: where the fetch began. Records below it, in the first batch, were read before, or deleted.
        fetched_bytes: the size of the buffer that the batches keep in memory.
    """

    from_offset: Offset
    batches: Batches
    fetched_bytes: int = 0


def read_range(
    options: SourceOptions,
    wanted: OffsetRange,
    schema: StructType,
    *,
    topic_id: str = "",
    times: AllowedValues = ANYTHING,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `wanted`, in order, with exactly the columns of `schema`.

    Args:
        times: the timestamps to yield, in microseconds since 1970.

    Raises:
        OffsetOutOfRangeError: records of the range no longer exist, and `fail_on_data_loss` is set.
    """
    loop = background()
    fetch = RangeFetch(options, wanted, topic_id)
    pump = loop.spawn(fetch.pump(loop.cluster(options)))
    shaper = BatchShaper(schema, wanted.topic_partition)
    try:
        chunks = iter(lambda: loop.run(fetch.take()), None)
        yield from map(shaper.shape, coalesce(rows_in(wanted, chunks, times)))
    finally:
        pump.cancel()  # Spark stops early on a limit: fetch nothing more.


def rows_in(
    wanted: OffsetRange, chunks: Iterable[Chunk], times: AllowedValues = ANYTHING
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the records inside the range, and how many further bytes they keep in memory."""
    for chunk in chunks:
        held = max(0, chunk.fetched_bytes - sum(header.batch_length for header, _ in chunk.batches))
        for batch in records_in(wanted, chunk, times):
            yield batch, held
            held = 0


def records_in(wanted: OffsetRange, chunk: Chunk, times: AllowedValues = ANYTHING) -> Iterator[pa.RecordBatch]:
    """Decode the records inside the range: verified batches may begin before it and end after it."""
    for header, view in chunk.batches:
        if header.base_offset >= wanted.end or header.max_timestamp < times.low:
            continue
        batch = to_arrow_with_offsets(header, view, from_offset=max(wanted.start, chunk.from_offset))
        if header.next_offset > wanted.end:
            batch = batch.slice(0, pc.sum(pc.less(batch.column("offset"), wanted.end)).as_py() or 0)
        if times != ANYTHING:  # By value: Spark pickles what a task reads.
            batch = _at_times(batch, times)
        if batch.num_rows:
            yield batch


def _at_times(batch: pa.RecordBatch, times: AllowedValues) -> pa.RecordBatch:
    """Keep the records with selected timestamps; producers set them, so they may be out of order."""
    stamps = batch.column("timestamp").view(pa.int64())
    return batch.filter(pc.and_(pc.greater_equal(stamps, times.low), pc.less_equal(stamps, times.high)))


def coalesce(batches: Iterable[tuple[pa.RecordBatch, int]]) -> Iterator[list[pa.RecordBatch]]:
    """Group consecutive batches up to `TARGET_ROWS` or `TARGET_BYTES`, to reduce Spark's cost per batch.

    A few records of a fetch keep the whole of its buffer in memory, so all of that counts.
    """
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch, held in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes + held
        if rows >= TARGET_ROWS or size >= TARGET_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


@dataclass
class FetchSize:
    """The size of the next fetch: enough for the remaining records, estimated from the records so far."""

    limit_bytes: int
    records: int = 0
    bytes: int = 0

    def for_records(self, wanted: int) -> int:
        average = self.bytes / self.records if self.records else _GUESSED_RECORD_BYTES
        return min(self.limit_bytes, max(_MIN_FETCH_BYTES, int(1.25 * average * wanted)))

    def learn(self, batches: Batches) -> None:
        self.records += sum(header.record_count for header, _ in batches)
        self.bytes += sum(header.batch_length for header, _ in batches)


@dataclass
class RangeFetch:
    """Fetches the batches of one range in order, ahead of the reader."""

    options: SourceOptions
    wanted: OffsetRange
    topic_id: str = ""
    _doubted_since_s: float | None = None
    """Since when leaders have said that the next offset is out of range, or brokers that there is no such topic."""
    _queue: asyncio.Queue[Chunk | Exception | None] = field(default_factory=lambda: asyncio.Queue(PREFETCH))

    async def take(self) -> Chunk | None:
        """Return the next chunk, or None after the last.

        Raises:
            Exception: the error that stopped the fetching.
        """
        taken = await self._queue.get()
        if isinstance(taken, Exception):
            raise taken
        return taken

    async def pump(self, cluster: Cluster) -> None:
        """Fill the queue with chunks, then with None or the failure."""
        try:
            offset, size = self.wanted.start, FetchSize(self.options.fetch_bytes)
            while offset < self.wanted.end:
                offset, chunk = await self._next(cluster, offset, size)
                if chunk.batches:
                    await self._queue.put(chunk)
            await self._queue.put(None)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the thread that takes must raise it
            await self._queue.put(error)

    async def _next(self, cluster: Cluster, offset: Offset, size: FetchSize) -> tuple[Offset, Chunk]:
        """Return the next chunk and the offset after it. The chunk is empty where lost records were skipped."""
        max_bytes = size.for_records(self.wanted.end - offset)
        try:
            result, batches, fetched_bytes = await self._fetch(cluster, offset, max_bytes)
        except OffsetOutOfRangeError as error:
            if await self._may_be_readable(cluster, offset):
                return offset, Chunk(offset, [])
            return await self._skip_lost(cluster, offset, error), Chunk(offset, [])
        except NotFoundError as error:
            if await self._may_exist(cluster):
                return offset, Chunk(offset, [])
            return await self._skip_lost(cluster, offset, error), Chunk(offset, [])
        self._doubted_since_s = None
        size.learn(batches)
        next_offset = batches[-1][0].next_offset
        if next_offset <= offset:
            raise RaftlogError(f"{self.wanted.topic_partition}: fetched from {offset}, received only to {next_offset}")
        kept = list(itertools.takewhile(self._was_planned, batches))
        if len(kept) < len(batches):
            next_offset = self._skip_replaced(max(offset, batches[len(kept)][0].base_offset))
        # Markers and aborted records occupy offsets: skipping them loses nothing.
        readable = list(readable_batches(kept, AbortedBatches(result.aborted), from_offset=offset))
        return next_offset, Chunk(offset, readable, fetched_bytes)

    def _was_planned(self, batch: tuple[BatchHeader, memoryview]) -> bool:
        """Return whether a batch was in the log when the range was planned: later ones are of later leader epochs."""
        wanted = self.wanted
        return batch[0].leader_epoch <= wanted.last_epoch or wanted.last_epoch < 0 or batch[0].base_offset >= wanted.end

    def _skip_replaced(self, offset: Offset) -> Offset:
        """Return where to continue if other records have replaced those from `offset` on, if losses are allowed.

        A stream's next batch begins where the log was truncated, and has the other records.
        """
        partition, what = self.wanted.topic_partition, f"the log was truncated at offset {offset} since it was planned"
        if self.options.fail_on_data_loss:
            raise data_loss(partition, f"{what} to read it; {_PLANNED_ONCE}")
        _log.warning("%s: %s; skipping offsets %d to %d", partition, what, offset, self.wanted.end)
        return self.wanted.end

    async def _may_be_readable(self, cluster: Cluster, offset: Offset) -> bool:
        """Return whether an offset that a leader refused may be read now: that leader may have been replaced.

        It was readable when the range was planned. Below the log's start it was deleted, and is lost.
        """
        doubted_s = self._doubt(cluster)
        ends = (await cluster.log_ends((self.wanted.topic_partition,), self.options.isolation))[
            self.wanted.topic_partition
        ]
        patience_ms = self.options.timeout_ms if offset < ends.end else min(DOUBT_MS, self.options.timeout_ms)
        if offset < ends.log_start_offset or doubted_s > patience_ms / 1000:
            return False
        await asyncio.sleep(0.1)
        return True

    async def _may_exist(self, cluster: Cluster) -> bool:
        """Return whether a topic or partition that a broker's metadata lacks may exist: that broker may be cut off."""
        if self._doubt(cluster) > min(DOUBT_MS, self.options.timeout_ms) / 1000:
            return False
        await asyncio.sleep(0.1)
        return True

    def _doubt(self, cluster: Cluster) -> float:
        """Have another broker asked next; return for how many seconds answers have contradicted the plan."""
        cluster.doubt_metadata()
        now_s = asyncio.get_running_loop().time()
        self._doubted_since_s = self._doubted_since_s or now_s
        return now_s - self._doubted_since_s

    async def _fetch(self, cluster: Cluster, offset: Offset, max_bytes: int) -> tuple[FetchResult, Batches, int]:
        """Fetch until records arrive: the range was readable when planned, but a new leader may need a moment.

        Raises:
            CorruptBatchError: a checksum is wrong, also after the broker verified the batch.
            OffsetOutOfRangeError: `offset` is outside the log, or is its end: the records from there on are gone.
        """
        partition, check_crcs = self.wanted.topic_partition, False
        try:
            async with asyncio.timeout(self.options.timeout_ms / 1000):
                while True:
                    result, data = await cluster.fetch(
                        partition,
                        offset,
                        topic_id=self.topic_id,
                        max_bytes=max_bytes,
                        isolation=self.options.isolation,
                        rack=self.options.rack,
                        check_crcs=check_crcs,
                    )
                    try:
                        if data:
                            return result, self._verified(data), len(data)
                        cluster.doubt_metadata()  # The range was readable: this leader may have been replaced.
                        await self._require_more(cluster, offset)
                    except CorruptBatchError as error:
                        if check_crcs:
                            raise
                        check_crcs = True
                        _log.warning("%s: %s; fetching it again, verified by its broker", partition, error.message)
        except TimeoutError:
            raise RetriableError(
                f"{partition}: no records from offset {offset} within {self.options.timeout_ms} ms, though the range "
                f"to {self.wanted.end} was readable before; is the leader isolated from its followers?"
            ) from None

    async def _require_more(self, cluster: Cluster, offset: Offset) -> None:
        """Raise if the leader's log ends at `offset`: then an unclean election has cut it, and no record will come.

        A log that ends later has records which its leader may not show yet.

        Raises:
            OffsetOutOfRangeError: it does. A leader refuses only offsets beyond its log's end.
        """
        partition, isolation = self.wanted.topic_partition, self.options.isolation
        await cluster.fetch(
            partition, offset + 1, topic_id=self.topic_id, max_bytes=1, max_wait_ms=0, isolation=isolation
        )

    def _verified(self, data: memoryview) -> Batches:
        batches = list(iter_batches(data))
        for header, view in batches:
            if header.base_offset < self.wanted.end:
                verify_payload_crc(header, view)
        return batches

    async def _skip_lost(self, cluster: Cluster, offset: Offset, error: RaftlogError) -> Offset:
        """Return where to continue after a loss, if losses are allowed."""
        partition = self.wanted.topic_partition
        if self.options.fail_on_data_loss:
            why = f"offset {offset} cannot be read: {error.message}; {_PLANNED_ONCE}"
            raise data_loss(partition, why) from error
        start = self.wanted.end
        if isinstance(error, OffsetOutOfRangeError):
            ends = (await cluster.log_ends((partition,), self.options.isolation))[partition]
            if offset < ends.log_start_offset:
                start = min(start, ends.log_start_offset)
        _log.warning("%s: skipping lost offsets %d to %d (%s)", partition, offset, start, error.message)
        return start
