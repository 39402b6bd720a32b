"""The Arrow IPC stream: a schema, record batches, an end.

The topic is a plain string, not dictionary-encoded. That costs its length and four bytes for each record. But some
readers of streams do not support dictionaries, and others fail when a dictionary changes within a stream. The schema is
that of raftlog's own client. To avoid the cost, request other columns only.
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
