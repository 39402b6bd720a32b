"""The consumer: reads partitions in order, again and again, at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Self, TypeAlias

import pyarrow as pa

from raftlog.client.connection import Connection
from raftlog.client.fetching import Chunk, Failure, Fetcher
from raftlog.errors import ConfigError, CorruptBatchError, ErrorCode, InvalidRequestError, NotFoundError
from raftlog.model import Offset, TopicPartition
from raftlog.record import READ_SCHEMA, Record
from raftlog.wire import paths
from raftlog.wire.data import OffsetResponse

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime
OutOfRange: TypeAlias = Literal["error", "earliest", "latest"]
TABLE_SCHEMA = pa.schema([pa.field("topic", pa.string()), pa.field("partition", pa.int32()), *READ_SCHEMA])


class Consumer:
    """Reads topics. Use as an async context manager.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        topics: what to read.
        partitions: of each topic, only these; None means all, those that are added later too.
        start: `earliest`, `latest`, or a time (a datetime, or milliseconds since 1970 UTC).
        on_out_of_range: what to do when the position is no longer (or not yet) in the log.
        fetch_max_wait_ms: how long a broker parks a fetch that finds nothing.
        client_rack: where this consumer is: in-sync replicas in that rack are read rather than leaders elsewhere.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *topics: str,
        partitions: Iterable[int] | None = None,
        start: Start = "latest",
        group_id: str | None = None,
        on_out_of_range: OutOfRange = "error",
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 << 20,
        partition_max_bytes: int = 4 << 20,
        request_timeout_ms: int = 30_000,
        client_rack: str = "",
        dial: Mapping[str, str] | None = None,
    ) -> None:
        if not topics:
            raise ConfigError("topics: expected at least one, received none")
        if group_id is not None:
            raise ConfigError("group_id: consumer groups are not supported yet; read partitions without one")
        self._topics = topics
        self._partitions = None if partitions is None else tuple(partitions)
        self._start: Start = start
        self._on_out_of_range = on_out_of_range
        self._connection = Connection(bootstrap, timeout_ms=request_timeout_ms, dial=dial)
        self._fetcher = Fetcher(
            self._connection,
            max_wait_ms=fetch_max_wait_ms,
            min_bytes=fetch_min_bytes,
            max_bytes=fetch_max_bytes,
            partition_max_bytes=partition_max_bytes,
            rack=client_rack,
        )
        self._positions: dict[TopicPartition, Offset] = {}
        self._started = False

    async def __aenter__(self) -> Self:
        try:
            await self._ensure_started()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Record]:
        while True:
            for record in await self.fetch(max_wait_ms=60_000):
                yield record

    async def close(self) -> None:
        """Stop fetching, and close every connection."""
        await self._fetcher.close()
        await self._connection.close()

    async def fetch(self, *, max_records: int | None = None, max_wait_ms: int = 500) -> list[Record]:
        """Return the next records of one partition; none if none came within `max_wait_ms`.

        Raises:
            OffsetOutOfRangeError: the position is not in the log, and `on_out_of_range` is `error`.
            CorruptBatchError: a checksum is wrong.
        """
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        while (chunk := await self._next_chunk(max_wait_ms)) is not None:
            if (records := self._take(chunk, max_records)) or max_records == 0:
                return records
            # Compaction left nothing of it. What is ready is taken without a wait, even when time is up.
            max_wait_ms = max(0, int(1000 * (deadline - asyncio.get_running_loop().time())))
        return []

    def _take(self, chunk: Chunk, max_records: int | None) -> list[Record]:
        try:
            records = chunk.take(len(chunk.records()) if max_records is None else max_records)
        except CorruptBatchError:
            self._fetcher.seek(chunk.partition, chunk.position)  # Nothing is skipped: the next call fetches it anew.
            raise
        self._positions[chunk.partition] = chunk.position
        if chunk.position == chunk.next_position:
            self._fetcher.chunks.popleft()
        return records

    async def fetch_arrow(self, *, max_wait_ms: int = 500) -> pa.Table:
        """Return everything that is ready as one table; an empty one if nothing came within `max_wait_ms`.

        Columns: topic, partition, offset, timestamp, key, value, headers. Keys, values and headers are not copied.
        """
        tables: list[pa.Table] = []
        chunk = await self._next_chunk(max_wait_ms)
        while chunk is not None:
            try:
                batches = chunk.arrow()
            except CorruptBatchError:
                self._fetcher.seek(chunk.partition, chunk.position)  # Nothing is skipped: it is fetched anew.
                if tables:
                    break
                raise
            self._fetcher.chunks.popleft()
            tables += [_with_names(rows, chunk.partition) for rows in batches]
            self._positions[chunk.partition] = chunk.next_position
            chunk = self._fetcher.chunks[0] if self._fetcher.chunks else None
        return pa.concat_tables(tables) if tables else TABLE_SCHEMA.empty_table()

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        return list(self._positions)

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned."""
        return self._positions[self._require_assigned(topic, partition)]

    async def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Go on at `offset`."""
        await self._ensure_started()
        assigned = self._require_assigned(topic, partition)
        self._positions[assigned] = offset
        self._fetcher.seek(assigned, offset)

    async def seek_to(self, start: Start) -> None:
        """Go on at the earliest or latest offset, or at a time, in every partition."""
        await self._ensure_started()
        for partition, offset in (await self._offsets(self._positions, start)).items():
            await self.seek(*partition, offset)

    async def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that is read."""
        await self._ensure_started()
        return await self._offsets(self._positions, "earliest")

    async def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the high watermark of each partition that is read."""
        await self._ensure_started()
        return await self._offsets(self._positions, "latest")

    async def _ensure_started(self) -> None:
        if not self._started:
            await self._assign(self._start)
            self._started = True

    async def _assign(self, start: Start) -> None:
        """Start reading every wanted partition that is not read yet."""
        new = [partition for partition in await self._wanted() if partition not in self._positions]
        for partition, offset in (await self._offsets(new, start)).items():
            self._positions[partition] = offset
            self._fetcher.seek(partition, offset)

    async def _wanted(self) -> list[TopicPartition]:
        wanted = []
        for topic in self._topics:
            count = len((await self._connection.topic(topic)).partitions)
            chosen = range(count) if self._partitions is None else self._partitions
            if outside := [partition for partition in chosen if not 0 <= partition < count]:
                raise NotFoundError(f"topic {topic!r} has partitions 0 to {count - 1}, received {outside[0]}")
            wanted += [TopicPartition(topic, partition) for partition in chosen]
        return wanted

    async def _offsets(self, partitions: Iterable[TopicPartition], at: Start) -> dict[TopicPartition, Offset]:
        listed = list(partitions)
        answers = await asyncio.gather(*(self._offset(partition, at) for partition in listed))
        return dict(zip(listed, answers, strict=True))

    async def _offset(self, partition: TopicPartition, at: Start) -> Offset:
        path = paths.fill(paths.OFFSETS, topic=partition.topic, partition=partition.partition)
        answer = await self._connection.at_leader(OffsetResponse, "GET", *partition, path, query={"at": _at_text(at)})
        return answer.offset

    async def _next_chunk(self, max_wait_ms: int) -> Chunk | None:
        await self._ensure_started()
        if self._partitions is None and any(self._connection.is_stale(topic) for topic in self._topics):
            await self._assign("earliest")  # A partition that appears later is read from its first record.
        await self._fetcher.wait(max_wait_ms)
        while self._fetcher.failures:
            await self._decide(self._fetcher.failures.popleft())
        return self._fetcher.chunks[0] if self._fetcher.chunks else None

    async def _decide(self, failure: Failure) -> None:
        out_of_range = failure.error.code is ErrorCode.OFFSET_OUT_OF_RANGE
        if not out_of_range or self._on_out_of_range == "error":
            raise failure.error
        offset = await self._offset(failure.partition, self._on_out_of_range)
        await self.seek(*failure.partition, offset)

    def _require_assigned(self, topic: str, partition: int) -> TopicPartition:
        wanted = TopicPartition(topic, partition)
        if wanted not in self._positions:
            read = ", ".join(map(str, self._positions)) or "none yet"
            raise InvalidRequestError(f"{wanted} is not read by this consumer, which reads {read}")
        return wanted


def _with_names(rows: pa.RecordBatch, partition: TopicPartition) -> pa.Table:
    names = pa.repeat(pa.scalar(partition.topic), rows.num_rows)
    numbers = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows.num_rows)
    return pa.Table.from_arrays([names, numbers, *rows.columns], schema=TABLE_SCHEMA)


def _at_text(at: Start) -> str:
    if isinstance(at, datetime):
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        return str(int(moment.timestamp() * 1000))
    if isinstance(at, int) or at in ("earliest", "latest"):
        return str(at)
    raise ConfigError(f"start: expected earliest, latest, a datetime or milliseconds since 1970, received {at!r}")
