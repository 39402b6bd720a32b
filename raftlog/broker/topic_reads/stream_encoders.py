"""Stream encoders: compression (`Content-Encoding`), and server-sent events."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from raftlog.broker.topic_reads.query import positions_text
from raftlog.model import Offset
from raftlog.record.compute import pc
from raftlog.record.formats import Encoder, require_columns
from raftlog.record.formats.json_rows import objects_json
from raftlog.record.formats.pieces import data_of, pieces, put_together
from raftlog.record.formats.text import joined
from raftlog.wire.codec import Buffer

CODINGS = ("zstd", "gzip")
EVENT_STREAM = "text/event-stream"
EVENT_ROWS = 1_000
"""The most rows that become server-sent events at once."""


class _Taken:
    """A file object that buffers written bytes until `take`."""

    closed = False

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def take(self) -> bytes:
        written, self._written = self._written, []
        return b"".join(written)


class Compressed:
    """An encoder that compresses another encoder's bytes."""

    def __init__(self, inner: Encoder, coding: str) -> None:
        self.media_type = inner.media_type
        self._inner = inner
        self._sink = _Taken()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._sink, mode="w"), coding)

    def begin(self) -> bytes:
        return self._compress(self._inner.begin())

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        return self._compress(self._inner.write(topic, partition, rows))

    def end(self) -> bytes:
        last = self._compress(self._inner.end())
        self._stream.close()
        return last + self._sink.take()

    def _compress(self, data: Buffer) -> bytes:
        if data:
            self._stream.write(data)
        return self._sink.take()


class Events:
    """Encodes records as server-sent events; an event's id has the positions after it (WHATWG HTML, 9.2).

    With 100 partitions an id has 1.5 KB, so the caller renders `EVENT_ROWS` rows at once.

    Args:
        positions: the first offset of each partition.

    Raises:
        InvalidRequestError: see `require_columns`.
    """

    media_type = EVENT_STREAM

    def __init__(self, positions: Mapping[int, Offset], columns: tuple[str, ...]) -> None:
        require_columns(columns)
        self._positions = dict(positions)
        self._columns = columns

    def begin(self) -> bytes:
        return b""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> memoryview:
        before, after = self._around(partition)
        if rows.num_rows:
            self._positions[partition] = rows.column("offset")[-1].as_py() + 1
        return put_together(self._render(before, after, topic, partition, piece) for piece in pieces(rows))

    def _render(self, before: str, after: str, topic: str, partition: int, rows: pa.RecordBatch) -> memoryview:
        positions = pc.add(rows.column("offset"), 1).cast(pa.string())
        objects = objects_json(self._columns, topic, partition, rows)
        return data_of(joined([f"id: {before}", positions, f"{after}\ndata: ", *objects, "\n\n"], rows.num_rows))

    def _around(self, partition: int) -> tuple[str, str]:
        """Return the text of an id before and after the offset of `partition`, which alone changes during a write."""
        lower = {number: offset for number, offset in self._positions.items() if number < partition}
        higher = {number: offset for number, offset in self._positions.items() if number > partition}
        before = f"{positions_text(lower)}," if lower else ""
        after = f",{positions_text(higher)}" if higher else ""
        return f"{before}{partition}:", after

    def end(self) -> bytes:
        return b""
