"""Reads spans (offset ranges of partitions) once, as tables; raises if a record of a span is missing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from raftlog.client.connection import Connection
from raftlog.client.fetching import Fetcher
from raftlog.client.loop_affinity import LoopAffinity
from raftlog.client.options import require_at_least
from raftlog.client.reader import PartitionReader
from raftlog.client.security import Security
from raftlog.client.spans import Selection, Span, spans_of
from raftlog.errors import OffsetOutOfRangeError, RetriableError, UnknownOutcomeError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.runtime import close_all

if TYPE_CHECKING:
    import pyarrow as pa

WAIT_MS = 500
REST_S = 0.05


class SpanReader:
    """A client that reads one offset range of each partition. Use as an async context manager.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        timeout_ms: how long a request may take, and the longest time without records before the end.
        at_once: how many partitions are read concurrently.
        security: TLS files and credentials; None: those of the environment.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        isolation: Isolation = "read_committed",
        timeout_ms: int = 30_000,
        at_once: int = 256,
        dial: Mapping[str, str] | None = None,
        security: Security | None = None,
    ) -> None:
        require_at_least(1, timeout_ms=timeout_ms, at_once=at_once)
        self._loop = LoopAffinity("reader of spans")
        self._timeout_ms = timeout_ms
        self._at_once = at_once
        self._connection = Connection(bootstrap, timeout_ms=timeout_ms, dial=dial, security=security)
        fetcher = Fetcher(
            self._connection,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=16 << 20,
            partition_max_bytes=4 << 20,
            isolation=isolation,
        )
        self._reader = PartitionReader(self._connection, fetcher, on_out_of_range=None)
        self._ends: dict[TopicPartition, Offset] = {}
        self._due: deque[Span] = deque()

    async def __aenter__(self) -> Self:
        self._loop.require()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await close_all(self._reader.fetcher.close, self._connection.close)

    async def plan(self, wanted: Selection) -> list[Span]:
        """Return the spans of a selection; see `spans_of`."""
        return await spans_of(self._connection, wanted)

    async def begin(self, spans: Iterable[Span]) -> None:
        """Add spans for `tables` to read, at most one for each partition.

        Raises:
            NotFoundError, OffsetOutOfRangeError: the topic was deleted, or recreated, since they were planned.
        """
        due = [span for span in spans if span.start < span.end]
        for topic, topic_id in {(span.partition.topic, span.topic_id) for span in due}:
            if (found := (await self._connection.topic(topic)).topic_id) != topic_id:
                raise OffsetOutOfRangeError(
                    f"topic {topic!r} was deleted and recreated since the read was planned (its id was {topic_id}, "
                    f"now it is {found}); plan the read again"
                )
        self._due.extend(due)
        self._begin_more()

    async def tables(self) -> AsyncIterator[tuple[TopicPartition, pa.Table, Offset]]:
        """Yield (partition, records by `record.TABLE_SCHEMA`, the offset up to which the partition was read).

        Each partition's records come in order, up to the end of its span. A table may have no rows.

        Raises:
            OffsetOutOfRangeError: records or the topic were deleted since the spans were planned.
            NotFoundError: the topic was deleted.
            CorruptBatchError: a stored batch is damaged.
            RetriableError: no records came for `timeout_ms`.
        """
        while (read := await self.next()) is not None:
            yield read

    async def next(self) -> tuple[TopicPartition, pa.Table, Offset] | None:
        """Return what `tables` yields next, or None at the end."""
        loop = asyncio.get_running_loop()
        deadline, last = loop.time() + self._timeout_ms / 1000, None
        while self._ends:
            try:
                if (read := await self._take()) is not None:
                    return read
            except OffsetOutOfRangeError as error:
                raise self._gone(error) from None
            except RetriableError as error:
                last = error
                await asyncio.sleep(REST_S)
            if loop.time() >= deadline:
                raise self._stalled(last)
        return None

    def stop(self, partition: TopicPartition) -> None:
        """Stop reading a partition."""
        if self._ends.pop(partition, None) is not None:
            self._reader.end([partition])
        self._begin_more()

    async def _take(self) -> tuple[TopicPartition, pa.Table, Offset] | None:
        fetch = await self._reader.next_completed(WAIT_MS)
        if fetch is None:
            await self._require_topics()
            return None
        partition = fetch.partition
        table = self._reader.take_table(fetch)
        end = self._ends[partition]
        position = self._reader.positions[partition]
        if position > end:
            table = table.slice(0, _rows_below(table, end))
        if position >= end:
            self.stop(partition)
        return partition, table, min(position, end)

    async def _require_topics(self) -> None:
        """Raise NotFoundError if a topic was deleted: the fetcher does not report it."""
        for topic in {partition.topic for partition in self._ends}:
            if self._connection.cached_topic(topic) is None:
                await self._connection.topic(topic)

    def _begin_more(self) -> None:
        while self._due and len(self._ends) < self._at_once:
            span = self._due.popleft()
            self._ends[span.partition] = span.end
            self._reader.begin({span.partition: span.start})

    def _gone(self, error: OffsetOutOfRangeError) -> OffsetOutOfRangeError:
        return OffsetOutOfRangeError(
            f"records were deleted while they were read, so that not all of them can be returned (by retention, by "
            f"delete-records, or with their topic): read again, or start later; the broker said: {error.message}",
            details=error.details,
        )

    def _stalled(self, last: RetriableError | None) -> RetriableError:
        left = ", ".join(f"{p} at {self._reader.positions[p]} of {end}" for p, end in list(self._ends.items())[:3])
        why = f": {last.message}" if last is not None else ""
        return UnknownOutcomeError(
            f"no records came within {self._timeout_ms} ms, and not all were read ({left}){why}; check the partitions' "
            f"leaders with raftlog topics describe"
        )


def _rows_below(table: pa.Table, end: Offset) -> int:
    """Return how many rows have offsets below `end`; rows are sorted by offset."""
    from raftlog.record.compute import pc  # noqa: PLC0415  (as Arrow itself: once it is needed)

    return int(pc.sum(pc.less(table.column("offset"), end)).as_py() or 0)
