"""Stream encoders: compression (`Content-Encoding`), and server-sent events."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from raftlog.broker.topic_reads.query import positions_text
from raftlog.model import Offset
from raftlog.record.formats import Encoder, encoder
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
    """

    media_type = EVENT_STREAM

    def __init__(self, positions: Mapping[int, Offset], columns: tuple[str, ...]) -> None:
        self._positions = dict(positions)
        self._lines = encoder("ndjson", columns)

    def begin(self) -> bytes:
        return b""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        lines = bytes(self._lines.write(topic, partition, rows)).splitlines()
        if not lines:
            return b""
        before, after = self._around(partition)
        offsets = rows.column(0).to_pylist()
        events = [
            b"id: %s%d%s\ndata: %s\n\n" % (before, offset + 1, after, line)
            for offset, line in zip(offsets, lines, strict=True)
        ]
        self._positions[partition] = offsets[-1] + 1
        return b"".join(events)

    def _around(self, partition: int) -> tuple[bytes, bytes]:
        """Return the text of an id before and after the offset of `partition`, which alone changes during a write."""
        lower = {number: offset for number, offset in self._positions.items() if number < partition}
        higher = {number: offset for number, offset in self._positions.items() if number > partition}
        before = f"{positions_text(lower)}," if lower else ""
        after = f",{positions_text(higher)}" if higher else ""
        return f"{before}{partition}:".encode(), after.encode()

    def end(self) -> bytes:
        return b""
