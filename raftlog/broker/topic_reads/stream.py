"""Streams the bytes of one topic read. Worker threads decode the next chunk while they render the previous one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import pyarrow as pa

from raftlog.broker.topic_reads.query import TopicQuery
from raftlog.broker.topic_reads.rows import RowSelection, ends_of, rows_below, rows_of
from raftlog.broker.topic_reads.source import CHUNK_BYTES, Data, Loaded, Position, TopicSource
from raftlog.broker.topic_reads.tail import Tail
from raftlog.errors import CorruptBatchError, RaftlogError
from raftlog.model import Offset
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.storage.verified_reads import FileRange
from raftlog.record.formats import Encoder
from raftlog.record.unpacking import first_that_unpack_to
from raftlog.serving.workers import for_stream
from raftlog.wire.codec import Buffer

Spans = Mapping[int, tuple[Offset, Offset | None]]
"""(start, end) of each partition; an end of None: follow."""
_MOST_UNPACKED_BYTES = 8 * CHUNK_BYTES
"""The most decompressed bytes of one read; a single larger batch is decoded whole."""
_MOST_AHEAD_BYTES = 4 * CHUNK_BYTES
"""A chunk that decodes to more is rendered before the next one is read, to bound memory."""


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The content of one piece of a response: an offset range of one partition, the end exclusive."""

    partition: int
    begin: Offset
    end: Offset


