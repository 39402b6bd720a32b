"""The Arrow IPC stream: a schema, record batches, an end.

The topic is plain text and not a dictionary. That costs its length and four bytes for each record, but small readers of
streams know no dictionaries, others stumble when a dictionary grows or is replaced within a stream, and so every
reader gets the schema that raftlog's own client hands out. Who wants neither asks for the other columns.
"""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.batch import Buffer
from raftlog.record.formats.named import NamedColumns
from raftlog.record.formats.pieces import whole

_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Encoder:
    """See `raftlog.record.formats.Encoder`. Rows of one call are one record batch."""

    media_type = "application/vnd.apache.arrow.stream"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._named = NamedColumns(columns)

    def begin(self) -> bytes:
        return bytes(memoryview(self._named.schema.serialize()))

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> Buffer:
        if not rows.num_rows:
            return b""
        return memoryview(self._named.of(topic, partition, whole(rows)).serialize())

    def end(self) -> bytes:
        return _END