class TopicStream:
    """One read.

    Args:
        make: returns a new encoder.
        spans: the ranges to read, in this order.
        heartbeat: the bytes sent while no records arrive.
        piece_rows: the most rows of one piece; None: all that are read at once.
    """

    def __init__(
        self,
        source: TopicSource,
        make: Callable[[], Encoder],
        query: TopicQuery,
        *,
        topic: str,
        spans: Spans,
        heartbeat: bytes = b"\n",
        piece_rows: int | None = None,
    ) -> None:
        self._source = source
        self._make = make
        self._encoder = make()
        self._query = query
        self._topic = topic
        self.spans = spans
        self._heartbeat = heartbeat
        self._piece_rows = piece_rows
        self._left = query.max_records

    async def pieces(self) -> AsyncGenerator[Buffer, None]:
        """Render the whole read.

        Raises:
            RaftlogError: the read failed; the bytes so far are incomplete.
        """
        yield self.begin()
        if self._query.follow:
            async with aclosing(self._follow()) as news:
                async for piece in news:
                    yield piece
        else:
            async with aclosing(self.parts()) as parts:
                async for _, piece in parts:
                    yield piece
        yield await self.end()

    def begin(self) -> bytes:
        """Return the bytes before the records."""
        return self._encoder.begin()

    async def end(self) -> bytes:
        """Return the bytes after the records."""
        return await for_stream(self._encoder.end)

    async def parts(self) -> AsyncGenerator[tuple[StreamPart, Buffer], None]:
        """Read one partition after another up to its end: the same range returns the same bytes.

        With `piece_rows`, a part may be several pieces.
        """
        async with aclosing(self._parts(self.spans)) as parts:
            async for part, data in parts:
                yield part, data

    async def _parts(self, spans: Spans) -> AsyncGenerator[tuple[StreamPart, Buffer], None]:
        for partition, (begin, end) in spans.items():
            assert end is not None
            if begin >= end:
                continue  # Thousands of partitions may be empty.
            async with aclosing(self._cut(partition, begin, end)) as found:
                async for part, rows in found:
                    for some in self._slices(rows):
                        yield part, await for_stream(self._encode, partition, some)
                        if self._left == 0:
                            return

    async def _cut(
        self, partition: int, begin: Offset, end: Offset
    ) -> AsyncGenerator[tuple[StreamPart, pa.Table], None]:
        """Divide a partition into parts at batch boundaries that do not depend on the size of single reads."""
        start, waiting = begin, list[pa.Table]()
        async with aclosing(self._chunks(partition, begin, end)) as chunks:
            async for loaded in chunks:
                rows = loaded.rows
                for cut in loaded.cuts:
                    count = rows_below(rows, cut)
                    yield StreamPart(partition, start, cut), pa.concat_tables([*waiting, rows.slice(0, count)])
                    start, waiting, rows = cut, [], rows.slice(count)
                waiting.append(rows)
        if start < end:
            yield StreamPart(partition, start, end), pa.concat_tables(waiting)

    async def parts_after(self, parts: Sequence[StreamPart]) -> AsyncGenerator[tuple[StreamPart, Buffer], None]:
        """Yield the given parts as they were divided before, then the records after them."""
        at = {partition: begin for partition, (begin, _) in self.spans.items()}
        for part in parts:
            yield part, await for_stream(self._write, part.partition, await self._tables(part))
            at[part.partition] = part.end
        rest = {partition: (at[partition], end) for partition, (_, end) in self.spans.items()}
        async with aclosing(self._parts(rest)) as following:
            async for part, data in following:
                yield part, data

    async def part_again(self, part: StreamPart) -> Buffer:
        """Render a part again; its encoder's parts must be independent."""
        return await for_stream(self._encode_alone, part.partition, await self._tables(part))

    async def _tables(self, part: StreamPart) -> list[pa.Table]:
        async with aclosing(self._chunks(part.partition, part.begin, part.end)) as chunks:
            return [loaded.rows async for loaded in chunks]

    def _write(self, partition: int, tables: list[pa.Table]) -> Buffer:
        return self._encoder.write(self._topic, partition, pa.concat_tables(tables).combine_chunks())

    def _encode_alone(self, partition: int, tables: list[pa.Table]) -> Buffer:
        alone = self._make()
        alone.begin()
        return alone.write(self._topic, partition, pa.concat_tables(tables).combine_chunks())

    async def _chunks(self, partition: int, begin: Offset, end: Offset) -> AsyncGenerator[Loaded, None]:
        """Read a partition in order, one chunk ahead of the rendering, unless the chunk is large."""

        def load(at: Offset, filled: int) -> asyncio.Task[Loaded]:
            return asyncio.ensure_future(self._load_at(Position(partition, at), end, filled))

        ahead: asyncio.Task[Loaded] | None = None
        at, filled = begin, 0
        try:
            while at < end:
                loaded = await (ahead or load(at, filled))
                if loaded.next_offset <= at:
                    raise RaftlogError(f"{self._topic}-{partition}: nothing is there at offset {at}, below {end}")
                at, filled = loaded.next_offset, loaded.filled
                ahead = load(at, filled) if at < end and loaded.rows.nbytes <= _MOST_AHEAD_BYTES else None
                yield loaded
        finally:
            if ahead is not None:
                ahead.cancel()
                await asyncio.gather(ahead, return_exceptions=True)

    async def _load_at(self, at: Position, end: Offset, filled: int) -> Loaded:
        return await self._load(at, await self._source.read(at), end, filled)

    async def _load(self, at: Position, data: Data, end: Offset | None = None, filled: int = 0) -> Loaded:
        wanted = RowSelection(begin=at.offset, end=end, key=self._query.key)
        try:
            return await for_stream(_load, data, wanted, filled)
        except CorruptBatchError:
            # The broker sent it without verification. Requested again, it verifies the batch on its disk.
            return await for_stream(_load, await self._source.read(at, check_crcs=True), wanted, filled)

    def _slices(self, rows: pa.Table) -> Iterator[pa.Table]:
        """Divide rows into those of single pieces; there is at least one piece."""
        each = self._piece_rows or max(1, rows.num_rows)
        return (rows.slice(start, each) for start in range(0, max(1, rows.num_rows), each))

    def _encode(self, partition: int, rows: pa.Table) -> Buffer:
        if self._left is not None:
            rows = rows.slice(0, self._left)
            self._left -= rows.num_rows
        return self._encoder.write(self._topic, partition, rows) if rows.num_rows else b""

    async def _follow(self) -> AsyncGenerator[Buffer, None]:
        """Yield new records of any partition as they arrive."""
        starts = {partition: begin for partition, (begin, _) in self.spans.items()}
        async with aclosing(Tail(self._source, starts, self._load).updates()) as news:
            async for told in news:
                if told is None:
                    yield self._heartbeat
                    continue
                for some in self._slices(told[1].rows):
                    yield await for_stream(self._encode, told[0].partition, some)
                    if self._left == 0:
                        return


def _load(data: Data, wanted: RowSelection, filled: int) -> Loaded:
    result, found = data
    batches = first_that_unpack_to(_MOST_UNPACKED_BYTES, in_memory(found) if isinstance(found, FileRange) else found)
    rows, next_offset, cuts = rows_of(batches, result.aborted, wanted), wanted.begin, list[Offset]()
    for size, next_offset in ends_of(batches):
        filled += size
        if filled >= CHUNK_BYTES and (wanted.end is None or next_offset < wanted.end):
            cuts.append(next_offset)
            filled = 0
    return Loaded(rows, next_offset, tuple(cuts), filled)
